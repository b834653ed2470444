"""The base class of all jobs: protocols, code for the nodes, counters, and errors in one line."""

import ctypes
import os
import sys
import tempfile
import traceback
import zipfile
from argparse import HelpFormatter
from collections import Counter
from functools import partial

from mrjob.job import MRJob

import lshlib
from lshlib.blocks import BlockProtocol
from lshlib.documents import RecordError

from .errors import PREFIX, JobError, explained


class LineProtocol:
    """Lines as they are: key None, value the bytes without the line end."""

    def read(self, line):
        return None, line

    def write(self, _, line):
        return line


class Job(MRJob):
    """A job that reads documents line by line and hands blocks from task to task."""

    INPUT_PROTOCOL = LineProtocol
    INTERNAL_PROTOCOL = BlockProtocol
    OUTPUT_PROTOCOL = BlockProtocol

    def __init__(self, args=None):
        super().__init__(args)
        self._counts = Counter()
        self._lines = 0

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
        return super()._runner_class()

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

    def run_mapper(self, step_num=0):
        keep_freed_memory()
        super().run_mapper(step_num)
        self._flush_counts()

    def run_reducer(self, step_num=0):
        keep_freed_memory()
        super().run_reducer(step_num)
        self._flush_counts()

    def count(self, name, amount=1):
        """Add to a counter; a task reports its sums at its end, as each report costs."""
        self._counts[name] += int(amount)

    def _flush_counts(self):
        for name, amount in self._counts.items():
            self.increment_counter("lsh", name, amount)
        self._counts.clear()

    def place(self):
        """(file, line number) of the record that a mapper of documents is at."""
        if hasattr(self.stdin, "place"):
            return self.stdin.place()
        path = os.environ.get("mapreduce_map_input_file", "standard input")
        start = int(os.environ.get("mapreduce_map_input_start", 0))
        path = path[len("file://") :] if path.startswith("file://") else path
        return path, self._lines + lines_before(path, start)

    def read_document(self, layout, line):
        """The document of a line; JobError that names file and line where it is none."""
        self._lines += 1
        try:
            return layout.read(line)
        except RecordError as error:
            path, number = self.place()
            raise JobError(f"line {number} of {path}: {error}") from None


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


def keep_freed_memory():
    """Let glibc keep freed memory for reuse instead of giving it back to the system.

    numpy frees and allocates arrays of a megabyte all the time; returning their pages costs a quarter of
    a task's time. Elsewhere than on glibc this does nothing.
    """
    trim_threshold, mmap_threshold, bound = -1, -3, 1 << 26
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
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
