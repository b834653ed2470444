"""Near-duplicate documents: find them, verify them, say what matched what, and keep one of each.

Input: documents, `{"id": "d1", "text": "Good night, and good luck"}`
Output, in --output-dir: pairs/, clusters/, kept/ and summary.json; without it the kept documents go to
standard output and the summary to standard error

    candidates -> components -> resolve -> keep
"""

import contextlib
import json
import os
import re
import tempfile

from mapreduce.errors import JobError
from mapreduce.inputs import average_line, is_remote, opener
from mapreduce.job import Job
from mapreduce.options import (
    add_bucket_cap,
    add_document_options,
    add_resolve_options,
    add_signature_options,
    add_text_options,
    arguments,
    banding,
    check_signature_options,
    check_text_options,
    layout,
    settle_format,
    value_field,
)
from mapreduce.pipeline import Run
from mapreduce.progress import Stopwatch, size
from mapreduce.storage import LocalStorage

import numpy as np

import lshlib
from candidates import Candidates
from components import Components
from keep import Keep
from lshlib.blocks import MARK, BlockProtocol, unpack
from lshlib.documents import RecordError, id_keys
from lshlib.targets import ROUTE
from publish import Publish
from resolve import Resolve

DOCUMENT = {"input_format", "id_field", "text_field", "skip_bad_records"}
TEXT = {"shingle_size", "shingle_unit", "bag", "no_normalize", "seed"}
SIGNATURE = {"threshold", "recall", "bands", "rows", "signature"}
RESOLVE = {"verify", "keep"}
PUBLISHED = {"pairs": "pairs", "clusters": "clusters", "keep": "kept"}
SAMPLE = 1 << 20  # bytes of the input from which its records are estimated
LEAST_SLICES = 64  # each reducer of a small cluster gets several
MOST_SLICES = 2048  # more would cut a mapper's output into blocks of a few rows
SLICE_ROWS = 1 << 18  # bucket rows that a reducer sorts at a time, about


