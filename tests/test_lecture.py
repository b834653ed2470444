"""The worked examples of the lecture on finding similar items, through our own functions.

COMP9313, "Finding Similar Items: Locality Sensitive Hashing" (X. Cao); Mining of Massive Datasets, chapter 3.
"""

import random
from itertools import combinations

import numpy as np
import pytest

from lshlib.banding import bucket_keys, collision_chance, describe
from lshlib.candidates import candidate_pairs
from lshlib.hashing import mix
from lshlib.jaccard import jaccard
from lshlib.minhash import SIGNATURES, estimate, universal_hash
from lshlib.shingles import Shingles, shingle
from lshlib.texts import normalized, tokenize, tokenize_characters

families = pytest.mark.parametrize("sign", SIGNATURES.values(), ids=SIGNATURES)


def shingles_of(*sets):
    """`Shingles` of sets of numbers."""
    offsets = np.cumsum([0, *map(len, sets)], dtype=np.int64)
    return Shingles(np.array([row for numbers in sets for row in sorted(numbers)], np.uint64), offsets)


def similarity(one, other):
    return jaccard(shingles_of(one, other), [0], [1])[0]


def columns_of(matrix):
    """The columns of a matrix of 0 and 1, each as the set of its rows with 1, counted from 1."""
    return [{row for row, bit in enumerate(column, 1) if bit == "1"} for column in zip(*matrix.split())]


def signature_matrix(columns, orders):
    """In each order of the rows, {row: place}, the place of the first row that each column has."""
    return np.array([[min(order[row] for row in column) for column in columns] for order in orders])


# shingles


def hashes_of(text, size, bag=False):
    return shingle(tokenize_characters([text]), size, bag).hashes.tolist()


def test_abcab_is_the_set_of_three_shingles():
    (ab,), (bc,), (ca,) = (set(hashes_of(text, 2)) for text in ("ab", "bc", "ca"))
    assert set(hashes_of("abcab", 2)) == {ab, bc, ca}


def test_abcab_is_the_bag_with_ab_twice():
    bag, set_ = hashes_of("abcab", 2, bag=True), set(hashes_of("abcab", 2))
    assert len(bag) == 4
    (second_ab,) = set(bag) - set_
    assert set(hashes_of("abab", 2, bag=True)) >= {*hashes_of("ab", 2), second_ab}


def test_shingles_are_compressed_to_numbers_of_one_size():
    for size in (2, 5, 9):
        hashes = shingle(tokenize_characters(["a rather long text of many characters"]), size).hashes
        assert hashes.itemsize == 8


def test_changing_a_word_changes_the_shingles_about_it():
    """g_w, _wh, whi, hic, ich, ch_ and h_c are replaced, and no others."""
    texts = ["The dog which chased the cat", "The dog that chased the cat"]
    hashes, offsets = shingle(tokenize_characters(texts), 3)
    one, other = hashes[: offsets[1]], hashes[offsets[1] :]
    text = normalized(texts[0])
    replaced = {text[i : i + 3] for i in np.flatnonzero(~np.isin(one, other))}
    assert replaced == {"g w", " wh", "whi", "hic", "ich", "ch ", "h c"}


@pytest.mark.parametrize("size", [3, 5, 9])
def test_reordering_paragraphs_changes_the_shingles_across_boundaries(size):
    first, second, third = (" ".join(f"{name}{n}" for n in range(30)) for name in "abc")
    one, other = (
        set(shingle(tokenize([" ".join(parts)]), size).hashes.tolist())
        for parts in ((first, second, third), (first, third, second))
    )
    assert 0 < len(one - other) <= 2 * size


def test_short_shingles_make_all_texts_similar():
    texts = [
        "Many problems can be expressed as finding similar sets in a space of many dimensions",
        "The quick brown fox jumps over the lazy dog and sleeps until the evening comes back",
    ]
    found = [jaccard(shingle(tokenize_characters(texts), size), [0], [1])[0] for size in (1, 2, 5)]
    assert found[0] > 0.7 > found[1] > 0.1 > found[2]


# similarity


def test_three_in_the_intersection_and_eight_in_the_union():
    assert similarity({1, 2, 3, 4, 5}, {3, 4, 5, 6, 7, 8}) == 3 / 8


def test_bit_vectors_10111_and_10011():
    one, other = columns_of("11 00 10 11 11")
    assert similarity(one, other) == 3 / 4


def test_columns_of_the_boolean_matrix():
    """S1 = {a, d}, S2 = {c}, S3 = {b, d, e}, S4 = {a, c, d}."""
    columns = columns_of("1001 0010 0101 1011 0010")
    assert columns == [{1, 4}, {3}, {2, 4, 5}, {1, 3, 4}]
    assert similarity(columns[0], columns[2]) == 1 / 4


# MinHash


def permutation(places):
    return dict(enumerate(places, 1))


