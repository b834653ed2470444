# ruff: noqa: F811 (fixtures are imported)
import io
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import redirect_stderr
from pathlib import Path

from mapreduce.emr import EmrRunner, parse_report
from mapreduce.errors import JobError

import pytest
from emr_fixtures import conf, emr, service  # noqa: F401
from fake_emr import BUCKET, SECRETS

from candidates import Candidates
from dedup import Dedup

TOP = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.cluster
NEWS = (TOP / "data-samples" / "news.jsonl").read_bytes()
OUT = f"s3://{BUCKET}/out"


def run(path, *arguments, job=Candidates):
    """The job as a script, within this process: what it said on standard error, and how it ended."""
    before, said = sys.argv, io.StringIO()
    sys.argv = [str(TOP / "jobs" / f"{job.__module__}.py"), "-r", "emr", "--conf-path", str(path), "-q"]
    sys.argv += map(str, arguments)
    try:
        with redirect_stderr(said):
            job.run()
        end = 0
    except SystemExit as exit:
        end = exit.code
    finally:
        sys.argv = before
    return end, said.getvalue()


def run_here(script, folder, *arguments):
    """The output of a job over the news without EMR; in a process of its own, as this one has threads."""
    source = folder / "news.jsonl"
    source.write_bytes(NEWS)
    command = [sys.executable, TOP / "jobs" / script, "-q", source, *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout


def error_of(path, *arguments):
    """The one line that a run which must fail says why with."""
    end, said = run(path, *arguments)
    assert isinstance(end, str) and "Traceback" not in said, said
    assert end.startswith("error: ") and "\n" not in end and "unexpected" not in end
    return end[len("error: ") :]


def pairs(emr, prefix):
    """The rows of pairs in an output, sorted."""
    from lshlib.blocks import BlockProtocol, is_block

    found = []
    for data in emr.objects(prefix).values():
        for line in filter(is_block, data.split(b"\n")):
            key, block = BlockProtocol().read(line)
            if key == "pairs":
                found += zip(block["first"].tolist(), block["second"].tolist(), block["bands"].tolist())
    return sorted(found)


def test_a_job_gives_what_it_gives_here_and_leaves_nothing_behind(emr, conf, tmp_path):
    emr.put("expected/part-00000", run_here("candidates.py", tmp_path))
    expected = pairs(emr, "expected/part-")
    assert expected
    assert run(conf(), emr.put("in/news.jsonl", NEWS), "--output-dir", OUT) == (0, "")
    assert pairs(emr, "out/part-") == expected
    assert not emr.objects("tmp/")
    (cluster,) = emr.started()
    assert emr.state(cluster) == "TERMINATED"
    received = b"".join(emr.received)
    assert received and not any(secret.encode() in received for secret in SECRETS)


def test_cluster_is_what_the_configuration_says(emr, conf):
    emr.runs = False
    settings = {
        "task_instance_type": "m6i.2xlarge",
        "num_task_instances": 8,
        "task_instance_bid_price": "0.384",
        "extra_cluster_params": {"SecurityConfiguration": "encrypted"},
        "max_mins_idle": 7,
    }
    run(conf(**settings), emr.put("in/news.jsonl", NEWS), "--output-dir", OUT)
    (request,) = emr.sent("RunJobFlow")
    assert request["ReleaseLabel"].startswith("emr-7.")
    assert (request["ServiceRole"], request["JobFlowRole"]) == ("EMR_DefaultRole_V2", "EMR_EC2_DefaultRole")
    assert request["LogUri"] == f"s3://{BUCKET}/logs/"
    assert request["SecurityConfiguration"] == "encrypted"
    assert {tag["Key"]: tag["Value"] for tag in request["Tags"]} == {
        "for-use-with-amazon-emr-managed-policies": "true",
        "project": "lsh-mapreduce",
    }
    instances = request["Instances"]
    assert instances["Ec2SubnetId"] == "subnet-1"
    assert instances["KeepJobFlowAliveWhenNoSteps"] is True
    assert request["AutoTerminationPolicy"] == {"IdleTimeout": 7 * 60}
    groups = {group["InstanceRole"]: group for group in instances["InstanceGroups"]}
    assert {role: (group["InstanceType"], group["InstanceCount"]) for role, group in groups.items()} == {
        "MASTER": ("m6i.xlarge", 1),
        "CORE": ("m6i.2xlarge", 4),
        "TASK": ("m6i.2xlarge", 8),
    }
    assert {role: group.get("BidPrice") for role, group in groups.items()} == {
        "MASTER": None,
        "CORE": None,
        "TASK": "0.384",
    }
    (action,) = request["BootstrapActions"]
    script = action["ScriptBootstrapAction"]["Path"]
    assert ("PUT", f"/{script[len('s3://') :]}") in emr.requests
    assert b"python3.11 -m pip install" in b"".join(emr.received)


def test_nodes_get_what_the_project_needs():
    """The packages in the configuration are those of setup.cfg, with the same versions."""
    import configparser

    setup = configparser.ConfigParser()
    setup.read(TOP / "setup.cfg")
    needed = [line for line in setup["options"]["install_requires"].splitlines() if line and ";" not in line]
    needed = [line.replace(" ", "") for line in needed if not line.startswith("#")]
    text = (TOP / "configs" / "emr.conf").read_text()
    assert len(needed) >= 4 and all(f"'{line}'" in text for line in needed)


def test_step_has_the_files_and_settings_of_the_job(emr, conf):
    emr.runs = False
    source = emr.put("in/news.jsonl", NEWS)
    run(conf(), source, "--output-dir", OUT, "--threshold", "0.7")
    step = emr.sent("AddJobFlowSteps")[0]["Steps"][0]
    assert step["ActionOnFailure"] == "CONTINUE"
    assert step["HadoopJarStep"]["Jar"] == "command-runner.jar"
    arguments = step["HadoopJarStep"]["Args"]
    assert arguments[:2] == ["hadoop-streaming", "-files"]
    names = [file.rpartition("#")[2] for file in arguments[2].split(",")]
    assert names == ["candidates.py", "lsh_code.zip"]
    settings = dict(arguments[i + 1].split("=", 1) for i, word in enumerate(arguments) if word == "-D")
    assert settings["textinputformat.record.delimiter"] == "\n"
    assert settings["mapreduce.job.reduces"] == "3"
    assert settings["mapreduce.job.name"] == step["Name"]
    assert arguments[arguments.index("-input") + 1] == source
    assert "--threshold 0.7" in arguments[arguments.index("-mapper") + 1]


def test_failure_is_told_by_its_cause_and_ends_the_cluster(emr, conf):
    bad = emr.put("in/bad.jsonl", NEWS + b'{"id": "x"}\n')
    assert 'no "text" in {"id": "x"}' in error_of(conf(), bad, "--output-dir", OUT)
    (cluster,) = emr.started()
    assert emr.state(cluster) == "TERMINATED"
    assert not emr.objects("out/") and not emr.objects("tmp/")


def test_failure_without_a_cause_is_told_with_the_place_of_the_logs(emr, conf):
    emr.on_step = lambda name: "FAILED"
    told = error_of(conf(), emr.put("in/news.jsonl", NEWS), "--output-dir", OUT)
    (cluster,) = emr.started()
    assert f"its logs come to s3://{BUCKET}/logs/{cluster}/" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_ends_the_cluster(emr, conf, number):
    def interrupt(name):
        os.kill(os.getpid(), number)
        return "RUNNING"

    emr.on_step = interrupt
    end, _ = run(conf(), emr.put("in/news.jsonl", NEWS), "--output-dir", OUT)
    assert end in ("\nerror: interrupted", 128 + number)
    (cluster,) = emr.started()
    assert emr.state(cluster) == "TERMINATED"
    assert not emr.objects("tmp/")


def test_interruption_ends_the_step_on_a_given_cluster(emr, conf):
    cluster = EmrRunner(conf_paths=[str(conf())]).start_cluster()

    def interrupt(name):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()  # once the step has its id
        return "RUNNING"

    emr.on_step = interrupt
    run(conf(), emr.put("in/news.jsonl", NEWS), "--output-dir", OUT, "--cluster-id", cluster)
    assert [step["Status"]["State"] for step in emr.steps(cluster)] == ["CANCELLED"]
    assert emr.state(cluster) not in ("TERMINATING", "TERMINATED")


def test_session_has_one_cluster_for_all_jobs(emr, conf):
    emr.runs = False
    source, said = emr.put("in/news.jsonl", NEWS), []
    job = Candidates(["-r", "emr", "--conf-path", str(conf()), source])
    with EmrRunner.session(job, "lsh-1", said.append):
        (cluster,) = emr.started()
        for number in (1, 2):
            run(conf(), source, "--output-dir", f"{OUT}{number}", "--cluster-id", job.options.cluster_id)
            assert emr.state(cluster) != "TERMINATED"
    assert emr.started() == [cluster] and cluster in said[0]
    assert emr.state(cluster) == "TERMINATED"
    assert job.options.cluster_id is None
    assert emr.sent("RunJobFlow")[0]["Name"].endswith(" lsh-1")


def test_session_ends_its_cluster_when_a_stage_fails(emr, conf):
    job = Candidates(["-r", "emr", "--conf-path", str(conf())])
    with pytest.raises(JobError, match="a stage"), EmrRunner.session(job):
        raise JobError("a stage")
    assert [emr.state(cluster) for cluster in emr.started()] == ["TERMINATED"]


def test_session_leaves_a_given_cluster_running(emr, conf):
    cluster = EmrRunner(conf_paths=[str(conf())]).start_cluster()
    job = Candidates(["-r", "emr", "--conf-path", str(conf()), "--cluster-id", cluster])
    with EmrRunner.session(job):
        pass
    assert emr.started() == [cluster] and emr.state(cluster) != "TERMINATED"
    emr.client("emr").terminate_job_flows(JobFlowIds=[cluster])
    with pytest.raises(JobError, match=f"--cluster-id must be a running cluster, got {cluster}"):
        EmrRunner.session(job).__enter__()


def test_what_a_killed_driver_left_is_found_by_its_tag(emr, conf):
    left, other = (EmrRunner(conf_paths=[str(conf())]) for _ in range(2))
    left.tag, other.tag = "lsh-1", "lsh-2"
    clusters = [left.start_cluster(), other.start_cluster()]
    EmrRunner(conf_paths=[str(conf())]).stop_jobs("lsh-1")
    assert [emr.state(cluster) == "TERMINATED" for cluster in clusters] == [True, False]


def test_counters_come_from_the_cluster_or_else_from_its_logs(emr, conf):
    source = emr.put("in/news.jsonl", NEWS)
    found = []
    for number, emr.tells in enumerate((True, False)):
        out = f"{OUT}{number}"
        arguments = [source, "--output-dir", out, "--jobconf", "mapreduce.job.reduces=1"]
        job = Candidates(["-r", "emr", "--conf-path", str(conf()), *arguments])
        with job.make_runner() as runner:
            runner.run()
            found.append(runner.counters()[0]["lsh"])
    assert found[0] == found[1] and found[0]["documents"] == NEWS.count(b"\n")


def test_counters_that_do_not_come_are_an_error(emr, conf):
    emr.runs = False
    source = emr.put("in/news.jsonl", NEWS)
    job = Candidates(["-r", "emr", "--conf-path", str(conf()), source, "--output-dir", OUT])
    with job.make_runner() as runner:
        runner.run()
        with pytest.raises(JobError, match="counters must come from each step, got none"):
            runner.counters()


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"region": None}, "the region must be set"),
        ({"cloud_tmp_dir": "s3://BUCKET/tmp"}, "cloud_tmp_dir in the configuration must be filled in"),
        ({"cloud_tmp_dir": None}, "cloud_tmp_dir in the configuration must be a folder s3://..., got none"),
        ({"cloud_log_dir": "s3://no-such-bucket/logs"}, "s3://no-such-bucket: there is no such bucket"),
    ],
)
def test_configuration_is_checked_before_anything_is_made(emr, conf, changes, told):
    source = emr.put("in/news.jsonl", NEWS)
    assert error_of(conf(**changes), source, "--output-dir", OUT).startswith(told)
    assert not emr.requests


