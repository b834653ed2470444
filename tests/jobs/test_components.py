import random
from collections import Counter, defaultdict

import numpy as np
import pytest
from running import blocks, components_of, run_job

from components import Components
from lshlib.blocks import BlockProtocol

SHAPES = {
    "one pair": [(1, 2)],
    "chain": [(n, n + 1) for n in range(1, 40)],
    "star": [(5, n) for n in range(6, 40)],
    "star around the greatest": [(n, 99) for n in range(30)],
    "two blobs": [(a, b) for base in (0, 50) for a in range(base, base + 9) for b in range(a + 1, base + 9)],
    "cycle": [(n, n + 1) for n in range(20)] + [(0, 20)],
    "ends of the range": [(0, 2**64 - 1), (1, 2**63), (2**63, 2**64 - 2)],
    "grid": [(n, n + 1) for n in range(99) if n % 10 < 9] + [(n, n + 10) for n in range(90)],
    "forest": [(random.Random(n).randrange(n), n) for n in range(1, 300) if n % 7],
}
SHAPES["everything"] = [
    (a + (number << 56), b + (number << 56))
    for number, shape in enumerate(("chain", "star", "two blobs", "grid", "forest"))
    for a, b in SHAPES[shape]
]


def write_pairs(path, pairs, size=10, per_block=7):
    """A file of blocks of pairs, as `candidates.py` writes them; each text has `size` shingles."""
    with open(path, "wb") as file:
        for start in range(0, len(pairs), per_block):
            first, second = np.array(pairs[start : start + per_block], np.uint64).T
            block = {"first": first, "second": second, "bands": np.ones(len(first), np.uint16)}
            for name, keys in (("first", first), ("second", second)):
                block[f"{name}_size"] = np.full(len(keys), size, np.uint32)
                block[f"{name}_mark"] = (keys * np.uint64(2654435761)).astype(np.uint32)
            file.write(BlockProtocol().write("pairs", block) + b"\n")
    return path


def targets(lines):
    """({target: set of pairs}, {target: set of keys}) of the job's output, those of parts apart."""
    found = [defaultdict(set), defaultdict(set), defaultdict(set), defaultdict(set)]
    pairs, routes = blocks(lines, "pairs"), blocks(lines, "routes")
    for first, second, target, partial in zip(*(pairs[n] for n in ("first", "second", "target", "partial"))):
        found[2 * bool(partial)][target].add((first, second))
    for key, target, partial in zip(*(routes[name] for name in ("key", "target", "partial"))):
        found[2 * bool(partial) + 1][target].add(key)
    return found


def joined(pairs):
    """Components by their pairs: a set of frozensets of keys."""
    return components_of(pairs)


@pytest.fixture(params=SHAPES)
def shape(request):
    return SHAPES[request.param]


def in_rounds(path, folder, *options):
    """As Dedup does it where the pairs do not fit in memory: the output lines."""
    edges, changed, rounds = path, 1, 0
    while changed:
        changed = 0
        for star in ("large", "small"):
            lines, counters = run_job(Components, edges, "--star", star, "--slices", 3)
            changed += counters.get("changed edges", 0)
            edges = folder / f"{star}-{rounds}"
            edges.write_bytes(b"".join(line + b"\n" for line in lines))
        rounds += 1
        assert rounds < 30
    return run_job(Components, path, edges, "--labelled", "--slices", 3, *options)[0]


def test_components_are_never_parted(tmp_path, shape):
    pairs, keys, parts, _ = targets(run_job(Components, write_pairs(tmp_path / "pairs", shape))[0])
    assert not parts
    assert set().union(*pairs.values()) == set(shape)
    assert sum(map(len, keys.values())) == len({key for pair in shape for key in pair})
    for target in pairs:
        assert keys[target] == {key for pair in pairs[target] for key in pair}


def test_small_targets_hold_whole_components(tmp_path, shape):
    path = write_pairs(tmp_path / "pairs", shape)
    options = ["--target-size", 1, "--whole"]
    pairs, keys, parts, _ = targets(run_job(Components, path, *options)[0])
    assert not parts
    assert {frozenset(members) for members in keys.values()} == joined(shape)


def test_order_and_repetition_of_pairs_change_nothing(tmp_path, shape):
    shuffled = shape * 2
    random.Random(1).shuffle(shuffled)
    lines = run_job(Components, write_pairs(tmp_path / "1", shape, per_block=1000))[0]
    other = run_job(Components, write_pairs(tmp_path / "2", shuffled, per_block=3))[0]
    assert targets(lines) == targets(other)


def test_bands_of_one_pair_add_up(tmp_path):
    path = write_pairs(tmp_path / "pairs", [(1, 2), (3, 4), (1, 2), (1, 2)], per_block=1)
    found, bands = blocks(run_job(Components, path)[0], "pairs"), Counter()
    for first, second, shared in zip(found["first"], found["second"], found["bands"]):
        bands[first, second] += shared
    assert bands == {(1, 2): 3, (3, 4): 1}


def test_oversized_components_are_dealt_in_parts(tmp_path, shape):
    lines = run_job(Components, write_pairs(tmp_path / "pairs", shape, size=10), "--target-size", 50)[0]
    pairs, keys, part_pairs, part_keys = targets(lines)
    # every pair once, and its two texts come to where it is
    everywhere = Counter(pair for found in (pairs, part_pairs) for ones in found.values() for pair in ones)
    assert everywhere == dict.fromkeys(shape, 1)
    for found, texts in ((pairs, keys), (part_pairs, part_keys)):
        for target in found:
            assert {key for pair in found[target] for key in pair} <= texts[target]
    assert not set(pairs) & set(part_pairs)
    small = {component for component in joined(shape) if len(component) <= 5}
    assert joined(pair for ones in pairs.values() for pair in ones) == small
    assert joined(pair for ones in part_pairs.values() for pair in ones) == joined(shape) - small


@pytest.mark.parametrize("name", ["chain", "star around the greatest", "ends of the range", "everything"])
def test_rounds_of_stars_join_the_same(tmp_path, name):
    shape = SHAPES[name]
    path = write_pairs(tmp_path / "pairs", shape)
    found = targets(in_rounds(path, tmp_path, "--target-size", 1, "--whole"))
    assert {frozenset(members) for members in found[1].values()} == joined(shape)
    assert set().union(*found[0].values()) == set(shape)
    assert not found[2]


def test_first_target_sets_the_numbers_apart(tmp_path):
    path = write_pairs(tmp_path / "pairs", SHAPES["everything"])
    lines = run_job(Components, path, "--whole", "--target-size", 1, "--first-target", 1 << 48)[0]
    assert min(targets(lines)[0]) >= 1 << 48


@pytest.mark.parametrize("options", [[], ["--star", "large"], ["--star", "small"], ["--labelled"]])
def test_no_pairs_at_all(tmp_path, options):
    (tmp_path / "pairs").write_bytes(b"")
    lines, counters = run_job(Components, tmp_path / "pairs", *options)
    assert blocks(lines, "pairs")["first"] == []
    assert counters.get("changed edges", 0) == 0
