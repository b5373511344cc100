"""Copy of one version of a table, as a table in a folder of this machine; its data files stay where they are.

Put here: what such a folder has, so that the version can be read and committed upon. Not here: why one is made
(pipeline/as_of/).

The folder has the log up to the version, and a symbolic link for each data file and deletion vector; of a table on an
object store copies of them. Commits add files to the folder. Nothing of the table itself is written.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from spark_jobs.delta.log_files import directory, log_directory
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.errors import LakeError
from spark_jobs.storage.files import StoredPath, names, reason

_LOG_FILE = re.compile(r"(\d{20})\.(?:json|checkpoint(?:\.\d{10}\.\d{10})?\.parquet)")


def copied_paths(path: str, file: DataFile) -> list[StoredPath]:
    """The files that hold a data file's rows: the file, and the deletion vector that is not in the log."""
    vector = file.deletion_vector
    is_stored = vector is not None and vector.storage_type != "i"
    return [file.location(path), *([vector.location(path)] if vector and is_stored else [])]


def is_readable(snapshot: Snapshot) -> bool:
    """True if all files of a version are there still: vacuum removes those that newer versions do not name."""
    try:
        return all(path.exists() for file in snapshot.files for path in copied_paths(snapshot.path, file))
    except OSError as error:
        raise LakeError(f"{snapshot.path}: cannot be read: {reason(error)}") from error


def copy_version(snapshot: Snapshot, folder: Path) -> None:
    """Make the folder of a version. Raises LakeError."""
    path, log = snapshot.path, log_directory(snapshot.path)
    try:
        log_files = [name for name in names(log) or [] if _is_up_to(name, snapshot.version)]
        _linked((log / name, folder / "_delta_log" / name) for name in log_files)
        root = directory(path)
        for file in snapshot.files:
            _linked((full_path, folder / _relative(full_path, root)) for full_path in copied_paths(path, file))
    except OSError as error:
        raise LakeError(f"{path}: cannot be copied to {folder}: {reason(error)}") from error


def _is_up_to(name: str, version: int) -> bool:
    match = _LOG_FILE.fullmatch(name)
    return match is not None and int(match[1]) <= version


def _relative(path: StoredPath, root: StoredPath) -> str:
    return str(path).removeprefix(str(root)).lstrip("/")


def _linked(pairs: Iterable[tuple[StoredPath, Path]]) -> None:
    """Link each path, or download it from an object store. Raises OSError."""
    for path, link in pairs:
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink() or link.exists():  # deletion vectors of several data files are in one file
            continue
        if isinstance(path, Path):
            link.symlink_to(path.resolve())
        else:
            link.write_bytes(path.read_bytes())
