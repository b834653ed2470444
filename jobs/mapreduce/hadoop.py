"""Running on a Hadoop cluster: with few starts of a JVM, and with the causes of failures in one line."""

import glob
import os
import re
import shutil
import subprocess
import time
from collections import Counter, deque

from mrjob.hadoop import HadoopJobRunner
from mrjob.logs.step import _interpret_hadoop_jar_command_stderr

from .errors import PREFIX, JobError
from .inputs import is_remote
from .progress import PERCENT
from .storage import HadoopStorage, last_line

_PROGRESS = re.compile(rb" map (\d+)% reduce (\d+)%")
_APPLICATION = re.compile(rb"Submitted application (application_\d+_\d+)")
_DIAGNOSTICS = re.compile(
    r"(Container .* is running .*beyond.*|Input path does not exist.*|.*Exception: .*|"
    r"(?<=Error launching job , ).*|(?<=Error Launching job : ).*|Error: .*)"
)
_REPORTED = re.compile(r"Diagnostics report from attempt_\w+: (.+)")
_STATE = re.compile(r"failed with state \w+ due to: (.+)")
_NOISE = re.compile(
    # of the shell, of Java's logs, and the frame that `yarn logs` puts around each log
    r"\+|log4j:|SLF4J:|\d{4}-\d\d-\d\d |\w{3} \d\d, \d{4} |\d\d/\d\d/\d\d |(INFO|WARNING): |\s|===|\*\*\*|"
    r"Container: |LogAggregationType:|LogType:|LogLastModifiedTime:|LogLength:|LogContents:|End of LogType:"
)
_LATE = 20  # seconds in which the logs of a job come together, after its end
_YARN = (
    "org.apache.hadoop.yarn.client.cli."  # what bin/yarn starts; bin/hadoop does, too, and is always there
)

_MEASURES = {  # by group and name of the counters
    "Map-Reduce Framework": {"Reduce shuffle bytes": "shuffled"},
    "Job Counters": {
        "Total time spent by all map tasks (ms)": "map_seconds",
        "Total time spent by all reduce tasks (ms)": "reduce_seconds",
    },
}


class StreamingRunner:
    """What the runners that use Hadoop Streaming share.

    `job` is the job itself. `progress(task, step, done, total)`, if set, is called with percents. `tag`, if
    set, marks the jobs in YARN.
    """

    job = progress = tag = None

    def _jobconf_for_step(self, step_num):
        jobconf = super()._jobconf_for_step(step_num)
        # by itself Hadoop ends a record at a lone CR, too
        jobconf["textinputformat.record.delimiter"] = "\n"
        jobconf["mapreduce.input.fileinputformat.input.dir.recursive"] = "true"
        jobconf["stream.map.input.ignoreKey"] = "true"  # the offsets of lines
        if self.tag:
            jobconf["mapreduce.job.tags"] = self.tag
        if "reducer" not in self._get_step(step_num):
            jobconf["mapreduce.job.reduces"] = "0"  # over what the settings say of all jobs
            jobconf.update(self.job.output_jobconf())
        return jobconf

    def _hadoop_args_for_step(self, step_num):
        arguments = super()._hadoop_args_for_step(step_num)
        if step_num or not self.job.TELLS_PLACES:
            # one task for many small files, as the reducers of a stage leave them
            arguments += ["-inputformat", "org.apache.hadoop.mapred.lib.CombineTextInputFormat"]
        return arguments

    def _py_files_setup(self):
        """Nothing: a script that sets the path would start a shell and a Python before each task."""
        for path in self._py_files():
            self._working_dir_mgr.add("file", path)
        return []

    def _cmdenv(self):
        names = [self._working_dir_mgr.name("file", path) for path in self._py_files()]
        settings = super()._cmdenv()
        names += filter(None, [settings.get("PYTHONPATH")])
        return {**settings, "PYTHONPATH": ":".join(names)}


