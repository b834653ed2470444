import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
SCRIPT = TOP / "scripts" / "pack_nodes"
OWN = "{}.{}".format(*sys.version_info)


def run_script(*arguments, **variables):
    command = [sys.executable, SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})


@pytest.mark.parametrize("python", ["3", "2.7", "3.11.2", "3.x", "cp311", ""])
def test_python_that_is_no_version_is_refused(tmp_path, python):
    result = run_script(f"--python={python}", tmp_path / "nodes")
    assert result.returncode == 2 and not result.stdout
    assert result.stderr.endswith(f"error: --python must be like 3.11, got {python}\n")
    assert not (tmp_path / "nodes").exists()


@pytest.fixture
def empty_index(tmp_path):
    """Variables of a pip that finds no package anywhere."""
    (tmp_path / "index").mkdir()
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "index"), "PIP_CONFIG_FILE": os.devnull}


@pytest.mark.parametrize("arguments", [["--python=3.1"], ["--platform=plan9_x"]])
def test_missing_wheels_end_in_one_line_and_leave_nothing(tmp_path, empty_index, arguments):
    result = run_script(*arguments, tmp_path / "nodes", **empty_index)
    assert result.returncode == 1 and not result.stdout
    version = dict([arguments[0].split("=")]).get("--python", OWN)
    assert result.stderr.startswith(f"scripts/pack_nodes: wheels for Python {version} on ")
    assert " must be found: ERROR: No matching distribution found for " in result.stderr
    assert result.stderr.count("\n") == 1
    assert list((tmp_path / "nodes").glob("*")) == []


def test_earlier_pack_outlives_one_that_fails(tmp_path, empty_index):
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "nodes.tar.gz").write_bytes(b"earlier")
    assert run_script(tmp_path / "nodes", **empty_index).returncode == 1
    assert [path.name for path in (tmp_path / "nodes").iterdir()] == ["nodes.tar.gz"]
    assert (tmp_path / "nodes" / "nodes.tar.gz").read_bytes() == b"earlier"


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The folder of a pack for this very Python."""
    if sys.platform != "linux":
        pytest.skip("needs Linux, for which packs are made")
    folder = tmp_path_factory.mktemp("packed")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "mmh3"]
    if subprocess.run([*command, "--retries=0", "--timeout=15"], capture_output=True).returncode:
        pytest.skip("needs the network: pip reaches no package index")
    result = run_script("--python", OWN, folder / "nodes")
    assert result.returncode == 0, result.stderr
    assert re.match(rf"packed mmh3, mrjob, numpy for Python {OWN} on manylinux\S+: \d+ MB\n", result.stdout)
    return folder / "nodes"


@pytest.mark.slow
def test_pack_holds_all_that_a_task_imports(packed, tmp_path):
    with tarfile.open(packed / "nodes.tar.gz") as archive:
        assert not any(re.search(r"/(tests?|bin|__pycache__)/", name) for name in archive.getnames())
        archive.extractall(tmp_path / "nodes")
    bare, packed_ones = (run_task({"PYTHONPATH": path}) for path in ("", str(tmp_path / "nodes")))
    assert bare.returncode == 1
    assert bare.stderr.startswith(b"error: Python must have mmh3, mrjob and numpy, got no mmh3 in ")
    assert packed_ones.returncode == 0, packed_ones.stderr.decode()
    assert packed_ones.stdout


def run_task(variables):
    """A mapper in this Python, without its own packages."""
    script, arguments = TOP / "jobs" / "candidates.py", ["--input-format=jsonl", "--slices=1"]
    return subprocess.run(
        [sys.executable, "-S", script, *arguments, "--mapper", "--step-num=0"],
        input=b'{"id": "a", "text": "one two three"}\n',
        capture_output=True,
        env={"PATH": os.environ["PATH"], **variables},
    )


@pytest.mark.slow
def test_settings_beside_the_pack_send_it_along(packed):
    from mapreduce.job import Job

    assert sorted(path.name for path in packed.iterdir()) == ["hadoop.conf", "nodes.tar.gz"]
    job = Job(["-r", "hadoop", "--conf-path", str(packed / "hadoop.conf"), "in"])
    with job.make_runner() as runner:
        settings = runner._opts
    assert settings["bootstrap_mrjob"] is False
    assert settings["setup"] == [f"export PYTHONPATH={packed}/nodes.tar.gz#/:$PYTHONPATH"]
    assert settings["python_bin"] == ["python3"], "configs/hadoop.conf must hold, too"


def test_pack_into_a_file(tmp_path):
    (tmp_path / "a").write_text("")
    script = Path(__file__).resolve().parents[2] / "scripts" / "pack_nodes"
    for target in (tmp_path / "a", tmp_path / "a" / "b"):
        done = subprocess.run([sys.executable, script, target], capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
