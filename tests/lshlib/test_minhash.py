import numpy as np
import pytest

from lshlib.hashing import constants
from lshlib.minhash import (
    EMPTY,
    MERSENNE_61,
    SIGNATURES,
    estimate,
    fast_signatures,
    universal_hash,
    universal_signatures,
)
from lshlib.shingles import Shingles, shingle
from lshlib.texts import tokenize

RANGE = 2**64

families = pytest.mark.parametrize("sign", SIGNATURES.values(), ids=SIGNATURES)


def shingles_of(*sets):
    """`Shingles` of lists of numbers."""
    offsets = np.cumsum([0, *map(len, sets)], dtype=np.int64)
    return Shingles(np.array([number for row in sets for number in row], np.uint64), offsets)


def random_sets(seed, counts):
    draw = np.random.default_rng(seed)
    return [draw.integers(0, RANGE, count, dtype=np.uint64).tolist() for count in counts]


def random_pairs(seed, pairs, union, common):
    """`Shingles` of 2 * pairs texts: text 2 i shares `common` of `union` random shingles with the next."""
    numbers = np.random.default_rng(seed).integers(0, RANGE, (pairs, union), dtype=np.uint64)
    middle = (union + common) // 2
    one, other = numbers[:, :middle], np.delete(numbers, slice(common, middle), axis=1)
    sizes = np.tile([one.shape[1], other.shape[1]], pairs)
    return Shingles(np.concatenate([one, other], axis=1).reshape(-1), np.append(0, np.cumsum(sizes)))


def rows_of(sign, shingles, length, seed=0):
    return sign(shingles, length, seed).tolist()


# the universal family


@pytest.mark.parametrize("prime", [MERSENNE_61, 2**32 - 5, 2**31 - 1, 101, 5, 2])
@pytest.mark.parametrize("buckets", [2**32, 2**20, 100, 1])
def test_universal_hash_is_that_of_python_integers(prime, buckets):
    edges = [0, 1, 2, 2**31, 2**32 - 1, 2**32, 2**61 - 2, 2**61 - 1, 2**61, 2**62, 2**63, RANGE - 1]
    numbers = edges + constants(300, seed=1).tolist()
    x = np.array(numbers, np.uint64)
    for a in edges + constants(8, seed=2).tolist():
        for b in [0, 1, 2**32, 2**61 - 2, RANGE - 1, *constants(3, seed=a).tolist()]:
            expected = [(a * number + b) % prime % buckets for number in numbers]
            assert universal_hash(x, a, b, prime, buckets).tolist() == expected


@pytest.mark.parametrize("prime", [1, 0, -5, 2**32, 2**61, 2**89 - 1])
def test_universal_hash_refuses_other_primes(prime):
    with pytest.raises(ValueError, match=f"prime must be 2\\^61 - 1 or below 2\\^32, got {prime}"):
        universal_hash(np.arange(5, dtype=np.uint64), 1, 1, prime)


def test_universal_hash_of_nothing_is_nothing():
    assert universal_hash(np.zeros(0, np.uint64), 3, 1).tolist() == []


def test_universal_signatures_are_the_least_universal_hashes():
    sets = random_sets(3, [1, 5, 40])
    numbers = constants(20, seed=9).tolist()
    functions = [(1 + a % (MERSENNE_61 - 1), b) for a, b in zip(numbers[::2], numbers[1::2])]
    expected = [[min((a * x + b) % MERSENNE_61 % 2**32 for x in row) for a, b in functions] for row in sets]
    assert rows_of(universal_signatures, shingles_of(*sets), 10, seed=9) == expected


# the fast family


def plain_fast(numbers, length, seed):
    """Fast similarity sketching of one set, shingle by shingle."""
    rounds = [multiplier | 1 for multiplier in constants(2 * length, seed).tolist()]
    bins = [EMPTY] * length

    def hashed(number, multiplier):
        scrambled = number * multiplier % RANGE
        scrambled ^= scrambled >> 32
        return (scrambled >> 32) * length >> 32, min(scrambled % 2**32, EMPTY - 1)

    for multiplier in rounds[:length]:
        least = {}
        for place, value in (hashed(number, multiplier) for number in numbers):
            least[place] = min(value, least.get(place, value))
        for place, value in least.items():
            bins[place] = min(bins[place], value) if bins[place] == EMPTY else bins[place]
    for j in range(length):
        if bins[j] == EMPTY:
            bins[j] = min(hashed(number, rounds[length + j])[1] for number in numbers)
    return bins


