import io
import os
import struct
import subprocess
import sys
from pathlib import Path

from mapreduce import TOP
from mapreduce.documents import BATCH, DocumentsJob, LinesJob
from mapreduce.job import code_archive
from mapreduce.keys import slice_key, slice_number

import numpy as np
import pytest
from mrjob.step import MRStep


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch):
    monkeypatch.setenv("MRJOB_CONF", "/dev/null")


# slices


def hash_of(key):
    """The hash that Hadoop takes of a key of Text."""
    hash_ = 1
    for byte in struct.unpack(f"{len(key)}b", key):  # Java's bytes have a sign
        hash_ = (31 * hash_ + byte) & 0xFFFFFFFF
    return hash_


def test_hash_is_that_of_java():
    assert hash_of(b"a") == 31 + 97
    assert hash_of("é".encode()) == 31 * (31 - 61) - 87 + (1 << 32)


@pytest.mark.parametrize(
    "name, first", [("buckets", 0), ("ids", 0), ("keys", 0), ("target", 0), ("target", 1 << 48)]
)
@pytest.mark.parametrize("slices", [1, 64, 2048])
def test_slices_are_dealt_evenly_to_any_number_of_reducers(name, first, slices):
    keys = [slice_key(name, number).encode() for number in range(first, first + slices)]
    hashes = np.array([hash_of(key) for key in keys]) & 0x7FFFFFFF
    for reducers in range(1, 101):  # its partitioner takes the remainder
        dealt = np.bincount(hashes % reducers, minlength=reducers)
        assert dealt.max() - dealt.min() <= 1, reducers


def test_slices_have_keys_of_their_own():
    numbers = [*range(2000), 31**4 - 1, 31**4, 1 << 40]
    keys = [slice_key("buckets", number) for number in numbers]
    assert len(set(keys)) == len(numbers)
    assert [slice_number(key) for key in keys] == numbers
    assert not any(set(key) & set("\t\r\n") or not key.isascii() for key in keys)


# lines


class Lines(LinesJob):
    """Puts its lines out, all that come together as one value."""

    def steps(self):
        return [MRStep(**self.document_mapper())]

    def map_lines(self, lines):
        if lines:
            yield None, b"\n".join(lines)


class TabbedLines(Lines):
    def separator(self):
        return b"\t"


def mapped(job_class, data):
    job = job_class(["--mapper", "--step-num=0"])
    stdout = io.BytesIO()
    job.sandbox(stdin=io.BytesIO(data), stdout=stdout)
    job.run_mapper(0)
    return stdout.getvalue()


def read_strings(data):
    """The strings of a stream of typed bytes."""
    stream, found = io.BytesIO(data), []
    while head := stream.read(5):
        kind, length = struct.unpack(">bi", head)
        assert kind == 7
        found.append(stream.read(length))
        assert len(found[-1]) == length
    return found


def written_by_hadoop(data, separator):
    """The output file for typed bytes: key, separator and value of each record."""
    strings = read_strings(data)
    assert len(strings) % 2 == 0
    return b"".join(key + separator + value + b"\n" for key, value in zip(strings[::2], strings[1::2]))


JSON_LINES = [
    b'{"id": "a"}',
    b'{"id":\r"a:b",\t"text":\r\r""}',
    b'{"id": "\x00\xe2\x80\xa8\xc2\x85\x0b\x0c"}',
    b":",
    b"a:" + b"x" * (BATCH + 1),
    b"::\t",
    b" :",
]


@pytest.mark.parametrize("lines", [JSON_LINES, JSON_LINES[:1], JSON_LINES[3:4] * 50_000, []])
def test_typed_bytes_become_the_lines_as_they_came(monkeypatch, lines):
    monkeypatch.setenv("stream_map_output", "typedbytes")
    data = b"".join(line + b"\n" for line in lines)
    assert written_by_hadoop(mapped(Lines, data), b":") == data


def test_typed_bytes_of_tab_separated_lines(monkeypatch):
    monkeypatch.setenv("stream_map_output", "typedbytes")
    data = b"".join(line + b"\n" for line in (b"a\tb", b"a\t", b"\tb\t:\r\t", b"\t"))
    assert written_by_hadoop(mapped(TabbedLines, data), b"\t") == data


def test_lines_are_text_elsewhere():
    data = b"".join(line + b"\n" for line in JSON_LINES)
    assert mapped(Lines, data) == data


def test_last_line_may_lack_its_end_and_crs_at_ends_go():
    assert mapped(Lines, b"a:\r\nb:") == b"a:\nb:\n"


