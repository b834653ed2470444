"""The output depends on the documents and the options, and on nothing else; and it is true."""

import bz2
import gzip
import json
import random
from functools import cache

from mapreduce import documents, runner

import pytest
from running import (
    DATA,
    SAMPLES,
    assert_same,
    clusters_of,
    components_of,
    deduplicate,
    family_corpus,
    footer_corpus,
    jaccard,
    neighbours,
    outcome,
    part_lines,
    records,
    run_script,
    same_corpus,
    shingle_sets,
    summary,
    true_pairs,
    write_documents,
)

import candidates
import dedup
import resolve
from components import Components
from lshlib import jaccard as jaccard_of_sets
from lshlib import minhash, texts
from lshlib.banding import best_choice, collision_chance

CORPORA = {
    "families": family_corpus(),
    "footer": footer_corpus(300, body=5, footer=60),  # 56 of 66 shingles: 0.848
    "unlike": footer_corpus(300, body=30, footer=50),  # 46 of 106: 0.434
    "same": same_corpus(200),
}
OPTIONS = {
    "default": [],
    "bag": ["--bag"],
    "capped": ["--bucket-cap", 1],
    "loose": ["--threshold", 0.4, "--keep", "longest"],
    "none": ["--verify", "none"],
    "signature": ["--verify", "signature"],
    "characters": ["--shingle-unit", "characters", "--shingle-size", 9],
}


