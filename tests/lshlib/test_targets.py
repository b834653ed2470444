import random
from collections import defaultdict
from copy import copy
from typing import NamedTuple

import numpy as np
import pytest

from lshlib.candidates import candidate_pairs
from lshlib.targets import ROUTE, Dealer, look_up

TOP = 2**64 - 1


class Texts:
    """Texts with keys, marks and sizes of their own, and pairs of them."""

    def __init__(self, edges, seed=0, largest=20):
        draw = random.Random(seed)
        names = {node: draw.getrandbits(64) for node in sorted({node for edge in edges for node in edge})}
        self.pairs = [(names[a], names[b]) if draw.random() < 0.5 else (names[b], names[a]) for a, b in edges]
        draw.shuffle(self.pairs)
        self.sizes = {key: draw.randrange(1, largest + 1) for key in names.values()}
        self.marks = {key: draw.getrandbits(32) for key in names.values()}

    def block(self):
        first, second = np.array(self.pairs, np.uint64).reshape(-1, 2).T
        block = {"first": first, "second": second}
        for name, column, dtype in (("size", self.sizes, np.uint32), ("mark", self.marks, np.uint32)):
            for end in ("first", "second"):
                block[f"{end}_{name}"] = np.array([column[key] for key in block[end].tolist()], dtype)
        return block

    def components(self):
        """Union-find: {key: the set of keys of its component}."""
        members = {key: {key} for key in self.sizes}
        for a, b in self.pairs:
            if members[a] is not members[b]:
                small, large = sorted((members[a], members[b]), key=len)
                large |= small
                members.update(dict.fromkeys(small, large))
        return members

    def total(self, keys):
        return sum(self.sizes[key] for key in keys)


def hot_bucket(members, cap, equal):
    """Texts of one bucket, paired as it is done for candidates."""
    texts = Texts([(n, n + 1) for n in range(members - 1)], seed=members)
    keys = np.array(list(texts.sizes), np.uint64)
    if equal:
        texts.marks = dict.fromkeys(texts.marks, 7)
    marks = np.array([texts.marks[key] for key in keys.tolist()], np.uint32)
    first, second, _ = candidate_pairs(np.zeros(members, np.uint64), marks, keys, cap)
    texts.pairs = list(zip(keys[first].tolist(), keys[second].tolist()))
    return texts


def random_edges(nodes, edges, seed):
    draw = random.Random(seed)
    return [tuple(draw.sample(range(nodes), 2)) for _ in range(edges)]


