import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from mapreduce.errors import JobError
from mapreduce.storage import HadoopStorage, LocalStorage, path_part

import pytest


@pytest.fixture
def storage(hadoop):
    return HadoopStorage([hadoop.command, "fs"])


def found(storage, *paths):
    return [(file.path, file.size) for file in storage.find(paths)]


# input


def test_files_folders_and_globs_are_found_in_the_order_given(hadoop, storage):
    for path, data in {
        "/t/b": b"12",
        "/t/a": b"1",
        "/t/deep/er/c": b"123",
        "/u/x1": b"",
        "/u/x2": b"4",
    }.items():
        hadoop.put(path, data)
    assert found(storage, "hdfs:///u/x?", "hdfs:///t/b", "hdfs:///t") == [
        ("hdfs:///u/x1", 0),
        ("hdfs:///u/x2", 1),
        ("hdfs:///t/b", 2),
        ("hdfs:///t/a", 1),
        ("hdfs:///t/b", 2),
        ("hdfs:///t/deep/er/c", 3),
    ]
    assert found(storage, "hdfs://node:9000/t/") == [
        (f"hdfs://node:9000/t/{name}", size) for name, size in (("a", 1), ("b", 2), ("deep/er/c", 3))
    ]


def test_hidden_names_below_a_folder_are_no_input(hadoop, storage):
    for path in ("a", "_SUCCESS", ".a.crc", "_temporary/1/b", "deep/.staging/c", "deep/_d", "deep/d_"):
        hadoop.put(f"/_t/{path}", b"1")
    assert [path for path, _ in found(storage, "hdfs:///_t")] == ["hdfs:///_t/a", "hdfs:///_t/deep/d_"]


def test_names_keep_their_blanks(hadoop, storage):
    hadoop.put("/a  b/c d.jsonl", b"123")
    assert found(storage, "hdfs:///a  b") == [("hdfs:///a  b/c d.jsonl", 3)]
    assert storage.names("hdfs:///a  b") == ["c d.jsonl"]
    assert storage.sizes("hdfs:///a  b") == {"c d.jsonl": 3}
    assert storage.read("hdfs:///a  b/c d.jsonl") == b"123"


@pytest.mark.parametrize("path", ["hdfs:///none", "hdfs:///t/*.gz"])
def test_path_that_names_nothing_is_refused(hadoop, storage, path):
    hadoop.put("/t/a")
    with pytest.raises(JobError, match=f"^no such file: {re.escape(path)}$"):
        storage.find(["hdfs:///t/a", path])


@pytest.mark.parametrize("inside", [[], ["_SUCCESS", "_logs/a"]])
def test_folder_without_files_is_refused(hadoop, storage, inside):
    os.makedirs(hadoop.path("/t"))
    for name in inside:
        hadoop.put(f"/t/{name}")
    with pytest.raises(
        JobError, match="^a directory given as input must hold files, got an empty one: hdfs:///t$"
    ):
        storage.find(["hdfs:///t"])


def test_later_version_of_a_file_is_told_from_the_earlier(hadoop, storage):
    hadoop.put("/a", b"1")
    os.utime(hadoop.path("/a"), (1_790_000_000, 1_790_000_000))
    (before,) = storage.find(["hdfs:///a"])
    assert storage.find(["hdfs:///a"]) == [before]
    os.utime(hadoop.path("/a"), (1_790_000_060, 1_790_000_060))
    (after,) = storage.find(["hdfs:///a"])
    assert after.changed != before.changed


# folders


def test_names_are_those_of_one_level(hadoop, storage):
    hadoop.put("/t/a")
    hadoop.put("/t/deep/b")
    assert sorted(storage.names("hdfs:///t")) == ["a", "deep"]


def test_names_of_no_folder_and_of_an_empty_one(hadoop, storage):
    os.makedirs(hadoop.path("/t"))
    assert storage.names("hdfs:///t") == []
    assert storage.names("hdfs:///none") is None


