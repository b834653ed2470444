"""What a person at the screen sees of a run: one bar on a terminal, a line a stage in a file."""

import sys
import time

PERCENT = 100  # as the total of a phase: its share done is known, its bytes are not


class Display:
    """Shows the stage, its share done and the rate; nothing at all when quiet."""

    def __init__(self, quiet, stream=None):
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.terminal = not quiet and self.stream.isatty()
        self._bar = self._phase = None

    def say(self, text):
        if not self.quiet:
            self.close()
            print(text, file=self.stream, flush=True)

    def log(self, text):
        """A line for a log file; on a terminal the bar has shown it."""
        if not self.terminal:
            self.say(text)

    def follow(self, stage):
        """A function for a runner's `progress`, that draws the bar of this stage."""
        return lambda task, step, done, total: self._draw(stage, task, step, done, total)

    def _draw(self, stage, task, step, done, total):
        if not self.terminal:
            return
        if self._phase != (stage, task, step):
            self.close()
            from tqdm import tqdm  # imported here: it costs 50 ms that files and pipes need not pay

            self._phase = stage, task, step
            self._bar = tqdm(
                total=total,
                desc=f"{stage} ({'map' if task == 'mapper' else 'reduce'})",
                unit="B" if total != PERCENT else "%",
                unit_scale=total != PERCENT,
                leave=False,
                file=self.stream,
                dynamic_ncols=True,
            )
        self._bar.update(min(done, total) - self._bar.n)

    def close(self):
        if self._bar is not None:
            self._bar.close()
            self._bar = self._phase = None


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self):
        self._start = time.monotonic()

    def __call__(self):
        return round(time.monotonic() - self._start, 3)


def size(count):
    """Bytes for people.

    >>> size(308_400_000)
    '308.4 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.1f} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1000
    return f"{count:.1f} TB"