EXAMPLE = columns_of("0110 0011 1000 0101 0001 1100 0010")
EXAMPLE_ORDERS = [
    permutation([1, 2, 3, 4, 5, 6, 7]),
    permutation([7, 6, 5, 4, 3, 2, 1]),
    permutation([6, 3, 1, 7, 2, 5, 4]),
]


def test_signatures_of_the_minhash_example():
    assert signature_matrix(EXAMPLE, EXAMPLE_ORDERS).tolist() == [[3, 1, 1, 2], [2, 2, 1, 3], [1, 5, 3, 2]]


def test_two_of_its_permutations_are_row_hashes():
    """x, and 8 - x, which is 10 x + 8 modulo 11."""
    rows = np.arange(1, 8, dtype=np.uint64)
    for (a, b), order in zip([(1, 0), (10, 8)], EXAMPLE_ORDERS):
        assert universal_hash(rows, a, b, prime=11, buckets=8).tolist() == list(order.values())


SIMILARITY = columns_of("1010 1001 0101 0101 0101 1010 1010")
SIMILARITY_ORDERS = [
    permutation([2, 3, 7, 6, 1, 5, 4]),
    permutation([4, 2, 1, 3, 6, 7, 5]),
    permutation([3, 4, 7, 2, 6, 1, 5]),
]


def test_signatures_of_the_similarity_example():
    matrix = signature_matrix(SIMILARITY, SIMILARITY_ORDERS)
    assert matrix.tolist() == [[2, 1, 2, 1], [2, 1, 4, 1], [1, 2, 1, 2]]


@pytest.mark.parametrize(
    "one, other, columns, signatures",
    [(1, 3, 0.75, 2 / 3), (2, 4, 0.75, 1), (1, 2, 0, 0), (3, 4, 0, 0)],
)
def test_similarity_of_columns_and_of_signatures(one, other, columns, signatures):
    matrix = signature_matrix(SIMILARITY, SIMILARITY_ORDERS)
    assert similarity(SIMILARITY[one - 1], SIMILARITY[other - 1]) == columns
    assert estimate(matrix[:, one - 1], matrix[:, other - 1])[0] == signatures


@families
def test_similarity_of_signatures_is_expected_to_be_that_of_columns(sign):
    rows, offsets = shingles_of(*SIMILARITY)
    # neighbouring numbers are no random ones: universal hashing alone would prefer some to be least
    shingles, seeds = Shingles(mix(rows), offsets), 400
    signatures = np.array([sign(shingles, 3, seed) for seed in range(seeds)])
    for one, other in combinations(range(4), 2):
        expected = similarity(SIMILARITY[one], SIMILARITY[other])
        error = (expected * (1 - expected) / (3 * seeds)) ** 0.5
        assert abs(estimate(signatures[:, one], signatures[:, other])[0].mean() - expected) <= 4 * error


@families
def test_signatures_of_a_hundred_rows(sign):
    """Of 4 bytes each: 40 megabytes for 100,000 documents."""
    signatures = sign(shingles_of(*EXAMPLE), 100)
    assert signatures.shape == (4, 100)
    assert signatures[:1].nbytes * 100_000 == 40e6


# row hashing


def row_hash(rows, a, b):
    """(a x + b) mod 5 of the rows, as {row: place}."""
    values = universal_hash(np.array(rows, np.uint64), a, b, prime=5, buckets=5)
    return dict(zip(rows, values.tolist()))


# in the implementation example, rows count from 0
IMPLEMENTATION = [{row - 1 for row in column} for column in columns_of("1001 0010 0101 1011 0010")]
IMPLEMENTATION_ORDERS = [row_hash(range(5), 1, 1), row_hash(range(5), 3, 1)]


def test_hash_functions_of_the_implementation_example():
    assert [list(order.values()) for order in IMPLEMENTATION_ORDERS] == [[1, 2, 3, 4, 0], [1, 4, 2, 0, 3]]


def test_signatures_of_the_implementation_example():
    matrix = signature_matrix(IMPLEMENTATION, IMPLEMENTATION_ORDERS)
    assert matrix.tolist() == [[1, 3, 0, 1], [0, 2, 0, 0]]


@pytest.mark.parametrize(
    "row, matrix",
    [
        (2, [[1, 3, 2, 1], [1, 2, 4, 1]]),
        (3, [[1, 3, 2, 1], [0, 2, 0, 0]]),
        (4, [[1, 3, 0, 1], [0, 2, 0, 0]]),
    ],
)
def test_signatures_after_some_rows(row, matrix):
    """From row 2 on, every column has a 1."""
    seen = [{x for x in column if x <= row} for column in IMPLEMENTATION]
    assert signature_matrix(seen, IMPLEMENTATION_ORDERS).tolist() == matrix


def test_two_rows_may_deceive():
    """SIM(S1, S4) is 1.0 by signatures and 2/3 in truth."""
    matrix = signature_matrix(IMPLEMENTATION, IMPLEMENTATION_ORDERS)
    assert estimate(matrix[:, 0], matrix[:, 3])[0] == 1.0
    assert similarity(IMPLEMENTATION[0], IMPLEMENTATION[3]) == 2 / 3


