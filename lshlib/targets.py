"""Who meets whom: candidate pairs dealt to reducers so that each holds a bounded number of shingles.

Components are packed whole into *targets*. One that alone exceeds the bound is cut into groups of texts
in the order of their marks, and a pair goes to the group of its later text. A text travels only to the
targets in which it has a pair. As the members of a bucket are paired along the same order, most pairs of a
hot bucket stay within their group, and the centre of a star travels to all groups, not all to it.
"""

import numpy as np

from .components import join

ROUTE = np.dtype([("key", "<u8"), ("target", "<u8"), ("partial", "?")])


class Dealer:
    """Deals blocks of pairs in two passes over them: `see` all, `close`, then `deal` each.

    Holds about 100 bytes a text that has a pair, whatever the number of pairs. The columns it reads are
    first and second, two keys, and of each text `_size`, its shingles, and `_mark`, by which the members
    of its buckets were ordered. Targets of whole components have at most 2 * `limit` shingles, and less
    where that leaves fewer than `targets` of them; a part of an oversized one has about `limit`, and the
    texts of other parts that its own are paired with. Without `split`, an oversized component is a target
    of its own.
    """

    def __init__(self, limit, split=True, targets=1):
        self.limit, self.split, self.targets = limit, split, targets
        self._nodes, self._root = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._sizes = self._marks = np.zeros(0, np.uint32)
        self._far = [np.zeros(0, ROUTE)]

    def __len__(self):
        """The texts seen so far."""
        return len(self._nodes)

    def see(self, pairs):
        """Join the texts of a block of pairs, in the first pass."""
        self._add_texts(np.unique(np.concatenate([pairs["first"], pairs["second"]])))
        ends = []
        for end in ("first", "second"):
            places = np.searchsorted(self._nodes, pairs[end])
            self._sizes[places] = pairs[f"{end}_size"]
            self._marks[places] = pairs[f"{end}_mark"]
            ends.append(places)
        self._root = join(self._root, *ends)

    def _add_texts(self, keys):
        """Make room for those of the sorted keys that are new, each a component of its own."""
        places = np.searchsorted(self._nodes, keys)
        if len(self._nodes):
            known = self._nodes[np.minimum(places, len(self._nodes) - 1)] == keys
            keys, places = keys[~known], places[~known]
        # where the texts so far move, and with them their roots
        moved = np.arange(len(self._nodes)) + np.searchsorted(keys, self._nodes)
        root = np.arange(len(self._nodes) + len(keys))
        root[moved] = moved[self._root]
        self._root = root
        self._nodes = np.insert(self._nodes, places, keys)
        self._sizes, self._marks = (np.insert(x, places, 0) for x in (self._sizes, self._marks))

    def close(self):
        """All pairs were seen: choose the target of each text."""
        names = np.flatnonzero(self._root == np.arange(len(self._root)))
        component = np.searchsorted(names, self._root)
        totals = np.bincount(component, weights=self._sizes, minlength=len(names)).astype(np.int64)
        oversized = totals > self.limit
        packed = np.where(oversized, 0, totals)
        share = int(np.clip(packed.sum() // self.targets, 1, self.limit))
        target = (np.cumsum(packed) - packed) // share
        whole = int(target[-1]) + 1 if len(target) else 0
        self.oversized = int(np.count_nonzero(oversized))
        if not self.split:
            target[oversized] = whole + np.arange(self.oversized)
        self._targets = target[component]
        self._partial = oversized[component] & self.split
        cut = np.flatnonzero(self._partial)
        order = cut[np.lexsort((self._nodes[cut], self._marks[cut], component[cut]))]
        if len(order):
            self._targets[order] = whole + _groups(component[order], self._sizes[order], self.limit)
        self._root = self._sizes = self._marks = None

    def deal(self, pairs):
        """(target, partial) of each pair: where its later text is, and whether only a part is there."""
        first, second = pairs["first"], pairs["second"]
        at_first, at_second = (np.searchsorted(self._nodes, keys) for keys in (first, second))
        marks = pairs["first_mark"], pairs["second_mark"]
        second_is_later = (marks[0] < marks[1]) | ((marks[0] == marks[1]) & (first < second))
        later, earlier = np.where(second_is_later, [at_second, at_first], [at_first, at_second])
        targets = self._targets[later]
        far = np.flatnonzero(self._targets[earlier] != targets)
        self._far.append(np.unique(self._routes(earlier[far], targets[far])))
        return targets, self._partial[later]

    def routes(self):
        """Where each text must go, sorted by key, a ROUTE for each target in which it has a pair.

        A text is in its own target even where its pairs are all in others.
        """
        near = self._routes(np.arange(len(self._nodes)), self._targets)
        far = np.concatenate(self._far)
        return np.unique(np.concatenate([near, far])) if len(far) else near

    def _routes(self, texts, targets):
        routes = np.zeros(len(texts), ROUTE)
        routes["key"], routes["target"] = self._nodes[texts], targets
        routes["partial"] = self._partial[texts]
        return routes


def _groups(component, sizes, limit):
    """Numbers of groups for texts sorted by component: cut at components and each `limit` shingles."""
    before = np.cumsum(sizes) - sizes
    heads = np.flatnonzero(np.append(True, component[1:] != component[:-1]))
    lengths = np.diff(np.append(heads, len(component)))
    cut = (before - np.repeat(before[heads], lengths)) // limit
    fresh = np.ones(len(component), bool)
    fresh[1:] = (component[1:] != component[:-1]) | (cut[1:] != cut[:-1])
    return np.cumsum(fresh) - 1


def look_up(routes, keys):
    """(places, targets): which of the keys have routes, a row a route; `routes` is sorted by key."""
    low = np.searchsorted(routes["key"], keys, side="left")
    counts = np.searchsorted(routes["key"], keys, side="right") - low
    places = np.repeat(np.arange(len(keys)), counts)
    ends = np.cumsum(counts)
    rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(low - ends + counts, counts)
    return places, routes["target"][rows]
