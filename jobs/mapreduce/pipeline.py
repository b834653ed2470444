"""Stages one after another in an output directory that knows what is complete.

OUT/.run/ holds the parameters of the run, a folder for each complete stage and temporary files; what is
published in OUT appears whole, by a rename. OUT/summary.json comes last and ends the run.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import tempfile

from mrjob.job import MRJob
from mrjob.options import _RUNNER_OPTS
from mrjob.step import StepFailedException
from mrjob.util import log_to_null

from .errors import PREFIX, JobError
from .inputs import MAGIC, is_remote
from .progress import Display, Stopwatch, size

SUMMARY = "summary.json"
_STATE = ".run"


class Run:
    """One run of a pipeline into one output directory."""

    def __init__(self, folder, job):
        self.folder, self.job = folder, job
        self._link, place = _plain_path(os.path.abspath(folder))
        self.state = os.path.join(place, _STATE)
        self.names = {}  # what to call files that are ours, in messages
        self.display = Display(job.options.quiet)
        self.parameters, self.stages = {}, {}
        self._lock = None

    def path(self, *names):
        return os.path.join(self.state, *names)

    # the output directory

    def open(self, inputs):
        """Take the output directory into use, or refuse it in one line."""
        if is_remote(self.folder):
            raise JobError(f"--output-dir must be a folder of this machine, got {self.folder}")
        for path in inputs:
            source = os.path.realpath(path)
            inside = os.path.realpath(self.folder)
            if not is_remote(path) and os.path.commonpath([source, inside]) in (source, inside):
                raise JobError(f"--output-dir must be apart from the input, got {self.folder} and {path}")
        if os.path.exists(self.folder) and not os.path.isdir(self.folder):
            raise JobError(f"--output-dir must be a directory, got the file {self.folder}")
        if os.path.isdir(self.folder):
            names = set(os.listdir(self.folder))
            if names and not names & {_STATE, SUMMARY}:
                raise JobError(
                    f"--output-dir must be empty or hold a run, got {self.folder} with {min(names)} in it"
                )
        os.makedirs(self.folder, exist_ok=True)
        if not os.path.exists(self._summary_path()):
            os.makedirs(self.state, exist_ok=True)
            self._lock_state()

    def _lock_state(self):
        """Let one process at a time work here; the system lets go of the lock when it ends."""
        with contextlib.suppress(ImportError):  # no fcntl, no lock
            import fcntl

            self._lock = open(self.path("lock"), "w")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise JobError(f"another run is at work in {self.folder}") from None

    def check_parameters(self, parameters):
        """Refuse the output of other parameters; True if this very run is complete already."""
        self.parameters = parameters
        for path, complete in ((self._summary_path(), True), (self.path("parameters.json"), False)):
            if os.path.exists(path):
                earlier = self._parameters_in(path)
                for name in sorted({*earlier, *parameters}):
                    if earlier.get(name) != parameters.get(name):
                        if complete:
                            self.close()
                        was, now = _difference(earlier.get(name), parameters.get(name))
                        raise JobError(
                            f"{self.folder} holds a run with {name} {was}, got {now}: "
                            "choose another --output-dir"
                        )
                return complete
        write_json(self.path("parameters.json"), {"parameters": parameters})
        return False

    def _parameters_in(self, path):
        try:
            with open(path, encoding="utf-8") as file:
                return dict(json.load(file)["parameters"])
        except (ValueError, KeyError, TypeError):
            raise JobError(
                f"--output-dir must be empty or hold a run, got {self.folder} with another program's "
                f"{os.path.basename(path)} in it"
            ) from None

    def _summary_path(self):
        return os.path.join(self.folder, SUMMARY)

    def earlier_summary(self):
        with open(self._summary_path()) as file:
            return json.load(file)

    def close(self, summary=None):
        """Remove what only a resumed run needs, once the summary stands."""
        self.display.close()
        if summary is not None:
            write_json(self._summary_path(), summary)
        shutil.rmtree(self.state, ignore_errors=True)
        self.leave()

    def leave(self):
        """Let others at the output directory, whatever is in it."""
        self.display.close()
        if self._lock:
            self._lock.close()
        if self._link:
            shutil.rmtree(self._link, ignore_errors=True)

    def renamed(self, text):
        """A message with the names of files that the user knows."""
        for path, name in self.names.items():
            text = text.replace(path, name)
        return text

    # stages

    def stage(self, name, job_class, arguments, inputs):
        """Run a job as a stage, or find it complete: its output folder."""
        folder = self.path(name)
        if not os.path.exists(os.path.join(folder, "stage.json")):
            self._run_stage(name, job_class, arguments, inputs, folder)
        with open(os.path.join(folder, "stage.json")) as file:
            self.stages[name] = json.load(file)
        return self.output(name)

    def output(self, name):
        """The output folder of a complete stage."""
        return self.path(name, "output")

    def _run_stage(self, name, job_class, arguments, inputs, folder):
        watch, aside = Stopwatch(), folder + ".tmp"
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(self.path("tmp"), ignore_errors=True)
        os.makedirs(aside)
        os.makedirs(self.path("tmp"))
        output = os.path.join(aside, "output")
        runner_name = self.job.options.runner or "inline"
        stage = job_class(["-r", runner_name, "--output-dir", output, *arguments, *inputs])
        copy_runner_options(self.job.options, stage.options)
        stage.options.output_dir = output
        stage.options.cat_output = False
        stage.ship_code()
        if not stage.options.local_tmp_dir:
            stage.options.local_tmp_dir = os.path.abspath(self.path("tmp"))
        with self._logged() as causes, stage.make_runner() as runner:
            if hasattr(runner, "progress"):
                runner.progress = self.display.follow(name)
            try:
                runner.run()
            except StepFailedException as error:
                raise JobError(_cause(causes) or f"stage {name}: {error}") from None
            counters = {}
            for step in runner.counters():
                for counter, amount in step.get("lsh", {}).items():
                    counters[counter] = counters.get(counter, 0) + amount
        seconds, read, written = watch(), _size_of(inputs), _size_of([output])
        report = {"seconds": seconds, "read": read, "written": written, "counters": counters}
        write_json(os.path.join(aside, "stage.json"), report)
        os.rename(aside, folder)
        rate = f"{size(read / max(seconds, 1e-3))}/s"
        self.display.log(f"{name}: {seconds:.1f} s, {size(read)} read at {rate}, {size(written)} written")

    @contextlib.contextmanager
    def _logged(self):
        """Keep mrjob quiet unless asked, and what it says of failures."""
        causes = []
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: causes.append(record.getMessage())
        logger = logging.getLogger("mrjob")
        if self.job.options.verbose:
            MRJob.set_up_logging(verbose=True, stream=sys.stderr)
        else:
            log_to_null("mrjob")
        logger.addHandler(handler)
        logger.propagate = False
        try:
            yield causes
        finally:
            logger.removeHandler(handler)

    def counter(self, name):
        return sum(stage["counters"].get(name, 0) for stage in self.stages.values())

    def publish(self, source, name):
        """Let a finished folder appear in the output directory, if it has not yet."""
        target = os.path.join(self.folder, name)
        if not os.path.exists(target):
            os.rename(source, target)


def copy_runner_options(source, target):
    """Hand mrjob's own options on to a stage."""
    for name in {*_RUNNER_OPTS, "conf_paths", "verbose", "quiet"}:
        if hasattr(source, name):
            setattr(target, name, getattr(source, name))


