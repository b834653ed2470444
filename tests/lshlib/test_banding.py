import numpy as np
import pytest

from lshlib.banding import (
    LENGTH_LIMIT,
    best_choice,
    bucket_keys,
    choices,
    collision_chance,
    curve_threshold,
    describe,
)
from lshlib.minhash import SIGNATURES
from lshlib.shingles import Shingles


def random_signatures(seed, texts, length, values):
    return np.random.default_rng(seed).integers(0, values, (texts, length), dtype=np.uint32)


# the curve


@pytest.mark.parametrize("bands, rows", [(1, 1), (20, 5), (14, 5), (50, 2), (4, 25)])
def test_curve_rises_from_zero_to_one(bands, rows):
    chances = [collision_chance(s / 100, bands, rows) for s in range(101)]
    assert (chances[0], chances[-1]) == (0, 1)
    assert chances == sorted(chances)


@pytest.mark.parametrize("bands, rows", [(1, 1), (2, 2), (3, 2)])
def test_chance_is_that_of_all_outcomes(bands, rows):
    """Each of the rows agrees with the chance of the similarity, by itself."""
    similarity, chance = 0.7, 0.0
    for outcome in range(2 ** (bands * rows)):
        agree = [outcome >> row & 1 for row in range(bands * rows)]
        if any(all(agree[start : start + rows]) for start in range(0, bands * rows, rows)):
            chance += similarity ** sum(agree) * (1 - similarity) ** (bands * rows - sum(agree))
    assert collision_chance(similarity, bands, rows) == pytest.approx(chance)


@pytest.mark.parametrize("bands, rows", [(20, 5), (16, 4), (10, 10)])
def test_curve_is_steepest_about_its_threshold(bands, rows):
    s = np.linspace(0, 1, 1001)
    steepest = s[np.diff(collision_chance(s, bands, rows)).argmax()]
    assert curve_threshold(bands, rows) == pytest.approx(steepest, abs=0.05)


# choices


def test_description_is_of_the_curve():
    choice = describe(0.8, 20, 5)
    assert (choice.bands, choice.rows, choice.length) == (20, 5, 100)
    assert choice.recall == collision_chance(0.8, 20, 5)
    assert choice.at_half == collision_chance(0.4, 20, 5)


@pytest.mark.parametrize("threshold", [0.3, 0.8, 1.0])
def test_false_area_is_the_mean_of_the_curve_below_the_threshold(threshold):
    s = np.linspace(0, threshold, 100_001)
    curve = collision_chance(s, 14, 5)
    mean = ((curve[1:] + curve[:-1]) / 2).mean()
    assert describe(threshold, 14, 5).false_area == pytest.approx(mean, abs=1e-6)


thresholds = pytest.mark.parametrize("threshold", [0.1, 0.3, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0])
recalls = pytest.mark.parametrize("recall", [0.5, 0.9, 0.995, 0.9998])


@thresholds
@recalls
def test_choices_have_the_fewest_bands_that_keep_the_promise(threshold, recall):
    found = choices(threshold, recall)
    for bands, rows, promised, _, _ in found:
        assert promised == collision_chance(threshold, bands, rows) >= recall
        assert bands == 1 or collision_chance(threshold, bands - 1, rows) < recall
        assert bands * rows <= LENGTH_LIMIT
    assert [choice.rows for choice in found] == list(range(1, len(found) + 1))


@thresholds
@recalls
def test_best_choice_is_the_sharpest_of_the_usual_lengths(threshold, recall):
    usual = [choice for choice in choices(threshold, recall) if choice.length <= 100]
    assert usual
    assert best_choice(threshold, recall).false_area == min(choice.false_area for choice in usual)


@pytest.mark.parametrize("threshold, recall", [(0.02, 0.995), (0.01, 0.9999)])
def test_best_choice_is_the_shortest_where_none_is_usual(threshold, recall):
    found = choices(threshold, recall)
    best = best_choice(threshold, recall)
    assert 100 < best.length == min(choice.length for choice in found)


@pytest.mark.parametrize("threshold, recall", [(0.001, 0.995), (1e-300, 0.5)])
def test_what_no_choice_can_keep_is_refused(threshold, recall):
    with pytest.raises(ValueError, match="no bands x rows up to 4096 finds pairs at threshold"):
        best_choice(threshold, recall)


def test_equal_texts_need_one_band():
    assert best_choice(1.0, 0.995)[:2] == (1, 100)


