"""Make mrjob importable on Python 3.12 and later, and quicker to import on every version.

mrjob 0.7.4 imports `distutils` and `pipes`, which Python 3.12 and 3.13 dropped, for three names in
all. Where setuptools supplies distutils, it is half of a task's start-up. So stand-ins with those
names are there while mrjob binds them and are taken out again: no other library ever sees them.
Only the one for `pipes` stays, where Python has no such module, for runners that import it later.

Invariant: this module is imported before any module of mrjob.
"""

import functools
import re
import shlex
import shutil
import sys
from importlib.util import find_spec
from types import ModuleType


@functools.total_ordering
class LooseVersion:
    """A version as its numbers and words, words before numbers: what mrjob uses of distutils' own.

    >>> LooseVersion("2.10.1-amzn-0") > LooseVersion("2.9")
    True
    """

    def __init__(self, text):
        parts = re.findall(r"\d+|[a-z]+", text)
        self._parts = [(part.isdigit(), int(part) if part.isdigit() else part) for part in parts]

    def __eq__(self, other):
        return self._parts == other._parts

    def __lt__(self, other):
        return self._parts < other._parts


def _module(name, **names):
    module = ModuleType(name)
    vars(module).update(names)
    return module


def _import_mrjob():
    """Import the modules of mrjob that bind the names and are part of every task."""
    pipes = _module("pipes", quote=shlex.quote)
    spawn = _module("distutils.spawn", find_executable=shutil.which)
    version = _module("distutils.version", LooseVersion=LooseVersion)
    standing_in = {
        module.__name__: module for module in (pipes, spawn, version) if module.__name__ not in sys.modules
    }
    sys.modules.update(standing_in)
    try:
        import mrjob.compat
        import mrjob.util  # noqa: F401
    finally:
        for name in standing_in:
            del sys.modules[name]
    if "pipes" not in sys.modules and find_spec("pipes") is None:
        sys.modules["pipes"] = pipes


_import_mrjob()
