"""The error of a job that a user can mend."""

from lshlib.blocks import BlockError

PREFIX = "error: "


class JobError(Exception):
    """One line for the user: what must hold, what came, and where."""


def explained(error):
    """The one line for an exception that a user's files or machine caused; None for any other."""
    if isinstance(error, (JobError, BlockError)):
        return str(error)
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror or error}{where}"
    if type(error).__module__.partition(".")[0] in ("botocore", "boto3"):  # what AWS says is one line
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory"
    return None
