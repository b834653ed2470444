"""Run jobs/dedup.py over a corpus on several engines: their times, and whether their lines are the same.

    eval "$(scripts/hadoop env)"
    .venv/bin/python scripts/compare_engines.py corpus.jsonl --engine hadoop --engine spark

What is not named below goes to the job: its own options, or those of a runner that all engines take. With
-r hadoop, input and output are in HDFS, in a folder that is removed afterwards.

Output, a Markdown table: seconds from start to end of the program, and of each stage; lines: whether those
of pairs/, clusters/ and kept/ are, in any order, those of the default runner, which is the first row. Exit
status 1 where some are not.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOB = Path(__file__).resolve().parents[1] / "jobs" / "dedup.py"
sys.path[:0] = map(str, (JOB.parents[1], JOB.parent))

from mapreduce.errors import JobError  # noqa: E402
from mapreduce.storage import LocalStorage, last_line  # noqa: E402

from dedup import Dedup  # noqa: E402

ENGINES = ("local", "hadoop", "spark")
PUBLISHED = ("pairs", "clusters", "kept")


def digest(lines):
    """(number of lines, sum of their hashes): the same in any order."""
    count = total = 0
    for line in lines:
        count += 1
        total += int.from_bytes(hashlib.sha256(line).digest(), "big")
    return count, total % (1 << 256)


def measure(engine, corpus, options):
    """(seconds, {stage: seconds}, digests of what is published) of a run."""
    if engine == "hadoop":
        runner = Dedup(["-r", engine, *options]).make_runner()
        storage, folder = runner.remote_storage(), f"{runner.tmp_folder()}/engines-{os.getpid()}"
        source = f"{folder}/{corpus.name}"
        storage.upload(corpus, source)
    else:
        storage, folder, source = LocalStorage(), tempfile.mkdtemp(prefix="engines-"), corpus
    output = f"{folder}/output"
    try:
        command = [sys.executable, JOB, source, "--output-dir", output, "-q", *options]
        start = time.perf_counter()
        done = subprocess.run(
            [*command, *(["-r", engine] if engine != "inline" else [])], capture_output=True
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            raise JobError(f"{engine}: {last_line(done.stderr, 'failed without a word')}")
        stages = json.loads(storage.read(f"{output}/summary.json"))["stages"]
        found = [digest(storage.lines(f"{output}/{name}")) for name in PUBLISHED]
    finally:
        storage.remove(folder)
    return seconds, {name: stage["seconds"] for name, stage in stages.items()}, found


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("corpus", type=Path, metavar="FILE", help="documents, as of jobs/dedup.py")
    parser.add_argument(
        "--engine", action="append", default=[], choices=ENGINES, help="may be repeated (default: local)"
    )
    options, rest = parser.parse_known_args()
    if not options.corpus.is_file():
        parser.error(f"FILE must be a file, got {options.corpus}")
    return options, rest


def main():
    options, rest = parse_options()
    expected, same = None, True
    for engine in ("inline", *(options.engine or ["local"])):
        try:
            seconds, stages, found = measure(engine, options.corpus, rest)
        except (OSError, JobError) as error:
            sys.exit(f"compare_engines.py: {error}")
        if expected is None:
            expected, names = found, list(stages)
            print("| engine | seconds |", " | ".join(names), "| lines |")
            print("| --- | ---: |", " | ".join(["---:"] * len(names)), "| --- |")
        times = " | ".join(f"{stages[name]:.1f}" for name in names)
        told = "same" if found == expected else "different"
        print(f"| {engine} | {seconds:.1f} | {times} | {told} |", flush=True)
        same &= found == expected
    sys.exit(not same)


if __name__ == "__main__":
    main()
