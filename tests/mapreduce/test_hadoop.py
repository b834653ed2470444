"""The Hadoop runner, and runs of stages by it, with a stand-in for the `hadoop` command."""

import errno
import json
import os
import re
import sys
import time
from io import BytesIO
from pathlib import Path

from mapreduce.errors import JobError
from mapreduce.hadoop import HadoopRunner
from mapreduce.job import Job
from mapreduce.pipeline import Run
from mapreduce.storage import HadoopStorage

import pytest

from publish import Publish

sys.path.insert(0, str(Path(__file__).parent))

from fake_hadoop import LOG, counters  # noqa: E402
from word_count import WordCount  # noqa: E402

CLI = "org.apache.hadoop.yarn.client.cli."
APPLICATION = "application_1790000000000_0001"
PROGRESS = [
    LOG + f"INFO mapreduce.Job:  map {m}% reduce {r}%" for m, r in ((0, 0), (50, 0), (100, 33), (100, 100))
]
ATTEMPT = [
    LOG + "INFO mapreduce.Job: Task Id : attempt_1790000000000_0001_m_000000_0, Status : FAILED",
    "Error: java.lang.RuntimeException: PipeMapRed.waitOutputThreads(): subprocess failed with code 1",
    "\tat org.apache.hadoop.streaming.PipeMapRed.waitOutputThreads(PipeMapRed.java:326)",
]
WHERE = f" (all logs: yarn logs -applicationId {APPLICATION})"


@pytest.fixture
def make_runner(hadoop, monkeypatch):
    """A function that makes the runner of a job over /in/a into /out."""
    hadoop.put("/in/a", b"one two\n")
    monkeypatch.setenv("HADOOP_LOG_DIR", f"{hadoop.folder}/logs")
    monkeypatch.setattr(HadoopRunner, "_versions", {})
    made = []

    def make(*options):
        arguments = ["-r", "hadoop", "--no-conf", "--words", *options]
        job = WordCount([*arguments, "hdfs:///in/a", "--output-dir", "hdfs:///out"])
        runner = job.make_runner().__enter__()
        made.append(runner)
        return runner

    yield make
    for runner in made:
        runner.cleanup()


def failure_of(runner):
    with pytest.raises(JobError) as failure:
        runner.run()
    line = str(failure.value)
    assert "\n" not in line
    return line


def argument(call, name):
    return call[call.index(name) + 1]


# a job


def test_job_gets_what_streaming_asks(hadoop, make_runner):
    runner = make_runner()
    runner.tag = "lsh-1"
    runner.run()
    ((_, jar, *call),) = hadoop.calls("jar")
    assert jar == f"{hadoop.folder}/share/hadoop-streaming-3.4.2.jar"
    settings = {call[n + 1] for n, option in enumerate(call) if option == "-D"}
    assert settings >= {
        "textinputformat.record.delimiter=\n",
        "stream.map.input.ignoreKey=true",
        "mapreduce.job.tags=lsh-1",
    }
    assert (argument(call, "-input"), argument(call, "-output")) == ("hdfs:///in/a", "hdfs:///out")
    assert re.search("#lsh_code.zip(,|$)", argument(call, "-files"))
    assert argument(call, "-cmdenv").startswith("PYTHONPATH=lsh_code.zip:")


def test_job_costs_few_starts_of_a_jvm(hadoop, make_runner):
    make_runner().run()
    assert [call[0] for call in hadoop.calls()] == ["version", "jar"]


def test_step_without_reducer_has_none_whatever_the_settings(hadoop):
    options = ["-r", "hadoop", "--no-conf", "--kind=pair", "-D", "mapreduce.job.reduces=7"]
    with Publish([*options, "hdfs:///in", "--output-dir", "hdfs:///out"]).make_runner() as runner:
        runner.run()
    ((*call,),) = hadoop.calls("jar")
    settings = {call[n + 1] for n, option in enumerate(call) if option == "-D"}
    assert [setting for setting in settings if "reduces" in setting] == ["mapreduce.job.reduces=0"]
    assert {"stream.map.output=typedbytes", "mapreduce.output.textoutputformat.separator=:"} <= settings


