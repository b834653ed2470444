"""Base classes of the jobs that read documents, and of those that write lines as they came."""

import os
import re
import struct

from mrjob.compat import jobconf_from_env

from .inputs import lines_before
from .job import Job, LineProtocol, prepare_process

BATCH = 512 << 10  # bytes of documents handled together: what fits the caches wins


class DocumentsJob(Job):
    """A job whose first mapper reads documents, some hundred kilobytes of lines at a time.

    A subclass has `map_lines(lines)`, which yields pairs of the mapper's output, may have `map_start()`
    and `map_end()`, and gives `**self.document_mapper()` to its first step.
    """

    def document_mapper(self):
        return {
            "mapper_init": self.collect_start,
            "mapper": self.collect_line,
            "mapper_final": self.collect_end,
        }

    def map_start(self):
        """Set up what one task holds."""

    def map_end(self):
        return ()

    def collect_start(self):
        self._lines, self._size = [], 0
        self._read = 0  # lines before those in hand
        self.map_start()

    def collect_line(self, _, line):
        self._lines.append(line)
        self._size += len(line)
        return self._map_collected() if self._size >= BATCH else None

    def _map_collected(self):
        lines, self._lines, self._size = self._lines, [], 0
        yield from self.map_lines(lines)
        self._read += len(lines)

    def collect_end(self):
        yield from self._map_collected()
        yield from self.map_end()

    def run_mapper(self, step_num=0):
        if step_num:
            super().run_mapper(step_num)
            return
        # the lines come in lists: no call for each of them
        prepare_process()
        _, write = self.pick_protocols(step_num, "mapper")
        stdout = self.mapper_output()
        for key, value in self._map_batches():
            stdout.write(write(key, value))
            stdout.write(b"\n")
        self._flush_counts()

    def mapper_output(self):
        """The stream for a mapper's output."""
        return self.stdout

    def _map_batches(self):
        self._read = 0
        self.map_start()
        for lines in self._batches():
            for number, line in enumerate(lines):  # in place: a line may be long
                lines[number] = line.rstrip(b"\r\n")
            yield from self.map_lines(lines)
            self._read += len(lines)
        yield from self.map_end()

    def _batches(self):
        if hasattr(self.stdin, "batches"):  # of our own runner
            return self.stdin.batches(BATCH)
        return iter(lambda: self.stdin.readlines(BATCH), [])

    def place(self, number):
        """(file, line number, offset) of line `number`, from 0, of those in hand.

        The line number counts from 1 at the offset, which is 0 unless the lines before it are out of reach.
        """
        if hasattr(self.stdin, "place"):
            return (*self.stdin.place(number), 0)
        path = jobconf_from_env("mapreduce.map.input.file", "standard input")
        start = int(jobconf_from_env("mapreduce.map.input.start", 0))
        path = re.sub("^file:(//)?(?=/)", "", path)
        number += self._read + 1
        if os.path.isfile(path):
            return path, lines_before(path, start) + number, 0
        return path, number, start


class LinesJob(DocumentsJob):
    """A job whose mapper's output is lines, as they came or as a user reads them.

    Where Hadoop Streaming takes them as text, it ends them at a lone CR and adds a tab to one without a tab.
    As typed bytes, with a separator between key and value that they have themselves, they come through.
    """

    OUTPUT_PROTOCOL = LineProtocol

    def separator(self):
        """A byte that is in every line of the output: by default the colon of JSON objects."""
        return b":"

    def output_jobconf(self):
        return {
            "stream.map.output": "typedbytes",
            "mapreduce.output.textoutputformat.separator": self.separator().decode(),
        }

    def mapper_output(self):
        if jobconf_from_env("stream.map.output") == "typedbytes":
            return _TypedBytes(self.stdout, self.separator())
        return self.stdout


class _TypedBytes:
    """Writes lines as the typed bytes of Hadoop Streaming: a string as key, another as value."""

    _STRING = 7

    def __init__(self, stream, separator):
        self._stream, self._separator = stream, separator

    def write(self, lines):
        """Take one or more lines without the last end, or the end; mrjob writes them one after the other."""
        if lines != b"\n":
            key, _, value = lines.partition(self._separator)
            for part in (key, value):
                self._stream.write(struct.pack(">bi", self._STRING, len(part)))
                self._stream.write(part)
