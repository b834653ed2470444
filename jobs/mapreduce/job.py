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
from importlib import import_module

from mrjob.conf import find_mrjob_conf
from mrjob.job import MRJob

import lshlib
from lshlib.blocks import BlockProtocol

from . import TOP
from .errors import PREFIX, explained

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
