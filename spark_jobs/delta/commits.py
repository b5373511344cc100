"""Commits: the next version of a table, created exclusively.

Put here: a commit's actions and its file. Not here: which files are added and removed, or what a writer that lost does.

Whoever creates the file of a version has made it; all others planned on an older version and lose. A writer
that does not know whether its commit was made compares the file's content with its own (``spark_jobs/storage``).
"""

import json
import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_jobs.delta import change_data, kept, statistics
from spark_jobs.delta.deletion_vectors import Descriptor
from spark_jobs.delta.log_files import create_commit, directory, log_directory, opened_by_deltalake
from spark_jobs.delta.snapshot import CHECKPOINT_INTERVAL, DataFile, Metadata, Protocol, Snapshot
from spark_jobs.errors import LakeError, LostRace
from spark_jobs.runtime.engine_errors import delta_rs_message
from spark_jobs.storage.files import reason, why_not_exclusive
from spark_jobs.storage.local import sync_directory, sync_file

log = logging.getLogger(__name__)

_ENGINE = "Stratalog"
_CHECKPOINT_INTERVAL = 10


class CommitConflict(LostRace):
    """Another writer has committed the version first; nothing of this commit is in the table."""


def commit(  # noqa: PLR0913 -- a commit has as many parts, each of which most commits lack
    snapshot: Snapshot,
    *,
    adds: Sequence[DataFile] = (),
    removes: Sequence[DataFile] = (),
    dv_updates: Sequence[tuple[DataFile, Descriptor]] = (),
    changes: Sequence[DataFile] = (),
    metadata: Metadata | None = None,
    protocol: Protocol | None = None,
    transaction: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    operation: str = "WRITE",
    operation_parameters: Mapping[str, str] | None = None,
    metrics: Mapping[str, int] | None = None,
    changes_rows: bool = True,
) -> int:
    """Commit the version after a snapshot's, durably, and return it.

    The first commit of a table that is not there yet has its protocol and its metadata.

    Args:
        snapshot: what the commit was planned upon.
        adds: files that ``data_files.write`` wrote.
        removes: files of the snapshot whose rows go.
        dv_updates: files of the snapshot and their new deletion vectors, which include the rows of their old ones. A
            file with no row left is removed.
        changes: files that ``change_data.write`` wrote, of all rows that the commit changes.
        metadata: the table's new metadata: other columns or properties.
        protocol: the table's new protocol.
        transaction: an application's id and the version of its transaction.
        user_metadata: free text in the history.
        operation: its name in the history.
        operation_parameters: its parameters in the history.
        metrics: its counts in the history.
        changes_rows: False where the files that are added hold the rows of those that are removed, and no others.

    Raises CommitConflict, UnsupportedTable, LakeError.
    """
    version, now = snapshot.version + 1, int(time.time() * 1000)
    if snapshot.version < 0:
        metadata, protocol = metadata or snapshot.metadata, protocol or snapshot.protocol
    # isBlindAppend tells concurrent writers that the commit depends on no file of the table.
    info: dict[str, Any] = {
        "timestamp": now,
        "operation": operation,
        "operationParameters": dict(operation_parameters or {}),
        "isolationLevel": "Serializable",
        "isBlindAppend": not removes and not dv_updates and metadata is None and changes_rows,
        "operationMetrics": {name: str(count) for name, count in (metrics or {}).items()},
        "engineInfo": _ENGINE,
        "txnId": str(uuid.uuid4()),
    }
    if snapshot.version >= 0:
        info["readVersion"] = snapshot.version
    if user_metadata is not None:
        info["userMetadata"] = user_metadata
    # One action a line; commitInfo comes first, as readers of in-commit timestamps expect it.
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if protocol is not None:
        actions.append({"protocol": protocol.to_json()})
    if metadata is not None:
        actions.append({"metaData": metadata.to_json()})
    if transaction is not None:
        actions.append({"txn": {"appId": transaction[0], "version": transaction[1], "lastUpdated": now}})
    file_actions = _file_actions(snapshot, adds, removes, dv_updates, now)
    actions += [{"cdc": change_data.action_of(file)} for file in changes]
    actions += file_actions if changes_rows else map(_as_rearranged, file_actions)
    # The file of a version is created only if it does not exist: of two writers on one snapshot, one loses here.
    if version == 0:
        _require_exclusive(snapshot.path)
    content = _lines(actions)
    if not create_commit(snapshot.path, version, content):
        raise CommitConflict(
            f"{snapshot.path}: planned on version {snapshot.version}, but another writer committed first; "
            "nothing of this run is in the table, and the next run resumes from its head"
        )
    kept.committed(snapshot.path, version, content)
    # Readers start from a checkpoint. The commit is complete without it.
    if version and version % _interval(metadata or snapshot.metadata) == 0:
        write_checkpoint(snapshot.path, version)
    return version


