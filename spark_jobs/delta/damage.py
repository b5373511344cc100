"""Error of a damaged Delta log: one message for a file that has other content than it should.

Put here: what is raised while they are decoded. Not here: reading them (log_files.py), or what they say (snapshot.py).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pyarrow as pa

from spark_jobs.errors import LakeError
from spark_jobs.storage.files import reason

_RAISED = (OSError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError)
"""Exceptions by JSON or Parquet that is broken, or has other members than actions have."""


@contextmanager
def decoding(label: str) -> Iterator[None]:
    """Turn errors of damaged content inside the ``with`` block into LakeError.

    label: the path of the table, and which of its files, or what of it; the message begins with it.
    """
    try:
        yield
    except _RAISED as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's reason, not the file's content
            raise LakeError(f"{label} cannot be read: {reason(error)}") from error
        text = str(error).partition("\n")[0]
        fault = f"{text} is missing" if isinstance(error, KeyError) else text
        raise LakeError(f"{label} cannot be read: {fault}; restore the table's _delta_log") from error


def decoding_commit(path: str, version: int) -> AbstractContextManager[None]:
    """Turn errors of a version's damaged commit inside the ``with`` block into LakeError, as ``decoding``."""
    return decoding(f"{path}: version {version} of its log")
