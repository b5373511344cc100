"""Snapshots that expire with the files of their versions, and metadata that no snapshot needs.

Put here: which these are. Not here: data files and deletion vectors (delta/vacuum.py), which go afterwards.

A snapshot goes before a file of its version may: metadata never names what is not there. It goes no earlier, so that a
version is read in both formats, or in none.
"""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from spark_jobs.errors import LakeError, LostRace
from spark_jobs.iceberg import metadata_files
from spark_jobs.iceberg.avro_files import DELETES, ManifestFile, entries_of, manifests_of
from spark_jobs.iceberg.metadata_files import FOLDER, MetadataFile
from spark_jobs.iceberg.table_view import VERSION
from spark_jobs.storage import files
from spark_jobs.storage.files import StoredPath, reason, walk

_AHEAD_SECONDS = 600
"""Files are removed by the clock of a moment later."""


def expire_snapshots(path: str, hours: int, pinned: Collection[int] = ()) -> None:
    """Remove the snapshots of versions whose files are kept no longer; files of metadata stay.

    Args:
        path: the table's folder.
        hours: how long files are kept that the newest version does not name.
        pinned: older versions that are kept.

    Raises LostRace, LakeError.
    """
    present = metadata_files.newest(path)
    if present is None:
        return
    with _cleaning(path):
        _without_expired(path, present, int(_since(hours) * 1000), pinned)


def remove_unneeded(path: str, hours: int, *, keeps_documents: bool = False) -> None:
    """Remove files of metadata that the newest metadata does not need, and that are as old.

    keeps_documents: whether files of table metadata stay, which have no value of a row. Raises LakeError.
    """
    present = metadata_files.newest(path)
    if present is None:
        return
    with _cleaning(path):
        for file in _unneeded(path, present, _since(hours)):
            if not (keeps_documents and metadata_files.number_of(file.name) is not None):
                file.unlink(missing_ok=True)


def _since(hours: int) -> float:
    return time.time() - hours * 3_600 + _AHEAD_SECONDS


@contextmanager
def _cleaning(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        text = reason(error) if isinstance(error, OSError) else str(error)
        raise LakeError(f"{path}: its Iceberg metadata cannot be cleaned: {text}") from error


def remove(path: str) -> None:
    """Remove all metadata of a table, its hint first. Raises LakeError."""
    folder = metadata_files.folder(path)
    try:
        if not files.names(folder):
            return
        (folder / metadata_files.HINT).unlink(missing_ok=True)
        for name, _ in list(walk(folder)):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise LakeError(f"{path}: its Iceberg metadata cannot be removed: {reason(error)}") from error


def _without_expired(path: str, present: MetadataFile, since: int, pinned: Collection[int]) -> None:
    """Write the newest metadata again, in a file of its own, where snapshots are to be removed."""
    snapshots: list[dict[str, Any]] = present.document["snapshots"]
    # A version's files are all there as long as the next version's commit is younger than what is removed.
    kept_snapshots = [
        snapshot
        for snapshot, later in zip(snapshots, [*snapshots[1:], None], strict=True)
        if later is None or later["timestamp-ms"] >= since or int(snapshot["summary"][VERSION]) in pinned
    ]
    if len(kept_snapshots) == len(snapshots):
        return
    ids = {snapshot["snapshot-id"] for snapshot in kept_snapshots}
    schemas = {snapshot["schema-id"] for snapshot in kept_snapshots} | {present.document["current-schema-id"]}
    updated_ms = present.document["last-updated-ms"]
    logged_files = [*present.document["metadata-log"], metadata_files.log_entry(path, present)]
    document = present.document | {
        "last-updated-ms": max(updated_ms, int(time.time() * 1000)),
        "snapshots": [_with_parent(snapshot, ids) for snapshot in kept_snapshots],
        "schemas": [schema for schema in present.document["schemas"] if schema["schema-id"] in schemas],
        "snapshot-log": _log_since(present.document["snapshot-log"], ids),
        "metadata-log": [entry for entry in logged_files if entry["timestamp-ms"] >= since],
    }
    number = present.number + 1
    if not metadata_files.create(path, number, document):
        raise LostRace(f"{path}: another writer of its Iceberg metadata came first; the next maintenance tries again")
    metadata_files.point_to(path, number)


def _with_parent(snapshot: dict[str, Any], ids: Collection[int]) -> dict[str, Any]:
    if snapshot.get("parent-snapshot-id") in ids:
        return snapshot
    return {key: value for key, value in snapshot.items() if key != "parent-snapshot-id"}


def _log_since(entries: list[dict[str, Any]], ids: Collection[int]) -> list[dict[str, Any]]:
    """The log without what is before a snapshot that is gone, as the specification has it."""
    first = max((at + 1 for at, entry in enumerate(entries) if entry["snapshot-id"] not in ids), default=0)
    return entries[first:]


def _unneeded(path: str, present: MetadataFile, since: float) -> Iterator[StoredPath]:
    """Files that are older than what is kept, and that neither the newest metadata nor its snapshots name."""
    folder = metadata_files.folder(path)
    old = [name for name, written_at in walk(folder) if written_at < since and name != metadata_files.HINT]
    if not old:
        return
    needed_names = {metadata_files.file_name(present.number)}
    manifests: dict[str, ManifestFile] = {}
    for snapshot in present.document["snapshots"]:
        name = _object_name(snapshot["manifest-list"])
        needed_names.add(name)
        manifests |= {_object_name(item.path): item for item in manifests_of((folder / name).read_bytes())}
    for name, item in manifests.items():
        needed_names.add(name)
        if item.content == DELETES:
            needed_names |= {_object_name(entry.file.path) for entry in entries_of((folder / name).read_bytes(), item)}
    yield from (folder / name for name in old if name not in needed_names)


def _object_name(location: str) -> str:
    return location.rpartition(f"/{FOLDER}/")[2]
