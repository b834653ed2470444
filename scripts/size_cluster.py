"""Say what a cluster needs for a corpus, from what a run on Hadoop measured.

    .venv/bin/python scripts/size_cluster.py out/summary.json --documents 10e6 100e6 1e9 --nodes 10 --cores 8

The summary is that of a run with -r hadoop over documents like those to come: its tasks' seconds and bytes
for each document are multiplied. Output, a Markdown table a number of documents: for each stage the time of
mappers, shuffle and reducers; then the disk, the memory of the driver and what each node fetches.
"""

import argparse
import json

ROUTE = 17  # bytes of a document that has a candidate, in the file that every mapper of `resolve` looks up
REMOVED = 8  # bytes of a removed document, in the file of `keep`
COPIES = 3  # of the routes, while the driver joins and sorts them
REPLICAS = 3
EDGES = 1 << 23  # pairs that one reducer of `components` holds; more are joined by all, in rounds of stars
STAR_STAGES = 6  # of three rounds, as most corpora need
STAGE_START = 25  # seconds of a stage for the client, the application master and the first containers


def stages_of(summary):
    """{stage: measures} of those that ran on Hadoop."""
    found = {name: stage for name, stage in summary["stages"].items() if "map_seconds" in stage}
    if not found:
        raise SystemExit("scripts/size_cluster.py: the summary must be of a run with -r hadoop, got another")
    return found


def table(summary, documents, options):
    """The lines for one number of documents."""
    factor = documents / summary["documents"]
    cores, network = options.nodes * options.cores, options.nodes * options.network * 1e6
    yield f"{documents:,.0f} documents on {options.nodes} nodes of {options.cores} cores:"
    yield ""
    yield "| stage | map | shuffle | reduce | bytes shuffled |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    sums, starts, pairs = [0, 0, 0], 0, summary["candidate_pairs"] * factor
    for name, stage in stages_of(summary).items():
        passes, reducers = 1, cores
        if name == "components":
            passes, reducers = (1 + STAR_STAGES, cores) if pairs > EDGES else (1, 1)
        maps = passes * stage["map_seconds"] * factor / cores
        shuffle = passes * stage["shuffled"] * factor / network
        reduces = passes * stage["reduce_seconds"] * factor / reducers
        sums = [before + new for before, new in zip(sums, (maps, shuffle, reduces))]
        starts += passes * STAGE_START
        times = " | ".join(map(span, (maps, shuffle, reduces)))
        yield f"| {name} | {times} | {size(stage['shuffled'] * factor)} |"
    yield f"| all | {' | '.join(map(span, sums))} | |"
    read = next(iter(stages_of(summary).values()))["read"] * factor
    most = max(stage["shuffled"] for stage in stages_of(summary).values()) * factor
    routes = ROUTE * options.candidates * documents
    yield ""
    yield f"- {pairs:,.0f} candidate pairs" + (", joined in rounds of stars" if pairs > EDGES else "")
    yield f"- time: {span(sum(sums) + starts)}, of which {span(starts)} to start stages"
    yield (
        f"- disk: HDFS {size(read * REPLICAS * 2)} ({REPLICAS} copies of the input and of kept/), "
        f"{size(3 * most)} for the largest shuffle (spilled, merged, fetched)"
    )
    yield (
        f"- driver: {size(COPIES * routes)} of memory; each node fetches {size(routes)} for resolve and "
        f"{size(REMOVED * options.candidates * documents)} for keep"
    )
    yield ""


def span(seconds):
    """
    >>> span(0.4), span(61), span(7260)
    ('0 s', '1 min', '2.0 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def size(count):
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("summary", help="summary.json of a run with -r hadoop")
    parser.add_argument("--documents", type=float, nargs="+", default=[10e6, 100e6, 1e9], metavar="N")
    parser.add_argument("--nodes", type=int, default=10, help="(default: %(default)s)")
    parser.add_argument("--cores", type=int, default=8, help="of a node (default: %(default)s)")
    parser.add_argument("--network", type=float, default=600, help="MB/s of a node (default: %(default)s)")
    parser.add_argument(
        "--candidates",
        type=float,
        default=0.3,
        help="share of the documents that have a candidate (default: %(default)s)",
    )
    options = parser.parse_args()
    try:
        with open(options.summary) as file:
            summary = json.load(file)
    except (OSError, ValueError) as error:
        parser.error(f"the summary must be a summary.json, got {options.summary}: {error}")
    for documents in options.documents:
        print(*table(summary, documents, options), sep="\n")


if __name__ == "__main__":
    main()
