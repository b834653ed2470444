"""The default runner: all cores of this machine, by forking, with memory that data do not set.

It takes the place of mrjob's inline runner, with the same results, and differs in how tasks get data:

- a mapper reads its range of lines from the input files where they are; nothing is copied;
- a mapper's output goes to one spill file, with an index beside it; a reducer sorts the part of the
  indexes that is its own and reads its lines one by one where they lie. No record is in memory but the
  one at hand, and 24 bytes for each other. Keys come together, in the order of their 64-bit hashes.

Where the system cannot fork, tasks run one after another.
"""

import copy
import mmap
import os
import struct
from functools import partial

from mrjob.inline import InlineMRJobRunner
from mrjob.parse import parse_mr_job_stderr

from .forks import run_all
from .inputs import expand
from .spills import Partition, Spill
from .splits import READ, Split, line_ranges

_SPLIT = 32 << 20  # bytes of input to a mapper, at most
_LEAST_SPLIT = 1 << 20
_SPLITS_PER_CORE = 4  # so that cores end at about the same time
_PARTITION = 64 << 20  # bytes of shuffled data to a reducer


class ForkRunner(InlineMRJobRunner):
    """Runs the tasks of a step in forked processes, `num_cores` at a time.

    `job` is the job itself, whose copies are the tasks. `progress(task, step, done, total)`, if set, is
    called with the bytes read by the tasks of a phase.
    """

    job = progress = None

    def _run_streaming_step(self, step, step_num):
        self.fs.mkdir(self._output_dir_for_step(step_num))
        self.fs.mkdir(self._step_dir(step_num))
        wd = self._linked_working_dir(step_num)
        try:
            splits = self._splits(self._input_paths_for_step(step_num))
            if "reducer" not in step:
                self._run_phase("mapper", step_num, wd, splits, self._part_files(step_num))
                return
            spills = [os.path.join(self._step_dir(step_num), f"spill-{i:05d}") for i in range(len(splits))]
            self._run_phase("mapper", step_num, wd, splits, [partial(Spill, path) for path in spills])
            partitions = self._partitions(spills)
            inputs = [Partition(spills, i, partitions) for i in range(partitions)]
            self._run_phase("reducer", step_num, wd, inputs, self._part_files(step_num))
            for path in spills:
                Spill.remove(path)
        finally:
            self._log_counters(step_num)

    def _num_cores(self):
        if not self._opts["num_cores"] and hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))  # those this process may use
        return super()._num_cores()

    def _check_input_paths(self):
        """Nothing: `expand` does it, and takes a file's name as it is where mrjob takes it for a glob."""

    def _input_paths_for_step(self, step_num):
        if step_num == 0:
            return expand(self._get_input_paths())
        return expand([self._output_dir_for_step(step_num - 1)])

    def _part_files(self, step_num):
        """Functions that open the step's output files, one a task."""
        folder = os.path.abspath(self._output_dir_for_step(step_num))
        number = 0
        while True:
            path = os.path.join(folder, f"part-{number:05d}")
            yield lambda path=path: open(path, "wb", buffering=READ)
            number += 1

    def _linked_working_dir(self, step_num):
        """A directory with a link to each file that the job ships."""
        wd = os.path.join(self._step_dir(step_num), "wd")
        self.fs.mkdir(wd)
        for name, path in self._working_dir_mgr.name_to_path("file").items():
            os.symlink(os.path.abspath(path), os.path.join(wd, name))
        return wd

    def _splits(self, paths):
        """The input as `Split`s of about equal size, in its order, each of whole lines."""
        paths = list(paths)
        total = sum(os.path.getsize(path) for path in paths)
        size = min(_SPLIT, max(_LEAST_SPLIT, total // (_SPLITS_PER_CORE * self._num_cores()) + 1))
        splits, ranges, filled = [], [], 0
        for path in paths:
            for start, end in line_ranges(path, size):
                ranges.append((path, start, end))
                filled += end - start
                if filled >= size:
                    splits.append(Split(ranges))
                    ranges, filled = [], 0
        if ranges or not splits:
            splits.append(Split(ranges))
        return splits

    def _partitions(self, spills):
        size = sum(map(os.path.getsize, spills))
        if size < _LEAST_SPLIT:
            return 1
        return max(4 * self._num_cores(), -(-size // _PARTITION))

    def _run_phase(self, task_type, step_num, wd, inputs, openers):
        """Run one task for each input, each with its output file."""
        stderrs, tasks = [], []
        total = sum(source.size for source in inputs)
        shared = mmap.mmap(-1, 8 * max(1, len(inputs)))
        for number, (source, opener) in enumerate(zip(inputs, openers)):
            stderr_path = os.path.join(self._step_dir(step_num), f"{task_type}-{number:05d}.stderr")
            stderrs.append(stderr_path)
            source.report = lambda done, at=8 * number: struct.pack_into("<q", shared, at, done)
            tasks.append(self._task(task_type, step_num, number, wd, source, opener, stderr_path))

        def report():
            if self.progress:
                done = sum(struct.unpack_from(f"<{len(inputs)}q", shared)) if inputs else 0
                self.progress(task_type, step_num, done, total)

        try:
            run_all(tasks, self._num_cores(), report)
        finally:
            for path in filter(os.path.exists, stderrs):
                with open(path, "rb") as lines:
                    parse_mr_job_stderr(lines, counters=self._counters[step_num])

    def _task(self, task_type, step_num, number, wd, source, opener, stderr_path):
        def run():
            env = self._env_for_task(task_type, step_num, number, getattr(source, "first", None))
            with open(stderr_path, "wb") as stderr, opener() as stdout:
                before, here = dict(os.environ), os.getcwd()
                os.environ.update(env)
                os.chdir(wd)
                try:
                    # not a new job from a command line, as elsewhere: parsing it takes 25 ms
                    job = copy.copy(self.job)
                    job.options = copy.copy(self.job.options)
                    job.options.args = []  # read standard input
                    job.sandbox(stdin=source, stdout=stdout, stderr=stderr)
                    (job.run_mapper if task_type == "mapper" else job.run_reducer)(step_num)
                    stdout.flush()
                except OSError as error:
                    if error.filename is None:  # a full disk does not say which
                        error.filename = wd
                    raise
                finally:
                    os.chdir(here)
                    os.environ.clear()
                    os.environ.update(before)

        return run
