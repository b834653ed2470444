"""Amazon EMR and S3 in this process, for tests: all that AWS receives is kept, and steps really run.

moto answers the requests. A streaming step is run as Hadoop does it: a process a task, in a folder of its own
with links to the files it ships; records that end at LF if the job asks for it; several reducers, by a hash
of the key; keys sorted, values in no order; a TAB after a line that has none. What a step runs with `bash`
finds `hadoop`, `yarn` and `mapred` of this cluster on its PATH.
"""

import contextlib
import fnmatch
import gzip
import io
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile
import zlib
from collections import Counter, defaultdict
from pathlib import Path
from urllib.parse import unquote, urlparse

import boto3
from moto.emr.models import Cluster
from moto.emr.responses import ElasticMapReduceResponse
from moto.server import ThreadedMotoServer

REGION = "eu-central-1"
BUCKET = "lsh-test"
SECRETS = "AKIAFAKEFAKEFAKEFAKE", "fake/Secret+Key", "fake-session-token"
PARTS = 3


class FakeEmr:
    """The service, from `start` to `stop`.

    `requests` has (operation, parameters) of each request to EMR in order, and (PUT, path) of each to S3;
    `received` all bytes of their bodies. `on_step` is called with the name of a step before it runs, and may
    raise or return a state; without steps to run (`runs` False) all are COMPLETED.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.requests, self.received = [], []
        self.on_step = lambda name: None
        self.runs = True
        self.tells = True  # whether the commands of the cluster answer

    def start(self):
        self._patches = contextlib.ExitStack()
        self._patch(Cluster, "add_applications", self._add_applications)
        self._patch(Cluster, "add_steps", self._add_steps)
        ElasticMapReduceResponse.cancel_steps = lambda response: self._cancel_steps(response)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self._server._server.app = self._recording(self._server._server.app)
        host, port = self._server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        self.s3 = self.client("s3")
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        self._make_commands()
        return self

    def clear(self):
        """Forget what was received, and do again as at the start."""
        self.requests.clear()
        self.received.clear()
        self.on_step, self.runs, self.tells = lambda name: None, True, True
        self._earlier = {cluster["Id"] for cluster in self.client("emr").list_clusters()["Clusters"]}
        for path in self.objects():
            self.s3.delete_object(Bucket=BUCKET, Key=path)
        for path in self.jobs.iterdir():
            path.unlink()

    def stop(self):
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/moto-api/reset", method="POST"))
        self._server.stop()
        del ElasticMapReduceResponse.cancel_steps
        self._patches.close()

    def client(self, service):
        key = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        return boto3.client(service, region_name=REGION, endpoint_url=self.endpoint, **key)

    def environment(self):
        """What a user's shell has that works with this service."""
        key, secret, token = SECRETS
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_SESSION_TOKEN": token,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "MRJOB_CONF": os.devnull,
        }

    def objects(self, prefix=""):
        """{path: bytes} of what is in the bucket."""
        found = {}
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix):
            for item in page.get("Contents", ()):
                found[item["Key"]] = self.s3.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read()
        return found

    def put(self, path, data):
        """The URI of a new object."""
        self.s3.put_object(Bucket=BUCKET, Key=path, Body=data)
        return f"s3://{BUCKET}/{path}"

    def sent(self, operation):
        """The parameters of all requests for an operation of EMR, in order."""
        return [parameters for name, parameters in self.requests if name == operation]

    def started(self):
        """The clusters made since the last `clear`."""
        return [
            cluster["Id"]
            for cluster in self.client("emr").list_clusters()["Clusters"]
            if cluster["Id"] not in self._earlier
        ]

    def steps(self, cluster_id):
        """The steps of a cluster as the service tells of them, in order."""
        steps = self.client("emr").list_steps(ClusterId=cluster_id)["Steps"]
        return sorted(steps, key=lambda step: step["Status"]["Timeline"]["CreationDateTime"])

    def state(self, cluster_id):
        return self.client("emr").describe_cluster(ClusterId=cluster_id)["Cluster"]["Status"]["State"]

    # the service

    def _patch(self, owner, name, replacement):
        original = getattr(owner, name)
        setattr(owner, name, lambda *arguments: replacement(original, *arguments))
        self._patches.callback(setattr, owner, name, original)

    def _recording(self, app):
        def recording(environ, start_response):
            length = int(environ.get("CONTENT_LENGTH") or 0)
            body = environ["wsgi.input"].read(length)
            environ["wsgi.input"] = io.BytesIO(body)
            if SECRETS[0] in environ.get("HTTP_AUTHORIZATION", ""):
                target = environ.get("HTTP_X_AMZ_TARGET")
                if target:
                    self.requests.append((target.partition(".")[2], json.loads(body)))
                elif environ["REQUEST_METHOD"] == "PUT":
                    self.requests.append(("PUT", unquote(environ["PATH_INFO"])))
                self.received.append(body)
            return app(environ, start_response)

        return recording

    def _add_applications(self, original, cluster, applications):
        """moto looks for lower-case names where the request has others."""
        original(cluster, [{key.lower(): value for key, value in dict(one).items()} for one in applications])

    def _add_steps(self, original, cluster, steps):
        added = original(cluster, steps)
        for step in added:
            step.state = "RUNNING"
            step.start()
            threading.Thread(target=self._run_step, args=(cluster, step), daemon=True).start()
        return added

    def _cancel_steps(self, response):
        from moto.core.responses import ActionResult

        cluster = response.backend.describe_cluster(response._get_param("ClusterId"))
        wanted = response._get_param("StepIds")
        for step in cluster.steps:
            if step.id in wanted and step.state in ("PENDING", "RUNNING"):
                step.state = "CANCELLED"
        return ActionResult(
            {"CancelStepsInfoList": [{"StepId": id_, "Status": "SUBMITTED"} for id_ in wanted]}
        )

    def _run_step(self, cluster, step):
        from moto.core.utils import utcnow

        while not hasattr(cluster, "supported_products"):  # it is still being made
            time.sleep(0.01)
        arguments = list(step.hadoop_jar_step["Args"] if "Args" in step.hadoop_jar_step else step.args)
        state = self.on_step(step.name)
        if state is None and self.runs:
            logs = f"{urlparse(cluster.log_uri).path.strip('/')}/{cluster.id}/steps/{step.id}"
            run = self._run_streaming if arguments[0] == "hadoop-streaming" else self._run_command
            try:
                state = run(arguments, logs)
            except Exception as error:  # a mistake of this module must not look like a step that hangs
                print(f"fake_emr: {type(error).__name__}: {error}", file=sys.stderr)
                state = "FAILED"
        if step.state == "RUNNING" and state != "RUNNING":
            step.end_date_time = utcnow()
            step.state = state or "COMPLETED"
            if step.state == "FAILED" and step.action_on_failure == "TERMINATE_CLUSTER":
                cluster.terminate()
            elif not cluster.keep_job_flow_alive_when_no_steps:
                cluster.terminate()

    # what runs on the cluster

    def _make_commands(self):
        self.bin, self.jobs = self.folder / "bin", self.folder / "jobs"
        self.bin.mkdir(parents=True)
        self.jobs.mkdir()
        shell = Path(__file__).with_name("fake_emr_shell.py")
        for name in ("hadoop", "yarn", "mapred"):
            words = (sys.executable, "-S", "-E", shell, self.jobs, self.endpoint, name)
            path = self.bin / name
            path.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n')
            path.chmod(0o755)

    def node_environment(self):
        """The environment of a process on a node: none of ours."""
        folder = os.path.dirname(sys.executable)
        return {"PATH": f"{self.bin}:{folder}:/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8"}

    def _run_command(self, arguments, logs):
        if not self.tells:
            return "FAILED"
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            result = subprocess.run(arguments, cwd=folder, env=self.node_environment(), capture_output=True)
        self.put(f"{logs}/stdout.gz", gzip.compress(result.stdout))
        self.put(f"{logs}/stderr.gz", gzip.compress(result.stderr))
        return "FAILED" if result.returncode else "COMPLETED"

    def _run_streaming(self, arguments, logs):
        job = Streaming(self, arguments[1:])
        number = len(list(self.jobs.iterdir())) + 1
        id_ = f"1700000000000_{number:04d}"
        job.run()
        told = {
            "name": job.settings["mapreduce.job.name"],
            "state": "FAILED" if job.failed else "SUCCEEDED",
            "counters": job.counters_text(),
            "stderr": job.stderr,
        }
        (self.jobs / f"application_{id_}.json").write_text(json.dumps(told))
        records = [f"Submitted application application_{id_}", f"Running job: job_{id_}"]
        records += ["Job failed!"] if job.failed else [told["counters"], f"Output directory: {job.output}"]
        syslog = "".join(
            f"2026-11-21 14:00:00,000 INFO org.apache.hadoop.mapreduce.Job (main): {text}\n"
            for text in records
        )
        self.put(f"{logs}/syslog.gz", gzip.compress(syslog.encode()))
        return "FAILED" if job.failed else "COMPLETED"


