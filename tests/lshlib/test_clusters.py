import random
from collections import defaultdict

import numpy as np
import pytest

from lshlib.clusters import find_clusters


def chain(count):
    return [(n, n + 1) for n in range(count)]


def random_edges(texts, edges, seed):
    draw = random.Random(seed)
    return sorted({tuple(draw.sample(range(texts), 2)) for _ in range(edges)})


SHAPES = {
    "empty": [],
    "one pair": [(3, 8)],
    "one pair downwards": [(8, 3)],
    "chain": chain(60),
    "star": [(0, n) for n in range(1, 60)],
    "star of the last": [(60, n) for n in range(60)],
    "two blobs": [(a, b) for a in range(30) for b in range(a) if a // 15 == b // 15],
    "two blobs and a bridge": [(a, b) for a in range(30) for b in range(a) if a // 15 == b // 15] + [(29, 0)],
    "ring": [*chain(50), (50, 0)],
    "pairs": [(2 * n, 2 * n + 1) for n in range(50)],
    "ladder": [*chain(40), *((100 + n, 101 + n) for n in range(40)), *((n, 100 + n) for n in range(41))],
    "sparse": random_edges(300, 150, seed=1),
    "critical": random_edges(300, 160, seed=2),
    "dense": random_edges(100, 900, seed=3),
}
shapes = pytest.mark.parametrize("edges", SHAPES.values(), ids=SHAPES)
seeds = pytest.mark.parametrize("seed", range(3))


def weighed(edges, seed, values=4):
    """(similarities, ranks): few values, so that links are equally strong often; texts in any order."""
    draw = random.Random(seed)
    ranks = list(range(max((max(edge) for edge in edges), default=-1) + 1))
    draw.shuffle(ranks)
    return [draw.randrange(1, values + 1) / values for _ in edges], ranks


def found(edges, similarities, ranks):
    """({survivor: list of members}, {text: the one it is linked to})"""
    first, second = np.array(edges, np.int64).reshape(-1, 2).T
    clusters = find_clusters(first, second, np.array(similarities, float), np.array(ranks, np.int64))
    members, starts = clusters.members.tolist(), clusters.starts.tolist()
    assert starts[-1] == len(members) == len(clusters.linked_to)
    lists = [members[start:end] for start, end in zip(starts, starts[1:])]
    return {row[0]: row for row in lists}, dict(zip(members, clusters.linked_to.tolist()))


def plain(edges, similarities, ranks):
    """The same by breadth-first search from the least rank of each component."""
    near = defaultdict(dict)
    for (a, b), similarity in zip(edges, similarities):
        near[a][b] = near[b][a] = max(similarity, near[a].get(b, 0))
    clusters, linked_to = {}, {}
    for survivor in sorted(near, key=ranks.__getitem__):
        if survivor in linked_to:
            continue
        linked_to[survivor] = survivor
        members, level = [], {survivor}
        while level:
            members += level
            following = {text for one in level for text in near[one]} - linked_to.keys()
            links = {
                text: min(level & near[text].keys(), key=lambda one: (-near[text][one], ranks[one]))
                for text in following
            }
            linked_to.update(links)
            level = following
        clusters[survivor] = sorted(members, key=ranks.__getitem__)
    return clusters, linked_to


@shapes
@seeds
def test_clusters_and_links_are_those_of_a_breadth_first_search(edges, seed):
    similarities, ranks = weighed(edges, seed)
    assert found(edges, similarities, ranks) == plain(edges, similarities, ranks)


@shapes
@seeds
def test_the_least_rank_survives(edges, seed):
    similarities, ranks = weighed(edges, seed)
    for survivor, members in found(edges, similarities, ranks)[0].items():
        assert ranks[survivor] == min(ranks[member] for member in members)


@shapes
@seeds
def test_every_text_of_a_pair_is_in_one_cluster(edges, seed):
    clusters, _ = found(edges, *weighed(edges, seed))
    members = sorted(member for row in clusters.values() for member in row)
    assert members == sorted({text for edge in edges for text in edge})


@shapes
@seeds
def test_order_of_the_pairs_does_not_count(edges, seed):
    similarities, ranks = weighed(edges, seed)
    rows = list(zip(edges, similarities))
    random.Random(seed).shuffle(rows)
    turned = [(b, a) for (a, b), _ in rows]
    assert found(turned, [s for _, s in rows], ranks) == found(edges, similarities, ranks)


def test_a_member_is_linked_with_as_few_links_as_can_be():
    """Directly at 0.1, rather than through a text that both are like."""
    edges, similarities = [(0, 1), (1, 2), (0, 2)], [1.0, 1.0, 0.1]
    assert found(edges, similarities, [0, 1, 2])[1] == {0: 0, 1: 0, 2: 0}


def test_a_member_is_linked_through_the_text_it_is_most_similar_to():
    edges, similarities = [(0, 1), (0, 2), (1, 3), (2, 3)], [1.0, 0.8, 0.8, 0.9]
    assert found(edges, similarities, [0, 1, 2, 3])[1][3] == 2


def test_equally_strong_links_are_decided_by_rank():
    edges, similarities = [(0, 1), (0, 2), (1, 3), (2, 3)], [0.9] * 4
    assert found(edges, similarities, [0, 1, 2, 3])[1][3] == 1
    assert found(edges, similarities, [0, 2, 1, 3])[1][3] == 2


def test_texts_without_a_pair_are_in_no_cluster():
    clusters, _ = found([(2, 5)], [0.9], list(range(10)))
    assert clusters == {2: [2, 5]}


def test_repeated_pairs_are_one_link():
    assert found([(0, 1), (1, 0), (0, 1)], [0.9] * 3, [0, 1]) == ({0: [0, 1]}, {0: 0, 1: 0})


def test_a_long_chain_is_followed_to_its_end():
    clusters, linked_to = found(chain(3000), [0.9] * 3000, list(range(3001)))
    assert clusters == {0: list(range(3001))}
    assert all(linked_to[text] == text - 1 for text in range(1, 3001))


def test_no_pairs_have_no_clusters():
    result = find_clusters([], [], np.zeros(0), np.arange(5))
    assert [column.tolist() for column in result] == [[], [0], []]
