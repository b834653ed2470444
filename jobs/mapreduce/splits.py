"""Shares of the input: whole lines of files, plain or compressed, read where they are."""

import io
import mmap
import os
import zlib

from .errors import JobError
from .inputs import lines_before
from .inputs import opener as opener_of

READ = 1 << 20  # bytes at a time


def line_ranges(path, size):
    """(start, end) of about `size` bytes each and of whole lines; a compressed file is one range."""
    total = os.path.getsize(path)
    if opener_of(path) or total <= size:
        return [(0, total)] if total else []
    ranges, start = [], 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while start < total:
            end = data.find(b"\n", min(start + size, total) - 1) + 1 or total
            ranges.append((start, end))
            start = end
    return ranges


class Split:
    """Whole lines of one or more files, as the standard input of a mapper."""

    def __init__(self, ranges):
        self.ranges = ranges
        self.size = sum(end - start for _, start, end in ranges)
        path, start, end = ranges[0] if ranges else ("", 0, 0)
        self._here = os.getcwd()  # tasks work elsewhere
        self.first = {"file": self._absolute(path), "start": start, "length": end - start}
        self.report = None

    def _absolute(self, path):
        return os.path.join(self._here, path)

    def place(self, number):
        """(file, line number) of line `number`, from 0, of the batch given last."""
        path, start, before = self._at
        return path, lines_before(self._absolute(path), start) + before + number + 1

    def __iter__(self):
        for lines in self.batches(READ):
            yield from lines

    def batches(self, size):
        """Lists of lines of about `size` bytes, all of one file."""
        done, parent = 0, os.getppid()
        for path, start, end in self.ranges:
            opener, file = opener_of(path), self._absolute(path)
            before = 0
            batches = _compressed(file, opener, size) if opener else _plain(file, start, end, size)
            for position, lines in batches:
                self._at = path, start, before
                yield lines
                before += len(lines)
                self.report(done + position)
                if os.getppid() != parent:
                    os._exit(1)  # the driver is gone: nobody waits for this task
            done += end - start


def _plain(path, start, end, size):
    with open(path, "rb", buffering=READ) as file:
        file.seek(start)
        position = start
        while position < end:
            lines = file.readlines(min(size, end - position))
            if not lines:
                raise JobError(f"{path} was cut while it was read")
            position += sum(map(len, lines))
            while position > end:  # readlines goes on after a line that just fills its hint
                position -= len(lines.pop())
            yield position - start, lines


def _compressed(path, opener, size):
    with open(path, "rb") as raw, opener(raw, "rb") as file:
        buffered = io.BufferedReader(file, READ)
        while True:
            try:
                lines = buffered.readlines(size)
            except (EOFError, OSError, zlib.error) as error:
                raise JobError(f"{path} is truncated or damaged: {error}") from None
            if not lines:
                return
            yield raw.tell(), lines