class Streaming:
    """One Hadoop streaming job."""

    def __init__(self, emr, arguments):
        self.emr = emr
        self.settings, self.environment, self.inputs, self.shipped = {}, {}, [], []
        self.mapper = self.combiner = self.reducer = self.output = None
        words = iter(arguments)
        for word in words:
            value = next(words)
            if word == "-D":
                name, _, setting = value.partition("=")
                self.settings[name] = setting
            elif word in ("-files", "-archives"):
                self.shipped += [(word, *item.split("#")) for item in value.split(",")]
            elif word == "-cmdenv":
                name, _, setting = value.partition("=")
                self.environment[name] = setting
            elif word == "-input":
                self.inputs.append(value)
            else:
                setattr(self, word[1:], value)
        self.failed, self.stderr, self.counters = False, [], defaultdict(Counter)

    def run(self):
        target = self._key(self.output).rstrip("/")
        if self.emr.objects(target + "/"):
            raise ValueError(f"output exists: {self.output}")
        with tempfile.TemporaryDirectory(dir=self.emr.folder) as folder:
            self.folder = Path(folder)
            self._localize()
            self.counters["Job Counters "]["Launched reduce tasks"] = 0  # a job always has some
            mapped = [self._task("map", self.mapper, data, **place) for place, data in self._splits()]
            if self.failed:
                return
            reduces = int(self.settings.get("mapreduce.job.reduces", PARTS))
            if not self.reducer:
                separator = self.settings.get("mapreduce.output.textoutputformat.separator", "\t").encode()
                parts = [b"".join(key + separator + value + b"\n" for key, value in out) for out in mapped]
            else:
                parts = [self._reduce(mapped, part, reduces) for part in range(reduces)]
        if not self.failed:
            for number, data in enumerate(parts):
                self.emr.put(f"{target}/part-{number:05d}", data)
            self.emr.put(f"{target}/_SUCCESS", b"")

    def _reduce(self, mapped, part, parts):
        records = [record for out in mapped for record in out if zlib.crc32(record[0]) % parts == part]
        random.Random(part).shuffle(records)  # values come in any order
        records.sort(key=lambda record: record[0])
        data = b"".join(key + b"\t" + value + b"\n" for key, value in records)
        out = self._task("reduce", self.reducer, data)
        return b"".join(key + b"\t" + value + b"\n" for key, value in out)

    def _task(self, kind, command, data, **place):
        """The records that a task puts out; none if it failed."""
        number = len(self.stderr)
        cwd = self.folder / f"task-{number}"
        cwd.mkdir()
        for path in (self.folder / "cache").iterdir():
            (cwd / path.name).symlink_to(path)
        environment = {re.sub(r"\W", "_", name): value for name, value in self.settings.items()}
        result = subprocess.run(
            shlex.split(command),
            cwd=cwd,
            env={**self.emr.node_environment(), **environment, **self.environment, **place},
            input=data,
            capture_output=True,
        )
        errors = []
        for line in result.stderr.decode().splitlines():
            counter = re.match(r"reporter:counter:([^,]*),([^,]*),(\d+)$", line)
            if counter:
                self.counters[counter[1]][counter[2]] += int(counter[3])
            else:
                errors.append(line)
        self.stderr.append("\n".join(errors))
        self.failed |= result.returncode != 0
        if kind == "map" and self.settings.get("stream.map.output") == "typedbytes":
            return list(_typed_bytes(result.stdout))
        # hadoop reads the lines of a task as it reads its input, but any CR ends one, too
        lines = re.split(rb"\r\n|\n|\r", result.stdout)[:-1]
        return [(key, value) for key, _, value in (line.partition(b"\t") for line in lines)]

    def _localize(self):
        cache = self.folder / "cache"
        cache.mkdir()
        for kind, uri, name in self.shipped:
            data = self.emr.objects(self._key(uri))[self._key(uri)]
            if kind == "-files":
                (cache / name).write_bytes(data)
                (cache / name).chmod(0o755)
            else:
                zipfile.ZipFile(io.BytesIO(data)).extractall(cache / name)

    def _splits(self):
        """({name in the environment: where a split starts}, lines) of each half of each input file."""
        delimiter = self.settings.get("textinputformat.record.delimiter")
        for key, data in sorted(self._files().items()):
            if key.endswith(".gz"):
                data, halves = gzip.decompress(data), [0]
            else:
                halves = [0, data.find(b"\n", len(data) // 2) + 1]
            for start, end in zip(halves, [*halves[1:], len(data)]):
                if start < end:
                    lines = data[start:end]
                    if delimiter != "\n":
                        lines = re.sub(rb"\r\n|\n|\r", b"\n", lines)
                    place = {
                        "mapreduce_map_input_file": f"s3://{BUCKET}/{key}",
                        "mapreduce_map_input_start": str(start),
                    }
                    yield place, lines

    def _files(self):
        found = {}
        for uri in self.inputs:
            key = self._key(uri)
            prefix = re.split(r"[*?\[{]", key)[0]
            named = {
                path: data
                for path, data in self.emr.objects(prefix).items()
                if any(fnmatch.fnmatchcase(path, pattern) for pattern in (key, key.rstrip("/") + "/*"))
                and not any(name[0] in "._" for name in path[len(prefix) :].split("/") if name)
            }
            if not named:
                raise ValueError(f"no such input: {uri}")
            found.update(named)
        return found

    def counters_text(self):
        lines = [f"Counters: {sum(map(len, self.counters.values()))}"]
        for group, counters in self.counters.items():
            lines.append(f"\t{group}")
            lines += [f"\t\t{name}={amount}" for name, amount in counters.items()]
        return "\n".join(lines)

    def _key(self, uri):
        place = urlparse(uri)
        if (place.scheme, place.netloc) != ("s3", BUCKET):
            raise ValueError(f"not in the bucket: {uri}")
        return place.path.lstrip("/")


def _typed_bytes(data):
    """Pairs of byte strings out of Hadoop's typed bytes: a type, a length of four bytes, the string."""
    strings, place = [], 0
    while place < len(data):
        length = int.from_bytes(data[place + 1 : place + 5], "big")
        strings.append(data[place + 5 : place + 5 + length])
        place += 5 + length
    return zip(strings[::2], strings[1::2])
