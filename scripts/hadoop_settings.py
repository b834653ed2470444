"""The settings of a Hadoop on one machine, a dictionary for each of its files.

Beside addresses and folders there are three kinds: those that let two nodes share a machine, short intervals,
so that a step takes seconds and a dead daemon is noticed in seconds, and bounds on memory.
"""

import os

HOST = "127.0.0.1"
NODES = (1, 2)

# The order of their ports, from the base port on.
PORTS = [
    *("nn", "nn-web", "rm", "rm-scheduler", "rm-tracker", "rm-admin", "rm-web", "history"),
    *(
        f"{name}{node}{end}"
        for node in NODES
        for name, ends in (("dn", ("", "-ipc", "-web")), ("nm", ("", "-localizer", "-web", "-shuffle")))
        for end in ends
    ),
]

CONTAINER_MB = 768  # half of it is the JVM's heap, the rest for the Python of the task
HEAP = f"-Xmx{CONTAINER_MB // 2}m"
SMALL_TASKS = {
    "mapreduce.map.memory.mb": str(CONTAINER_MB),
    "mapreduce.reduce.memory.mb": str(CONTAINER_MB),
    "mapreduce.map.java.opts": HEAP,
    "mapreduce.reduce.java.opts": HEAP,
    "mapreduce.task.io.sort.mb": "128",
}
# One container is the job's application master; three tasks for each node and more where there are cores.
CONTAINERS_PER_NODE = max(4, (os.cpu_count() or 1) // len(NODES) + 1)

AM_ATTEMPTS = 4

LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
# There are no native libraries, and every command would say so.
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
"""


def site_files(folder, ports, home):
    """{file name: {setting: value}} of a cluster with its state in `folder` and its jars in `home`/lib."""
    address = {name: f"{HOST}:{port}" for name, port in ports.items()}
    class_path = f"{folder}/conf,{home}/lib/*"
    return {
        "core-site.xml": _core(folder, address),
        "hdfs-site.xml": _hdfs(folder, address),
        "yarn-site.xml": _yarn(folder, address, class_path),
        "mapred-site.xml": _mapred(folder, address, class_path),
        "capacity-scheduler.xml": _CAPACITY_SCHEDULER,
    }


def _core(folder, address):
    return {
        "fs.defaultFS": f"hdfs://{address['nn']}",
        "hadoop.tmp.dir": f"{folder}/tmp",
        # A daemon that does not answer on loopback is dead.
        "ipc.client.connect.max.retries": 3,
        "ipc.client.connect.max.retries.on.timeouts": 3,
    }


def _hdfs(folder, address):
    return {
        "dfs.replication": len(NODES),
        "dfs.namenode.http-address": address["nn-web"],
        "dfs.namenode.name.dir": f"file://{folder}/nn",
        "dfs.permissions.enabled": "false",
        "dfs.datanode.hostname": HOST,
        # The name of a DataNode's address is not looked up.
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        # Ready as soon as every block has been reported.
        "dfs.namenode.safemode.extension": 0,
        "dfs.namenode.safemode.min.datanodes": len(NODES),
        # A DataNode is stale after 5 s and dead after 2 x 2000 ms + 10 x 1 s (of itself 10 minutes and more).
        "dfs.heartbeat.interval": 1,
        "dfs.namenode.heartbeat.recheck-interval": 2000,
        "dfs.namenode.stale.datanode.interval": 5000,
        "dfs.namenode.avoid.read.stale.datanode": "true",
        "dfs.namenode.avoid.write.stale.datanode": "true",
        # There is no third DataNode to replace one of two: go on with the other.
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
    }


def _yarn(folder, address, class_path):
    return {
        "yarn.resourcemanager.hostname": HOST,
        "yarn.resourcemanager.bind-host": HOST,
        "yarn.resourcemanager.address": address["rm"],
        "yarn.resourcemanager.scheduler.address": address["rm-scheduler"],
        "yarn.resourcemanager.resource-tracker.address": address["rm-tracker"],
        "yarn.resourcemanager.admin.address": address["rm-admin"],
        "yarn.resourcemanager.webapp.address": address["rm-web"],
        "yarn.node-attribute.fs-store.root-dir": f"file://{folder}/tmp/node-attribute",
        "yarn.nodemanager.hostname": HOST,
        "yarn.nodemanager.bind-host": HOST,
        "yarn.nodemanager.aux-services": "mapreduce_shuffle",
        "yarn.nodemanager.env-whitelist": "JAVA_HOME,HADOOP_CONF_DIR,PATH,LANG,LC_ALL,TZ",
        "yarn.application.classpath": class_path,
        # Memory bounds the number of containers; what they really take is not looked at.
        "yarn.nodemanager.resource.memory-mb": CONTAINERS_PER_NODE * CONTAINER_MB,
        "yarn.scheduler.maximum-allocation-mb": CONTAINERS_PER_NODE * CONTAINER_MB,
        "yarn.scheduler.minimum-allocation-mb": CONTAINER_MB // 6,
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        # A disk that is 90 % full, as a developer's may well be, is no broken one.
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 100,
        # The logs of a finished job go to HDFS, for `yarn logs`; here they stay until mrjob has looked.
        "yarn.log-aggregation-enable": "true",
        "yarn.nodemanager.delete.debug-delay-sec": 120,
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": 100,
        "yarn.resourcemanager.connect.retry-interval.ms": 500,
        "yarn.resourcemanager.connect.max-wait.ms": 60_000,
        # A NodeManager is dead after 15 s (of itself 10 minutes), and what ran on it starts again. An
        # application master is not: a machine that is busy with other things may starve it for so long.
        "yarn.nm.liveness-monitor.expiry-interval-ms": 15_000,
        "yarn.resourcemanager.am.max-attempts": AM_ATTEMPTS,
        # For so long an application master tries to reach a dead NodeManager (of itself 3 minutes).
        "yarn.client.nodemanager-connect.max-wait-ms": 3000,
        "yarn.client.nodemanager-connect.retry-interval-ms": 500,
    }


def _mapred(folder, address, class_path):
    task_options = f"@{folder}/conf/task.args"
    return {
        "mapreduce.framework.name": "yarn",
        "mapreduce.application.classpath": class_path,
        # No history server runs. A client that asks for it is refused at once at a port that is ours.
        "mapreduce.jobhistory.address": address["history"],
        # The format that mrjob reads, to show why a task failed.
        "mapreduce.jobhistory.jhist.format": "json",
        "mapreduce.client.submit.file.replication": len(NODES),
        "yarn.app.mapreduce.am.resource.mb": CONTAINER_MB,
        "mapreduce.am.max-attempts": AM_ATTEMPTS,
        **SMALL_TASKS,
        # The tasks of a job with one reducer and little input run in its application master: two JVMs less.
        # A task has only one attempt there, so it is for jobs of seconds.
        "mapreduce.job.ubertask.enable": "true",
        "mapreduce.job.ubertask.maxbytes": 1_000_000,
        # A second application master that takes over the mappers of the first cannot run the reducer itself.
        "yarn.app.mapreduce.am.job.recovery.enable": "false",
        "yarn.app.mapreduce.am.admin-command-opts": task_options,
        "mapreduce.admin.map.child.java.opts": task_options,
        "mapreduce.admin.reduce.child.java.opts": task_options,
        "yarn.app.mapreduce.am.command-opts": HEAP,
        # A second attempt of a task that is not stuck would only take its cores.
        "mapreduce.map.speculative": "false",
        "mapreduce.reduce.speculative": "false",
        # Both nodes are one host, so a few failed tasks would put both on the black list.
        "yarn.app.mapreduce.am.job.node-blacklisting.enable": "false",
        "yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms": 100,
        "mapreduce.client.progressmonitor.pollinterval": 100,
        "mapreduce.client.completion.pollinterval": 100,
    }


_CAPACITY_SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": 100,
    "yarn.scheduler.capacity.maximum-am-resource-percent": 0.5,
    "yarn.scheduler.capacity.node-locality-delay": -1,
    # One container a heartbeat, so that a job's tasks spread over both nodes.
    "yarn.scheduler.capacity.per-node-heartbeat.multiple-assignments-enabled": "false",
}


def node_settings(daemon, folder, ports):
    """{setting: value} in which a DataNode or a NodeManager differs from the other of its kind."""
    address = {end: f"{HOST}:{ports[daemon + end]}" for end in ("", "-ipc", "-web") if daemon + end in ports}
    if daemon.startswith("dn"):
        return {
            "dfs.datanode.address": address[""],
            "dfs.datanode.ipc.address": address["-ipc"],
            "dfs.datanode.http.address": address["-web"],
            "dfs.datanode.data.dir": f"file://{folder}/{daemon}",
        }
    if daemon.startswith("nm"):
        return {
            "yarn.nodemanager.address": address[""],
            "yarn.nodemanager.localizer.address": f"{HOST}:{ports[daemon + '-localizer']}",
            "yarn.nodemanager.webapp.address": address["-web"],
            "mapreduce.shuffle.port": ports[daemon + "-shuffle"],
            "yarn.nodemanager.local-dirs": f"{folder}/{daemon}",
            # Its own: a NodeManager that starts clears the folder.
            "yarn.nodemanager.log-dirs": f"{folder}/logs/{daemon}/userlogs",
        }
    return {}


def jvm_options(home, archive, hosts, class_path):
    """The options of every JVM, which are for those that live for seconds."""
    return [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Xshare:auto",
        *([f"-XX:SharedArchiveFile={archive}"] if archive else []),
        "-Djava.net.preferIPv4Stack=true",
        # Hadoop wants the machine's own name to resolve, and there it does, to loopback.
        f"-Djdk.net.hosts.file={hosts}",
        f"-Dhadoop.home.dir={home}",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        f"-cp {class_path}",
    ]


def mrjob_conf(folder, home, version, python, common):
    """What mrjob needs to know of this cluster; `common` is the file of settings for any."""
    options = {
        "hadoop_bin": [f"{home}/bin/hadoop", "--config", f"{folder}/conf"],
        "hadoop_streaming_jar": f"{home}/lib/hadoop-streaming-{version}.jar",
        "hadoop_log_dirs": [f"{folder}/logs/nm{node}" for node in NODES],
        "jobconf": {
            # Starting more takes longer than they save, up to some hundred megabytes.
            "mapreduce.job.reduces": "1",
            "mapreduce.job.reduce.slowstart.completedmaps": "0.05",
            **SMALL_TASKS,
        },
    }
    if python:
        # It has mrjob, so tasks need no zipped copy, which each of them would compile again.
        options.update(python_bin=[python], bootstrap_mrjob=False)
    return {"include": common, "runners": {"hadoop": options}}