def test_files_of_this_machine_are_brought_and_gone_afterwards(hadoop, tmp_path):
    (tmp_path / "words").write_text("one\n")
    job = WordCount(
        ["-r", "hadoop", "--no-conf", "--words", str(tmp_path / "words"), "--output-dir", "hdfs:///out"]
    )
    with job.make_runner() as runner:
        runner.run()
        brought = argument(hadoop.calls("jar")[0], "-input")
        assert brought.endswith("/words") and hadoop.read(brought) == b"one\n"
    assert hadoop.files() == ["/out/_SUCCESS", "/out/part-00000"]


def test_progress_is_told_as_it_comes(hadoop, make_runner):
    hadoop.job(*PROGRESS, *counters())
    runner, told = make_runner(), []
    runner.progress = lambda *state: told.append(state)
    runner.run()
    assert told == [
        ("mapper", 0, 0, 100),
        ("mapper", 0, 50, 100),
        ("reducer", 0, 33, 100),
        ("reducer", 0, 100, 100),
    ]


def test_counters_and_measures(hadoop, make_runner):
    hadoop.job(*counters(written=16, lines=2, words=3))
    runner = make_runner()
    runner.run()
    assert [step["lsh"] for step in runner.counters()] == [{"lines": 2, "words": 3}]
    assert runner.measures() == {"shuffled": 70, "map_seconds": 2.5, "reduce_seconds": 1.2}


# failures


def test_error_of_a_task_is_read_from_the_logs_of_this_machine(hadoop, make_runner):
    hadoop.job(*ATTEMPT, status=1)
    hadoop.task_log("log4j:WARN No appenders\n", container=1)
    hadoop.task_log("+ python3 word_count.py\nerror: no word may be two\n", container=2)
    hadoop.task_log("error: no word may be two\n", container=3)
    hadoop.task_log("error: of another job\n", application=2)
    assert failure_of(make_runner()) == "no word may be two" + WHERE
    assert not hadoop.calls(CLI + "LogsCLI")


def test_error_of_a_task_is_read_from_the_aggregated_logs(hadoop, make_runner):
    hadoop.job(*ATTEMPT, status=1)
    hadoop.aggregated_logs("log4j:WARN No appenders\n", "error: no word may be two\n")
    assert failure_of(make_runner()) == "no word may be two" + WHERE
    ((_, *asked),) = hadoop.calls(CLI + "LogsCLI")
    assert asked == ["-applicationId", APPLICATION, "-log_files", "stderr"]


def test_first_of_several_errors_is_the_same_each_time(hadoop, make_runner):
    hadoop.job(*ATTEMPT, status=1)
    for container, word in enumerate(("two", "one", "three"), 1):
        hadoop.task_log(f"error: no word may be {word}\n", container)
    assert failure_of(make_runner()) == "no word may be one" + WHERE


def test_fault_of_a_task_is_told_by_its_last_line(hadoop, make_runner):
    hadoop.job(*ATTEMPT, status=1)
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    import nowhere\n'
    hadoop.task_log(
        f"SLF4J: a\n{trace}ModuleNotFoundError: No module named 'nowhere'\n\n"
        "log4j:WARN No appenders could be found\n2026-11-21 14:21:07,1 WARN [main] ipc.Client: bye\n"
    )
    line = failure_of(make_runner())
    assert line == "a task failed: ModuleNotFoundError: No module named 'nowhere'" + WHERE


def test_node_without_the_libraries_is_told(hadoop, make_runner):
    """What jobs/mapreduce ends with on a bare Python, as the one line."""
    hadoop.job(*ATTEMPT, status=1)
    hadoop.task_log(
        "error: Python must have mmh3, mrjob and numpy, got no numpy in /usr/bin/python3: pack them\n"
    )
    assert failure_of(make_runner()).startswith("Python must have mmh3, mrjob and numpy, got no numpy in ")


@pytest.mark.parametrize(
    "said, told",
    [
        (
            "Container [pid=7,containerID=container_1] is running 9MB beyond the 'PHYSICAL' memory limit.",
            "Container [pid=7,containerID=container_1] is running 9MB beyond the 'PHYSICAL' memory limit.",
        ),
        (ATTEMPT[1], ATTEMPT[1][len("Error: ") :]),
        ("no reason at all", "the job failed"),
        (
            LOG + "INFO mapreduce.Job: Job job_1790000000000_0001 failed with state KILLED due to: "
            "Application application_1790000000000_0001 was killed by user hadoop",
            "the job failed: Application application_1790000000000_0001 was killed by user hadoop",
        ),
    ],
)
def test_cause_is_what_the_client_says_where_no_task_left_a_word(hadoop, make_runner, said, told):
    hadoop.job(ATTEMPT[0], said, status=1)
    line = failure_of(make_runner())
    assert line.endswith(told + WHERE), line


