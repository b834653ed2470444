import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import peers  # noqa: E402


def run_script(*arguments):
    """The script without a peer's Python; settings of this machine must not reach the job."""
    command = [sys.executable, SCRIPTS / "benchmark", *map(str, arguments)]
    environment = {**os.environ, "MRJOB_CONF": "/dev/null"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def our_rows(result):
    """The rows of the table that are ours, as {column: cell}."""
    assert result.returncode == 0, result.stderr
    table = [line.strip("| ").split(" | ") for line in result.stdout.splitlines() if line[:1] == "|"]
    head = [cell.strip() for cell in table[0]]
    rows = [dict(zip(head, map(str.strip, row))) for row in table[2:]]
    return [row for row in rows if row["tool"] == "lsh-mapreduce"]


def test_table_has_a_row_with_what_was_measured(tmp_path):
    (row,) = our_rows(run_script(500, "--runs", 1, "--folder", tmp_path))
    assert row["documents"] == "500"
    assert float(row["recall"]) >= 0.99
    assert row["linked under 0.8"].startswith("0 of ")
    size = (tmp_path / "mixed-500.jsonl").stat().st_size / 1e6
    seconds = float(row["seconds"])
    assert seconds == float(row["least"]) > 0
    assert float(row["MB"]) == pytest.approx(size, abs=0.05)
    assert float(row["MB/s"]) == pytest.approx(size / seconds, rel=0.05, abs=0.05)
    assert float(row["CPU seconds"]) > 0
    # numpy alone takes more than 10 MB, and the corpus is small
    assert 10 < float(row["memory, MB"]) < 1000


def test_growth_is_told_of_several_sizes_and_the_corpora_stay(tmp_path):
    result = run_script(40, 80, "--runs", 1, "--folder", tmp_path)
    assert [row["documents"] for row in our_rows(result)] == ["40", "80"]
    assert "lsh-mapreduce: seconds grow as documents^" in result.stdout
    names = {f"mixed-{size}.{ending}" for size in (40, 80) for ending in ("jsonl", "tsv")}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_own_corpus_is_scored_by_its_truth(tmp_path):
    """One of the two pairs of the truth is not in the corpus as planted, so half of them are found."""
    words = " ".join(f"word{number}" for number in range(50))
    texts = {"a": words, "b": words, "c": "something else that has no copy here"}
    lines = [f'{{"id": "{id}", "text": "{text}"}}\n' for id, text in texts.items()]
    (tmp_path / "own.jsonl").write_text("".join(lines))
    (tmp_path / "own.tsv").write_text("a\tb\t1.0\tcopy\na\tc\t0.9\tno copy\nb\tc\t0.1\tno copy\n")
    own = ["--corpus", tmp_path / "own.jsonl", "--runs", 1]
    (row,) = our_rows(run_script(*own, "--truth", tmp_path / "own.tsv"))
    assert (row["documents"], row["recall"], row["linked under 0.8"]) == ("3", "0.5000", "0 of 1")
    (row,) = our_rows(run_script(*own))
    assert (row["recall"], row["linked under 0.8"]) == ("", "0 of 1")


def test_a_run_that_fails_stops_in_one_line(tmp_path):
    (tmp_path / "own.jsonl").write_text('{"id": "a", "text": 3}\n')
    result = run_script("--corpus", tmp_path / "own.jsonl", "--runs", 1)
    assert result.returncode == 1
    assert "line 1 of" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("size", [1, 20, 33, 34, 35, 100, 1000])
def test_peers_read_every_line_in_one_part(tmp_path, monkeypatch, size):
    monkeypatch.setattr(peers, "PART", size)
    path = tmp_path / "corpus.jsonl"
    lines = [f'{{"id": "{number:02}", "text": "{"x" * (number % 3)}"}}' for number in range(40)]
    path.write_text("\n".join(lines))
    ids = [id for part in peers.parts(path) for id in peers.read_part(part)[0]]
    assert ids == [f"{number:02}" for number in range(40)]


def test_peers_clusters_are_what_pairs_connect():
    assert peers.least_members(7, [(5, 4), (2, 0), (4, 2), (6, 3)]) == [0, 1, 0, 3, 0, 0, 3]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([0], "N must be a positive number, got 0"),
        (["--runs", 0], "--runs must be a positive number, got 0"),
        (["--corpus", "absent"], "--corpus must be a file, got absent"),
        ([5, "--corpus", "absent"], "N must not come with --corpus, got 5"),
        (["--truth", "t"], "--truth must come with --corpus, got only t"),
        (["--peer-python", "absent"], "--peer-python must be a Python, got absent"),
        ([5, "--peer-python", "false"], "--peer-python must be a Python, got false"),
    ],
)
def test_bad_options_are_refused_in_one_line(arguments, message):
    result = run_script(*arguments)
    assert result.returncode and not result.stdout
    assert message in result.stderr.splitlines()[-1]
