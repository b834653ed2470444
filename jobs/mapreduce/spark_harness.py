"""mrjob's steps as transformations of Spark's: bytes in, bytes out, and no group of lines in memory.

Spark's engine for SQL reads, shuffles, sorts and writes, in the JVM, on columns of bytes: it spills to disk
whatever exceeds its memory and never makes text of them. Python gets and gives one record at a time,
behind its length. (PySpark's own RDDs pickle records in batches of a count that long lines multiply, turn
bytes that are not UTF-8 into question marks, and group by lists in memory.)

Between mapper and reducer a line travels with a 64-bit hash of its key, which chooses the partition; in
it lines are sorted by hash and bytes, so that a reducer sees each key's lines together and always in the
same order.

This module runs in the driver and in Spark's Python workers.
"""

import copy
import itertools
import os
import re
from collections import Counter, defaultdict
from importlib import import_module
from typing import NamedTuple
from urllib.parse import unquote

import mmh3
from pyspark import RDD, AccumulatorParam, SparkFiles
from pyspark.serializers import NoOpSerializer, PairDeserializer, pack_long
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from .errors import PREFIX, explained

_UNSPLIT = str(1 << 50)  # bytes; more than any file has


class TaskError(Exception):
    """The end of a task that a user can mend, with the line that says how."""


class Task(NamedTuple):
    """A mapper or reducer of a job: its module, class, arguments, step and kind."""

    module: str
    class_name: str
    arguments: tuple
    step: int
    kind: str

    def job(self, counters):
        """A job that adds to `counters`, {group: {name: amount}}."""
        arguments = [*self.arguments, f"--{self.kind}", f"--step-num={self.step}"]
        job = getattr(import_module(self.module), self.class_name)(arguments)

        def increment_counter(group, name, amount=1):
            counters[group][name] += amount

        job.increment_counter = increment_counter
        return job

    def lines(self, job, lines):
        """The lines that a job's task makes of lines."""
        read, write = job.pick_protocols(self.step, self.kind)
        run = job.map_pairs if self.kind == "mapper" else job.reduce_pairs
        for key, value in run((read(line.rstrip(b"\r\n")) for line in lines), self.step):
            yield write(key, value)


class _Latest(AccumulatorParam):
    """{(step, kind, partition): counters}: a task that runs again replaces its own."""

    def zero(self, value):
        return {}

    def addInPlace(self, one, other):
        one.update(other)
        return one


