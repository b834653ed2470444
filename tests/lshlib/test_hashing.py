import numpy as np
import pytest

from lshlib.hashing import constants, hash64, mix

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
