"""-r spark: the same as by the default runner, on local masters and on a cluster of two workers."""

import bz2
import gzip
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from mapreduce.errors import JobError

import pytest

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not shutil.which("java"), reason="needs Java"),
]
pyspark = pytest.importorskip("pyspark", reason="needs pyspark, as by scripts/setup spark")

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "jobs")]

from echo import Echo  # noqa: E402
from running import (  # noqa: E402
    SAMPLES,
    assert_same,
    deduplicate,
    family_corpus,
    outcome,
    part_lines,
    refusal,
    run_script,
    write_documents,
)
from test_runner import make_texts, run  # noqa: E402
from word_count import WordCount  # noqa: E402

# tasks run again when they fail
LOCAL = ["-r", "spark", "--spark-master", "local[2,4]"]

ODD = [
    *(
        b"plain",
        b"a\rlone CR",
        b"\tTAB\t",
        b"NUL \0",
        "U+2028 \u2028 and \u0085".encode(),
        b"\xff\xfe no UTF-8",
    ),
    *(b"", b"x" * (1 << 20), b"form\f feed", b"quote \" ' \\ \\n", b"#block", b"last"),
]


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch):
    monkeypatch.setenv("MRJOB_CONF", "/dev/null")


@pytest.fixture(scope="module", autouse=True)
def one_application():
    """The tests of this module share one application; it ends with them."""
    yield
    from mapreduce.spark import Application

    if Application._running:
        java = Application._running._gateway.proc
        Application._running.stop()
        assert java.poll() is not None


@pytest.fixture
def set_in_session():
    """A function to set what Spark lets be set while it runs, until the end of the test."""
    names = []

    def set_(name, value):
        names.append(name)
        application().spark.conf.set(name, str(value))

    yield set_
    for name in names:
        application().spark.conf.unset(name)


def application():
    """The application that the tests share, started if need be."""
    job = Echo(["--no-conf", *LOCAL])
    with job.make_runner() as runner:
        return runner.application(0)


def echo(tmp_path, paths, *options):
    """(output lines, counters) of Echo on Spark."""
    out = tmp_path / "out"
    job = Echo(["--no-conf", "--output-dir", str(out), *LOCAL, *map(str, [*options, *paths])])
    with job.make_runner() as runner:
        runner.run()
        return part_lines(out), runner.counters()[0]["lsh"]


def odd_files(folder):
    """Files of odd lines and names, large and small in turns, and their lines."""
    draw, files = random.Random(1), []
    names = ["c [1],b#é%20.txt", "a.gz", "x y.bz2", "empty", "b:c{d}*?"]
    for number, name in enumerate(names):
        lines = [] if name == "empty" else [b"%d " % number + line for line in ODD]
        lines += [b"w" * draw.randrange(100) for _ in range(1000 * (number % 2))]
        data = b"\n".join(lines) + (b"\n" if number % 2 and lines else b"")
        pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(Path(name).suffix, bytes)
        (folder / name).write_bytes(pack(data))
        files.append((folder / name, lines))
    return files


# bytes in, bytes out


def test_lines_come_out_byte_for_byte_in_their_order(tmp_path):
    (tmp_path / "in").mkdir()
    files = odd_files(tmp_path / "in")
    lines, counters = echo(tmp_path, [path for path, _ in files])
    assert lines == [line for _, lines in files for line in lines]
    assert counters["lines"] == len(lines)


@pytest.mark.parametrize("reducers", [1, 7])
def test_reducers_get_each_key_once_and_all_its_lines(tmp_path, reducers):
    (tmp_path / "in").mkdir()
    expected = [line for _, lines in odd_files(tmp_path / "in") for line in lines]
    lines, counters = echo(tmp_path, [tmp_path / "in"], "--reduce", "-D", f"mapreduce.job.reduces={reducers}")
    assert sorted(lines) == sorted(expected)
    assert counters["groups"] == len({line[:1] for line in expected})
    assert counters["reduced"] == len(expected)
    assert len(list((tmp_path / "out").glob("part-*"))) <= reducers


def test_ends_of_lines_are_stripped(tmp_path):
    (tmp_path / "in").write_bytes(b"one\r\ntwo\r\r\n\r\nthree\r")
    assert echo(tmp_path, [tmp_path / "in"])[0] == [b"one", b"two", b"", b"three"]


