import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def hadoop(tmp_path, monkeypatch):
    """A stand-in for a machine's Hadoop, and no settings of this machine."""
    from fake_hadoop import FakeHadoop

    for name in [name for name in os.environ if name.startswith(("HADOOP_", "YARN_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("mapreduce.hadoop._LATE", 0)
    fake = FakeHadoop(tmp_path / "hadoop")
    monkeypatch.setenv("HADOOP_HOME", fake.folder)
    monkeypatch.setenv("MRJOB_CONF", "/dev/null")
    return fake
