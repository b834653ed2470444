"""Verified pairs to clusters: who survives, and through whom each other member is linked."""

from typing import NamedTuple

import numpy as np

from .components import components


class Clusters(NamedTuple):
    """Members sorted by cluster; the survivor of a cluster is its first member."""

    members: np.ndarray  # int64: numbers of texts
    starts: np.ndarray  # int64: where each cluster starts in `members`, and the end
    linked_to: np.ndarray  # int64: for each member the text it was linked through; survivors, themselves


def find_clusters(first, second, similarities, ranks):
    """The `Clusters` of verified pairs of texts.

    `ranks[i]` orders texts for survival, the least survives; ranks are distinct. A member is linked to
    the survivor with as few links as can be, and among those through the text it is most similar to,
    then through the least rank.

    >>> found = find_clusters(np.array([0, 1]), np.array([1, 2]), np.array([0.9, 0.8]), np.array([0, 1, 2]))
    >>> found.members.tolist(), found.linked_to.tolist()
    ([0, 1, 2], [0, 0, 1])
    """
    first, second = np.asarray(first, np.int64), np.asarray(second, np.int64)
    texts, labels = components(first, second)
    order = np.lexsort((ranks[texts], labels))
    members, labels = texts[order], labels[order]
    starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1])) if len(members) else []
    starts = np.append(starts, len(members)).astype(np.int64)
    linked_to = _links(first, second, similarities, ranks, members[starts[:-1]])
    return Clusters(members, starts, linked_to[members])


def _links(first, second, similarities, ranks, survivors):
    """Breadth first from all survivors at once: for each text the one it is linked through."""
    linked_to = np.full(len(ranks), -1, np.int64)
    linked_to[survivors] = survivors
    one, other = np.concatenate([first, second]), np.concatenate([second, first])
    strength = np.concatenate([similarities, similarities])
    # the last assignment to a place wins: the strongest link, of the least rank
    order = np.lexsort((-ranks[one], strength))
    one, other = one[order], other[order]
    while len(one):
        ready = (linked_to[one] >= 0) & (linked_to[other] < 0)
        if not ready.any():
            break
        linked_to[other[ready]] = one[ready]
        open_ = linked_to[other] < 0
        one, other = one[open_], other[open_]
    return linked_to