def test_output_must_be_on_s3(emr, conf, tmp_path):
    source = emr.put("in/news.jsonl", NEWS)
    assert "--output-dir must be a folder s3://..." in error_of(conf(), source, "--output-dir", tmp_path)
    assert not emr.requests


def test_credentials_must_be_there(emr, conf, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    assert "AWS credentials must be set" in error_of(conf(), f"s3://{BUCKET}/in", "--output-dir", OUT)
    assert not emr.requests


def test_boto3_must_be_installed(emr, conf, monkeypatch):
    monkeypatch.setattr("mapreduce.emr.boto3", None)
    assert "boto3 must be installed" in error_of(conf(), f"s3://{BUCKET}/in", "--output-dir", OUT)


def test_arguments_beyond_the_limit_of_a_step_are_refused(emr, conf):
    emr.runs = False
    sources = [emr.put(f"in/{'long-name-' * 90}{number}.jsonl", b"\n") for number in range(12)]
    assert "at most 10240 characters" in error_of(conf(), *sources, "--output-dir", OUT)
    assert [emr.state(cluster) for cluster in emr.started()] == ["TERMINATED"]


@pytest.mark.parametrize(
    "text, cause",
    [
        ("", None),
        ("error: line 3: bad\nerror: line 3: bad\n", "line 3: bad"),
        ("ModuleNotFoundError: No module named 'numpy'", "ModuleNotFoundError: No module named 'numpy'"),
        ("sh: python3.11: command not found", "sh: python3.11: command not found"),
        ("reason for failure: killed by a user\n", "killed by a user"),
    ],
)
def test_report_tells_the_cause(text, cause):
    assert parse_report("Job: job_1\nCounters: 1\n\tlsh\n\t\tkept=5\n\n" + text).get("cause") == cause


@pytest.mark.slow
def test_deduplication_gives_what_it_gives_here(emr, conf, tmp_path):
    run_here("dedup.py", tmp_path, "--output-dir", tmp_path / "out")
    arguments = ["-r", "emr", "--conf-path", str(conf()), emr.put("in/news.jsonl", NEWS), "--output-dir", OUT]
    Dedup([*arguments, "-q"]).run_job()
    for name in ("pairs", "clusters", "kept"):
        parts = [data for _, data in sorted(emr.objects(f"out/{name}/part-").items())]
        expected = [path.read_bytes() for path in sorted((tmp_path / "out" / name).iterdir())]
        assert sorted(b"".join(parts).split(b"\n")) == sorted(b"".join(expected).split(b"\n")), name
    theirs = json.loads((tmp_path / "out" / "summary.json").read_bytes())
    ours = json.loads(emr.objects("out/summary.json")["out/summary.json"])
    for name in ("documents", "clusters", "removed", "kept", "candidate_pairs", "verified_pairs"):
        assert ours[name] == theirs[name]
    assert [emr.state(cluster) for cluster in emr.started()] == ["TERMINATED"]
    assert not emr.objects("tmp/") and not emr.objects("out/.run/")
