"""Documents and candidate pairs to verified pairs, clusters and removals.

Input: documents, and blocks of pairs with targets, as `components.py` writes them
Output: lines `pair TAB json`, `cluster TAB json`, and blocks of the keys of removed documents; with
--pairs-only blocks of the verified pairs
"""

import json
import tempfile

from mapreduce.errors import JobError
from mapreduce.job import Job, LineProtocol
from mapreduce.options import (
    BATCH,
    add_document_options,
    add_resolve_options,
    add_signature_options,
    add_text_options,
    layout,
    settle_format,
    shingles_of,
    signatures_of,
    value_field,
)

import numpy as np
from mrjob.step import MRStep

from lshlib.blocks import MARK, BlockProtocol, concatenate, deal, is_block, pack, take, unpack
from lshlib.clusters import find_clusters
from lshlib.documents import RecordError, id_order, record_keys
from lshlib.jaccard import jaccard
from lshlib.minhash import estimate
from lshlib.shingles import Shingles, ranges
from lshlib.targets import look_up

EMIT = 1 << 20  # numbers of texts a mapper holds before it emits them
HOLD = 1 << 23  # numbers of texts a reducer holds in memory; more go to a temporary file


class Resolve(Job):
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

    def load_args(self, args):
        super().load_args(args)
        settle_format(self.options, self.options.args)

    def steps(self):
        return [
            MRStep(
                mapper_init=self.start,
                mapper=self.route,
                mapper_final=self.emit_all,
                reducer=self.resolve_target,
            )
        ]

    # documents and pairs to their targets

    def start(self):
        self.layout = layout(self.options, value_field(self.options))
        self.routes = np.load(self.options.routes, mmap_mode="r")
        self.lines, self.size = [], 0
        self.documents, self.targets, self.text_size = [], [], 0
        self.blocks, self.held = [], 0

    def route(self, _, line):
        if line.startswith(MARK) and is_block(line):
            return self.route_pairs(line)
        self.lines.append(line)
        self.size += len(line)
        if self.size >= BATCH:
            self.select_members()
            if self.held >= EMIT:
                return self.emit_texts()
        return None

    def route_pairs(self, line):
        _, pairs = BlockProtocol().read(line)
        if "first" in pairs:
            pairs = take(pairs, pairs["partial"] == self.options.pairs_only)
            for target, block in deal(pairs, pairs["target"]):
                del block["target"], block["partial"]
                if "jaccard" not in block:
                    block["jaccard"] = np.full(len(block["first"]), np.nan)
                yield f"{target}", block

    def select_members(self):
        """Parse the documents that have a route, and no others."""
        keys = record_keys(self.lines)
        places, targets = look_up(self.routes, keys)
        for place in np.unique(places).tolist():
            line = self.lines[place]
            try:
                document = self.layout.read(line)
            except RecordError as error:  # the stage before read it: the input has changed since
                raise JobError(f"a document changed between two stages: {error}") from None
            self.documents.append((keys[place], document))
            self.text_size += len(line)
        firsts = np.unique(places, return_inverse=True)[1]
        base = len(self.documents) - (int(firsts.max()) + 1 if len(firsts) else 0)
        self.targets.append((firsts + base, targets))
        self.lines, self.size = [], 0
        if self.text_size >= BATCH:
            self.hash_members()

    def hash_members(self):
        keys, documents = zip(*self.documents)
        shingles = self.compared([document.text for document in documents])
        places, targets = map(np.concatenate, zip(*self.targets))
        records = [json.dumps([d.id, len(d.text), d.value], ensure_ascii=False).encode() for d in documents]
        self.blocks.append((np.array(keys, np.uint64), shingles, records, places, targets))
        self.held += len(shingles.hashes)
        self.documents, self.targets, self.text_size = [], [], 0

    def compared(self, texts):
        """What is compared of each text, as rows of numbers: shingles, signatures or nothing."""
        if self.options.verify == "none":
            return Shingles(np.zeros(0, np.uint64), np.zeros(len(texts) + 1, np.int64))
        shingles = shingles_of(self.options, texts)
        if self.options.verify == "exact":
            return shingles
        signatures = signatures_of(self.options, shingles)
        return Shingles(
            signatures.reshape(-1), np.arange(len(texts) + 1, dtype=np.int64) * signatures.shape[1]
        )

    def emit_texts(self):
        for keys, shingles, records, places, targets in self.blocks:
            counts = np.diff(shingles.offsets)
            for target, routed in deal({"place": places}, targets):
                rows = routed["place"]
                data, lengths = pack([records[row] for row in rows.tolist()])
                numbers = shingles.hashes[ranges(shingles.offsets[rows], counts[rows])]
                yield (
                    f"{target}",
                    {
                        "key": keys[rows],
                        "count": counts[rows].astype(np.uint32),
                        "number": numbers,
                        "record": data,
                        "length": lengths,
                    },
                )
        self.blocks, self.held = [], 0

    def emit_all(self):
        if self.lines:
            self.select_members()
        if self.documents:
            self.hash_members()
        yield from self.emit_texts()

    # a target

    def resolve_target(self, _, blocks):
        """texts and pairs of a target -> pairs, clusters, removals; texts beyond HOLD go to a file"""
        texts, pairs = Texts(), []
        for block in blocks:
            if "first" in block:
                pairs.append(block)
            else:
                texts.add(block)
        if not pairs:
            return
        pairs = concatenate(pairs)
        first, second = texts.places(pairs["first"]), texts.places(pairs["second"])
        similarities = self.similarities(texts, first, second, pairs["jaccard"])
        linked = similarities >= self.options.threshold
        if self.options.verify == "none":
            linked[:] = True
        self.count("verified pairs", np.count_nonzero(linked & np.isnan(pairs["jaccard"])))
        pairs = {**pairs, "jaccard": similarities}
        if self.options.pairs_only:
            if linked.any():
                yield "pairs", take(pairs, linked)
            return
        first, second, similarities = first[linked], second[linked], similarities[linked]
        ids, ranks = texts.ranked(np.unique(np.concatenate([first, second])), self.options.keep)
        for line in pair_lines(ids, first, second, similarities, pairs["bands"][linked]):
            yield None, b"pair\t" + line
        clusters = find_clusters(first, second, similarities, ranks)
        to_survivor = self.similarities_to_survivors(texts, clusters, first, second, similarities)
        for line in cluster_lines(ids, clusters, to_survivor):
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
            shingles = texts.shingles()
            for part in _portions(unknown, texts.counts[second[unknown]]):
                result[part] = jaccard(shingles, first[part], second[part])
        elif self.options.verify == "signature":
            length = int(texts.counts[0])
            signatures = texts.shingles().hashes.reshape(-1, length)
            for part in _portions(unknown, np.full(len(unknown), 2 * length)):
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
    """The texts of one target, in memory, or beyond HOLD numbers in a temporary file."""

    def __init__(self):
        self._blocks, self._numbers, self._held, self._file = [], [], 0, None
        self._sorted = None

    def add(self, block):
        numbers = block.pop("number")
        self._blocks.append(block)
        self._numbers.append(numbers)
        self._held += len(numbers)
        if self._held > HOLD:
            self._file = self._file or tempfile.TemporaryFile(dir=".")
            self._drain()

    def _drain(self):
        for numbers in self._numbers:
            self._file.write(numbers)
        self._dtype = self._numbers[0].dtype
        self._numbers, self._held = [], 0

    def places(self, keys):
        """The numbers of the texts with these keys."""
        if self._sorted is None:
            self._complete()
        found = np.searchsorted(self.keys, keys, sorter=self._sorted)
        places = self._sorted[np.minimum(found, len(self._sorted) - 1)] if len(self.keys) else found
        if not len(self.keys) or (self.keys[places] != keys).any():
            raise JobError("a document of a candidate pair is missing: the input changed between stages")
        return places

    def _complete(self):
        block = concatenate(self._blocks) or {
            "key": np.zeros(0, np.uint64),
            "count": np.zeros(0, int),
        }
        self.keys, self.counts = block["key"], block["count"].astype(np.int64)
        self._records = unpack(block["record"], block["length"]) if len(self.keys) else []
        self._blocks = []
        self._sorted = np.argsort(self.keys)
        ordered = self.keys[self._sorted]
        if (ordered[1:] == ordered[:-1]).any():
            raise JobError("two documents have one key: give another --seed")

    def shingles(self):
        """The numbers of all texts, as `Shingles`."""
        if self._file:
            self._drain()
            self._file.flush()
            numbers = np.memmap(self._file, self._dtype, mode="r")
        else:
            numbers = np.concatenate(self._numbers) if self._numbers else np.zeros(0, np.uint64)
            self._numbers = [numbers]
        offsets = np.zeros(len(self.counts) + 1, np.int64)
        np.cumsum(self.counts, out=offsets[1:])
        return Shingles(numbers, offsets)

    def ranked(self, texts, rule):
        """({text: id}, ranks): the ids of some texts, and their order for survival by a rule."""
        fields = {text: json.loads(self._records[text]) for text in texts.tolist()}
        order = sorted(fields, key=lambda text: id_order(fields[text][0]))
        name, _, field = rule.partition(":")
        if field:
            order.sort(key=lambda text: id_order(fields[text][2]), reverse=name == "max")
        elif name in ("longest", "shortest"):
            order.sort(key=lambda text: fields[text][1], reverse=name == "longest")
        ranks = np.zeros(len(self.keys), np.int64)
        ranks[order] = np.arange(len(order))
        return {text: fields[text][0] for text in order}, ranks