@cache
def truth_of(corpus):
    return true_pairs(CORPORA[corpus])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A function for the outputs of runs over one plain file, each made once."""
    made = {}

    def run(corpus, options="default"):
        if (corpus, options) not in made:
            folder = tmp_path_factory.mktemp(f"{corpus}-{options}")
            path = write_documents(folder / "in.jsonl", CORPORA[corpus])
            made[corpus, options] = deduplicate(folder / "out", path, *OPTIONS[options])
        return made[corpus, options]

    return run


# what comes out is true


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("options", ["default", "capped"])
def test_pairs_are_true(undisturbed, corpus, options):
    truth = truth_of(corpus)
    pairs = records(undisturbed(corpus, options) / "pairs")
    for pair in pairs:
        assert pair["jaccard"] == round(truth[pair["id_a"], pair["id_b"]], 4)
    assert len({(pair["id_a"], pair["id_b"]) for pair in pairs}) == len(pairs)


def test_bags_are_measured_as_bags(undisturbed):
    truth = true_pairs(CORPORA["families"], bag=True)
    for pair in records(undisturbed("families", "bag") / "pairs"):
        assert pair["jaccard"] == round(truth[pair["id_a"], pair["id_b"]], 4)


def test_pairs_are_found_as_the_curve_foretells(undisturbed):
    """No more missed than expected and four standard errors of that."""
    out = undisturbed("families")
    truth = {pair: s for pair, s in truth_of("families").items() if pair[0] < pair[1]}
    assert len(truth) > 150
    found = {(pair["id_a"], pair["id_b"]) for pair in records(out / "pairs")}
    misses = [1 - collision_chance(s, *best_choice(0.8, 0.995)[:2]) for s in truth.values()]
    error = sum(p * (1 - p) for p in misses) ** 0.5
    assert len(truth.keys() - found) <= sum(misses) + 4 * error


@pytest.mark.parametrize("corpus, clusters", [("footer", 1), ("unlike", 0), ("same", 1)])
@pytest.mark.parametrize("options", ["default", "capped"])
def test_clusters_are_the_components_of_all_true_pairs(undisturbed, corpus, clusters, options):
    found = clusters_of(undisturbed(corpus, options))
    assert len(found) == clusters
    assert found == components_of(truth_of(corpus))


@pytest.mark.parametrize(
    "corpus, options", [*(("families", options) for options in OPTIONS), ("footer", "signature")]
)
def test_clusters_are_the_components_of_the_pairs(undisturbed, corpus, options):
    out = undisturbed(corpus, options)
    pairs = [(pair["id_a"], pair["id_b"]) for pair in records(out / "pairs")]
    assert clusters_of(out) == components_of(pairs)
    assert summary(out)["clusters"] == len(records(out / "clusters"))


@pytest.mark.parametrize("options", OPTIONS)
def test_the_rest_is_kept_in_its_order(undisturbed, options):
    out = undisturbed("families", options)
    gone = {member["id"] for cluster in records(out / "clusters") for member in cluster["members"]}
    lines = (out.parent / "in.jsonl").read_bytes().splitlines()
    kept = [line for line, d in zip(lines, CORPORA["families"]) if d["id"] not in gone]
    assert part_lines(out / "kept") == kept
    counts = summary(out)
    assert (counts["kept"], counts["removed"]) == (len(kept), len(gone))
    assert counts["documents"] == len(lines)


@pytest.mark.parametrize("corpus", ["families", "footer"])
def test_members_tell_their_similarity_to_the_survivor(undisturbed, corpus):
    sets = shingle_sets(CORPORA[corpus])
    clusters = records(undisturbed(corpus) / "clusters")
    assert clusters
    for cluster in clusters:
        for member in cluster["members"]:
            truth = jaccard(sets[cluster["survivor"]], sets[member["id"]])
            assert member["jaccard"] == round(truth, 4)
        assert cluster["weakest"] == min(member["jaccard"] for member in cluster["members"])


@pytest.mark.parametrize("corpus", ["families", "footer", "same"])
def test_members_are_linked_to_the_survivor_the_shortest_way(undisturbed, corpus):
    out = undisturbed(corpus)
    linked = neighbours((pair["id_a"], pair["id_b"]) for pair in records(out / "pairs"))
    for cluster in records(out / "clusters"):
        links = {member["id"]: member["linked_to"] for member in cluster["members"]}
        near, steps = {cluster["survivor"]}, {cluster["survivor"]: 0}
        while near:
            near = {other for one in near for other in linked[one]} - steps.keys()
            steps.update(dict.fromkeys(near, max(steps.values()) + 1))
        for one, other in links.items():
            assert other in linked[one]
            assert steps[one] == steps[other] + 1


def test_a_family_has_members_that_only_others_link(undisturbed):
    clusters = records(undisturbed("families") / "clusters")
    assert any(m["linked_to"] != c["survivor"] for c in clusters for m in c["members"])
    assert any(cluster["weakest"] < 0.8 for cluster in clusters)


def test_smallest_id_survives(undisturbed):
    for cluster in records(undisturbed("families") / "clusters"):
        assert all(cluster["survivor"] < member["id"] for member in cluster["members"])


def test_longest_text_survives(undisturbed):
    lengths = {document["id"]: len(document["text"]) for document in CORPORA["families"]}
    for cluster in records(undisturbed("families", "loose") / "clusters"):
        survivor = cluster["survivor"]
        for id_ in (member["id"] for member in cluster["members"]):
            assert (-lengths[survivor], survivor) < (-lengths[id_], id_)


@pytest.mark.parametrize("corpus", ["same", "footer"])
def test_pairs_of_one_bucket_are_not_squared(undisturbed, corpus):
    """At most `cap` predecessors a member and bucket, and what is left out is counted."""
    out = undisturbed(corpus, "capped")
    counts = summary(out)
    documents = counts["documents"]
    assert counts["candidate_pairs"] <= counts["bands"] * (documents - 1)
    if corpus == "same":
        assert (counts["candidate_pairs"], counts["pairs_left_out"]) == (documents - 1, 0)
    else:
        assert counts["pairs_left_out"] > 0


# and it is the same


@pytest.mark.parametrize("corpus", ["families", "footer"])
@pytest.mark.parametrize("cores", [1, 5])
def test_cores(undisturbed, tmp_path, corpus, cores):
    expected = undisturbed(corpus)
    out = deduplicate(tmp_path / "out", expected.parent / "in.jsonl", "--num-cores", cores)
    assert_same(outcome(out), outcome(expected))


@pytest.mark.parametrize(
    "corpus, options",
    [*(("families", options) for options in OPTIONS), ("footer", "default"), ("footer", "capped")],
)
def test_order_of_the_input(undisturbed, tmp_path, corpus, options):
    documents = list(CORPORA[corpus])
    random.Random(5).shuffle(documents)
    path = write_documents(tmp_path / "in.jsonl", documents)
    out = deduplicate(tmp_path / "out", path, *OPTIONS[options])
    assert_same(outcome(out), outcome(undisturbed(corpus, options)))


PACKS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize(
    "count, ending", [(1, ".gz"), (1, ".bz2"), *((7, e) for e in PACKS), (100, ""), (100, ".gz")]
)
def test_files(undisturbed, tmp_path, count, ending):
    expected = undisturbed("families")
    lines = (expected.parent / "in.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "in").mkdir()
    size = -(-len(lines) // count)
    for number in range(count):
        data = b"".join(lines[number * size : (number + 1) * size])
        (tmp_path / "in" / f"{number:03}.jsonl{ending}").write_bytes(PACKS[ending](data))
    out = deduplicate(tmp_path / "out", tmp_path / "in")
    assert_same(outcome(out), outcome(expected))
    assert part_lines(out / "kept") == part_lines(expected / "kept")


def set_target_size(monkeypatch, size):
    """Another default for Components' --target-size, which bounds what is verified together."""
    configure = Components.configure_args

    def configure_args(self):
        configure(self)
        self.arg_parser.set_defaults(target_size=size)

    monkeypatch.setattr(Components, "configure_args", configure_args)