@pytest.mark.parametrize("folder", ["hdfs:///a", "hdfs://node:9000/a"])
def test_file_is_no_folder_for_output(hadoop, storage, folder):
    hadoop.put("/a", b"1")
    with pytest.raises(JobError, match=f"^--output-dir must be a directory, got the file {folder}$"):
        storage.names(folder)


def test_folder_may_hold_a_file_of_its_own_name(hadoop, storage):
    hadoop.put("/a/a")
    assert storage.names("hdfs:///a") == ["a"]


def test_sizes_are_of_all_files_by_their_path_below(hadoop, storage):
    hadoop.put("/t/a", b"1")
    hadoop.put("/t/_deep/b", b"22")
    assert storage.sizes("hdfs:///t/") == storage.sizes("hdfs:///t") == {"a": 1, "_deep/b": 2}
    assert storage.sizes("hdfs:///none") == {}


def test_lines_are_of_part_files_in_order_and_no_others(hadoop, storage):
    for name in ("part-00010", "part-00002", "_SUCCESS", ".part-00000.crc"):
        hadoop.put(f"/t/{name}", name.encode() + b"\r \n")
    assert list(storage.lines("hdfs:///t")) == [b"part-00002\r \n", b"part-00010\r \n"]


def test_failure_amid_the_lines_is_told(hadoop, storage):
    os.makedirs(hadoop.path("/t/part-00001"))
    hadoop.put("/t/part-00000", b"whole\n")
    lines = storage.lines("hdfs:///t")
    assert next(lines) == b"whole\n"
    with pytest.raises(JobError, match="^cat: `hdfs:///t/part-00001': Is a directory$"):
        next(lines)


def test_rest_of_an_open_file_may_stay_unread(hadoop, storage):
    hadoop.put("/a", b"12345\n" * 500_000)
    with storage.open("hdfs:///a") as stream:
        assert stream.read(3) == b"123"


def test_what_is_written_is_read_and_the_last_counts(hadoop, storage):
    storage.make("hdfs:///t/deep")
    for data in (b"one\r\n\0", b""):
        storage.write("hdfs:///t/deep/a", data)
        assert storage.read("hdfs:///t/deep/a") == hadoop.read("/t/deep/a") == data


def test_all_are_removed_by_one_call_whether_there_or_not(hadoop, storage):
    hadoop.put("/t/a")
    hadoop.put("/t/deep/b")
    hadoop.put("/t/c")
    storage.remove("hdfs:///t/a", "hdfs:///t/deep", "hdfs:///t/none")
    assert hadoop.files() == ["/t/c"]
    assert len(hadoop.calls()) == 1


def test_folders_are_moved_within_the_storage(hadoop, storage):
    for stage in ("pairs", "kept"):
        hadoop.put(f"/out/.run/{stage}/part-00000", stage.encode())
    folders = {f"hdfs:///out/.run/{stage}": f"hdfs:///out/{stage}" for stage in ("pairs", "kept")}
    storage.take(storage, folders)
    assert hadoop.files() == ["/out/kept/part-00000", "/out/pairs/part-00000"]
    assert len(hadoop.calls()) == 1


def test_folder_of_this_machine_is_uploaded_with_what_its_links_name(hadoop, storage, tmp_path):
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "00000-a b").symlink_to(tmp_path / "a")
    storage.upload(str(tmp_path / "links"), "hdfs:///tmp/lsh-1/input")
    assert hadoop.files() == ["/tmp/lsh-1/input/00000-a b"]
    assert hadoop.read("/tmp/lsh-1/input/00000-a b") == b"one"


def test_part_files_come_to_this_machine_in_a_folder_that_appears_whole(hadoop, storage, tmp_path):
    for name in ("part-00000", "part-00001", "_SUCCESS"):
        hadoop.put(f"/tmp/lsh-1/kept/{name}", name.encode())
    target = tmp_path / "out" / "kept"
    (tmp_path / "out" / ".kept.tmp").mkdir(parents=True)
    (tmp_path / "out" / ".kept.tmp" / "part-00007").write_text("of a killed process")
    LocalStorage().take(storage, {"hdfs:///tmp/lsh-1/kept": str(target)})
    assert sorted(os.listdir(target)) == ["part-00000", "part-00001"]
    assert (target / "part-00001").read_bytes() == b"part-00001"
    assert os.listdir(tmp_path / "out") == ["kept"]


