"""The rows of some keys in one table of the lake: its data files without them, and its older files and bounds gone.

Rows that a deletion vector marks count as well: their values are in the file. The commit has neither files of changes
nor bounds of the files that it removes, since both would have the values again.

Put here: one table. Not here: which tables, or in which order (forget.py).
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from spark_jobs.delta import data_files, deletion_vectors, index_files, vacuum
from spark_jobs.delta.old_statistics import remove_old_statistics
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.engine.jobs import rewrite
from spark_jobs.engine.jobs.rewrite import FileGroup, Rewritten
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.errors import LakeError
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.table import Table
from spark_jobs.operations.forgetting.keys import ForgottenKeys
from spark_jobs.operations.forgetting.old_files import unnamed_files
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.runtime.spark_session import session_over, slots
from spark_jobs.storage.files import StoredPath


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Files and rows of a table's version that have the keys.

    files: its data files with such rows. rows: how many rows of these are not marked as deleted; marked: how many are.
    """

    snapshot: Snapshot
    files: tuple[DataFile, ...] = ()
    rows: int = 0
    marked: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot, keys: ForgottenKeys) -> "HeldRows":
        """The files of a table that hold rows of the keys, with their number. Raises LakeError."""
        files, alive, marked = list[DataFile](), 0, 0
        for file in snapshot.files:
            if not keys.may_be_in(file, snapshot.schema):
                continue
            rows = data_files.read_columns(snapshot.path, file, keys.names, snapshot.schema)
            positions = np.flatnonzero(keys.has(rows).to_numpy())
            if not len(positions):
                continue
            dead = np.isin(positions, deletion_vectors.row_numbers(snapshot.path, file.deletion_vector))
            files.append(file)
            alive += int(np.count_nonzero(~dead))
            marked += int(np.count_nonzero(dead))
        return cls(snapshot, tuple(files), alive, marked)


@dataclass(frozen=True, slots=True)
class Erasing:
    """Commits of tables without rows. task_bytes: bytes of data files for each task."""

    spark: SparkSession
    task_bytes: int

    def land(self, table: Table, head: Head, keys: ForgottenKeys, checkpoint: Checkpoint) -> Head:
        """Commit the table without the rows; where it has none, a commit that changes nothing.

        Either way what others have planned upon ``head`` loses, and is planned again: they may have read the rows where
        they came from. Rows that are not marked as deleted count as deleted for who follows the table, but for readers
        of its change data feed: that would have the rows. Raises LostRace, LakeError.
        """
        snapshot = driver_commit.snapshot_upon(table.path, head)
        held_rows = HeldRows.of(snapshot, keys)
        results = self._files_without(held_rows, keys)
        return table.land(
            snapshot,
            head,
            checkpoint,
            adds=[result.file for result in results if result.file],
            removes=[_without_bounds(file) for file in held_rows.files],
            changes_rows=bool(held_rows.rows) and not snapshot.has_change_data,
            operation="FORGET",
            metrics={"numRemovedFiles": len(held_rows.files)},
        )

    def _files_without(self, held_rows: HeldRows, keys: ForgottenKeys) -> list[Rewritten]:
        if not held_rows.files:
            return []
        upon = held_rows.snapshot
        groups = [
            FileGroup(at, upon.path, (file,), upon.schema, upon.configuration, (), edit=keys.without)
            for at, file in enumerate(held_rows.files)
        ]
        capacity = Capacity(slots(start_session(self.spark)), self.task_bytes)
        results = rewrite.run(session_over(self.spark, 0), groups, capacity)
        errors = [result.error for result in results if result.error]
        if errors:
            raise LakeError(errors[0])
        return results


def _without_bounds(file: DataFile) -> DataFile:
    return replace(file, action={name: value for name, value in file.action.items() if name != "stats"})


def files_that_hold(snapshot: Snapshot, keys: ForgottenKeys) -> list[StoredPath]:
    """Files that the newest version does not name, and that have rows of the keys. Raises LakeError."""
    names = [snapshot.schema.column(name).physical_name for name in keys.names]
    holders = []
    # Files of a time without a column of the key have none of its rows.
    for file in unnamed_files(snapshot):
        try:
            with data_files.parquet(file) as opened:
                if not {*names} <= {*opened.schema_arrow.names}:
                    continue
                parts = (opened.read_row_group(at, columns=names) for at in range(opened.num_row_groups))
                if any(pc.any(keys.has(part.select(names).rename_columns(keys.names))).as_py() for part in parts):
                    holders.append(file)
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise LakeError(
                f"{file}: a file that no version names cannot be read, so it may have the rows: "
                f"{reason}; remove it, and forget again"
            ) from error
    return holders


def remove_old(table: Table, keys: ForgottenKeys) -> int:
    """Remove the older files with such rows, their indexes, and the bounds of all older files; how many files.

    Raises LakeError.
    """
    head = table.head()
    if head is None:
        return 0
    snapshot = driver_commit.snapshot_upon(table.path, head)
    files = files_that_hold(snapshot, keys)
    vacuum.remove(table.path, files)
    remove_old_statistics(snapshot)
    index_files.remove_stale(table.path)
    return len(files)
