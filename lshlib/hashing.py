"""64-bit mixing shared by tokens, shingles, signatures and buckets.

Arithmetic is modulo 2^64 on numpy's uint64, which wraps around by definition; results are the same on
every machine and version.
"""

import mmh3
import numpy as np

SHIFT = np.uint64(32)
# Odd multipliers with well-spread bits: the golden ratio, and two of Stafford's 64-bit mixers
# ("Better bit mixing", 2011).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
STAFFORD_1 = np.uint64(0xBF58476D1CE4E5B9)
STAFFORD_2 = np.uint64(0x94D049BB133111EB)


def mix(x):
    """Scramble uint64 values, one to one: the finalizer of SplitMix64 (Steele, Lea, Flood 2014).

    >>> mix(np.array([0, 1, 2], np.uint64))
    array([                   0,  6238072747940578789, 15839785061582574730],
          dtype=uint64)
    """
    x = x ^ (x >> np.uint64(30))
    x *= STAFFORD_1
    x ^= x >> np.uint64(27)
    x *= STAFFORD_2
    x ^= x >> np.uint64(31)
    return x


def constants(count, seed):
    """`count` uint64 pseudo-random numbers of this seed: the stream of SplitMix64.

    >>> constants(2, seed=1)
    array([10451216379200822465, 13757245211066428519], dtype=uint64)
    """
    steps = np.arange(1, count + 1, dtype=np.uint64)
    return mix(np.uint64(seed % 2**64) + steps * GOLDEN)


def hash64(data, seed=0):
    """The low 64 bits of MurmurHash3 x64-128 of bytes, as a Python int.

    >>> hash64(b"d1")
    719885378924453181
    """
    return mmh3.hash64(data, seed & 0xFFFFFFFF, signed=False)[0]


def stable_order(hashes):
    """The numbers that sort uint64 hashes, equal ones in the order given.

    Sorting is several times faster than argsorting, so the low bits carry the place; two hashes that
    differ in those bits only are next to never met and send the whole array the slow way.
    """
    bits = np.uint64(max(1, (len(hashes) - 1).bit_length()))
    low = (np.uint64(1) << bits) - np.uint64(1)
    packed = (hashes & ~low) | np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order = (packed & low).view(np.int64)
    packed >>= bits
    ordered = hashes[order]
    if ((packed[1:] == packed[:-1]) & (ordered[1:] != ordered[:-1])).any():
        return np.argsort(hashes, kind="stable")
    return order