@pytest.mark.parametrize("block", [150, 3000, 1 << 20])
def test_mappers_know_the_places_of_lines(tmp_path, set_in_session, block):
    """Blocks that end within lines, at their ends and among many short lines."""
    (tmp_path / "in").mkdir()
    lines = [b"%d" % n * (n % 30) for n in range(100)] + [b"123456789"] * 40 + [b"", b"", b"z" * 1000, b"end"]
    files = []
    for name in ("a b,c#%20", "packed.gz", "packed.bz2"):
        pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(Path(name).suffix, bytes)
        (tmp_path / "in" / name).write_bytes(pack(b"\n".join(lines)))
        files.append(tmp_path / "in" / name)
    for name in ("maxPartitionBytes", "openCostInBytes"):
        set_in_session(f"spark.sql.files.{name}", block)
    found, counters = echo(tmp_path, files, "--places")
    assert found == [b"%s\t%d\t%s" % (os.fsencode(f), n, x) for f in files for n, x in enumerate(lines, 1)]
    assert (counters["batches of mappers"] > 3) == (block < 1 << 20)


@pytest.mark.parametrize("options", [["--words"], [], ["-D", "mapreduce.job.reduces=7"]])
def test_steps_and_counters_are_those_of_the_inline_runner(tmp_path, options):
    paths, _ = make_texts(tmp_path)
    assert run(WordCount, *paths, *LOCAL, *options) == run(WordCount, *paths, *options)


def test_a_key_of_many_long_lines_is_not_held_in_memory(tmp_path):
    (tmp_path / "in").write_bytes(b"one line")
    megabytes = 300
    _, counters = echo(
        tmp_path, [tmp_path / "in"], "--reduce", "--hot", megabytes, "-D", "mapreduce.job.reduces=1"
    )
    assert (counters["groups"], counters["reduced"]) == (1, megabytes)
    assert counters["peak"] < 150  # of which Python, numpy and pyspark are half


def test_a_killed_worker_changes_nothing(tmp_path):
    (tmp_path / "in").mkdir()
    odd_files(tmp_path / "in")
    undisturbed = echo(tmp_path, [tmp_path / "in"], "--reduce")
    shutil.rmtree(tmp_path / "out")
    lines, counters = echo(tmp_path, [tmp_path / "in"], "--reduce", "--die", tmp_path / "died")
    assert {path.name for path in tmp_path.glob("died-*")} == {"died-mapper", "died-reducer"}
    del undisturbed[1]["peak"], counters["peak"]
    assert (sorted(lines), counters) == (sorted(undisturbed[0]), undisturbed[1])


def test_files_of_one_name_are_told_apart(tmp_path):
    (tmp_path / "in").write_bytes(b"line")
    for number in (b"1", b"2"):
        folder = tmp_path / number.decode()
        folder.mkdir()
        (folder / "prefix").write_bytes(number)
        lines, _ = echo(folder, [tmp_path / "in"], "--prefix", folder / "prefix")
        assert lines == [number + b"line"]