class HadoopRunner(StreamingRunner, HadoopJobRunner):
    """Runs a job on the cluster that the `hadoop` command of this machine belongs to."""

    _versions = {}

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._application = None
        self._said = deque(maxlen=200)

    def remote_storage(self):
        return HadoopStorage([*self._checked_hadoop_bin(), "fs"])

    def tmp_folder(self):
        """The folder for what is needed during a run only."""
        return os.path.dirname(self._hadoop_tmp_dir)

    def _checked_hadoop_bin(self):
        command = self.get_hadoop_bin()
        if not shutil.which(command[0]):
            raise JobError(
                "the hadoop command must be on PATH or in HADOOP_HOME/bin with -r hadoop, got none"
            )
        return command

    def _find_binaries_and_jars(self):
        super()._find_binaries_and_jars()
        if not self.get_hadoop_streaming_jar():
            raise JobError(
                "the jar of Hadoop Streaming must be below HADOOP_HOME or --hadoop-streaming-jar, got none"
            )

    def get_hadoop_version(self):
        command = tuple(self._checked_hadoop_bin())
        if command not in self._versions:
            try:
                self._versions[command] = super().get_hadoop_version()
            except subprocess.CalledProcessError:
                said = subprocess.run([*command, "version"], capture_output=True).stderr
                raise JobError(f"hadoop must start, got: {last_line(said, 'a failure')}") from None
        return self._versions[command]

    def measures(self):
        """What Hadoop counted of all steps: bytes that were shuffled, seconds of all tasks together."""
        found = Counter()
        for step in self.counters():
            for group, names in step.items():
                for name, amount in names.items():
                    if name in _MEASURES.get(group.strip(), ()):
                        found[_MEASURES[group.strip()][name]] += amount
        seconds = {name: round(found[name] / 1000, 1) for name in ("map_seconds", "reduce_seconds")}
        return {"shuffled": found["shuffled"], **seconds}

    def stop_jobs(self, tag):
        """End the jobs with a tag, which the killed driver of an earlier run may have left."""
        listing = self._yarn("ApplicationCLI", "application", "-list", "-appTags", tag)
        self._kill(re.findall(r"^(application_\d+_\d+)", listing, re.MULTILINE))

    def _kill(self, applications):
        if applications:
            self._yarn("ApplicationCLI", "application", "-kill", *applications)

    def _yarn(self, program, *arguments):
        command = [*self.get_hadoop_bin(), _YARN + program, *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True)
        return done.stdout.decode(errors="replace")

    # files for the nodes: the client that submits a job brings them, without a JVM for each

    def _wd_mirror(self):
        return None

    def _check_input_paths(self):
        """Nothing: the job says so itself when one is missing."""

    def _add_job_files_for_upload(self):
        """Nothing: `-files` brings them."""

    def _upload_local_files(self):
        if self._has_local_input():
            super()._upload_local_files()

    def _has_local_input(self):
        return not all(map(is_remote, self._get_input_paths()))

    def _cleanup_hadoop_tmp(self):
        if self._has_local_input() or self._num_steps() > 1:
            super()._cleanup_hadoop_tmp()

    # a job

    def _run_hadoop(self, hadoop_args, env, record_callback):
        process = subprocess.Popen(
            hadoop_args,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the driver, which ends the job in YARN, too
        )
        try:
            interpretation = _interpret_hadoop_jar_command_stderr(
                self._followed(process.stdout), record_callback
            )
            process.wait()
        except BaseException:
            process.kill()
            process.wait()
            self._kill([self._application] if self._application else [])
            raise
        finally:
            process.stdout.close()
        if process.returncode:
            raise JobError(self._cause())
        return process.returncode, interpretation

    def _followed(self, lines):
        """The lines as they come; tells their progress on the way."""
        self._application = None
        self._said.clear()
        for line in lines:
            self._said.append(line.decode(errors="replace").rstrip())
            found = _APPLICATION.search(line)
            if found:
                self._application = found[1].decode()
            found = _PROGRESS.search(line)
            if found and self.progress:
                maps, reduces = map(int, found.groups())
                task, done = ("mapper", maps) if maps < 100 else ("reducer", reduces)
                self.progress(task, 0, done, PERCENT)
            yield line

    def _cause(self):
        """Why the last job failed, in one line."""
        if not self._application:
            return _last(_DIAGNOSTICS, self._said) or "hadoop jar failed"
        for text in self._task_logs():
            lines = text.splitlines()
            ours = sorted({line for line in lines if line.startswith(PREFIX)})
            if ours:
                return f"{ours[0][len(PREFIX) :]} ({self._where()})"
            others = [line for line in lines if line.strip() and not _NOISE.match(line)]
            if others:
                return f"a task failed: {others[-1].strip()} ({self._where()})"
        reason = _last(_DIAGNOSTICS, self._said)
        if not reason:  # the client sees what becomes of a task unless it is the end of the job
            reason = _last(_REPORTED, self._yarn_logs("syslog").splitlines())
        return f"{reason or self._end_of_job()} ({self._where()})"

    def _end_of_job(self):
        reason = _last(_STATE, self._said)
        return f"the job failed: {reason}" if reason else "the job failed"

    def _where(self):
        return f"all logs: yarn logs -applicationId {self._application}"

    def _task_logs(self):
        """What tasks wrote to standard error: as far as it is here, then as YARN has it by and by."""
        yield "".join(self._local_task_logs())
        end = time.monotonic() + _LATE
        while True:
            yield self._yarn_logs("stderr")
            if time.monotonic() > end:
                return
            time.sleep(2)

    def _yarn_logs(self, name):
        return self._yarn("LogsCLI", "-applicationId", self._application, "-log_files", name)

    def _local_task_logs(self):
        for folder in self._hadoop_log_dirs():
            pattern = os.path.join(glob.escape(folder), "userlogs", self._application, "*", "stderr")
            for path in sorted(glob.glob(pattern)):
                with open(path, errors="replace") as file:
                    yield file.read()


def _last(pattern, lines):
    """The last thing that a pattern finds in lines, or None."""
    found = [match[1].strip() for match in map(pattern.search, lines) if match]
    return found[-1] if found else None
