"""The runner for Spark: one Spark application for all steps and stages of a process.

It takes the place of mrjob's, whose harness it does not use: `spark_harness` holds no group of lines in
memory. And this process is itself the driver, where mrjob starts spark-submit for each stage: errors and
counters come straight from Spark, and the seconds of its start are spent once.
"""

import contextlib
import glob
import logging
import os
import re
import shlex
import shutil
import sys
import tempfile
import threading

from mrjob.compat import jobconf_from_dict
from mrjob.logs.counters import _format_counters
from mrjob.parse import is_uri
from mrjob.spark.runner import SparkMRJobRunner

from .errors import JobError
from .inputs import expand, is_remote
from .storage import HadoopStorage

log = logging.getLogger("mrjob.spark.runner")

SETTINGS = {
    "spark.app.name": "lsh-mapreduce",
    # no .crc files beside the output, as other runners write none
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # starting takes 18 s of processor time instead of 30; on a cluster the driver does little else
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    # the number of partitions is ours to say
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_INTERVAL = 0.2  # seconds between two looks at the progress


class SparkRunner(SparkMRJobRunner):
    """Runs the steps of a job by Spark.

    `progress(task, step, done, total)`, if set, is called with the bytes of the input that the tasks of a
    phase have done, about.
    """

    job = progress = tag = None

    def remote_storage(self):
        """By the file system of Hadoop that Spark brings along."""
        _find_java()
        _find_pyspark()
        from pyspark.find_spark_home import _find_spark_home

        command = os.path.join(_find_spark_home(), "bin", "spark-class")
        return HadoopStorage([command, "org.apache.hadoop.fs.FsShell"])

    def tmp_folder(self):
        """The folder for what is needed during a run only, where that is not on this machine; else None."""
        folder = os.path.dirname(self._spark_tmp_dir)
        return folder if is_remote(folder) else None

    def stop_jobs(self, tag):
        """Nothing: what a driver has started ends with it."""

    # what mrjob would do otherwise

    def _default_python_bin(self, local=False):
        return super()._default_python_bin(local or not self._spark_executors_have_own_wd())

    def _bootstrap_mrjob(self):
        if self._opts["bootstrap_mrjob"] is None and not self._spark_executors_have_own_wd():
            return False
        return super()._bootstrap_mrjob()

    def _pick_spark_tmp_dir(self):
        """HDFS where YARN is; else a folder that all machines are to see, as they see the input."""
        if self._opts["spark_tmp_dir"] or self._spark_master() == "yarn":
            return super()._pick_spark_tmp_dir()
        return os.path.join(tempfile.gettempdir(), self._job_key + "-spark")

    def _check_input_paths(self):
        """Nothing: `expand` and Spark do it, and take a file's name as it is where mrjob sees a glob."""

    def _wd_mirror(self):
        """None: Spark itself sends the files that a job ships."""

    def _run(self):
        if self._spark_deploy_mode() != "client":
            raise JobError(f"--spark-deploy-mode must be client, got {self._spark_deploy_mode()}")
        if self._setup:
            raise JobError("setup commands must be none with -r spark, got some")
        self._upload_local_files()
        self._run_steps_on_spark()

    def _run_step_on_spark(self, step, step_num, last_step_num=None):
        steps = self._get_steps()[step_num : last_step_num + 1]
        jobconf = self._jobconf_for_step(step_num)
        application = self.application(step_num)
        try:
            for path in self._py_files():
                application.ship(path, os.path.basename(path), code=True)
            module = self._job_script_module_name()
            application.ship(self._script_path, module + ".py", code=True)
            arguments = self._shipped_arguments(application)
            from . import spark_harness as harness

            harness_steps = harness.Steps(
                application.spark,
                module,
                self._mrjob_cls.__name__,
                arguments,
                steps,
                step_num,
                _reducers(jobconf),
            )
            files = self._files(application, step_num)
            with self._progress(application, steps, step_num, files):
                counters = harness_steps.run(
                    files, self._step_output_uri(last_step_num), _codec(jobconf), self._max_output_files
                )
        except JobError:
            raise
        except Exception as error:
            application.explain(error)
        self._counters += counters
        for number, found in enumerate(counters, step_num + 1):
            if found:
                log.info(_format_counters(found, desc=f"Counters for step {number}"))

    def application(self, step_num):
        jobconf = self._jobconf_for_step(step_num)
        return Application.current(self._submit_arguments(jobconf), self._environment(step_num))

    def _submit_arguments(self, jobconf):
        """Arguments of spark-submit."""
        settings = {**SETTINGS, **{k: v for k, v in jobconf.items() if k.startswith("spark.")}}
        settings.update({f"spark.executorEnv.{k}": v for k, v in self._cmdenv().items()})
        arguments = ["--master", self._spark_master()]
        for name, value in sorted(settings.items()):
            arguments += ["--conf", f"{name}={value}"]
        if self._libjar_paths():
            arguments += ["--jars", ",".join(self._libjar_paths())]
        return [*arguments, *self._opts["spark_args"]]

    def _environment(self, step_num):
        # the driver is this Python; workers take PYSPARK_PYTHON
        environment = self._spark_cmdenv(step_num)
        environment.pop("PYSPARK_DRIVER_PYTHON", None)
        return environment

    def _shipped_arguments(self, application):
        """The job's arguments, with the names that the files it ships have where tasks run."""
        arguments = []
        for argument in self._extra_args:
            if isinstance(argument, dict):
                path = argument["path"]
                argument = f"{self._job_key}-{len(arguments)}-{os.path.basename(path)}"
                application.ship(path, argument)
            arguments.append(argument)
        return arguments

    def _files(self, application, step_num):
        """The URIs of the files that a step reads."""
        from . import spark_harness as harness

        if step_num:
            return harness.list_files(application.spark, self._step_input_uris(step_num)[0])
        files = []
        for path in self._get_input_paths():
            if is_remote(path) or self._upload_mgr:
                uri = path if is_remote(path) else self._upload_mgr.uri(path)
                files += harness.list_files(application.spark, uri)
                continue
            for name in expand([path]):
                start = os.path.basename(name)[0]
                if start in "._":  # Spark would pass it by
                    raise JobError(f"names of input files must not start with {start} on Spark, got {name}")
                files.append(f"file://{os.path.abspath(name)}")
        return files

    @contextlib.contextmanager
    def _progress(self, application, steps, step_num, files):
        """Tell the progress from another thread, while Spark is at work in this one."""
        if not self.progress:
            yield
            return
        done = threading.Event()
        total = sum(os.path.getsize(f[len("file://") :]) for f in files if f.startswith("file://"))
        # a reducer and the mapper after it are one stage
        phases = [("mapper", step_num)] if "mapper" in steps[0] else []
        phases += [("reducer", number) for number, step in enumerate(steps, step_num) if "reducer" in step]

        def follow():
            stages = []  # in the order they start, a phase each
            while not done.wait(_INTERVAL):
                for stage, share in application.stages():
                    if stage not in stages:
                        stages.append(stage)
                    kind, number = phases[min(stages.index(stage), len(phases) - 1)]
                    self.progress(kind, number, int(share * total), total)

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


class Application:
    """A Spark application whose driver is this process."""

    _running = None

    @classmethod
    def current(cls, arguments, environment):
        """The application with these arguments and variables; any other ends."""
        running = Application._running
        if running and running.key != (arguments, environment):
            running.stop()
        if not Application._running:
            Application._running = cls(arguments, environment)
        return Application._running

    def __init__(self, arguments, environment):
        self.key = arguments, environment
        self._shipped = set()
        self._links = tempfile.TemporaryDirectory(prefix="lsh-spark-")
        self._log = tempfile.TemporaryFile()
        _find_java()
        _find_pyspark()
        from pyspark import SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        submit = {"PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "pyspark-shell"])}
        self._gateway = None
        with _variables({**environment, **submit}):
            try:
                # a folder of its own to work in: Spark leaves things there
                self._gateway = launch_gateway(
                    popen_kwargs={"stderr": self._log, "stdout": self._log, "cwd": self._links.name}
                )
                SparkContext._ensure_initialized(gateway=self._gateway)
                self.spark = SparkSession.builder.getOrCreate()
            except Exception as error:
                words = self._last_words() or str(error).partition("\n")[0]
                self._end_java()
                raise JobError(f"Spark did not start: {words}") from None

    def stop(self):
        Application._running = None
        self.spark.stop()
        self._end_java()

    def _end_java(self):
        from pyspark import SparkContext

        if self._gateway:
            self._gateway.shutdown()
            self._gateway.proc.stdin.close()  # Java waits for its end
            self._gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None
        self._links.cleanup()

    def ship(self, path, name, code=False):
        """Send a file to where tasks run, once, under a name; code is importable there."""
        if name in self._shipped:
            return
        self._shipped.add(name)
        context = self.spark.sparkContext
        if not is_uri(path):
            link = os.path.join(self._links.name, name)
            os.symlink(os.path.abspath(path), link)
            path = f"file://{link}"
        (context.addPyFile if code else context.addFile)(path)

    def stages(self):
        """(number, share done) of the stages at work."""
        tracker = self.spark.sparkContext.statusTracker()
        for stage in sorted(tracker.getActiveStageIds()):
            info = tracker.getStageInfo(stage)
            if info and info.numTasks:
                yield stage, info.numCompletedTasks / info.numTasks

    def explain(self, error):
        """Raise the JobError for an exception of Spark's."""
        from .spark_harness import cause, reason

        line = cause(error)
        if line is None:
            sys.stderr.write(f"{error}\n")
            line = f"unexpected {reason(error)}"
        raise JobError(line) from None

    def _last_words(self):
        """The line that Spark's JVM ended with."""
        self._log.seek(0)
        text = self._log.read().decode(errors="replace").strip()
        found = re.search(r"(?:[\w.]+(?:Exception|Error): |^Error: )(.*)", text, re.MULTILINE)
        return found.group(1) if found else text.rpartition("\n")[2]


@contextlib.contextmanager
def _variables(values):
    """Environment variables for what starts within."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _find_java():
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin") if home else None
    if not shutil.which("java", path=path):
        raise JobError(
            "Java 17 or later must be installed for -r spark, as by apt install openjdk-17-jre-headless; "
            f"found none in {f'JAVA_HOME={home}' if home else 'PATH'}"
        )


def _find_pyspark():
    """Make pyspark importable: the one of this Python, or of SPARK_HOME."""
    home = os.environ.get("SPARK_HOME")
    if home:
        sys.path[:0] = [os.path.join(home, "python"), *glob.glob(os.path.join(home, "python/lib/py4j-*.zip"))]
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise JobError(
            "Spark must be installed for -r spark, as by scripts/setup spark; "
            "found neither pyspark nor SPARK_HOME"
        ) from None


def _reducers(jobconf):
    number = jobconf_from_dict(jobconf, "mapreduce.job.reduces")
    return int(number) if number and int(number) > 0 else None


def _codec(jobconf):
    """The class of the codec of the output, or None."""
    name = "mapreduce.output.fileoutputformat.compress"
    if jobconf_from_dict(jobconf, name) in (None, "false"):
        return None
    return jobconf_from_dict(jobconf, name + ".codec") or "gzip"