def test_cause_that_the_client_did_not_hear_is_read_from_the_master(hadoop, make_runner):
    task = "attempt_1790000000000_0001_r_000000_1000"
    failed = "Job job_1790000000000_0001 failed with state FAILED due to: Task failed " + task
    hadoop.job(LOG + "INFO mapreduce.Job: " + failed, status=1)
    hadoop.aggregated_logs(
        LOG + f"INFO [main] mapred.TaskAttemptListenerImpl: Diagnostics report from {task}: "
        "java.io.IOException: All datanodes are bad\n\tat org.apache.hadoop.hdfs.DataStreamer\n",
        name="syslog",
    )
    assert failure_of(make_runner()) == "java.io.IOException: All datanodes are bad" + WHERE


def test_input_that_is_none_is_told_before_there_is_a_job(hadoop, make_runner):
    said = "Input path does not exist: hdfs://localhost:19000/in/a"
    hadoop.refused_job(LOG + f"ERROR streaming.StreamJob: Error Launching job : {said}")
    assert failure_of(make_runner()) == said
    assert not hadoop.calls(CLI + "LogsCLI")


def test_hadoop_must_be_there(make_runner, hadoop, monkeypatch):
    os.unlink(hadoop.command)
    monkeypatch.setenv("PATH", "/nowhere")
    line = failure_of(make_runner())
    assert line == "the hadoop command must be on PATH or in HADOOP_HOME/bin with -r hadoop, got none"


# an end from outside


