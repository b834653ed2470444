"""MinHash signatures of sets of hashed shingles, a batch at a time.

Two families with one property: a row of the signatures of two sets is equal with the chance of their
Jaccard similarity. `universal_signatures` is the textbook's K independent hash functions, the
reference; `fast_signatures` is Fast Similarity Sketching, the default.

A signature is `length` uint32 numbers. The signature of an empty set is `EMPTY` throughout and means
nothing: leave empty sets out.
"""

import numpy as np

from .hashing import SHIFT, constants

EMPTY = np.uint32(0xFFFFFFFF)
MERSENNE_61 = 2**61 - 1
_CHUNK = 1 << 20  # shingles hashed at a time


def universal_hash(x, a, b, prime=MERSENNE_61, buckets=2**32):
    """((a x + b) mod prime) mod buckets, exactly; x is a uint64 array, the result uint64.

    The prime is 2^61 - 1, or any below 2^32 (of x then counts only x mod prime); otherwise ValueError.

    >>> universal_hash(np.arange(5, dtype=np.uint64), a=3, b=1, prime=5, buckets=5).tolist()
    [1, 4, 2, 0, 3]
    """
    if prime != MERSENNE_61 and not 1 < prime < 2**32:
        raise ValueError(f"prime must be 2^61 - 1 or below 2^32, got {prime}")
    x = x % np.uint64(prime)
    a, b = np.uint64(a % prime), np.uint64(b % prime)
    if prime < 2**32:
        return (a * x + b) % np.uint64(prime) % np.uint64(buckets)
    # The product has up to 122 bits: multiply halves and fold with 2^61 = 1 and 2^64 = 8 (mod prime).
    low, fold = np.uint64(0xFFFFFFFF), np.uint64(61)
    a_high, a_low, x_high, x_low = a >> SHIFT, a & low, x >> SHIFT, x & low
    middle = a_high * x_low + a_low * x_high
    bottom = a_low * x_low
    total = (a_high * x_high << np.uint64(3)) + (middle >> np.uint64(29)) + b
    total += ((middle & np.uint64(2**29 - 1)) << SHIFT) + (bottom & np.uint64(prime))
    total += bottom >> fold
    total = (total & np.uint64(prime)) + (total >> fold)
    return np.where(total >= prime, total - np.uint64(prime), total) % np.uint64(buckets)


def universal_signatures(shingles, length, seed=0):
    """`length` minima of as many random universal hash functions: uint32 (texts, length).

    Row hashing of Mining of Massive Datasets, section 3.3.5. Costs `length` passes over the shingles.
    """
    hashes, offsets = shingles
    filled = np.flatnonzero(np.diff(offsets))
    signatures = np.full((len(offsets) - 1, length), EMPTY, np.uint32)
    numbers = constants(2 * length, seed).tolist()
    for row, (a, b) in enumerate(zip(numbers[::2], numbers[1::2])):
        # a = 0 would be a constant function
        values = universal_hash(hashes, 1 + a % (MERSENNE_61 - 1), b).astype(np.uint32)
        if len(filled):
            signatures[filled, row] = np.minimum.reduceat(values, offsets[filled])
    return signatures


