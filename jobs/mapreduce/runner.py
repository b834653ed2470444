"""The default runner: all cores of this machine, by forking, with memory that data do not set.

It takes the place of mrjob's inline runner, with the same results, and differs in how tasks get data:

- a mapper reads its range of lines from the input files where they are; nothing is copied;
- a mapper's output goes to one spill file, with an index beside it; a reducer sorts the part of the
  indexes that is its own and reads its lines one by one where they lie. No record is in memory but the
  one at hand, and 24 bytes for each other. Keys come together, in the order of their 64-bit hashes.

Where the system cannot fork, tasks run one after another.
"""

import contextlib
import copy
import io
import mmap
import os
import pickle
import select
import signal
import struct
import sys
import threading
import traceback
import zlib
from array import array
from functools import partial

import numpy as np
from mrjob.inline import InlineMRJobRunner
from mrjob.parse import parse_mr_job_stderr

from lshlib.hashing import hash64

from .errors import JobError, explained
from .inputs import expand
from .inputs import opener as opener_of
from .job import lines_before

_SPLIT = 32 << 20  # bytes of input to a mapper, at most
_LEAST_SPLIT = 1 << 20
_SPLITS_PER_CORE = 4  # so that cores end at about the same time
_PARTITION = 64 << 20  # bytes of shuffled data to a reducer
_READ = 1 << 20


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
            yield lambda path=path: open(path, "wb", buffering=_READ)
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
            for start, end in _line_ranges(path, size):
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
            _run_all(tasks, self._num_cores(), report)
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


def _line_ranges(path, size):
    """(start, end) of about `size` bytes each and of whole lines; a compressed file is one range."""
    total = os.path.getsize(path)
    if opener_of(path) or total <= size:
        return [(0, total)] if total else []
    ranges, start = [], 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while start < total:
            end = data.find(b"\n", min(start + size, total) - 1) + 1 or total
            ranges.append((start, end))
            start = end
    return ranges


class Split:
    """Whole lines of one or more files, as the standard input of a mapper."""

    def __init__(self, ranges):
        self.ranges = ranges
        self.size = sum(end - start for _, start, end in ranges)
        path, start, end = ranges[0] if ranges else ("", 0, 0)
        self._here = os.getcwd()  # tasks work elsewhere
        self.first = {"file": self._absolute(path), "start": start, "length": end - start}
        self.report = None

    def _absolute(self, path):
        return os.path.join(self._here, path)

    def place(self, number):
        """(file, line number) of line `number`, from 0, of the batch given last."""
        path, start, before = self._at
        return path, lines_before(self._absolute(path), start) + before + number + 1

    def __iter__(self):
        for lines in self.batches(_READ):
            yield from lines

    def batches(self, size):
        """Lists of lines of about `size` bytes, all of one file."""
        done, parent = 0, os.getppid()
        for path, start, end in self.ranges:
            opener, file = opener_of(path), self._absolute(path)
            before = 0
            batches = _compressed(file, opener, size) if opener else _plain(file, start, end, size)
            for position, lines in batches:
                self._at = path, start, before
                yield lines
                before += len(lines)
                self.report(done + position)
                if os.getppid() != parent:
                    os._exit(1)  # the driver is gone: nobody waits for this task
            done += end - start


def _plain(path, start, end, size):
    with open(path, "rb", buffering=_READ) as file:
        file.seek(start)
        position = start
        while position < end:
            lines = file.readlines(min(size, end - position))
            if not lines:
                raise JobError(f"{path} was cut while it was read")
            position += sum(map(len, lines))
            while position > end:  # readlines goes on after a line that just fills its hint
                position -= len(lines.pop())
            yield position - start, lines


def _compressed(path, opener, size):
    with open(path, "rb") as raw, opener(raw, "rb") as file:
        buffered = io.BufferedReader(file, _READ)
        while True:
            try:
                lines = buffered.readlines(size)
            except (EOFError, OSError, zlib.error) as error:
                raise JobError(f"{path} is truncated or damaged: {error}") from None
            if not lines:
                return
            yield raw.tell(), lines


