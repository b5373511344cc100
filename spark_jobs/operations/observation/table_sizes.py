"""Size of a table and of its last merge by its own log, without a JVM.

Put here: counts out of snapshots and commits. Not here: what they are called as metrics (metrics.py).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from spark_jobs.delta.history import CommitInfo, newest_first
from spark_jobs.delta.log_files import UnsupportedTable, read_log
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.lake.commit import Checkpoint, CommitKind
from spark_jobs.lake.table import Table

_CHANGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
_SEARCHED = 5
"""Commits among which the last merge is looked for; behind it are those of maintenance."""


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """Counts of a merge. copied, bytes: None where its commit does not say."""

    rows: int
    copied: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table's newest version. rows: None where a file does not tell; committed_at: seconds since 1970."""

    rows: int | None
    files: int
    bytes: int
    committed_at: float | None
    merge: MergeCounts | None = None


def size_of(table: Table, *, has_merges: bool) -> TableSize | None:
    """None where there is no table, or one of a kind that is not read. Raises LakeError."""
    try:
        snapshot = snapshot_of(table.path)
    except UnsupportedTable:
        return None
    if snapshot is None:
        return None
    counts = [file.num_rows for file in snapshot.files]
    rows = None if any(count is None for count in counts) else sum(count or 0 for count in counts)
    at = None if snapshot.timestamp is None else snapshot.timestamp / 1000
    size = sum(file.size for file in snapshot.files)
    return TableSize(rows, len(counts), size, at, _last_merge(table) if has_merges else None)


def _last_merge(table: Table) -> MergeCounts | None:
    listing = read_log(table.path)
    commits = islice(newest_first(table.path, listing), _SEARCHED) if listing else ()
    return next((counts for commit in commits if (counts := _counts(commit))), None)


def _counts(commit: CommitInfo) -> MergeCounts | None:
    """Counts of a commit of ours that brought rows; None of others."""
    checkpoint = Checkpoint.from_json(commit.user_metadata)
    if checkpoint is None or checkpoint.kind == CommitKind.MAINTENANCE:
        return None
    metrics = json.loads(commit.metrics) if isinstance(commit.metrics, str) else commit.metrics or {}
    # An append has Delta's other names, and copies nothing.
    if "numOutputRows" in metrics and _CHANGED[0] not in metrics:
        return MergeCounts(int(metrics["numOutputRows"]), 0, _metric_number(metrics, "numOutputBytes"))
    changed = sum(int(metrics.get(name, 0)) for name in _CHANGED)
    return MergeCounts(
        changed, _metric_number(metrics, "numTargetRowsCopied"), _metric_number(metrics, "numTargetBytesAdded")
    )


def _metric_number(metrics: Mapping[str, Any], name: str) -> int | None:
    return int(metrics[name]) if name in metrics else None