# buckets


@pytest.mark.parametrize("bands, rows", [(1, 1), (1, 6), (6, 1), (2, 3), (3, 2)])
def test_texts_share_a_bucket_just_where_they_agree_in_a_band(bands, rows):
    signatures = random_signatures(1, 60, bands * rows, values=3)
    keys = bucket_keys(signatures, bands, rows)
    values = signatures.reshape(60, bands, rows)
    expected = (values[:, None] == values[None]).all(axis=3)
    assert ((keys[:, None] == keys[None]) == expected).all()


@pytest.mark.parametrize("bands, rows", [(6, 1), (3, 2), (20, 5)])
def test_bands_never_share_a_bucket(bands, rows):
    keys = bucket_keys(random_signatures(2, 200, bands * rows, values=2), bands, rows)
    columns = [set(column) for column in keys.T.tolist()]
    assert sum(map(len, columns)) == len(set().union(*columns))


def test_order_of_the_rows_counts():
    keys = bucket_keys(np.array([[1, 2, 3], [3, 2, 1], [2, 1, 3], [1, 3, 2]], np.uint32), 1, 3)
    assert len(set(keys.reshape(-1).tolist())) == 4


def test_related_rows_do_not_share_a_bucket():
    """All pairs of small numbers: sums and multiples of theirs are equal often."""
    rows = np.array([(a, b) for a in range(200) for b in range(200)], np.uint32)
    assert len(np.unique(bucket_keys(rows, 1, 2))) == len(rows)


def test_rows_beyond_the_bands_do_not_count():
    signatures = random_signatures(3, 10, 7, values=2**32)
    assert bucket_keys(signatures, 2, 3).tolist() == bucket_keys(signatures[:, :6], 2, 3).tolist()


def test_a_text_has_one_bucket_in_all_batches():
    signatures = random_signatures(4, 10, 6, values=2**32)
    alone = [bucket_keys(signatures[i : i + 1], 2, 3)[0].tolist() for i in range(10)]
    assert bucket_keys(signatures, 2, 3).tolist() == alone


def test_no_texts_have_no_buckets():
    keys = bucket_keys(np.zeros((0, 6), np.uint32), 2, 3)
    assert (keys.shape, keys.dtype) == ((0, 2), np.uint64)


def test_golden_buckets():
    assert bucket_keys(np.array([[1, 2, 3, 4]], np.uint32), 2, 2).tolist() == [
        [17931882455108524688, 6712552180661256957]
    ]


# recall


def random_pairs(seed, pairs, union, common):
    """`Shingles` of 2 * pairs texts: text 2 i shares `common` of `union` random shingles with the next."""
    numbers = np.random.default_rng(seed).integers(0, 2**64, (pairs, union), dtype=np.uint64)
    middle = (union + common) // 2
    one, other = numbers[:, :middle], np.delete(numbers, slice(common, middle), axis=1)
    sizes = np.tile([one.shape[1], other.shape[1]], pairs)
    return Shingles(np.concatenate([one, other], axis=1).reshape(-1), np.append(0, np.cumsum(sizes)))


def share_that_meets(sign, pairs, union, common, bands, rows):
    batch, met = 30, 0
    for seed in range(pairs // batch):
        signatures = sign(random_pairs(seed, batch, union, common), bands * rows, seed)
        keys = bucket_keys(signatures, bands, rows)
        met += np.count_nonzero((keys[::2] == keys[1::2]).any(axis=1))
    return met / pairs


families = pytest.mark.parametrize("sign", SIGNATURES.values(), ids=SIGNATURES)


@families
@pytest.mark.parametrize("union", [5, 10, 30, 300])
def test_pairs_at_the_threshold_meet_as_often_as_promised(sign, union):
    choice, pairs = best_choice(0.8, 0.995), 3000
    error = (choice.recall * (1 - choice.recall) / pairs) ** 0.5
    met = share_that_meets(sign, pairs, union, union * 4 // 5, choice.bands, choice.rows)
    assert met >= choice.recall - 4 * error


@families
@pytest.mark.parametrize("common", [120, 180])
def test_pairs_of_long_texts_meet_as_the_curve_tells(sign, common):
    pairs, chance = 600, collision_chance(common / 300, 14, 5)
    error = (chance * (1 - chance) / pairs) ** 0.5
    assert abs(share_that_meets(sign, pairs, 300, common, 14, 5) - chance) <= 4 * error