def fast_signatures(shingles, length, seed=0):
    """Fast Similarity Sketching (Dahlgaard, Knudsen, Thorup 2017): uint32 (texts, length).

    In round i < length each shingle falls into one of `length` bins with a hash of this round, and a bin
    that no earlier round filled keeps the least. Round length + j puts the least hash of all shingles
    in bin j if that is still empty. Expected time is O(n + length log length) for n shingles. A row is
    equal in two sets with the chance of their similarity, and the variance of the estimate is at most
    that of `universal_signatures`.
    """
    hashes, offsets = shingles
    texts = len(offsets) - 1
    multipliers = constants(2 * length, seed) | np.uint64(1)
    bins = np.full(texts * length, EMPTY, np.uint32)
    counts = np.diff(offsets)
    bases = np.repeat(np.arange(texts) * length, counts)
    for start in range(0, len(hashes), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        places, values = _throw(hashes[chunk], multipliers[0], length, bases[chunk])
        np.minimum.at(bins, places, values)
    rest = _Unfinished(bins.reshape(texts, length), hashes, bases, counts)
    for i in range(1, length):
        # long texts are finished after a few rounds, short ones need many
        if (i < 4 or i % 8 == 0) and not rest.keep_unfinished():
            break
        rest.throw(multipliers[i])
    else:
        for j in range(length):
            if j % 8 == 0 and not rest.keep_unfinished():
                break
            rest.fill(j, multipliers[length + j])
    return bins.reshape(texts, length)


def _throw(hashes, multiplier, length, bases):
    """(bin, value) of each shingle in one round: the high half of its hash and the low one."""
    scrambled = hashes * multiplier
    scrambled ^= scrambled >> SHIFT
    places = scrambled >> SHIFT
    places *= np.uint64(length)
    places >>= SHIFT
    places = places.view(np.int64)
    places += bases
    return places, _value(scrambled)


def _value(scrambled):
    """A uint32 value that is never EMPTY, so that EMPTY always means an empty bin."""
    values = scrambled.astype(np.uint32)
    return np.minimum(values, EMPTY - np.uint32(1), out=values)


class _Unfinished:
    """The texts that have an empty bin, and their shingles, in the later rounds."""

    def __init__(self, bins, hashes, bases, counts):
        self.bins, self.hashes, self.bases, self.counts = bins, hashes, bases, counts
        self.texts = np.arange(len(bins))
        self.empty = bins == EMPTY
        self.empty[counts == 0] = False

    def keep_unfinished(self):
        """Drop the finished texts, when they are enough to be worth the copy; False if all are."""
        unfinished = self.empty[self.texts].any(axis=1)
        left = np.count_nonzero(unfinished)
        if left < 0.75 * len(self.texts):
            shingles = np.repeat(unfinished, self.counts)
            self.hashes, self.bases = self.hashes[shingles], self.bases[shingles]
            self.texts, self.counts = self.texts[unfinished], self.counts[unfinished]
        return left

    def throw(self, multiplier):
        """One round: shingles into bins, of which the empty ones keep the least."""
        bins, empty = self.bins.reshape(-1), self.empty.reshape(-1)
        filled = []
        for start in range(0, len(self.hashes), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            places, values = _throw(self.hashes[chunk], multiplier, self.bins.shape[1], self.bases[chunk])
            wanted = np.flatnonzero(empty.take(places, mode="clip"))
            filled.append(places[wanted])
            np.minimum.at(bins, filled[-1], values[wanted])
        # the least of a round counts: a bin is full only after all shingles were thrown
        for places in filled:
            empty[places] = False

    def fill(self, j, multiplier):
        """The least hash of all shingles into bin j, where it is empty."""
        scrambled = self.hashes * multiplier
        scrambled ^= scrambled >> SHIFT
        starts = np.cumsum(self.counts) - self.counts
        filled = self.counts > 0
        least = np.minimum.reduceat(_value(scrambled), starts[filled])
        texts = self.texts[filled]
        wanted = self.empty[texts, j]
        self.bins[texts[wanted], j] = least[wanted]
        self.empty[:, j] = False


SIGNATURES = {"fast": fast_signatures, "universal": universal_signatures}


def estimate(first, second):
    """(similarity, standard error) of the Jaccard similarity, estimated from two signatures.

    Arrays of signatures give arrays. The error is that of K independent rows, sqrt(s (1 - s) / K); the
    fast signatures' is at most that.

    >>> estimate(np.array([2, 2, 1], np.uint32), np.array([2, 4, 1], np.uint32))
    (0.6666666666666666, 0.2721655269759087)
    """
    similarity = (first == second).mean(axis=-1)
    error = np.sqrt(similarity * (1 - similarity) / first.shape[-1])
    return (similarity, error) if np.ndim(similarity) else (float(similarity), float(error))
