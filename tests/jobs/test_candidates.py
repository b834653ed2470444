import json
import random

from mapreduce.errors import JobError

import numpy as np
import pytest
from running import TOP, blocks, run_job, run_script, write_documents, write_lines, write_texts

from candidates import Candidates
from lshlib.banding import collision_chance
from lshlib.documents import record_keys


def run(path, *options):
    """({(key, key): bands}, counters) of the job over a file."""
    lines, counters = run_job(Candidates, path, *options)
    pairs = blocks(lines, "pairs")
    bands = {}
    for first, second, shared in zip(pairs["first"], pairs["second"], pairs["bands"]):
        bands[first, second] = bands.get((first, second), 0) + shared
    return bands, counters


def keys_of(path):
    return record_keys(path.read_bytes().splitlines()).tolist()


def pair(a, b):
    return min(a, b), max(a, b)


def test_copies_meet_in_every_band(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", "one two three", "four five", "ONE, two; three")
    one, _, other = keys_of(path)
    assert run(path, "--bands", 7, "--rows", 3)[0] == {pair(one, other): 7}


def test_unlike_texts_do_not_meet(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", *(f"one{n} two{n} three{n}" for n in range(500)))
    assert run(path)[0] == {}


def test_empty_texts_do_not_meet(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", "", "...", "one", " ")
    bands, counters = run(path)
    assert bands == {}
    assert (counters["documents"], counters["empty"]) == (4, 3)


def test_nothing_but_empty_texts(tmp_path):
    bands, counters = run(write_texts(tmp_path / "a.jsonl", "", "..."))
    assert (bands, counters["documents"], counters["empty"]) == ({}, 2, 2)


def test_pair_blocks_tell_sizes_in_the_order_of_the_keys(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", *["a b c d e f g"] * 4)
    pairs = blocks(run_job(Candidates, path)[0], "pairs")
    assert all(first < second for first, second in zip(pairs["first"], pairs["second"]))
    assert set(pairs["first"]) | set(pairs["second"]) == set(keys_of(path))
    # at least the number of shingles, 3, and at most that of tokens
    assert set(pairs["first_size"] + pairs["second_size"]) <= set(range(3, 8))


@pytest.mark.parametrize("signature", ["fast", "universal"])
def test_texts_meet_as_often_as_the_curve_says(tmp_path, signature):
    """600 pairs with 30 of 50 words in common: within four standard errors of 1 - (1 - 0.6^3)^8."""
    texts = []
    for n in range(600):
        common = [f"common{n}x{i}" for i in range(30)]
        texts += [" ".join(common + [f"own{n}x{i}x{side}" for i in range(10)]) for side in (0, 1)]
    path = write_texts(tmp_path / "a.jsonl", *texts)
    options = ["--signature", signature, "--shingle-size", 1, "--bands", 8, "--rows", 3]
    keys, met = keys_of(path), run(path, *options)[0]
    found = sum(pair(*keys[n : n + 2]) in met for n in range(0, 1200, 2))
    chance = collision_chance(0.6, 8, 3)
    assert abs(found / 600 - chance) <= 4 * (chance * (1 - chance) / 600) ** 0.5


def test_ten_thousand_copies_are_a_star(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", *["one two three four five six"] * 10_000)
    bands, counters = run(path, "--bucket-cap", 5)
    assert len(bands) == 9_999
    (centre,) = set.intersection(*map(set, bands))
    assert centre == min(keys_of(path))
    assert counters.get("pairs left out by the cap", 0) == 0


@pytest.mark.parametrize("cap, pairs", [(1, 29), (3, 84), (28, 434), (29, 435), (100, 435)])
def test_cap_bounds_the_pairs_of_a_member(cap, pairs):
    """29 + 28 + ... + 1 pairs without a cap; with it, that many predecessors each."""
    job = Candidates(["--bucket-cap", str(cap)])
    numbers = np.arange(30)
    rows = {
        "bucket": np.zeros(30, np.uint64),
        "mark": numbers.astype(np.uint32),
        "key": numbers.astype(np.uint64),
        "size": np.ones(30, np.uint32),
    }
    ((_, found),) = job.pair_bucket_members("buckets 0", iter([rows]))
    assert len(found["first"]) == pairs
    assert job._counts["pairs left out by the cap"] == 435 - pairs


@pytest.mark.parametrize("slices", [1, 3, 1000])
def test_number_of_slices_changes_no_pair(tmp_path, slices):
    draw = random.Random(1)
    texts = [" ".join(draw.choices("abcdefgh", k=6)) for _ in range(300)]
    path = write_texts(tmp_path / "a.jsonl", *texts)
    options = ["--shingle-size", 2, "--threshold", 0.5]
    assert run(path, *options, "--slices", slices)[0] == run(path, *options)[0]


def test_seed_changes_who_meets(tmp_path):
    draw = random.Random(2)
    texts = [" ".join(draw.choices("abcdefgh", k=6)) for _ in range(100)]
    path = write_texts(tmp_path / "a.jsonl", *texts)
    options = [path, "--shingle-size", 2, "--threshold", 0.5, "--seed"]
    assert run(*options, 3)[0] == run(*options, 3)[0] != run(*options, 4)[0]


def test_id_given_twice_is_an_error(tmp_path):
    path = write_documents(tmp_path / "a.jsonl", [{"id": "a", "text": text} for text in "xy"])
    with pytest.raises(JobError, match="an id is given twice"):
        run(path)


def test_bad_lines_are_handed_on_when_skipped(tmp_path):
    lines = [b"{", b'{"id": 1, "text": "a"}', b"", b"[]"]
    found, counters = run_job(Candidates, write_lines(tmp_path / "a.jsonl", lines), "--skip-bad-records")
    skipped = blocks(found, "skipped")
    assert sorted(skipped["key"]) == sorted(record_keys([lines[0], lines[3]]).tolist())
    text = bytes(skipped["record"]).decode()
    assert sorted(json.loads(part + "}")["line"] for part in text.split("}")[:-1]) == [1, 4]
    assert (counters["documents"], counters["skipped"]) == (1, 2)


def test_step_alone_pairs_the_members_of_buckets():
    job = Candidates(["--bucket-cap", "1"])
    rows = {
        "bucket": np.array([5, 6, 5, 6, 5], np.uint64),
        "mark": np.array([1, 1, 2, 2, 3], np.uint32),
        "key": np.array([10, 10, 30, 30, 20], np.uint64),
        "size": np.array([1, 1, 3, 3, 2], np.uint32),
    }
    ((_, found),) = job.pair_bucket_members("buckets 0", iter([rows]))
    pairs = zip(*(found[name].tolist() for name in ("first", "second", "bands", "first_size", "second_size")))
    assert sorted(pairs) == [(10, 30, 2, 1, 3), (20, 30, 1, 2, 3)]


def test_tasks_know_the_format_by_the_name_of_the_input(tmp_path):
    path = write_lines(tmp_path / "a.tsv", [b"1\tone two", b"2\tone two"])
    script = TOP / "jobs" / "candidates.py"
    result = run_script(path, "-r", "local", "--no-conf", "-q", script=script)
    assert result.returncode == 0, result.stderr.decode()
    assert b"#block pairs\t" in result.stdout
