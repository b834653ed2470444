"""Where a run keeps its files: the disk of this machine, what `hadoop fs` reaches (HDFS, S3, ...), or S3."""

import contextlib
import fnmatch
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
from typing import NamedTuple

from .errors import JobError
from .inputs import expand

# mode, replicas, owner, group, bytes, day, minute, path; a group may have blanks in it
_LISTED = re.compile(r"[-d][-r][-w].* (?P<size>\d+) (?P<changed>\d{4}-\d\d-\d\d \d\d:\d\d) (?P<name>.*)")


class File(NamedTuple):
    path: str
    size: int  # bytes
    changed: object  # what tells a later version from this one


class LocalStorage:
    """Files of this machine."""

    def renames(self, _):
        """Whether a folder can be moved as a whole."""
        return True

    def find(self, paths):
        """The files that paths, globs and folders name; JobError for one that names none."""
        return [File(path, os.path.getsize(path), os.stat(path).st_mtime_ns) for path in expand(paths)]

    def names(self, folder):
        """What is in a folder, or None where there is none."""
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise JobError(f"--output-dir must be a directory, got the file {folder}")
        return os.listdir(folder) if os.path.exists(folder) else None

    def sizes(self, folder):
        """{path below the folder: bytes} of all files in it; empty where there is none."""
        found = {}
        for parent, _, names in os.walk(folder):
            for path in (os.path.join(parent, name) for name in names):
                found[os.path.relpath(path, folder)] = os.path.getsize(path)
        return found

    def lines(self, folder):
        """The lines of a folder's part files, with their ends."""
        for name in sorted(os.listdir(folder)):
            if name[0] not in "._":
                with open(os.path.join(folder, name), "rb") as file:
                    yield from file

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def open(self, path):
        return open(path, "rb")

    def write(self, path, data):
        """Write a file that is whole or absent."""
        with open(path + ".tmp", "wb") as file:
            file.write(data)
        os.rename(path + ".tmp", path)

    def make(self, folder):
        os.makedirs(os.path.realpath(folder), exist_ok=True)  # it may be reached by a link made before it

    def take(self, storage, folders):
        """Move folders, {from: to}, here from a storage; each appears whole."""
        for source, target in folders.items():
            if not isinstance(storage, LocalStorage):
                aside = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.tmp")
                self.remove(aside)
                storage.download(source, aside)
                source = aside
            os.rename(source, target)

    def remove(self, *paths):
        for path in paths:
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def lock(self, path, folder):
        """Let one process at a time work in a folder: a function that ends this.

        The system lets go of the lock when the process ends, however it does.
        """
        file = open(path, "w")
        with contextlib.suppress(ImportError):  # no fcntl, no lock
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                raise JobError(f"another run is at work in {folder}") from None
        return file.close


