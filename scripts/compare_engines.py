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
ENGINES = ("local", "hadoop", "spark")
PUBLISHED = ("pairs", "clusters", "kept")


class Here:
    """Input and output are files of this machine."""

    def __init__(self, corpus, folder, name):
        self.corpus, self.output = corpus, f"{folder}/{name}"

    def read(self, name):
        """The lines of a file or of the part files of a folder of the output."""
        path = Path(self.output, name)
        for part in sorted(path.glob("part-*")) if path.is_dir() else [path]:
            with open(part, "rb") as file:
                yield from file

    def remove(self):
        """Nothing: the folder is a temporary one."""


class Hdfs:
    """Input and output are in a folder of HDFS."""

    def __init__(self, corpus, *_):
        home = os.environ.get("HADOOP_HOME")
        self._command = [f"{home}/bin/hadoop" if home else "hadoop", "fs"]
        self._folder = f"hdfs:///tmp/compare-engines-{os.getpid()}"
        self.corpus, self.output = f"{self._folder}/{corpus.name}", f"{self._folder}/output"
        self._run("-mkdir", "-p", self._folder)
        self._run("-put", corpus, self.corpus)

    def _run(self, *arguments):
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(last_line(done.stderr))

    def read(self, name):
        path = f"{self.output}/{name}" + ("" if "." in name else "/part-*")
        with subprocess.Popen([*self._command, "-cat", path], stdout=subprocess.PIPE) as process:
            yield from process.stdout
        if process.returncode:
            raise RuntimeError(f"hadoop fs -cat {path} failed")

    def remove(self):
        self._run("-rm", "-r", "-f", "-skipTrash", self._folder)


def digest(lines):
    """(number of lines, sum of their hashes): the same in any order."""
    count = total = 0
    for line in lines:
        count += 1
        total += int.from_bytes(hashlib.sha256(line).digest(), "big")
    return count, total % (1 << 256)


def measure(engine, corpus, folder, options):
    """(seconds, {stage: seconds}, digests of what is published) of a run."""
    place = (Hdfs if engine == "hadoop" else Here)(corpus, folder, engine)
    try:
        command = [sys.executable, JOB, place.corpus, "--output-dir", place.output, "-q", *options]
        start = time.perf_counter()
        done = subprocess.run(
            [*command, *(["-r", engine] if engine != "inline" else [])], capture_output=True, text=True
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            raise RuntimeError(f"{engine}: {last_line(done.stderr)}")
        stages = json.loads(b"".join(place.read("summary.json")))["stages"]
        found = [digest(place.read(name)) for name in PUBLISHED]
    finally:
        place.remove()
    return seconds, {name: stage["seconds"] for name, stage in stages.items()}, found


def last_line(text):
    return next(filter(str.strip, reversed(text.split("\n"))), "failed without a word")


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
    with tempfile.TemporaryDirectory(prefix="engines-") as folder:
        for engine in ("inline", *(options.engine or ["local"])):
            try:
                seconds, stages, found = measure(engine, options.corpus, folder, rest)
            except (OSError, RuntimeError) as error:
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
