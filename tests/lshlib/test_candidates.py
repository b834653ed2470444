import random
from itertools import combinations

import numpy as np
import pytest

from lshlib.candidates import candidate_pairs, merge_pairs


def random_rows(seed, count, buckets, marks):
    """(bucket, mark, key) of texts with keys of their own; a text is in a bucket once."""
    draw = random.Random(seed)
    names = [draw.getrandbits(64) for _ in range(buckets)]
    keys = [draw.getrandbits(64) for _ in range(count)]
    mark_of = {key: draw.randrange(marks) for key in keys}
    return sorted({(draw.choice(names), mark_of[key], key) for key in keys for _ in range(3)})


def paired(rows, cap):
    """The pairs as a list of sorted pairs of (bucket, key), and the number left out."""
    buckets, marks, keys = zip(*rows) if rows else ((), (), ())
    first, second, left_out = candidate_pairs(
        np.array(buckets, np.uint64), np.array(marks, np.uint32), np.array(keys, np.uint64), cap
    )
    ends = [[(buckets[row], keys[row]) for row in column.tolist()] for column in (first, second)]
    return [tuple(sorted(pair)) for pair in zip(*ends)], left_out


def plain(rows, cap):
    """The same by the definition, a bucket at a time."""
    buckets = {}
    for bucket, mark, key in sorted(rows):
        buckets.setdefault(bucket, {}).setdefault(mark, []).append((bucket, key))
    pairs, left_out = [], 0
    for runs in buckets.values():
        members = []
        for run in runs.values():
            star = len(run) > cap
            pairs += [(run[0], leaf) for leaf in run[1:]] if star else []
            members += run[:1] if star else run
        for i, member in enumerate(members):
            pairs += [(other, member) for other in members[max(0, i - cap) : i]]
            left_out += max(0, i - cap)
    return [tuple(sorted(pair)) for pair in pairs], left_out


def bucket(size, mark=None):
    """One bucket of texts with the same mark, or with marks of their own."""
    return [(7, n if mark is None else mark, 10_000 - n) for n in range(size)]


@pytest.mark.parametrize("cap", [1, 2, 3, 5, 20, 1000])
@pytest.mark.parametrize("count, buckets", [(30, 60), (60, 10), (100, 2), (150, 100)])
@pytest.mark.parametrize("marks", [2, 10, 2**32])
def test_pairs_are_those_of_the_definition(cap, count, buckets, marks):
    rows = random_rows(count, count, buckets, marks)
    pairs, left_out = paired(rows, cap)
    expected, expected_left_out = plain(rows, cap)
    assert sorted(pairs) == sorted(expected)
    assert left_out == expected_left_out


@pytest.mark.parametrize("cap", [1, 3, 20])
@pytest.mark.parametrize("marks", [2, 2**32])
def test_order_of_the_rows_does_not_count(cap, marks):
    rows = random_rows(1, 100, 10, marks)
    pairs, left_out = paired(rows, cap)
    for seed in range(3):
        others = random.Random(seed).sample(rows, len(rows))
        assert (sorted(paired(others, cap)[0]), paired(others, cap)[1]) == (sorted(pairs), left_out)


def test_without_a_cap_all_members_of_a_bucket_are_paired():
    rows = random_rows(2, 60, 8, marks=4)
    expected = {
        pair for pair in combinations(sorted((b, k) for b, _, k in rows), 2) if pair[0][0] == pair[1][0]
    }
    pairs, left_out = paired(rows, cap=60)
    assert (set(pairs), len(pairs), left_out) == (expected, len(expected), 0)


@pytest.mark.parametrize("cap", [1, 2, 7])
@pytest.mark.parametrize("size", [2, 3, 8, 9, 50])
def test_pairs_left_out_and_listed_are_all(cap, size):
    pairs, left_out = paired(bucket(size), cap)
    assert len(set(pairs)) == len(pairs)
    assert len(pairs) + left_out == size * (size - 1) / 2


@pytest.mark.parametrize("cap", [1, 20])
def test_a_bucket_of_10_000_is_paired_linearly(cap):
    pairs, left_out = paired(bucket(10_000), cap)
    assert len(pairs) == cap * 10_000 - cap * (cap + 1) / 2
    assert left_out == 10_000 * 9_999 / 2 - len(pairs)


def test_10_000_equal_texts_are_a_star():
    pairs, left_out = paired(bucket(10_000, mark=3), cap=20)
    centre = (7, 1)
    assert len(pairs) == 9_999
    assert {one for one, _ in pairs} == {centre}
    assert left_out == 0


def test_the_centre_of_a_star_is_paired_with_other_marks():
    equal, others = [(7, 5, key) for key in range(10, 20)], [(7, 4, 1), (7, 6, 2)]
    pairs, _ = paired(equal + others, cap=3)
    centre = (7, 10)
    assert {pair for pair in pairs if (7, 1) in pair or (7, 2) in pair} == {
        ((7, 1), centre),
        ((7, 2), centre),
        ((7, 1), (7, 2)),
    }


@pytest.mark.parametrize("size, mark", [(3, 1), (3, None)], ids=["equal", "others"])
def test_as_many_members_as_the_cap_are_all_paired(size, mark):
    assert len(paired(bucket(size, mark), cap=3)[0]) == 3


@pytest.mark.parametrize("rows", [[], [(1, 1, 1)], [(1, 5, 1), (2, 5, 2), (3, 5, 3)]])
def test_members_of_no_bucket_together_are_not_paired(rows):
    assert paired(rows, cap=5) == ([], 0)


def test_huge_buckets_and_keys_are_told_apart():
    top = 2**64 - 1
    rows = [(top, 1, top), (top, 1, top - 1), (top - 1, 1, 0), (top - 1, 2, 1), (0, 1, 5)]
    pairs, _ = paired(rows, cap=5)
    assert sorted(pairs) == [((top - 1, 0), (top - 1, 1)), ((top, top - 1), (top, top))]


# merging


def merged(pairs):
    """Merged pairs of (first, second, bands, size of first), as rows."""
    columns = np.array(pairs, np.uint64).reshape(-1, 4).T
    block = dict(zip(("first", "second", "bands", "first_size"), columns))
    block["bands"] = block["bands"].astype(np.uint16)
    result = merge_pairs(block)
    assert {name: column.dtype for name, column in result.items()} == {
        name: column.dtype for name, column in block.items()
    }
    return list(zip(*(result[name].tolist() for name in block)))


def test_merged_pairs_come_once_with_their_bands_summed():
    draw = random.Random(4)
    pairs = []
    for _ in range(300):
        first, second = draw.randrange(12), draw.randrange(12)
        pairs.append((first, second, draw.randrange(1, 5), 10 * first))
    expected = {}
    for first, second, bands, size in pairs:
        expected[first, second, size] = expected.get((first, second, size), 0) + bands
    assert merged(pairs) == [(a, b, bands, size) for (a, b, size), bands in sorted(expected.items())]


def test_merging_again_changes_nothing():
    once = merged([(1, 2, 1, 5), (1, 2, 1, 5), (0, 9, 4, 5)])
    assert merged(once) == once


def test_huge_keys_are_merged_exactly():
    top = 2**64 - 1
    assert len(merged([(top, top - 1, 1, 0), (top, top - 2, 1, 0), (top - 1, top - 1, 1, 0)])) == 3


def test_no_pairs_are_merged_to_none():
    assert merged([]) == []
