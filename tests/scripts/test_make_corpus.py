import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import make_corpus as module  # noqa: E402
from exact_pairs import exact_pairs, read_documents, tokens  # noqa: E402

KINDS = ["same", "footer", "titles", "mixed", "long"]


def run_script(*arguments):
    command = [sys.executable, SCRIPTS / "make_corpus.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True)


def make(folder, *arguments):
    """The (id, text) documents that the script writes for these arguments."""
    path = folder / "corpus.jsonl"
    result = run_script(*arguments[:2], path, *arguments[2:])
    assert result.returncode == 0, result.stderr
    return list(read_documents([path]))


def make_with_truth(folder, *arguments):
    documents = make(folder, *arguments, "--truth", folder / "truth.tsv")
    lines = (folder / "truth.tsv").read_text().splitlines()
    return documents, [(a, b, float(jaccard)) for a, b, jaccard in (line.split("\t") for line in lines)]


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("kind", KINDS)
def test_equal_arguments_give_equal_bytes(kind):
    arguments = (kind, 60, "-", "--bytes", 5000)
    first = run_script(*arguments, "--seed", 3).stdout
    assert first
    assert run_script(*arguments, "--seed", 3).stdout == first
    assert run_script(*arguments, "--seed", 4).stdout != first


@pytest.mark.parametrize("kind", ["titles", "mixed"])
def test_truth_does_not_change_the_corpus(tmp_path, kind):
    assert make_with_truth(tmp_path, kind, 200)[0] == make(tmp_path, kind, 200)


@pytest.mark.parametrize("ending", [".gz", ".bz2"])
def test_packed_output_holds_the_same_documents(tmp_path, ending):
    packed = tmp_path / f"packed{ending}"
    assert run_script("titles", 50, packed).returncode == 0
    assert list(read_documents([packed])) == make(tmp_path, "titles", 50)


@pytest.mark.parametrize(
    "kind, count", [("same", 1), ("footer", 7), ("titles", 1), ("mixed", 1), ("mixed", 345)]
)
def test_documents_are_counted_and_named_in_order(tmp_path, kind, count):
    ids = [id for id, _ in make(tmp_path, kind, count)]
    width = len(str(count))
    assert ids == [f"d{number:0{width}}" for number in range(count)]


def test_same_is_one_text(tmp_path):
    texts = {text for _, text in make(tmp_path, "same", 20)}
    assert len(texts) == 1
    assert 2500 < len(texts.pop()) < 3500


def test_footer_is_shared_and_the_body_is_not(tmp_path):
    words = [tokens(text) for _, text in make(tmp_path, "footer", 100, "--body", 30, "--footer", 50)]
    assert {tuple(row[30:]) for row in words} == {tuple(words[0][30:])}
    assert len(set(words[0][30:])) == 50
    bodies = [word for row in words for word in row[:30]]
    assert len(set(bodies)) == 100 * 30
    assert not set(bodies) & set(words[0][30:])


def test_titles_have_three_to_twelve_words(tmp_path):
    lengths = {len(tokens(text)) for _, text in make(tmp_path, "titles", 2000)}
    assert lengths == set(range(3, 13))


def test_truth_of_titles_is_all_exact_repeats(tmp_path):
    documents, truth = make_with_truth(tmp_path, "titles", 4000)
    assert truth == list(exact_pairs(documents, 1.0))
    assert 150 < len(truth) < 400


@pytest.mark.parametrize("size", [3, 5])
def test_truth_of_mixed_is_exact_and_complete(tmp_path, size):
    documents, truth = make_with_truth(tmp_path, "mixed", 1000, "--shingle-size", size)
    assert [pair for pair in truth if pair[2] >= 0.4] == list(exact_pairs(documents, 0.4, size))
    assert len({b for _, b, _ in truth}) >= 200
    assert {round(jaccard, 1) for _, _, jaccard in truth} >= {0.6, 0.7, 0.8, 0.9, 1.0}


def test_mixed_is_three_kilobytes_on_average(tmp_path):
    lengths = [len(text) for _, text in make(tmp_path, "mixed", 3000)]
    assert 2700 < sum(lengths) / len(lengths) < 3300
    assert min(lengths) < 500 and max(lengths) > 10_000


def test_words_follow_zipf(tmp_path):
    """The word of rank 1 is drawn twice as often as that of rank 2: 1 / 11.4 of all."""
    words = [word for _, text in make(tmp_path, "mixed", 500) for word in tokens(text)]
    first, second = words.count("ba"), words.count("be")
    # Copies repeat the words of their sources, so the draws are fewer than the words.
    assert abs(first / second - 2) < 0.1
    assert abs(first / len(words) - 1 / 11.4) < 0.005


@pytest.mark.parametrize("size", [1, 5000, 12_000_000])
def test_long_text_has_its_size_among_the_others(tmp_path, size):
    documents = make(tmp_path, "long", 10, "--bytes", size)
    assert len(documents) == 11
    assert len(json.dumps(documents[5][1])) - 2 == size


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["same", 0, "-"], "N must be a positive number, got 0"),
        (["same", 5, "-", "--truth", "t"], "--truth must come with titles or mixed, got same"),
        (["footer", 5, "-", "--body", -1], "--body must be 0 or more, got -1"),
        (["footer", 5, "-", "--footer", 60_000], "--footer must be at most 50000, got 60000"),
        (["mixed", 5, "-", "--shingle-size", 0], "--shingle-size must be a positive number, got 0"),
        (["long", 5, "-", "--bytes", 0], "--bytes must be a positive number, got 0"),
    ],
)
def test_bad_options_stop_before_anything_is_written(arguments, message):
    result = run_script(*arguments)
    assert result.returncode == 2 and not result.stdout
    assert message in result.stderr.decode()
