"""Documents: lines of JSON or TSV to (id, text), and the 64-bit keys that stand for them in the jobs.

A document's *key* hashes its whole line, so that a later pass over the documents recognises them without
parsing. That ids are unique is checked apart, on hashes of the ids.
"""

import json
import math
from json.encoder import encode_basestring
from typing import NamedTuple, Optional, Union

import mmh3
import numpy as np

from .blocks import is_block

_SHOWN = 80  # characters of a bad record in a message
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_scan = json.JSONDecoder().scan_once


class RecordError(ValueError):
    """A line that is no document; the message says why."""


class Document(NamedTuple):
    id: Union[str, int]
    text: str
    value: Union[str, float, None]  # of the value field, if one is asked for


class Layout(NamedTuple):
    """Where id, text and a further value stand in a record."""

    id_field: str = "id"
    text_fields: tuple[str, ...] = ("text",)  # more than one are joined by a line break
    value_field: Optional[str] = None
    tsv: bool = False  # `id TAB text`; the fields are then not looked at

    def read(self, line):
        """The `Document` of a line of bytes without its end; RecordError where it is none.

        >>> Layout().read(b'{"id": "d1", "text": "Good night"}')
        Document(id='d1', text='Good night', value=None)
        """
        if line.startswith(_BYTE_ORDER_MARK):
            line = line[len(_BYTE_ORDER_MARK) :]
        try:
            decoded = line.decode()
        except UnicodeDecodeError as error:
            raise RecordError(f"not UTF-8: {error.reason} at byte {error.start}") from None
        return self._read_tsv(decoded) if self.tsv else self._read_json(decoded)

    def _read_tsv(self, line):
        id_, tab, text = line.partition("\t")
        if not tab:
            raise RecordError(f"no tab between id and text in {_shown(line)}")
        if is_block(line.encode()):
            raise RecordError(f"a line of a stage's output: {_shown(line)}")
        return Document(id_, text, None)

    def _read_json(self, line):
        try:
            record, end = _scan(line, 0)
            if end != len(line):
                record = json.loads(line)
        except (StopIteration, ValueError, RecursionError):
            record = _load(line)
        if not isinstance(record, dict):
            raise RecordError(f"not a JSON object: {_shown(line)}")
        try:
            id_ = record[self.id_field]
            texts = [record[field] for field in self.text_fields]
            value = record[self.value_field] if self.value_field is not None else None
        except KeyError as error:
            raise RecordError(f'no "{error.args[0]}" in {_shown(line)}') from None
        if not isinstance(id_, (str, int)) or isinstance(id_, bool):
            raise RecordError(f'"{self.id_field}" is neither a string nor an integer in {_shown(line)}')
        for field, text in zip(self.text_fields, texts):
            if not isinstance(text, str):
                raise RecordError(f'"{field}" is not a string in {_shown(line)}')
        if self.value_field is not None and not _is_comparable(value):
            raise RecordError(f'"{self.value_field}" is neither string nor number in {_shown(line)}')
        text = texts[0] if len(texts) == 1 else "\n".join(texts)
        try:
            for used in (text, id_, value):
                if isinstance(used, str) and not used.isascii():
                    used.encode()
        except UnicodeEncodeError:
            raise RecordError(f"a lone surrogate in {_shown(line)}") from None
        return Document(id_, text, value)


def _load(line):
    """json.loads has the last word on what the fast scan did not take."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", None) or str(error) or "nested too deep"
        raise RecordError(f"not JSON ({reason}): {_shown(line)}") from None


def _is_comparable(value):
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _shown(line):
    """The start of a record for a message, without what would work on a terminal."""
    start = line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in start)


def record_keys(lines, seed=0):
    """The key of each line without its end: uint64. A lone CR, which ends lines in Hadoop, is a blank."""
    return _hashes([portable(line) for line in lines], seed)


def portable(line):
    """A line as it may travel: where JSON or a word may hold a CR, it means a blank."""
    return line.replace(b"\r", b" ") if b"\r" in line else line


def id_keys(ids, seed=0):
    """A 64-bit hash of each id, by which an id given twice is found: uint64.

    >>> bool(id_keys(["1"])[0] == id_keys([1])[0])
    False
    """
    # no UTF-8 starts with the byte that marks an integer
    return _hashes([id_.encode() if isinstance(id_, str) else b"\xff%d" % id_ for id_ in ids], seed)


def id_json(id_):
    """The JSON of an id, as bytes."""
    return (encode_basestring(id_) if isinstance(id_, str) else str(id_)).encode()


def id_order(id_):
    """The sort key of ids: integers by value, then strings by code points."""
    return (isinstance(id_, str), id_)


def _hashes(data, seed):
    digest, seed = mmh3.hash64, seed & 0xFFFFFFFF
    return np.fromiter((digest(x, seed, signed=False)[0] for x in data), np.uint64, len(data))
