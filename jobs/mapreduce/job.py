"""The base class of all jobs: protocols, code for the nodes, counters, and errors in one line."""

import copy
import ctypes
import gc
import os
import sys
import tempfile
import traceback
import zipfile
from argparse import ArgumentParser, HelpFormatter
from collections import Counter
from functools import partial

from mrjob.compat import jobconf_from_env
from mrjob.job import MRJob

import lshlib
from lshlib.blocks import BlockProtocol

from .errors import PREFIX, explained

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

    def __init__(self, args=None):
        super().__init__(args)
        self._counts = Counter()

    def configure_args(self):
        # a fixed width, as argparse otherwise asks the terminal for its own at each of 200 options
        self.arg_parser.formatter_class = partial(HelpFormatter, width=100)
        super().configure_args()

    def load_args(self, args):
        super().load_args(args)
        self.ship_code()

    def ship_code(self):
        """Send lshlib and this package along where tasks run in other processes or machines."""
        runner = self.options.runner
        if runner not in (None, "inline") and not self.is_task():
            self.options.py_files = [*(self.options.py_files or ()), code_archive()]
            # the archive brings all that tasks import; mrjob's own copy would slow down each start
            if runner == "local" and self.options.bootstrap_mrjob is None:
                self.options.bootstrap_mrjob = False

    def _runner_class(self):
        if self.options.runner in (None, "inline"):
            from .runner import ForkRunner

            return ForkRunner
        if self.options.runner == "spark":
            from .spark import SparkRunner

            return SparkRunner
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
        if step_num or not hasattr(self.stdin, "batches"):
            super().run_mapper(step_num)
            return
        # our own runner has the lines in lists already: no call for each of them
        prepare_process()
        _, write = self.pick_protocols(step_num, "mapper")
        for key, value in self._map_batches():
            self.stdout.write(write(key, value))
            self.stdout.write(b"\n")
        self._flush_counts()

    def _map_batches(self):
        self.map_start()
        for lines in self.stdin.batches(BATCH):
            for number, line in enumerate(lines):  # in place: a line may be long
                lines[number] = line.rstrip(b"\r\n")
            yield from self.map_lines(lines)
        yield from self.map_end()

    def place(self, number):
        """(file, line number) of line `number`, from 0, of those in hand."""
        if hasattr(self.stdin, "place"):
            return self.stdin.place(number)
        path = jobconf_from_env("mapreduce.map.input.file", "standard input")
        start = int(jobconf_from_env("mapreduce.map.input.start", 0))
        path = path[len("file://") :] if path.startswith("file://") else path
        return path, lines_before(path, start) + self._read + number + 1


def lines_before(path, start):
    """How many lines end in the first `start` bytes of a local file; 0 where it cannot be read."""
    count = 0
    if start and os.path.isfile(path):
        with open(path, "rb") as file:
            while start > 0:
                chunk = file.read(min(start, 1 << 20))
                count += chunk.count(b"\n")
                start -= len(chunk)
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
