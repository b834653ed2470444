"""Documents to candidate pairs: texts that agree in all rows of a band of their MinHash signatures.

Input: documents, `{"id": "d1", "text": "Good night, and good luck"}`
Output: blocks of pairs of document keys, with the bands they share and the shingles of each; a pair may
come in several blocks, and its bands are the sum
"""

import json

from mapreduce.errors import JobError
from mapreduce.job import Job
from mapreduce.options import (
    BATCH,
    add_bucket_cap,
    add_document_options,
    add_signature_options,
    add_text_options,
    banding,
    check_signature_options,
    check_text_options,
    layout,
    settle_format,
    shingles_of,
    signatures_of,
)

import numpy as np
from mrjob.step import MRStep

from lshlib.banding import bucket_keys
from lshlib.blocks import concatenate, deal, pack
from lshlib.candidates import candidate_pairs, merge_pairs
from lshlib.documents import id_keys, record_keys

DOCUMENTS = 1 << 15  # whose rows a mapper holds before it emits them


class Candidates(Job):
    def configure_args(self):
        super().configure_args()
        add_document_options(self)
        add_text_options(self)
        add_signature_options(self)
        add_bucket_cap(self)
        self.add_passthru_arg("--value-field", metavar="FIELD", help="a field that every document must have")
        self.add_passthru_arg(
            "--slices",
            type=int,
            default=16,
            metavar="N",
            help="parts of the range of bucket hashes, each sorted in memory (default: 16)",
        )

    def load_args(self, args):
        super().load_args(args)
        try:
            check_text_options(self.options)
            check_signature_options(self.options)
            settle_format(self.options, self.options.args)
        except ValueError as error:
            self.arg_parser.error(str(error))

    def steps(self):
        return [
            MRStep(
                mapper_init=self.start,
                mapper=self.collect_document,
                mapper_final=self.emit_all,
                reducer=self.pair_bucket_members,
            )
        ]

    def start(self):
        self.layout = layout(self.options, self.options.value_field)
        self.choice = banding(self.options)
        self.lines, self.texts, self.ids, self.size = [], [], [], 0
        self.rows, self.held = [], 0

    def collect_document(self, _, line):
        if not line.strip():
            return None
        try:
            document = self.read_document(self.layout, line)
        except JobError as error:
            if not self.options.skip_bad_records:
                raise
            return self.skip(line, error)
        self.lines.append(line)
        self.texts.append(document.text)
        self.ids.append(document.id)
        self.size += len(line)
        if self.size >= BATCH:
            self.hash_batch()
            if self.held >= DOCUMENTS:
                return self.emit_rows()
        return None

    def skip(self, line, error):
        """The record of a skipped line goes through the shuffle as it is."""
        path, number = self.place()
        reason = str(error).partition(": ")[2]
        record = json.dumps({"file": path, "line": number, "reason": reason}, ensure_ascii=False)
        data, lengths = pack([record.encode()])
        self.count("skipped")
        yield "skipped", {"key": record_keys([line]), "record": data, "length": lengths}

    def hash_batch(self):
        shingles = shingles_of(self.options, self.texts)
        sizes = np.diff(shingles.offsets)
        signatures = signatures_of(self.options, shingles)
        # an empty text has no signature
        filled = sizes > 0
        buckets = bucket_keys(signatures[filled], self.choice.bands, self.choice.rows)
        marks = (buckets @ np.arange(1, 2 * self.choice.bands, 2, dtype=np.uint64)) >> np.uint64(32)
        self.rows.append(
            (
                {
                    "bucket": buckets.reshape(-1),
                    "mark": np.repeat(marks.astype(np.uint32), self.choice.bands),
                    "key": np.repeat(record_keys(self.lines)[filled], self.choice.bands),
                    "size": np.repeat(sizes[filled].astype(np.uint32), self.choice.bands),
                },
                {"id": id_keys(self.ids)},
            )
        )
        self.count("documents", len(filled))
        self.count("empty", len(filled) - np.count_nonzero(filled))
        self.held += len(filled)
        self.lines, self.texts, self.ids, self.size = [], [], [], 0

    def emit_rows(self):
        rows, ids = map(concatenate, zip(*self.rows))
        self.rows, self.held = [], 0
        for number, block in deal(rows, self.slice_of(rows["bucket"])):
            yield f"buckets {number}", block
        for number, block in deal(ids, self.slice_of(ids["id"])):
            yield f"ids {number}", block

    def slice_of(self, hashes):
        return (hashes >> np.uint64(32)) * np.uint64(self.options.slices) >> np.uint64(32)

    def emit_all(self):
        if self.lines:
            self.hash_batch()
        if self.rows:
            yield from self.emit_rows()

    def pair_bucket_members(self, key, blocks):
        """bucket rows of a slice -> pairs; holds one slice"""
        if key.startswith("ids"):
            check_unique(concatenate(blocks)["id"])
        elif key == "skipped":
            for block in blocks:
                yield key, block
        else:
            rows = concatenate(blocks)
            first, second, left_out = candidate_pairs(
                rows["bucket"], rows["mark"], rows["key"], self.options.bucket_cap
            )
            self.count("pairs left out by the cap", left_out)
            # the smaller key first
            swap = rows["key"][first] > rows["key"][second]
            first, second = np.where(swap, second, first), np.where(swap, first, second)
            pairs = {
                "first": rows["key"][first],
                "second": rows["key"][second],
                "bands": np.ones(len(first), np.uint16),
                "first_size": rows["size"][first],
                "second_size": rows["size"][second],
            }
            if len(first):
                yield "pairs", merge_pairs(pairs)


def check_unique(ids):
    """JobError where a hash of ids occurs twice."""
    ids = np.sort(ids)
    again = np.flatnonzero(ids[1:] == ids[:-1])
    if len(again):
        raise JobError(f"an id is given twice (id key {ids[again[0]]})")


if __name__ == "__main__":
    Candidates.run()
