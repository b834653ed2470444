import json

from mapreduce.errors import JobError

import numpy as np
import pytest
from running import blocks, run_job, write_documents, write_lines

import resolve
from lshlib.blocks import BlockProtocol
from lshlib.documents import record_keys
from lshlib.targets import ROUTE
from resolve import Resolve

WORDS = "one two three four five six seven eight nine ten".split()
# of five-word shingles a and b share 6 of 6, b and c 5 of 7, c and d 5 of 7, a and e none
TEXTS = {
    "a": " ".join(WORDS),
    "b": " ".join(WORDS).upper(),
    "c": " ".join([*WORDS[:9], "x"]),
    "d": " ".join(["y", *WORDS[1:9], "x"]),
    "e": "something else altogether and more",
}


@pytest.fixture
def corpus(tmp_path):
    return write_documents(tmp_path / "in.jsonl", [{"id": id_, "text": TEXTS[id_]} for id_ in TEXTS])


def keys_of(corpus):
    lines = corpus.read_bytes().splitlines()
    return dict(zip((json.loads(line)["id"] for line in lines), record_keys(lines).tolist()))


def run(corpus, pairs, *options, target=7, jaccard=None, partial=False):
    """(output lines, counters) for candidate pairs of ids, all of one target."""
    keys = keys_of(corpus)
    ends = np.array([sorted((keys[a], keys[b])) for a, b in pairs], np.uint64).reshape(-1, 2)
    block = {"first": ends[:, 0].copy(), "second": ends[:, 1].copy()}
    for name, dtype, value in (
        *[("bands", np.uint16, 3), ("first_size", np.uint32, 9), ("second_size", np.uint32, 9)],
        *[("first_mark", np.uint32, 0), ("second_mark", np.uint32, 0)],
        *[("target", np.uint64, target), ("partial", bool, partial)],
    ):
        block[name] = np.full(len(ends), value, dtype)
    if jaccard is not None:
        block["jaccard"] = np.array(jaccard)
    routes = np.zeros(len(np.unique(ends)), ROUTE)
    routes["key"], routes["target"] = np.unique(ends), target
    np.save(corpus.parent / "routes.npy", routes)
    path = write_lines(corpus.parent / "pairs", [BlockProtocol().write("pairs", block)])
    routes = f"--routes={corpus.parent / 'routes.npy'}"
    return run_job(Resolve, corpus, path, routes, "--input-format", "jsonl", *options)


def told(lines, kind):
    start = kind.encode() + b"\t"
    return [json.loads(line[len(start) :]) for line in lines if line.startswith(start)]


def test_pairs_are_measured_exactly(corpus):
    lines, counters = run(corpus, [("a", "b"), ("b", "c"), ("c", "d"), ("a", "e")], "--threshold", 0.7)
    assert sorted(tuple(pair.values()) for pair in told(lines, "pair")) == [
        ("a", "b", 1.0, 3),
        ("b", "c", 0.7143, 3),
        ("c", "d", 0.7143, 3),
    ]
    assert counters["verified pairs"] == 3


def test_only_verified_pairs_join(corpus):
    lines, counters = run(corpus, [("b", "c"), ("b", "a"), ("a", "e")], "--threshold", 0.7)
    assert told(lines, "cluster") == [
        {
            "survivor": "a",
            "size": 3,
            "members": [
                {"id": "b", "jaccard": 1.0, "linked_to": "a"},
                {"id": "c", "jaccard": 0.7143, "linked_to": "b"},
            ],
            "weakest": 0.7143,
        }
    ]
    assert (counters["clusters"], counters["removed"]) == (1, 2)


def test_removed_documents_come_as_keys(corpus):
    lines, _ = run(corpus, [("a", "b"), ("b", "c")], "--threshold", 0.7)
    keys = keys_of(corpus)
    assert sorted(blocks(lines, "removed")["key"]) == sorted([keys["b"], keys["c"]])


def test_no_verified_pair_gives_nothing(corpus):
    lines, counters = run(corpus, [("a", "e")])
    assert lines == []
    assert counters.get("clusters", 0) == 0


def test_known_similarities_are_not_measured_again(corpus):
    lines, _ = run(corpus, [("a", "e"), ("a", "b")], jaccard=[0.9, 0.95])
    assert sorted((p["id_b"], p["jaccard"]) for p in told(lines, "pair")) == [("b", 0.95), ("e", 0.9)]


def test_pairs_only_hands_on_the_verified_pairs(corpus):
    pairs = [("a", "b"), ("b", "c"), ("a", "e")]
    lines, _ = run(corpus, pairs, "--pairs-only", "--threshold", 0.7, partial=True)
    found, keys = blocks(lines, "pairs"), keys_of(corpus)
    assert {frozenset(ends) for ends in zip(found["first"], found["second"])} == {
        frozenset([keys["a"], keys["b"]]),
        frozenset([keys["b"], keys["c"]]),
    }
    assert sorted(round(x, 4) for x in found["jaccard"]) == [0.7143, 1.0]


@pytest.mark.parametrize("partial", [False, True])
def test_pairs_of_the_other_pass_are_left_alone(corpus, partial):
    options = [] if partial else ["--pairs-only"]
    assert run(corpus, [("a", "b")], *options, partial=partial)[0] == []


def test_document_that_is_missing_is_an_error(corpus):
    lines = corpus.read_bytes().splitlines()
    keys_of_all = keys_of(corpus)
    assert len(keys_of_all) == 5
    run(corpus, [("a", "b")])
    write_lines(corpus, lines[1:])
    arguments = [corpus, corpus.parent / "pairs", f"--routes={corpus.parent / 'routes.npy'}"]
    with pytest.raises(JobError, match="a document of a candidate pair is missing"):
        run_job(Resolve, *arguments, "--input-format", "jsonl")


@pytest.mark.parametrize("verify", ["exact", "signature", "none"])
def test_texts_in_a_file_give_the_same(corpus, monkeypatch, verify):
    arguments = [corpus, [("a", "b"), ("b", "c"), ("c", "d")], "--threshold", 0.5, "--verify", verify]
    expected = run(*arguments)
    monkeypatch.setattr(resolve, "HOLD", 1)
    monkeypatch.setattr(resolve, "BATCH", 1)
    assert run(*arguments) == expected


def test_rule_for_survivors_is_followed(corpus):
    lines, _ = run(corpus, [("a", "b"), ("b", "c")], "--threshold", 0.7, "--keep", "shortest")
    assert [cluster["survivor"] for cluster in told(lines, "cluster")] == ["c"]
