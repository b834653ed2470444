"""The runner for Amazon EMR: one cluster for a run, counters at once, and errors in one line.

mrjob's own runner learns the counters of a step, and why it failed, from log files, which reach S3 some
minutes after the step has ended. Here the cluster itself is asked, by a short step that follows; log files
are only read where that fails.

Invariant: a cluster that is made here ends with the run. Should the driver be killed, EMR ends it once it has
been idle for `max_mins_idle`.
"""

import contextlib
import os
import re
import signal
import threading
import time

from mrjob.aws import _boto3_paginate
from mrjob.emr import EMRJobRunner, boto3, log
from mrjob.logs.step import _parse_indented_counters
from mrjob.parse import is_s3_uri, parse_s3_uri
from mrjob.step import StepFailedException

from .errors import PREFIX, JobError
from .hadoop import StreamingRunner
from .storage import S3Storage

ACTIVE = "STARTING", "BOOTSTRAPPING", "RUNNING", "WAITING"
RUNNER_JAR = "command-runner.jar"  # runs a command on the cluster's first node
# What configs/emr.conf leaves to the user.
_PLACEHOLDERS = re.compile(r"\b(BUCKET|SUBNET)\b")
_STEP_CHARACTERS = 10240  # of all arguments of a step; a limit of EMR

# Arguments: name of the job, state of its step, where to leave the report. The logs of tasks are gathered
# only after a job has ended, so those of a failed one may not be there yet.
_REPORT = r"""
app=$(yarn application -list -appStates FINISHED,FAILED,KILLED |
    grep -F "$1" | cut -f 1 | tr -d ' ' | tail -n 1)
{
    mapred job -status "job${app#application}"
    for try in 1 2 3 4 5 6; do
        [ "$2" = FAILED ] || break
        yarn logs -applicationId "$app" -log_files stderr |
            grep -E '^error: |^[A-Za-z_.]*Error: |not found$' | tail -n 20 | grep . && break
        sleep 5
    done
} | hadoop fs -put -f - "$3"
"""


