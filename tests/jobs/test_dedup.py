import bz2
import gzip
import json
import random
import subprocess
import sys

import pytest
from running import (
    SAMPLES,
    SCRIPT,
    assert_same,
    clusters_of,
    deduplicate,
    edited,
    invented_text,
    outcome,
    part_lines,
    records,
    run_script,
    summary,
    write_documents,
    write_lines,
    write_texts,
)

NEWS = SAMPLES / "news.jsonl"


@pytest.fixture(scope="module")
def news(tmp_path_factory):
    return deduplicate(tmp_path_factory.mktemp("news") / "out", NEWS)


def documents_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(heading):
    """The rows of the table below a heading of data-samples/README.md, as lists of cells."""
    section = (
        (SAMPLES / "README.md").read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    )
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


# the samples


def test_pairs_of_the_sample_are_the_true_ones(news):
    found = sorted(f"{p['id_a']}\t{p['id_b']}\t{p['jaccard']:.4f}" for p in records(news / "pairs"))
    assert found == (SAMPLES / "news.pairs.tsv").read_text().splitlines()


def test_clusters_of_the_sample_are_those_of_its_readme(news):
    found = {c["survivor"]: sorted(m["id"] for m in c["members"]) for c in records(news / "clusters")}
    expected = {survivor: removed.split(", ") for survivor, removed in table("news.jsonl: clusters")}
    assert len(expected) == 14
    assert found == expected


def test_kept_lines_are_those_of_the_input_in_its_order(news):
    gone = {m["id"] for c in records(news / "clusters") for m in c["members"]}
    lines = NEWS.read_bytes().splitlines()
    assert part_lines(news / "kept") == [line for line in lines if json.loads(line)["id"] not in gone]


def test_survivors_and_removals_are_all_documents(news):
    counts = summary(news)
    assert (counts["documents"], counts["kept"], counts["removed"]) == (45, 26, 19)
    assert (counts["empty"], counts["skipped"], counts["clusters"]) == (2, 0, 14)
    assert counts["verified_pairs"] == len(records(news / "pairs")) == 24


def test_pair_lines_have_these_keys(news):
    for pair in records(news / "pairs"):
        assert list(pair) == ["id_a", "id_b", "jaccard", "bands"]
        assert pair["id_a"] < pair["id_b"]
        assert 1 <= pair["bands"] <= summary(news)["bands"]


def test_cluster_lines_have_these_keys(news):
    similarities = {frozenset([p["id_a"], p["id_b"]]): p["jaccard"] for p in records(news / "pairs")}
    for cluster in records(news / "clusters"):
        assert list(cluster) == ["survivor", "size", "members", "weakest"]
        assert cluster["size"] == len(cluster["members"]) + 1
        assert cluster["weakest"] == min(member["jaccard"] for member in cluster["members"])
        for member in cluster["members"]:
            assert list(member) == ["id", "jaccard", "linked_to"]
            assert frozenset([member["id"], member["linked_to"]]) in similarities


def test_chain_tells_what_its_end_was_linked_through(news):
    chain = next(c for c in records(news / "clusters") if c["survivor"] == "en-09")
    assert chain == {
        "survivor": "en-09",
        "size": 3,
        "members": [
            {"id": "en-10", "jaccard": 0.8374, "linked_to": "en-09"},
            {"id": "en-11", "jaccard": 0.6791, "linked_to": "en-10"},
        ],
        "weakest": 0.6791,
    }


def test_output_directory_holds_nothing_else(news):
    assert sorted(path.name for path in news.iterdir()) == ["clusters", "kept", "pairs", "summary.json"]


def test_readme_of_the_samples_holds_for_tsv(tmp_path):
    out = deduplicate(tmp_path / "out", SAMPLES / "news.tsv")
    (pair,) = records(out / "pairs")
    assert (pair["id_a"], pair["id_b"], pair["jaccard"]) == ("t-02", "t-07", 0.8148)
    lines = (SAMPLES / "news.tsv").read_bytes().splitlines()
    assert part_lines(out / "kept") == lines[:6] + lines[7:]


# as a script


def test_kept_lines_go_to_standard_output_and_the_summary_to_standard_error(news, tmp_path):
    result = run_script(NEWS, cwd=tmp_path)
    assert result.returncode == 0
    assert result.stdout == b"".join(line + b"\n" for line in part_lines(news / "kept"))
    assert b"documents         45 (2 empty)" in result.stderr
    assert b"kept              26" in result.stderr
    assert not list(tmp_path.iterdir())


