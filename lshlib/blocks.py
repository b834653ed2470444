"""Blocks: some thousand rows as named numpy columns in one line, the record that travels between tasks.

A line is `key TAB name:dtype:base64 name:dtype:base64 ...` behind a mark, so that a job which reads
blocks beside documents can tell them apart. `python -m lshlib.blocks FILE...` prints the rows.
"""

import re
import sys
from binascii import a2b_base64, b2a_base64

import numpy as np

MARK = b"#block "


_HEAD = re.compile(MARK + rb"[^\t]*\t\w+:[<|]\w+:")
_BYTES = b"="  # before a value that is no block; no column's name starts with it


class BlockError(ValueError):
    """A line that is no block."""


class BlockProtocol:
    """The protocol of blocks for mrjob: key str, value dict of one-dimensional arrays.

    A value may also be bytes without line ends: a whole document, where its columns would be longer.
    """

    def read(self, line):
        """(key, value) of a line without its end; BlockError where it is none."""
        if not line.startswith(MARK):
            raise BlockError(f"a line must be a block, got {line[:60]!r}")
        key, _, value = line.partition(b"\t")
        return key[len(MARK) :].decode(), value[1:] if value.startswith(_BYTES) else decode(value)

    def write(self, key, value):
        """The line of a key and a value, without its end."""
        data = _BYTES + value if isinstance(value, bytes) else encode(value)
        return b"%s%s\t%s" % (MARK, key.encode(), data)


def is_block(line):
    """Whether a line is a block, by the mark and the head of the first column."""
    return line.startswith(MARK) and _HEAD.match(line) is not None


def encode(columns):
    """Columns as printable bytes without tab, CR or LF.

    >>> encode({"key": np.array([1, 2], np.uint8)})
    b'key:|u1:AQI='
    """
    parts = []
    for name, array in columns.items():
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        text = b2a_base64(array, newline=False)
        parts.append(b"%s:%s:%s" % (name.encode(), array.dtype.str.encode(), text))
    return b" ".join(parts)


def decode(data):
    """The columns that `encode` wrote; the arrays are read-only.

    >>> decode(b"key:|u1:AQI=")
    {'key': array([1, 2], dtype=uint8)}
    """
    columns = {}
    for part in data.split():
        name, dtype, text = part.split(b":", 2)
        columns[name.decode()] = np.frombuffer(a2b_base64(text), np.dtype(dtype.decode()))
    return columns


def concatenate(blocks):
    """One block of the rows of all; all must have the same columns. None where there are no blocks."""
    blocks = list(blocks)
    if len(blocks) < 2:
        return blocks[0] if blocks else None
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def take(columns, rows):
    """The block of these rows: numbers, a mask or a slice."""
    return {name: array[rows] for name, array in columns.items()}


def deal(columns, numbers):
    """(number, block of the rows with it) for each number that occurs, in ascending order.

    >>> [(n, b["key"].tolist()) for n, b in deal({"key": np.array([5, 6, 7])}, np.array([1, 0, 1]))]
    [(0, [6]), (1, [5, 7])]
    """
    if not len(numbers):
        return
    # numbers of 16 bits are sorted by radix
    narrow = numbers.astype(np.uint16) if numbers.max() < 1 << 16 else numbers
    order = np.argsort(narrow, kind="stable")
    columns, numbers = take(columns, order), numbers[order]
    bounds = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    starts, ends = [0, *bounds.tolist()], [*bounds.tolist(), len(numbers)]
    for start, end in zip(starts, ends):
        yield int(numbers[start]), take(columns, slice(start, end))


def pack(strings):
    """Byte strings as (array of bytes, array of their lengths), for two columns of one block each."""
    lengths = np.fromiter(map(len, strings), np.uint32, len(strings))
    return np.frombuffer(b"".join(strings), np.uint8), lengths


def unpack(data, lengths):
    """The byte strings that `pack` took.

    >>> unpack(*pack([b"one", b"", b"two"]))
    [b'one', b'', b'two']
    """
    data = data.tobytes()
    ends = np.cumsum(lengths, dtype=np.int64)
    return [data[a:b] for a, b in zip((ends - lengths).tolist(), ends.tolist())]


def main(paths):
    """Print blocks as a person reads them: key, then name=value, a row a line."""
    for path in paths:
        with open(path, "rb") as lines:
            for line in lines:
                if not line.startswith(MARK):
                    continue
                key, columns = BlockProtocol().read(line)
                if isinstance(columns, bytes):
                    print(key, columns.decode(errors="backslashreplace"), sep="\t")
                    continue
                lists = {name: array.tolist() for name, array in columns.items()}
                for i in range(max(map(len, lists.values()), default=0)):
                    row = (f"{name}={v[i]}" for name, v in lists.items() if i < len(v))
                    print(key, *row, sep="\t")


if __name__ == "__main__":
    main(sys.argv[1:])
