"""The input of a run: its files, by the names that the user, the driver and the tasks have for them."""

import hashlib
import os
import re

from .errors import JobError
from .inputs import MAGIC, count_lines, is_remote, opener
from .storage import File, path_part


class Corpus:
    """The files that `paths` name: files, globs, folders, and - for a stream.

    `storage_of(path)` is what reads a path; `files` are in the order of the paths. JobError, in one line,
    where a path names no file, or the stream is asked for twice.
    """

    def __init__(self, paths, storage_of):
        if paths.count("-") > 1:
            raise JobError("standard input must be given once, got - twice")
        self._storage_of = storage_of
        self._found = [(path, storage_of(path).find([path]) if path != "-" else []) for path in paths]
        self._names = {}  # {path: what the user calls it}
        for path in paths:
            if is_remote(path) and "," in path:
                raise JobError(f"input on a cluster must have no comma in its name, got {path}")

    def spool(self, stream, path):
        """Copy the stream to a file of this machine."""
        for given, files in self._found:
            if given == "-":
                spooled, digest = spool(stream, path)
                self._names[spooled] = "standard input"
                files[:] = [File(spooled, os.path.getsize(spooled), digest)]

    @property
    def files(self):
        return [file for _, files in self._found for file in files]

    def identity(self):
        """What tells this input from another: names, sizes and times, and the digest of a stream."""
        told = []
        for path, files in self._found:
            if path == "-":
                told += [["standard input", file.changed] for file in files]
            else:
                told += [[_full(file.path), file.size, file.changed] for file in files]
        return told

    # where tasks find it

    def read_in_place(self):
        """Tasks read the files where they are, and know them by their full names."""
        for file in self.files:
            self._names.setdefault(_full(file.path), file.path)

    def read_copies(self, folder):
        """Tasks read copies of the files of this machine, in a folder: (name in it, file) of each."""
        copies = []
        for _, files in self._found:
            for place, file in enumerate(files):
                if not is_remote(file.path):
                    # not all names of files here are names there
                    ending = re.search(r"(\.\w+)?$", file.path)[0]
                    copies.append((f"{len(copies):05d}{ending}", file))
                    files[place] = file._replace(path=f"{folder}/{copies[-1][0]}")
                    self._names[files[place].path] = self._names.get(file.path, file.path)
        return copies

    def remote_paths(self):
        """(path as it was given, bytes) of what is on a cluster."""
        return [(path, sum(file.size for file in files)) for path, files in self._found if is_remote(path)]

    def renamed(self, text):
        """A message with the names of files that the user knows."""
        for path, name in self._names.items():
            text = re.sub(rf"(\w+://[^\s/]*)?{re.escape(path_part(path))}", lambda _, name=name: name, text)
        return text

    # its bytes

    def head(self, path, count):
        """The first bytes of a file, as it is stored."""
        with self._storage_of(path).open(path) as stream:
            return stream.read(count)

    def lines(self, path):
        """The lines of a file, decompressed, with their ends."""
        with self._storage_of(path).open(path) as stream:
            yield from (opener(path)(stream) if opener(path) else stream)

    def lines_before(self, path, offset):
        """How many lines of a file come before the part that a task read from an offset on.

        Hadoop gives a line to the part in which it starts or, at its first byte, to the one before.
        """
        if not offset:
            return 0
        (known,) = (file.path for file in self.files if path_part(file.path) == path_part(path))
        with self._storage_of(known).open(known) as stream:
            return count_lines(stream, offset) + 1


def _full(path):
    return path if is_remote(path) else os.path.abspath(path)


def spool(stream, path):
    """(path, SHA-256) of a file with what a stream holds; its name ends as its compression asks."""
    digest, head = hashlib.sha256(), b""
    with open(path, "wb") as file:
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            head = (head + chunk[:3])[:3]
            digest.update(chunk)
            file.write(chunk)
    named = path + next((end for magic, end in MAGIC.items() if head.startswith(magic)), "")
    os.rename(path, named)
    return named, digest.hexdigest()
