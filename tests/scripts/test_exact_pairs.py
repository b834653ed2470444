import bz2
import doctest
import gzip
import json
import random
import subprocess
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import exact_pairs as module  # noqa: E402
from exact_pairs import exact_pairs, read_documents, tokens  # noqa: E402


def brute_force(documents, threshold, size, bag):
    bags = {}
    for id, text in documents:
        words = tokens(text)
        starts = range(max(len(words) - size + 1, 1)) if words else []
        bags[id] = Counter(tuple(words[start : start + size]) for start in starts)
        if not bag:
            bags[id] = Counter(set(bags[id]))
    for a, b in combinations(sorted(bags), 2):
        overlap, union = sum((bags[a] & bags[b]).values()), sum((bags[a] | bags[b]).values())
        if overlap and overlap / union >= threshold:
            yield a, b, overlap / union


def random_documents(seed, count=70):
    """Short texts of few words, so that shingles repeat in them and between them, and edits."""
    draw = random.Random(seed)
    words, texts = list("abcdefgh"), []
    for _ in range(count):
        text = draw.choices(words, k=draw.choice((0, 1, 2, 3, 5, 8, 13, 40)))
        if texts and draw.random() < 0.4:
            text = list(draw.choice(texts))
            for _ in range(draw.randrange(3)):
                place = draw.randrange(len(text) + 1)
                text[place : place + draw.randrange(2)] = draw.choices(words, k=draw.randrange(2))
        texts.append(text)
    return [(f"d{number}", " ".join(text)) for number, text in enumerate(texts)]


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("threshold", [0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 1.0])
def test_pairs_are_those_of_a_double_loop(threshold, size, bag):
    for seed in range(3):
        documents = random_documents(seed)
        expected = list(brute_force(documents, threshold, size, bag))
        assert expected
        assert list(exact_pairs(documents, threshold, size, bag)) == expected


def test_order_of_the_documents_does_not_matter():
    documents = random_documents(7)
    assert list(exact_pairs(documents[::-1], 0.4)) == list(exact_pairs(documents, 0.4))


@pytest.mark.parametrize(
    "shared, size", [(28, 100), (7, 25), (29, 100), (57, 100), (58, 100), (4, 5), (7, 10)]
)
def test_a_pair_at_the_threshold_itself_is_found(shared, size):
    """0.28 * 25 and 0.57 * 100 among others are not what they seem in floating point."""
    documents = [("a", " ".join(map(str, range(size)))), ("b", " ".join(map(str, range(shared))))]
    assert list(exact_pairs(documents, shared / size, size=1)) == [("a", "b", shared / size)]


@pytest.mark.parametrize(
    "texts, size, bag, expected",
    [
        (["a b", "a b", "b a"], 5, False, [("0", "1", 1.0)]),
        (["", " _-_ ", ""], 5, False, []),
        (["x x x", "x"], 1, False, [("0", "1", 1.0)]),
        (["x x x", "x x"], 1, True, [("0", "1", 2 / 3)]),
        (["ﬁn STRASSE_1", "Fin straße 1"], 2, False, [("0", "1", 1.0)]),
        (["a b c", "a b c d"], 3, False, [("0", "1", 0.5)]),
        (["a b", "a b c d e"], 3, False, []),
    ],
    ids=["short", "empty", "set", "bag", "folded", "one shingle", "short is no part"],
)
def test_definition_on_small_texts(texts, size, bag, expected):
    documents = [(str(number), text) for number, text in enumerate(texts)]
    assert list(exact_pairs(documents, 0.5, size, bag)) == expected


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0


def test_no_documents_give_no_pairs():
    assert list(exact_pairs([], 0.5)) == []


def test_equal_documents_give_every_pair():
    assert len(list(exact_pairs([(f"d{number}", "a b c d e f") for number in range(50)], 1.0))) == 50 * 49 / 2


@pytest.mark.parametrize(
    "documents, threshold, size, message",
    [
        ([], 0, 5, "threshold must be above 0 and at most 1, got 0"),
        ([], 1.5, 5, "threshold must be above 0 and at most 1, got 1.5"),
        ([], 0.5, 0, "size must be a positive number, got 0"),
        ([("a", "x"), ("a", "y")], 0.5, 5, "ids must differ, got 'a' twice"),
    ],
)
def test_what_cannot_be_is_refused(documents, threshold, size, message):
    with pytest.raises(ValueError, match=message):
        list(exact_pairs(documents, threshold, size))


@pytest.mark.parametrize(
    "name, opener", [("c.jsonl", open), ("c.jsonl.gz", gzip.open), ("c.jsonl.bz2", bz2.open)]
)
def test_files_are_read_plain_and_compressed(tmp_path, name, opener):
    with opener(tmp_path / name, "wb") as file:
        file.write('{"id": 3, "text": "é\u2028e", "x": 1}\r\n\n{"id": "d", "text": ""}'.encode())
    assert list(read_documents([tmp_path / name])) == [("3", "é\u2028e"), ("d", "")]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"id": "a"}', '{"text": "a"}', '{"id": "a", "text": 1}', "\x80"]
)
def test_a_bad_line_is_named(tmp_path, line):
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": "b", "text": "b"}\n' + line.encode("latin-1") + b"\n")
    with pytest.raises(ValueError, match="line 2 of .*c.jsonl"):
        list(read_documents([path]))


def test_script_prints_tab_separated_pairs(tmp_path):
    path = tmp_path / "c.jsonl"
    texts = {"b": "to be or not", "a": "or not to be", "ü": "or not to be"}
    lines = [json.dumps({"id": id, "text": text}) + "\n" for id, text in texts.items()]
    path.write_text("".join(lines))
    options = ["--threshold", "0.5", "--shingle-size", "2"]
    command = [sys.executable, SCRIPTS / "exact_pairs.py", path, *options]
    result = subprocess.run(command, capture_output=True, check=True)
    assert result.stdout.decode() == "a\tb\t0.5\na\tü\t1.0\nb\tü\t0.5\n"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--threshold", "0"], "--threshold must be above 0 and at most 1, got 0.0"),
        (["--shingle-size", "0"], "--shingle-size must be a positive number, got 0"),
        ([], "No such file or directory: 'absent'"),
    ],
)
def test_script_refuses_in_one_line(arguments, message):
    command = [sys.executable, SCRIPTS / "exact_pairs.py", "absent", *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode and not result.stdout
    assert message in result.stderr.splitlines()[-1]
