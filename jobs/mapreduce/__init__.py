"""What the jobs need of MapReduce: mrjob made importable, a base class, the default runner, pipelines.

Imported first by every job; puts the top of the checkout on the path, so that a job run as a script
finds lshlib. On a cluster's nodes both packages come in one archive, which is on the path already.
"""

import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if os.path.isdir(os.path.join(TOP, "lshlib")) and TOP not in sys.path:
    sys.path.insert(0, TOP)

try:
    import mmh3  # noqa: F401
    import numpy  # noqa: F401

    from . import compat  # noqa: F401
except ModuleNotFoundError as error:
    sys.exit(
        f"error: Python must have mmh3, mrjob and numpy, got no {error.name} in {sys.executable}: use the "
        "one that scripts/setup makes or, on the nodes of a cluster, pack them by scripts/pack_nodes"
    )
