import random
from collections import Counter

import numpy as np
import pytest

from lshlib.shingles import ranges, shingle
from lshlib.texts import Tokens, tokenize, tokenize_characters

sizes = pytest.mark.parametrize("size", range(1, 13))


def random_words(seed, count=60, longest=30):
    """Texts of few words as lists, so that shingles repeat in them and between them; some short or empty."""
    draw = random.Random(seed)
    return [draw.choices("abc", k=draw.choice((0, 1, 2, draw.randrange(longest)))) for _ in range(count)]


def plain(words, size):
    """The bag of a text's shingles by the definition."""
    runs = range(max(1, len(words) - size + 1)) if words else ()
    return Counter(tuple(words[start : start + size]) for start in runs)


def shingled(texts, size, bag=False):
    """The hashes of each text as a list."""
    hashes, offsets = shingle(tokenize([" ".join(words) for words in texts]), size, bag)
    assert len(offsets) == len(texts) + 1
    assert (offsets[0], offsets[-1]) == (0, len(hashes))
    return [hashes[start:end].tolist() for start, end in zip(offsets.tolist(), offsets[1:].tolist())]


@sizes
def test_sets_are_those_of_the_definition(size):
    """A shingle's hash is that of a text which consists of it."""
    texts = random_words(size)
    runs = sorted(set().union(*(plain(words, size) for words in texts)))
    hash_of = {run: hashes[0] for run, hashes in zip(runs, shingled(runs, size))}
    assert len(set(hash_of.values())) == len(runs)
    for words, hashes in zip(texts, shingled(texts, size)):
        assert set(hashes) == {hash_of[run] for run in plain(words, size)}


@sizes
def test_bags_have_an_entry_an_occurrence(size):
    texts = random_words(size)
    for words, hashes in zip(texts, shingled(texts, size, bag=True)):
        assert len(set(hashes)) == len(hashes) == sum(plain(words, size).values())


@sizes
def test_bags_share_what_they_share_by_the_definition(size):
    texts = random_words(size, count=40)
    found = [set(hashes) for hashes in shingled(texts, size, bag=True)]
    bags = [plain(words, size) for words in texts]
    for i, (one, bag) in enumerate(zip(found, bags)):
        for other, other_bag in zip(found[:i], bags):
            assert len(one & other) == sum((bag & other_bag).values())


@sizes
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_a_text_has_one_result_in_all_batches(size, bag):
    texts = random_words(size, count=20)
    for words, hashes in zip(texts, shingled(texts, size, bag)):
        assert shingled([words], size, bag)[0] == hashes


@sizes
def test_first_occurrences_of_a_bag_are_its_set(size):
    for words in random_words(size, count=10):
        (bag,), (set_,) = shingled([words], size, bag=True), shingled([words], size)
        assert set(set_) <= set(bag)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_sets_keep_the_offsets_of_the_tokens(size):
    tokens = tokenize(["a b c d e f", "", "a", "a b c"])
    assert shingle(tokens, size).offsets.tolist() == tokens.offsets.tolist()


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("texts", [[], [[]], [[], [], []]], ids=["no texts", "one", "three"])
def test_nothing_but_empty_texts_has_no_shingles(size, bag, texts):
    assert shingled(texts, size, bag) == [[]] * len(texts)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_short_text_is_one_shingle_of_all_its_tokens(length):
    words = list("abcd")[:length]
    texts = [words, [*words, "x"], words[::-1] + ["y"] * (4 - length), ["z"] * 9]
    found = shingled(texts, 5)
    assert len(set(found[0])) == 1
    assert found[0][0] not in {hash_ for hashes in found[1:] for hash_ in hashes}
    assert set(shingled([words], 50)[0]) == set(found[0])


def test_a_short_text_is_no_part_of_a_longer_one():
    short, long = shingled([list("abc"), list("abcdefg")], 4)
    assert not set(short) & set(long)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_order_of_the_tokens_counts(size):
    one, other = shingled([list("abcdef")[:size], list("abcdef")[:size][::-1]], size)
    assert set(one) != set(other)


@pytest.mark.parametrize("size", [7, 10**4])
def test_a_size_beyond_all_texts_is_no_burden(size):
    one, other = shingled([["a"], ["a", "b"]], size)
    assert (len(set(one)), len(set(other))) == (1, 1)


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_tokens_are_left_alone(bag):
    tokens = tokenize(["a b a b a", "a"])
    before = tokens.hashes.tolist()
    for size in (1, 2, 7):
        shingle(tokens, size, bag)
    assert tokens.hashes.tolist() == before


def test_characters_are_shingled_as_words_are():
    tokens = tokenize_characters(["abcab"])
    assert len(set(shingle(tokens, 2).hashes.tolist())) == 3


def test_a_shingle_repeated_many_times_fills_a_bag():
    (hashes,) = shingled([["a"] * 5000], 3, bag=True)
    assert len(set(hashes)) == 4998


def test_types_are_uint64_and_int64():
    tokens = Tokens(np.arange(6, dtype=np.uint64), np.array([0, 2, 6]))
    for bag in (False, True):
        hashes, offsets = shingle(tokens, 3, bag)
        assert (hashes.dtype, offsets.dtype) == (np.uint64, np.int64)


@pytest.mark.parametrize(
    "bag, again", [(False, 9630717420194538057), (True, 4681365193712277202)], ids=["set", "bag"]
)
def test_golden_hashes(bag, again):
    """to be, be or, or not, not to; and to be again."""
    (hashes,) = shingled([["to", "be", "or", "not", "to", "be"]], 2, bag)
    assert set(hashes) == {
        9630717420194538057,
        7803713278388573925,
        16717088181483316178,
        6085444406394903966,
        again,
    }


def test_ranges_are_those_of_python():
    draw = np.random.default_rng(1)
    starts, counts = draw.integers(0, 100, 50), draw.integers(0, 5, 50)
    expected = [n for start, count in zip(starts, counts) for n in range(start, start + count)]
    assert ranges(starts, counts).tolist() == expected


def test_no_ranges_are_empty():
    assert ranges(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