class Spill:
    """The output of one mapper that goes to reducers: lines in a file, and an index of them beside it.

    The index has three uint64 numbers a line: a hash of its key, offset and length.
    """

    _BUFFERED = 30_000  # numbers

    def __init__(self, path):
        self._file = open(path, "wb", buffering=_READ)
        self._index = open(path + ".index", "wb")
        self._numbers, self._offset = array("Q"), 0

    def write(self, data):
        """Take a line without its end, or the end; mrjob writes them one after the other."""
        self._file.write(data)
        if data != b"\n":
            key = data[: data.find(b"\t")] if b"\t" in data else data
            self._numbers.extend((hash64(key), self._offset, len(data)))
            if len(self._numbers) >= self._BUFFERED:
                self.flush()
        self._offset += len(data)

    def flush(self):
        self._numbers.tofile(self._index)
        del self._numbers[:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.closing(self._file), contextlib.closing(self._index):
            self.flush()

    @staticmethod
    def index(path):
        """(hashes, offsets, lengths) of the lines."""
        return np.fromfile(path + ".index", np.uint64).reshape(-1, 3).T

    @staticmethod
    def remove(path):
        os.unlink(path)
        os.unlink(path + ".index")


class Partition:
    """One reducer's share of all spills, lines of one key together, as its standard input."""

    def __init__(self, spills, number, partitions):
        self.spills, self.number, self.partitions = spills, number, partitions
        self.size = sum(map(os.path.getsize, spills)) // partitions
        self.report = None

    def _lines(self):
        """(spill, offset, length) of each line: by the hash of its key, then as the mappers wrote it."""
        columns = [[], [], [], []]
        for number, path in enumerate(self.spills):
            hashes, offsets, lengths = Spill.index(path)
            mine = hashes % np.uint64(self.partitions) == self.number
            parts = hashes[mine], np.full(np.count_nonzero(mine), number), offsets[mine], lengths[mine]
            for column, part in zip(columns, parts):
                column.append(part)
        hashes, spills, offsets, lengths = map(np.concatenate, columns)
        order = np.lexsort((offsets, spills, hashes))
        return zip(*(column[order].tolist() for column in (spills, offsets, lengths)))

    def __iter__(self):
        done, parent = 0, os.getppid()
        files = [os.open(path, os.O_RDONLY) for path in self.spills]
        try:
            for spill, offset, length in self._lines():
                yield _read_at(files[spill], offset, length)
                done += length
                self.report(min(done, self.size))
                if os.getppid() != parent:
                    os._exit(1)
            self.report(self.size)
        finally:
            for file in files:
                os.close(file)


def _read_at(file, offset, length):
    """`length` bytes at `offset`; one call reads at most 2 GB."""
    data = os.pread(file, length, offset)
    while len(data) < length:
        data += os.pread(file, length - len(data), offset + len(data))
    return data


def _run_all(tasks, cores, report):
    """Run functions in forked children, `cores` at a time; the first failure ends all."""
    if not hasattr(os, "fork"):
        for task in tasks:
            task()
            report()
        return
    waiting, running = list(reversed(tasks)), {}
    with _interrupts() as interrupts:
        try:
            while waiting or running:
                if interrupts:
                    raise KeyboardInterrupt
                while waiting and len(running) < cores:
                    pid, pipe = _fork(waiting.pop())
                    running[pipe] = pid
                for pipe in select.select(list(running), [], [], 0.1)[0]:
                    _collect(pipe, running.pop(pipe))
                report()
        finally:
            for pipe, pid in running.items():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                os.close(pipe)


@contextlib.contextmanager
def _interrupts():
    """A list that grows when the user interrupts: an exception would be lost in the middle of a fork."""
    interrupts = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = signal.signal(signal.SIGINT, lambda *_: interrupts.append(True))
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:  # while the last task ended
        raise KeyboardInterrupt


def _fork(task):
    """(pid, pipe) of a child that runs the task and sends its failure, if any, through the pipe."""
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    status = 1
    try:
        os.close(reader)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver ends its tasks
        try:
            task()
            status = 0
        except BaseException as error:
            # the line for the user, and for a fault of ours the way to it
            line = explained(error)
            details = "" if line else traceback.format_exc()
            message = pickle.dumps((line or f"{type(error).__name__}: {error}", details))
            with open(writer, "wb") as pipe:
                pipe.write(message)
    finally:
        os._exit(status)


def _collect(pipe, pid):
    """Wait for a child that is ending; JobError with its message if it failed."""
    with open(pipe, "rb") as stream:
        message = stream.read()
    status = os.waitpid(pid, 0)[1]
    if status:
        line, details = pickle.loads(message) if message else ("", "")
        if details:
            sys.stderr.write(details)
        killed = f"a task was killed by signal {status & 0x7F}"
        raise JobError(line or (killed if status & 0x7F else f"a task ended with status {status >> 8}"))
