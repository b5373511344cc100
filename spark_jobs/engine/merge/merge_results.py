"""Results of a merge's tasks, as a commit has them: deletion vectors, and the counts of Delta's history.

Put here: that. Not here: the commit (downstream_job.py), or what tasks do.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pyroaring import BitMap64

from spark_jobs.config.modes import Mode
from spark_jobs.delta import deletion_vectors
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.engine.target.target_unit import MergedFiles


def operation_name(snapshot: Snapshot, mode: Mode, *, is_overwrite: bool) -> str:
    """Name of the commit in Delta's history. snapshot: the target as the merge was planned on it."""
    is_merge = snapshot.files and mode is not Mode.APPEND and not is_overwrite
    return "MERGE" if is_merge else "WRITE"


def row_metrics(results: Sequence[MergedFiles]) -> dict[str, int]:
    """Delta's counts of the rows that a merge was about."""
    return {
        "numTargetRowsInserted": sum(result.inserted for result in results),
        "numTargetRowsUpdated": sum(result.updated for result in results),
        "numTargetRowsDeleted": sum(result.deleted for result in results),
    }


def write_metrics(mode: Mode, results: Sequence[MergedFiles]) -> dict[str, int]:
    """Delta's counts of what a merge wrote: rows as they were before, bytes of new files."""
    added = [file for result in results for file in result.added]
    new = sum(result.inserted + result.updated for result in results)
    marked = sum(result.deleted for result in results) if mode is Mode.SOFT_DELETE else 0
    copied = max(sum(file.num_records or 0 for file in added) - new - marked, 0)
    return {"numTargetRowsCopied": copied, "numTargetBytesAdded": sum(file.size for file in added)}


def marked_files(
    snapshot: Snapshot, files: Mapping[str, DataFile], results: Iterable[MergedFiles]
) -> list[tuple[DataFile, deletion_vectors.Descriptor]]:
    """New deletion vectors of the files that have old images, written in one file."""
    numbers: dict[str, list[np.ndarray[Any, np.dtype[np.int64]]]] = defaultdict(list)
    for result in results:
        for path, rows in result.dead.items():
            numbers[path].append(np.frombuffer(rows, np.int64))
    if not numbers:
        return []
    vectors = []
    for path, parts in numbers.items():
        vector = BitMap64(np.concatenate(parts).astype(np.uint64))
        present = files[path].deletion_vector
        vectors.append(vector if present is None else vector | deletion_vectors.read(snapshot.path, present))
    descriptors = deletion_vectors.write(snapshot.path, vectors, snapshot.configuration)
    return [(files[path], vector) for path, vector in zip(numbers, descriptors, strict=True)]


def redesign_actions(snapshot: Snapshot, design: Snapshot, *, is_overwrite: bool) -> dict[str, Any]:
    """Actions of a commit that changes columns, or replaces all rows."""
    changes: dict[str, Any] = {}
    if design is not snapshot:
        changes |= {"metadata": design.metadata, "protocol": design.protocol}
    if is_overwrite:
        changes["operation_parameters"] = {"mode": "Overwrite", "partitionBy": "[]"}
    return changes


def without_dead(result: MergedFiles, removed: Sequence[str]) -> MergedFiles:
    """A result without rows of files that are removed."""
    return replace(result, dead={path: rows for path, rows in result.dead.items() if path not in removed})
