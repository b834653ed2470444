"""Texts to tokens, a batch at a time and without a loop over tokens.

A token is a maximal run of letters, digits and marks; everything else separates, underscores and
punctuation included. In scripts that are written without spaces (Chinese, Japanese, Thai, Lao, Khmer,
Burmese) each character is a token of its own.

A batch becomes one array of UTF-8 bytes in which every separator is a zero byte. A token is then what
stands between zeros, and its hash comes from unaligned loads of eight bytes at its start.
"""

import re
import unicodedata
from typing import NamedTuple

import numpy as np

from .hashing import GOLDEN, SHIFT, STAFFORD_1, STAFFORD_2, hash64, mix


class Tokens(NamedTuple):
    """The tokens of a batch: text i has `hashes[offsets[i]:offsets[i + 1]]`."""

    hashes: np.ndarray  # uint64, one a token
    offsets: np.ndarray  # int64, one more than texts


# Code points of the scripts in which each character is a token.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # ideographic iteration and closing marks, zero
    (0x3021, 0x3029),  # Hangzhou numerals
    (0x3041, 0x312F),  # Hiragana, Katakana, Bopomofo
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA9E0, 0xA9FF),  # Burmese, extended
    (0xAA60, 0xAA7F),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),  # half-width Katakana
    (0x1AFF0, 0x1B16F),  # Kana supplements
    (0x20000, 0x323AF),  # Han extensions
)
# Where a long text may be cut: before an ASCII separator, or, for words, before a letter that is a
# token of its own and composes with nothing that stands before it.
_CUT_CHARACTERS = re.compile("[\x00-/:-@\\[-`{-\x7f]")
_CUT_WORDS = re.compile(
    "[\x00-/:-@\\[-`{-\x7f\u0e01-\u0e2e\u0e81-\u0eae\u1000-\u1021\u1780-\u17a2"
    "\u3041-\u3096\u30a1-\u30fa\u3400-\u9fff]"
)
_BLANK = mix(np.array([0], np.uint64) ^ GOLDEN)
_PIECE = 1 << 20  # characters; longer texts are cut, so that the arrays of one batch stay small
_PADDING = bytes(16)  # lets the loads of the last token read past its end
_LONG_TOKEN = 64  # bytes; longer tokens leave the vector loop

_ASCII_WORD = [chr(c).isalnum() for c in range(128)]
_SEPARATE = bytes(c if c > 127 or _ASCII_WORD[c] else 0 for c in range(256))
_SEPARATE_AND_LOWER = _SEPARATE.lower()

_KNOWN, _WORD, _UNSPACED_BIT, _FOLDS = 1, 2, 4, 8
_classes = np.zeros(0x110000, np.uint8)  # filled as code points are met

_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)


