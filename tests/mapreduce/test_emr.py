import contextlib
import io
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("moto", reason="moto must be installed: scripts/setup dev")
sys.path.insert(0, str(Path(__file__).parents[1]))

from fake_emr import BUCKET, FakeEmr  # noqa: E402

pytestmark = pytest.mark.cluster
TOP = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    emr = FakeEmr(tmp_path_factory.mktemp("emr")).start()
    yield emr
    emr.stop()


@pytest.fixture
def emr(service, monkeypatch):
    """The service, with the settings of a user who has an account there."""
    for name, value in service.environment().items():
        monkeypatch.setenv(name, value)
    service.clear()
    return service


@pytest.fixture
def conf(tmp_path):
    """A function that writes a configuration for runs here: its path."""

    def write(**changes):
        settings = {
            "region": "eu-central-1",
            "release_label": "emr-7.13.0",
            "cloud_tmp_dir": f"s3://{BUCKET}/tmp/",
            "cloud_log_dir": f"s3://{BUCKET}/logs/",
            "iam_service_role": "service",
            "iam_instance_profile": "nodes",
            "python_bin": sys.executable,
            "bootstrap_mrjob": False,
            "check_cluster_every": 0.2,
            **changes,
        }
        path = tmp_path / "emr.conf"
        settings = {name: value for name, value in settings.items() if value is not None}
        path.write_text(json.dumps({"runners": {"emr": settings}}))
        return path

    return write


def test_x(emr, conf):
    from candidates import Candidates

    docs = emr.put("in/a.jsonl", (TOP / "data-samples" / "news.jsonl").read_bytes())
    job = Candidates(["-r", "emr", "-v", "--conf-path", str(conf()), docs, "--output-dir", f"s3://{BUCKET}/out"])
    job.run_job()
    print(json.dumps(emr.requests, indent=1)[:6000])
    print(list(emr.objects()))
    assert 0
