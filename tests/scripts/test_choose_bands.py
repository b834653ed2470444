import doctest
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import choose_bands as module  # noqa: E402

from lshlib.banding import best_choice, choices, collision_chance  # noqa: E402


def run_script(*arguments):
    command = [sys.executable, SCRIPTS / "choose_bands.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def rows_of(table):
    """The numbers at the start of the lines of a table, without its head."""
    lines = [line.split() for line in table.splitlines()]
    return [[float(cell) for cell in line if cell[0].isdigit()] for line in lines if line[0][0].isdigit()]


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("threshold, recall", [(0.8, 0.995), (0.5, 0.9), (0.99, 0.999), (1, 0.995)])
def test_every_choice_is_printed_and_the_best_marked(threshold, recall):
    result = run_script("--threshold", threshold, "--recall", recall)
    assert result.returncode == 0, result.stderr
    table = result.stdout.split("\n\n")[0]
    printed = [tuple(row[:3]) for row in rows_of(table)]
    assert printed == [(choice.bands, choice.rows, choice.length) for choice in choices(threshold, recall)]
    best = best_choice(threshold, recall)
    marked = [line.split() for line in table.splitlines() if line.endswith("<- chosen")]
    assert [row[:2] for row in marked] == [[str(best.bands), str(best.rows)]]


def test_curve_is_that_of_the_chosen_one():
    head, curve = run_script("--threshold", 0.8).stdout.split("\n\n")[1].split("\n", 1)
    assert head == "14 bands of 5 rows, steepest near 0.59:"
    curve = rows_of(curve)
    assert (curve[0][0], curve[-1][0]) == (0.1, 1.0)
    assert [chance for _, chance in curve] == [
        round(collision_chance(similarity, bands=14, rows=5), 4) for similarity, _ in curve
    ]


def test_shuffle_is_estimated_from_the_documents():
    """14 bands x 24 bytes x 4/3 = 448 bytes a document."""
    result = run_script("--documents", 1_000_000, "--bytes-per-document", 4480)
    assert result.stdout.splitlines()[-1] == (
        "shuffle: 1,000,000 documents x 14 bands are about 448.0 MB, 10.0% of the 4,480.0 MB of documents"
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--threshold", 0], "--threshold must be above 0 and at most 1, got 0.0"),
        (["--recall", 1], "--recall must be above 0 and below 1, got 1.0"),
        (["--threshold", 0.001], "no bands x rows up to 4096 finds pairs at threshold 0.001"),
        (["--documents", 0], "--documents must be a positive number, got 0"),
        (["--bytes-per-document", 9], "--bytes-per-document must come with --documents, got only 9"),
    ],
)
def test_bad_options_are_refused_in_one_line(arguments, message):
    result = run_script(*arguments)
    assert result.returncode == 2 and not result.stdout
    assert message in result.stderr.splitlines()[-1]
