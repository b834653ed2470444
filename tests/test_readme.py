"""The commands of the README, run as they stand there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]
FENCES = re.findall(r"^```(.*?)\n(.*?)^```", (TOP / "README.md").read_text(), re.DOTALL | re.MULTILINE)
COMMANDS = [line for language, fence in FENCES if not language for line in fence.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder that looks like the checkout, with a corpus.jsonl in it."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("jobs", "lshlib", "scripts", "data-samples"):
        (folder / name).symlink_to(TOP / name)
    shutil.copy(TOP / "data-samples" / "news.jsonl", folder / "corpus.jsonl")
    return folder


def test_the_readme_has_its_two_commands():
    assert COMMANDS.index("scripts/test") == COMMANDS.index("scripts/demo") + 1


# scripts/test is what runs these tests; benchmarks take minutes and are tried small elsewhere
@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c != "scripts/test" and "scripts/benchmark" not in c]
)
def test_a_command_of_the_readme_works(folder, command):
    if command == "scripts/demo" and not (TOP / ".venv").exists():
        pytest.skip("scripts/demo would set up .venv; run scripts/test, which does so, to include it")
    if command.startswith("scripts/"):
        command = str(TOP / command)
    python = f'python() {{ "{sys.executable}" "$@"; }}; '
    done = subprocess.run(["bash", "-c", python + command], cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr
