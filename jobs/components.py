"""Candidate pairs to targets: connected components, packed so that each reducer holds a bounded amount.

Input: blocks of pairs, as `candidates.py` writes them
Output: blocks of the pairs with targets, and blocks of routes: keys and targets

One reducer does it where the pairs fit in its memory. Where they do not, `--star large` and `--star small`
in turn, until no edge changes, link each key to the least of its component (Kiveris et al. 2014), and
`--labelled` deals the components of each slice on its own.
"""

import pickle
import tempfile

from mapreduce.job import Job
from mapreduce.keys import slice_key, slice_number

import numpy as np
from mrjob.step import MRStep

from lshlib.blocks import BlockProtocol, concatenate, deal, take
from lshlib.components import large_star, small_star
from lshlib.targets import Dealer

ROWS = 1 << 15  # of a block of pairs or routes, at most
TARGETS = 64  # at least, so that the reducers of a small collection all have some


class Components(Job):
    INPUT_PROTOCOL = BlockProtocol

    def configure_args(self):
        super().configure_args()
        self.add_passthru_arg(
            "--target-size",
            type=int,
            default=1 << 20,
            metavar="N",
            help="shingles that are verified together, at most about (default: 1048576)",
        )
        self.add_passthru_arg(
            "--first-target", type=int, default=0, help="the number of the first target (default: 0)"
        )
        self.add_passthru_arg(
            "--whole", action="store_true", help="keep oversized components whole, for the last stage"
        )
        self.add_passthru_arg(
            "--star", choices=("large", "small"), help="one round of star edges, and no targets"
        )
        self.add_passthru_arg(
            "--labelled", action="store_true", help="the input holds the edges of the last round too"
        )
        self.add_passthru_arg(
            "--slices", type=int, default=16, help="parts of the range of keys (default: 16)"
        )

    def steps(self):
        if self.options.star:
            return [MRStep(mapper=self.spread_edges, reducer=self.link_stars)]
        if self.options.labelled:
            return [
                MRStep(mapper=self.spread_pairs, reducer=self.join_labels),
                MRStep(mapper=self.pass_on, reducer=self.deal_slice),
            ]
        one = {"mapreduce.job.reduces": "1"}
        return [MRStep(mapper=self.pass_pairs, reducer=self.deal_slice, jobconf=one)]

    # in one reducer

    def pass_pairs(self, _, block):
        if "bands" in block:
            yield slice_key("keys", 0), block

    def deal_slice(self, key, blocks):
        """whole components -> their pairs with targets, routes; holds the texts of a slice

        The pairs pass twice, the second time from a temporary file.
        """
        dealer = Dealer(self.options.target_size, split=not self.options.whole, targets=TARGETS)
        # a slice has 2^24 numbers for its targets
        base = np.uint64(self.options.first_target + (slice_number(key) << 24))
        with tempfile.TemporaryFile(dir=".") as file:
            held, rows = [], 0
            for block in in_parts(blocks):
                pickle.dump(block, file)
                held.append(block)
                rows += len(block["first"])
                # joining takes time for each text seen so far
                if rows >= max(ROWS, len(dealer) // 4):
                    dealer.see(concatenate(held))
                    held, rows = [], 0
            if held:
                dealer.see(concatenate(held))
            dealer.close()
            end = file.tell()
            file.seek(0)
            while file.tell() < end:
                block = pickle.load(file)
                targets, block["partial"] = dealer.deal(block)
                block["target"] = targets.astype(np.uint64) + base
                yield "pairs", block
        self.count("oversized components", dealer.oversized)
        routes = dealer.routes()
        routes["target"] += base
        for start in range(0, len(routes), ROWS):
            yield "routes", {name: routes[name][start : start + ROWS] for name in routes.dtype.names}

    # in rounds

    def slice_of(self, keys):
        return (keys >> np.uint64(32)) * np.uint64(self.options.slices) >> np.uint64(32)

    def spread_edges(self, _, block):
        """edges -> edges by the slice of their first end: both ways for large star, else the larger"""
        first, second = block["first"], block["second"]
        if self.options.star == "large":
            ends = {
                "first": np.concatenate([first, second]),
                "second": np.concatenate([second, first]),
            }
        else:
            ends = {"first": np.maximum(first, second), "second": np.minimum(first, second)}
        for number, part in deal(ends, self.slice_of(ends["first"])):
            yield slice_key("keys", number), part

    def link_stars(self, _, blocks):
        """all edges of some keys -> the edges of their stars; holds a slice"""
        edges = concatenate(blocks)
        star = large_star if self.options.star == "large" else small_star
        first, second, changed = star(edges["first"], edges["second"])
        self.count("changed edges", changed)
        if len(first):
            yield "edges", {"first": first, "second": second}

    def spread_pairs(self, _, block):
        """pairs and star edges -> both by the slice of the first key; of an edge that is the larger"""
        for number, part in deal(block, self.slice_of(block["first"])):
            yield slice_key("keys", number), part

    def join_labels(self, _, blocks):
        """pairs and labels of some keys -> pairs by the slice of their label"""
        pairs, edges = [], []
        for block in blocks:
            (pairs if "bands" in block else edges).append(block)
        if not pairs:
            return
        pairs, edges = concatenate(pairs), concatenate(edges)
        labels = pairs["first"].copy()
        if edges:
            order = np.argsort(edges["first"])
            places = np.searchsorted(edges["first"], labels, sorter=order)
            places = order[np.minimum(places, len(order) - 1)]
            # the least key of a component has no edge: it is its own label
            labels = np.where(edges["first"][places] == labels, edges["second"][places], labels)
        for number, part in deal(pairs, self.slice_of(labels)):
            yield slice_key("keys", number), part

    def pass_on(self, key, block):
        yield key, block


def in_parts(blocks):
    """The same rows in blocks of at most ROWS."""
    for block in blocks:
        for start in range(0, len(block["first"]), ROWS):
            yield take(block, slice(start, start + ROWS))


if __name__ == "__main__":
    Components.run()
