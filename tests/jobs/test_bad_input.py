"""Whatever is wrong with the input, the options or the machine: one clear line, and no half output."""

import bz2
import gzip
import json
import os
import resource
import subprocess
import sys

from mapreduce import runner
from mapreduce.errors import JobError

import pytest
from running import (
    SAMPLES,
    SCRIPT,
    TOP,
    clusters_of,
    deduplicate,
    family_corpus,
    part_lines,
    records,
    refusal,
    run_here,
    run_script,
    summary,
    write_documents,
    write_lines,
    write_texts,
)

NEWS = SAMPLES / "news.jsonl"
AS_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")


def refused(folder, *arguments, **settings):
    """The line that a run into folder/out ends with; nothing may look complete there."""
    out = folder / "out"
    run = run_script if settings else run_here
    line = refusal(run(*arguments, "--output-dir", out, **settings))
    for name in ("kept", "clusters", "pairs", "summary.json"):
        assert not (out / name).exists(), name
    return line


# files


def test_no_such_file(tmp_path):
    assert (
        refused(tmp_path, tmp_path / "absent.jsonl", timeout=60) == f"no such file: {tmp_path}/absent.jsonl"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_pipe_given_as_a_file_is_read_or_refused(tmp_path):
    """As by `jobs/dedup.py <(zcat a.gz)`: it has no size, and yet it is not empty."""
    reader, writer = os.pipe()
    with open(writer, "wb") as pipe:
        pipe.write(GOOD + b"\n")
    result = run_script(f"/dev/fd/{reader}", "--quiet", pass_fds=[reader])
    os.close(reader)
    if result.returncode:
        assert f"/dev/fd/{reader}" in refusal(result)
    else:
        assert result.stdout == GOOD + b"\n"


def test_link_to_nowhere_in_a_directory(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").symlink_to("absent")
    assert refused(tmp_path, tmp_path / "in") == f"no such file: {tmp_path}/in/a.jsonl"


def test_one_of_several_files_is_absent(tmp_path):
    assert refused(tmp_path, NEWS, tmp_path / "absent*").endswith("absent*")


def test_empty_directory(tmp_path):
    (tmp_path / "in").mkdir()
    line = refused(tmp_path, tmp_path / "in")
    assert line == f"a directory given as input must hold files, got an empty one: {tmp_path}/in"


@AS_ROOT
def test_file_that_may_not_be_read(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", "text")
    path.chmod(0)
    assert refused(tmp_path, path) == f"Permission denied: {path}"


@AS_ROOT
def test_directory_that_may_not_be_read(tmp_path):
    (tmp_path / "in" / "closed").mkdir(parents=True)
    write_texts(tmp_path / "in" / "closed" / "a.jsonl", "text")
    write_texts(tmp_path / "in" / "b.jsonl", "text")
    (tmp_path / "in" / "closed").chmod(0)
    try:
        assert "closed" in refused(tmp_path, tmp_path / "in")
    finally:
        (tmp_path / "in" / "closed").chmod(0o700)


# records

GOOD = b'{"id": "d1", "text": "one two three"}'
BAD = {
    "invalid JSON": (b'{"id": "x", "text": ', "not JSON"),
    "two values": (b'{"id": "x", "text": "y"} {}', "not JSON"),
    "array": (b'["x", "text"]', "not a JSON object"),
    "string": (b'"x"', "not a JSON object"),
    "no id": (b'{"text": "y"}', 'no "id"'),
    "no text": (b'{"id": "x"}', 'no "text"'),
    "text a number": (b'{"id": "x", "text": 1}', '"text" is not a string'),
    "text null": (b'{"id": "x", "text": null}', '"text" is not a string'),
    "text a list": (b'{"id": "x", "text": ["y"]}', '"text" is not a string'),
    "id a float": (b'{"id": 1.0, "text": "y"}', '"id" is neither a string nor an integer'),
    "id a bool": (b'{"id": true, "text": "y"}', '"id" is neither a string nor an integer'),
    "id null": (b'{"id": null, "text": "y"}', '"id" is neither a string nor an integer'),
    "id an object": (b'{"id": {}, "text": "y"}', '"id" is neither a string nor an integer'),
    "not UTF-8": (b'{"id": "x", "text": "caf\xe9"}', "not UTF-8"),
    "surrogate in UTF-8": (b'{"id": "x", "text": "\xed\xa0\x80"}', "not UTF-8"),
    "lone surrogate": (rb'{"id": "x", "text": "\ud800"}', "a lone surrogate"),
    "lone surrogate in id": (rb'{"id": "\udc00", "text": "y"}', "a lone surrogate"),
    "UTF-16": ('{"id": "x", "text": "y"}'.encode("utf-16"), "not UTF-8"),
    "line break in a string": (b'{"id": "x", "text": "', "not JSON"),
    "deep": (b"[" * 100_000, "not "),
    "digits": (b'{"id": ' + b"9" * 5000 + b', "text": "y"}', ""),
    "NUL": (b"\0", "not JSON"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_record_is_named_with_file_and_line(tmp_path, kind):
    record, reason = BAD[kind]
    if kind == "digits" and not hasattr(sys, "get_int_max_str_digits"):
        pytest.skip("this Python reads integers of any length")
    path = write_lines(tmp_path / "a.jsonl", [GOOD, b"", record, GOOD])
    line = refused(tmp_path, path)
    assert line.startswith(f"line 3 of {path}: {reason}")
    assert len(line) < 400


def test_control_characters_of_a_bad_record_do_not_reach_the_terminal(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [b"\x1b[2J\x1b]0;title\x07 \x0c\x0b\xc2\x85"])
    line = refused(tmp_path, path)
    assert line.startswith(f"line 1 of {path}: not JSON")
    assert line.isprintable()


def test_bad_records_are_found_within_this_process(tmp_path):
    """Each kind as the only line of a file that was packed."""
    for kind, (record, _) in BAD.items():
        path = tmp_path / f"{kind}.jsonl.gz"
        path.write_bytes(gzip.compress(record))
        if kind != "digits":
            with pytest.raises(JobError, match=f"^line 1 of {path}: "):
                deduplicate(tmp_path / kind, path)


def test_bad_tsv_line(tmp_path):
    path = write_lines(tmp_path / "a.tsv", [b"d1\tone two", b"d2 one two"])
    assert refused(tmp_path, path) == f"line 2 of {path}: no tab between id and text in d2 one two"


def test_relative_path_stays_as_it_was_given(tmp_path):
    write_lines(tmp_path / "a.jsonl", [b"{"])
    assert refused(tmp_path, "a.jsonl", cwd=tmp_path).startswith("line 1 of a.jsonl: not JSON")


def test_bad_record_of_standard_input(tmp_path):
    line = refused(tmp_path, "-", stdin=GOOD + b"\n{")
    assert line.startswith("line 2 of standard input: not JSON")


def test_bad_record_without_an_output_directory(tmp_path):
    write_lines(tmp_path / "a.jsonl", [GOOD, b"{"])
    result = run_script("a.jsonl", cwd=tmp_path)
    assert refusal(result).startswith("line 2 of a.jsonl: not JSON")
    assert result.stdout == b""


def test_failing_run_leaves_no_temporary_files(tmp_path):
    write_lines(tmp_path / "a.jsonl", [GOOD, b"{"])
    (tmp_path / "tmp").mkdir()
    refusal(run_script("a.jsonl", cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path / "tmp")}))
    assert not list((tmp_path / "tmp").iterdir())


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Lines of more than 5 MB together, which are split among tasks, and places for bad ones in it."""
    lines = [json.dumps({"id": n, "text": f"{n} " + "word " * 199}).encode() for n in range(5000)]
    return tmp_path_factory.mktemp("large"), lines


@pytest.mark.parametrize("place", [0, 1234, 4999])
def test_line_number_in_a_large_file(large, tmp_path, place):
    folder, lines = large
    path = write_lines(folder / "a.jsonl", [*lines[:place], b"[]", *lines[place + 1 :]])
    assert path.stat().st_size > 5_000_000
    with pytest.raises(JobError, match=f"^line {place + 1} of {path}: not a JSON object"):
        deduplicate(tmp_path / "out", path, "--num-cores", 2)


def test_line_number_in_a_large_packed_file(large, tmp_path):
    folder, lines = large
    path = folder / "b.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join([*lines[:4321], b"[]", *lines[4322:]]), 1))
    with pytest.raises(JobError, match=f"^line 4322 of {path}: not a JSON object"):
        deduplicate(tmp_path / "out", path)


def test_line_number_in_small_splits_of_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_LEAST_SPLIT", 100)
    monkeypatch.setattr(runner, "_SPLIT", 1000)
    lines = [json.dumps(document).encode() for document in family_corpus(60)]
    write_lines(tmp_path / "a.jsonl", lines[:20])
    path = write_lines(tmp_path / "b.jsonl", [*lines[20:40], b"", b"5", *lines[40:]])
    with pytest.raises(JobError, match=f"^line 22 of {path}: not a JSON object"):
        deduplicate(tmp_path / "out", tmp_path / "a.jsonl", path)


@pytest.mark.slow
def test_line_number_with_the_local_runner(large, tmp_path):
    folder, lines = large
    place = 4700
    path = write_lines(folder / "c.jsonl", [*lines[:place], b"[]", *lines[place + 1 :]])
    line = refused(tmp_path, path, "-r", "local", timeout=100)
    assert line == f"line {place + 1} of {path}: not a JSON object: []"


@pytest.mark.slow
def test_damaged_file_with_the_local_runner(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(NEWS.read_bytes())[:-200])
    assert str(path) in refused(tmp_path, path, "-r", "local", timeout=100)


# ids


@pytest.mark.parametrize("id_", ['"d1"', "17", '"\\u00e9"'])
def test_id_given_twice(tmp_path, id_):
    lines = [f'{{"id": {id_}, "text": "{text}"}}'.encode() for text in ("one", "two")]
    path = write_lines(tmp_path / "a.jsonl", [lines[0], b'{"id": 1, "text": ""}', b"", lines[1]])
    shown = refused(tmp_path, path).encode().decode()
    assert f"twice: line 1 of {path} and line 4 of {path}" in shown
    assert json.dumps(json.loads(id_)) in shown or json.loads(id_) in shown


def test_id_given_twice_across_files(tmp_path):
    one = write_texts(tmp_path / "a.jsonl", "one", "two")
    other = tmp_path / "b.jsonl.gz"
    other.write_bytes(gzip.compress(b'\n{"text": "three", "id": "d2"}'))
    line = refused(tmp_path, one, other)
    assert line == f'ids must differ, got "d2" twice: line 2 of {one} and line 1 of {other}'.replace(
        "line 1 of", "line 2 of", 1
    )


def test_one_file_given_twice(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", "one")
    assert "twice" in refused(tmp_path, path, path)


def test_id_given_twice_in_tsv(tmp_path):
    path = write_lines(tmp_path / "a.tsv", [b"x\tone", b"x\ttwo"])
    line = refused(tmp_path, path, "--input-format", "tsv")
    assert line == f'ids must differ, got "x" twice: line 1 of {path} and line 2 of {path}'


def test_integers_and_strings_of_any_content_are_different_ids(tmp_path):
    ids = [5, "5", "\x005", '"5"', "05", 50, "5 "]
    path = write_documents(tmp_path / "a.jsonl", [{"id": id_, "text": "a b"} for id_ in ids])
    assert summary(deduplicate(tmp_path / "out", path))["documents"] == len(ids)


# damaged files


def damaged(data):
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0xFF]) + data[len(data) // 2 + 1 :]


@pytest.mark.parametrize(
    "name, data",
    [
        ("truncated.jsonl.gz", gzip.compress(NEWS.read_bytes())[:-100]),
        ("plain.jsonl.gz", NEWS.read_bytes()),
        ("damaged.jsonl.gz", damaged(gzip.compress(NEWS.read_bytes()))),
        ("checksum.jsonl.gz", gzip.compress(NEWS.read_bytes())[:-8] + b"\0" * 8),
        ("trailing.jsonl.gz", gzip.compress(NEWS.read_bytes()) + b"rubbish"),
        ("truncated.jsonl.bz2", bz2.compress(NEWS.read_bytes())[:-100]),
        ("plain.jsonl.bz2", NEWS.read_bytes()),
        ("damaged.jsonl.bz2", damaged(bz2.compress(NEWS.read_bytes()))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_packed_file(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    line = refused(tmp_path, path)
    assert line.startswith(f"{path} is truncated or damaged: ") or "not " in line


def test_truncated_file_after_its_first_good_lines_is_no_skipped_record(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(NEWS.read_bytes())[:-100])
    assert "truncated" in refused(tmp_path, path, "--skip-bad-records")


# options


@pytest.mark.parametrize(
    "options, line",
    [
        (["--threshold", "0"], "--threshold must be above 0 and at most 1, got 0.0"),
        (["--threshold", "1.5"], "--threshold must be above 0 and at most 1, got 1.5"),
        (["--threshold", "nan"], "--threshold must be above 0 and at most 1, got nan"),
        (["--threshold", "-1"], "--threshold must be above 0 and at most 1, got -1.0"),
        (["--threshold", "x"], "argument --threshold: invalid float value: 'x'"),
        (["--recall", "0"], "--recall must be above 0 and below 1, got 0.0"),
        (["--recall", "1"], "--recall must be above 0 and below 1, got 1.0"),
        (["--recall", "nan"], "--recall must be above 0 and below 1, got nan"),
        (["--bands", "5"], "--bands and --rows must be given together, got only --bands"),
        (["--rows", "5"], "--bands and --rows must be given together, got only --rows"),
        (["--bands", "0", "--rows", "5"], "--bands must be at least 1, got 0"),
        (["--bands", "5", "--rows", "-5"], "--rows must be at least 1, got -5"),
        (["--bands", "1000", "--rows", "1000"], "--bands x --rows must be at most 4096, got 1000000"),
        (["--bands", "2.5", "--rows", "2"], "argument --bands: invalid int value: '2.5'"),
        (
            ["--threshold", "0.0001"],
            "no bands x rows up to 4096 finds pairs at threshold 0.0001 with chance 0.995",
        ),
        (
            ["--threshold", "1e-308"],
            "no bands x rows up to 4096 finds pairs at threshold 1e-308 with chance 0.995",
        ),
        (["--shingle-size", "0"], "--shingle-size must be at least 1, got 0"),
        (["--bucket-cap", "0"], "--bucket-cap must be at least 1, got 0"),
        (
            ["--keep", "nonsense"],
            "--keep must be smallest-id, longest, shortest, max:FIELD or min:FIELD, got nonsense",
        ),
        (
            ["--keep", "max:"],
            "--keep must be smallest-id, longest, shortest, max:FIELD or min:FIELD, got max:",
        ),
        (["--edges-in-memory", "-1"], None),
        (["--no-such-option"], "unrecognized arguments: --no-such-option"),
        (["--verify", "maybe"], None),
        (["--signature", "simhash"], None),
        (["--shingle-unit", "bytes"], None),
        (["--input-format", "xml"], None),
        (["-r", "nowhere"], None),
        (["--num-cores", "-3"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_option_stops_before_anything_runs(tmp_path, options, line):
    if options[0] == "--num-cores":
        told = refused(tmp_path, NEWS, *options, timeout=10)
    else:
        told = refused(tmp_path, NEWS, *options)
    if line is None:
        assert options[0].lstrip("-") in told
    else:
        assert told == line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value, shown", [("[1]", "x"), ("null", "x"), ("true", "x"), ("NaN", "x")])
def test_field_of_keep_must_be_comparable(tmp_path, value, shown):
    path = write_lines(tmp_path / "a.jsonl", [b'{"id": 1, "text": "a", "x": %s}' % value.encode()])
    line = refused(tmp_path, path, "--keep", "max:x")
    assert line.startswith(f'line 1 of {path}: "{shown}" is neither string nor number')


def test_field_of_keep_must_be_in_every_document(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [b'{"id": 1, "text": "a", "x": 2}', b'{"id": 2, "text": "b"}'])
    assert refused(tmp_path, path, "--keep", "max:x").startswith(f'line 2 of {path}: no "x" in ')


def test_field_of_keep_may_hold_a_lone_surrogate(tmp_path):
    """It is in no output but the line itself; so it may as well be refused, with its place."""
    lines = [rb'{"id": %d, "text": "a", "x": "\ud80%d"}' % (n, n) for n in (1, 2)]
    path = write_lines(tmp_path / "a.jsonl", lines)
    result = run_script(path, "--keep", "max:x")
    if result.returncode:
        assert refusal(result).startswith(f"line 1 of {path}: ")
    else:
        assert result.stdout == lines[1] + b"\n"


def test_tsv_has_no_field_to_keep_by(tmp_path):
    path = write_lines(tmp_path / "a.tsv", [b"1\ta"])
    assert refused(tmp_path, path, "--keep", "max:x") == "--keep max:x needs JSON documents, got TSV"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_formats_must_not_be_mixed(tmp_path, ending):
    one, other = tmp_path / f"a.tsv{ending}", write_texts(tmp_path / "b.jsonl", "x")
    one.write_bytes(b"")
    line = refused(tmp_path, one, other)
    assert line == "all input files must be of one format, got both .tsv and others"


def test_formats_must_not_be_mixed_in_a_directory(tmp_path):
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "a.tsv", [b"1\ta"])
    write_texts(tmp_path / "in" / "b.jsonl", "x")
    line = refused(tmp_path, tmp_path / "in")
    assert line == "all input files must be of one format, got both .tsv and others"


# the output directory


def test_output_directory_that_is_not_empty(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    line = refused(tmp_path, NEWS)
    assert line == f"--output-dir must be empty or hold a run, got {tmp_path}/out with thesis.txt in it"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["summary.json", ".run/parameters.json"])
@pytest.mark.parametrize("data", [b'{"a": 1}', b"[]", b"", b'{"parameters": {"--thr', b"\xff"])
def test_output_directory_of_another_program(tmp_path, name, data):
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    line = refusal(run_here(NEWS, "--output-dir", tmp_path / "out"))
    assert str(tmp_path / "out") in line
    assert path.read_bytes() == data


def test_empty_output_directory_is_taken(tmp_path):
    (tmp_path / "out").mkdir()
    assert summary(deduplicate(tmp_path / "out", NEWS))["kept"] == 26


def test_output_directory_below_absent_ones(tmp_path):
    assert summary(deduplicate(tmp_path / "a" / "b" / "out", NEWS))["kept"] == 26


def test_output_directory_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("precious")
    result = run_here(NEWS, "--output-dir", tmp_path / "out")
    assert refusal(result) == f"--output-dir must be a directory, got the file {tmp_path}/out"
    assert (tmp_path / "out").read_text() == "precious"


def test_output_directory_below_a_file(tmp_path):
    (tmp_path / "a").write_text("precious")
    assert str(tmp_path / "a") in refusal(run_here(NEWS, "--output-dir", tmp_path / "a" / "out"))


@AS_ROOT
def test_output_directory_that_may_not_be_written(tmp_path):
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0o500)
    line = refusal(run_here(NEWS, "--output-dir", tmp_path / "closed" / "out"))
    assert line.startswith("Permission denied: ") and "closed" in line


def test_output_directory_that_nobody_may_write():
    assert "/proc/out" in refusal(run_here(NEWS, "--output-dir", "/proc/out"))


@pytest.mark.parametrize(
    "given, output",
    [("in", "in"), ("in", "in/out"), ("in", "in/../in/deep/out"), ("in/a.jsonl", "in/a.jsonl/out")],
)
def test_output_directory_within_the_input(tmp_path, given, output):
    (tmp_path / "in").mkdir()
    path = write_texts(tmp_path / "in" / "a.jsonl", "x")
    refusal(run_script(given, "--output-dir", output, cwd=tmp_path))
    assert [p.name for p in (tmp_path / "in").iterdir()] == ["a.jsonl"]
    assert path.read_bytes() == b'{"id": "d1", "text": "x"}\n'


def test_output_directory_around_the_input(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", "x")
    assert "--output-dir must be apart from the input" in refusal(run_script(path, "--output-dir", tmp_path))
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


# a full disk


def limited(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("size", [0, 1000, 4000, 40_000])
def test_file_that_cannot_grow(tmp_path, size):
    """As on a full disk, in one stage or the other; and the same command then goes on."""
    path = write_documents(tmp_path / "a.jsonl", family_corpus(150))
    line = refused(tmp_path, path, preexec_fn=limited(size))
    assert "File too large" in line
    out = deduplicate(tmp_path / "out", path)
    counts = summary(out)
    assert counts["kept"] + counts["removed"] == counts["documents"] == 150


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_standard_output_that_cannot_grow():
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, SCRIPT, NEWS, "--quiet"], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert result.returncode not in (0, None)
    assert result.stderr.decode() == "error: No space left on device\n"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system")
@pytest.mark.parametrize("size", [64, 256])
def test_small_file_system(tmp_path, size):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", disk], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this root may not mount")
    try:
        path = write_documents(tmp_path / "a.jsonl", family_corpus(400))
        line = refused(disk, path)
        assert "No space left on device" in line
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


# nothing wrong at all


def test_empty_file(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"")
    result = run_script(tmp_path / "a.jsonl", "--output-dir", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert b"documents         0 (0 empty)" in result.stderr
    for name in ("kept", "pairs", "clusters"):
        assert part_lines(tmp_path / "out" / name) == []
    assert summary(tmp_path / "out")["documents"] == 0


@pytest.mark.parametrize(
    "name, data",
    [
        ("a.jsonl", b"\n\n \n\r\n"),
        ("a.jsonl.gz", gzip.compress(b"")),
        ("a.jsonl.gz", b""),
        ("a.jsonl.bz2", b""),
    ],
    ids=["blank lines", "gz of nothing", "empty gz", "empty bz2"],
)
def test_files_without_documents(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    out = deduplicate(tmp_path / "out", tmp_path / name)
    assert summary(out)["documents"] == 0
    assert part_lines(out / "kept") == []


def test_nothing_on_standard_input():
    result = run_script("-", stdin=b"")
    assert (result.returncode, result.stdout) == (0, b"")


def test_null_characters_in_texts(tmp_path):
    lines = [rb'{"id": "a\u0000", "text": "x\u0000y z"}', rb'{"id": "a", "text": "x y\u0000z"}']
    out = deduplicate(tmp_path / "out", write_lines(tmp_path / "a.jsonl", lines))
    assert clusters_of(out) == {frozenset(["a", "a\0"])}
    assert part_lines(out / "kept") == [lines[1]]


def test_byte_order_mark_in_each_file(tmp_path):
    for n in (1, 2):
        line = b'\xef\xbb\xbf{"id": %d, "text": "x y"}\n' % n
        (tmp_path / f"{n}.jsonl").write_bytes(line)
    out = deduplicate(tmp_path / "out", tmp_path / "1.jsonl", tmp_path / "2.jsonl")
    assert clusters_of(out) == {frozenset([1, 2])}


def test_blank_lines_and_no_newline_at_the_end(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\n" + GOOD + b"\n  \n\n" + GOOD.replace(b"d1", b"d0"))
    out = deduplicate(tmp_path / "out", tmp_path / "a.jsonl")
    assert part_lines(out / "kept") == [GOOD.replace(b"d1", b"d0")]
    assert summary(out)["documents"] == 2


def test_file_without_a_newline_before_another_file(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(GOOD)
    (tmp_path / "b.jsonl").write_bytes(GOOD.replace(b"d1", b"d2").replace(b"one", b"1"))
    out = deduplicate(tmp_path / "out", tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert summary(out)["kept"] == 2


# bad records that may be skipped


@pytest.fixture(scope="module")
def skipping(tmp_path_factory):
    folder = tmp_path_factory.mktemp("skipping")
    path = SAMPLES / "bad.jsonl"
    result = run_script(path, "--skip-bad-records", "--output-dir", folder / "out")
    assert result.returncode == 0, result.stderr
    return folder / "out", result


def test_skipped_records_are_listed_with_their_reasons(skipping):
    listed = records(skipping[0] / "skipped")
    assert [record["line"] for record in listed] == [2, 4, 5, 6, 8, 9]
    assert {record["file"] for record in listed} == {str(SAMPLES / "bad.jsonl")}
    reasons = ("not JSON", "not a JSON object", 'no "text"', '"text" is not', "a lone", "not UTF-8")
    for record, reason in zip(listed, reasons):
        assert list(record) == ["file", "line", "reason"]
        assert record["reason"].startswith(reason)


def test_good_records_are_kept_beside_skipped_ones(skipping):
    lines = (SAMPLES / "bad.jsonl").read_bytes().splitlines()
    assert part_lines(skipping[0] / "kept") == [lines[n - 1] for n in (1, 3, 10)]
    assert clusters_of(skipping[0]) == {frozenset(["ok-01", "ok-03"])}
    (pair,) = records(skipping[0] / "pairs")
    assert pair["jaccard"] == 0.8148


def test_skipped_records_are_counted(skipping):
    counts = summary(skipping[0])
    assert (counts["documents"], counts["skipped"], counts["kept"], counts["removed"]) == (4, 6, 3, 1)
    assert b"6 bad records, listed in skipped/" in skipping[1].stderr


def test_nothing_skipped_leaves_no_folder(tmp_path):
    out = deduplicate(tmp_path / "out", NEWS, "--skip-bad-records")
    assert not (out / "skipped").exists()


def test_file_name_with_a_colon_is_no_part_of_the_reason(tmp_path):
    path = write_lines(tmp_path / "my: list.jsonl", [b"[]"])
    (record,) = records(deduplicate(tmp_path / "out", path, "--skip-bad-records") / "skipped")
    assert record == {"file": str(path), "line": 1, "reason": "not a JSON object: []"}


def test_skipped_lines_of_packed_and_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_LEAST_SPLIT", 100)
    monkeypatch.setattr(runner, "_SPLIT", 2000)
    lines = [json.dumps(document).encode() for document in family_corpus(100)]
    lines[7:7] = [b"bad", b"bad", b""]
    lines[60:60] = [b"{}"]
    write_lines(tmp_path / "b.jsonl", lines)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"\n".join([b"", b"3"])))
    out = deduplicate(tmp_path / "out", tmp_path / "b.jsonl", tmp_path / "a.jsonl.gz", "--skip-bad-records")
    listed = [(os.path.basename(r["file"]), r["line"]) for r in records(out / "skipped")]
    assert sorted(listed) == [("a.jsonl.gz", 2), ("b.jsonl", 8), ("b.jsonl", 9), ("b.jsonl", 61)]
    counts = summary(out)
    assert (counts["documents"], counts["skipped"]) == (100, 4)
    assert not {b"bad", b"{}", b"3"} & set(part_lines(out / "kept"))


def test_nothing_but_bad_records(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [b"1", b"2"])
    counts = summary(deduplicate(tmp_path / "out", path, "--skip-bad-records"))
    assert (counts["documents"], counts["skipped"], counts["kept"]) == (0, 2, 0)


def test_id_given_twice_is_no_bad_record(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [b"{", GOOD, GOOD])
    line = refused(tmp_path, path, "--skip-bad-records")
    assert line == f'ids must differ, got "d1" twice: line 2 of {path} and line 3 of {path}'


# the stages as jobs of their own


@pytest.mark.parametrize(
    "job, arguments, part",
    [
        ("candidates", ["absent.jsonl"], "absent.jsonl"),
        ("candidates", [NEWS, "--threshold", "0"], "--threshold must be above 0"),
        ("candidates", [SAMPLES / "bad.jsonl"], f"line 2 of {SAMPLES / 'bad.jsonl'}: not JSON"),
        ("components", ["absent"], "absent"),
        ("components", [NEWS], ""),
        ("resolve", [NEWS], "--routes"),
        ("resolve", [NEWS, "--keep", "nonsense"], "--keep must be"),
        ("keep", [NEWS], "--removed"),
        ("keep", [NEWS, "--removed", "absent.npy"], "absent.npy"),
    ],
)
def test_stage_alone_refuses_in_one_line(tmp_path, job, arguments, part):
    result = run_script(*arguments, script=TOP / "jobs" / f"{job}.py", cwd=tmp_path)
    assert part in refusal(result)
