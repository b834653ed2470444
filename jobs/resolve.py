"""Documents and candidate pairs to verified pairs, clusters and removals.

Input: documents, and blocks of pairs with targets, as `components.py` writes them
Output: lines `pair TAB json`, `cluster TAB json`, and blocks of the keys of removed documents; with
--pairs-only blocks of the verified pairs
"""

import json
import tempfile

from mapreduce.documents import BATCH, DocumentsJob
from mapreduce.errors import JobError
from mapreduce.job import LineProtocol
from mapreduce.keys import slice_key
from mapreduce.options import (
    add_document_options,
    add_resolve_options,
    add_signature_options,
    add_text_options,
    check_signature_options,
    check_text_options,
    layout,
    settle_format,
    shingles_of,
    signatures_of,
    value_field,
)

import numpy as np
from mrjob.step import MRStep

from lshlib.blocks import BlockProtocol, concatenate, deal, is_block, take
from lshlib.candidates import merge_pairs
from lshlib.clusters import find_clusters
from lshlib.documents import id_json, id_order, portable, record_keys
from lshlib.jaccard import jaccard
from lshlib.minhash import estimate
from lshlib.shingles import Shingles
from lshlib.targets import look_up

HOLD = 1 << 23  # numbers of texts a reducer holds in memory; more go to a temporary file
PORTION = 1 << 20  # numbers measured together where they come from a file


class Resolve(DocumentsJob):
    INPUT_PROTOCOL = LineProtocol

    def output_protocol(self):
        return BlockProtocol() if self.options.pairs_only else LineProtocol()

    def configure_args(self):
        super().configure_args()
        add_document_options(self)
        add_text_options(self)
        add_signature_options(self)
        add_resolve_options(self)
        self.add_file_arg("--routes", help="keys and targets of the documents to resolve (.npy)")
        self.add_passthru_arg(
            "--pairs-only",
            action="store_true",
            help="verify the pairs of oversized components, no more",
        )

    def check_options(self):
        check_text_options(self.options)
        check_signature_options(self.options)
        settle_format(self.options, self.options.args)
        value_field(self.options)
        if self.options.routes is None:
            raise ValueError("--routes must be given, got none")

    def steps(self):
        return [MRStep(**self.document_mapper(), reducer=self.resolve_target)]

    # documents and pairs to their targets

    def map_lines(self, lines):
        """documents and blocks of pairs -> the same by target"""
        yield from self.route_documents([line for line in lines if not is_block(line)])
        for line in filter(is_block, lines):
            yield from self.route_pairs(line)

    def route_documents(self, lines):
        routes = np.load(self.options.routes, mmap_mode="r")
        places, targets = look_up(routes, record_keys(lines))
        for place, target in zip(places.tolist(), targets.tolist()):
            yield slice_key("target", target), portable(lines[place])

    def route_pairs(self, line):
        _, pairs = BlockProtocol().read(line)
        if "first" in pairs:
            pairs = take(pairs, pairs["partial"] == self.options.pairs_only)
            for target, block in deal(pairs, pairs["target"]):
                del block["target"], block["partial"]
                block.setdefault("jaccard", np.full(len(block["first"]), np.nan))
                block.setdefault("seen", ~np.isnan(block["jaccard"]))
                yield slice_key("target", target), block

    # a target

    def resolve_target(self, _, values):
        """documents and pairs of a target -> pairs, clusters, removals; keeps HOLD numbers in memory"""
        texts, pairs = Texts(self.options), []
        for value in values:
            if isinstance(value, bytes):
                texts.add(value)
            else:
                pairs.append(value)
        if not pairs:
            return
        texts.complete()
        pairs = merge_pairs(concatenate(pairs))
        fresh = ~pairs["seen"]  # what is left of an oversized component was counted before
        self.count("candidate pairs", np.count_nonzero(fresh))
        first, second = texts.places(pairs["first"]), texts.places(pairs["second"])
        similarities = self.similarities(texts, first, second, pairs["jaccard"])
        linked = similarities >= self.options.threshold
        if self.options.verify == "none":
            linked[:] = True
        self.count("verified pairs", np.count_nonzero(linked & fresh))
        if self.options.pairs_only:
            self.count("rows of pairs", np.count_nonzero(linked))
            if linked.any():
                pairs.update(jaccard=similarities, seen=np.ones(len(linked), bool))
                yield "pairs", take(pairs, linked)
            return
        first, second, similarities = first[linked], second[linked], similarities[linked]
        ranks = texts.ranks(np.unique(np.concatenate([first, second])), self.options.keep)
        for line in pair_lines(texts, first, second, similarities, pairs["bands"][linked]):
            yield None, b"pair\t" + line
        clusters = find_clusters(first, second, similarities, ranks)
        to_survivor = self.similarities_to_survivors(texts, clusters, first, second, similarities)
        for line in cluster_lines(texts, clusters, to_survivor):
            yield None, b"cluster\t" + line
        is_survivor = np.zeros(len(clusters.members), bool)
        is_survivor[clusters.starts[:-1]] = True
        removed = texts.keys[clusters.members[~is_survivor]]
        self.count("clusters", len(clusters.starts) - 1)
        self.count("removed", len(removed))
        if len(removed):
            yield None, BlockProtocol().write("removed", {"key": removed})

    def similarities(self, texts, first, second, known):
        """The similarity of each pair: the known ones, or measured."""
        result = np.array(known)
        unknown = np.flatnonzero(np.isnan(known))
        if self.options.verify == "exact":
            for part in texts.portions(second, unknown):
                result[part] = jaccard(texts.shingles, first[part], second[part])
        elif self.options.verify == "signature":
            signatures = texts.shingles.hashes.reshape(len(texts.keys), -1)
            for part in texts.portions(second, unknown):
                result[part] = estimate(signatures[first[part]], signatures[second[part]])[0]
        return result

    def similarities_to_survivors(self, texts, clusters, first, second, similarities):
        """For each member its similarity to the survivor, measured where no pair tells it."""
        survivors = np.repeat(clusters.members[clusters.starts[:-1]], np.diff(clusters.starts))
        pairs = np.stack([np.minimum(first, second), np.maximum(first, second)])
        wanted = np.stack([np.minimum(survivors, clusters.members), np.maximum(survivors, clusters.members)])
        total = len(texts.keys)
        known = pairs[0] * total + pairs[1]
        order = np.argsort(known)
        places = np.searchsorted(known, wanted[0] * total + wanted[1], sorter=order)
        places = order[np.minimum(places, len(order) - 1)] if len(order) else places
        result = np.full(len(survivors), np.nan)
        found = known[places] == wanted[0] * total + wanted[1] if len(order) else np.zeros(0, bool)
        result[found] = similarities[places[found]]
        # a survivor is its own, and needs no measuring
        result[clusters.starts[:-1]] = 1.0
        return self.similarities(texts, survivors, clusters.members, result)