class Steps:
    """The streaming steps of one job, run in one application of Spark's."""

    def __init__(self, spark, module, class_name, arguments, steps, first=0, partitions=None):
        """`steps` are mrjob's descriptions, of which the first has the number `first`."""
        self._spark, self._context = spark, spark.sparkContext
        self._job = module, class_name, tuple(arguments)
        self._steps, self._first, self._partitions = steps, first, partitions
        self._counters = self._context.accumulator({}, _Latest())

    def run(self, files, output, codec=None, most_files=None):
        """Read files, given as URIs, and write the folder `output`: the counters of each step."""
        # only without a shuffle does the order of the input reach the output
        ordered = not any("reducer" in step for step in self._steps)
        lines = read_files(self._spark, files, ordered)
        for number, step in enumerate(self._steps, self._first):
            if "mapper" in step:
                task = Task(*self._job, number, "mapper")
                work = _map_blocks if number == self._first else _run_lines
                lines = self._apply(work, task, lines, "reducer" in step)
            elif number == self._first:
                lines = lines.values()
            if "reducer" in step:
                task = Task(*self._job, number, "reducer")
                lines = self._apply(_run_lines, task, self._shuffle(lines, "mapper" in step), False)
        self._write(lines, output, codec, most_files)
        return self._summed()

    def _apply(self, work, task, lines, keyed):
        """An RDD of the lines that a task makes of each partition, behind hashes of their keys if `keyed`."""
        counters = self._counters

        def run(partition, records):
            found = defaultdict(Counter)
            made = work(task, found, records)
            try:
                yield from _keyed(made) if keyed else made
            except Exception as error:
                line = explained(error)
                if line is None:
                    raise
                raise TaskError(PREFIX + " ".join(line.split("\n"))) from None
            amounts = {group: dict(names) for group, names in found.items()}
            counters.add({(task.step, task.kind, partition): amounts})

        return _raw(lines.mapPartitionsWithIndex(run))

    def _shuffle(self, lines, keyed):
        if not keyed:
            lines = _raw(lines.mapPartitions(_keyed))
        jvm = self._context._jvm
        encoders = jvm.org.apache.spark.sql.Encoders
        pairs = jvm.PairwiseRDD(lines._jrdd.rdd())
        frame = self._frame(pairs, encoders.tuple(encoders.LONG(), encoders.BINARY()))
        partitions = self._partitions or max(lines.getNumPartitions(), self._context.defaultParallelism)
        frame = frame.repartition(partitions, "_1").sortWithinPartitions("_1", "_2").select("_2")
        return _rdd(frame, encoders.BINARY(), NoOpSerializer())

    def _write(self, lines, output, codec, most_files):
        encoders = self._context._jvm.org.apache.spark.sql.Encoders
        frame = self._frame(lines._jrdd.rdd(), encoders.BINARY())
        if most_files:
            frame = frame.coalesce(most_files)
        # a string is its bytes, whatever they are
        writer = frame.select(sql.col("value").cast("string")).write.option("lineSep", "\n")
        if codec:
            writer = writer.option("compression", codec)
        writer.text(output)

    def _frame(self, rdd, encoder):
        return DataFrame(self._spark._jsparkSession.createDataset(rdd, encoder).toDF(), self._spark)

    def _summed(self):
        """[{group: {name: amount}}] of the steps."""
        sums = [defaultdict(Counter) for _ in self._steps]
        for (step, _, _), counters in self._counters.value.items():
            for group, names in counters.items():
                sums[step - self._first][group].update(names)
        return [{group: dict(names) for group, names in step.items()} for step in sums]


def _raw(rdd):
    """An RDD of bytes whose records go to the JVM as they are."""
    rdd._bypass_serializer = True
    return rdd


def _rdd(frame, encoder, serializer):
    dataset = getattr(frame._jdf, "as")(encoder)
    return RDD(dataset.toJavaRDD(), frame.sparkSession.sparkContext, serializer)


# reading


def list_files(spark, path):
    """The URIs of the files that a URI, glob or folder names."""
    reader = spark.read.format("text").option("recursiveFileLookup", True)
    return sorted(unquote(uri) for uri in reader.load(path).inputFiles())


def read_files(spark, files, ordered=False):
    """An RDD of (origin, line) of files; a partition holds lines of one or more blocks of files.

    An origin is `start path`: the byte where the block of the file starts, and the file's URI.
    """
    # of compressed files Hadoop would split those of bzip2, whose lines have no place then
    unsplit = spark.newSession()
    unsplit.conf.set("spark.sql.files.maxPartitionBytes", _UNSPLIT)
    unsplit.conf.set("spark.sql.files.openCostInBytes", _UNSPLIT)
    # Spark deals the blocks of one frame to partitions by their sizes
    groups = [[path] for path in files] if ordered else [files]
    parts = []
    for group in groups:
        packed = [path for path in group if path.endswith((".gz", ".bz2"))]
        plain = [path for path in group if not path.endswith((".gz", ".bz2"))]
        parts += [_read(session, part) for session, part in ((spark, plain), (unsplit, packed)) if part]
    return spark.sparkContext.union(parts) if len(parts) > 1 else parts[0]


