import os
import re
import sys
from io import BytesIO
from pathlib import Path

from mapreduce.corpus import Corpus, spool
from mapreduce.errors import JobError
from mapreduce.job import Job
from mapreduce.pipeline import Run
from mapreduce.progress import size
from mapreduce.storage import LocalStorage

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from word_count import WordCount  # noqa: E402


@pytest.fixture
def make_run(tmp_path, monkeypatch):
    """A function that makes the `Run` of a quiet job into tmp_path/out."""
    monkeypatch.setenv("MRJOB_CONF", "/dev/null")
    made = []

    def make(*options):
        run = Run(str(tmp_path / "out"), Job(["--no-conf", *options]), {"count": "counts"})
        made.append(run)
        return run

    yield make
    for run in made:
        run.leave()


def words(tmp_path, text="one two\ntwo\n"):
    path = tmp_path / "words"
    path.write_text(text)
    return str(path)


def stage(run, path, *arguments):
    run.corpus = Corpus([path], lambda _: LocalStorage())
    return run.stage("count", WordCount, ["--words", *arguments], run.bring())


def output_of(folder):
    return sorted(line.decode().rstrip("\n") for line in LocalStorage().lines(folder))


def test_stage_leaves_its_output_and_counters(tmp_path, make_run):
    run = make_run("--quiet")
    run.open([], None)
    folder = stage(run, words(tmp_path))
    assert output_of(folder) == ['"one"\t1', '"two"\t2']
    assert (run.counter("lines"), run.counter("words"), run.counter("absent")) == (2, 2, 0)
    told = run.stages["count"]
    assert (told["read"], told["written"]) == (12, sum(LocalStorage().sizes(folder).values()))


def test_complete_stage_is_found_by_another_run(tmp_path, make_run):
    run = make_run("--quiet")
    run.open([], None)
    folder = stage(run, words(tmp_path))
    run.leave()
    again = make_run("--quiet")
    again.open([], None)
    # it is not run again, whatever its input now is
    assert output_of(stage(again, words(tmp_path, "other\n"))) == output_of(folder)
    assert again.counter("words") == 2


def test_failing_stage_tells_why_and_is_not_complete(tmp_path, make_run):
    run = make_run("--quiet")
    run.open([], None)
    with pytest.raises(JobError, match="^no word may be two$"):
        stage(run, words(tmp_path), "--fail-at=two")
    assert not os.path.exists(f"{run.state}/count.json")
    assert output_of(stage(run, words(tmp_path))) == ['"one"\t1', '"two"\t2']


def test_debris_of_a_killed_stage_does_no_harm(tmp_path, make_run):
    debris = tmp_path / "out" / ".run"
    (debris / "counts").mkdir(parents=True)
    (debris / "counts" / "part-00007").write_text('"debris"\t1\n')
    (debris / "tmp").mkdir()
    (debris / "tmp" / "debris").write_text("")
    run = make_run("--quiet")
    run.open([], None)
    run.check_parameters({})
    assert output_of(stage(run, words(tmp_path))) == ['"one"\t1', '"two"\t2']
    assert not (debris / "tmp" / "debris").exists()


def test_stage_is_told_in_a_line(tmp_path, make_run, capsys):
    run = make_run()
    run.open([], None)
    stage(run, words(tmp_path))
    told = capsys.readouterr().err
    assert re.fullmatch(r"count: \d+\.\d s, 12 B read at \d+(\.\d)? k?B/s, 16 B written\n", told), told


def test_parameters_are_those_of_the_first_run(make_run):
    run = make_run()
    run.open([], None)
    assert run.check_parameters({"--seed": 1, "input": ["a"]}) is False
    assert run.check_parameters({"--seed": 1, "input": ["a"]}) is False
    with pytest.raises(JobError, match="with --seed 1, got 2: choose another --output-dir$"):
        run.check_parameters({"--seed": 2, "input": ["a"]})
    with pytest.raises(JobError, match="with --new null, got 3: "):
        run.check_parameters({"--seed": 1, "input": ["a"], "--new": 3})


def test_run_is_complete_with_its_summary(tmp_path, make_run):
    run = make_run()
    run.open([], None)
    run.check_parameters({"--seed": 1})
    run.close({"parameters": {"--seed": 1}, "kept": 3})
    assert os.listdir(tmp_path / "out") == ["summary.json"]
    again = make_run()
    again.open([], None)
    assert again.check_parameters({"--seed": 1}) is True
    assert again.earlier_summary()["kept"] == 3


def test_published_folder_appears_whole_and_once(tmp_path, make_run):
    run = make_run("--quiet")
    run.open([], None)
    stage(run, words(tmp_path))
    assert not (tmp_path / "out" / "counts").exists()
    run.publish()
    run.publish()
    assert output_of(tmp_path / "out" / "counts") == ['"one"\t1', '"two"\t2']


def test_directory_is_for_one_run_at_a_time(make_run):
    first, second = make_run(), make_run()
    first.open([], None)
    with pytest.raises(JobError, match="^another run is at work in "):
        second.open([], None)
    first.close()
    second.open([], None)


def test_lines_are_of_part_files_in_order_and_no_others(tmp_path):
    for name in ("part-00010", "part-00002", "_SUCCESS", ".part-00000.crc"):
        (tmp_path / name).write_text(name + "\n")
    assert output_of(tmp_path) == ["part-00002", "part-00010"]


def test_file_is_whole_or_absent(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(TypeError):
        LocalStorage().write(str(path), "no bytes")
    assert not path.exists()
    LocalStorage().write(str(path), b"{}")
    assert path.read_bytes() == b"{}" and os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize(
    "head, name", [(b"{}", "stdin"), (b"\x1f\x8b", "stdin.gz"), (b"BZh9", "stdin.bz2"), (b"", "stdin")]
)
def test_standard_input_is_spooled_under_the_name_of_its_kind(tmp_path, head, name):
    data = head + b"x" * 3_000_000 if head else b""
    target = str(tmp_path / "stdin")
    path, digest = spool(BytesIO(data), target)
    assert os.path.basename(path) == name
    assert Path(path).read_bytes() == data
    assert digest == spool(BytesIO(data), target)[1] != spool(BytesIO(data + b"y"), target)[1]


class Dribble:
    """A stream that gives a byte at a time, as a slow pipe may."""

    def __init__(self, data):
        self.data = data

    def read(self, _):
        given, self.data = self.data[:1], self.data[1:]
        return given


def test_kind_of_a_slow_pipe_is_known(tmp_path):
    assert spool(Dribble(b"\x1f\x8bxyz"), str(tmp_path / "stdin"))[0].endswith(".gz")


def test_standard_input_is_given_once():
    with pytest.raises(JobError, match="^standard input must be given once, got - twice$"):
        Corpus(["-", "a", "-"], lambda _: LocalStorage())


def test_changed_input_is_told_from_the_same(tmp_path, make_run):
    path = words(tmp_path)

    def opened():
        run = make_run()
        found = run.open([path], None)
        run.leave()
        return found

    before = opened()
    assert opened() == before
    words(tmp_path, "one two\ntwo\nthree\n")
    assert opened() != before


def test_remote_files_need_a_runner_that_reaches_them(make_run):
    with pytest.raises(JobError, match="^files must be on this machine with -r inline, got hdfs:///a$"):
        make_run().open(["hdfs:///a"], None)


@pytest.mark.parametrize(
    "count, text", [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (308_400_000, "308.4 MB"), (5e12, "5.0 TB")]
)
def test_sizes_for_people(count, text):
    assert size(count) == text