class Texts:
    """The texts of one target: keys, ids, and what is compared of each.

    What is compared are shingles, signatures or nothing. Beyond HOLD numbers they go to a file.
    """

    def __init__(self, options):
        self._options = options
        self._layout = layout(options, value_field(options))
        self._lines, self._size = [], 0
        self._documents, self._keys = [], []
        self._numbers, self._counts, self._held, self._file = [], [], 0, None

    def add(self, line):
        self._lines.append(line)
        self._size += len(line)
        if self._size >= BATCH:
            self._hash_lines()

    def _hash_lines(self):
        documents = [self._layout.read(line) for line in self._lines]
        shingles = self._compared([document.text for document in documents])
        self._documents += [(d.id, len(d.text), d.value) for d in documents]
        self._keys.append(record_keys(self._lines))
        self._numbers.append(shingles.hashes)
        self._counts.append(np.diff(shingles.offsets))
        self._held += len(shingles.hashes)
        self._lines, self._size = [], 0
        if self._held > HOLD:
            self._drain()

    def _compared(self, texts):
        if self._options.verify == "none":
            return Shingles(np.zeros(0, np.uint64), np.zeros(len(texts) + 1, np.int64))
        shingles = shingles_of(self._options, texts)
        if self._options.verify == "exact":
            return shingles
        signatures = signatures_of(self._options, shingles)
        ends = np.arange(len(texts) + 1, dtype=np.int64) * signatures.shape[1]
        return Shingles(signatures.reshape(-1), ends)

    def _drain(self):
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=".")
        for numbers in self._numbers:
            self._file.write(numbers)
        self._numbers, self._held = [self._numbers[0][:0]], 0

    def complete(self):
        """No more texts will come."""
        if self._lines:
            self._hash_lines()
        self.keys = np.concatenate([np.zeros(0, np.uint64), *self._keys])
        self._order = np.argsort(self.keys)
        ordered = self.keys[self._order]
        if (ordered[1:] == ordered[:-1]).any():
            raise JobError("two documents have one key: give another --seed")
        offsets = np.zeros(len(self.keys) + 1, np.int64)
        np.cumsum(np.concatenate([np.zeros(0, np.int64), *self._counts]), out=offsets[1:])
        if self._file:
            self._drain()
            self._file.flush()
            numbers = np.memmap(self._file, self._numbers[0].dtype, mode="r")
        else:
            numbers = np.concatenate(self._numbers) if self._numbers else np.zeros(0, np.uint64)
        self.shingles = Shingles(numbers, offsets)

    def places(self, keys):
        """The numbers of the texts with these keys."""
        found = np.searchsorted(self.keys, keys, sorter=self._order)
        found[found == len(self.keys)] = 0
        if not len(self.keys) or (self.keys[self._order[found]] != keys).any():
            raise JobError("a document of a candidate pair is missing: the input changed during the run")
        return self._order[found]

    def portions(self, second, pairs):
        """Pairs in parts: all at once, or where the texts are in a file for PORTION numbers at a time.

        There the pairs still to measure join survivors to other members, and `second` are the latter.
        """
        if self._file is None:
            return [pairs]
        cuts = np.cumsum(np.diff(self.shingles.offsets)[second[pairs]]) // PORTION
        return np.split(pairs, np.flatnonzero(cuts[1:] != cuts[:-1]) + 1)

    def id(self, text):
        return self._documents[text][0]

    def ranks(self, texts, rule):
        """The order of some texts for survival by a rule, the first survives; 0 for all others."""
        order = sorted(texts.tolist(), key=lambda text: id_order(self.id(text)))
        name, _, field = rule.partition(":")
        if field:
            order.sort(key=lambda text: id_order(self._documents[text][2]), reverse=name == "max")
        elif name in ("longest", "shortest"):
            order.sort(key=lambda text: self._documents[text][1], reverse=name == "longest")
        ranks = np.zeros(len(self.keys), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks


def pair_lines(texts, first, second, similarities, bands):
    """A JSON line a pair, the id that sorts first as id_a."""
    members = np.unique(np.concatenate([first, second]))
    by_id = texts.ranks(members, "smallest-id")
    swap = by_id[first] > by_id[second]
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    ids = {text: id_json(texts.id(text)) for text in members.tolist()}
    # by hand, as json.dumps of the whole takes several times as long
    for one, other, similarity, shared in zip(
        first.tolist(), second.tolist(), similarities.tolist(), bands.tolist()
    ):
        jaccard = b"null" if similarity != similarity else b"%r" % round(similarity, 4)
        yield b'{"id_a": %s, "id_b": %s, "jaccard": %s, "bands": %d}' % (
            ids[one],
            ids[other],
            jaccard,
            shared,
        )


def cluster_lines(texts, clusters, to_survivor):
    """A JSON line a cluster."""
    members = [texts.id(text) for text in clusters.members.tolist()]
    linked_to = [texts.id(text) for text in clusters.linked_to.tolist()]
    to_survivor = [_rounded(x) for x in to_survivor.tolist()]
    bounds = clusters.starts.tolist()
    for start, end in zip(bounds, bounds[1:]):
        rest = range(start + 1, end)
        similarities = [to_survivor[i] for i in rest]
        yield _json(
            {
                "survivor": members[start],
                "size": end - start,
                "members": [
                    {"id": members[i], "jaccard": to_survivor[i], "linked_to": linked_to[i]} for i in rest
                ],
                "weakest": None if None in similarities else min(similarities),
            }
        )


def _rounded(similarity):
    return None if similarity != similarity else round(similarity, 4)


def _json(record):
    return json.dumps(record, ensure_ascii=False).encode()


if __name__ == "__main__":
    Resolve.run()