def _require_exclusive(path: str) -> None:
    """Check that the store of a new table cannot let a commit overwrite another. Raises LakeError."""
    try:
        refusal = why_not_exclusive(directory(path))
    except OSError as error:
        raise LakeError(f"{path}: cannot be written: {reason(error)}") from error
    if refusal:
        raise LakeError(f"{path}: cannot be written: {refusal}")


def write_checkpoint(path: str, version: int) -> bool:
    """Write a checkpoint of a version; False where that failed, which costs readers time and nothing else."""
    try:
        opened_by_deltalake(path, version).create_checkpoint()
        log_folder = log_directory(path)
        if isinstance(log_folder, Path):
            for file in (*log_folder.glob(f"{version:020}.checkpoint*"), log_folder / "_last_checkpoint"):
                sync_file(file)  # deltalake does not; after a power cut readers would meet half of it
            sync_directory(log_folder)
    except Exception as error:  # noqa: BLE001 -- deltalake raises bare exceptions, and the version is committed
        log.warning("%s: version %d has no checkpoint: %s", path, version, delta_rs_message(path, str(error)))
        return False
    return True


def _file_actions(
    snapshot: Snapshot,
    adds: Sequence[DataFile],
    removes: Sequence[DataFile],
    dv_updates: Sequence[tuple[DataFile, Descriptor]],
    now: int,
) -> list[dict[str, Any]]:
    present = {file.key for file in snapshot.files} if removes or dv_updates else set()
    actions = [_remove(snapshot, file, present, now) for file in removes]
    for file, vector in dv_updates:
        actions.append(_remove(snapshot, file, present, now))
        if vector.cardinality != file.num_records:
            action = dict(file.action) | {"deletionVector": vector.to_json(), "dataChange": True}
            stats = statistics.loosened(file.action.get("stats"))
            actions.append({"add": action if stats is None else action | {"stats": stats}})
    actions += [{"add": dict(file.action)} for file in adds]
    return actions


def _as_rearranged(action: Mapping[str, Any]) -> dict[str, Any]:
    """An action on a file that changes no row of the table: readers of changes leave it out."""
    return {kind: dict(value) | {"dataChange": False} for kind, value in action.items()}


def _remove(snapshot: Snapshot, file: DataFile, present: set[tuple[str, str | None]], now: int) -> dict[str, Any]:
    if file.key not in present:
        raise LakeError(f"{snapshot.path}: version {snapshot.version} has no file {file.path} to be removed")
    present.discard(file.key)  # one commit removes a file once
    action = {
        "path": file.path,
        "deletionTimestamp": now,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": file.partition_values,
        "size": file.size,
    }
    keys = ("tags", "stats", "deletionVector")
    return {"remove": action | {key: file.action[key] for key in keys if file.action.get(key) is not None}}


def _lines(actions: Iterable[Mapping[str, Any]]) -> bytes:
    lines = (json.dumps(action, separators=(",", ":"), ensure_ascii=False) for action in actions)
    return ("\n".join(lines) + "\n").encode()


def _interval(metadata: Metadata) -> int:
    value = metadata.configuration.get(CHECKPOINT_INTERVAL, "")
    return int(value) if value.isdecimal() and int(value) else _CHECKPOINT_INTERVAL