def test_relative_output_directory(news, tmp_path):
    result = run_script(NEWS, "--output-dir", "out here", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == b""
    assert b"out here" in result.stderr
    assert_same(outcome(tmp_path / "out here"), outcome(news))


def test_relative_input_and_another_folder_to_work_in(news, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "news.jsonl").write_bytes(NEWS.read_bytes())
    result = run_script("in/news.jsonl", "--output-dir", tmp_path / "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert_same(outcome(tmp_path / "out"), outcome(news))


@pytest.mark.parametrize("dash", [["-"], []], ids=["dash", "nothing"])
def test_standard_input(news, dash):
    result = run_script(*dash, stdin=NEWS.read_bytes())
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == part_lines(news / "kept")


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress])
def test_packed_standard_input(news, packed):
    result = run_script("-", stdin=packed(NEWS.read_bytes()))
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == part_lines(news / "kept")


def test_standard_input_beside_a_file_keeps_the_order_given(tmp_path):
    path = write_documents(tmp_path / "b.jsonl", [{"id": "b", "text": "from the file"}])
    line = b'{"id": "a", "text": "from the pipe"}'
    result = run_script("-", path, stdin=line + b"\n")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [line, path.read_bytes().strip()]


def test_quiet_says_nothing():
    result = run_script(NEWS, "--quiet")
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout


def test_reader_that_has_seen_enough_is_no_error():
    command = f"'{sys.executable}' '{SCRIPT}' '{NEWS}' --quiet | head -c 10"
    result = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60)
    assert (len(result.stdout), result.stderr) == (10, b"")


def test_help_names_the_options():
    result = run_script("--help")
    assert result.returncode == 0
    for option in (b"--threshold", b"--keep", b"--output-dir", b"--skip-bad-records", b"--bucket-cap"):
        assert option in result.stdout


# inputs


def test_directories_and_globs_of_packed_and_plain_files(news, tmp_path):
    lines = NEWS.read_bytes().splitlines(keepends=True)
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.jsonl").write_bytes(b"".join(lines[:10]))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[10:30])))
    (folder / "deep" / "c.jsonl.bz2").write_bytes(bz2.compress(b"".join(lines[30:])))
    (folder / "_SUCCESS").write_bytes(b"no document")
    (folder / ".hidden").write_bytes(b"no document")
    for hidden in (".cache", "_temporary"):
        (folder / "deep" / hidden / "0").mkdir(parents=True)
        (folder / "deep" / hidden / "0" / "d.jsonl").write_bytes(b"no document")
    expected = outcome(news)
    assert_same(outcome(deduplicate(tmp_path / "1", folder)), expected)
    assert_same(outcome(deduplicate(tmp_path / "2", folder / "[ab].jsonl*", folder / "deep")), expected)