@pytest.mark.parametrize("length", [1, 2, 3, 16, 70, 100])
def test_fast_signatures_are_those_of_the_plain_algorithm(length):
    sets = random_sets(4, [1, 2, 3, 1, 5, 10, 30, 70, 200, 1, 1000])
    expected = [plain_fast(row, length, seed=7) for row in sets]
    assert rows_of(fast_signatures, shingles_of(*sets), length, seed=7) == expected


def test_a_value_like_the_mark_of_an_empty_bin_is_lowered():
    """A shingle is made whose low half is EMPTY in the first round."""
    multiplier = int(constants(2, seed=0)[0]) | 1
    high = 0x12345678
    scrambled = high << 32 | high ^ int(EMPTY)
    number = scrambled * pow(multiplier, -1, RANGE) % RANGE
    assert rows_of(fast_signatures, shingles_of([number]), 1) == [[int(EMPTY) - 1]]


# both


@families
@pytest.mark.parametrize("length", [1, 7, 100])
def test_signatures_are_uint32_a_row_a_text(sign, length):
    signatures = sign(shingles_of([1, 2], [3], []), length)
    assert (signatures.shape, signatures.dtype) == ((3, length), np.uint32)


@families
def test_no_texts_have_no_signatures(sign):
    assert sign(shingles_of(), 5).shape == (0, 5)


@families
@pytest.mark.parametrize("sets", [[[]], [[], []], [[], [1]], [[1], []], [[], [1], [], [], [2, 3], []]])
def test_only_empty_texts_have_empty_rows(sign, sets):
    signatures = sign(shingles_of(*sets), 20)
    assert (signatures == EMPTY).all(axis=1).tolist() == [not row for row in sets]
    assert (signatures == EMPTY).any(axis=1).tolist() == [not row for row in sets]


@families
@pytest.mark.parametrize("length", [1, 16, 100])
def test_a_text_has_one_signature_in_all_batches(sign, length):
    sets = random_sets(5, [1, 0, 3, 50, 2, 0, 300, 1, 1, 7, 900, 0])
    together = rows_of(sign, shingles_of(*sets), length)
    assert together == [rows_of(sign, shingles_of(row), length)[0] for row in sets]
    assert together[::-1] == rows_of(sign, shingles_of(*sets[::-1]), length)


