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
import shutil
import tempfile

from mapreduce.errors import JobError
from mapreduce.inputs import estimated_records, expand, lines
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
from mapreduce.pipeline import Run, fingerprint, part_files, spool
from mapreduce.progress import Stopwatch, size

import numpy as np

import lshlib
from candidates import Candidates
from components import Components
from keep import Keep
from lshlib.blocks import MARK, BlockProtocol, is_block, unpack
from lshlib.documents import RecordError, id_keys
from lshlib.targets import ROUTE
from resolve import Resolve

DOCUMENT = {"input_format", "id_field", "text_field", "skip_bad_records"}
TEXT = {"shingle_size", "shingle_unit", "bag", "no_normalize", "seed"}
SIGNATURE = {"threshold", "recall", "bands", "rows", "signature"}
RESOLVE = {"verify", "keep"}
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

    def load_args(self, args):
        super().load_args(args)
        try:
            check_text_options(self.options)
            check_signature_options(self.options)
            settle_format(self.options, [path for path in self.options.args if path != "-"])
            value_field(self.options)
            self.choice = banding(self.options)
        except ValueError as error:
            self.arg_parser.error(str(error))

    def ship_code(self):
        """Nothing: the stages ship it."""

    def run_job(self):
        if self.options.output_dir:
            self.deduplicate(self.options.output_dir)
            return
        with tempfile.TemporaryDirectory(prefix="dedup-", dir=self.options.local_tmp_dir) as folder:
            self.deduplicate(os.path.join(folder, "output"))
            for path in part_files(os.path.join(folder, "output", "kept")):
                with open(path, "rb") as file:
                    shutil.copyfileobj(file, self.stdout, 1 << 20)
            self.stdout.flush()

    def deduplicate(self, folder):
        watch, run = Stopwatch(), Run(folder, self)
        try:
            self.deduplicate_into(run, watch)
        except JobError as error:
            raise JobError(run.renamed(str(error))) from None
        finally:
            run.leave()

    def deduplicate_into(self, run, watch):
        files, read = [], []
        paths = self.options.args or ["-"]
        named = [path for path in paths if path != "-"]
        expand(named)  # a file that is missing is told before anything is made
        run.open(named)
        for path in paths:
            if path == "-":
                spooled, digest = spool(self.stdin, run.state)
                run.names[spooled] = "standard input"
                files.append(spooled)
                read.append(["standard input", digest])
            else:
                found = expand([path])
                files += found
                read += fingerprint(found)
        if run.check_parameters(self.parameters(read)):
            summary = run.earlier_summary()
            run.display.say(f"complete already: {run.folder}")
            run.close()
        else:
            try:
                summary = self.run_stages(run, files)
            except JobError as error:
                raise located(self.options, error, files) from None
            summary["seconds"] = watch()
            run.close(summary)
        run.display.say(summary_text(summary, self.options.output_dir))

    def parameters(self, read):
        """All that decides the output."""
        names = sorted(DOCUMENT | TEXT | SIGNATURE | RESOLVE | {"bucket_cap"})
        options = {f"--{name.replace('_', '-')}": getattr(self.options, name) for name in names}
        return {"version": lshlib.__version__, **options, "input": read}

    def run_stages(self, run, files):
        candidates = run.stage("candidates", Candidates, self.candidate_arguments(files), files)
        skipped = self.publish_skipped(run, candidates)
        pairs, routes = self.find_targets(run, files)
        resolved = run.stage("resolve", Resolve, self.resolve_arguments(routes), [*files, *pairs])
        removed = self.publish_resolved(run, resolved, skipped)
        kept = run.stage("keep", Keep, [f"--removed={removed}"], files)
        summary = self.summary(run)
        run.publish(kept, "kept")
        return summary

    def candidate_arguments(self, files):
        rows = estimated_records(files) * self.choice.bands
        slices = min(max(8, rows // SLICE_ROWS), MOST_SLICES)
        field = value_field(self.options)
        return [
            *arguments(self, DOCUMENT | TEXT | SIGNATURE | {"bucket_cap"}),
            f"--slices={slices}",
            *([f"--value-field={field}"] if field else []),
        ]

    def resolve_arguments(self, routes, *more):
        names = DOCUMENT | TEXT | SIGNATURE | RESOLVE
        return [*arguments(self, names), f"--routes={os.path.abspath(routes)}", *more]

    def find_targets(self, run, files):
        """Files of candidate pairs with targets, and the file of the documents' routes to them.

        Components too large for one reducer are verified in parts first; what is left of them then goes
        through `components` again, whole.
        """
        targets = self.components(run, "components", "candidates")
        pairs = part_files(targets)
        routes = load_routes(targets)
        if routes["partial"].any():
            path = run.path("partial.npy")
            save_array(path, routes[routes["partial"]])
            run.stage("verify", Resolve, self.resolve_arguments(path, "--pairs-only"), [*files, *pairs])
            rest = self.components(run, "components-again", "verify", "--whole", f"--first-target={1 << 48}")
            pairs += part_files(rest)
            routes = np.concatenate([routes[~routes["partial"]], load_routes(rest)])
            routes.sort(order="key")
        path = run.path("routes.npy")
        save_array(path, routes)
        return pairs, path

    def components(self, run, name, source, *arguments):
        """The stage that deals a stage's pairs to targets, after rounds of stars where they are many."""
        inputs = part_files(run.output(source))
        rows = run.stages[source]["counters"].get("rows of pairs", 0)
        if rows <= self.options.edges_in_memory:
            return run.stage(name, Components, arguments, inputs)
        slices = f"--slices={max(8, -(-rows // self.options.edges_in_memory))}"
        edges, changed, number = inputs, True, 0
        while changed:
            number += 1
            changed = 0
            for star in ("large", "small"):
                stage = f"{name}-{star}-star-{number}"
                edges = part_files(run.stage(stage, Components, ["--star", star, slices], edges))
                changed += run.stages[stage]["counters"].get("changed edges", 0)
        return run.stage(name, Components, [*arguments, "--labelled", slices], [*inputs, *edges])

    def publish_skipped(self, run, candidates):
        """skipped/, in the order of files and lines, if any; the keys of the skipped lines."""
        keys, records = [np.zeros(0, np.uint64)], []
        for block in blocks_of(candidates, b"skipped"):
            keys.append(block["key"])
            for record in map(json.loads, unpack(block["record"], block["length"])):
                records.append({**record, "file": run.names.get(record["file"], record["file"])})
        if records:
            folder = run.path("skipped")
            os.makedirs(folder, exist_ok=True)
            records.sort(key=lambda record: (record["file"], record["line"]))
            with open(os.path.join(folder, "part-00000"), "w", encoding="utf-8") as file:
                for record in records:
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
            run.publish(folder, "skipped")
        return np.concatenate(keys)

    def publish_resolved(self, run, resolved, skipped):
        """Part the resolved lines into pairs/ and clusters/; the file of the keys to leave out."""
        path = run.path("removed.npy")
        if os.path.exists(path):
            return path
        folders = {b"pair": run.path("pairs"), b"cluster": run.path("clusters")}
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        removed = [skipped]
        for part in part_files(resolved):
            with contextlib.ExitStack() as stack, open(part, "rb") as source:
                files = {
                    kind: stack.enter_context(open(os.path.join(folder, os.path.basename(part)), "wb"))
                    for kind, folder in folders.items()
                }
                for line in source:
                    if is_block(line):
                        removed.append(BlockProtocol().read(line)[1]["key"])
                    else:
                        kind, _, record = line.partition(b"\t")
                        files[kind].write(record)
        run.publish(folders[b"pair"], "pairs")
        run.publish(folders[b"cluster"], "clusters")
        save_array(path, np.sort(np.concatenate(removed)))
        return path

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
                name: {key: stage[key] for key in ("seconds", "read", "written")}
                for name, stage in run.stages.items()
            },
        }


