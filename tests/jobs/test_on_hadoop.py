"""jobs/dedup.py on a real Hadoop: the lines of one machine, whatever the cluster loses meanwhile."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from running import (
    DATA,
    SAMPLES,
    TOP,
    assert_same,
    command,
    deduplicate,
    invented_text,
    outcome,
    records,
    refusal,
    run_script,
    write_lines,
)

from lshlib.blocks import BlockProtocol
from lshlib.documents import record_keys

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
NEWS = SAMPLES / "news.jsonl"
REUTERS = DATA / "reuters" / "reuters21578.jsonl.gz"


def assert_complete(hadoop, result, folder, expected, tmp_path):
    """The lines and counts are those of a run on this machine, and nothing else is left."""
    assert result.returncode == 0, result.stderr.decode()
    top = {path[len(folder) + 1 :].split("/")[0] for path in hadoop.paths(folder)}
    assert top - {"skipped"} == {"pairs", "clusters", "kept", "summary.json"}
    assert_same(outcome(hadoop.fetch(folder, tmp_path / "fetched")), outcome(expected))


def reducers(count):
    return "--jobconf", f"mapreduce.job.reduces={count}"


# the same lines


def odd_lines():
    """Documents full of what ends or cuts a line somewhere, with their near copies; one line is bad."""
    draw = random.Random(4)
    odd = ["\r", "\t", "\0", "\u2028", "\u0085", "\x0b", "\x0c", "\x1c", "😀", '"', "\\"]
    lines = []
    for number in range(60):
        words = invented_text(draw, 80).split()
        for copy in range(2):
            mixed = [word + draw.choice(odd) for word in words[copy:]]
            lines.append(
                json.dumps({"id": f"{odd[number % 11]}{number} {copy}", "text": " ".join(mixed)}).encode()
            )
    big = invented_text(draw, 180_000)  # 1 MB
    lines += [json.dumps({"id": f"big{copy}", "text": big + " end" * copy}).encode() for copy in range(2)]
    # a CR between the parts of a JSON record is white space, and stays in kept/
    lines += [
        b'{"id": "cr",\r"text":\r"%s"}' % big[:900].encode(),
        b'{"id": "cr2", "text": "%s"}\r' % big[:900].encode(),
    ]
    draw.shuffle(lines)
    lines.insert(70, b'{"id": "no text"}')
    return lines


def test_many_kinds_of_lines_from_and_to_this_machine(hadoop, tmp_path):
    path = tmp_path / "odd.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(odd_lines())))
    other = REUTERS if REUTERS.exists() else NEWS
    hadoop.put(other, f"/many/{other.name}")
    expected = deduplicate(tmp_path / "here", path, other, "--skip-bad-records")
    options = "--skip-bad-records", "--output-dir", tmp_path / "out", *reducers(7)
    result = hadoop.dedup(path, "hdfs:///many", *options)
    assert result.returncode == 0, result.stderr.decode()
    assert sorted(os.listdir(tmp_path / "out")) == sorted(os.listdir(expected))
    assert_same(outcome(tmp_path / "out"), outcome(expected))
    assert records(tmp_path / "out" / "skipped") == records(expected / "skipped") != []
    assert hadoop.paths("/user/*/tmp/mrjob") == []


def test_tab_separated_lines_are_kept_byte_for_byte(hadoop, tmp_path):
    lines = [b"cr\tone\rtwo \t three", b"colon\t:", b"empty\t", b"nul\t\0", "u\t\u2028".encode()]
    write_lines(tmp_path / "a.tsv", lines)
    np.save(tmp_path / "removed.npy", record_keys(lines[1:2]))
    arguments = tmp_path / "a.tsv", "--removed", tmp_path / "removed.npy", "-r", "hadoop", "--cat-output"
    result = run_script(*arguments, script=TOP / "jobs" / "keep.py", env=hadoop.env)
    assert result.returncode == 0, result.stderr.decode()
    assert sorted(result.stdout.split(b"\n")) == sorted([b"", lines[0], *lines[2:]])


def test_job_of_two_steps(hadoop, tmp_path):
    """The pairs and the star edges of a chain, dealt by label in two steps."""
    keys = np.arange(1, 400, dtype=np.uint64) << np.uint64(54)
    size = np.ones(len(keys) - 1, np.uint32)
    columns = {f"{end}_{name}": size for end in ("first", "second") for name in ("size", "mark")}
    pairs = {"first": keys[:-1], "second": keys[1:], "bands": size, **columns}
    edges = {"first": keys[1:], "second": np.repeat(keys[:1], len(size))}
    blocks = BlockProtocol().write("pairs", pairs), BlockProtocol().write("edges", edges)
    write_lines(tmp_path / "blocks", blocks)
    arguments = "--labelled", "--slices", 5, "--target-size", 50, tmp_path / "blocks"
    script = TOP / "jobs" / "components.py"
    here = run_script(*arguments, script=script)
    there = run_script(
        *arguments, *("-r", "hadoop", "--cat-output", *reducers(3)), script=script, env=hadoop.env
    )
    assert there.returncode == 0, there.stderr.decode()
    assert sorted(there.stdout.splitlines()) == sorted(here.stdout.splitlines()) != []


# whatever the cluster loses


@pytest.fixture(scope="module")
def corpus(hadoop, tmp_path_factory):
    """(file of documents that keep a cluster busy, what comes out of them); they are in /mixed, too."""
    folder = tmp_path_factory.mktemp("mixed")
    path = folder / "mixed.jsonl"
    subprocess.run([sys.executable, TOP / "scripts" / "make_corpus.py", "mixed", "9000", path], check=True)
    hadoop.put(path, "/mixed/mixed.jsonl")
    return path, deduplicate(folder / "here", path)


MANY_TASKS = "--jobconf", "mapreduce.job.maps=3", *reducers(2)


def test_all_kinds_of_workers_are_killed(hadoop, corpus, tmp_path):
    process = hadoop.start_dedup("hdfs:///mixed", "--output-dir", "hdfs:///workers", *MANY_TASKS)
    for script, data_node in (("candidates.py", "dn1"), ("resolve.py", "dn2")):
        pid, _ = hadoop.wait_for_task(process, script)
        os.kill(pid, signal.SIGKILL)
        hadoop.kill(data_node)
        _, node = hadoop.wait_for_task(process, script, "reducer")
        hadoop.kill_node(node)
        hadoop.wait_until(lambda state: (state["datanodes"], state["nodemanagers"]) == (1, 1))
        hadoop.start()
    assert_complete(hadoop, ended(process), "/workers", corpus[1], tmp_path)


def test_application_master_that_runs_the_tasks_is_killed(hadoop):
    """As it does where there is little input and one reducer; another starts from the beginning."""
    script = TOP / "jobs" / "candidates.py"
    arguments = "-r", "hadoop", "--cat-output", *reducers(1)
    with subprocess.Popen(
        command(NEWS, *arguments, script=script), env=hadoop.env, stdout=subprocess.PIPE
    ) as process:
        pid, _ = hadoop.wait_for_task(process, "candidates.py", "reducer")
        os.kill(parent(pid), signal.SIGKILL)
        assert sorted(process.stdout) == sorted(run_script(NEWS, script=script).stdout.splitlines(True))
    assert process.returncode == 0


def parent(pid):
    """The process that started a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_driver_is_killed(hadoop, corpus, tmp_path):
    arguments = "hdfs:///mixed", "--output-dir", "hdfs:///driver", *MANY_TASKS
    for script in ("candidates.py", "resolve.py"):
        process = hadoop.start_dedup(*arguments)
        hadoop.wait_for_task(process, script)
        process.kill()
        process.communicate()
        assert_nothing_complete(hadoop, "/driver")
    other = hadoop.start_dedup(*arguments)
    hadoop.wait_for_task(other, "resolve.py")
    assert "another run is at work" in refusal(hadoop.dedup(*arguments))
    result = ended(other)
    assert_complete(hadoop, result, "/driver", corpus[1], tmp_path)
    assert b"candidates: " not in result.stderr, "a complete stage was run again"
    assert hadoop.paths("/driver/.run") == []