class HadoopStorage:
    """What `hadoop fs` reaches. Each call starts a JVM, so that methods take many paths where they can."""

    def __init__(self, command):
        self._command = command

    def renames(self, path):
        return not re.match("s3|gs:", path)  # there, moving is copying

    def find(self, paths):
        found = []
        for path in paths:
            listing = self._list(path)
            if listing is None:
                raise JobError(f"no such file: {path}")
            files = [file for file in listing if not _is_hidden(file.path, path)]
            if not files:
                raise JobError(f"a directory given as input must hold files, got an empty one: {path}")
            found += sorted(files)
        return found

    def names(self, folder):
        listing = self._lines_of("-ls", folder)
        if listing and len(listing) == 1 and path_part(_name_in(listing[0])) == path_part(folder):
            raise JobError(f"--output-dir must be a directory, got the file {folder}")
        return None if listing is None else [_name_in(line).rpartition("/")[2] for line in listing]

    def sizes(self, folder):
        start = len(path_part(folder)) + 1
        return {path_part(file.path)[start:]: file.size for file in self._list(folder) or []}

    def lines(self, folder):
        with self._open("-cat", f"{folder}/part-*") as stream:
            yield from stream

    def read(self, path):
        return self._run("-cat", path)

    def open(self, path):
        return self._open("-cat", path, whole=False)

    def write(self, path, data):
        self._run("-put", "-f", "-", path, input=data)

    def make(self, folder):
        self._run("-mkdir", "-p", folder)

    def upload(self, source, folder):
        """Copy a folder of this machine, as `folder`."""
        self.make(folder.rpartition("/")[0])
        self._run("-put", source, folder)

    def download(self, folder, target):
        """Copy the part files of a folder to this machine, into a new folder."""
        os.makedirs(target)
        self._run("-get", f"{folder}/part-*", target)

    def take(self, _, folders):
        by_target = {}
        for source, target in folders.items():
            by_target.setdefault(target.rpartition("/")[0], []).append(source)
        for target, sources in by_target.items():
            self._run("-mv", *sources, target)

    def remove(self, *paths):
        self._run("-rm", "-r", "-f", "-skipTrash", *paths)

    def lock(self, path, folder):
        result = self._try("-put", "-", path, input=_owner())
        if result.returncode:
            if b"File exists" not in result.stderr:
                raise JobError(last_line(result.stderr, f"hadoop fs -put {path} failed"))
            _check_gone(self.read(path), path, folder)
            self.write(path, _owner())
        return lambda: self.remove(path)

    def _list(self, path):
        """The files in or below a path or glob; None where it names nothing."""
        listing = self._lines_of("-ls", "-R", path)
        if listing is None:
            return None
        matches = [_LISTED.match(line) for line in listing if not line.startswith("d")]
        return [File(found["name"], int(found["size"]), found["changed"]) for found in matches]

    def _lines_of(self, *arguments):
        result = self._try(*arguments)
        if result.returncode:
            if b"No such file or directory" not in result.stderr:
                raise JobError(last_line(result.stderr, f"hadoop fs {' '.join(arguments)} failed"))
            return None
        return list(filter(_LISTED.match, result.stdout.decode().split("\n")))

    def _run(self, *arguments, input=None):
        result = self._try(*arguments, input=input)
        if result.returncode:
            raise JobError(last_line(result.stderr, f"hadoop fs {' '.join(arguments)} failed"))
        return result.stdout

    def _try(self, *arguments, input=b""):
        return subprocess.run([*self._command, *arguments], input=input or b"", capture_output=True)

    @contextlib.contextmanager
    def _open(self, *arguments, whole=True):
        """The output of a command as a stream; if it need not be `whole`, the rest may stay unread."""
        with (
            tempfile.TemporaryFile() as stderr,
            subprocess.Popen(
                [*self._command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=1 << 20,
            ) as process,
        ):
            try:
                yield process.stdout
                if whole and process.wait():
                    stderr.seek(0)
                    raise JobError(last_line(stderr.read(), f"hadoop fs {' '.join(arguments)} failed"))
            finally:
                process.kill()


class S3Storage:
    """What a client of boto3 reaches; a folder is there once something is in it."""

    def __init__(self, client):
        self._client = client

    def renames(self, _):
        return False

    def find(self, paths):
        found = []
        for path in paths:
            pattern, base = path.rstrip("/"), re.split(r"[*?\[]", path)[0].rstrip("/")
            named = [
                file
                for file in self._list(base)
                if any(fnmatch.fnmatchcase(file.path, one) for one in (pattern, pattern + "/*"))
            ]
            if not named:
                raise JobError(f"no such file: {path}")
            files = [file for file in named if file.size and not _is_hidden(file.path, path)]
            if not files:
                raise JobError(f"a directory given as input must hold files, got an empty one: {path}")
            found += sorted(files)
        return found

    def names(self, folder):
        files = self._list(folder)
        if any(file.path == folder for file in files):
            raise JobError(f"--output-dir must be a directory, got the file {folder}")
        found = {file.path[len(folder) + 1 :].partition("/")[0] for file in self._below(folder)}
        return sorted(found) or None

    def sizes(self, folder):
        return {file.path[len(folder) + 1 :]: file.size for file in self._below(folder)}

    def lines(self, folder):
        for path in self._parts(folder):
            yield from self._body(path).iter_lines(1 << 20, keepends=True)

    def read(self, path):
        return self._body(path).read()

    def open(self, path):
        return contextlib.closing(self._body(path))

    def write(self, path, data):
        self._client.put_object(**_place(path), Body=data)

    def make(self, folder):
        """Nothing: writing a file makes its folder."""

    def upload(self, source, folder):
        """Copy a folder of this machine, as `folder`."""
        for name in sorted(os.listdir(source)):
            place = _place(f"{folder}/{name}")
            self._client.upload_file(os.path.join(source, name), place["Bucket"], place["Key"])

    def download(self, folder, target):
        """Copy the part files of a folder to this machine, into a new folder."""
        os.makedirs(target)
        for path in self._parts(folder):
            place = _place(path)
            name = os.path.join(target, path.rpartition("/")[2])
            self._client.download_file(place["Bucket"], place["Key"], name)

    def remove(self, *paths):
        for path in paths:
            bucket = _place(path)["Bucket"]
            keys = [
                {"Key": _place(file.path)["Key"]}
                for file in self._list(path)
                if file.path == path or file.path.startswith(path + "/")
            ]
            for start in range(0, len(keys), 1000):  # a limit of S3
                chunk = {"Objects": keys[start : start + 1000], "Quiet": True}
                failed = self._client.delete_objects(Bucket=bucket, Delete=chunk).get("Errors")
                if failed:
                    raise JobError(f"{path}: {failed[0]['Message']}")

    def lock(self, path, folder):
        data = _owner()
        try:
            self._client.put_object(**_place(path), Body=data, IfNoneMatch="*")
        except self._client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise
            _check_gone(self.read(path), path, folder)
            self.write(path, data)
        return lambda: self.remove(path)

    def _list(self, prefix):
        place = _place(prefix)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=place["Bucket"], Prefix=place["Key"]
        )
        return [
            File(f"s3://{place['Bucket']}/{item['Key']}", item["Size"], item["ETag"].strip('"'))
            for page in pages
            for item in page.get("Contents", ())
        ]

    def _below(self, folder):
        return self._list(folder + "/")

    def _parts(self, folder):
        return sorted(file.path for file in self._list(f"{folder}/part-"))

    def _body(self, path):
        return self._client.get_object(**_place(path))["Body"]


