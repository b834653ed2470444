"""The shuffle of the default runner: spill files of mappers, and the parts of them that reducers read."""

import contextlib
import os
from array import array

import numpy as np

from lshlib.hashing import hash64

from .splits import READ


class Spill:
    """The output of one mapper that goes to reducers: lines in a file, and an index of them beside it.

    The index has three uint64 numbers a line: a hash of its key, offset and length.
    """

    _BUFFERED = 30_000  # numbers

    def __init__(self, path):
        self._file = open(path, "wb", buffering=READ)
        self._index = open(path + ".index", "wb")
        self._numbers, self._offset = array("Q"), 0

    def write(self, data):
        """Take a line without its end, or the end; mrjob writes them one after the other."""
        self._file.write(data)
        if data != b"\n":
            key = data[: data.find(b"\t")] if b"\t" in data else data
            self._numbers.extend((hash64(key), self._offset, len(data)))
            if len(self._numbers) >= self._BUFFERED:
                self.flush()
        self._offset += len(data)

    def flush(self):
        self._numbers.tofile(self._index)
        del self._numbers[:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.closing(self._file), contextlib.closing(self._index):
            self.flush()

    @staticmethod
    def index(path):
        """(hashes, offsets, lengths) of the lines."""
        return np.fromfile(path + ".index", np.uint64).reshape(-1, 3).T

    @staticmethod
    def remove(path):
        os.unlink(path)
        os.unlink(path + ".index")


class Partition:
    """One reducer's share of all spills, lines of one key together, as its standard input."""

    def __init__(self, spills, number, partitions):
        self.spills, self.number, self.partitions = spills, number, partitions
        self.size = sum(map(os.path.getsize, spills)) // partitions
        self.report = None

    def _lines(self):
        """(spill, offset, length) of each line: by the hash of its key, then as the mappers wrote it."""
        columns = [[], [], [], []]
        for number, path in enumerate(self.spills):
            hashes, offsets, lengths = Spill.index(path)
            mine = hashes % np.uint64(self.partitions) == self.number
            parts = hashes[mine], np.full(np.count_nonzero(mine), number), offsets[mine], lengths[mine]
            for column, part in zip(columns, parts):
                column.append(part)
        hashes, spills, offsets, lengths = map(np.concatenate, columns)
        order = np.lexsort((offsets, spills, hashes))
        return zip(*(column[order].tolist() for column in (spills, offsets, lengths)))

    def __iter__(self):
        done, parent = 0, os.getppid()
        files = [os.open(path, os.O_RDONLY) for path in self.spills]
        try:
            for spill, offset, length in self._lines():
                yield _read_at(files[spill], offset, length)
                done += length
                self.report(min(done, self.size))
                if os.getppid() != parent:
                    os._exit(1)
            self.report(self.size)
        finally:
            for file in files:
                os.close(file)


def _read_at(file, offset, length):
    """`length` bytes at `offset`; one call reads at most 2 GB."""
    data = os.pread(file, length, offset)
    while len(data) < length:
        data += os.pread(file, length - len(data), offset + len(data))
    return data