CASES = {
    "one pair": Texts([(0, 1)]),
    "pairs": Texts([(2 * n, 2 * n + 1) for n in range(200)]),
    "chain": Texts([(n, n + 1) for n in range(300)]),
    "star": Texts([(0, n) for n in range(1, 300)]),
    "two blobs": Texts([(a, b) for a in range(40) for b in range(a) if a // 20 == b // 20]),
    "sparse": Texts(random_edges(600, 300, seed=1)),
    "dense": Texts(random_edges(200, 900, seed=2)),
    "mixed": Texts(random_edges(100, 400, seed=3) + [(1000 + 2 * n, 1001 + 2 * n) for n in range(50)]),
    "hot bucket": hot_bucket(400, cap=5, equal=False),
    "hot bucket of equal texts": hot_bucket(400, cap=5, equal=True),
}
cases = pytest.mark.parametrize("texts", CASES.values(), ids=CASES)
limits = pytest.mark.parametrize("limit", [1, 200, 10**9])
splitting = pytest.mark.parametrize("split", [True, False], ids=["split", "whole"])


class Dealt(NamedTuple):
    pairs: list  # the target of each pair
    partial: list  # of each pair
    routes: np.ndarray
    oversized: int


def deal(texts, limit, split=True, blocks=3, targets=1):
    """All pairs of the texts, dealt in some blocks."""
    dealer, block = Dealer(limit, split, targets), texts.block()
    parts = [{name: column[i::blocks] for name, column in block.items()} for i in range(blocks)]
    for part in parts:
        dealer.see(part)
    dealer.close()
    targets, partial = np.zeros(len(texts.pairs), np.int64), np.zeros(len(texts.pairs), bool)
    for i, part in enumerate(parts):
        targets[i::blocks], partial[i::blocks] = dealer.deal(part)
    return Dealt(targets.tolist(), partial.tolist(), dealer.routes(), dealer.oversized)


def texts_of(dealt):
    """{target: set of keys}"""
    found = defaultdict(set)
    for key, target, _ in dealt.routes.tolist():
        found[target].add(key)
    return found


def targets_of_components(texts, dealt):
    """{id of the component: (its keys, its targets)}, by the pairs."""
    components, found = texts.components(), {}
    for (key, _), target in zip(texts.pairs, dealt.pairs):
        members = components[key]
        found.setdefault(id(members), (members, set()))[1].add(target)
    return found


@cases
@limits
@splitting
def test_both_texts_of_a_pair_have_a_route_to_its_target(texts, limit, split):
    dealt = deal(texts, limit, split)
    found = texts_of(dealt)
    for pair, target in zip(texts.pairs, dealt.pairs):
        assert found[target] >= set(pair)


@cases
@limits
@splitting
def test_a_route_leads_to_a_pair_or_to_the_one_target_of_the_text_itself(texts, limit, split):
    dealt = deal(texts, limit, split)
    needed = {(key, target) for pair, target in zip(texts.pairs, dealt.pairs) for key in pair}
    others = [(key, partial) for key, target, partial in dealt.routes.tolist() if (key, target) not in needed]
    assert len({key for key, _ in others}) == len(others)
    assert all(partial for _, partial in others)


@cases
@limits
@splitting
def test_routes_are_sorted_by_key_and_each_once(texts, limit, split):
    routes = [(key, target) for key, target, _ in deal(texts, limit, split).routes.tolist()]
    assert routes == sorted(set(routes))


@cases
@limits
@splitting
def test_a_component_within_the_limit_is_in_one_whole_target(texts, limit, split):
    dealt = deal(texts, limit, split)
    for members, targets in targets_of_components(texts, dealt).values():
        assert texts.total(members) > limit or len(targets) == 1


@cases
@limits
@splitting
def test_parts_of_oversized_components_are_partial_and_nothing_else_is(texts, limit, split):
    dealt, components = deal(texts, limit, split), texts.components()
    for (key, _), partial in zip(texts.pairs, dealt.partial):
        assert partial == (split and texts.total(components[key]) > limit)
    for key, _, partial in dealt.routes.tolist():
        assert partial == (split and texts.total(components[key]) > limit)


@cases
@limits
@splitting
def test_an_oversized_component_shares_no_target(texts, limit, split):
    dealt, components = deal(texts, limit, split), texts.components()
    for keys in texts_of(dealt).values():
        if any(texts.total(components[key]) > limit for key in keys):
            assert len({id(components[key]) for key in keys}) == 1


@cases
@limits
@splitting
def test_oversized_components_are_counted(texts, limit, split):
    oversized = {id(m) for m in texts.components().values() if texts.total(m) > limit}
    assert deal(texts, limit, split).oversized == len(oversized)


@cases
@limits
def test_without_splitting_a_component_is_in_one_target(texts, limit):
    found = targets_of_components(texts, deal(texts, limit, split=False))
    assert {len(targets) for _, targets in found.values()} == {1}


@cases
@limits
def test_whole_targets_hold_at_most_twice_the_limit(texts, limit):
    dealt = deal(texts, limit)
    partial = {target for _, target, partial in dealt.routes.tolist() if partial}
    for target, keys in texts_of(dealt).items():
        assert target in partial or texts.total(keys) <= 2 * limit


@cases
@limits
def test_whole_targets_are_no_more_than_needed(texts, limit):
    whole = {target for _, target, partial in deal(texts, limit).routes.tolist() if not partial}
    assert len(whole) <= 1 + texts.total(texts.sizes) // limit


@cases
@pytest.mark.parametrize("targets", [2, 16, 10**6])
def test_what_has_room_in_one_target_is_spread(texts, targets):
    """Each has its share, but for the rest of its last component."""
    total = texts.total(texts.sizes)
    largest = max(map(texts.total, texts.components().values()))
    dealt = deal(texts, 10**9, targets=targets)
    loads = [texts.total(keys) for keys in texts_of(dealt).values()]
    assert sum(loads) == total
    assert max(loads) < total / targets + largest
    assert len(loads) <= 1 + total // max(total // targets, 1)
    assert {len(found) for _, found in targets_of_components(texts, dealt).values()} == {1}


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "others"])
@pytest.mark.parametrize("cap", [1, 5, 20])
def test_parts_of_a_hot_bucket_hold_at_most_twice_the_limit(cap, equal):
    """A part has the limit and a text of its own, and the `cap` texts before them."""
    texts, limit = hot_bucket(2000, cap, equal), 500
    loads = [texts.total(keys) for keys in texts_of(deal(texts, limit)).values()]
    assert max(loads) <= limit + 20 + 20 * cap <= 2 * limit
    assert len(loads) <= 1 + texts.total(texts.sizes) / (limit - 20)


