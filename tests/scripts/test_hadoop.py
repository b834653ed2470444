import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

spec = spec_from_loader("hadoop_script", SourceFileLoader("hadoop_script", str(SCRIPTS / "hadoop")))
module = module_from_spec(spec)
spec.loader.exec_module(module)


def run_script(*arguments, **variables):
    command = [sys.executable, SCRIPTS / "hadoop", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def fake_java(folder, release):
    lines = (
        f"    java.home = {folder}\\n    java.vm.version = v\\n    java.specification.version = {release}\\n"
    )
    program(folder, "java", f"printf '{lines}' >&2")


@pytest.fixture
def bare(tmp_path):
    """Variables with an empty PATH, cache and JAVA_HOME, and the folder of that PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return {"PATH": str(folder), "JAVA_HOME": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}, folder


def failed_in_one_line(result):
    assert result.returncode == 1 and not result.stdout
    assert result.stderr.startswith("scripts/hadoop: ") and result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("release, found", [(None, "none"), ("1.8", "Java 1.8 in "), ("23", "Java 23 in ")])
def test_java_that_cannot_run_hadoop_is_told_from_what_can(tmp_path, bare, release, found):
    variables, folder = bare
    if release:
        fake_java(folder, release)
    line = failed_in_one_line(run_script("start", "--dir", tmp_path / "c", **variables))
    assert "Java 11 to 22 must be installed for Hadoop 3.4, found " + found in line
    assert "apt install default-jre-headless" in line
    assert not (tmp_path / "c").exists()


def test_maven_is_asked_for(tmp_path, bare):
    variables, folder = bare
    fake_java(folder, "17")
    line = failed_in_one_line(run_script("start", "--dir", tmp_path / "c", **variables))
    assert "Maven must be installed to collect Hadoop, found none: apt install" in line


def test_error_of_maven_is_shown_and_nothing_partial_stays(tmp_path, bare):
    variables, folder = bare
    fake_java(folder, "17")
    program(folder, "mvn", "echo '[ERROR] no route to host -> [Help 1]'\necho '[ERROR] Re-run Maven'\nexit 1")
    result = run_script("start", "--dir", tmp_path / "c", **variables)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last == "scripts/hadoop: Maven must reach Maven Central or a mirror: no route to host"
    assert [path.name for path in (tmp_path / "cache" / "lsh-mapreduce").iterdir()] == ["lock"]


@pytest.mark.parametrize("command", ["env", "status", "stop"])
def test_commands_before_a_start(tmp_path, command):
    result = run_script(command, "--dir", tmp_path / "c")
    if command == "env":
        assert f"no cluster runs in {tmp_path / 'c'}: scripts/hadoop start" in failed_in_one_line(result)
    else:
        assert result.returncode == {"status": 1, "stop": 0}[command]
    assert not (tmp_path / "c").exists()


def test_status_of_no_cluster_names_every_daemon_as_dead(tmp_path):
    result = run_script("status", "--json", "--dir", tmp_path)
    status = json.loads(result.stdout)
    assert result.returncode == 1 and not status["ready"]
    assert {name: daemon["pid"] for name, daemon in status["daemons"].items()} == dict.fromkeys(
        ["nn", "dn1", "dn2", "rm", "nm1", "nm2"]
    )
    assert (status["datanodes"], status["nodemanagers"]) == (0, 0)


def test_folder_of_something_else_is_neither_used_nor_removed(tmp_path):
    (tmp_path / "thesis").write_text("mine")
    with pytest.raises(module.Failure, match="--dir must be a folder of a cluster, or empty"):
        module.Cluster(tmp_path).configure(tmp_path / "home", module.Java("java", "v"), None)
    assert run_script("stop", "--remove", "--dir", tmp_path).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]


@pytest.mark.parametrize("name", ["a b", "a,b", "ä", "a:b", "a'b"])
def test_folder_that_hadoop_would_cut_is_refused(tmp_path, name):
    line = failed_in_one_line(run_script("start", "--dir", tmp_path / name))
    assert "--dir must have only ASCII letters, digits and ./+@~_- in its path" in line


def configured(folder):
    """A cluster that has settings, of jars that do not exist."""
    cluster = module.Cluster(folder / "cluster")
    cluster.configure(folder / "home", module.Java("/opt/java", "v"), None)
    (cluster.folder / "pids").mkdir(exist_ok=True)
    return cluster


def test_process_that_got_the_id_of_a_daemon_later_is_let_live(tmp_path):
    cluster = configured(tmp_path)
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            started = module.process(other.pid).started
            (cluster.folder / "pids" / "nm1").write_text(f"{other.pid} {started}")
            assert cluster.running("nm1").pid == other.pid
            (cluster.folder / "pids" / "nm1").write_text(f"{other.pid} 1{started}")
            assert cluster.running("nm1") is None
            cluster.stop()
            assert other.poll() is None
        finally:
            other.kill()


def test_stop_kills_the_daemon_and_all_of_a_task_but_no_reader_of_its_log(tmp_path):
    cluster = configured(tmp_path)
    log = cluster.folder / "logs/nm1/userlogs/application_1/container_1"
    daemon = subprocess.Popen(["sleep", "60"], start_new_session=True)
    task = subprocess.Popen(
        ["bash", "-c", "sleep 60 & wait", "bash", log], start_new_session=True, stdout=subprocess.DEVNULL
    )
    reader = subprocess.Popen(["tail", "-f", "/dev/null", log], stderr=subprocess.DEVNULL)
    try:
        (cluster.folder / "pids" / "nm1").write_text(f"{daemon.pid} {module.process(daemon.pid).started}")
        cluster.stop(["nm2"])
        assert (daemon.poll(), task.poll()) == (None, None)
        cluster.stop()
        assert (daemon.wait(), task.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
        assert not [found for found in module.processes() if found.group == task.pid]
        assert reader.poll() is None
    finally:
        for process in (daemon, task, reader):
            process.kill()
            process.wait()


@pytest.mark.skipif(not shutil.which("ps"), reason="needs ps")
def test_ps_tells_the_same_as_proc():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as sleeper:
        try:
            (found,) = module.processes_by_ps("-p", str(sleeper.pid))
            assert (found.pid, found.group, found.command) == (sleeper.pid, sleeper.pid, "sleep 60")
            assert found in module.processes_by_ps()
            assert found.command == module.process(sleeper.pid).command.strip()
        finally:
            sleeper.kill()
    assert module.processes_by_ps("-p", str(sleeper.pid)) == []


def test_base_port_steps_over_a_block_with_one_taken_port(monkeypatch):
    monkeypatch.setattr(module, "BASE_PORTS", range(31000, 32000, 40))
    first = module.choose_base_port()
    assert first in module.BASE_PORTS
    with socket.socket() as server:
        server.bind((module.settings.HOST, max(module.ports_from(first).values())))
        server.listen()
        assert module.choose_base_port() > first
        assert module.choose_base_port(kept=first) != first
    assert module.choose_base_port(kept=31007) == 31007


def test_every_port_of_a_block_is_one_setting(tmp_path):
    """Each stands in the files or in the arguments of one daemon, and the two of a kind share none."""
    settings, ports = module.settings, module.ports_from(20000)
    files = settings.site_files(tmp_path, ports, tmp_path)
    values = [str(value) for file in files.values() for value in file.values()]
    for name in module.DAEMONS:
        values += map(str, settings.node_settings(name, tmp_path, ports).values())
    used = {port for port in ports.values() for value in values if value.endswith(str(port))}
    assert used == set(ports.values())
    for kind in ("dn", "nm"):
        both = [set(settings.node_settings(f"{kind}{node}", tmp_path, ports).values()) for node in (1, 2)]
        assert both[0].isdisjoint(both[1])


def test_settings_are_escaped(tmp_path):
    module.write_site(tmp_path / "site.xml", {"a.b": "<&>\"'é", "number": 3})
    items = ET.parse(tmp_path / "site.xml").getroot().iter("property")
    assert [(item[0].text, item[1].text) for item in items] == [("a.b", "<&>\"'é"), ("number", "3")]


def test_mrjob_gets_the_settings_of_the_cluster(tmp_path):
    cluster = configured(tmp_path)
    cluster.write_mrjob_conf()
    conf = json.loads((cluster.folder / "mrjob.conf").read_text())
    assert conf["include"] == str(SCRIPTS.parent / "configs" / "hadoop.conf")
    options = conf["runners"]["hadoop"]
    assert options["hadoop_bin"] == [f"{tmp_path}/home/bin/hadoop", "--config", f"{cluster.folder}/conf"]
    assert options["hadoop_log_dirs"][:2] == [f"{cluster.folder}/logs/nm{node}" for node in (1, 2)]


@pytest.mark.parametrize(
    "log, line",
    [
        ("", "it said nothing"),
        ("2026-01-02 03:04:05,678 INFO a.B: fine\n", "fine"),
        (
            "2026-01-02 03:04:05,678 ERROR a.B: failed\n"
            "java.net.BindException: Port in use: 127.0.0.1:1\n\tat a.Error.b(C.java:1)\n\t... 3 more\n"
            "2026-01-02 03:04:05,679 INFO a.B: SHUTDOWN_MSG\n",
            "java.net.BindException: Port in use: 127.0.0.1:1",
        ),
    ],
)
def test_last_error_of_a_log(log, line):
    assert module.last_error(log) == line


needs_java = pytest.mark.skipif(
    not (shutil.which("java") and shutil.which("mvn")), reason="needs Java and Maven to run Hadoop"
)


def status_of(folder):
    return json.loads(run_script("status", "--json", "--dir", folder).stdout)


def processes_of(folder):
    return [found for found in module.processes() if str(folder) in found.command and "java" in found.command]


@pytest.mark.cluster
@needs_java
def test_cluster_runs_a_job_survives_a_killed_daemon_and_leaves_nothing(tmp_path):
    folder = tmp_path / "cluster"
    try:
        result = run_script("start", "--dir", folder)
        assert result.returncode == 0, result.stderr
        assert f'eval "$(scripts/hadoop env --dir {folder})"' in result.stdout
        status = status_of(folder)
        assert status["ready"] and not status["safemode"]
        assert (status["datanodes"], status["nodemanagers"]) == (2, 2)

        variables = run_script("env", "--dir", folder).stdout

        def in_shell(command):
            shell = subprocess.run(["sh", "-c", f"{variables}\n{command}"], capture_output=True, text=True)
            assert shell.returncode == 0, shell.stderr
            return shell.stdout

        (tmp_path / "input").write_text("b\na\nb\n")
        in_shell(f"hadoop fs -mkdir -p /data; hadoop fs -put {tmp_path}/input /data/input")
        in_shell(
            'hadoop jar "$HADOOP_HOME"/lib/hadoop-streaming-*.jar -D mapreduce.job.reduces=1 '
            "-input /data/input -output /data/output -mapper cat -reducer 'uniq -c'"
        )
        assert in_shell("hdfs dfs -cat '/data/output/part-*'").split() == ["1", "a", "2", "b"]

        assert f"everything runs in {folder}" in run_script("start", "--dir", folder).stderr
        os.kill(status["daemons"]["dn1"]["pid"], signal.SIGKILL)
        assert run_script("status", "--dir", folder).returncode == 1
        again = run_script("start", "--dir", folder)
        assert "starting dn1\n" in again.stderr and again.returncode == 0
        after = status_of(folder)
        assert after["ready"]
        pids = {name: daemon["pid"] for name, daemon in after["daemons"].items()}
        changed = {name for name, daemon in status["daemons"].items() if daemon["pid"] != pids[name]}
        assert changed == {"dn1"}

        # data and ports outlive a stop
        assert run_script("stop", "--dir", folder).returncode == 0
        assert processes_of(folder) == []
        assert run_script("start", "--dir", folder).returncode == 0
        assert status_of(folder)["ports"] == status["ports"]
        assert in_shell("hadoop fs -cat /data/input") == "b\na\nb\n"
    finally:
        run_script("stop", "--remove", "--dir", folder)
    assert processes_of(folder) == []
    assert not folder.exists()


@pytest.mark.cluster
@needs_java
def test_interrupted_start_leaves_no_daemon(tmp_path):
    folder = tmp_path / "cluster"
    command = [sys.executable, SCRIPTS / "hadoop", "start", "--dir", folder]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as start:
        while not (folder / "pids" / "nm1").exists() and start.poll() is None:
            time.sleep(0.02)
        start.send_signal(signal.SIGINT)
        assert "Traceback" not in start.communicate()[1]
    assert start.returncode == 128 + signal.SIGINT
    assert processes_of(folder) == []
