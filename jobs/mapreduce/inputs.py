"""Input files: which they are, and their lines, plain or compressed."""

import bz2
import contextlib
import glob
import gzip
import io
import os

from .errors import JobError

OPENERS = {".gz": gzip.open, ".bz2": bz2.open}
MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2"}
_SAMPLE = 1 << 20


def opener(path):
    """gzip.open or bz2.open for a compressed file, by its name, else None."""
    return OPENERS.get(os.path.splitext(path)[1])


def is_remote(path):
    return "://" in path


def expand(paths):
    """The files that paths, globs and directories name, in order; JobError where there are none."""
    files = []
    for path in paths:
        if is_remote(path):
            files.append(path)
            continue
        found = [path] if os.path.exists(path) else sorted(glob.glob(path))
        if not found:
            raise JobError(f"no such file: {path}")
        for name in found:
            inside = _files_below(name) if os.path.isdir(name) else [name]
            if not inside:
                raise JobError(f"a directory given as input must hold files, got an empty one: {name}")
            files += inside
    for name in files:
        if is_remote(name):
            continue
        if not os.path.exists(name):
            raise JobError(f"no such file: {name}")
        if not os.path.isfile(name):  # it is read more than once
            raise JobError(f"input must be files, got {name}: give - and pipe it to standard input")
        if not os.access(name, os.R_OK):
            raise JobError(f"Permission denied: {name}")
    return files


def _files_below(folder):
    """Files in all depths, without names that start with a dot or an underscore, as in Hadoop."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "._"]
        found += [os.path.join(parent, name) for name in names if name[0] not in "._"]
    return sorted(found)


def lines_before(path, start):
    """How many lines end in the first `start` bytes of a file of this machine."""
    if not start:
        return 0
    with open(path, "rb") as file:
        return count_lines(file, start)


def count_lines(stream, size):
    """How many lines end in the next `size` bytes of a stream."""
    count = 0
    while size > 0:
        chunk = stream.read(min(size, 1 << 20))
        if not chunk:
            break
        count += chunk.count(b"\n")
        size -= len(chunk)
    return count


def average_line(sample, opener=None):
    """Bytes of a line, about, in the start of a file that `opener` decompresses."""
    if opener:
        sample = _decompressed(opener(io.BytesIO(sample)))
    return max(1, len(sample) // (sample.count(b"\n") + 1))


def _decompressed(stream):
    """The start of a stream that is cut or damaged somewhere."""
    found = []
    with stream, contextlib.suppress(OSError, EOFError):
        while len(found) < 16 and (chunk := stream.read1(_SAMPLE // 16)):
            found.append(chunk)
    return b"".join(found)