@pytest.mark.parametrize("job_class, separator", [(Lines, ":"), (TabbedLines, "\t")])
def test_hadoop_is_told_of_the_separator(job_class, separator):
    assert job_class([]).output_jobconf() == {
        "stream.map.output": "typedbytes",
        "mapreduce.output.textoutputformat.separator": separator,
    }


# places


class Places(DocumentsJob):
    """Tells the place of each line that has a `!`."""

    def steps(self):
        return [MRStep(**self.document_mapper())]

    def map_lines(self, lines):
        self.told += [self.place(number) for number, line in enumerate(lines) if b"!" in line]
        return ()

    told = ()


def places(monkeypatch, data, path=None, start=None):
    for name, value in (("mapreduce_map_input_file", path), ("mapreduce_map_input_start", start)):
        if value is not None:
            monkeypatch.setenv(name, str(value))
    job = Places(["--mapper", "--step-num=0"])
    job.told = []
    job.sandbox(stdin=io.BytesIO(data))
    job.run_mapper(0)
    return job.told


def test_place_in_standard_input(monkeypatch):
    assert places(monkeypatch, b"a\n!\n\n!") == [("standard input", 2, 0), ("standard input", 4, 0)]


def test_place_in_a_file_of_hdfs_counts_from_the_start_of_the_split(monkeypatch):
    path = "hdfs://node:9000/t/a b.jsonl"
    assert places(monkeypatch, b"!\na\n!\n", path, 0) == [(path, 1, 0), (path, 3, 0)]
    assert places(monkeypatch, b"!\na\n!\n", path, 134217728) == [(path, 1, 134217728), (path, 3, 134217728)]


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_place_in_a_file_of_this_machine_counts_from_its_start(monkeypatch, tmp_path, scheme):
    path = tmp_path / "a"
    path.write_bytes(b"one\ntwo\nthree\n!\n")
    assert places(monkeypatch, b"three\n!\n", f"{scheme}{path}", 8) == [(str(path), 4, 0)]
    assert places(monkeypatch, b"one\ntwo\nthree\n!\n", f"{scheme}{path}", 0) == [(str(path), 4, 0)]


def test_place_of_a_line_far_on(monkeypatch):
    data = b"x" * 99 + b"\n"
    assert places(monkeypatch, data * 20_000 + b"!\n" + data * 9, "hdfs:///a", 7) == [
        ("hdfs:///a", 20_001, 7)
    ]


# settings


@pytest.fixture
def no_settings(monkeypatch, tmp_path):
    """A user without settings of mrjob's."""
    monkeypatch.delenv("MRJOB_CONF")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("mrjob.conf.os.path.exists", lambda path: path != "/etc/mrjob.conf" and _exists(path))


_exists = os.path.exists


def conf_paths(*arguments):
    return Lines(["in", *arguments]).options.conf_paths


@pytest.mark.parametrize("runner", ["local", "hadoop"])
def test_settings_of_the_project_hold_for_a_user_without_any(no_settings, runner):
    path = os.path.join(TOP, "configs", f"{runner}.conf")
    assert os.path.exists(path)
    assert conf_paths("-r", runner) == [path]


def test_default_runner_needs_no_settings(no_settings):
    assert conf_paths() is None


def test_settings_of_the_user_take_their_place(no_settings, monkeypatch, tmp_path):
    assert conf_paths("-r", "hadoop", "--conf-path", "mine.conf") == ["mine.conf"]
    assert conf_paths("-r", "hadoop", "--no-conf") == []
    (tmp_path / ".mrjob.conf").write_text("runners: {}")
    assert conf_paths("-r", "hadoop") is None
    (tmp_path / ".mrjob.conf").unlink()
    assert conf_paths("-r", "hadoop")
    monkeypatch.setenv("MRJOB_CONF", str(tmp_path / "other.conf"))
    (tmp_path / "other.conf").write_text("runners: {}")
    assert conf_paths("-r", "hadoop") is None


def test_tasks_look_for_no_settings(no_settings):
    assert Lines(["--mapper", "--step-num=0", "-r", "hadoop"]).options.conf_paths is None


# code


def test_code_goes_along_where_tasks_run_elsewhere():
    assert not Lines(["in"]).options.py_files
    assert Lines(["in", "-r", "hadoop", "--py-file", "a.py"]).options.py_files == ["a.py", code_archive()]


def test_archive_has_all_that_a_task_imports(tmp_path):

    script = Path(TOP) / "jobs" / "publish.py"
    (tmp_path / "publish.py").write_bytes(script.read_bytes())
    done = subprocess.run(
        [sys.executable, "publish.py", "--kind=pair", "--mapper", "--step-num=0"],
        input=b"pair\t{}\ncluster\t{}\n",
        capture_output=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": code_archive()},
    )
    assert (done.returncode, done.stdout) == (0, b"{}\n"), done.stderr
