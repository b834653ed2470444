"""Connected components: in memory, or as rounds of large star and small star over the shuffle.

Nodes are uint64 numbers; a component is named by its least node.
"""

import numpy as np


def components(first, second):
    """(nodes, labels) of the graph with edges (first[i], second[i]).

    `nodes` is sorted, `labels[i]` the least node of its component.

    >>> components(np.array([5, 7, 1], np.uint64), np.array([7, 9, 2], np.uint64))[1].tolist()
    [1, 1, 5, 5, 5]
    """
    nodes, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
    root = join(np.arange(len(nodes)), ends[: len(first)], ends[len(first) :])
    return nodes, nodes[root]


def join(root, u, v):
    """Union-find on arrays: the roots of all nodes once edges (u[i], v[i]) are added; nodes are numbers.

    `root` holds for each node the least node of its component, and is changed. Each round hooks every
    root onto its least neighbouring root and flattens the trees, which at least halves the roots of a
    component that are not yet joined: O(log n) rounds.
    """
    while True:
        at_u, at_v = root[u], root[v]
        open_ = at_u != at_v
        if not open_.any():
            return root
        u, v, at_u, at_v = u[open_], v[open_], at_u[open_], at_v[open_]
        np.minimum.at(root, np.maximum(at_u, at_v), np.minimum(at_u, at_v))
        while True:
            above = root[root]
            if (above == root).all():
                break
            root = above


def large_star(first, second):
    """One large-star round: (first, second, number of edges that changed).

    Every node links each larger neighbour to its least neighbour or itself (Kiveris et al. 2014,
    "Connected components in MapReduce and beyond", section 4). Wants every edge at both of its ends'
    `first`, all edges of a node together.
    """
    u, v, least = _least_neighbours(first, second)
    larger = v > u
    return v[larger], least[larger], int(np.count_nonzero(least[larger] != u[larger]))


def small_star(first, second):
    """One small-star round: (first, second, number of edges that changed).

    Every node links its smaller neighbours and itself to the least of them. Wants every edge once, with
    its larger end in `first`, all edges of a node together.
    """
    u, v, least = _least_neighbours(first, second)
    other = v != least
    heads = np.ones(len(u), bool)
    heads[1:] = u[1:] != u[:-1]
    return (
        np.concatenate([u[heads], v[other]]),
        np.concatenate([least[heads], least[other]]),
        int(np.count_nonzero(other)),
    )


def _least_neighbours(first, second):
    """Edges sorted and unique, and for each the least of its first node and that node's neighbours."""
    order = np.lexsort((second, first))
    u, v = first[order], second[order]
    if not len(u):
        return u, v, u
    fresh = np.ones(len(u), bool)
    fresh[1:] = (u[1:] != u[:-1]) | (v[1:] != v[:-1])
    u, v = u[fresh], v[fresh]
    heads = np.ones(len(u), bool)
    heads[1:] = u[1:] != u[:-1]
    least = np.minimum(u[heads], v[heads])  # v is sorted within a node
    return u, v, least[np.cumsum(heads) - 1]
