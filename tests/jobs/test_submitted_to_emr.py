# ruff: noqa: F811 (fixtures are imported)
"""What scripts/emr_submit lets a cluster's first node do, done by a Hadoop of this machine."""

import os
import subprocess
import sys

import pytest
from emr_fixtures import conf, emr, service  # noqa: F401
from fake_emr import BUCKET
from running import SAMPLES, TOP, assert_same, deduplicate, outcome

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
NEWS = SAMPLES / "news.jsonl"
# S3, for Hadoop, is a folder of HDFS
HADOOP = """#!/bin/bash
arguments=("${{@//s3:\\/\\/{bucket}/hdfs:\\/\\/\\/{bucket}}}")
if [[ " $* " == *" -ls "* ]]; then
    set -o pipefail
    "{hadoop}" "${{arguments[@]}}" | sed 's#hdfs:///{bucket}#s3://{bucket}#'
else
    exec "{hadoop}" "${{arguments[@]}}"
fi
"""


def test_driver_on_the_cluster_does_the_whole_run(emr, hadoop, conf, tmp_path):
    source, out = emr.put("in/news.jsonl", NEWS.read_bytes()), f"s3://{BUCKET}/out"
    emr.runs = False
    command = [sys.executable, TOP / "scripts" / "emr_submit", "--conf", conf(reducers=1)]
    subprocess.run([*command, TOP / "jobs" / "dedup.py", source, "--output-dir", out], check=True)
    (step,) = emr.sent("RunJobFlow")[-1]["Steps"]
    for path, data in emr.objects().items():
        (tmp_path / "object").write_bytes(data)
        hadoop.put(tmp_path / "object", f"/{BUCKET}/{path}")
    node = tmp_path / "node"
    node.mkdir()
    home = hadoop.env["HADOOP_HOME"]
    (node / "hadoop").write_text(HADOOP.format(bucket=BUCKET, hadoop=f"{home}/bin/hadoop"))
    (node / "hadoop").chmod(0o755)
    # as on a cluster of EMR: hadoop on PATH, no setting of the user's
    environment = {name: hadoop.env[name] for name in ("HOME", "HADOOP_CONF_DIR")}
    environment.update(PATH=f"{node}:{os.environ['PATH']}", TMPDIR=str(tmp_path), MRJOB_CONF="/dev/null")
    environment["HADOOP_MAPRED_HOME"] = home  # where Streaming is
    done = subprocess.run(step["HadoopJarStep"]["Args"], env=environment, cwd=node, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    found = hadoop.fetch(f"/{BUCKET}/out", tmp_path / "out")
    assert_same(outcome(found), outcome(deduplicate(tmp_path / "here", NEWS)))
    assert hadoop.paths(f"/{BUCKET}/out/.run") == []