@pytest.mark.parametrize(
    "name",
    ["news[1].jsonl", "é: '#1.jsonl", "$HOME ?.jsonl"],
)
def test_file_names_are_taken_as_they_are(news, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(NEWS.read_bytes())
    assert_same(outcome(deduplicate(tmp_path / "out", path)), outcome(news))


def test_file_name_that_is_not_utf8(news, tmp_path):
    path = tmp_path / "caf\udce9.jsonl"
    try:
        path.write_bytes(NEWS.read_bytes())
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    assert_same(outcome(deduplicate(tmp_path / "out", path)), outcome(news))


@pytest.mark.parametrize("name", ["ö: '#1", "[out]", "$HOME ?"])
def test_output_directory_may_have_any_name(news, tmp_path, name):
    assert_same(outcome(deduplicate(tmp_path / name, NEWS)), outcome(news))


@pytest.mark.parametrize("ending", ["", ".gz", ".bz2"])
def test_tsv_is_known_by_its_name(tmp_path, ending):
    path = tmp_path / f"a.tsv{ending}"
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[ending]
    path.write_bytes(pack((SAMPLES / "news.tsv").read_bytes()))
    assert summary(deduplicate(tmp_path / "out", path))["kept"] == 7


def test_tsv_files_of_a_directory_are_known_by_their_names(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.tsv").write_bytes((SAMPLES / "news.tsv").read_bytes())
    assert summary(deduplicate(tmp_path / "out", tmp_path / "in"))["kept"] == 7


def test_tsv_under_another_name_by_option(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes((SAMPLES / "news.tsv").read_bytes())
    assert summary(deduplicate(tmp_path / "out", path, "--input-format", "tsv"))["kept"] == 7


def test_tsv_text_may_hold_tabs_and_the_id_anything(tmp_path):
    text = b"one two\tthree four five six"
    ids = [b"#block 1", b"#block ", b'"', "ü".encode(), b"\\u", b" ", b"{}", b"-1"]
    path = write_lines(tmp_path / "a.tsv", [id_ + b"\t" + text for id_ in ids])
    out = deduplicate(tmp_path / "out", path, "--input-format", "tsv")
    assert clusters_of(out) == {frozenset(id_.decode() for id_ in ids)}
    assert part_lines(out / "kept") == [b" \t" + text]


def test_line_ends_of_windows(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id": "b", "text": "x y z"}\r\n{"id": "a", "text": "x y z"}\r\n\r\n')
    out = deduplicate(tmp_path / "out", path)
    assert [line.rstrip(b"\r") for line in part_lines(out / "kept")] == [b'{"id": "a", "text": "x y z"}']


def test_lines_end_at_line_feeds_only(tmp_path):
    texts = ["one\u2028two", "one\x85two", "one\x0b\x0ctwo three", "one\x1ctwo three four"]
    documents = [{"id": n, "text": text} for n, text in enumerate(texts)]
    lines = [json.dumps(d, ensure_ascii=False).encode() for d in documents]
    out = deduplicate(tmp_path / "out", write_lines(tmp_path / "a.jsonl", lines))
    assert clusters_of(out) == {frozenset([0, 1])}
    assert part_lines(out / "kept") == [lines[0], *lines[2:]]


def test_a_document_of_two_megabytes(tmp_path):
    draw = random.Random(4)
    text = invented_text(draw, 350_000)
    path = write_texts(tmp_path / "a.jsonl", "small one", edited(draw, text, 100), "other", text)
    out = deduplicate(tmp_path / "out", path)
    assert clusters_of(out) == {frozenset(["d2", "d4"])}


def test_other_fields_pass_through(tmp_path):
    lines = [
        b'{"text":"a b","id":1,"nested":{"x":[1,2,{"y":null}]},"z":1.50}',
        b'  {"id": 2 , "text": "c\\u00e9 d", "id2": "\\ud83d\\ude00"}  ',
    ]
    out = deduplicate(tmp_path / "out", write_lines(tmp_path / "a.jsonl", lines))
    assert part_lines(out / "kept") == lines


def test_no_duplicates_at_all(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", "one two", "three four", "")
    out = deduplicate(tmp_path / "out", path)
    assert part_lines(out / "kept") == path.read_bytes().splitlines()
    assert records(out / "pairs") == records(out / "clusters") == []


def test_texts_without_words_are_in_no_pair(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", "", "", "...", "- -", "\x00", "\u200b")
    counts = summary(deduplicate(tmp_path / "out", path))
    assert (counts["empty"], counts["kept"], counts["candidate_pairs"]) == (6, 6, 0)


# ids


def test_integer_ids_stay_integers_and_sort_by_value(tmp_path):
    path = write_documents(
        tmp_path / "a.jsonl", [{"id": n, "text": "a b c"} for n in (10, 9, -1, 2**70, 100)]
    )
    out = deduplicate(tmp_path / "out", path)
    (cluster,) = records(out / "clusters")
    assert cluster["survivor"] == -1
    assert [member["id"] for member in cluster["members"]] == [9, 10, 100, 2**70]
    assert {(p["id_a"], p["id_b"]) for p in records(out / "pairs")} >= {(-1, 9), (9, 10), (10, 100)}


def test_integer_and_string_of_the_same_digits_are_two_ids(tmp_path):
    path = write_documents(tmp_path / "a.jsonl", [{"id": id_, "text": "a b c"} for id_ in ("1", 1, "01")])
    (cluster,) = records(deduplicate(tmp_path / "out", path) / "clusters")
    assert [cluster["survivor"], *(m["id"] for m in cluster["members"])] == [1, "01", "1"]


def test_ids_of_any_script_sort_by_code_points(tmp_path):
    ids = ["é", "e", "z", "日本", "\U0001f600", "\uffee", "", "a\tb\n", "\x00"]
    path = write_documents(tmp_path / "a.jsonl", [{"id": id_, "text": "a b c"} for id_ in ids])
    out = deduplicate(tmp_path / "out", path)
    (cluster,) = records(out / "clusters")
    assert [cluster["survivor"], *(m["id"] for m in cluster["members"])] == sorted(ids)
    assert all(p["id_a"] < p["id_b"] for p in records(out / "pairs"))
    assert b"\xe6\x97\xa5\xe6\x9c\xac" in b"".join(part_lines(out / "clusters"))


# options


SURVIVORS = [
    {"id": 5, "text": "Alpha beta gamma delta epsilon zeta", "date": "2024-02", "rank": 3.5},
    {"id": 3, "text": "Alpha, beta, gamma, delta, epsilon, zeta", "date": "2024-03", "rank": 10},
    {"id": 4, "text": "alpha beta gamma delta epsilon zeta", "date": "2024-01", "rank": "1"},
    {"id": 7, "text": "ALPHA beta, gamma, delta, epsilon, zeta!!", "date": "2024-03", "rank": 10},
]


@pytest.mark.parametrize(
    "rule, survivor",
    [
        ("smallest-id", 3),
        ("longest", 7),
        ("shortest", 4),
        ("max:date", 3),
        ("min:date", 4),
        ("max:rank", 4),  # strings after numbers
        ("min:rank", 5),
        ("max:id", 7),
        ("min:text", 7),
    ],
)
def test_keep_names_the_survivor(tmp_path, rule, survivor):
    path = write_documents(tmp_path / "a.jsonl", SURVIVORS)
    out = deduplicate(tmp_path / "out", path, "--keep", rule)
    assert [c["survivor"] for c in records(out / "clusters")] == [survivor]
    assert [d["id"] for d in records(out / "kept")] == [survivor]


def test_keep_goes_with_skipping_documents_without_the_field(tmp_path):
    path = write_documents(tmp_path / "a.jsonl", [*SURVIVORS, {"id": 8, "text": "alpha beta"}])
    out = deduplicate(tmp_path / "out", path, "--keep", "max:date", "--skip-bad-records")
    assert [r["line"] for r in records(out / "skipped")] == [5]
    assert [c["survivor"] for c in records(out / "clusters")] == [3]


def found(tmp_path, texts, *options):
    """[(id_a, id_b, jaccard)] of the pairs that a run over these texts verifies."""
    out = deduplicate(tmp_path / "out", write_texts(tmp_path / "a.jsonl", *texts), *options)
    return sorted((p["id_a"], p["id_b"], p["jaccard"]) for p in records(out / "pairs"))


TO_BE = ("to be or not to be", "to be or not to be or not to be")


def test_sets_ignore_how_often_a_shingle_occurs(tmp_path):
    # {to be, be or, or not, not to}
    assert found(tmp_path, TO_BE, "--shingle-size", 2) == [("d1", "d2", 1.0)]


def test_bags_count_how_often_a_shingle_occurs(tmp_path):
    # 5 runs of 2 words against 9, all 5 of them common
    options = ["--bag", "--shingle-size", 2, "--threshold", 0.5]
    assert found(tmp_path, TO_BE, *options) == [("d1", "d2", 0.5556)]


@pytest.mark.parametrize("threshold, pairs", [(0.5, 1), (0.6, 0)])
def test_pair_is_verified_from_the_threshold_on(tmp_path, threshold, pairs):
    # 3 of 5 words
    texts = "one two three four", "one two three five"
    found_ones = found(tmp_path, texts, "--shingle-size", 1, "--threshold", threshold + 0.1)
    assert len(found_ones) == pairs


def test_shingles_of_characters(tmp_path):
    # runs of 3: "abc bcd cde" and "abc bcd cdf"; a run of separators is one blank
    options = ["--shingle-unit", "characters", "--shingle-size", 3, "--threshold", 0.5]
    assert found(tmp_path, ["abcde", "ABcdf", "x - y", "x y"], *options) == [
        ("d1", "d2", 0.5),
        ("d3", "d4", 1.0),
    ]


def test_case_counts_without_normalising(tmp_path):
    texts = "Good night", "good night", "Good, night"
    assert found(tmp_path, texts, "--no-normalize") == [("d1", "d3", 1.0)]


def test_universal_signatures_find_the_pairs_of_the_sample(tmp_path, news):
    out = deduplicate(tmp_path / "out", NEWS, "--signature", "universal", "--recall", 0.9999)
    one, other = outcome(out)[0], outcome(news)[0]
    assert (one["clusters"], one["kept"]) == (other["clusters"], other["kept"])


def test_seed_changes_the_bands_and_not_the_pairs(tmp_path, news):
    out = deduplicate(tmp_path / "out", NEWS, "--seed", -7, "--recall", 0.9999)
    one, other = records(out / "pairs"), records(news / "pairs")
    assert [p.pop("bands") for p in one] != [p.pop("bands") for p in other]
    assert sorted(map(str, one)) == sorted(map(str, other))


def test_signatures_estimate_the_similarity(tmp_path):
    """Within four standard errors, sqrt(s (1 - s) / length)."""
    options = ["--verify", "signature", "--bands", 100, "--rows", 5, "--threshold", 0.6]
    out = deduplicate(tmp_path / "out", NEWS, *options)
    estimates = {(p["id_a"], p["id_b"]): p["jaccard"] for p in records(out / "pairs")}
    for line in (SAMPLES / "news.pairs.tsv").read_text().splitlines():
        a, b, s = line.split("\t")
        error = (float(s) * (1 - float(s)) / 500) ** 0.5
        assert abs(estimates[a, b] - float(s)) <= 4 * error + 0.0001


def test_every_candidate_is_a_pair_without_verification(tmp_path):
    out = deduplicate(tmp_path / "out", NEWS, "--verify", "none")
    pairs, counts = records(out / "pairs"), summary(out)
    assert len(pairs) == counts["candidate_pairs"] == counts["verified_pairs"] >= 24
    assert {pair["jaccard"] for pair in pairs} == {None}
    for cluster in records(out / "clusters"):
        assert cluster["weakest"] is None
        assert {member["jaccard"] for member in cluster["members"]} == {None}


def test_several_text_fields_are_compared_together(tmp_path):
    documents = [
        {"id": 1, "title": "One two", "body": "three four five six"},
        {"id": 2, "title": "One two three", "body": "four five six"},
        {"id": 3, "title": "Seven eight", "body": "three four five six"},
    ]
    path = write_documents(tmp_path / "a.jsonl", documents)
    out = deduplicate(tmp_path / "1", path, "--text-field", "title", "--text-field", "body")
    assert clusters_of(out) == {frozenset([1, 2])}
    out = deduplicate(tmp_path / "2", path, "--text-field", "body")
    assert clusters_of(out) == {frozenset([1, 3])}


def test_other_names_of_fields(tmp_path):
    path = write_documents(tmp_path / "a.jsonl", [{"näme": n, "-x": "a b c"} for n in "ab"])
    out = deduplicate(tmp_path / "out", path, "--id-field=näme", "--text-field=-x")
    assert clusters_of(out) == {frozenset("ab")}


def test_more_bands_find_less_similar_pairs(tmp_path):
    texts = [" ".join(f"w{n}" for n in range(start, start + 100)) for start in (0, 40)]
    options = ["--threshold", 0.3, "--bands", 200, "--rows", 2]
    # 96 runs of 5 words each, 56 of them common
    assert found(tmp_path, texts, *options) == [("d1", "d2", round(56 / 136, 4))]


def test_shingle_size_beyond_every_text_compares_whole_texts(tmp_path):
    texts = "a b c", "A b, c", "a b c d", ""
    assert found(tmp_path, texts, "--shingle-size", 100) == [("d1", "d2", 1.0)]


@pytest.mark.slow
def test_shingle_size_of_a_slip_of_the_finger_ends_soon(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", "a b c", "A b, c")
    result = subprocess.run(
        [sys.executable, SCRIPT, path, "--shingle-size", "1000000000", "--quiet"],
        capture_output=True,
        timeout=10,
    )
    assert result.stdout.count(b"\n") == 1


def test_summary_tells_parameters_and_stages(news):
    told = summary(news)
    assert told["parameters"]["--threshold"] == 0.8
    assert told["parameters"]["--seed"] == 0
    assert list(told["stages"]) == [*("candidates", "components", "resolve"), *("pairs", "clusters", "keep")]
    for stage in told["stages"].values():
        assert stage["seconds"] >= 0 and stage["read"] > 0 and stage["written"] > 0
    assert (told["bands"], told["rows"]) == (14, 5)
    assert told["seconds"] >= 0