def _portions(rows, sizes):
    """Rows cut into parts of about HOLD shingles."""
    cuts = np.cumsum(sizes) // HOLD
    return np.split(rows, np.flatnonzero(cuts[1:] != cuts[:-1]) + 1) if len(rows) else []


def pair_lines(ids, first, second, similarities, bands):
    """A JSON line a pair, the id that sorts first as id_a."""
    rows = zip(first.tolist(), second.tolist(), similarities.tolist(), bands.tolist())
    for one, other, similarity, shared in rows:
        a, b = sorted((ids[one], ids[other]), key=id_order)
        yield _json({"id_a": a, "id_b": b, "jaccard": _rounded(similarity), "bands": shared})


def cluster_lines(ids, clusters, to_survivor):
    """A JSON line a cluster."""
    members, linked_to = clusters.members.tolist(), clusters.linked_to.tolist()
    to_survivor = [_rounded(x) for x in to_survivor.tolist()]
    bounds = clusters.starts.tolist()
    for start, end in zip(bounds, bounds[1:]):
        rest = range(start + 1, end)
        similarities = [to_survivor[i] for i in rest]
        yield _json(
            {
                "survivor": ids[members[start]],
                "size": end - start,
                "members": [
                    {
                        "id": ids[members[i]],
                        "jaccard": to_survivor[i],
                        "linked_to": ids[linked_to[i]],
                    }
                    for i in rest
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