def normalized(text):
    """NFKC, case folded: what makes two spellings of one text equal.

    >>> normalized("\\uff26ull-width STRASSE und Stra\\u00dfe")
    'full-width strasse und strasse'
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def words(text, normalize=True):
    """The tokens of one text as strings: the plain twin of `tokenize`, for people and tests.

    >>> words("The snake_case of \\u6771\\u4eac!")
    ['the', 'snake', 'case', 'of', '東', '京']
    """
    tokens, previous = [], 0
    for character in normalized(text) if normalize else text:
        kind = _class_of(character)
        if kind & _WORD:
            if tokens and previous & _WORD and not (kind | previous) & _UNSPACED_BIT:
                tokens[-1] += character
            else:
                tokens.append(character)
        previous = kind
    return tokens


def tokenize(texts, normalize=True):
    """The words of each text, hashed to 64 bits: `Tokens`.

    Equal tokens have equal hashes in all batches. Texts must be free of lone surrogates, otherwise
    UnicodeEncodeError.

    >>> hashes, offsets = tokenize(["Good night", "night", ""])
    >>> bool(hashes[1] == hashes[2]), offsets.tolist()
    (True, [0, 2, 3, 3])
    """
    return _by_pieces(texts, normalize, _hash_words)


def tokenize_characters(texts, normalize=True):
    """The characters of each text as tokens, with every run of separators one blank, none at the ends.

    >>> hashes, offsets = tokenize_characters(["a-- b", "b a", " a b "])
    >>> offsets.tolist(), bool((hashes[:3] == hashes[6:]).all()), bool(hashes[0] == hashes[5])
    ([0, 3, 6, 9], True, True)
    """
    return _by_pieces(texts, normalize, _hash_characters)


def _by_pieces(texts, normalize, hash_batch):
    """Hash a batch, or text by text and in pieces where one is long."""
    words = hash_batch is _hash_words
    if max(map(len, texts), default=0) <= _PIECE:
        return hash_batch(*_separated(texts, normalize, words))
    hashes, counts = [np.zeros(0, np.uint64)], []
    for text in texts:
        pieces = []
        for piece in _pieces(text, _CUT_WORDS if words else _CUT_CHARACTERS):
            found = hash_batch(*_separated([piece], normalize, words)).hashes
            if len(found):
                pieces += [found] if words or not pieces else [_BLANK, found]
        hashes += pieces
        counts.append(sum(map(len, pieces)))
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return Tokens(np.concatenate(hashes), offsets)


def _pieces(text, cuts):
    start = 0
    while len(text) - start > _PIECE:
        cut = cuts.search(text, start + _PIECE)
        if cut is None:
            break
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]


def _class_of(character):
    """The class bits of one character."""
    code = ord(character)
    if not _classes[code]:
        kind = _KNOWN
        category = unicodedata.category(character)
        if category[0] in "LNM":
            kind |= _WORD
            if any(first <= code <= last for first, last in _UNSPACED):
                kind |= _UNSPACED_BIT
        # A mark or a Hangul jamo may compose with what stands before it, so that only the
        # normalisation of the whole text tells.
        if category[0] == "M" or 0x1100 <= code <= 0x11FF or normalized(character) != character:
            kind |= _FOLDS
        _classes[code] = kind
    return int(_classes[code])


def _separated(texts, normalize, part_unspaced):
    """(bytes, offsets): UTF-8 with zero bytes for separators, and where each text starts in it.

    With `part_unspaced` a zero byte also stands on both sides of each character of unspaced scripts.
    """
    parts = [text.encode() for text in texts]
    data, offsets = _joined(parts)
    table = _SEPARATE_AND_LOWER if normalize else _SEPARATE
    if data.isascii():
        return np.frombuffer(data.translate(table), np.uint8), offsets
    positions, classes = _wide_classes(data)
    if normalize:  # most wide characters stay as they are; the others send their text the slow way
        folds = positions[(classes & _FOLDS) != 0]
        if len(folds):
            for i in np.unique(np.searchsorted(offsets, folds, side="right") - 1).tolist():
                parts[i] = normalized(texts[i]).encode()
            data, offsets = _joined(parts)
            positions, classes = _wide_classes(data)
    bytes_ = np.frombuffer(bytearray(data.translate(table)), np.uint8)
    widths = _widths(bytes_[positions])
    separators = (classes & _WORD) == 0
    for j in range(4):
        bytes_[positions[separators & (widths > j)] + j] = 0
    unspaced = (classes & _UNSPACED_BIT) != 0
    if part_unspaced and unspaced.any():
        is_bound = np.zeros(len(bytes_), bool)
        is_bound[positions[unspaced]] = True
        is_bound[positions[unspaced] + widths[unspaced]] = True
        bounds = np.flatnonzero(is_bound)
        bytes_ = np.insert(bytes_, bounds, 0)
        offsets = offsets + np.searchsorted(bounds, offsets, side="right")
    return bytes_, offsets


def _joined(parts):
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)) + 1, out=offsets[1:])
    return b"\n".join([*parts, _PADDING]), offsets


def _wide_classes(data):
    """Positions and class bits of the characters outside ASCII."""
    positions, codes = _wide_characters(np.frombuffer(data, np.uint8))
    return positions, _classes_of(codes)


def _wide_characters(bytes_):
    """Positions and code points of the characters outside ASCII."""
    positions = np.flatnonzero(bytes_ >= 0xC0)
    first = bytes_[positions].astype(np.uint32)
    widths = _widths(first)
    codes = first & (0xFF >> (widths + 1)).astype(np.uint32)
    for j in range(1, 4):
        more = widths > j
        tail = bytes_[positions[more] + j].astype(np.uint32) & np.uint32(0x3F)
        codes[more] = (codes[more] << np.uint32(6)) | tail
    return positions, codes


def _widths(first):
    """Bytes of a character, from its first byte."""
    return 2 + (first >= 0xE0).astype(np.int64) + (first >= 0xF0)


def _classes_of(codes):
    classes = _classes[codes]
    unknown = codes[classes == 0]
    if len(unknown):
        for code in np.unique(unknown).tolist():
            _class_of(chr(code))
        classes = _classes[codes]
    return classes


def _starts(bytes_):
    """Where the tokens start: a byte that is no separator after one that is."""
    inside = bytes_ != 0
    first = np.empty_like(inside)
    first[:1] = inside[:1]
    np.greater(inside[1:], inside[:-1], out=first[1:])
    return np.flatnonzero(first)


def _hash_words(bytes_, offsets):
    starts = _starts(bytes_)
    # A view of the eight bytes from each position on; the byte order is fixed, not the machine's.
    eights = np.ndarray((len(bytes_) - 7,), "<u8", bytes_, 0, (1,))
    hashes = eights[starts].astype(np.uint64, copy=False)
    unfinished = _cut_at_zero(hashes)
    hashes *= GOLDEN
    rows = np.flatnonzero(unfinished)
    at = starts[rows] + 8
    for _ in range(8, _LONG_TOKEN, 8):
        if not len(rows):
            break
        more = eights[at].astype(np.uint64, copy=False)
        unfinished = _cut_at_zero(more)
        state = hashes[rows]
        state ^= state >> SHIFT
        state += more
        state *= STAFFORD_1
        hashes[rows] = state
        rows, at = rows[unfinished], at[unfinished] + 8
    if len(rows):
        data = bytes_.tobytes()
        hashes[rows] = [hash64(data[p : data.index(0, p)]) for p in starts[rows].tolist()]
    hashes ^= hashes >> SHIFT
    hashes *= STAFFORD_2
    return Tokens(hashes, np.searchsorted(starts, offsets))


def _cut_at_zero(eights):
    """Clear, in place, all bytes from the first zero byte on; True where there is none.

    The trick of "Bit Twiddling Hacks" (Anderson) to find a zero byte, exact for the lowest one.
    """
    zeros = eights - _ONES
    scratch = ~eights
    zeros &= scratch
    zeros &= _HIGHS
    np.subtract(zeros, np.uint64(1), out=scratch)
    scratch ^= zeros
    eights &= scratch
    return zeros == 0


def _hash_characters(bytes_, offsets):
    starts = _starts(bytes_)
    kept = bytes_ != 0
    kept[np.delete(starts, _firsts(starts, offsets)) - 1] = True  # the blank before a further word
    kept &= (bytes_ & 0xC0) != 0x80
    positions = np.flatnonzero(kept)
    codes = bytes_[positions].astype(np.uint64)
    wide, wide_codes = _wide_characters(bytes_)
    codes[np.searchsorted(positions, wide)] = wide_codes
    return Tokens(mix(codes ^ GOLDEN), np.searchsorted(positions, offsets))


def _firsts(starts, offsets):
    """The number of the first token of each text that has one."""
    first = np.searchsorted(starts, offsets)
    return first[:-1][first[1:] > first[:-1]]
