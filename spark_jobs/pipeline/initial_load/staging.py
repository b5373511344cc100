"""Staging table of a load, in the lake beside silver: rows that wait, and the progress of the load.

Put here: its columns and its commits. Not here: what a commit says (commit.py), reading rows (reading.py), or moving
them to silver (landing.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.binlog import TableName
from spark_jobs.delta import features
from spark_jobs.delta.snapshot import DataFile, Snapshot, defined, new_table, snapshot_of
from spark_jobs.errors import TableStopped
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.pipeline.initial_load.commit import LoadCommit
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import RAW


@dataclass(slots=True)
class StagedTable:
    """Table where rows wait, at a head, and how far its load is."""

    name: TableName
    table: Table
    head: Head
    progress: LoadCommit

    def snapshot(self, *, appends: bool = False) -> Snapshot:
        """The table at the head. appends: for a commit that adds files and nothing else. Raises LakeError."""
        snapshot = snapshot_of(self.table.path, self.head.version)
        assert snapshot is not None
        features.require_written(snapshot, appends=appends)
        return snapshot

    def append(self, upon: Snapshot, files: Sequence[DataFile], progress: LoadCommit) -> None:
        """Files that tasks wrote. upon: the table at the head. Raises LostRace where another load came first."""
        commit = progress.next()
        self.head = self.table.append_files(upon, files, self.head, commit)
        self.progress = commit

    def begin(self, design: Snapshot) -> None:
        """Give the table the columns of a design, and none of an earlier load's rows. Raises LostRace, LakeError."""
        if self.head.design:
            upon = new_table(self.table.path, self.head.design.columns, self.head.design.properties)
            changes = driver_commit.commit_of_files([])
        else:
            upon = self.snapshot()
            changes = driver_commit.commit_of_files([], upon.files)
        metadata, protocol = defined(upon.metadata, upon.protocol, design.schema, design.configuration)
        changes |= {"metadata": metadata, "protocol": protocol}
        self.head = self.table.land(upon, self.head, self.progress.next(), **changes)

    def note(self, progress: LoadCommit) -> None:
        self.append(self.snapshot(appends=True), (), progress)

    def empty(self, progress: LoadCommit) -> None:
        """Remove the rows. Raises LostRace, LakeError."""
        upon = self.snapshot()
        self.head = self.table.land(upon, self.head, progress.next(), **driver_commit.commit_of_files([], upon.files))
        self.progress = progress

    def given_up(self, reason: str) -> TableStopped:
        """End the load: its rows go, and nothing of it was seen anywhere."""
        self.empty(self.progress.stopped(reason))
        return TableStopped(reason)


def design_of(table: Table, origin: Table, columns: silver.Columns) -> Snapshot:
    """The design of the table where rows wait: silver's, or the one that it is to have, so that it gets the files.

    origin: silver. Rows without a key wait as they were read, and are counted before they land. Raises LakeError.
    """
    properties = silver.properties(origin)
    if columns.is_keyless:
        return new_table(table.path, columns.types | {RAW: silver.ADDED[RAW]}, properties)
    stored = snapshot_of(origin.path)
    if stored and columns.stored.items() <= stored.schema.spark_types.items():
        features.require_written(stored, appends=True)
        return stored
    return new_table(table.path, columns.stored, properties)