def test_interrupt_ends_the_job_too(hadoop, corpus):
    process = hadoop.start_dedup("hdfs:///mixed", "--output-dir", "hdfs:///interrupt", *MANY_TASKS)
    hadoop.wait_for_task(process, "candidates.py")
    process.send_signal(signal.SIGINT)
    assert refusal(ended(process)) == "interrupted"
    listing = hadoop.run("yarn", "application", "-list")
    assert b"Total number of applications" in listing and b"application_" not in listing
    assert_nothing_complete(hadoop, "/interrupt")


def ended(process):
    out, errors = process.communicate(timeout=900)
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


# failures that last


def assert_nothing_complete(hadoop, folder):
    assert {path.split("/")[2] for path in hadoop.paths(folder)} <= {".run"}


def test_bad_record_in_one_file(hadoop, corpus, tmp_path):
    lines = corpus[0].read_bytes().split(b"\n")
    hadoop.put(corpus[0], "/bad/good.jsonl")
    hadoop.put(
        write_lines(tmp_path / "bad.jsonl", [*lines[:900], b'{"id": "x"}', *lines[900:1500]]),
        "/bad/bad.jsonl",
    )
    arguments = "hdfs:///bad", "--output-dir", "hdfs:///bad-out", *MANY_TASKS
    line = refusal(hadoop.dedup(*arguments))
    told = 'line 901 of hdfs:///bad/bad.jsonl: no "text" in {"id": "x"} (all logs: yarn logs -applicationId '
    assert line.startswith(told)
    assert_nothing_complete(hadoop, "/bad-out")


