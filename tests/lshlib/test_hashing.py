import numpy as np
import pytest

from lshlib.hashing import constants, hash64, mix, stable_order

RANGE = 2**64


def plain_mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % RANGE
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % RANGE
    return x ^ (x >> 31)


def test_constants_are_the_published_stream_of_splitmix64():
    """The outputs for seed 1234567 that implementations of SplitMix64 are checked with."""
    assert constants(5, seed=1234567).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_hash64_is_the_low_half_of_murmurhash3():
    """The signed value for foo in the README of mmh3."""
    assert hash64(b"foo") == -2129773440516405919 % RANGE


def test_hash64_takes_the_low_32_bits_of_a_seed():
    assert hash64(b"foo", seed=2**32 + 5) == hash64(b"foo", seed=5) != hash64(b"foo", seed=6)


def test_mix_is_that_of_python_integers():
    numbers = [0, 1, RANGE - 1, 2**63, *constants(1000, seed=3).tolist()]
    assert mix(np.array(numbers, np.uint64)).tolist() == list(map(plain_mix, numbers))


def test_mix_leaves_its_argument_alone():
    numbers = np.arange(10, dtype=np.uint64)
    mix(numbers)
    assert numbers.tolist() == list(range(10))


def test_mix_keeps_distinct_numbers_distinct():
    numbers = np.concatenate([np.arange(20_000), np.arange(1, 20_000) << 40]).astype(np.uint64)
    assert len(np.unique(mix(numbers))) == len(numbers)


def test_a_longer_stream_starts_with_the_shorter_one():
    assert constants(100, seed=9)[:30].tolist() == constants(30, seed=9).tolist()


@pytest.mark.parametrize("seed", [-1, 2**64, 2**70 + 3])
def test_seeds_count_modulo_two_to_the_64(seed):
    assert constants(4, seed).tolist() == constants(4, seed % RANGE).tolist()


def test_no_constants_are_an_empty_array():
    assert constants(0, seed=1).tolist() == []


SCATTERED = constants(300, seed=5).tolist()
ORDERS = {
    "none": [],
    "one": [7],
    "equal": [RANGE - 1] * 50,
    "random": SCATTERED,
    "repeated": SCATTERED[:40] * 5,
    "small": [n % 7 for n in range(100)],
    "down": list(range(100, 0, -1)),
    "alike but for low bits": [hash_ ^ n % 4 for n, hash_ in enumerate(SCATTERED[:50] * 6)],
    "extreme": [0, RANGE - 1, 2**63, 1, RANGE - 2, 0, 2**63 - 1, RANGE - 1],
}


@pytest.mark.parametrize("hashes", ORDERS.values(), ids=ORDERS)
def test_stable_order_sorts_and_keeps_equal_ones_in_their_order(hashes):
    expected = sorted(range(len(hashes)), key=hashes.__getitem__)
    order = stable_order(np.array(hashes, np.uint64))
    assert (order.tolist(), order.dtype) == (expected, np.int64)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 8, 9, 1023, 1024, 1025])
def test_stable_order_of_any_number_is_sorted(count):
    hashes = constants(count, seed=count) >> np.uint64(1)
    assert stable_order(hashes).tolist() == np.argsort(hashes, kind="stable").tolist()


def test_stable_order_leaves_its_argument_alone():
    hashes = np.array([3, 1, 2], np.uint64)
    stable_order(hashes)
    assert hashes.tolist() == [3, 1, 2]