@cases
@splitting
@pytest.mark.parametrize("blocks", [1, 20])
def test_blocks_do_not_count(texts, split, blocks):
    dealt, expected = deal(texts, 100, split, blocks), deal(texts, 100, split)
    assert (dealt.pairs, dealt.partial) == (expected.pairs, expected.partial)
    assert dealt.routes.tolist() == expected.routes.tolist()


@cases
@splitting
def test_order_of_the_pairs_does_not_count(texts, split):
    expected = deal(texts, 100, split)
    turned = copy(texts)
    turned.pairs = [(b, a) for a, b in reversed(texts.pairs)]
    dealt = deal(turned, 100, split)
    assert dealt.pairs[::-1] == expected.pairs
    assert dealt.routes.tolist() == expected.routes.tolist()


@splitting
def test_no_pairs_have_no_targets(split):
    dealt = deal(Texts([]), 100, split)
    assert (dealt.pairs, dealt.routes.tolist(), dealt.oversized) == ([], [], 0)


def test_huge_keys_are_told_apart():
    texts = Texts([(0, 1), (2, 3)])
    texts.pairs = [(TOP, TOP - 1), (TOP - 2, 2**63), (2**53, 2**53 + 1)]
    texts.sizes = texts.marks = dict.fromkeys({key for pair in texts.pairs for key in pair}, 9)
    for limit in (1, 18):
        dealt = deal(texts, limit)
        assert len(set(dealt.pairs)) == 3
        assert set(dealt.routes["key"].tolist()) == set(texts.sizes)


def test_sizes_are_summed_beyond_32_bits():
    texts = Texts([(0, 1), (1, 2)])
    texts.sizes = dict.fromkeys(texts.sizes, 2**31)
    assert deal(texts, 2**32).oversized == 1
    assert deal(texts, 3 * 2**31).oversized == 0
    assert len(texts_of(deal(texts, 2**31))) == 3


# looking up


def routes_of(*rows):
    return np.array([(key, target, False) for key, target in sorted(rows)], ROUTE)


def looked_up(routes, keys):
    places, targets = look_up(routes, np.array(keys, np.uint64))
    return list(zip(places.tolist(), targets.tolist()))


def test_keys_are_found_with_each_of_their_targets():
    routes = routes_of((5, 1), (5, 3), (9, 2), (TOP, 7))
    assert looked_up(routes, [9, 5, 4, TOP, 5]) == [(0, 2), (1, 1), (1, 3), (3, 7), (4, 1), (4, 3)]


@pytest.mark.parametrize("keys", [[], [1, 6, 10]], ids=["no keys", "others"])
def test_keys_without_a_route_are_not_found(keys):
    assert looked_up(routes_of((5, 1), (9, 2)), keys) == []


def test_nothing_is_found_without_routes():
    assert looked_up(routes_of(), [1, 2]) == []


def test_random_keys_are_found_as_in_a_dictionary():
    draw = random.Random(6)
    rows = {(draw.randrange(50), draw.randrange(5)) for _ in range(60)}
    keys = [draw.randrange(60) for _ in range(100)]
    expected = [(i, target) for i, key in enumerate(keys) for k, target in sorted(rows) if k == key]
    assert looked_up(routes_of(*rows), keys) == expected
