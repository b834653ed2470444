import bz2
import gzip
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from mapreduce import runner as module
from mapreduce import splits
from mapreduce.errors import JobError
from mapreduce.spills import Partition, Spill
from mapreduce.splits import Split, line_ranges

import pytest
from mrjob.inline import InlineMRJobRunner

sys.path.insert(0, str(Path(__file__).parent))

from word_count import WordCount  # noqa: E402

SCRIPT = Path(__file__).parent / "word_count.py"
JOBS = Path(__file__).resolve().parents[2] / "jobs"


class StockWordCount(WordCount):
    def _runner_class(self):
        return InlineMRJobRunner


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch):
    monkeypatch.setenv("MRJOB_CONF", "/dev/null")


@pytest.fixture(params=["as it is", "small parts"])
def parts(request, monkeypatch):
    if request.param == "small parts":
        monkeypatch.setattr(module, "_LEAST_SPLIT", 500)
        monkeypatch.setattr(module, "_SPLIT", 1000)
        monkeypatch.setattr(module, "_PARTITION", 3000)


def make_texts(folder):
    """Files of words, of which some are packed, some empty and some have no last newline."""
    draw = random.Random(1)
    lines = [" ".join(f"w{draw.randrange(150)}" for _ in range(draw.randrange(8))) for _ in range(400)]
    lines[7] = "é 日本 w1"
    data = [line.encode() + b"\n" for line in lines]
    (folder / "a").write_bytes(b"".join(data[:200]))
    (folder / "b").write_bytes(b"")
    (folder / "c.gz").write_bytes(gzip.compress(b"".join(data[200:300])))
    (folder / "d").write_bytes(b"".join(data[300:340]).rstrip(b"\n"))
    (folder / "e.bz2").write_bytes(bz2.compress(b"".join(data[340:])))
    return [folder / name for name in ("a", "b", "c.gz", "d", "e.bz2")], lines


def run(job_class, *arguments):
    """(sorted records, counters) of a job."""
    job = job_class(["--no-conf", *map(str, arguments)])
    with job.make_runner() as runner:
        runner.run()
        records = sorted(job.parse_output(runner.cat_output()))
        return records, [step.get("lsh") for step in runner.counters()]


def test_words_are_counted(tmp_path, parts):
    paths, lines = make_texts(tmp_path)
    counts = Counter(word for line in lines for word in line.split())
    records, counters = run(WordCount, *paths, "--words")
    assert dict(records) == counts
    assert len(records) == len(counts)
    assert counters == [{"lines": 400, "words": len(counts)}]


@pytest.mark.parametrize("options", [[], ["--words"], ["--num-cores", 1], ["--num-cores", 7]])
def test_result_is_that_of_the_inline_runner(tmp_path, parts, options):
    paths, _ = make_texts(tmp_path)
    assert run(WordCount, *paths, *options) == run(
        StockWordCount, *paths, *(options if len(options) == 1 else [])
    )


@pytest.mark.slow
def test_result_is_that_of_the_local_runner(tmp_path):
    paths, _ = make_texts(tmp_path)
    arguments = [*paths[1:4], "--words"]
    assert run(WordCount, *arguments) == run(WordCount, *arguments, "-r", "local")