class EmrRunner(StreamingRunner, EMRJobRunner):
    """Runs a job on a cluster of EMR; the names of its clusters and steps end with the `tag`."""

    @classmethod
    def _default_opts(cls):
        return {
            **super()._default_opts(),
            "check_cluster_every": 10,
            "cleanup": ["TMP"],  # logs stay
            "cleanup_on_failure": ["TMP"],
            "cloud_fs_sync_secs": 0,  # S3 has been consistent since 2020
            "region": None,  # mrjob's own default is where nobody's buckets are
        }

    def _fix_opt(self, opt_key, opt_value, source):
        if opt_key == "region":
            return opt_value
        return super()._fix_opt(opt_key, opt_value, source)

    def _fix_s3_tmp_and_log_uri_opts(self):
        """Checks all that can be known before anything is made; mrjob calls this once it has the options."""
        self._check_options()
        super()._fix_s3_tmp_and_log_uri_opts()
        self._check_buckets()

    def _check_options(self):
        if boto3 is None:
            raise JobError("boto3 must be installed for -r emr, found none: pip install boto3")
        for name, value in sorted(self._opts.items()):
            for text in _texts(value):
                if _PLACEHOLDERS.search(text):
                    raise JobError(f"{name} in the configuration must be filled in, got {text}")
        self._opts["region"] = self._opts["region"] or boto3.session.Session().region_name
        if not self._opts["region"]:
            raise JobError(
                "the region must be set, in the configuration or in AWS_DEFAULT_REGION; found none"
            )
        for name, value in (
            ("cloud_tmp_dir in the configuration", self._opts["cloud_tmp_dir"] or "none"),
            ("cloud_log_dir in the configuration", self._opts["cloud_log_dir"]),
            ("--output-dir", self._output_dir),
        ):
            if value and not is_s3_uri(value):
                raise JobError(f"{name} must be a folder s3://..., got {value}")

    def _check_buckets(self):
        from botocore.exceptions import ClientError, NoCredentialsError

        client = self.fs.s3.make_s3_client()
        folders = self._opts["cloud_tmp_dir"], self._opts["cloud_log_dir"], self._output_dir
        for bucket in sorted({parse_s3_uri(folder)[0] for folder in folders if folder}):
            try:
                client.head_bucket(Bucket=bucket)
            except NoCredentialsError:
                raise JobError(
                    "AWS credentials must be set (aws configure, AWS_PROFILE or a role); found none"
                ) from None
            except ClientError as error:
                reasons = {"404": "there is no such bucket", "403": "these credentials may not use it"}
                reason = reasons.get(error.response["Error"]["Code"], str(error))
                raise JobError(f"s3://{bucket}: {reason}") from None

    def remote_storage(self):
        return S3Storage(self.fs.s3.make_s3_client())

    def tmp_folder(self):
        """The folder for what is needed during a run only."""
        return self._opts["cloud_tmp_dir"].rstrip("/")

    # clusters

    @classmethod
    @contextlib.contextmanager
    def session(cls, job, tag=None, say=log.info):
        """Within the block, the cluster that all stages of a job run on: made with the job's options and
        ended with the block, whatever happens; one that the user names is left running."""
        options = job.options
        names = (name for name in cls.OPT_NAMES if hasattr(options, name))
        runner = cls(conf_paths=options.conf_paths, **{name: getattr(options, name) for name in names})
        runner.tag = tag
        if runner._opts["cluster_id"]:
            runner.check_cluster()
            yield
            return
        with _ended_by_signals(), runner:
            options.cluster_id = runner.start_cluster()
            say(f"cluster {options.cluster_id}, which ends with this run: {runner.console_link()}")
            try:
                yield
            finally:
                options.cluster_id = None

    def start_cluster(self, step=None):
        """The id of a new cluster: one that ends with a step, or one that waits for steps."""
        self._add_bootstrap_files_for_upload()
        self._upload_local_files()
        self._ran_job = True
        return self._create_cluster(step=step)

    def _create_cluster(self, persistent=False, step=None):
        request = self._cluster_kwargs()
        if step:
            request["Steps"].append(step)
            request["Instances"]["KeepJobFlowAliveWhenNoSteps"] = False
            del request["AutoTerminationPolicy"]  # its driver may be at work while YARN is idle
        self._cluster_id = self.make_emr_client().run_job_flow(**request)["JobFlowId"]
        log.info("Created cluster %s", self._cluster_id)
        return self._cluster_id

    def _cluster_kwargs(self, persistent=False):
        request = super()._cluster_kwargs()
        request["Name"] = " ".join(filter(None, (request["Name"], self.tag)))
        # steps come one at a time
        request["Instances"]["KeepJobFlowAliveWhenNoSteps"] = True
        request["AutoTerminationPolicy"] = {"IdleTimeout": max(60, int(60 * self._opts["max_mins_idle"]))}
        # in the request itself: roles may be allowed to make clusters with a certain tag only
        request["Tags"] = [{"Key": key, "Value": value} for key, value in sorted(self._opts["tags"].items())]
        return request

    def check_cluster(self):
        state = self._describe_cluster()["Status"]["State"]
        if state not in ACTIVE:
            raise JobError(
                f"--cluster-id must be a running cluster, got {self._cluster_id}, which is {state}"
            )

    def console_link(self):
        region = self._opts["region"]
        return f"https://{region}.console.aws.amazon.com/emr/home?region={region}#/clusterDetails/{self._cluster_id}"

    def log_folder(self):
        """Where the logs of the cluster come to, some minutes late."""
        return f"{self._opts['cloud_log_dir']}{self._cluster_id}/"

    def cleanup(self, mode=None):
        """Ends our cluster first, as it costs by the second."""
        if self._cluster_id and not self._opts["cluster_id"]:
            self.make_emr_client().terminate_job_flows(JobFlowIds=[self._cluster_id])
            self._cluster_id = None
        super().cleanup(mode)

    def stop_jobs(self, tag):
        """End what a driver that was killed has left at work under a tag."""
        client = self.make_emr_client()
        if self._opts["cluster_id"]:
            steps = _boto3_paginate(
                "Steps", client, "list_steps", ClusterId=self._cluster_id, StepStates=["PENDING", "RUNNING"]
            )
            self._cancel([step["Id"] for step in steps if step["Name"].endswith(tag)])
            return
        for cluster in _boto3_paginate("Clusters", client, "list_clusters", ClusterStates=list(ACTIVE)):
            if cluster["Name"].endswith(tag):
                client.terminate_job_flows(JobFlowIds=[cluster["Id"]])

    def _cancel(self, steps):
        if steps:
            self.make_emr_client().cancel_steps(
                ClusterId=self._cluster_id, StepIds=steps, StepCancellationOption="TERMINATE_PROCESS"
            )

    # steps

    def _prepare_for_launch(self):
        if self._opts["cluster_id"]:
            self.check_cluster()
        super()._prepare_for_launch()

    def _run(self):
        self._cause = None
        try:
            with _ended_by_signals():
                super()._run()
        except StepFailedException as error:
            raise JobError(self._cause or self._place_of_cause(error)) from None
        except (KeyboardInterrupt, SystemExit):
            if self._opts["cluster_id"]:  # others may use it
                self._cancel(self._step_ids)
            raise

    def _place_of_cause(self, error):
        cluster = self._describe_cluster()["Status"]
        told = cluster["StateChangeReason"].get("Message")
        state = "" if cluster["State"] in ACTIVE else f" (the cluster is {cluster['State']}: {told})"
        return f"{error}{state}; its logs come to {self.log_folder()}"

    def _step_name(self, step_num):
        return " ".join(filter(None, (super()._step_name(step_num), self.tag)))

    def _jobconf_for_step(self, step_num):
        return {
            **super()._jobconf_for_step(step_num),
            "mapreduce.job.name": self._step_name(step_num),
        }

    def _add_steps_to_cluster(self, steps):
        for step in steps:
            length = sum(map(len, step["HadoopJarStep"]["Args"]))
            if length > _STEP_CHARACTERS:
                raise JobError(
                    f"a step on EMR must have at most {_STEP_CHARACTERS} characters of arguments, "
                    f"got {length}: give folders or globs as input, not many files"
                )
        super()._add_steps_to_cluster(steps)

    def _get_step_log_interpretation(self, log_interpretation, step_type):
        step = self._describe_step(log_interpretation["step_id"])
        state = step["Status"]["State"]
        report = self._ask_cluster(step["Name"], state)
        if report or state != "COMPLETED":
            return report
        return super()._get_step_log_interpretation(log_interpretation, step_type)

    def _pick_error(self, log_interpretation, step_type):
        """Notes why a step failed; the report tells, so mrjob need not wait for logs."""
        self._cause = (log_interpretation.get("step") or {}).get("cause")

    def counters(self):
        """The counters of each step; JobError where they did not come, as they decide what comes next."""
        counters = super().counters()
        if not all(counters):
            raise JobError(
                f"counters must come from each step, got none; its logs come to {self.log_folder()}"
            )
        return counters

    def _describe_step(self, step_id):
        return self.make_emr_client().describe_step(ClusterId=self._cluster_id, StepId=step_id)["Step"]

    def _ask_cluster(self, name, state):
        """What the cluster says of a job: its counters and, if it failed, why; {} if it cannot say."""
        from botocore.exceptions import ClientError

        uri = f"{self._cloud_tmp_dir}report-{len(self._step_ids)}"
        step = {
            "Name": " ".join(filter(None, ("report", self.tag))),
            "ActionOnFailure": "CONTINUE",
            "HadoopJarStep": {"Jar": RUNNER_JAR, "Args": ["bash", "-c", _REPORT, "report", name, state, uri]},
        }
        try:
            (step_id,) = self.make_emr_client().add_job_flow_steps(JobFlowId=self._cluster_id, Steps=[step])[
                "StepIds"
            ]
        except ClientError:  # the cluster has ended
            return {}
        while self._describe_step(step_id)["Status"]["State"] in ("PENDING", "RUNNING"):
            time.sleep(self._opts["check_cluster_every"])
        return (
            parse_report(b"".join(self.fs.cat(uri)).decode(errors="replace")) if self.fs.exists(uri) else {}
        )


