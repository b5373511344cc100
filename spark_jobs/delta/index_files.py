"""Index files beside the data files of a table: caches that anybody may remove at any time.

Put here: their folder, writing and removing them. Not here: what they hold (key_index.py,
bronze/log_key_index.py).

They have hashes of keys and no values. Each is of one data file, whose name its own begins with, and goes with it by
maintenance. A table on an object store has none. Delta's VACUUM leaves folders with an underscore alone.
"""

import logging
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from spark_jobs.delta.log_files import directory

log = logging.getLogger(__name__)

FOLDER = "_stratalog_index"
"""Folder beside the data files of a table."""
SUFFIX = ".keys"
_DATA = ".parquet"


class Damaged(Exception):
    """The bytes of an index are not those that were written, or of another data file."""


def index_path(table_path: Path, data_file: str, qualifier: str = "") -> Path:
    """The file of an index.

    Args:
        table_path: the table's folder.
        data_file: the data file's name, without folders.
        qualifier: tells indexes of the same data file apart.
    """
    return table_path / FOLDER / f"{data_file}{f'.{qualifier}' if qualifier else ''}{SUFFIX}"


def write(path: Path, content: bytes) -> None:
    """Write an index as a whole, or not at all where the folder cannot be written to."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        log.debug("%s: not written: %s", path, error)
        with suppress(OSError):
            part.unlink(missing_ok=True)


def index_files(path: str) -> Iterator[Path]:
    """The index files of a table. Raises UnsupportedTable."""
    table_path = directory(path)
    if isinstance(table_path, Path):
        yield from (table_path / FOLDER).glob(f"*{SUFFIX}")


def remove_stale(path: str) -> int:
    """Remove indexes of data files that are not there any more; how many. Raises UnsupportedTable."""
    table_path = directory(path)
    if not isinstance(table_path, Path):
        return 0
    names = {file.name for file in table_path.glob("**/*.parquet")}
    stale = [index for index in index_files(path) if f"{index.name.partition(_DATA)[0]}{_DATA}" not in names]
    for index in stale:
        index.unlink(missing_ok=True)
    return len(stale)


def remove_all(path: str) -> int:
    """Remove all indexes of a table, which are built again when they are needed; how many. Raises UnsupportedTable."""
    indexes = list(index_files(path))
    for index in indexes:
        index.unlink(missing_ok=True)
    return len(indexes)
