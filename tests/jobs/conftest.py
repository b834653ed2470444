import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch):
    """A user's ~/.mrjob.conf must not reach the jobs."""
    monkeypatch.setenv("MRJOB_CONF", "/dev/null")


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory):
    """A Hadoop of the tests' own."""
    from clusters import Hadoop, needs

    needs("java", "mvn")
    cluster = Hadoop(tmp_path_factory.mktemp("hadoop"))
    yield cluster
    cluster.remove()
