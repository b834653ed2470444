# ruff: noqa: F811 (fixtures are imported)
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

from mapreduce.emr import EmrRunner

import pytest
from emr_fixtures import conf, emr, service  # noqa: F401
from fake_emr import BUCKET, SECRETS

TOP = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.cluster
NEWS = (TOP / "data-samples" / "news.jsonl").read_bytes()
OUT = f"s3://{BUCKET}/out"


def submit(path, *arguments):
    """scripts/emr_submit as a user runs it."""
    command = [sys.executable, TOP / "scripts" / "emr_submit", "--conf", path, *arguments]
    return subprocess.run(list(map(str, command)), cwd=TOP, capture_output=True, text=True)


def submitted(emr, path, *arguments):
    """(what it printed as a dict, the step in the request) of a run that is accepted."""
    result = submit(path, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    told = dict(line.split(None, 1) for line in result.stdout.splitlines())
    steps = (emr.sent("RunJobFlow") or emr.sent("AddJobFlowSteps"))[-1]["Steps"]
    (step,) = steps
    return told, step


def run_step(emr, step, folder):
    """What the cluster does with a step, with the commands of its first node: its CompletedProcess."""
    jar = step["HadoopJarStep"]
    assert jar["Jar"] == "command-runner.jar"
    folder.mkdir()
    environment = {**emr.node_environment(), "TMPDIR": str(folder)}
    return subprocess.run(jar["Args"], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def source(emr):
    emr.runs = False
    return emr.put("in/news.jsonl", NEWS)


def test_new_cluster_runs_one_step_and_ends(emr, conf, source):
    told, step = submitted(emr, conf(), "jobs/dedup.py", source, "--output-dir", OUT, "--threshold", "0.7")
    (request,) = emr.sent("RunJobFlow")
    assert request["Instances"]["KeepJobFlowAliveWhenNoSteps"] is False
    assert step["ActionOnFailure"] == "TERMINATE_CLUSTER"
    assert [action["Name"] for action in request["BootstrapActions"]] == ["master"]
    assert (
        step["HadoopJarStep"]["Args"][-9:]
        == [
            *("jobs/dedup.py", "-r", "hadoop", "--conf-path", "runner.conf"),
            *(source, "--output-dir", OUT, "--threshold", "0.7"),
        ][-9:]
    )
    (cluster,) = emr.started()
    (started,) = emr.steps(cluster)
    assert (told["cluster"], told["step"], told["output"]) == (cluster, started["Id"], OUT)
    assert told["logs"].startswith(f"s3://{BUCKET}/logs/{cluster}/steps/{started['Id']}/stderr.gz")
    assert cluster in told["console"] and cluster in told["stop"]


def test_given_cluster_gets_a_step_and_goes_on(emr, conf, source):
    cluster = EmrRunner(conf_paths=[str(conf())]).start_cluster()
    emr.requests.clear()
    told, step = submitted(emr, conf(), "--cluster-id", cluster, "jobs/dedup.py", source, "--output-dir", OUT)
    assert not emr.sent("RunJobFlow")
    assert step["ActionOnFailure"] == "CONTINUE"
    assert told["cluster"] == cluster and "cancel-steps" in told["stop"]


def test_driver_has_all_that_it_runs(emr, conf, source, tmp_path):
    """The step's own command, up to the driver's start; `--help` keeps it from its work."""
    _, step = submitted(emr, conf(), "jobs/dedup.py", source, "--output-dir", OUT)
    step["HadoopJarStep"]["Args"].append("--help")
    result = run_step(emr, step, tmp_path / "node")
    assert result.returncode == 0, result.stderr
    assert "--hadoop-bin" in result.stdout
    (folder,) = (tmp_path / "node").iterdir()
    settings = json.loads((folder / "runner.conf").read_text())["runners"]
    assert list(settings) == ["hadoop"] and settings["hadoop"]["jobconf"]["mapreduce.job.reduces"] == "3"


def test_failure_of_the_driver_is_that_of_the_step(emr, conf, source, tmp_path):
    _, step = submitted(emr, conf(), "jobs/dedup.py", source, "--output-dir", OUT)
    step["HadoopJarStep"]["Args"] += ["--threshold", "2"]
    assert run_step(emr, step, tmp_path / "node").returncode != 0


def test_secrets_stay_here(emr, conf, source):
    key, secret, token = SECRETS
    path = conf(aws_access_key_id=key, aws_secret_access_key=secret, aws_session_token=token)
    result = submit(path, "jobs/dedup.py", source, "--output-dir", OUT)
    assert result.returncode == 0, result.stderr
    received = b"".join(emr.received)
    for data in emr.objects("tmp/").values():
        if zipfile.is_zipfile(io.BytesIO(data)):
            archive = zipfile.ZipFile(io.BytesIO(data))
            received += b"".join(map(archive.read, archive.namelist()))
    assert len(received) > 100_000
    for text in SECRETS:
        assert text.encode() not in received and text not in result.stdout + result.stderr


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["jobs/dedup.py", "{source}"], "input and --output-dir must be folders or files s3://..., got none"),
        (["jobs/dedup.py", "data-samples/news.jsonl", "--output-dir", OUT], "s3://..., got data-samples"),
        (["jobs/dedup.py", "--output-dir", OUT], "input must be given, got none"),
        (["jobs/dedup.py", f"s3://{BUCKET}/none", "--output-dir", OUT], f"no such file: s3://{BUCKET}/none"),
        (["scripts/demo", "{source}", "--output-dir", OUT], "JOB must be a file in jobs/, got scripts/demo"),
        (["jobs/dedup.py", "-r", "local", "{source}", "--output-dir", OUT], "got -r local"),
        (
            ["jobs/dedup.py", "{source}", "--output-dir", OUT, "--threshold", "2"],
            "--threshold must be above 0",
        ),
        (["--cluster-id", "j-NONE", "jobs/dedup.py", "{source}", "--output-dir", OUT], "j-NONE"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(emr, conf, source, arguments, told):
    result = submit(conf(), *(argument.format(source=source) for argument in arguments))
    *_, last = result.stderr.splitlines()
    assert result.returncode != 0 and told in last and "Traceback" not in result.stderr
    assert not emr.sent("RunJobFlow") and not emr.objects("tmp/")


def test_placeholders_are_refused(emr, source):
    result = submit(TOP / "configs" / "emr.conf", "jobs/dedup.py", source, "--output-dir", OUT)
    assert result.stderr.startswith(
        "scripts/emr_submit: cloud_log_dir in the configuration must be filled in"
    )