def set_all(monkeypatch, *settings):
    for module, name, value in settings:
        assert hasattr(module, name)
        monkeypatch.setattr(module, name, value)


BATCHES = [(documents, "BATCH", 3000), (resolve, "BATCH", 3000)]
TO_FILES = [(resolve, "HOLD", 2000), (resolve, "BATCH", 1000)]
SPLITS = [(runner, "_LEAST_SPLIT", 1000), (runner, "_SPLIT", 50_000), (runner, "_PARTITION", 500_000)]
SLICES = [(dedup, "SLICE_ROWS", 100), (candidates, "DOCUMENTS", 10)]
CHUNKS = [
    *[(texts, "_PIECE", 100), (minhash, "_CHUNK", 70), (jaccard_of_sets, "_CHUNK", 50)],
    *[(jaccard_of_sets, "_TABLE", 500), (jaccard_of_sets, "_GATHER", 60)],
]
SMALL = {
    "batches": BATCHES,
    "batches of one": [(documents, "BATCH", 1), (resolve, "BATCH", 1)],
    "texts to files": TO_FILES,
    "splits": SPLITS,
    "slices": SLICES,
    "chunks": CHUNKS,
    "targets": [],
    "all": BATCHES + TO_FILES + SPLITS + SLICES + CHUNKS,
}
TARGET_SIZES = {"families": 400, "footer": 4000, "same": 4000}  # shingles


@pytest.mark.parametrize(
    "corpus, bounds",
    [
        *(("families", bounds) for bounds in SMALL if bounds != "all"),
        *(("footer", bounds) for bounds in ("texts to files", "targets", "all")),
        ("same", "targets"),
    ],
)
def test_bounds_of_memory(undisturbed, tmp_path, monkeypatch, corpus, bounds):
    expected = undisturbed(corpus)
    set_all(monkeypatch, *SMALL[bounds])
    in_parts = bounds in ("targets", "all")
    if in_parts:
        set_target_size(monkeypatch, TARGET_SIZES[corpus])
    out = deduplicate(tmp_path / "out", expected.parent / "in.jsonl")
    assert_same(outcome(out), outcome(expected))
    assert part_lines(out / "kept") == part_lines(expected / "kept")
    assert ("verify" in summary(out)["stages"]) == in_parts


