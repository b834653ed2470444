"""Candidate pairs to targets: connected components, packed so that each reducer holds a bounded amount.

Input: blocks of pairs, as `candidates.py` writes them
Output: blocks of the pairs, each once and with its target, and blocks of routes: key and target
"""

from mapreduce.job import Job

import numpy as np
from mrjob.step import MRStep

from lshlib.blocks import BlockProtocol, concatenate
from lshlib.candidates import merge_pairs
from lshlib.targets import deal_pairs


class Components(Job):
    INPUT_PROTOCOL = BlockProtocol

    def configure_args(self):
        super().configure_args()
        self.add_passthru_arg(
            "--target-size",
            type=int,
            default=1 << 20,
            metavar="N",
            help="shingles that are verified together, about (default: 1048576)",
        )
        self.add_passthru_arg(
            "--first-target",
            type=int,
            default=0,
            help="the number of the first target (default: 0)",
        )
        self.add_passthru_arg(
            "--whole",
            action="store_true",
            help="keep oversized components whole, for the last stage",
        )

    def steps(self):
        return [MRStep(mapper=self.pass_pairs, reducer=self.deal)]

    def pass_pairs(self, key, block):
        if "first" in block:
            yield "pairs", block

    def deal(self, _, blocks):
        """all pairs -> pairs with targets, routes; holds all pairs"""
        pairs = merge_pairs(concatenate(blocks))
        options = self.options
        targets = deal_pairs(pairs, options.target_size, split=not options.whole)
        self.count("candidate pairs", len(targets.pairs))
        self.count("oversized components", targets.oversized)
        # a partial target holds some pairs of a component only, so that it tells no clusters
        for name, columns, numbers in (
            ("pairs", pairs, targets.pairs),
            ("routes", {"key": targets.keys}, targets.routes),
        ):
            columns["target"] = numbers.astype(np.uint64) + np.uint64(options.first_target)
            columns["partial"] = (numbers >= targets.whole) & (not options.whole)
            yield name, columns


if __name__ == "__main__":
    Components.run()