@families
def test_order_and_repetition_of_shingles_do_not_count(sign):
    sets = random_sets(6, [1, 3, 50, 300])
    others = [row[::-1] + row[: len(row) // 2] * 3 for row in sets]
    assert rows_of(sign, shingles_of(*others), 64) == rows_of(sign, shingles_of(*sets), 64)


@families
@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_chunks_do_not_count(monkeypatch, sign, chunk):
    shingles = shingles_of(*random_sets(7, [1, 0, 3, 50, 2, 300, 40]))
    expected = rows_of(sign, shingles, 32)
    monkeypatch.setattr("lshlib.minhash._CHUNK", chunk)
    assert rows_of(sign, shingles, 32) == expected


@families
def test_shingles_are_left_alone(sign):
    shingles = shingles_of(*random_sets(8, [3, 50]))
    before = shingles.hashes.tolist()
    sign(shingles, 64)
    assert shingles.hashes.tolist() == before


@families
def test_another_seed_is_another_signature(sign):
    shingles = shingles_of(*random_sets(9, [1, 20]))
    assert (sign(shingles, 64, seed=1) != sign(shingles, 64, seed=2)).mean() > 0.9


@families
@pytest.mark.parametrize("seed", [-1, 2**64 + 3])
def test_seeds_count_modulo_two_to_the_64(sign, seed):
    shingles = shingles_of(*random_sets(9, [1, 20]))
    assert rows_of(sign, shingles, 8, seed) == rows_of(sign, shingles, 8, seed % RANGE)


GOLDEN = {
    "fast": [1615761444, 3565574602, 835825545, 3157203919, 2281693824, 69794496],
    "universal": [184506892, 533309389, 803034343, 257588610, 286931736, 311603886],
}


@pytest.mark.parametrize("family", SIGNATURES)
def test_golden_signatures(family):
    shingles = shingle(tokenize(["good night and good luck"]), 2)
    assert rows_of(SIGNATURES[family], shingles, 6) == [GOLDEN[family]]


# statistics


@families
@pytest.mark.parametrize(
    "union, common, length",
    [(n, common, length) for n, common in ((3, 1), (3, 2), (10, 5), (10, 8)) for length in (4, 16, 70)]
    + [(40, 12, 16), (40, 12, 70), (40, 32, 16), (40, 32, 70), (1000, 300, 16), (1000, 800, 32)],
)
def test_estimates_have_the_mean_and_variance_promised(sign, union, common, length):
    """The mean is J and the variance J (1 - J) / length, of the fast family at most that."""
    seeds, similarity = 30, common / union
    batches = [sign(random_pairs(seed, 12, union, common), length, seed) for seed in range(seeds)]
    signatures = np.concatenate(batches)
    estimates, _ = estimate(signatures[::2], signatures[1::2])
    pairs = len(estimates)
    variance = similarity * (1 - similarity) / length
    assert abs(estimates.mean() - similarity) <= 4 * (variance / pairs) ** 0.5
    # of a near-normal sample variance
    error = (2 / (pairs - 1)) ** 0.5 * variance
    assert estimates.var(ddof=1) <= variance + 4 * error
    if sign is universal_signatures:
        assert estimates.var(ddof=1) >= variance - 4 * error


SENTENCES = [
    "the quick brown fox jumps over the lazy dog and runs away from the farmer",
    "the quick brown fox leaps over the lazy dog and runs away from the farmer",
]


@families
@pytest.mark.parametrize(
    "texts, size",
    [
        (SENTENCES, 1),
        (SENTENCES, 3),
        (["a b c a b", "a b c b c"], 2),
        (["1 2 3 4 5 6 7 8 9 10", "3 4 5 6 7 8 9 10 11 12"], 1),
        ([" ".join(f"item{n:04}" for n in range(start, start + 40)) for start in (0, 8)], 1),
    ],
    ids=["words", "runs of three", "few words", "numbers", "names in a row"],
)
def test_estimates_of_two_texts_have_the_mean_promised_over_seeds(sign, texts, size):
    one, other = (set(shingle(tokenize([text]), size).hashes.tolist()) for text in texts)
    similarity, seeds, length = len(one & other) / len(one | other), 300, 20
    shingles = shingles_of(sorted(one), sorted(other))
    signatures = np.array([sign(shingles, length, seed) for seed in range(seeds)])
    estimates, _ = estimate(signatures[:, 0], signatures[:, 1])
    error = (similarity * (1 - similarity) / length / seeds) ** 0.5
    assert abs(estimates.mean() - similarity) <= 4 * error


@families
def test_every_shingle_gives_the_minimum_equally_often(sign):
    """A set and its subset of one shingle have similarity 1 / size."""
    (numbers,) = random_sets(11, [8])
    length, seeds = 64, 60
    signatures = np.array(
        [sign(shingles_of(numbers, *([n] for n in numbers)), length, s) for s in range(seeds)]
    )
    shares = (signatures[:, 1:] == signatures[:, :1]).mean(axis=(0, 2))
    error = (1 / 8 * 7 / 8 / (length * seeds)) ** 0.5
    assert abs(shares - 1 / 8).max() <= 4 * error
    assert shares.sum() == pytest.approx(1, abs=1e-6)


@families
@pytest.mark.parametrize("union", [2, 20, 400])
def test_sets_without_a_common_shingle_agree_in_no_row(sign, union):
    signatures = sign(random_pairs(12, 200, union, 0), 64)
    assert np.count_nonzero(signatures[::2] == signatures[1::2]) <= 1


@families
def test_equal_sets_agree_in_all_rows(sign):
    signatures = sign(random_pairs(13, 50, 30, 30), 64)
    assert (signatures[::2] == signatures[1::2]).all()


# estimates


def test_estimate_is_the_share_of_equal_rows_and_its_error():
    one, other = np.array([1, 2, 3, 4, 5, 6, 7, 8]), np.array([1, 2, 3, 4, 5, 6, 0, 0])
    assert estimate(one, other) == (0.75, (0.75 * 0.25 / 8) ** 0.5)


def test_estimates_of_arrays_are_arrays():
    one, other = np.array([[1, 2], [1, 2], [1, 2]]), np.array([[1, 2], [1, 0], [0, 0]])
    similarities, errors = estimate(one, other)
    assert similarities.tolist() == [1, 0.5, 0]
    assert errors.tolist() == [0, 0.125**0.5, 0]
