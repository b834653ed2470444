"""Documents to candidate pairs: texts that agree in all rows of a band of their MinHash signatures.

Input: documents, `{"id": "d1", "text": "Good night, and good luck"}`
Output: blocks of pairs of document keys, with the bands they share, and size and mark of each; a pair may
come in several blocks, and its bands are the sum
"""

import json

from mapreduce.documents import DocumentsJob
from mapreduce.errors import JobError
from mapreduce.keys import slice_key
from mapreduce.options import (
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
from lshlib.documents import RecordError, id_keys, record_keys

DOCUMENTS = 1 << 15  # whose rows a mapper holds before it emits them


class Candidates(DocumentsJob):
    TELLS_PLACES = True

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

    def check_options(self):
        check_text_options(self.options)
        check_signature_options(self.options)
        settle_format(self.options, self.options.args)
        self.choice = banding(self.options)
        self.layout = layout(self.options, self.options.value_field)

    def steps(self):
        return [MRStep(**self.document_mapper(), reducer=self.pair_bucket_members)]

    def map_start(self):
        self.rows, self.held = [], 0

    def map_lines(self, lines):
        """documents -> rows of buckets and of ids, by slice; holds those of DOCUMENTS documents"""
        kept, documents = [], []
        for number, line in enumerate(lines):
            try:
                documents.append(self.layout.read(line))
                kept.append(line)
            except RecordError as error:
                if line.strip():  # a blank line is no record
                    yield from self.skip(number, line, error)
        if documents:
            self.rows.append(self.hash_documents(kept, documents))
            self.held += len(documents)
            if self.held >= DOCUMENTS:
                yield from self.emit_rows()

    def map_end(self):
        if self.rows:
            yield from self.emit_rows()

    def skip(self, number, line, error):
        """Stop at a bad line, or send it through the shuffle as a record for skipped/."""
        path, line_number, offset = self.place(number)
        if not self.options.skip_bad_records:
            after = f" after byte {offset}" if offset else ""
            raise JobError(f"line {line_number}{after} of {path}: {error}")
        record = {"file": path, "line": line_number, "offset": offset, "reason": str(error)}
        data, lengths = pack([json.dumps(record, ensure_ascii=False).encode()])
        self.count("skipped")
        yield "skipped", {"key": record_keys([line]), "record": data, "length": lengths}

    def hash_documents(self, lines, documents):
        """(bucket rows, id rows) of a batch"""
        shingles = shingles_of(self.options, [document.text for document in documents])
        sizes = np.diff(shingles.offsets)
        filled = sizes > 0  # an empty text has no signature
        signatures = signatures_of(self.options, shingles)[filled]
        bands, rows = self.choice.bands, self.choice.rows
        buckets = bucket_keys(signatures, bands, rows)
        marks = (buckets @ np.arange(1, 2 * bands, 2, dtype=np.uint64)) >> np.uint64(32)
        self.count("documents", len(documents))
        self.count("empty", len(documents) - len(signatures))
        return (
            {
                "bucket": buckets.reshape(-1),
                "mark": np.repeat(marks.astype(np.uint32), bands),
                "key": np.repeat(record_keys(lines)[filled], bands),
                "size": np.repeat(sizes[filled].astype(np.uint32), bands),
            },
            {"id": id_keys([document.id for document in documents])},
        )

    def emit_rows(self):
        rows, ids = map(concatenate, zip(*self.rows))
        self.rows, self.held = [], 0
        for number, block in deal(rows, self.slice_of(rows["bucket"])):
            yield slice_key("buckets", number), block
        for number, block in deal(ids, self.slice_of(ids["id"])):
            yield slice_key("ids", number), block

    def slice_of(self, hashes):
        return (hashes >> np.uint64(32)) * np.uint64(self.options.slices) >> np.uint64(32)

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
                "first_mark": rows["mark"][first],
                "second_mark": rows["mark"][second],
            }
            if len(first):
                pairs = merge_pairs(pairs)
                self.count("rows of pairs", len(pairs["first"]))
                yield "pairs", pairs


def check_unique(ids):
    """JobError where a hash of ids occurs twice."""
    ids = np.sort(ids)
    again = np.flatnonzero(ids[1:] == ids[:-1])
    if len(again):
        raise JobError(f"an id is given twice (id key {ids[again[0]]})")


if __name__ == "__main__":
    Candidates.run()
