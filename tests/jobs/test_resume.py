"""A run that was killed goes on where it stood; what is complete, and what others work at, is left alone."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from running import (
    SAMPLES,
    assert_same,
    command,
    deduplicate,
    footer_corpus,
    outcome,
    part_lines,
    refusal,
    run_here,
    run_script,
    summary,
    tree,
    write_documents,
    write_texts,
)

NEWS = SAMPLES / "news.jsonl"
STAGES = "candidates", "components", "verify", "components-again", "resolve", "pairs", "clusters", "keep"
# 1,500 documents of 765 shingles in one component: more than Components' --target-size of 2^20, so that
# all stages are there
OPTIONS = "--bucket-cap", "1"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return write_documents(tmp_path_factory.mktemp("in") / "large.jsonl", footer_corpus(1500, 65, 700))


@pytest.fixture(scope="module")
def undisturbed(large):
    return deduplicate(large.parent / "out", large, *OPTIONS)


def start(out, path, *options):
    return subprocess.Popen(
        command(path, "--output-dir", out, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that a Ctrl-C for it is none for us
    )


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


def wait_for_stage(process, out, stage):
    """Wait until a stage is at work, or the process has ended."""
    name = "kept" if stage == "keep" else stage
    wait_for(lambda: (out / ".run" / name).exists() or process.poll() is not None)


def at_work(out):
    """The processes whose command line has this folder in it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(out) in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has just ended
            pass
    return found


def end(process):
    """(status, standard error) of a process that ends by itself."""
    _, errors = process.communicate(timeout=100)
    return process.returncode, errors.decode()


def complete_stages(out):
    """{stage: when it was completed}"""
    reports = (path for path in (out / ".run").glob("*.json") if path.stem != "parameters")
    return {path.stem: path.stat().st_mtime_ns for path in reports}


@pytest.mark.slow
def test_run_that_is_killed_in_every_stage_goes_on(large, undisturbed, tmp_path):
    out = tmp_path / "out"
    before = {}
    for number, stage in enumerate(STAGES):
        process = start(out, large, *OPTIONS)
        wait_for_stage(process, out, stage)
        process.kill()
        status, errors = end(process)
        assert status == -signal.SIGKILL, errors
        assert not (out / "summary.json").exists() and not (out / "kept").exists()
        complete = complete_stages(out)
        assert sorted(complete, key=complete.get) == list(STAGES[:number])
        assert complete.items() >= before.items(), "a complete stage was made again"
        before = complete
        wait_for(lambda: not at_work(out), seconds=20)
    status, errors = end(start(out, large, *OPTIONS))
    assert status == 0, errors
    assert [line.partition(":")[0] for line in errors.splitlines() if " read at " in line] == ["keep"]
    assert_same(outcome(out), outcome(undisturbed))
    assert part_lines(out / "kept") == part_lines(undisturbed / "kept")
    assert summary(out).keys() == summary(undisturbed).keys()
    assert not (out / ".run").exists()


@pytest.mark.slow
def test_run_that_is_killed_at_any_moment_goes_on(large, undisturbed, tmp_path):
    """At once, whatever the tasks of the killed run still do."""
    out, draw = tmp_path / "out", random.Random(6)
    for _ in range(6):
        process = start(out, large, *OPTIONS)
        try:
            process.wait(0.3 + draw.random())
        except subprocess.TimeoutExpired:
            process.kill()
        status, errors = end(process)
        assert status in (0, -signal.SIGKILL), errors
    status, errors = end(start(out, large, *OPTIONS))
    assert status == 0, errors
    assert_same(outcome(out), outcome(undisturbed))


@pytest.mark.parametrize("stage", ["candidates", "verify"])
def test_tasks_end_soon_after_their_driver(large, tmp_path, stage):
    out = tmp_path / "out"
    process = start(out, large, *OPTIONS)
    wait_for_stage(process, out, stage)
    wait_for(lambda: len(at_work(out)) > 1)
    process.kill()
    end(process)
    wait_for(lambda: not at_work(out), seconds=10)


def test_same_command_is_taken_right_after_a_kill(large, tmp_path):
    out = tmp_path / "out"
    process = start(out, large, *OPTIONS)
    wait_for_stage(process, out, "candidates")
    wait_for(lambda: len(at_work(out)) > 1)
    process.kill()
    end(process)
    other = start(out, large, *OPTIONS)
    wait_for(lambda: (out / ".run" / "components").exists() or other.poll() is not None)
    other.kill()
    status, errors = end(other)
    assert status == -signal.SIGKILL, errors


@pytest.mark.parametrize("stage", ["candidates", "resolve"])
def test_interrupt_ends_in_one_line(large, tmp_path, stage):
    out = tmp_path / "out"
    process = start(out, large, *OPTIONS)
    wait_for_stage(process, out, stage)
    wait_for(lambda: len(at_work(out)) > 1 or process.poll() is not None)
    time.sleep(0.05)  # at a fork is another test: tests/mapreduce/test_runner.py
    os.killpg(process.pid, signal.SIGINT)
    status, errors = end(process)
    assert status not in (0, None), errors
    assert errors.endswith("\nerror: interrupted\n")
    assert "Traceback" not in errors
    assert not at_work(out)
    assert not (out / "kept").exists() and not (out / "summary.json").exists()


