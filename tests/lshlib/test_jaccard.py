import random

import numpy as np
import pytest

from lshlib.jaccard import jaccard
from lshlib.shingles import Shingles

BOUNDS = {
    "usual": {},
    "a component a chunk": {"_CHUNK": 1},
    "small chunks": {"_CHUNK": 60},
    "no bits": {"_TABLE": 0},
    "few rows of a table": {"_TABLE": 300, "_GATHER": 30},
    "all small": {"_CHUNK": 1, "_TABLE": 1, "_GATHER": 1},
    "few pairs at a time": {"_GATHER": 1},
}

# How numbers that stand for shingles become hashes. The last three differ in their low bits only.
HASHES = {
    "random": lambda n: random.Random(n).getrandbits(64),
    "small": lambda n: n,
    "high": lambda n: 2**64 - 1 - n,
    "in groups": lambda n: random.Random(n // 3).getrandbits(63) & ~0xFF | n % 3,
}


@pytest.fixture(params=BOUNDS.values(), ids=BOUNDS)
def bounds(request, monkeypatch):
    for name, value in request.param.items():
        monkeypatch.setattr(f"lshlib.jaccard.{name}", value)


def shingles_of(texts):
    """`Shingles` of lists of numbers."""
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Shingles(np.array([number for text in texts for number in text], np.uint64), offsets)


def random_lists(seed, count, values, longest, hashed=HASHES["random"]):
    """Lists of hashes with repetitions, some of them empty."""
    draw, hashes = random.Random(seed), [hashed(n) for n in range(values)]
    return [draw.choices(hashes, k=draw.choice((0, 1, *[draw.randrange(longest)] * 6))) for _ in range(count)]


def plain(one, other):
    one, other = set(one), set(other)
    return len(one & other) / len(one | other) if one | other else 0.0


def assert_true(texts, pairs):
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    expected = [plain(texts[a], texts[b]) for a, b in pairs]
    assert jaccard(shingles_of(texts), first, second).tolist() == expected
    return expected


@pytest.mark.parametrize("hashed", HASHES.values(), ids=HASHES)
@pytest.mark.parametrize(
    "texts, pairs", [(100, 30), (60, 300), (20, 400)], ids=["sparse", "dense", "repeated"]
)
def test_similarities_are_those_of_python_sets(bounds, hashed, texts, pairs):
    lists = random_lists(texts, texts, values=40, longest=60, hashed=hashed)
    draw = random.Random(pairs)
    found = assert_true(lists, [tuple(draw.sample(range(texts), 2)) for _ in range(pairs)])
    assert len(set(found)) > 5


def test_near_copies_are_measured(bounds):
    """Long lists of which pairs share most, as candidates do, in many components."""
    draw, texts = random.Random(2), []
    for _ in range(30):
        text = [draw.getrandbits(64) for _ in range(draw.randrange(1, 120))]
        for _ in range(4):
            texts.append([number for number in text if draw.random() < 0.9])
    pairs = [(start + i, start + j) for start in range(0, 120, 4) for i in range(4) for j in range(i)]
    draw.shuffle(pairs)
    assert_true(texts, pairs)


def test_a_hot_text_in_many_pairs_is_measured(bounds):
    texts = random_lists(3, 200, values=50, longest=40)
    texts[77] = sorted({number for text in texts[:20] for number in text})
    assert_true(texts, [(77, i) if i % 2 else (i, 77) for i in range(200) if i != 77])


def test_all_pairs_of_equal_texts_are_one(bounds):
    texts = [[3, 2**60, 5, 3]] * 30
    assert set(assert_true(texts, [(i, j) for i in range(30) for j in range(i)])) == {1.0}


def test_a_chain_of_texts_is_measured(bounds):
    texts = [list(range(start, start + 10)) for start in range(300)]
    assert set(assert_true(texts, [(i, i + 1) for i in range(299)])) == {9 / 11}


def test_texts_without_a_common_shingle_have_none(bounds):
    texts = [[2 * n, 2 * n + 1] for n in range(50)]
    assert set(assert_true(texts, [(i, i + 1) for i in range(49)])) == {0.0}


def test_empty_texts_are_like_nothing(bounds):
    assert assert_true([[], [], [1], [1]], [(0, 1), (0, 2), (2, 0), (2, 3)]) == [0, 0, 0, 1]


def test_nothing_but_empty_texts_is_measured(bounds):
    assert assert_true([[], [], []], [(0, 1), (1, 2)]) == [0, 0]


def test_a_text_is_like_itself():
    assert assert_true([[1, 2, 2], [], [3]], [(0, 0), (1, 1), (2, 2)]) == [1, 0, 1]


def test_repeated_shingles_count_once(bounds):
    assert assert_true([[1, 1, 1, 2], [1, 2, 2, 3], [1]], [(0, 1), (0, 2), (1, 2)]) == [2 / 3, 1 / 2, 1 / 3]


def test_repeated_pairs_have_a_similarity_each(bounds):
    assert assert_true([[1, 2], [2, 3]], [(0, 1), (1, 0), (0, 1)]) == [1 / 3] * 3


@pytest.mark.parametrize("texts", [[], [[1], [2]]], ids=["no texts", "texts"])
def test_no_pairs_have_no_similarities(texts):
    result = jaccard(shingles_of(texts), [], [])
    assert (result.tolist(), result.dtype) == ([], np.float64)


def test_order_of_the_pairs_does_not_count():
    texts = random_lists(5, 50, values=30, longest=40)
    first, second = np.random.default_rng(5).integers(0, 50, (2, 200))
    result = jaccard(shingles_of(texts), first, second)
    order = np.random.default_rng(6).permutation(200)
    assert jaccard(shingles_of(texts), second[order], first[order]).tolist() == result[order].tolist()


def test_a_component_of_more_than_65536_texts_is_measured():
    texts = [[n % 3, n] for n in range(66_000)]
    pairs = [(0, n) for n in range(1, 66_000)]
    assert_true(texts, pairs)


def test_a_text_of_many_shingles_is_measured():
    texts = [list(range(0, 200_000)), list(range(100_000, 250_000)), [7]]
    assert_true(texts, [(0, 1), (0, 2), (1, 2)])


def test_shingles_are_left_alone():
    shingles = shingles_of([[5, 1, 5], [1, 2]])
    jaccard(shingles, [0], [1])
    assert shingles.hashes.tolist() == [5, 1, 5, 1, 2]