def _cause(messages):
    """The line that a task of ours ended with, out of what mrjob logged."""
    found = re.findall(rf"^{PREFIX}(.*)$", "\n".join(messages), re.MULTILINE)
    return found[-1] if found else None


def write_json(path, value):
    """Write a JSON file that is whole or absent."""
    with open(path + ".tmp", "w") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
    os.rename(path + ".tmp", path)


def part_files(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name[0] not in "._"]


def _size_of(paths):
    total = 0
    for path in paths:
        if os.path.isdir(path):
            total += sum(map(os.path.getsize, part_files(path)))
        elif not is_remote(path):
            total += os.path.getsize(path)
    return total


def _plain_path(folder):
    """(temporary folder or None, path without what mrjob takes for a glob or a name)."""
    if not re.search(r"[#*?\[\]]", folder):
        return None, folder
    temporary = tempfile.mkdtemp(prefix="lsh-")
    link = os.path.join(temporary, "output")
    os.symlink(folder, link)
    return temporary, link


def _difference(was, now):
    """The values for a message; of lists what only one of them has."""
    if isinstance(was, list) and isinstance(now, list):
        gone, new = [x for x in was if x not in now], [x for x in now if x not in was]
        was, now = (gone[:1] or was[:1]), (new[:1] or now[:1])
    return _short(was), _short(now)


def _short(value):
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:197] + "..."


def spool(stream, folder):
    """(path, SHA-256) of a file with what standard input holds, under the name its compression asks."""
    os.makedirs(folder, exist_ok=True)
    aside, digest, head = os.path.join(folder, "stdin.tmp"), hashlib.sha256(), b""
    with open(aside, "wb") as file:
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            head = (head + chunk[:3])[:3]
            digest.update(chunk)
            file.write(chunk)
    ending = next((end for magic, end in MAGIC.items() if head.startswith(magic)), "")
    path = os.path.join(folder, "stdin" + ending)
    os.rename(aside, path)
    return path, digest.hexdigest()


def fingerprint(files):
    """What tells an input from another: path, bytes and time of change of each file."""
    return [
        [path]
        if is_remote(path)
        else [os.path.abspath(path), os.path.getsize(path), os.stat(path).st_mtime_ns]
        for path in files
    ]
