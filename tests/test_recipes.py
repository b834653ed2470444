# ruff: noqa: F811 (fixtures are imported)
"""The recipes of the README for clusters, followed line by line in a fresh checkout."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from emr_fixtures import emr, service  # noqa: F401

TOP = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.cluster, pytest.mark.slow]
RECIPES = dict(re.findall(r"^```(\w+)\n(.*?)^```", (TOP / "README.md").read_text(), re.DOTALL | re.MULTILINE))
NEWS = TOP / "data-samples" / "news.jsonl"


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A fresh checkout, with what is not committed yet."""
    for program in ("java", "mvn"):
        if not shutil.which(program):
            pytest.skip(f"needs {program}")
    clone = tmp_path_factory.mktemp("clone") / "lsh-mapreduce"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TOP,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (TOP / name).exists():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / name, clone / name)
    yield clone
    subprocess.run([clone / "scripts" / "hadoop", "stop", "--remove"], capture_output=True)


def follow(recipe, clone, **environment):
    """Run the lines of a recipe in the clone: the CompletedProcess."""
    python = 'set -e; python() { .venv/bin/python "$@"; }\n'
    return subprocess.run(
        ["bash", "-c", python + recipe],
        cwd=clone,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """The sorted lines of clusters/ of a run on this machine."""
    out = tmp_path_factory.mktemp("here") / "out"
    subprocess.run([sys.executable, TOP / "jobs" / "dedup.py", NEWS, "--output-dir", out, "-q"], check=True)
    return lines_in(out / "clusters")


def lines_in(folder):
    return sorted("".join(path.read_text() for path in folder.glob("part-*")).splitlines())


def test_recipe_for_hadoop(clone, clusters):
    done = follow(RECIPES["hadoop"], clone)
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("{")) == clusters


def test_recipe_for_spark(clone, clusters):
    done = follow(RECIPES["spark"], clone)
    assert done.returncode == 0, done.stderr
    assert lines_in(clone / "out" / "clusters") == clusters


def test_recipe_for_emr_up_to_its_api(clone, emr):
    from fake_emr import REGION

    emr.s3.create_bucket(Bucket="my-bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    emr.s3.upload_file(str(NEWS), "my-bucket", "corpus/news.jsonl")
    emr.runs, emr.on_step = False, lambda name: "FAILED"
    *lines, driven, submitted = RECIPES["emr"].splitlines()
    done = follow("\n".join(lines), clone, **emr.environment())
    assert done.returncode == 0, done.stderr
    # nothing runs behind this API: the first stage fails, and with it ends the cluster
    done = follow(driven, clone, **emr.environment())
    assert done.returncode == 1 and "error: " in done.stderr.splitlines()[-1]
    (request,) = emr.sent("RunJobFlow")
    assert request["ReleaseLabel"] == "emr-7.13.0"
    (first, *_) = emr.sent("AddJobFlowSteps")
    assert "s3://my-bucket/corpus" in first["Steps"][0]["HadoopJarStep"]["Args"]
    assert {emr.state(cluster) for cluster in emr.started()} <= {"TERMINATED", "TERMINATED_WITH_ERRORS"}
    done = follow(submitted, clone, **emr.environment())
    assert done.returncode == 0, done.stderr
    arguments = emr.sent("RunJobFlow")[-1]["Steps"][-1]["HadoopJarStep"]["Args"]
    assert arguments[-3:] == ["s3://my-bucket/corpus", "--output-dir", "s3://my-bucket/out-2"]