@pytest.mark.parametrize("corpus", ["families", "same"])
def test_components_in_rounds_of_stars(undisturbed, tmp_path, corpus):
    expected = undisturbed(corpus)
    out = deduplicate(tmp_path / "out", expected.parent / "in.jsonl", "--edges-in-memory", 150)
    assert any("star" in name for name in summary(out)["stages"])
    assert_same(outcome(out), outcome(expected))


def test_rounds_of_stars_in_both_passes(undisturbed, tmp_path, monkeypatch):
    expected = undisturbed("footer")
    set_target_size(monkeypatch, TARGET_SIZES["footer"])
    out = deduplicate(tmp_path / "out", expected.parent / "in.jsonl", "--edges-in-memory", 4000)
    assert {name.split("-star")[0] for name in summary(out)["stages"]} == {
        *("candidates", "components-large", "components-small", "components", "verify"),
        *("components-again-large", "components-again-small", "components-again"),
        *("resolve", "pairs", "clusters", "keep"),
    }
    assert_same(outcome(out), outcome(expected))


def test_targets_of_one_pair(undisturbed, tmp_path, monkeypatch):
    expected = undisturbed("families")
    set_target_size(monkeypatch, 1)
    out = deduplicate(tmp_path / "out", expected.parent / "in.jsonl")
    assert_same(outcome(out), outcome(expected))


@pytest.mark.parametrize("options", ["bag", "capped", "loose", "none", "signature", "characters"])
def test_bounds_of_memory_with_options(undisturbed, tmp_path, monkeypatch, options):
    expected = undisturbed("families", options)
    set_all(monkeypatch, *BATCHES, *TO_FILES, *SLICES)
    set_target_size(monkeypatch, TARGET_SIZES["families"])
    out = deduplicate(tmp_path / "out", expected.parent / "in.jsonl", *OPTIONS[options])
    assert "verify" in summary(out)["stages"]
    assert_same(outcome(out), outcome(expected))


@pytest.mark.slow
def test_runner_of_mrjob(tmp_path):
    """Three files: one packed, one without a last newline, one with bad records."""
    lines = [json.dumps(document).encode() for document in CORPORA["families"]]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"\r\n".join(lines[:150])))
    (tmp_path / "b.jsonl").write_bytes(b"\n".join(lines[150:]))
    (tmp_path / "c.jsonl").write_bytes((SAMPLES / "bad.jsonl").read_bytes())
    arguments = [*sorted(tmp_path.glob("*.jsonl*")), "--skip-bad-records"]
    expected = deduplicate(tmp_path / "expected", *arguments)
    result = run_script(*arguments, "-r", "local", "--output-dir", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert_same(outcome(tmp_path / "out"), outcome(expected))
    assert len(part_lines(expected / "skipped")) == 6
    assert part_lines(tmp_path / "out" / "skipped") == part_lines(expected / "skipped")


# real texts


@pytest.mark.slow
def test_bbc_news_against_the_exact_twin(tmp_path):
    """Every exact pair is in one cluster, but for at most 0.5 %, and no pair is untrue."""
    path = DATA / "text" / "bbc_news.jsonl.gz"
    if not path.exists():
        pytest.skip(f"needs the BBC news at {path}")
    from exact_pairs import exact_pairs, read_documents

    out = deduplicate(tmp_path / "out", path)
    cluster = {id_: members for members in clusters_of(out) for id_ in members}
    truth = {(a, b): s for a, b, s in exact_pairs(read_documents([path]), 0.8)}
    assert len(truth) > 90
    missed = [(a, b) for a, b in truth if b not in cluster.get(a, ())]
    assert len(missed) <= 0.005 * len(truth)
    for pair in records(out / "pairs"):
        assert pair["jaccard"] == round(truth[pair["id_a"], pair["id_b"]], 4)
