"""Tokens to shingles: runs of k tokens, hashed to 64 bits, as a set or as a bag.

A text of fewer than k tokens is one shingle of all of them; a text without tokens has none.
"""

from typing import NamedTuple

import numpy as np

from .hashing import STAFFORD_1, mix

_CHUNK = 1 << 20  # tokens whose runs are hashed at a time


class Shingles(NamedTuple):
    """The shingles of a batch: text i has `hashes[offsets[i]:offsets[i + 1]]`.

    As sets: the same shingle may stand there more than once. As bags: a repeated shingle was given
    another hash at each occurrence, so that no hash repeats and sets of them measure bags.
    """

    hashes: np.ndarray  # uint64
    offsets: np.ndarray  # int64, one more than texts


def shingle(tokens, size, bag=False):
    """The `size`-shingles of each text of `Tokens`: `Shingles`.

    The hash of a shingle is the polynomial of its tokens' hashes at a fixed point, modulo 2^64. A text
    has as many entries as tokens; where a set is asked for, its last size - 1 entries repeat its first
    shingle, which changes no set and keeps the offsets of the tokens.

    >>> from lshlib.texts import tokenize_characters
    >>> tokens = tokenize_characters(["abcab"])
    >>> [len(set(shingle(tokens, 2, bag).hashes.tolist())) for bag in (False, True)]
    [3, 4]
    """
    hashes, offsets = tokens
    if not len(hashes):
        return Shingles(hashes, offsets)
    windows = _windows(hashes, size)
    counts = np.diff(offsets)
    short = np.flatnonzero((counts > 0) & (counts < size))
    firsts = windows[np.minimum(offsets[:-1], len(windows) - 1)]
    if len(short):
        firsts[short] = _whole_texts(hashes, offsets[:-1][short], counts[short])
        long = np.flatnonzero(counts >= size)
        filled = np.repeat(firsts[short], counts[short])
        windows[ranges(offsets[:-1][short], counts[short])] = filled
    else:
        long = np.flatnonzero(counts)
    if bag:
        return _occurrences(windows, offsets, np.where(counts >= size, size - 1, counts - 1))
    for back in range(1, min(size, int(counts.max()) + 1)):
        windows[offsets[1:][long] - back] = firsts[long]
    return Shingles(windows, offsets)


def _windows(hashes, size):
    """Polynomial hashes of all runs of `size`; the last size - 1 entries are not runs.

    Doubling: the hash of a run of 2n is that of its first half times the point to the n, plus that of
    its second half, so that a run of 5 takes three multiplications a token and not four.
    """
    result = np.zeros_like(hashes)
    for start in range(0, len(hashes), _CHUNK):
        runs = _runs(hashes[start : start + _CHUNK + size - 1], size)
        result[start : start + len(runs)] = runs
    return result


def _runs(hashes, size):
    """The runs of `size` of all hashes given; none where there are fewer."""
    runs, length = hashes, 1
    for bit in bin(size)[3:]:
        if len(hashes) < length * 2 + int(bit):
            return hashes[:0]
        doubled = runs[:-length] * _power(length)
        doubled += runs[length:]
        runs, length = doubled, 2 * length
        if bit == "1":
            longer = runs[:-1] * STAFFORD_1
            longer += hashes[length:]
            runs, length = longer, length + 1
    return runs


def _power(exponent):
    return np.uint64(pow(int(STAFFORD_1), exponent, 2**64))


def _whole_texts(hashes, starts, counts):
    """The polynomial hash of all tokens of each text."""
    whole = hashes[starts]
    for j in range(1, int(counts.max())):
        more = counts > j
        whole[more] = whole[more] * STAFFORD_1 + hashes[starts[more] + j]
    return whole


def ranges(starts, counts):
    """The numbers starts[i], ..., starts[i] + counts[i] - 1 of all i in a row."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def _occurrences(windows, offsets, surplus):
    """Number the repetitions of each shingle within its text and hash (shingle, number)."""
    counts = np.diff(offsets) - np.maximum(surplus, 0)
    hashes = windows[ranges(offsets[:-1], counts)]
    owners = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((hashes, owners))
    hashes, owners = hashes[order], owners[order]
    fresh = np.ones(len(hashes), bool)
    fresh[1:] = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
    place = np.arange(len(hashes))
    number = place - np.maximum.accumulate(np.where(fresh, place, 0))
    again = number > 0
    hashes[again] = mix(hashes[again] + mix(number[again].astype(np.uint64)))
    result = np.zeros(len(offsets), np.int64)
    np.cumsum(counts, out=result[1:])
    return Shingles(hashes, result)