def _read(spark, files):
    reader = spark.read.format("text").option("lineSep", "\n")
    # the names of files are no patterns, nor do their folders name columns
    frame = reader.option("__globPaths__", False).option("recursiveFileLookup", True).load(files)
    start, path = (sql.col(f"_metadata.file_{name}").cast("string") for name in ("block_start", "path"))
    origin = sql.concat(start, sql.lit(" "), path)
    frame = frame.select(origin.cast("binary").alias("_1"), sql.col("value").cast("binary").alias("_2"))
    encoders = spark.sparkContext._jvm.org.apache.spark.sql.Encoders
    pair = encoders.tuple(encoders.BINARY(), encoders.BINARY())
    return _rdd(frame, pair, PairDeserializer(NoOpSerializer(), NoOpSerializer()))


def path_of(uri):
    """The path of a local file's URI; any other URI as it is.

    >>> path_of("file:/a%20b"), path_of("file:///a"), path_of("hdfs://node/a%20b")
    ('/a b', '/a', 'hdfs://node/a b')
    """
    return re.sub("^file:/+", "/", unquote(uri))


# in the workers


def _keyed(lines):
    """Each line behind a hash of its key, as JVM's PairwiseRDD takes them."""
    for line in lines:
        yield pack_long(mmh3.hash64(line.partition(b"\t")[0])[0])
        yield line


def _map_blocks(task, counters, records):
    """(origin, line) of a partition -> lines, of one mapper for each block of a file"""
    os.chdir(SparkFiles.getRootDirectory())  # where shipped files are, and room for temporary ones
    first = task.job(counters)
    for origin, block in itertools.groupby(records, lambda record: record[0]):
        start, _, path = origin.decode().partition(" ")
        path = path_of(path)
        os.environ["mapreduce_map_input_file"] = path
        os.environ["mapreduce_map_input_start"] = str(_first_line(path, int(start)))
        yield from task.lines(copy.copy(first), (line for _, line in block))


def _run_lines(task, counters, lines):
    """lines of a partition -> lines, of one task"""
    os.chdir(SparkFiles.getRootDirectory())
    for name in ("mapreduce_map_input_file", "mapreduce_map_input_start"):
        os.environ.pop(name, None)
    return task.lines(task.job(counters), lines)


def _first_line(path, start):
    """Where the first line of a block starts in a local file; in any other just where the block does."""
    if not start or not os.path.isfile(path):
        return start
    with open(path, "rb") as file:
        file.seek(start)
        file.readline()  # it belongs to the block before
        return file.tell()


# errors


def cause(error):
    """The one line for the user in an exception of Spark's; None where there is none."""
    text = str(error)
    found = re.search(rf"TaskError: {PREFIX}(.*)", text)
    if found:
        return found.group(1)
    found = re.search(r"FAILED_READ_FILE.*? reading file (\S+?)\.?\s", text)
    if found:
        reason = re.findall(r"Caused by: (?:[\w.$]+\.)?(.*)", text)
        return f"{path_of(found.group(1))} is truncated or damaged: {reason[-1] if reason else 'unreadable'}"
    found = re.findall(r"Caused by: java\.(?:io\.(?:EOF|IO)|util\.zip\.\w+)Exception: (.*)", text)
    if found and "HadoopFileLinesReader" in text:  # Spark 3 does not say which
        return f"an input file is truncated or damaged: {found[-1]}"
    found = re.search(r"\[PATH_NOT_FOUND\] Path does not exist: (\S+?)\.?(?:\s|$)", text)
    if found:
        return f"no such file: {path_of(found.group(1))}"
    if "Python worker exited unexpectedly" in text:
        return "a Python worker was killed, time and again: it may have been out of memory"
    return None


def reason(error):
    """The line of an exception that no user's file or machine caused, to follow its details."""
    lines = re.findall(r"^(?:Caused by: )?([\w.]+(?:Error|Exception).*)", str(error), re.MULTILINE)
    return lines[-1] if lines else f"{type(error).__name__}: {error}".splitlines()[0]
