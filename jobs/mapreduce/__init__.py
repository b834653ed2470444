"""What the jobs need of MapReduce: mrjob made importable, a base class, the default runner, pipelines.

Imported first by every job; puts the top of the checkout on the path, so that a job run as a script
finds lshlib. On a cluster's nodes both packages come in one archive, which is on the path already.
"""

import os
import sys

_top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if os.path.isdir(os.path.join(_top, "lshlib")) and _top not in sys.path:
    sys.path.insert(0, _top)

from . import compat  # noqa: E402, F401