def is_dead(pid):
    """Whether a child of this process has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except OSError as error:
        return error.errno == errno.ECHILD


def test_interrupt_ends_the_job_in_yarn(hadoop, make_runner):
    hadoop.job(PROGRESS[0], hangs=True)
    runner = make_runner()

    def interrupt(*_):
        raise KeyboardInterrupt

    runner.progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        runner.run()
    ((_, *asked),) = hadoop.calls(CLI + "ApplicationCLI")
    assert asked == ["application", "-kill", APPLICATION]
    client = int(Path(hadoop.folder, "client").read_text())
    end = time.monotonic() + 20
    while not is_dead(client):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_jobs_with_a_tag_are_ended(hadoop, make_runner):
    runner = make_runner()
    hadoop.applications()
    runner.stop_jobs("lsh-1")
    assert not hadoop.calls(CLI + "ApplicationCLI", "application", "-kill")
    hadoop.applications(3, 12)
    runner.stop_jobs("lsh-1")
    asked, _, killed = hadoop.calls(CLI + "ApplicationCLI")
    assert asked[1:] == ["application", "-list", "-appTags", "lsh-1"]
    assert killed[1:] == ["application", "-kill", *(f"application_1790000000000_{n:04d}" for n in (3, 12))]


# runs


@pytest.fixture
def make_run(hadoop, monkeypatch, tmp_path):
    """A function that makes the `Run` of a quiet job into a folder."""
    monkeypatch.setattr(HadoopRunner, "_versions", {})
    monkeypatch.setenv("USER", "tester")
    made = []

    def make(folder="hdfs:///out"):
        job = Job(["--no-conf", "-r", "hadoop", "--quiet", "--local-tmp-dir", str(tmp_path)])
        run = Run(str(folder), job, {"count": "counts"})
        made.append(run)
        return run

    yield make
    for run in made:
        run.leave()


def stage(run, paths, name="count"):
    return run.stage(name, WordCount, ["--words"], paths)


COUNTED = {"output": {"part-00000": b'"one"\t1\n', "part-00001": b'"two"\t2\n'}}


def test_run_within_hdfs(hadoop, make_run):
    hadoop.put("/in/a", b"one two\n")
    hadoop.put("/in/b.gz", b"1234")
    run = make_run()
    told = run.open(["hdfs:///in"], None)
    assert [file.path for file in run.corpus.files] == ["hdfs:///in/a", "hdfs:///in/b.gz"]
    assert [entry[:2] for entry in told] == [["hdfs:///in/a", 8], ["hdfs:///in/b.gz", 4]]
    assert run.check_parameters({"--seed": 1}) is False
    inputs = run.bring()
    assert inputs == ["hdfs:///in"], "it is for Hadoop to list a folder"
    hadoop.job(*counters(written=16, lines=2), **COUNTED)
    folder = stage(run, inputs)
    assert folder == "hdfs:///out/.run/counts"
    (call,) = hadoop.calls("jar")
    assert [call[n + 1] for n, option in enumerate(call) if option == "-input"] == inputs
    assert list(run.lines("count")) == [b'"one"\t1\n', b'"two"\t2\n']
    assert (run.counter("lines"), run.stages["count"]["read"], run.stages["count"]["written"]) == (2, 12, 16)
    assert "/out/counts/part-00000" not in hadoop.files()
    run.publish()
    run.publish()
    run.write("skipped", b"{}\n")
    run.close({"parameters": {"--seed": 1}})
    out = {path for path in hadoop.files() if path.startswith("/out/")}
    assert out == {
        *(f"/out/counts/{name}" for name in ("part-00000", "part-00001", "_SUCCESS")),
        "/out/skipped/part-00000",
        "/out/summary.json",
    }


def test_discarded_run_leaves_nothing_on_the_cluster(hadoop, make_run, tmp_path):
    (tmp_path / "words").write_bytes(b"one two\n")
    run = make_run(tmp_path / "out")
    run.open([str(tmp_path / "words")], None)
    run.bring()
    assert hadoop.files() != []
    run.discard()
    assert hadoop.files() == []


def test_run_into_a_folder_of_this_machine(hadoop, make_run, tmp_path):
    (tmp_path / "words").write_bytes(b"one two\n")
    out = tmp_path / "out"
    run = make_run(out)
    run.open([str(tmp_path / "words")], None)
    run.check_parameters({})
    inputs = run.bring()
    (brought,) = (file.path for file in run.corpus.files)
    assert inputs == [brought.rpartition("/")[0]]
    assert re.fullmatch(r"hdfs:///user/tester/tmp/mrjob/lsh-[0-9a-f]{16}/input/00000", brought)
    assert hadoop.read(brought) == b"one two\n"
    hadoop.job(*counters(written=16), **COUNTED)
    folder = stage(run, inputs)
    assert folder.startswith("hdfs:///user/tester/tmp/mrjob/lsh-") and folder.endswith("/counts")
    assert sorted(os.listdir(out / ".run")) == ["count.json", "input.json", "lock", "parameters.json"]
    run.publish()
    run.close({"parameters": {}})
    assert sorted(os.listdir(out)) == ["counts", "summary.json"]
    assert sorted(os.listdir(out / "counts")) == ["part-00000", "part-00001"]
    assert hadoop.files() == [], "the temporary folder of the cluster must be gone"


def test_standard_input_is_brought_under_a_name_of_its_kind(hadoop, make_run, tmp_path):
    run = make_run()
    told = run.open(["-"], BytesIO(b"\x1f\x8b1234"))
    run.check_parameters({})
    run.bring()
    (brought,) = (file.path for file in run.corpus.files)
    assert brought.endswith(".gz") and hadoop.read(brought) == b"\x1f\x8b1234"
    assert told[0][0] == "standard input"


def test_input_has_the_name_that_was_found_in_messages(hadoop, make_run):
    hadoop.put("/in/a", b"1")
    run = make_run()
    run.open(["hdfs:///in"], None)
    run.bring()
    for path in ("hdfs:///in/a", "hdfs://node:9000/in/a", "/in/a"):
        assert run.corpus.renamed(f"line 3 of {path}: bad") == "line 3 of hdfs:///in/a: bad"


@pytest.mark.parametrize("kind", ["hdfs", "local"])
def test_resumed_run_knows_what_is_complete(hadoop, make_run, tmp_path, kind):
    out = "hdfs:///out" if kind == "hdfs" else tmp_path / "out"
    (tmp_path / "words").write_bytes(b"one two\n")
    run = make_run(out)
    told = run.open([str(tmp_path / "words")], None)
    run.check_parameters({})
    inputs = run.bring()
    hadoop.job(*counters(written=16, lines=2), **COUNTED)
    stage(run, inputs)
    hadoop.job(*PROGRESS[:2], status=1)
    with pytest.raises(JobError):
        stage(run, inputs, "more")
    hadoop.put(f"{run.output('more')}/_temporary/1/part-00000", b"of a killed task")
    run.leave()

    hadoop.applications(7)
    again = make_run(out)
    assert again.open([str(tmp_path / "words")], None) == told
    assert hadoop.calls(CLI + "ApplicationCLI")[-1][-1] == "application_1790000000000_0007"
    assert again.check_parameters({}) is False
    puts = len(hadoop.calls("fs", "-put"))
    assert again.bring() == inputs
    stage(again, inputs)
    assert len(hadoop.calls("jar")) == 2 and again.counter("lines") == 2
    assert len(hadoop.calls("fs", "-put")) == puts, "what was brought is not brought again"
    stage(again, inputs, "more")
    assert len(hadoop.calls("jar")) == 3


def test_other_parameters_and_other_folders_are_refused(hadoop, make_run):
    hadoop.put("/in/a", b"1")
    run = make_run()
    run.open(["hdfs:///in"], None)
    run.check_parameters({"--seed": 1})
    run.leave()
    again = make_run()
    again.open(["hdfs:///in"], None)
    with pytest.raises(JobError, match="^hdfs:///out holds a run with --seed 1, got 2: "):
        again.check_parameters({"--seed": 2})
    with pytest.raises(
        JobError, match="^--output-dir must be empty or hold a run, got hdfs:///in with a in it$"
    ):
        make_run("hdfs:///in").open([], None)
    with pytest.raises(JobError, match="^--output-dir must be apart from the input, got hdfs:///in/out and "):
        make_run("hdfs:///in/out").open(["hdfs:///in"], None)


def test_complete_run_is_known(hadoop, make_run):
    run = make_run()
    run.open([], None)
    run.check_parameters({"--seed": 1})
    run.close({"parameters": {"--seed": 1}, "kept": 3})
    again = make_run()
    again.open([], None)
    assert again.check_parameters({"--seed": 1}) is True
    assert again.earlier_summary()["kept"] == 3
    again.close()
    assert hadoop.files() == ["/out/summary.json"]


def test_folder_is_for_one_run_at_a_time(make_run):
    make_run().open([], None)
    with pytest.raises(JobError, match="^another run is at work in hdfs:///out: process "):
        make_run().open([], None)


def test_failing_stage_says_why_and_is_not_complete(hadoop, make_run):
    hadoop.put("/in/a", b"1")
    run = make_run()
    run.open(["hdfs:///in"], None)
    run.check_parameters({})
    hadoop.job(*ATTEMPT, status=1)
    hadoop.aggregated_logs("error: no word may be two\n")
    with pytest.raises(JobError, match="^no word may be two "):
        stage(run, run.bring())
    assert "/out/.run/count.json" not in hadoop.files()


def test_lines_before_an_offset_are_counted_in_hdfs(hadoop, make_run):
    hadoop.put("/in/a b", b"one\ntwo\nthree\nfour\n")
    run = make_run()
    run.open(["hdfs:///in"], None)
    # a task that reads from an offset on starts with the line after the one that the offset is in
    for offset, before in ((0, 0), (1, 1), (7, 2), (13, 3)):
        assert run.corpus.lines_before("hdfs://node:9000/in/a b", offset) == before
    assert run.corpus.head("hdfs:///in/a b", 5) == b"one\nt"
    assert list(run.corpus.lines("hdfs:///in/a b"))[-1] == b"four\n"


def test_object_store_gets_the_output_where_it_stays(hadoop, make_run):
    run = make_run("s3://bucket/out")
    assert run.output("count") == "s3://bucket/out/counts"
    assert run.output("more") == "s3://bucket/out/.run/more"
    assert isinstance(run._at("s3://bucket/out"), HadoopStorage)


def test_state_is_json_that_people_can_read(hadoop, make_run):
    hadoop.put("/in/a", b"one two\n")
    run = make_run()
    run.open(["hdfs:///in/a"], None)
    run.check_parameters({})
    hadoop.job(*counters(written=16, lines=2), **COUNTED)
    stage(run, run.bring())
    report = json.loads(hadoop.read("/out/.run/count.json"))
    assert (report["read"], report["written"], report["shuffled"]) == (8, 16, 70)
    assert report["counters"] == {"lines": 2}


def test_fault_of_a_task_is_read_from_the_aggregated_logs(hadoop, make_runner):
    hadoop.job(*ATTEMPT, status=1)
    hadoop.aggregated_logs("Traceback:\n  import nowhere\nModuleNotFoundError: No module named 'nowhere'\n")
    assert (
        failure_of(make_runner()) == "a task failed: ModuleNotFoundError: No module named 'nowhere'" + WHERE
    )


def test_aggregated_logs_without_a_word_of_ours(hadoop, make_runner):
    hadoop.job(*ATTEMPT, status=1)
    hadoop.aggregated_logs("log4j:WARN No appenders\n")
    assert "PipeMapRed.waitOutputThreads(): subprocess failed with code 1" in failure_of(make_runner())


@pytest.mark.parametrize("kind", ["hdfs", "local"])
def test_debris_without_files_does_no_harm(hadoop, make_run, tmp_path, kind):
    """A job that is killed while it maps leaves folders only."""
    out = "hdfs:///out" if kind == "hdfs" else tmp_path / "out"
    hadoop.put("/in/a", b"one two\n")
    run = make_run(out)
    run.open(["hdfs:///in"], None)
    run.check_parameters({})
    os.makedirs(hadoop.path(f"{run.output('count')}/_temporary/1"))
    run.leave()
    again = make_run(out)
    again.open(["hdfs:///in"], None)
    again.check_parameters({})
    hadoop.job(*counters(written=16), **COUNTED)
    assert list(stage(again, again.bring()))


@pytest.mark.parametrize(
    "said, reason",
    [
        ("Error launching job , Output path already exists : Output directory hdfs:///out already exists",)
        * 1
        + ("Output directory hdfs:///out already exists",),
        ("Error Launching job : Input Pattern hdfs:///in/_a matches 0 files", "matches 0 files"),
        (
            'Error Launching job : Permission denied: user=x, access=WRITE, inode="/tmp"',
            "Permission denied: user=x",
        ),
        ("Error Launching job : Cannot create directory /tmp/x. Name node is in safe mode.", "safe mode"),
    ],
)
def test_reason_of_a_job_that_was_not_taken(hadoop, make_runner, said, reason):
    hadoop.refused_job(LOG + f"ERROR streaming.StreamJob: {said}")
    assert reason in failure_of(make_runner())


@pytest.mark.parametrize("name", ["2026-11-21T14:21.jsonl", "a:b.tsv.gz"])
def test_files_of_this_machine_are_brought_under_names_that_hadoop_takes(hadoop, make_run, tmp_path, name):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text("x")
    run = make_run()
    run.open([str(tmp_path / "in")], None)
    run.check_parameters({})
    run.bring()
    (brought,) = (file.path for file in run.corpus.files)
    assert re.fullmatch(r"[\w.-]+", brought.rpartition("/")[2])
    assert os.path.splitext(brought)[1] == os.path.splitext(name)[1]


def test_streaming_jar_must_be_there(hadoop, make_runner):
    os.unlink(f"{hadoop.folder}/share/hadoop-streaming-3.4.2.jar")
    assert "streaming" in failure_of(make_runner())


def test_hadoop_that_cannot_start(hadoop, make_runner):
    said = "ERROR: JAVA_HOME is not set and could not be found."
    Path(hadoop.command).write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    assert said in failure_of(make_runner())


@pytest.mark.parametrize("name", ["words", "-"])
def test_input_that_was_brought_has_the_name_the_user_gave_in_messages(hadoop, make_run, tmp_path, name):
    path = name if name == "-" else str(tmp_path / name)
    (tmp_path / "words").write_text("one\n")
    run = make_run()
    run.open([path], BytesIO(b"one\n"))
    run.check_parameters({})
    run.bring()
    (brought,) = (file.path for file in run.corpus.files)
    told = "standard input" if name == "-" else path
    assert run.corpus.renamed(f"line 1 of hdfs://node:9000{brought[7:]}: bad") == f"line 1 of {told}: bad"


def test_aggregated_logs_may_come_late(hadoop, make_runner, monkeypatch):
    monkeypatch.setattr("mapreduce.hadoop._LATE", 30)
    hadoop.job(*ATTEMPT, status=1)
    runner = make_runner()
    yarn = runner._yarn
    calls = []

    def late(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            hadoop.aggregated_logs("error: no word may be two\n")
        return yarn(*arguments)

    runner._yarn = late
    assert failure_of(runner) == "no word may be two" + WHERE
