"""Who meets whom: candidate pairs dealt to reducers so that each holds a bounded number of shingles.

Components are packed whole into *targets*. One that alone exceeds the bound is cut into groups of texts
in the order of their marks, and a pair goes to the group of its later text. A text travels only to the
targets in which it has a pair. As the members of a bucket are paired along the same order, most pairs of a
hot bucket stay within their group, and the centre of a star travels to all groups, not all to it.
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


def deal_pairs(pairs, limit, split=True):
    """Deal a block of pairs to `Targets` of about `limit` to 2 * `limit` shingles.

    The columns are first and second, two keys, and of each text `_size`, its shingles, and `_mark`, by
    which the members of its buckets were ordered. Without `split`, an oversized component is a target
    of its own.
    """
    first, second = pairs["first"], pairs["second"]
    nodes, labels = components(first, second)
    at_first, at_second = np.searchsorted(nodes, first), np.searchsorted(nodes, second)
    sizes, marks = (np.zeros(len(nodes), np.int64) for _ in range(2))
    for column, values in (("size", sizes), ("mark", marks)):
        values[at_first], values[at_second] = pairs[f"first_{column}"], pairs[f"second_{column}"]
    names, component = np.unique(labels, return_inverse=True)
    totals = np.bincount(component, weights=sizes, minlength=len(names)).astype(np.int64)
    oversized = totals > limit
    packed = np.where(oversized, 0, totals)
    target = (np.cumsum(packed) - packed) // max(1, limit)
    whole = int(target[-1]) + 1 if len(target) else 0
    if not split:
        target[oversized] = whole + np.arange(np.count_nonzero(oversized))
    text_target = target[component]
    pair_target = text_target[at_first]
    keys, routes = nodes, text_target
    if split and oversized.any():
        cut = np.flatnonzero(oversized[component])
        order = cut[np.lexsort((nodes[cut], marks[cut], component[cut]))]
        text_target[order] = whole + _groups(component[order], sizes[order], limit)
        # the later of two texts in that order
        place = np.zeros(len(nodes), np.int64)
        place[order] = np.arange(len(order))
        later = np.where(place[at_first] > place[at_second], at_first, at_second)
        pair_target = text_target[later]
        ends = np.stack([np.concatenate([at_first, at_second]), np.concatenate([pair_target] * 2)])
        at, routes = np.unique(ends, axis=1)
        keys = nodes[at]
    return Targets(pair_target, keys, routes, whole, int(np.count_nonzero(oversized)))


def _groups(component, sizes, limit):
    """Numbers of groups for texts sorted by component: cut at components and each `limit` shingles."""
    before = np.cumsum(sizes) - sizes
    heads = np.flatnonzero(np.append(True, component[1:] != component[:-1]))
    lengths = np.diff(np.append(heads, len(component)))
    cut = (before - np.repeat(before[heads], lengths)) // limit
    fresh = np.ones(len(component), bool)
    fresh[1:] = (component[1:] != component[:-1]) | (cut[1:] != cut[:-1])
    return np.cumsum(fresh) - 1


ROUTE = np.dtype([("key", "<u8"), ("target", "<u8")])


def look_up(routes, keys):
    """(places, targets): which of the keys have routes, a row a route; `routes` is sorted by key."""
    low = np.searchsorted(routes["key"], keys, side="left")
    counts = np.searchsorted(routes["key"], keys, side="right") - low
    places = np.repeat(np.arange(len(keys)), counts)
    ends = np.cumsum(counts)
    rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(low - ends + counts, counts)
    return places, routes["target"][rows]