def test_empty_input(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    assert run(WordCount, tmp_path / "a")[0] == []


def test_standard_input(tmp_path):
    job = WordCount(["--no-conf", "--words", "-"])
    job.sandbox(stdin=open(os.devnull, "rb"))
    with job.make_runner() as runner:
        runner.run()
        assert list(runner.cat_output()) == []


def test_temporary_files_are_gone_afterwards(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "a").write_bytes(b"one two\n")
    run(WordCount, tmp_path / "a", "--local-tmp-dir", tmp_path / "tmp")
    assert not list((tmp_path / "tmp").iterdir())


def test_counters_of_all_tasks_add_up(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LEAST_SPLIT", 10)
    (tmp_path / "a").write_bytes(b"one\n" * 1000)
    assert run(WordCount, tmp_path / "a", "--words")[1] == [{"lines": 1000, "words": 1}]


def test_progress_ends_at_the_whole(tmp_path, parts):
    paths, _ = make_texts(tmp_path)
    told = []
    job = WordCount(["--no-conf", *map(str, paths)])
    with job.make_runner() as runner:
        runner.progress = lambda *state: told.append(state)
        runner.run()
    for phase in (("mapper", 0), ("reducer", 0), ("mapper", 1), ("reducer", 1)):
        states = [(done, total) for *found, done, total in told if tuple(found) == phase]
        assert states and all(before <= after for before, after in zip(states, states[1:]))
        done, total = states[-1]
        assert 0.9 * total <= done <= 1.1 * total


# failures


@pytest.fixture
def slow_failure(tmp_path, monkeypatch):
    """A file in whose first line is the word to fail at, of many tasks."""
    monkeypatch.setattr(module, "_LEAST_SPLIT", 10)
    monkeypatch.setattr(module, "_SPLIT", 10)
    path = tmp_path / "a"
    path.write_bytes(b"bad word\n" + b"good words\n" * 300)
    return path


def test_failure_tells_its_line_and_stops_the_rest(slow_failure):
    start = time.monotonic()
    with pytest.raises(JobError, match="^no word may be bad$"):
        run(WordCount, slow_failure, "--fail-at", "bad", "--num-cores", 2)
    assert time.monotonic() - start < 5
    with pytest.raises(ChildProcessError):  # no child is left
        os.waitpid(-1, os.WNOHANG)


def test_fault_tells_what_and_where(slow_failure, capfd):
    with pytest.raises(JobError, match="KeyError: 'bad'"):
        run(WordCount, slow_failure, "--fail-at", "bad", "--crash")
    assert "find_words" in capfd.readouterr().err


def run_python(*arguments):
    path = os.pathsep.join([str(JOBS), str(SCRIPT.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *map(str, arguments), "--no-conf", "--quiet"],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=60,
    )


def test_script_fails_in_one_line(slow_failure):
    result = run_python(SCRIPT, slow_failure, "--fail-at", "bad")
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr == b"error: no word may be bad\n"


INTERRUPTED = """
import os, signal
from word_count import WordCount
os.register_at_fork({hook}=lambda: os.kill(os.getpid(), signal.SIGINT))
WordCount.run()
"""


@pytest.mark.parametrize("hook", ["before", "after_in_parent"])
def test_interrupt_at_a_fork_is_not_lost(slow_failure, hook):
    """Python drops what is raised around a fork: one that comes there must wait until after it."""
    result = run_python("-c", INTERRUPTED.format(hook=hook), slow_failure)
    assert result.returncode == 1
    assert result.stderr == b"\nerror: interrupted\n"


class Suicide(WordCount):
    def find_words(self, _, line):
        os.kill(os.getpid(), 9)
        yield


def test_task_that_is_killed_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"one\n")
    with pytest.raises(JobError, match="^a task was killed by signal 9$"):
        run(Suicide, tmp_path / "a")


class Quitter(WordCount):
    def find_words(self, _, line):
        os._exit(3)
        yield


def test_task_that_just_exits_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"one\n")
    with pytest.raises(JobError, match="^a task ended with status 3$"):
        run(Quitter, tmp_path / "a")


def test_input_that_is_cut_while_it_is_read_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"one\n" * 100)
    split = Split([(str(tmp_path / "a"), 0, 500)])
    split.report = lambda done: None
    with pytest.raises(JobError, match="was cut while it was read"):
        list(split)


# line ranges


def random_files(count):
    """Contents with lines of any length, empty ones too, with and without a last newline."""
    for seed in range(count):
        draw = random.Random(seed)
        lengths = draw.choice(([0], [0, 1], [0, 1, 2, 50], [3], [1000, 0, 7], range(200)))
        lines = [bytes([65 + n % 26]) * draw.choice(lengths) for n in range(draw.randrange(60))]
        yield b"\n".join(lines) + b"\n" * draw.randrange(2)


def given(split):
    split.report = lambda done: None
    return list(split)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 10**9])
def test_files_are_cut_at_lines(tmp_path, size):
    path = tmp_path / "a"
    for data in random_files(60):
        path.write_bytes(data)
        ranges = line_ranges(str(path), size)
        assert [start for start, _ in ranges] == [0, *(end for _, end in ranges)][: len(ranges)]
        assert (ranges[-1][1] if ranges else 0) == len(data)
        for start, end in ranges:
            assert start < end
            assert data[end - 1 : end] == b"\n" or end == len(data)
            # no line more than needed
            assert data.rfind(b"\n", start, end - 1) + 1 - start < size or end - start <= size
        read = [line for part in ranges for line in given(Split([(str(path), *part)]))]
        assert b"".join(read) == data
        assert read == data.splitlines(keepends=True)