def located(options, error, files):
    """For an id given twice the error that names it and its places; any other error as it is."""
    found = re.search(r"id key (\d+)", str(error))
    if not found:
        return error
    places = []
    document_layout = layout(options)
    for path in files:
        for number, line in enumerate(lines(path), 1):
            try:
                id_ = document_layout.read(line).id
            except RecordError:  # a blank line, or one that was skipped
                continue
            if int(id_keys([id_])[0]) == int(found.group(1)):
                places.append((id_, f"line {number} of {path}"))
    if len(places) < 2:
        return error
    (one, here), (other, there) = places[:2]
    if one == other:
        return JobError(f"ids must differ, got {json.dumps(one)} twice: {here} and {there}")
    return JobError(
        f"ids must have different keys, got one for {json.dumps(one)} and {json.dumps(other)}: "
        f"{here} and {there}"
    )


def blocks_of(folder, key):
    """The blocks with this key in a stage's output."""
    protocol = BlockProtocol()
    for path in part_files(folder):
        with open(path, "rb") as file:
            for line in file:
                if line.startswith(MARK + key + b"\t"):
                    yield protocol.read(line)[1]


def load_routes(folder):
    """The routes that `components` put out, sorted by key."""
    found = [np.zeros(0, ROUTE)]
    for block in blocks_of(folder, b"routes"):
        routes = np.zeros(len(block["key"]), ROUTE)
        for name in ROUTE.names:
            routes[name] = block[name]
        found.append(routes)
    return np.sort(np.concatenate(found), order="key")


def save_array(path, array):
    """Write an array that is whole or absent."""
    np.save(path + ".tmp.npy", array)
    os.rename(path + ".tmp.npy", path)


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
