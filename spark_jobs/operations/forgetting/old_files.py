"""Parquet files in a table's folder that its newest version does not name: of older versions, changes, or of no commit.

Put here: which files these are. Not here: which of them have rows to be forgotten (lake_rows.py, logged_rows.py).
"""

from collections.abc import Iterator

from spark_jobs.delta.log_files import directory
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.errors import LakeError
from spark_jobs.storage.files import StoredPath, reason, walk

_LOG = "_delta_log/"


def unnamed_files(snapshot: Snapshot) -> Iterator[StoredPath]:
    """The files. Raises LakeError."""
    folder = directory(snapshot.path)
    named = {str(file.location(snapshot.path)) for file in snapshot.files}
    try:
        names = [name for name, _ in walk(folder) if name.endswith(".parquet") and not name.startswith(_LOG)]
    except OSError as error:
        raise LakeError(f"{snapshot.path}: cannot be read: {reason(error)}") from error
    yield from (folder / name for name in names if str(folder / name) not in named)
