"""Who meets whom: candidate pairs dealt to reducers so that each holds a bounded number of shingles.

Components are packed whole into *targets*. One that alone exceeds the bound is dealt into groups, each
pair of groups a target, and a text travels only to the targets in which it has a pair.
"""

from typing import NamedTuple

import numpy as np

from .components import components


class Targets(NamedTuple):
    """Targets are numbers from 0 on; those from `whole` on hold parts of an oversized component."""

    pairs: np.ndarray  # int64: the target of each pair
    keys: np.ndarray  # uint64, ascending: the text of each route
    routes: np.ndarray  # int64: a target of that text
    whole: int
    oversized: int  # components over the limit


def deal_pairs(first, second, first_size, second_size, limit, split=True):
    """Deal pairs of keys to `Targets` of at most about 2 * `limit` shingles.

    Sizes are the numbers of shingles of the texts. Without `split`, an oversized component is a target
    of its own.
    """
    nodes, labels = components(first, second)
    sizes = np.zeros(len(nodes), np.int64)
    sizes[np.searchsorted(nodes, first)] = first_size
    sizes[np.searchsorted(nodes, second)] = second_size
    # components in the order of their labels, each node's number of its component
    names, component = np.unique(labels, return_inverse=True)
    totals = np.bincount(component, weights=sizes, minlength=len(names)).astype(np.int64)
    big = totals > limit
    packed = np.where(big, 0, totals)
    target = (np.cumsum(packed) - packed) // max(1, limit)
    whole = int(target[-1]) + 1 if len(target) else 0
    oversized = int(np.count_nonzero(big))
    if not split:
        target[big] = whole + np.arange(oversized)
        big = np.zeros_like(big)
    pair_component = component[np.searchsorted(nodes, first)]
    pairs = target[pair_component]
    in_big = big[pair_component]
    keys, routes = nodes[~big[component]], target[component][~big[component]]
    if in_big.any():
        group = _groups(component, sizes, max(1, limit // 2))
        one, other = (group[np.searchsorted(nodes, ends[in_big])] for ends in (first, second))
        combined = np.stack([np.minimum(one, other), np.maximum(one, other)])
        _, numbers = np.unique(combined, axis=1, return_inverse=True)
        pairs[in_big] = whole + numbers.reshape(-1)
        ends = np.concatenate([first[in_big], second[in_big]])
        both = np.stack([ends, np.concatenate([pairs[in_big]] * 2).astype(np.uint64)])
        big_keys, big_routes = np.unique(both, axis=1)
        keys = np.concatenate([keys, big_keys])
        routes = np.concatenate([routes, big_routes.astype(np.int64)])
        order = np.argsort(keys, kind="stable")
        keys, routes = keys[order], routes[order]
    return Targets(pairs, keys, routes, whole, oversized)


def _groups(component, sizes, limit):
    """A number for each node: nodes of a component in the order given, cut each `limit` shingles."""
    order = np.argsort(component, kind="stable")
    ordered, before = component[order], np.cumsum(sizes[order]) - sizes[order]
    heads = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    lengths = np.diff(np.append(heads, len(ordered)))
    cut = (before - np.repeat(before[heads], lengths)) // limit
    fresh = np.ones(len(ordered), bool)
    fresh[1:] = (ordered[1:] != ordered[:-1]) | (cut[1:] != cut[:-1])
    groups = np.empty(len(sizes), np.int64)
    groups[order] = np.cumsum(fresh) - 1
    return groups


ROUTE = np.dtype([("key", "<u8"), ("target", "<u8")])


def look_up(routes, keys):
    """(places, targets): which of the keys have routes, a row a route; `routes` is sorted by key."""
    low = np.searchsorted(routes["key"], keys, side="left")
    counts = np.searchsorted(routes["key"], keys, side="right") - low
    places = np.repeat(np.arange(len(keys)), counts)
    ends = np.cumsum(counts)
    rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(low - ends + counts, counts)
    return places, routes["target"][rows]
