import random

import numpy as np
import pytest

from lshlib.components import components, large_star, small_star

TOP = 2**64 - 1


def chain(count):
    return [(n, n + 1) for n in range(count)]


def shuffled(edges, seed=0):
    """The edges in another order, some of them turned round, and their nodes under other names."""
    draw = random.Random(seed)
    nodes = sorted({node for edge in edges for node in edge})
    names = {node: draw.getrandbits(64) for node in nodes}
    edges = [(names[u], names[v]) if draw.random() < 0.5 else (names[v], names[u]) for u, v in edges]
    draw.shuffle(edges)
    return edges


def random_graph(nodes, edges, seed):
    draw = random.Random(seed)
    return [(draw.randrange(nodes), draw.randrange(nodes)) for _ in range(edges)]


SHAPES = {
    "empty": [],
    "one edge": [(3, 8)],
    "one edge downwards": [(8, 3)],
    "self-loop": [(4, 4)],
    "self-loop and edge": [(4, 4), (4, 9), (9, 9)],
    "duplicate edges": [(1, 2), (2, 1), (1, 2), (2, 3), (2, 3)],
    "triangle": [(1, 2), (2, 3), (3, 1)],
    "chain": chain(200),
    "chain of 10,000": chain(10_000),
    "chain of 10,000 shuffled": shuffled(chain(10_000)),
    "zigzag": [(n, 400 - n) for n in range(200)] + [(400 - n, n + 1) for n in range(200)],
    "star": [(0, n) for n in range(1, 300)],
    "star of the largest": [(300, n) for n in range(300)],
    "star shuffled": shuffled([(0, n) for n in range(1, 300)]),
    "two blobs": [(a, b) for blob in (range(20), range(20, 45)) for a in blob for b in blob if a < b],
    "two blobs and a bridge": [(a, b) for a in range(30) for b in range(a) if a // 15 == b // 15] + [(29, 0)],
    "pairs": [(2 * n, 2 * n + 1) for n in range(500)],
    "huge ids": [(TOP, 0), (TOP - 1, 2**63), (2**63, 2**63 - 1)],
    "caterpillar": chain(100) + [(n, 1000 + n) for n in range(100)],
    "tree": shuffled([(n, (n - 1) // 2) for n in range(1, 1000)]),
    "sparse": shuffled(random_graph(1000, 400, seed=1)),
    "critical": shuffled(random_graph(1000, 520, seed=2)),
    "dense": shuffled(random_graph(300, 3000, seed=3)),
}
shapes = pytest.mark.parametrize("edges", SHAPES.values(), ids=SHAPES)


def plain(edges):
    """Union-find: the components as a set of frozensets."""
    root = {node: node for edge in edges for node in edge}

    def find(node):
        while root[node] != node:
            root[node] = node = root[root[node]]
        return node

    for u, v in edges:
        root[find(u)] = find(v)
    members = {}
    for node in root:
        members.setdefault(find(node), set()).add(node)
    return set(map(frozenset, members.values()))


def columns(edges):
    first, second = np.array(edges, np.uint64).reshape(-1, 2).T
    return first, second


def found(edges):
    """{node: label}"""
    nodes, labels = components(*columns(edges))
    return dict(zip(nodes.tolist(), labels.tolist()))


def sets_of(labels):
    members = {}
    for node, label in labels.items():
        members.setdefault(label, set()).add(node)
    return set(map(frozenset, members.values()))


@shapes
def test_components_are_those_of_a_plain_union_find(edges):
    assert sets_of(found(edges)) == plain(edges)


@shapes
def test_the_label_of_a_component_is_its_least_node(edges):
    for label, members in ((label, node) for node, label in found(edges).items()):
        assert label <= members
    labels = found(edges)
    assert all(labels[label] == label for label in labels.values())


@shapes
def test_nodes_are_sorted_and_each_once(edges):
    nodes, labels = components(*columns(edges))
    assert nodes.tolist() == sorted({node for edge in edges for node in edge})
    assert (nodes.dtype, labels.dtype) == (np.uint64, np.uint64)


@pytest.mark.parametrize("seed", range(20))
def test_components_of_random_graphs_are_those_of_a_plain_union_find(seed):
    edges = random_graph(60, 10 + 4 * seed, seed)
    assert sets_of(found(edges)) == plain(edges)


def test_order_of_the_edges_does_not_count():
    edges = SHAPES["critical"]
    assert found(edges) == found(edges[::-1]) == found([(v, u) for u, v in edges])


# in rounds


def both_ways(first, second):
    return np.concatenate([first, second]), np.concatenate([second, first])


def downwards(first, second):
    return np.maximum(first, second), np.minimum(first, second)


def in_parts(star, first, second, parts=3):
    """One round in which each reducer has some of the nodes, with all edges of each."""
    results = [star(first[first % parts == part], second[first % parts == part]) for part in range(parts)]
    firsts, seconds, changes = zip(*results)
    return np.concatenate(firsts), np.concatenate(seconds), sum(changes)


def stars(edges, rounds=100):
    """(edges, rounds) of large stars and small stars in turn, until no edge changes."""
    first, second = columns(edges)
    for number in range(1, rounds + 1):
        first, second, changed = in_parts(large_star, *both_ways(first, second))
        first, second, changed_too = in_parts(small_star, *downwards(first, second))
        if not changed + changed_too:
            return list(zip(first.tolist(), second.tolist())), number
    raise AssertionError(f"edges still change after {rounds} rounds")


@shapes
def test_stars_converge_to_the_components(edges):
    linked, _ = stars([edge for edge in edges if edge[0] != edge[1]])
    assert sets_of(found(linked)) == {members for members in plain(edges) if len(members) > 1}


@shapes
def test_stars_link_every_node_to_the_least_of_its_component(edges):
    linked, _ = stars(edges)
    labels = found(edges)
    assert {u: v for u, v in linked if u != v} == {u: v for u, v in labels.items() if u != v}
    assert len(set(linked)) == len(linked)


@pytest.mark.parametrize("name", ["chain of 10,000", "chain of 10,000 shuffled", "zigzag", "tree"])
def test_stars_need_few_rounds(name):
    """Observed: log2 of the longest path, about (Kiveris et al. 2014, section 5)."""
    edges = SHAPES[name]
    assert stars(edges)[1] <= 2 + len(edges).bit_length()


@pytest.mark.parametrize("star", [large_star, small_star])
def test_a_settled_star_does_not_change(star):
    first, second = columns([(n, 1) for n in range(2, 50)])
    edges = both_ways(first, second) if star is large_star else (first, second)
    linked = star(*edges)
    assert linked[2] == 0
    assert set(zip(linked[0].tolist(), linked[1].tolist())) == {(n, 1) for n in range(2, 50)}


@pytest.mark.parametrize("star", [large_star, small_star])
def test_no_edges_stay_none(star):
    first, second, changed = star(*columns([]))
    assert (first.tolist(), second.tolist(), changed) == ([], [], 0)


def test_large_star_links_larger_neighbours_to_the_least():
    first, second, changed = large_star(*columns([(5, 2), (5, 7), (5, 9), (5, 4)]))
    assert sorted(zip(first.tolist(), second.tolist())) == [(7, 2), (9, 2)]
    assert changed == 2


def test_small_star_links_smaller_neighbours_and_the_node_to_the_least():
    first, second, changed = small_star(*columns([(9, 5), (9, 2), (9, 7)]))
    assert sorted(zip(first.tolist(), second.tolist())) == [(5, 2), (7, 2), (9, 2)]
    assert changed == 2
