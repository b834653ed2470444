"""The base class of all jobs: protocols, code for the nodes, counters, and errors in one line."""

import copy
import ctypes
import gc
import os
import re
import struct
import sys
import tempfile
import traceback
import zipfile
from argparse import ArgumentParser, HelpFormatter
from collections import Counter
from functools import partial
from importlib import import_module

from mrjob.compat import jobconf_from_env
from mrjob.conf import find_mrjob_conf
from mrjob.job import MRJob

import lshlib
from lshlib.blocks import BlockProtocol

from . import TOP
from .errors import PREFIX, explained

_FIRST_DIGIT = ord("@")
BATCH = 512 << 10  # bytes of documents handled together: what fits the caches wins


# What --help shows of mrjob's options, and how.
_RUNNING = {
    "runner": "where to run: inline (all cores of this machine, the default), local, hadoop, emr, spark",
    "output_dir": "folder for the output",
    "num_cores": "processes at a time, on this machine (default: all cores)",
    "conf_paths": "file with settings of runners, as in configs/",
    "jobconf": "a setting of Hadoop's, as NAME=VALUE",
    "local_tmp_dir": "folder for temporary files",
    "quiet": "say nothing",
    "verbose": "say all that mrjob says, too",
    "help": "show this and end",
}


_RUNNERS = {  # imported when they are asked for
    "inline": (".runner", "ForkRunner"),
    "hadoop": (".hadoop", "HadoopRunner"),
    "emr": (".emr", "EmrRunner"),
    "spark": (".spark", "SparkRunner"),
}


class LineProtocol:
    """Lines as they are: key None, value the bytes without the line end."""

    def read(self, line):
        return None, line

    def write(self, _, line):
        return line


class Job(MRJob):
    """A job that hands blocks from task to task."""

    INPUT_PROTOCOL = LineProtocol
    INTERNAL_PROTOCOL = BlockProtocol
    OUTPUT_PROTOCOL = BlockProtocol

    TELLS_PLACES = False  # whether a mapper asks for the file and line of a record

    def __init__(self, args=None):
        super().__init__(args)
        self._counts = Counter()

    def configure_args(self):
        # a fixed width, as argparse otherwise asks the terminal for its own at each of 200 options
        self.arg_parser.formatter_class = partial(HelpFormatter, width=100)
        super().configure_args()

    def load_args(self, args):
        super().load_args(args)
        if not self.is_task():
            self._find_settings()
        try:
            self.check_options()
        except ValueError as error:
            self.arg_parser.error(str(error))
        self.ship_code()

    def check_options(self):
        """Settle what the options leave open; ValueError, in one line, for one that is out of range."""

    def _non_option_kwargs(self):
        settings = super()._non_option_kwargs()
        if hasattr(self.options, "input_format"):  # tasks do not see the names of the files that settle it
            settings["extra_args"].append(f"--input-format={self.options.input_format}")
        return settings

    def _find_settings(self):
        """Without settings of the user's, those of configs/ for the runner hold."""
        path = os.path.join(TOP, "configs", f"{self.options.runner}.conf")
        if self.options.conf_paths is None and not find_mrjob_conf() and os.path.exists(path):
            self.options.conf_paths = [path]

    def ship_code(self):
        """Send lshlib and this package along where tasks run in other processes or machines."""
        runner = self.options.runner
        if runner not in (None, "inline") and not self.is_task():
            # tasks work elsewhere
            self.options.args = [os.path.abspath(p) if os.path.exists(p) else p for p in self.options.args]
            self.options.py_files = [*(self.options.py_files or ()), code_archive()]
            # the archive brings all that tasks import; mrjob's own copy would slow down each start
            if runner == "local" and self.options.bootstrap_mrjob is None:
                self.options.bootstrap_mrjob = False

    def _runner_class(self):
        if (self.options.runner or "inline") in _RUNNERS:
            module, name = _RUNNERS[self.options.runner or "inline"]
            return getattr(import_module(module, __package__), name)
        return super()._runner_class()

    def _print_help(self, options):
        """Our options in their groups, then the few of mrjob's that most users need."""
        if options.runner:
            super()._print_help(options)
            return
        description = sys.modules[type(self).__module__].__doc__.partition("\n")[0]
        parser = ArgumentParser(
            usage=self._usage(),
            description=description,
            add_help=False,
            formatter_class=self.arg_parser.formatter_class,
            epilog="All options of a runner: --help -r RUNNER",
        )
        actions = {action.dest: action for action in reversed(self.arg_parser._actions)}
        grouped = set()
        for group in self.arg_parser._action_groups[2:]:
            section = parser.add_argument_group(group.title)
            for action in group._group_actions:
                section._add_action(action)
                grouped.add(action.dest)
        own = self._passthru_arg_dests | self._file_arg_dests
        for title, dests in (("this stage", sorted(own - grouped)), ("running", _RUNNING)):
            if dests:
                section = parser.add_argument_group(title)
                for dest in dests:
                    action = copy.copy(actions[dest])
                    action.help = _RUNNING.get(dest, action.help)
                    section._add_action(action)
        parser.print_help()

    def output_jobconf(self):
        """Settings of Hadoop's for a step without a reducer."""
        return {}

    def make_runner(self):
        runner = super().make_runner()
        runner.job = self
        return runner

    @classmethod
    def run(cls):
        """The job as a script: a user's mistake ends it with one line and exit status 1."""
        try:
            cls().execute()
        except BrokenPipeError:  # the reader of our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(f"\n{PREFIX}interrupted")
        except Exception as error:
            line = explained(error)
            if line is None:
                traceback.print_exc()
                line = f"unexpected {type(error).__name__}: {error}"
            sys.exit(PREFIX + " ".join(line.split("\n")))

    # tasks

    def map_pairs(self, pairs, step_num=0):
        prepare_process()
        yield from super().map_pairs(pairs, step_num)
        self._flush_counts()

    def reduce_pairs(self, pairs, step_num=0):
        prepare_process()
        yield from super().reduce_pairs(pairs, step_num)
        self._flush_counts()

    def count(self, name, amount=1):
        """Add to a counter; a task reports its sums at its end, as each report costs."""
        self._counts[name] += int(amount)

    def _flush_counts(self):
        for name, amount in self._counts.items():
            self.increment_counter("lsh", name, amount)
        self._counts.clear()


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