class Dedup(Job):
    def configure_args(self):
        super().configure_args()
        add_document_options(self)
        add_text_options(self)
        add_signature_options(self)
        add_bucket_cap(self)
        add_resolve_options(self)
        self.arg_parser.add_argument_group("memory").add_argument(
            "--edges-in-memory",
            type=int,
            default=1 << 23,
            metavar="N",
            help="candidate pairs that one reducer may hold; more are joined in rounds (default: 8388608)",
        )

    def check_options(self):
        check_text_options(self.options)
        check_signature_options(self.options)
        if not any(map(is_remote, self.options.args)):  # a cluster is asked for the names of its files later
            settle_format(self.options, [path for path in self.options.args if path != "-"])
        value_field(self.options)
        self.choice = banding(self.options)

    def steps(self):
        """None of its own: the stages are jobs."""
        return []

    def ship_code(self):
        """Nothing: the stages ship it."""

    def run_job(self):
        if self.options.output_dir:
            self.deduplicate(self.options.output_dir)
            return
        with tempfile.TemporaryDirectory(prefix="dedup-", dir=self.options.local_tmp_dir) as folder:
            self.deduplicate(os.path.join(folder, "output"), resumable=False)
            self.stdout.writelines(LocalStorage().lines(os.path.join(folder, "output", "kept")))
            self.stdout.flush()

    def deduplicate(self, folder, resumable=True):
        watch, run = Stopwatch(), Run(folder, self, PUBLISHED)
        try:
            self.deduplicate_into(run, watch)
        except JobError as error:
            raise JobError(run.corpus.renamed(str(error))) from None
        finally:
            if not resumable:
                with contextlib.suppress(JobError):  # the first error is the one to tell
                    run.discard()
            run.leave()

    def deduplicate_into(self, run, watch):
        read = run.open(self.options.args or ["-"], self.stdin)
        try:
            settle_format(self.options, [file.path for file in run.corpus.files])
            value_field(self.options)
        except ValueError as error:
            raise JobError(str(error)) from None
        if run.check_parameters(self.parameters(read)):
            summary = run.earlier_summary()
            run.display.say(f"complete already: {run.folder}")
            run.close()
        else:
            with run.session():
                inputs = run.bring()
                try:
                    summary = self.run_stages(run, inputs)
                except JobError as error:
                    raise self.located(run, error) from None
            summary["seconds"] = watch()
            run.close(summary)
        run.display.say(summary_text(summary, self.options.output_dir))

    def parameters(self, read):
        """All that decides the output."""
        names = sorted(DOCUMENT | TEXT | SIGNATURE | RESOLVE | {"bucket_cap"})
        options = {f"--{name.replace('_', '-')}": getattr(self.options, name) for name in names}
        return {"version": lshlib.__version__, **options, "input": read}

    def run_stages(self, run, inputs):
        run.stage("candidates", Candidates, self.candidate_arguments(run), inputs)
        skipped = self.publish_skipped(run)
        pairs, routes = self.find_targets(run, inputs)
        resolved = run.stage("resolve", Resolve, self.resolve_arguments(routes), [*inputs, *pairs])
        removed = run.scratch("removed.npy")
        blocks = blocks_of(run.lines("resolve"), b"removed")
        np.save(removed, np.sort(np.concatenate([skipped, *(block["key"] for block in blocks)])))
        run.stage("pairs", Publish, ["--kind=pair"], [resolved])
        run.stage("clusters", Publish, ["--kind=cluster"], [resolved])
        run.stage("keep", Keep, [*arguments(self, DOCUMENT), f"--removed={removed}"], inputs)
        summary = self.summary(run)
        run.publish()
        return summary

    def candidate_arguments(self, run):
        rows = self.estimated_records(run) * self.choice.bands
        slices = min(max(LEAST_SLICES, rows // SLICE_ROWS), MOST_SLICES)
        field = value_field(self.options)
        return [
            *arguments(self, DOCUMENT | TEXT | SIGNATURE | {"bucket_cap"}),
            f"--slices={slices}",
            *([f"--value-field={field}"] if field else []),
        ]

    def estimated_records(self, run):
        """About how many lines the input holds, from the start of the first file that has any."""
        filled = [file for file in run.corpus.files if file.size]
        if not filled:
            return 0
        total = sum(file.size * (4 if opener(file.path) else 1) for file in filled)
        path = filled[0].path
        return total // average_line(run.corpus.head(path, SAMPLE), opener(path))

    def resolve_arguments(self, routes, *more):
        names = DOCUMENT | TEXT | SIGNATURE | RESOLVE
        return [*arguments(self, names), f"--routes={os.path.abspath(routes)}", *more]

    def find_targets(self, run, inputs):
        """Folders of candidate pairs with targets, and the file of the documents' routes to them.

        Components too large for one reducer are verified in parts first; what is left of them then goes
        through `components` again, whole.
        """
        pairs = [self.components(run, "components", "candidates")]
        routes = routes_in(run.lines("components"))
        path = run.scratch("routes.npy")
        if routes["partial"].any():
            np.save(path, routes[routes["partial"]])
            run.stage("verify", Resolve, self.resolve_arguments(path, "--pairs-only"), [*inputs, *pairs])
            pairs.append(
                self.components(run, "components-again", "verify", "--whole", f"--first-target={1 << 48}")
            )
            rest = routes_in(run.lines("components-again"))
            routes = np.concatenate([routes[~routes["partial"]], rest])
            routes.sort(order="key")
        np.save(path, routes)
        return pairs, path

    def components(self, run, name, source, *arguments):
        """The stage that deals a stage's pairs to targets, after rounds of stars where they are many."""
        pairs = run.output(source)
        rows = run.stages[source]["counters"].get("rows of pairs", 0)
        if rows <= self.options.edges_in_memory:
            return run.stage(name, Components, arguments, [pairs])
        slices = f"--slices={max(8, -(-rows // self.options.edges_in_memory))}"
        edges, changed, number = pairs, True, 0
        while changed:
            number += 1
            changed = 0
            for star in ("large", "small"):
                stage = f"{name}-{star}-star-{number}"
                edges = run.stage(stage, Components, ["--star", star, slices], [edges])
                changed += run.stages[stage]["counters"].get("changed edges", 0)
        return run.stage(name, Components, [*arguments, "--labelled", slices], [pairs, edges])

    def publish_skipped(self, run):
        """skipped/, in the order of files and lines, if any; the keys of the skipped lines."""
        keys, records = [np.zeros(0, np.uint64)], []
        if run.stages["candidates"]["counters"].get("skipped"):
            for block in blocks_of(run.lines("candidates"), b"skipped"):
                keys.append(block["key"])
                records += map(json.loads, unpack(block["record"], block["length"]))
            places = {(record["file"], record["offset"]) for record in records}
            before = {place: run.corpus.lines_before(*place) for place in places}
            names = {path: run.corpus.renamed(path) for path, _ in places}
            for record in records:
                record["line"] += before[record["file"], record.pop("offset")]
                record["file"] = names[record["file"]]
            records.sort(key=lambda record: (record["file"], record["line"]))
            lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            run.write("skipped", "".join(lines).encode())
        return np.concatenate(keys)

    def located(self, run, error):
        """For a line counted from within a file, and an id given twice, the error that names the places."""
        message = str(error)
        found = re.search(r"line (\d+) after byte (\d+) of (\S+?): ", message)
        if found:
            line = int(found[1]) + run.corpus.lines_before(found[3], int(found[2]))
            return JobError(message.replace(found[0], f"line {line} of {found[3]}: "))
        found = re.search(r"id key (\d+)", message)
        return self.given_twice(run, int(found[1])) or error if found else error

    def given_twice(self, run, key):
        """The error for ids with one key, if they are found."""
        places = []
        document_layout = layout(self.options)
        for path in (file.path for file in run.corpus.files):
            for number, line in enumerate(run.corpus.lines(path), 1):
                try:
                    id_ = document_layout.read(line.rstrip(b"\r\n")).id
                except RecordError:  # a blank line, or one that was skipped
                    continue
                if int(id_keys([id_])[0]) == key:
                    places.append((id_, f"line {number} of {path}"))
        if len(places) < 2:
            return None
        (one, here), (other, there) = places[:2]
        if one == other:
            return JobError(f"ids must differ, got {json.dumps(one)} twice: {here} and {there}")
        return JobError(
            f"ids must have different keys, got one for {json.dumps(one)} and {json.dumps(other)}: "
            f"{here} and {there}"
        )

    def summary(self, run):
        names = ("documents", "empty", "skipped", "clusters", "removed", "kept")
        counts = {name: run.counter(name) for name in names}
        if counts["kept"] + counts["removed"] != counts["documents"]:
            raise JobError(
                f"survivors and removals must be all {counts['documents']} documents, got "
                f"{counts['kept']} and {counts['removed']}: the input changed during the run, or two "
                "documents have one key (then give another --seed)"
            )
        return {
            "parameters": run.parameters,
            **counts,
            "bands": self.choice.bands,
            "rows": self.choice.rows,
            "recall": round(self.choice.recall, 6),
            "candidate_pairs": run.counter("candidate pairs"),
            "verified_pairs": run.counter("verified pairs"),
            "pairs_left_out": run.counter("pairs left out by the cap"),
            "stages": {
                name: {key: value for key, value in stage.items() if key != "counters"}
                for name, stage in run.stages.items()
            },
        }


def blocks_of(lines, key):
    """The blocks with this key among the lines of a stage's output."""
    protocol = BlockProtocol()
    for line in lines:
        if line.startswith(MARK + key + b"\t"):
            yield protocol.read(line.rstrip(b"\n"))[1]


def routes_in(lines):
    """The routes that `components` put out, sorted by key."""
    found = [np.zeros(0, ROUTE)]
    for block in blocks_of(lines, b"routes"):
        routes = np.zeros(len(block["key"]), ROUTE)
        for name in ROUTE.names:
            routes[name] = block[name]
        found.append(routes)
    return np.sort(np.concatenate(found), order="key")


def summary_text(summary, folder):
    """The summary for people."""
    rows = [
        ("documents", f"{summary['documents']:,} ({summary['empty']:,} empty)"),
        ("skipped", f"{summary['skipped']:,} bad records, listed in skipped/"),
        ("clusters", f"{summary['clusters']:,}"),
        ("removed", f"{summary['removed']:,}"),
        ("kept", f"{summary['kept']:,}"),
        (
            "bands x rows",
            f"{summary['bands']} x {summary['rows']}: finds a pair of similarity "
            f"{summary['parameters']['--threshold']:g} with chance {summary['recall']:.4f}",
        ),
        (
            "pairs",
            f"{summary['candidate_pairs']:,} candidates, {summary['verified_pairs']:,} verified, "
            f"{summary['pairs_left_out']:,} left out by --bucket-cap",
        ),
    ]
    if not summary["skipped"]:
        del rows[1]
    for name, stage in summary["stages"].items():
        rows.append(
            (
                f"stage {name}",
                f"{stage['seconds']:.1f} s, {size(stage['read'])} read, {size(stage['written'])} written",
            )
        )
    rows.append(("time", f"{summary['seconds']:.1f} s"))
    if folder:
        rows.append(("output", f"{folder}: kept/ pairs/ clusters/ summary.json"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {text}" for name, text in rows)


if __name__ == "__main__":
    Dedup.run()