def _place(uri):
    bucket, _, key = re.sub(r"^\w+://", "", uri).partition("/")
    return {"Bucket": bucket, "Key": key}


def _owner():
    """What the lock of a remote folder holds: this process."""
    pid = os.getpid()
    return json.dumps({"host": socket.gethostname(), "pid": pid, "start": _start_of(pid)}).encode()


def _check_gone(owner, path, folder):
    """JobError unless the owner of the lock was a process here that is no more."""
    other = json.loads(owner)
    if other["host"] != socket.gethostname() or _start_of(other["pid"]) == other["start"]:
        raise JobError(
            f"another run is at work in {folder}: process {other['pid']} of {other['host']} "
            f"(if it is dead, remove {path})"
        ) from None


def path_part(path):
    """The path in a URI, without scheme and host; a plain path as it is."""
    return re.sub(r"^\w+://[^/]*", "", path).rstrip("/")


def _name_in(line):
    """The path in a line of a listing."""
    return _LISTED.match(line)["name"]


def _start_of(pid):
    """When a process started, to tell it from a later one of the same number; None if it is not there."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return None


def _is_hidden(path, root):
    """Whether a name below the root, or one that it matches as a glob, starts with a dot or an underscore."""
    root = path_part(root)
    start = root.count("/") + (not re.search(r"[*?\[{]", root.rpartition("/")[2]))
    return any(name[:1] in ("_", ".") for name in path_part(path).split("/")[start:])


def last_line(stderr, otherwise):
    """What a command said of its failure: the last line that is neither log record nor stack trace."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    told = [
        line
        for line in lines
        if not re.match(r"\d{4}-\d\d-\d\d |\d\d/\d\d/\d\d |at |Caused by|Usage: ", line)
    ]
    return (told or lines or [otherwise])[-1]