def test_folder_that_cannot_come_whole_does_not_appear(hadoop, storage, tmp_path):
    hadoop.put("/kept/part-00000", b"1")
    hadoop.fail("get", "get: `part-00000': No space left on device")
    with pytest.raises(JobError, match="No space left on device$"):
        LocalStorage().take(storage, {"hdfs:///kept": str(tmp_path / "kept")})
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    "path, whether", [("hdfs:///a", True), ("s3://a/b", False), ("s3a://a/b", False), ("gs://a/b", False)]
)
def test_object_stores_cannot_move_folders(storage, path, whether):
    assert storage.renames(path) is whether


@pytest.mark.parametrize(
    "path, part",
    [
        ("hdfs:///a/b", "/a/b"),
        ("hdfs://node:9000/a/b/", "/a/b"),
        ("s3://bucket/a", "/a"),
        ("/a/b", "/a/b"),
        ("hdfs:///", ""),
    ],
)
def test_path_part(path, part):
    assert path_part(path) == part


# the lock

LOCK = "hdfs:///out/lock"


def start_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def held(hadoop, pid, start, host=None):
    owner = {"host": host or socket.gethostname(), "pid": pid, "start": start}
    hadoop.put("/out/lock", json.dumps(owner).encode())


def test_one_process_at_a_time_has_the_lock(hadoop, storage):
    os.makedirs(hadoop.path("/out"))
    leave = storage.lock(LOCK, "hdfs:///out")
    owner = json.loads(hadoop.read("/out/lock"))
    assert (owner["host"], owner["pid"]) == (socket.gethostname(), os.getpid())
    with pytest.raises(JobError, match=f"^another run is at work in hdfs:///out: process {os.getpid()} of "):
        storage.lock(LOCK, "hdfs:///out")
    leave()
    assert hadoop.files() == []
    storage.lock(LOCK, "hdfs:///out")


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


@needs_proc
def test_lock_of_a_dead_process_is_taken_over(hadoop, storage):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        start = start_of(other.pid)
        held(hadoop, other.pid, start)
        with pytest.raises(JobError, match=f"process {other.pid} of .* \\(if it is dead, remove {LOCK}\\)$"):
            storage.lock(LOCK, "hdfs:///out")
        other.kill()
    storage.lock(LOCK, "hdfs:///out")
    assert json.loads(hadoop.read("/out/lock"))["pid"] == os.getpid()


@needs_proc
def test_lock_of_a_process_whose_number_another_has_now_is_taken_over(hadoop, storage):
    held(hadoop, os.getppid(), "1" + start_of(os.getppid()))
    storage.lock(LOCK, "hdfs:///out")
    assert json.loads(hadoop.read("/out/lock"))["pid"] == os.getpid()


def test_lock_of_another_machine_stands(hadoop, storage):
    held(hadoop, 1, "1", "elsewhere")
    with pytest.raises(JobError, match="^another run is at work in hdfs:///out: process 1 of elsewhere "):
        storage.lock(LOCK, "hdfs:///out")
    assert json.loads(hadoop.read("/out/lock"))["host"] == "elsewhere"


def test_lock_that_cannot_be_written_says_why(storage):
    with pytest.raises(JobError, match="^put: `hdfs:///out/lock': No such file or directory: `hdfs:///out'$"):
        storage.lock(LOCK, "hdfs:///out")


# failures

SAFE = "Cannot create directory /safe. Name node is in safe mode."
REFUSED = (
    "Call From node/127.0.0.1 to localhost:19000 failed on connection exception: java.net.ConnectException: "
    "Connection refused; For more details see:  http://wiki.apache.org/hadoop/ConnectionRefused"
)
QUOTA = (
    "The DiskSpace quota of /quota is exceeded: quota = 1024 B = 1 KB but diskspace consumed = 268435456 B"
)


