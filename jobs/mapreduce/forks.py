"""Functions as forked processes, some at a time; the failure of one, in one line, ends all."""

import contextlib
import os
import pickle
import select
import signal
import sys
import threading
import traceback

from .errors import JobError, explained


def run_all(tasks, cores, report):
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