def test_interrupt_without_an_output_directory_leaves_nothing(large, tmp_path):
    folder = tmp_path / "tmp"
    folder.mkdir()
    process = subprocess.Popen(
        command(large),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    wait_for(lambda: list(folder.glob("dedup-*/output/.run/candidates")))
    time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    status, errors = end(process)
    assert status not in (0, None) and errors.endswith("error: interrupted\n")
    assert not list(folder.iterdir())


# what is complete


def test_finished_run_is_left_as_it_is(tmp_path):
    out = deduplicate(tmp_path / "out", NEWS)
    before = tree(out)
    result = run_script(NEWS, "--output-dir", out)
    assert result.returncode == 0
    assert result.stderr.startswith(f"complete already: {out}\n".encode())
    assert b"kept              26" in result.stderr
    assert tree(out) == before


def test_finished_run_is_known_from_another_folder(tmp_path):
    write_texts(tmp_path / "a.jsonl", "x y", "x y")
    deduplicate(tmp_path / "out", tmp_path / "a.jsonl")
    result = run_script("a.jsonl", "--output-dir", "out", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stderr.startswith(b"complete already: out\n")


def test_options_that_change_no_output_may_differ(tmp_path):
    out = deduplicate(tmp_path / "out", NEWS)
    result = run_script(NEWS, "--output-dir", out, "--num-cores", 1)
    assert (result.returncode, result.stderr[:9]) == (0, b"complete ")


def test_finished_run_over_standard_input_is_known_by_its_content(tmp_path):
    out, data = tmp_path / "out", NEWS.read_bytes()
    assert run_script("-", "--output-dir", out, stdin=data).returncode == 0
    before = tree(out)
    result = run_script("-", "--output-dir", out, stdin=data)
    assert (result.returncode, result.stderr[:9]) == (0, b"complete ")
    line = refusal(run_script("-", "--output-dir", out, stdin=data + b"\n"))
    assert "input" in line and "standard input" in line
    assert without_lock(out) == before


def without_lock(out):
    return {path: info for path, info in tree(out).items() if not path.endswith("lock")}


@pytest.fixture(params=["finished", "unfinished"])
def earlier(request, tmp_path):
    """(output folder, input) of a run that ended well, or that ended at a bad line of its second file."""
    good, out = write_texts(tmp_path / "a.jsonl", "one two", "three"), tmp_path / "out"
    files = [good]
    if request.param == "unfinished":
        files.append(tmp_path / "b.jsonl")
        files[1].write_bytes(b"no record")
    result = run_here(*files, "--output-dir", out)
    assert (result.returncode == 0) == (request.param == "finished")
    return out, files


@pytest.mark.parametrize(
    "options, name, old, new",
    [
        (["--threshold", "0.9"], "--threshold", "0.8", "0.9"),
        (["--seed", "3"], "--seed", "0", "3"),
        (["--bag"], "--bag", "false", "true"),
        (["--text-field", "id"], "--text-field", "null", '["id"]'),
        (["--skip-bad-records"], "--skip-bad-records", "false", "true"),
    ],
)
def test_other_parameters_are_refused_with_both_values(earlier, options, name, old, new):
    out, files = earlier
    before = without_lock(out)
    line = refusal(run_here(*files, "--output-dir", out, *options))
    assert line == f"{out} holds a run with {name} {old}, got {new}: choose another --output-dir"
    assert without_lock(out) == before


def test_other_input_is_refused_with_both_named(earlier, tmp_path):
    out, _ = earlier
    other = write_texts(tmp_path / "other.jsonl", "four")
    line = refusal(run_here(other, "--output-dir", out))
    assert "input" in line and "a.jsonl" in line and "other.jsonl" in line


def test_changed_input_is_refused(earlier):
    out, files = earlier
    with open(files[0], "ab") as file:
        file.write(b'{"id": "new", "text": ""}\n')
    assert "input" in refusal(run_here(*files, "--output-dir", out))


def test_long_lists_of_input_files_still_tell_what_differs(tmp_path):
    """Among a hundred files the one that is another is named."""
    for n in range(100):
        write_documents(tmp_path / f"{n:02}.jsonl", [{"id": n, "text": "x"}])
    files = sorted(tmp_path.glob("*.jsonl"))
    out = deduplicate(tmp_path / "out", *files)
    write_documents(files[57], [{"id": "changed", "text": "x"}])
    assert "57.jsonl" in refusal(run_here(*files, "--output-dir", out))


# two at once


def test_second_run_into_one_output_directory_is_refused(large, tmp_path):
    out = tmp_path / "out"
    first = start(out, large, *OPTIONS)
    wait_for_stage(first, out, "candidates")
    line = refusal(run_script(large, "--output-dir", out, *OPTIONS))
    assert line == f"another run is at work in {out}"
    assert first.poll() is None
    status, errors = end(first)
    assert status == 0, errors
    assert summary(out)["documents"] == 1500