# the whole pipeline


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """(folder, outcome of the default runner) of documents with bad records among them, in two files."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "in").mkdir()
    write_documents(folder / "in" / "b.jsonl", family_corpus(200))
    odd = {"id": "long\u2028", "text": "word\u2028\r\t\0 " * (1 << 17), "more": "x\r"}
    odd = json.dumps(odd, ensure_ascii=False).encode()
    data = (SAMPLES / "bad.jsonl").read_bytes() + odd + b"\r\n" + odd.replace(b'"long', b'"Long')
    (folder / "in" / "a.jsonl").write_bytes(data)
    expected = deduplicate(folder / "expected", folder / "in", "--skip-bad-records")
    return folder / "in", expected


def same(out, expected):
    assert_same(outcome(out), outcome(expected))
    for name in ("kept", "skipped"):
        assert part_lines(out / name) == part_lines(expected / name)


@pytest.mark.parametrize("reducers", [1, 2, 7])
def test_pipeline(corpus, tmp_path, reducers):
    options = [*LOCAL, "--skip-bad-records", "-D", f"mapreduce.job.reduces={reducers}"]
    same(deduplicate(tmp_path / "out", corpus[0], *options), corpus[1])


def test_pipeline_of_packed_files(corpus, tmp_path):
    (tmp_path / "in").mkdir()
    for path in corpus[0].iterdir():
        (tmp_path / "in" / (path.name + ".gz")).write_bytes(gzip.compress(path.read_bytes()))
    out = deduplicate(tmp_path / "out", tmp_path / "in", *LOCAL, "--skip-bad-records")
    assert_same(outcome(out), outcome(corpus[1]))
    assert part_lines(out / "kept") == part_lines(corpus[1] / "kept")


# failures, in one line


def failure(tmp_path, *arguments, job_class=Echo):
    job = job_class(["--no-conf", "--output-dir", str(tmp_path / "out"), *LOCAL, *map(str, arguments)])
    with pytest.raises(JobError) as error, job.make_runner() as runner:
        runner.run()
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    return str(error.value)


def test_a_users_mistake_is_told_in_one_line(tmp_path):
    (tmp_path / "in").write_bytes(b"a b c")
    line = failure(tmp_path, "--fail-at", "b", tmp_path / "in", job_class=WordCount)
    assert line == "no word may be b"


def test_a_fault_is_told_with_its_details(tmp_path, capsys):
    (tmp_path / "in").write_bytes(b"a b c")
    line = failure(tmp_path, "--fail-at", "b", "--crash", tmp_path / "in", job_class=WordCount)
    assert line == "unexpected KeyError: 'b'"
    assert "find_words" in capsys.readouterr().err


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "in put.gz"
    path.write_bytes(gzip.compress(os.urandom(100_000))[:50_000])
    named = "an input file" if pyspark.__version__ < "4" else str(path)
    assert failure(tmp_path, path).startswith(f"{named} is truncated or damaged: ")


def test_missing_input_is_told(tmp_path):
    assert failure(tmp_path, tmp_path / "none") == f"no such file: {tmp_path / 'none'}"
    assert failure(tmp_path, f"file://{tmp_path}/none") == f"no such file: {tmp_path}/none"


def test_input_that_spark_would_pass_over_is_refused(tmp_path):
    (tmp_path / "_in").write_bytes(b"line")
    assert (
        failure(tmp_path, tmp_path / "_in")
        == f"names of input files must not start with _ on Spark, got {tmp_path}/_in"
    )


def test_java_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = run_script(SAMPLES / "news.jsonl", "-r", "spark", "--output-dir", tmp_path / "out")
    assert "Java 17" in refusal(result)


def test_word_count_as_a_script_ends_with_one_line_and_its_java(tmp_path):
    """And nothing of Spark's is left in the folder."""
    (tmp_path / "in").write_bytes(b"a b c")
    (tmp_path / "here").mkdir()
    result = run_script(
        *("../in", "--fail-at", "b", *LOCAL, "--quiet"),
        script=HERE / "word_count.py",
        cwd=tmp_path / "here",
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "jobs")},
    )
    assert refusal(result) == "no word may be b"
    assert not list((tmp_path / "here").iterdir())


# a cluster; last, as it ends the application that the other tests share


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    """The URL of a master with two workers on this machine, which end with the tests."""
    folder = tmp_path_factory.mktemp("cluster")
    start = os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-class")
    port, web = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    opens = ["--host", "127.0.0.1", "--webui-port"]
    commands = [["org.apache.spark.deploy.master.Master", *opens, str(web), "--port", str(port)]]
    for number in range(2):
        space = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker{number}")]
        commands.append(["org.apache.spark.deploy.worker.Worker", *opens, "0", *space, url])
    quick = {
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    processes = []
    try:
        for number, arguments in enumerate(commands):
            with open(folder / f"log{number}", "wb") as log:
                processes.append(
                    subprocess.Popen(
                        [start, *arguments], stdout=log, stderr=log, env={**os.environ, **quick}, cwd=folder
                    )
                )
        for _ in range(600):
            time.sleep(0.2)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/") as page:
                    if json.load(page)["aliveworkers"] == 2:
                        break
            except (OSError, ValueError):
                continue
        else:
            pytest.fail("the cluster did not start")
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(60)


def test_pipeline_on_a_cluster(corpus, tmp_path, master):
    cluster = ["-r", "spark", "--spark-master", master, "--python-bin", sys.executable]
    for setting in (
        *("spark.executor.memory=512m", "spark.driver.host=127.0.0.1", "mapreduce.job.reduces=3"),
        "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    ):
        cluster += ["-D", setting]
    same(deduplicate(tmp_path / "out", corpus[0], *cluster, "--skip-bad-records"), corpus[1])
