"""A Hadoop of the tests' own, and what can happen to its processes."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from running import TOP, command

HADOOP = TOP / "scripts" / "hadoop"


def needs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")


class Hadoop:
    """The cluster of scripts/hadoop in a folder."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._script("start")
        exports = subprocess.run([HADOOP, "env", "--dir", folder], capture_output=True, text=True, check=True)
        shell = subprocess.run(
            ["bash", "-c", f"{exports.stdout}\nenv -0"], capture_output=True, text=True, check=True
        )
        self.env = dict(entry.split("=", 1) for entry in shell.stdout.split("\0") if entry)

    def _script(self, *arguments):
        done = subprocess.run([HADOOP, *arguments, "--dir", self.folder], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self):
        """Start again what was killed."""
        self._script("start")

    def remove(self):
        self._script("stop", "--remove")

    def pid(self, daemon):
        return self.state()["daemons"][daemon]["pid"]

    def state(self):
        done = subprocess.run(
            [HADOOP, "status", "--json", "--dir", self.folder], capture_output=True, text=True
        )
        return json.loads(done.stdout)

    def run(self, program, *arguments):
        """The output of hadoop, hdfs or yarn."""
        done = subprocess.run([program, *map(str, arguments)], env=self.env, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def put(self, path, target):
        self.run("hadoop", "fs", "-mkdir", "-p", os.path.dirname(target))
        self.run("hadoop", "fs", "-put", "-f", path, target)

    def fetch(self, folder, target):
        """A folder of HDFS without what is hidden in it, as a folder of this machine."""
        self.run("hadoop", "fs", "-get", folder, target)
        for path in Path(target).glob("**/_SUCCESS"):
            path.unlink()
        return target

    def paths(self, folder):
        """All that is below a folder or a pattern of HDFS; none where that is not."""
        done = subprocess.run(
            ["hadoop", "fs", "-ls", "-R", "-C", folder], env=self.env, capture_output=True, text=True
        )
        assert done.returncode == 0 or "No such file" in done.stderr, done.stderr
        return [re.sub("^hdfs://[^/]*", "", path) for path in done.stdout.split()]

    def start_dedup(self, *arguments):
        return subprocess.Popen(
            command(*arguments, "-r", "hadoop"),
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def dedup(self, *arguments):
        """jobs/dedup.py -r hadoop, to its end: its CompletedProcess."""
        process = self.start_dedup(*arguments)
        out, errors = process.communicate(timeout=900)
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)

    def wait_until(self, condition, seconds=90):
        """Wait until the state of the cluster is such."""
        end = time.monotonic() + seconds
        while not condition(self.state()):
            assert time.monotonic() < end, self.state()
            time.sleep(0.5)

    # what works for the cluster

    def tasks(self, script, kind):
        """{pid: NodeManager} of the Python tasks of a job's mappers or reducers."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                line = (folder / "cmdline").read_bytes().split(b"\0")
                place = os.readlink(folder / "cwd")
            except OSError:  # it has just ended
                continue
            inside = re.match(re.escape(str(self.folder)) + "/(nm[0-9])/", place)
            if inside and script.encode() in line and b"--" + kind.encode() in line and b"python" in line[0]:
                found[int(folder.name)] = inside[1]
        return found

    def wait_for_task(self, process, script, kind="mapper"):
        """(pid, NodeManager) of a task of a run that goes on."""
        end = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < end:
            for found in self.tasks(script, kind).items():
                return found
            time.sleep(0.02)
        raise AssertionError(f"no {kind} of {script}: {process.communicate()[1].decode()}")

    def kill(self, daemon):
        os.kill(self.pid(daemon), signal.SIGKILL)

    def kill_node(self, daemon):
        """A NodeManager and all that runs under it, as when its machine is switched off."""
        self.kill(daemon)
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(folder / "cwd").startswith(f"{self.folder}/{daemon}/"):
                    os.kill(int(folder.name), signal.SIGKILL)
            except OSError:
                pass
