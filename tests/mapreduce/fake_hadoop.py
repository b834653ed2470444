"""A stand-in for the `hadoop` command: its files are in a folder, and its jobs do what a test tells them to.

Run as a command, with the folder first, it prints what Hadoop 3.4 prints.
"""

import glob
import json
import os
import re
import shutil
import stat
import sys
import time

LOG = "2026-11-21 14:21:07,123 "
WARNING = LOG + "WARN util.NativeCodeLoader: Unable to load native-hadoop library for your platform..."


class FakeHadoop:
    """What a test sees of it: its files, what was asked of it, and what it is to do."""

    def __init__(self, folder):
        self.folder = str(folder)
        for name in ("bin", "hdfs", "jobs", "fails", "logs", "share"):
            os.makedirs(os.path.join(self.folder, name))
        self.command = os.path.join(self.folder, "bin", "hadoop")
        with open(self.command, "w") as file:
            file.write(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" "{self.folder}" "$@"\n')
        os.chmod(self.command, 0o755)
        open(os.path.join(self.folder, "share", "hadoop-streaming-3.4.2.jar"), "w").close()

    def path(self, path):
        """Where a file of HDFS lies."""
        return os.path.join(self.folder, "hdfs", _path_part(path).lstrip("/"))

    def put(self, path, data=b""):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "wb") as file:
            file.write(data)

    def read(self, path):
        with open(self.path(path), "rb") as file:
            return file.read()

    def files(self):
        """Paths of all files of HDFS."""
        top = self.path("/")
        return sorted(
            "/" + os.path.relpath(os.path.join(parent, name), top)
            for parent, _, names in os.walk(top)
            for name in names
        )

    def calls(self, *start):
        """The arguments of the calls that start with these."""
        with open(os.path.join(self.folder, "calls")) as file:
            return [call for call in map(json.loads, file) if call[: len(start)] == list(start)]

    def fail(self, command, *lines):
        """Let `hadoop fs -COMMAND` print these lines and fail."""
        self.tell(f"fails/{command}", "".join(line + "\n" for line in lines))

    def job(self, *lines, status=0, output=None, hangs=False):
        """Let the next job print lines after its submission, and end, with output {name: bytes}."""
        number = len(os.listdir(os.path.join(self.folder, "jobs"))) + 1
        text = {name: data.decode() for name, data in (output or {"part-00000": b""}).items()}
        plan = {"lines": lines, "status": status, "output": text, "hangs": hangs}
        self.tell(f"jobs/{number:03d}", json.dumps(plan))

    def refused_job(self, *lines, status=5):
        """Let the next job fail before it is submitted."""
        number = len(os.listdir(os.path.join(self.folder, "jobs"))) + 1
        self.tell(f"jobs/{number:03d}", json.dumps({"refused": lines, "status": status}))

    def task_log(self, text, container=1, application=1, name="stderr"):
        """Let a NodeManager of this machine have a task's log; the folder of all logs."""
        self.tell(f"logs/userlogs/{_application(application)}/container_{container:02d}/{name}", text)
        return os.path.join(self.folder, "logs")

    def aggregated_logs(self, *texts, name="stderr"):
        """Let `yarn logs` print the logs of tasks."""
        end = f"End of LogType:{name}"
        head = (
            "Container: container_1790000000000_0001_01_{0:06d} on localhost_45454_1790000000000\n"
            "LogAggregationType: AGGREGATED\n"
            + "="
            * 86
            + f"\nLogType:{name}\nLogLastModifiedTime:Sat Nov 21 14:21:00 +0000 2026\nLogLength:{1}\n"
            "LogContents:\n"
        )
        logs = [head.format(n, len(text)) + f"{text}\n{end}\n" for n, text in enumerate(texts, 1)]
        self.tell(f"aggregated/{name}", "".join(log + "*" * (len(end) + 50) + "\n\n" for log in logs))

    def applications(self, *numbers):
        """Let these be at work in YARN."""
        lines = [
            "Total number of applications (application-types: [], states: [ACCEPTED, RUNNING] and tags: [t]):"
            f"{len(numbers)}",
            "                Application-Id\t    Application-Name\t    Application-Type\t      User",
            *(f"{_application(number)}\tstreamjob.jar\tMAPREDUCE\thadoop" for number in numbers),
        ]
        self.tell("applications", "".join(line + "\n" for line in lines))

    def tell(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


def counters(written=0, **ours):
    """The lines with a job's counters."""
    groups = {
        "Job Counters ": {
            "Total time spent by all map tasks (ms)": 2500,
            "Total time spent by all reduce tasks (ms)": 1200,
        },
        "Map-Reduce Framework": {"Reduce shuffle bytes": 70},
        "File Output Format Counters ": {"Bytes Written": written},
        "lsh": ours,
    }
    lines = [LOG + f"INFO mapreduce.Job: Counters: {sum(map(len, groups.values()))}"]
    for group, amounts in groups.items():
        lines += [f"\t{group}", *(f"\t\t{name}={amount}" for name, amount in amounts.items())]
    return lines


def _application(number):
    return f"application_1790000000000_{number:04d}"


def _path_part(path):
    return re.sub(r"^\w+://[^/]*", "", path)


class _Failure(Exception):
    """A line on standard error, and exit status 1."""


class _Shell:
    """`hadoop fs`"""

    def __init__(self, top):
        self._top = top

    def run(self, command, *arguments):
        options = [argument for argument in arguments if re.match("-.", argument)]
        getattr(self, command[1:])(options, *arguments[len(options) :])

    def _found(self, path):
        """{name as it is shown: where it lies} of a path or glob."""
        scheme = path[: len(path) - len(_path_part(path))]
        folder, name = os.path.split(self._place(path))
        found = glob.glob(f"{folder}/{name}")
        if name.startswith("*"):  # in Hadoop, hidden names match
            found += glob.glob(f"{folder}/.{name}")
        if not found:
            raise _Failure(f"`{path}': No such file or directory")
        return {f"{scheme}/{os.path.relpath(place, self._top)}": place for place in sorted(found)}

    def _place(self, path):
        return os.path.join(self._top, _path_part(path).strip("/"))

    def ls(self, options, path):
        for name, place in self._found(path).items():
            if not os.path.isdir(place):
                self._show(name, place)
                continue
            inside = sorted(os.listdir(place))
            if inside and "-R" not in options:
                print(f"Found {len(inside)} items")
            for entry in inside:
                self._show(f"{name}/{entry}", f"{place}/{entry}")
                if "-R" in options and os.path.isdir(f"{place}/{entry}"):
                    self.ls(options, f"{name}/{entry}")

    def _show(self, name, place):
        info = os.stat(place)
        folder = stat.S_ISDIR(info.st_mode)
        kind, copies, size = ("drwxr-xr-x", "-", 0) if folder else ("-rw-r--r--", "2", info.st_size)
        changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.st_mtime))
        print(f"{kind} {copies:>3} hadoop supergroup {size:>10} {changed} {name}")

    def cat(self, _, path):
        for name, place in self._found(path).items():
            if os.path.isdir(place):
                raise _Failure(f"`{name}': Is a directory")
            with open(place, "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)

    def put(self, options, source, path):
        place = self._place(path)
        if not os.path.isdir(os.path.dirname(place)):
            raise _Failure(f"`{path}': No such file or directory: `{path.rpartition('/')[0]}'")
        if source == "-":
            self._refuse_existing(options, path, place)
            with open(place, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            return
        if os.path.isdir(place):
            path, place = (f"{parent}/{os.path.basename(source)}" for parent in (path, place))
        self._refuse_existing(options, path, place)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, place)

    def _refuse_existing(self, options, path, place):
        if os.path.exists(place) and "-f" not in options:
            raise _Failure(f"`{path}': File exists")

    def mkdir(self, options, path):
        assert options == ["-p"]
        os.makedirs(self._place(path), exist_ok=True)

    def rm(self, options, *paths):
        assert [option.lower() for option in options] == ["-r", "-f", "-skiptrash"]
        for path in paths:
            if os.path.lexists(place := self._place(path)):
                (shutil.rmtree if os.path.isdir(place) else os.unlink)(place)
                print(f"Deleted {path}")

    def mv(self, _, *paths):
        *sources, target = paths
        if len(sources) > 1 and not os.path.isdir(self._place(target)):
            raise _Failure(f"`{target}': No such file or directory")
        for source in sources:
            for name, place in self._found(source).items():
                inside = os.path.isdir(self._place(target))
                path = f"{target}/{os.path.basename(name)}" if inside else target
                self._refuse_existing((), path, self._place(path))
                os.rename(place, self._place(path))

    def get(self, _, path, target):
        for place in self._found(path).values():
            (shutil.copytree if os.path.isdir(place) else shutil.copy)(
                place, f"{target}/{os.path.basename(place)}" if os.path.isdir(target) else target
            )


def _jar(folder, arguments):
    """A job, as the first plan that is left tells; without one it ends well at once."""
    plans = sorted(name for name in os.listdir(f"{folder}/jobs") if not name.endswith("done"))
    plan = {"lines": counters(), "status": 0, "output": {"part-00000": ""}, "hangs": False}
    if plans:
        with open(f"{folder}/jobs/{plans[0]}") as file:
            plan = json.load(file)
        os.rename(f"{folder}/jobs/{plans[0]}", f"{folder}/jobs/{plans[0]}.done")
    output = arguments[arguments.index("-output") + 1]
    place = os.path.join(folder, "hdfs", _path_part(output).lstrip("/"))
    print("packageJobJar: [] [/opt/hadoop-streaming-3.4.2.jar] /tmp/streamjob1.jar tmpDir=null")
    if os.path.exists(place):
        said = f"Error launching job , Output path already exists : Output directory {output} already exists"
        plan = {"refused": [LOG + "ERROR streaming.StreamJob: " + said], "status": 4}
    if "refused" in plan:
        print(*plan["refused"], "Streaming Command Failed!", sep="\n")
        return plan["status"]
    number = len(os.listdir(f"{folder}/jobs")) or 1
    os.makedirs(f"{place}/_temporary/1")
    print(LOG + f"INFO impl.YarnClientImpl: Submitted application {_application(number)}")
    print(LOG + f"INFO mapreduce.Job: Running job: job_1790000000000_{number:04d}")
    with open(f"{folder}/client", "w") as file:
        file.write(str(os.getpid()))
    print(*plan["lines"], sep="\n", flush=True)
    if plan["hangs"]:
        time.sleep(600)
    if plan["status"]:
        print(LOG + "ERROR streaming.StreamJob: Job not successful!\nStreaming Command Failed!")
        return plan["status"]
    shutil.rmtree(f"{place}/_temporary")
    for name, text in {**plan["output"], "_SUCCESS": ""}.items():
        with open(f"{place}/{name}", "w") as file:
            file.write(text)
    print(LOG + f"INFO streaming.StreamJob: Output directory: {output}")
    return 0


def _said(path):
    if os.path.exists(path):
        with open(path) as file:
            return file.read()
    return ""


def main(folder, program, *arguments):
    with open(f"{folder}/calls", "a") as file:
        file.write(json.dumps([program, *arguments]) + "\n")
    print(WARNING, file=sys.stderr)
    if program == "fs":
        refusal = _said(f"{folder}/fails/{arguments[0][1:]}")
        if refusal:
            print(refusal, end="", file=sys.stderr)
            return 1
        try:
            _Shell(f"{folder}/hdfs").run(*arguments)
        except _Failure as failure:
            print(f"{arguments[0][1:]}: {failure}", file=sys.stderr)
            return 1
    elif program == "version":
        print("Hadoop 3.4.2\nSource code repository https://github.com/apache/hadoop.git -r 84e8b8")
    elif program == "jar":
        return _jar(folder, arguments)
    elif program.endswith(".ApplicationCLI"):
        print(_said(f"{folder}/applications") if "-list" in arguments else "Killed", end="")
    elif program.endswith(".LogsCLI"):
        print(_said(f"{folder}/aggregated/{arguments[-1]}"), end="")
    else:
        print(f"Error: Could not find or load main class {program}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