def parse_report(text):
    """{"counters": {group: {name: amount}}, "cause": line}, each if it is there, as the cluster reported.

    >>> parse_report("Job: job_1\\nCounters: 1\\n\\tlsh\\n\\t\\tkept=5\\n\\nerror: no text")
    {'counters': {'lsh': {'kept': 5}}, 'cause': 'no text'}
    """
    report = {}
    counters = re.search(r"^Counters: \d+\n(?:\t.*\n?)+", text, re.MULTILINE)
    if counters:
        report["counters"] = _parse_indented_counters(counters.group().splitlines())
    rest = text[counters.end() :] if counters else text
    told = [line for line in rest.splitlines() if re.match(rf"{PREFIX}|[\w.]*Error: |.*not found$", line)]
    ours = [line[len(PREFIX) :] for line in told if line.startswith(PREFIX)]
    reason = re.search(r"^reason for failure: +(\S.*)$", text, re.MULTILINE)
    told = ours or told or (reason and [reason[1]])
    if told:
        report["cause"] = told[-1]
    return report


def _texts(value):
    """The strings in an option's value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


@contextlib.contextmanager
def _ended_by_signals():
    """Let a signal that asks the process to end raise SystemExit within the block, so that it cleans up."""

    def end(number, _):
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGTERM, *([signal.SIGHUP] if os.name == "posix" else [])]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
