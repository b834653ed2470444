"""Exact Jaccard similarity of sets of hashed shingles, for lists of pairs and without a loop over them."""

import numpy as np

from .components import components
from .hashing import stable_order
from .shingles import ranges

_CHUNK = 1 << 16  # shingles sorted together: what fits the caches wins
_TABLE = 1 << 23  # bytes of a membership table
_GATHER = 1 << 20  # shingles looked up at a time


def jaccard(shingles, first, second):
    """|A and B| / |A or B| of the sets of texts first[i] and second[i]: float64, one a pair.

    `shingles` is a `Shingles`, in which a set may hold a shingle more than once; first and second are
    numbers of texts. Two empty sets have similarity 0: they say nothing.

    Texts that no pair connects never meet: the components of the pairs are measured one after another,
    many small ones at a time. Shingles that occur in one text only can be in no intersection and are
    dropped early.

    >>> from lshlib.shingles import Shingles
    >>> sets = Shingles(np.array([1, 5, 7, 5, 7, 7, 8], np.uint64), np.array([0, 3, 7]))
    >>> jaccard(sets, np.array([0]), np.array([1]))
    array([0.5])
    """
    first, second = np.asarray(first, np.int64), np.asarray(second, np.int64)
    # a text is like itself, unless it says nothing
    result = ((first == second) & (np.diff(shingles.offsets)[first] > 0)).astype(float)
    pairs = np.flatnonzero(first != second)
    if len(pairs):
        result[pairs] = _of_different(shingles, first[pairs], second[pairs])
    return result


def _of_different(shingles, first, second):
    result = np.zeros(len(first))
    texts, labels = components(first, second)
    order = np.argsort(labels, kind="stable")
    texts, labels = texts[order], labels[order]
    place = np.zeros(len(shingles.offsets), np.int64)
    place[texts] = np.arange(len(texts))
    first, second = place[first], place[second]
    pairs = np.argsort(first, kind="stable")
    counts = np.diff(shingles.offsets)[texts]
    for start, end in _chunks(labels, counts):
        low, high = np.searchsorted(first, (start, end), sorter=pairs)
        chosen = pairs[low:high]
        starts = shingles.offsets[texts[start:end]]
        hashes = shingles.hashes[ranges(starts, counts[start:end])]
        sets = _Sets(hashes, counts[start:end])
        result[chosen] = sets.jaccard(first[chosen] - start, second[chosen] - start)
    return result


def _chunks(labels, counts):
    """Ranges of whole components with at least _CHUNK shingles together."""
    ends = np.flatnonzero(np.append(labels[1:] != labels[:-1], True)) + 1
    totals = np.cumsum(counts)[ends - 1]
    start = done = 0
    while start < len(labels):
        i = min(np.searchsorted(totals, done + _CHUNK), len(ends) - 1)
        yield start, int(ends[i])
        start, done = int(ends[i]), totals[i]


class _Sets:
    """A few sets, reduced to the shingles that two or more of them share."""

    def __init__(self, hashes, counts):
        # numbers of 16 bits are sorted by radix
        owner_type = np.uint16 if len(counts) <= 1 << 16 else np.int64
        owners = np.repeat(np.arange(len(counts), dtype=owner_type), counts)
        order = stable_order(hashes)
        ordered = hashes[order]
        same = np.zeros(len(hashes) + 1, bool)  # as the one before
        np.equal(ordered[1:], ordered[:-1], out=same[1:-1])
        repeated = np.flatnonzero(same[1:] | same[:-1])
        # equal hashes are in the order of their owners, so repetitions within a set are neighbours
        owners, head = owners[order[repeated]], ~same[repeated]
        again = np.zeros(len(repeated), bool)
        np.equal(owners[1:], owners[:-1], out=again[1:])
        again &= ~head
        self.sizes = counts - np.bincount(owners[again], minlength=len(counts))
        owners, ranks = owners[~again], np.cumsum(head[~again]) - 1
        self.ranks_total = int(ranks[-1]) + 1 if len(ranks) else 0
        self.ranks = ranks[np.argsort(owners, kind="stable")]
        self.counts = np.bincount(owners, minlength=len(counts))
        self.starts = np.cumsum(self.counts) - self.counts

    def jaccard(self, first, second):
        """The similarity of each pair, given by the numbers of its two sets."""
        words = -(-self.ranks_total // 64)
        if len(self.counts) * words * 64 <= _TABLE * 8:
            common = self._common_bits(first, second, words)
        else:
            common = self._common_lookups(first, second)
        total = self.sizes[first] + self.sizes[second] - common
        return np.divide(common, total, out=np.zeros(len(first)), where=total > 0)

    def _common_bits(self, first, second, words):
        """Shingles in common, each set a row of bits: fast where sets are alike, as candidates are."""
        owners = np.repeat(np.arange(len(self.counts)), self.counts)
        table = np.zeros(len(self.counts) * words * 64, bool)
        table[owners * (words * 64) + self.ranks] = True
        bits = np.packbits(table).view(np.uint64).reshape(len(self.counts), words)
        common = np.zeros(len(first), np.int64)
        step = max(1, _GATHER // 8 // max(1, words))
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            both = bits[first[part]]
            both &= bits[second[part]]
            common[part] = np.bitwise_count(both).sum(axis=1, dtype=np.int64)
        return common

    def _common_lookups(self, first, second):
        """Shingles in common, the smaller set looked up in a table of the other: for wide tables."""
        common = np.zeros(len(first), np.int64)
        swap = self.counts[first] > self.counts[second]
        looked, tabled = np.where(swap, second, first), np.where(swap, first, second)
        order = np.argsort(tabled, kind="stable")
        rows = max(1, _TABLE // max(1, self.ranks_total))
        tabled_sorted = tabled[order]
        start = 0
        while start < len(order) and self.ranks_total:
            base = tabled_sorted[start]
            end = np.searchsorted(tabled_sorted, base + rows)
            table = self._table(base, min(base + rows, len(self.counts)))
            for chosen in self._gathers(order[start:end], looked):
                common[chosen] = self._count(table, looked[chosen], tabled[chosen] - base)
            start = end
        return common

    def _table(self, low, high):
        """Which shared shingles the sets low .. high - 1 have: bool, flat."""
        table = np.zeros((high - low) * self.ranks_total, bool)
        counts = self.counts[low:high]
        rows = np.repeat(np.arange(high - low) * self.ranks_total, counts)
        table[rows + self.ranks[ranges(self.starts[low:high], counts)]] = True
        return table

    def _gathers(self, pairs, looked):
        """Cut a list of pairs so that each part looks up about _GATHER shingles."""
        cuts = np.cumsum(self.counts[looked[pairs]]) // _GATHER
        return np.split(pairs, np.flatnonzero(cuts[1:] != cuts[:-1]) + 1)

    def _count(self, table, looked, rows):
        counts = self.counts[looked]
        places = np.repeat(rows * self.ranks_total, counts)
        places += self.ranks[ranges(self.starts[looked], counts)]
        sums = np.zeros(len(places) + 1, np.int32)  # below _GATHER, or the shingles of one text
        np.cumsum(table[places], out=sums[1:])
        ends = np.cumsum(counts)
        return sums[ends] - sums[ends - counts]
