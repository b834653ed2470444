"""Buckets to candidate pairs, linear in the members of a bucket."""

import numpy as np

from .hashing import stable_order


def candidate_pairs(buckets, marks, keys, cap):
    """(rows, other rows, pairs left out) of the members that share a bucket.

    A row says that text `keys[i]`, whose whole signature hashes to `marks[i]`, is in bucket
    `buckets[i]`. In each bucket, members are put in the order of (mark, key), which no order of the rows
    changes, and each is paired with at most `cap` predecessors. Of more than `cap` members with equal
    marks only the first takes part in that; the others are paired with it alone, a star. Pairs that the
    cap leaves out are counted, a star's implied ones are not.

    >>> rows = np.zeros(3, np.uint64), np.arange(3), np.array([7, 8, 9], np.uint64)
    >>> first, second, left_out = candidate_pairs(*rows, cap=2)
    >>> sorted(zip(first.tolist(), second.tolist())), left_out
    ([(1, 0), (2, 0), (2, 1)], 0)
    """
    rows = _shared(buckets)
    if not len(rows):
        return rows, rows, 0
    rows = rows[np.lexsort((keys[rows], marks[rows], buckets[rows]))]
    buckets, marks = buckets[rows], marks[rows]
    starts_run = np.ones(len(rows), bool)
    starts_run[1:] = (buckets[1:] != buckets[:-1]) | (marks[1:] != marks[:-1])
    heads = np.flatnonzero(starts_run)
    run = np.cumsum(starts_run) - 1
    lengths = np.diff(np.append(heads, len(rows)))
    leaf = (lengths[run] > cap) & ~starts_run
    firsts, seconds = [rows[leaf]], [rows[heads[run[leaf]]]]

    rows, buckets = rows[~leaf], buckets[~leaf]
    starts_bucket = np.ones(len(rows), bool)
    starts_bucket[1:] = buckets[1:] != buckets[:-1]
    heads = np.flatnonzero(starts_bucket)
    sizes = np.diff(np.append(heads, len(rows)))
    place = np.arange(len(rows)) - np.repeat(heads, sizes)
    for back in range(1, min(cap, int(sizes.max()) - 1) + 1):
        later = np.flatnonzero(place >= back)
        firsts.append(rows[later])
        seconds.append(rows[later - back])
    possible = sum(n * (n - 1) // 2 for n in sizes[sizes > cap + 1].tolist())
    listed = sum(cap * n - cap * (cap + 1) // 2 for n in sizes[sizes > cap + 1].tolist())
    return np.concatenate(firsts), np.concatenate(seconds), possible - listed


def _shared(buckets):
    """The rows whose bucket has another member."""
    order = stable_order(buckets)
    ordered = buckets[order]
    same = np.zeros(len(order) + 1, bool)
    np.equal(ordered[1:], ordered[:-1], out=same[1:-1])
    return order[same[1:] | same[:-1]]


def merge_pairs(pairs):
    """The pairs of a block with columns first, second, bands (and others), each once, bands summed."""
    order = np.lexsort((pairs["second"], pairs["first"]))
    first, second = pairs["first"][order], pairs["second"][order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    heads = np.flatnonzero(fresh)
    merged = {name: column[order[heads]] for name, column in pairs.items()}
    if len(heads):
        merged["bands"] = np.add.reduceat(pairs["bands"][order], heads, dtype=pairs["bands"].dtype)
    return merged