@pytest.mark.parametrize(
    "command, said, call",
    [
        ("mkdir", [f"mkdir: {SAFE}"], lambda storage: storage.make("hdfs:///safe")),
        ("ls", [f"ls: {REFUSED}"], lambda storage: storage.find(["hdfs:///a"])),
        ("ls", [f"ls: {REFUSED}"], lambda storage: storage.names("hdfs:///a")),
        (
            "put",
            [
                "2026-11-21 14:21:08,001 WARN hdfs.DataStreamer: DataStreamer Exception",
                f"org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: {QUOTA}",
                "\tat org.apache.hadoop.hdfs.server.namenode.Quota.verify(Quota.java:190)",
                "Caused by: org.apache.hadoop.ipc.RemoteException(DSQuotaExceededException)",
                "26/11/21 14:21:08 INFO hdfs.DFSClient: gave up",
                f"put: {QUOTA}",
                "2026-11-21 14:21:09,001 ERROR hdfs.DFSClient: Failed to close file: /quota/a._COPYING_",
                "\tat org.apache.hadoop.hdfs.DFSOutputStream.close(DFSOutputStream.java:880)",
            ],
            lambda storage: storage.write("hdfs:///quota/a", b"1"),
        ),
        (
            "mv",
            ["mv: `hdfs:///b/a': File exists"],
            lambda storage: storage.take(None, {"hdfs:///a": "hdfs:///b/a"}),
        ),
        ("rm", ["rm: Permission denied: user=x"], lambda storage: storage.remove("hdfs:///a")),
        ("cat", ["cat: `hdfs:///a': No such file or directory"], lambda storage: storage.read("hdfs:///a")),
    ],
)
def test_failure_is_told_in_the_one_line_that_says_why(hadoop, storage, command, said, call):
    hadoop.fail(command, *said)
    (line,) = [line for line in said if line.startswith(f"{command}: ")]
    with pytest.raises(JobError) as failure:
        call(storage)
    assert str(failure.value) == line


def test_failure_without_a_word_names_the_command():
    silent = HadoopStorage(["false"])
    with pytest.raises(JobError, match="^hadoop fs -mkdir -p hdfs:///a failed$"):
        silent.make("hdfs:///a")


def test_names_that_a_glob_matches_are_no_input_if_hidden(hadoop):
    for name in ("a", "_SUCCESS", ".a.crc", "_logs/b"):
        hadoop.put(f"/t/{name}", b"1")
    found = HadoopStorage([hadoop.command, "fs"]).find(["hdfs:///t/*"])
    assert [file.path for file in found] == ["hdfs:///t/a"]


def test_unknown_host_is_told(hadoop):
    hadoop.fail(
        "ls",
        "-ls: java.net.UnknownHostException: nowhere",
        "Usage: hadoop fs [generic options] -ls [-C] [-d] [-h] [-q] [-R] [-t] [<path> ...]",
    )
    with pytest.raises(JobError, match="UnknownHostException: nowhere"):
        HadoopStorage([hadoop.command, "fs"]).find(["hdfs://nowhere/a"])


def test_group_with_a_blank(hadoop, monkeypatch):
    line = "-rw-r--r--   3 alice domain users         30 2026-11-21 14:21 hdfs:///t/a b"
    storage = HadoopStorage([hadoop.command, "fs"])
    done = subprocess.CompletedProcess([], 0, line.encode() + b"\n", b"")
    monkeypatch.setattr(storage, "_try", lambda *_: done)
    assert storage.find(["hdfs:///t"])[0][:2] == ("hdfs:///t/a b", 30)


def test_name_with_a_line_separator_of_unicode(hadoop):
    hadoop.put("/t/a\u2028b", b"1")
    assert HadoopStorage([hadoop.command, "fs"]).names("hdfs:///t") == ["a\u2028b"]
