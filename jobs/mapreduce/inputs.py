"""Input files: which they are, and their lines, plain or compressed."""

import bz2
import glob
import gzip
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


def lines(path):
    """The lines of a local file, without their ends."""
    open_ = opener(path) or open
    with open_(path, "rb") as file:
        for line in file:
            yield line.rstrip(b"\r\n")


def estimated_records(files):
    """About how many lines local files hold, from the start of the first that has any."""
    files = [path for path in files if not is_remote(path) and os.path.getsize(path)]
    total = sum(os.path.getsize(path) * (4 if opener(path) else 1) for path in files)
    if not total:
        return 0
    try:
        with (opener(files[0]) or open)(files[0], "rb") as file:
            sample = file.read(_SAMPLE)
    except (OSError, EOFError):  # a damaged file: the job itself will say so
        return 0
    return total * (sample.count(b"\n") + 1) // max(1, len(sample))
