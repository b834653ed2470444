"""What the tests of Amazon EMR share: the service, and a user's configuration for it."""

import sys

import pytest
import yaml

pytest.importorskip("moto", reason="moto must be installed: scripts/test --cluster")

from fake_emr import BUCKET, REGION, FakeEmr  # noqa: E402


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    emr = FakeEmr(tmp_path_factory.mktemp("emr")).start()
    yield emr
    emr.stop()


@pytest.fixture
def emr(service, monkeypatch):
    """The service, for a user who has an account there."""
    service.clear()
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)  # it would remember another user's credentials
    monkeypatch.setattr("mrjob.emr._S3_LOG_WAIT_MINUTES", 0)  # logs are there at once
    for name, value in service.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return service


@pytest.fixture
def conf(tmp_path):
    """A function that fills in configs/emr.conf for this machine: the path of the result."""

    def write(reducers=3, **changes):
        with open("configs/emr.conf") as file:
            text = file.read().replace("BUCKET", BUCKET).replace("SUBNET", "subnet-1")
        settings = yaml.safe_load(text)
        here = {"region": REGION, "python_bin": sys.executable, "check_cluster_every": 0.2}
        for name, value in {**here, **changes}.items():
            settings["runners"]["emr"][name] = value
        settings["runners"]["hadoop"]["python_bin"] = sys.executable
        settings["runners"]["emr"]["jobconf"]["mapreduce.job.reduces"] = str(reducers)
        path = tmp_path / "emr.conf"
        path.write_text(yaml.safe_dump(settings))
        return path

    return write