PRACTICE = columns_of("10 01 11 10 01")
PRACTICE_ORDERS = [row_hash(range(1, 6), 1, 0), row_hash(range(1, 6), 2, 1)]


def test_hash_functions_of_the_implementation_practice():
    h, g = PRACTICE_ORDERS
    assert list(h.values()) == [1, 2, 3, 4, 0]
    assert list(g.values()) == [3, 0, 2, 4, 1]


def test_signatures_of_the_implementation_practice():
    assert signature_matrix(PRACTICE, PRACTICE_ORDERS).tolist() == [[1, 0], [2, 0]]


# bands


@pytest.mark.parametrize(
    "s, chance, places",
    [(0.2, 0.006, 3), (0.3, 0.047, 3), (0.4, 0.186, 3), (0.5, 0.470, 3), (0.6, 0.802, 3)]
    + [(0.7, 0.975, 3), (0.8, 0.9996, 4)],
)
def test_table_of_20_bands_of_5_rows(s, chance, places):
    assert round(collision_chance(s, bands=20, rows=5), places) == chance


def test_pairs_of_80_percent():
    assert round(collision_chance(0.8, bands=1, rows=5), 3) == 0.328
    found = describe(0.8, bands=20, rows=5).recall
    assert 1 - found == pytest.approx(0.00035, abs=0.00001)
    assert found == pytest.approx(0.99965, abs=0.00001)


def test_pairs_of_30_percent():
    assert round(collision_chance(0.3, bands=1, rows=5), 5) == 0.00243
    # the slide rounds the chance of one band first; without that it is 0.0475
    assert collision_chance(0.3, bands=20, rows=5) == pytest.approx(0.0474, abs=0.0001)


def test_15_bands_have_fewer_false_positives_and_more_false_negatives():
    fewer, more = describe(0.8, bands=15, rows=5), describe(0.8, bands=20, rows=5)
    assert fewer.false_area < more.false_area
    assert fewer.recall < more.recall


@pytest.mark.parametrize("s", [0.0, 0.3, 0.8, 1.0])
def test_one_band_of_one_row_gives_the_similarity(s):
    assert collision_chance(s, bands=1, rows=1) == pytest.approx(s)


def test_columns_that_agree_in_one_band_are_candidates():
    """The matrix of the first cut, one row a band: columns 1 and 2 agree nowhere, 2 and 4 everywhere."""
    matrix = np.array([[2, 1, 4, 1], [1, 2, 1, 2], [2, 1, 2, 1]], np.uint32)
    keys = bucket_keys(matrix.T, bands=3, rows=1)
    met = {(i + 1, j + 1) for i, j in combinations(range(4), 2) if (keys[i] == keys[j]).any()}
    assert met == {(1, 3), (2, 4)}


# the three levels of checking


def corpus(seed=1):
    """Texts, of which some are copies with a few words changed, and some share a beginning."""
    draw, texts = random.Random(seed), []
    for _ in range(60):
        words = [f"w{draw.randrange(2000)}" for _ in range(draw.randrange(30, 120))]
        texts.append(words)
        for changes in draw.choice(([], [0], [1, 2], [1, 2, 4, 8])):
            copy = list(words)
            for _ in range(changes):
                copy[draw.randrange(len(copy))] = f"w{draw.randrange(2000)}"
            texts.append(copy)
        texts.append(words[: len(words) // 2] + [f"v{draw.randrange(2000)}" for _ in words[::3]])
    return texts


@families
def test_each_level_of_checking_keeps_the_true_pairs(sign):
    """Buckets, then signatures within four standard errors, then the documents themselves."""
    texts, size, bands, rows, threshold = corpus(), 3, 20, 5, 0.8
    sets = [{tuple(words[i : i + size]) for i in range(len(words) - size + 1)} for words in texts]
    true = {
        (i, j)
        for i, j in combinations(range(len(texts)), 2)
        if len(sets[i] & sets[j]) / len(sets[i] | sets[j]) >= threshold
    }

    shingles = shingle(tokenize([" ".join(words) for words in texts]), size)
    signatures = sign(shingles, bands * rows)
    keys = bucket_keys(signatures, bands, rows)
    text_of_row = np.repeat(np.arange(len(texts)), bands)
    first, second, _ = candidate_pairs(keys.reshape(-1), text_of_row, text_of_row, cap=len(texts))
    met = np.unique(np.sort(np.stack([text_of_row[first], text_of_row[second]]), axis=0), axis=1)

    estimates, errors = estimate(signatures[met[0]], signatures[met[1]])
    alike = met[:, estimates + 4 * errors >= threshold]
    verified = alike[:, jaccard(shingles, *alike) >= threshold]

    levels = [set(zip(*pairs.tolist())) for pairs in (met, alike, verified)]
    assert len(texts) * (len(texts) - 1) / 2 > 20 * len(levels[0])
    assert levels[0] > levels[1] > levels[2]
    assert levels[2] == true
    assert len(true) > 50
