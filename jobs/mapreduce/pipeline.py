"""Stages one after another in an output directory that knows what is complete.

OUT/.run/ holds the parameters of the run and, of each complete stage, a report NAME.json; a stage without
one is run again. The data of a stage are in NAME/ beside it or, where the tasks run on a cluster and OUT is a
folder of this machine, in the cluster's temporary folder. What is published appears in OUT whole;
OUT/summary.json comes last and ends the run.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import socket
import sys
import tempfile

from mrjob.job import MRJob
from mrjob.options import _RUNNER_OPTS
from mrjob.step import StepFailedException
from mrjob.util import log_to_null

from .corpus import Corpus
from .errors import PREFIX, JobError
from .inputs import is_remote
from .progress import Display, Stopwatch, size
from .storage import LocalStorage, path_part

SUMMARY = "summary.json"
_STATE = ".run"
_INPUT = "input"  # the stage that brings files of this machine to a cluster


class Run:
    """One run of a pipeline into one output directory.

    `job` is the pipeline, with the options of the user. `published` tells for some stages the name that their
    output has in the output directory.
    """

    def __init__(self, folder, job, published):
        self.folder, self.job, self.published = folder, job, published
        self.engine = job.options.runner or "inline"
        self.display = Display(job.options.quiet)
        self.parameters, self.stages = {}, {}
        self.corpus = Corpus([], self._at)
        self._sizes = {}  # bytes of each input file and of each stage's output
        self._reports, self._leftovers = {}, set()
        self._lock = self._link = self._remote = self._scratch = None
        if is_remote(folder):
            self.place = folder.rstrip("/")
        else:
            self._link, self.place = _plain_path(os.path.abspath(folder))
        self.state = self.data = f"{self.place}/{_STATE}"
        owner = folder if is_remote(folder) else f"{socket.gethostname()} {os.path.realpath(folder)}"
        self.tag = f"lsh-{hashlib.sha256(owner.encode()).hexdigest()[:16]}"
        if self.engine not in ("inline", "local"):
            self._reach_cluster(job.make_runner())
        self._home = self._at(self.place)

    def _reach_cluster(self, runner):
        self._remote = runner.remote_storage()
        self._stop_jobs = runner.stop_jobs
        if not is_remote(self.folder) and runner.tmp_folder():
            self.data = f"{runner.tmp_folder()}/{self.tag}"

    def _at(self, path):
        """The storage of a path."""
        if not is_remote(path):
            return LocalStorage()
        if not self._remote:
            raise JobError(f"files must be on this machine with -r {self.engine}, got {path}")
        return self._remote

    def scratch(self, name):
        """The path for a file of the driver's own, on this machine."""
        if not self._scratch:
            self._scratch = tempfile.mkdtemp(prefix="lsh-", dir=self._local_tmp_dir())
        return os.path.join(self._scratch, name)

    def _local_tmp_dir(self):
        """Where temporary files go: where the user said, else beside local output, which may be large."""
        if self.job.options.local_tmp_dir or is_remote(self.place):
            return self.job.options.local_tmp_dir
        folder = f"{self.state}/tmp"
        os.makedirs(folder, exist_ok=True)
        return folder

    def _clear_tmp(self):
        """Remove the temporary files of a killed process."""
        for name in os.listdir(folder) if os.path.isdir(folder := f"{self.state}/tmp") else ():
            if f"{folder}/{name}" != self._scratch:
                self._home.remove(f"{folder}/{name}")

    # the output directory

    def open(self, paths, stream):
        """Take the output directory into use, or refuse it in one line: what identifies the input.

        `paths` are files, globs, folders, and - for the stream; `corpus` is then what they name.
        """
        self.corpus = Corpus(paths, self._at)
        for path in paths:
            if path != "-" and _overlap(path, self.folder):
                raise JobError(f"--output-dir must be apart from the input, got {self.folder} and {path}")
        names = self._home.names(self.place) or []
        if names and not {_STATE, SUMMARY} & set(names):
            raise JobError(
                f"--output-dir must be empty or hold a run, got {self.folder} with {min(names)} in it"
            )
        self._complete, self._has_state = SUMMARY in names, SUMMARY not in names or _STATE in names
        if not self._complete:
            self._home.make(self.state)
            self._lock = self._home.lock(f"{self.state}/lock", self.folder)
            if _STATE in names:
                self._find_stages(set(names) & set(self.published.values()))
        if "-" in paths:
            self.corpus.spool(stream, self.scratch("stdin"))
        return self.corpus.identity()

    def _find_stages(self, published):
        """Learn what an earlier process completed, and end what it may have left at work."""
        if self._remote:
            self._stop_jobs(self.tag)
        names = self._home.names(self.state)
        for name in names:
            stage, ending = os.path.splitext(name)
            if ending == ".json":
                self._reports[stage] = self._home.read(f"{self.state}/{name}")
        if self.data != self.state:
            names = self._at(self.data).names(self.data) or []
        self._leftovers = {*names, *published}

    def check_parameters(self, parameters):
        """Refuse the output of other parameters; True if this very run is complete already."""
        self.parameters = parameters
        kind = "summary" if self._complete else "parameters"
        if self._complete:
            self._reports[kind] = self._home.read(f"{self.place}/{SUMMARY}")
        data = self._reports.get(kind)
        if data is None:
            self._clear_tmp()
            data = self._reports[kind] = to_json({"parameters": parameters})
            self._home.write(f"{self.state}/parameters.json", data)
            return False
        earlier = self._parameters_in(data, f"{kind}.json")
        for option in sorted({*earlier, *parameters}):
            if earlier.get(option) != parameters.get(option):
                was, now = _difference(earlier.get(option), parameters.get(option))
                raise JobError(
                    f"{self.folder} holds a run with {option} {was}, got {now}: choose another --output-dir"
                )
        self._clear_tmp()
        return self._complete

    def _parameters_in(self, data, name):
        try:
            return dict(json.loads(data)["parameters"])
        except (ValueError, KeyError, TypeError):
            raise JobError(
                f"--output-dir must be empty or hold a run, got {self.folder} with another program's "
                f"{name} in it"
            ) from None

    def earlier_summary(self):
        return json.loads(self._reports["summary"])

    def close(self, summary=None):
        """Remove what only a resumed run needs, once the summary stands."""
        if summary is not None:
            self._home.write(f"{self.place}/{SUMMARY}", to_json(summary))
        if self._has_state:
            self.discard()
            self._home.remove(self.state)
        self.leave()

    def discard(self):
        """Remove what a cluster holds of a run that goes to this machine."""
        if self.data != self.state:
            self._at(self.data).remove(self.data)
            self.data = self.state

    def leave(self):
        """Let others at the output directory, whatever is in it."""
        self.display.close()
        if self._lock:
            self._lock()
            self._lock = None
        for folder in filter(None, (self._link, self._scratch)):
            shutil.rmtree(folder, ignore_errors=True)

    # input

    def bring(self):
        """The paths of the input for the jobs; files of this machine are brought to where tasks find them."""
        if self.engine != "inline":  # whose tasks have the names that were given
            self.corpus.read_in_place()
        if self.data == self.state and not is_remote(self.state):
            paths = [(file.path, file.size) for file in self.corpus.files]
        else:
            paths = self.corpus.remote_paths()
            if not all(is_remote(file.path) for file in self.corpus.files):
                paths.append(self._upload())
        self._sizes.update(paths)
        return [path for path, _ in paths]

    def _upload(self):
        """Bring files of this machine to the cluster, as a stage: its folder, and their bytes."""
        folder = self.output(_INPUT)
        copies = self.corpus.read_copies(folder)
        total = sum(file.size for _, file in copies)
        if _INPUT not in self._reports:
            watch = Stopwatch()
            self._clear(_INPUT)
            links = self.scratch(_INPUT)
            os.makedirs(links)
            for name, file in copies:
                os.symlink(os.path.abspath(file.path), os.path.join(links, name))
            self._at(folder).upload(links, folder)
            self._complete_stage(_INPUT, watch, {"read": total, "written": total}, {})
        self.stages[_INPUT] = self._report(_INPUT)
        return folder, total

    # stages

    @contextlib.contextmanager
    def session(self):
        """Within the block, what all stages share: where they need a cluster of their own, that."""
        session = getattr(self.job._runner_class(), "session", None)
        with session(self.job, self.tag, self.display.say) if session else contextlib.nullcontext():
            yield

    def stage(self, name, job_class, arguments, inputs):
        """Run a job as a stage, or find it complete: its output folder.

        `inputs` are paths that `bring` gave, and output folders of earlier stages.
        """
        if name not in self._reports:
            self._run_stage(name, job_class, arguments, inputs)
        self.stages[name] = self._report(name)
        self._sizes[self.output(name)] = self.stages[name]["written"]
        return self.output(name)

    def output(self, name):
        """The folder of a stage's output."""
        published = self.published.get(name)
        if published and not self._at(self.data).renames(self.data):
            return f"{self.place}/{published}"
        return f"{self.data}/{published or name}"

    def _report(self, name):
        report = self._reports[name]
        return report if isinstance(report, dict) else json.loads(report)

    def _clear(self, name):
        """Remove what a killed process left of a stage."""
        folder = self.output(name)
        if os.path.basename(folder) in self._leftovers:
            self._at(folder).remove(folder)

    def _run_stage(self, name, job_class, arguments, inputs):
        watch, folder = Stopwatch(), self.output(name)
        self._clear(name)
        stage = job_class(["-r", self.engine, "--output-dir", folder, *arguments, *inputs])
        copy_runner_options(self.job.options, stage.options)
        stage.options.output_dir = folder
        stage.options.cat_output = False
        stage.options.local_tmp_dir = self._local_tmp_dir()
        stage.ship_code()
        with self._logged() as causes, stage.make_runner() as runner:
            runner.progress = self.display.follow(name)
            runner.tag = self.tag
            try:
                runner.run()
            except StepFailedException as error:
                raise JobError(_cause(causes) or f"stage {name}: {error}") from None
            counters = {}
            for step in runner.counters():
                for counter, amount in step.get("lsh", {}).items():
                    counters[counter] = counters.get(counter, 0) + amount
            measures = runner.measures() if hasattr(runner, "measures") else {}
        sizes = self._at(folder).sizes(folder)
        if is_remote(folder) and "_SUCCESS" not in sizes:
            raise JobError(f"stage {name} must leave a _SUCCESS, got none in {folder}")
        read, written = sum(self._sizes[path] for path in inputs), sum(sizes.values())
        self._complete_stage(name, watch, {"read": read, "written": written, **measures}, counters)

    def _complete_stage(self, name, watch, measures, counters):
        seconds, read, written = watch(), measures["read"], measures["written"]
        report = {"seconds": seconds, **measures, "counters": counters}
        self._home.write(f"{self.state}/{name}.json", to_json(report))
        self._reports[name] = report
        rate = f"{size(read / max(seconds, 1e-3))}/s"
        self.display.log(f"{name}: {seconds:.1f} s, {size(read)} read at {rate}, {size(written)} written")

    def lines(self, name):
        """The lines of a complete stage's output, with their ends."""
        folder = self.output(name)
        return self._at(folder).lines(folder)

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

    def write(self, name, data):
        """A folder with one file of the driver's own in the output directory."""
        self._home.make(f"{self.place}/{name}")
        self._home.write(f"{self.place}/{name}/part-00000", data)

    def publish(self):
        """Let the output of the stages that are `published` appear, where it has not yet."""
        present = set(self._home.names(self.place))
        pending = {
            self.output(stage): f"{self.place}/{name}"
            for stage, name in self.published.items()
            if name not in present
        }
        if pending:
            self._home.take(self._at(self.data), pending)


def copy_runner_options(source, target):
    """Hand mrjob's own options on to a stage."""
    for name in {*_RUNNER_OPTS, "conf_paths", "verbose", "quiet"}:
        if hasattr(source, name):
            setattr(target, name, getattr(source, name))


def _cause(messages):
    """The line that a task of ours ended with, out of what mrjob logged."""
    found = re.findall(rf"^{PREFIX}(.*)$", "\n".join(messages), re.MULTILINE)
    return found[-1] if found else None


def to_json(value):
    return json.dumps(value, indent=2).encode() + b"\n"


def _overlap(one, other):
    """Whether one of two paths is the other or inside it."""
    if is_remote(one) != is_remote(other):
        return False
    one, other = (path_part(path) if is_remote(path) else os.path.realpath(path) for path in (one, other))
    return (one + "/").startswith(other.rstrip("/") + "/") or (other + "/").startswith(one.rstrip("/") + "/")


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