def slice_key(name, number):
    """The key of a slice of the data: Hadoop deals the slices of one name to its reducers in turn.

    Its partitioner takes the remainder of a hash, h = 31 h + c over the characters c of the key: so the last
    ones are the digits of the number to base 31.
    """
    digits = []
    while number or len(digits) < 4:  # of one length, so that the hashes follow each other
        number, digit = divmod(number, 31)
        digits.append(chr(_FIRST_DIGIT + digit))
    return f"{name} {''.join(reversed(digits))}"


def slice_number(key):
    """The number that `slice_key` took.

    >>> slice_number(slice_key("buckets", 1000))
    1000
    """
    number = 0
    for digit in key.rpartition(" ")[2]:
        number = 31 * number + ord(digit) - _FIRST_DIGIT
    return number


def lines_before(path, start):
    """How many lines end in the first `start` bytes of a file of this machine."""
    if not start:
        return 0
    with open(path, "rb") as file:
        return count_lines(file, start)


def count_lines(stream, size):
    """How many lines end in the next `size` bytes of a stream."""
    count = 0
    while size > 0:
        chunk = stream.read(min(size, 1 << 20))
        if not chunk:
            break
        count += chunk.count(b"\n")
        size -= len(chunk)
    return count


def prepare_process():
    """Settings of a process that handles arrays in batches.

    glibc is to keep freed memory for reuse: numpy frees and allocates arrays of a megabyte all the time,
    and returning their pages to the system costs a quarter of a task's time. And Python is to look for
    cyclic garbage, of which there is next to none, less often.
    """
    gc.set_threshold(100_000, 50, 100)
    trim_threshold, mmap_threshold, bound = -1, -3, 1 << 26
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # no glibc
        return
    mallopt(trim_threshold, bound)
    mallopt(mmap_threshold, bound)


def code_archive():
    """A zip of lshlib and this package, made once a process."""
    if not _archive:
        path = os.path.join(tempfile.mkdtemp(prefix="lsh-code-"), "lsh_code.zip")
        with zipfile.ZipFile(path, "w") as archive:
            for package in (os.path.dirname(lshlib.__file__), os.path.dirname(__file__)):
                for name in sorted(os.listdir(package)):
                    if name.endswith(".py"):
                        archive.write(
                            os.path.join(package, name),
                            os.path.join(os.path.basename(package), name),
                        )
        _archive.append(path)
    return _archive[0]


_archive = []