@pytest.mark.parametrize("batch", [1, 5, 100, 10**6])
@pytest.mark.parametrize("ending", ["", ".gz", ".bz2"])
def test_batches_hold_all_lines_and_know_their_places(tmp_path, batch, ending):
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[ending]
    for number, data in enumerate(random_files(25)):
        path = tmp_path / f"{number}{ending}"
        path.write_bytes(pack(data))
        lines, found = data.splitlines(keepends=True), []
        for start, end in line_ranges(str(path), 40):
            split = Split([(str(path), start, end)])
            split.report = lambda done: None
            for batch_lines in split.batches(batch):
                for i, line in enumerate(batch_lines):
                    place, number_there = split.place(i)
                    assert place == str(path)
                    assert lines[number_there - 1] == line
                    assert number_there == len(found) + 1
                    found.append(line)
        assert found == lines


def test_places_in_a_split_of_several_files(tmp_path):
    for name, data in (("a", b"1\n2\n"), ("b", b"\n3"), ("c", b"4\n")):
        (tmp_path / name).write_bytes(data)
    split = Split([(str(tmp_path / name), 0, size) for name, size in (("a", 4), ("b", 2), ("c", 2))])
    split.report = lambda done: None
    places = [
        (os.path.basename(split.place(i)[0]), split.place(i)[1], line)
        for lines in split.batches(100)
        for i, line in enumerate(lines)
    ]
    assert places == [("a", 1, b"1\n"), ("a", 2, b"2\n"), ("b", 1, b"\n"), ("b", 2, b"3"), ("c", 1, b"4\n")]


def test_lines_longer_than_all_buffers(tmp_path, monkeypatch):
    monkeypatch.setattr(splits, "READ", 16)
    data = b"x" * 1000 + b"\n\n" + b"y" * 5000 + b"\n" + b"z" * 17
    (tmp_path / "a").write_bytes(data)
    ranges = line_ranges(str(tmp_path / "a"), 100)
    read = [line for part in ranges for line in given(Split([(str(tmp_path / "a"), *part)]))]
    assert read == data.splitlines(keepends=True)


# partitions


@pytest.mark.parametrize("partitions", [1, 2, 13])
def test_partitions_see_each_key_once_and_in_order(tmp_path, partitions):
    draw = random.Random(3)
    written, paths = [], []
    for number in range(4):
        paths.append(str(tmp_path / f"spill-{number}"))
        with Spill(paths[-1]) as spill:
            for i in range(draw.randrange(300)):
                line = b"%d\t%d.%d" % (draw.randrange(50), number, i)
                spill.write(line)
                spill.write(b"\n")
                written.append(line)
            if number == 2:
                for line in (b"no tab", b"\t", b"7\t" + b"x" * 100_000):
                    spill.write(line)
                    spill.write(b"\n")
                    written.append(line)
    found = []
    for number in range(partitions):
        part = Partition(paths, number, partitions)
        part.report = lambda done: None
        found.append([line.rstrip(b"\n") for line in part])
    keys = [[line.split(b"\t")[0] for line in part] for part in found]
    assert sorted(line for part in found for line in part) == sorted(written)
    assert sum(len(set(part)) for part in keys) == len(set().union(*keys))
    for part, part_keys in zip(found, keys):
        # all lines of a key together
        heads = [key for key, before in zip(part_keys, [None, *part_keys]) if key != before]
        assert len(heads) == len(set(part_keys))
        # and those of each task in the order they came
        order = {}
        for key, _, place in (line.partition(b"\t") for line in part):
            if place.count(b".") == 1:
                order.setdefault(key, []).append(tuple(map(int, place.split(b"."))))
        assert all(places == sorted(places) for places in order.values())


def test_more_entries_than_one_list_of_the_index_holds(tmp_path):
    path = str(tmp_path / "spill")
    with Spill(path) as spill:
        for i in range(2 * Spill._BUFFERED + 3):
            spill.write(b"k%d\tv" % (i % 10))
            spill.write(b"\n")
    assert Spill.index(path).shape == (3, 2 * Spill._BUFFERED + 3)
    part = Partition([path], 0, 1)
    part.report = lambda done: None
    assert len(list(part)) == 2 * Spill._BUFFERED + 3