def test_full_disk(hadoop, tmp_path):
    hadoop.put(NEWS, "/small/news.jsonl")
    hadoop.run("hadoop", "fs", "-mkdir", "-p", "/quota")
    hadoop.run("hdfs", "dfsadmin", "-setSpaceQuota", "1k", "/quota")
    line = refusal(hadoop.dedup("hdfs:///small", "--output-dir", "hdfs:///quota/out"))
    assert "quota" in line.lower() and "/quota" in line
    assert hadoop.paths("/quota") == [] or "summary.json" not in str(hadoop.paths("/quota"))


def test_safe_mode(hadoop):
    hadoop.put(NEWS, "/small/news.jsonl")
    hadoop.run("hdfs", "dfsadmin", "-safemode", "enter")
    try:
        line = refusal(hadoop.dedup("hdfs:///small", "--output-dir", "hdfs:///safe"))
    finally:
        hadoop.run("hdfs", "dfsadmin", "-safemode", "leave")
    assert "safe mode" in line


def test_input_that_is_none(hadoop):
    assert refusal(hadoop.dedup("hdfs:///none", "--output-dir", "hdfs:///o")) == "no such file: hdfs:///none"


def test_nodes_without_the_libraries_and_with_packed_ones(hadoop, tmp_path):
    arguments = NEWS, "-r", "hadoop", "--cat-output", "--python-bin", bare_python(tmp_path), *reducers(1)
    script = TOP / "jobs" / "candidates.py"
    line = refusal(run_script(*arguments, "-q", script=script, env=hadoop.env))
    assert "must have mmh3, mrjob and numpy" in line and "scripts/pack_nodes" in line
    version = "{}.{}".format(*sys.version_info)
    packed = tmp_path / "nodes"
    subprocess.run([sys.executable, TOP / "scripts" / "pack_nodes", "--python", version, packed], check=True)
    settings = "--conf-path", hadoop.env["MRJOB_CONF"], "--conf-path", packed / "hadoop.conf"
    there = run_script(*arguments, *settings, script=script, env=hadoop.env)
    assert there.returncode == 0, there.stderr.decode()
    here = run_script(NEWS, script=script)
    assert sorted(there.stdout.splitlines()) == sorted(here.stdout.splitlines()) != []


def bare_python(folder):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "bare"], check=True)
    return folder / "bare" / "bin" / "python"


def test_no_hadoop_at_all(tmp_path):
    environment = {"PATH": "/bin:/usr/bin", "MRJOB_CONF": "/dev/null"}
    if shutil.which("hadoop", path=environment["PATH"]):
        pytest.skip("needs a machine without Hadoop")
    result = subprocess.run(
        command(NEWS, "-r", "hadoop", "--output-dir", tmp_path / "out"), env=environment, capture_output=True
    )
    assert refusal(result).startswith("the hadoop command must be on PATH")
