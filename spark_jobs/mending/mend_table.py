"""Mend of some keys of one table: rows read in a snapshot, compared with silver's, and committed to silver.

Put here: what is refused, the order of the work, the commit. Not here: the comparison (mend_task.py), merging what was
committed (mend_source.py).

Rows are read as of a position P. Silver is then brought up to P, so that what differs from it at P is what the log does
not tell. The rows land as newer than all before P and as older than all from P on: an event of the log after the
snapshot wins, whenever it is compacted. A mend that is killed before its commit has changed nothing, and one that is
repeated finds its own rows equal.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import pyarrow as pa

from spark_jobs.binlog import TableName
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.delta import data_files, features, vacuum
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.rows.restatement import SilverSource
from spark_jobs.errors import TableStopped, about, message_under
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.retry import CONFLICT_WAIT, retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.mending.mend_task import NOTHING, MendCounts, MendTask, compared
from spark_jobs.pipeline.cascades.landed_rows import derived_without
from spark_jobs.pipeline.cascades.unlogged_changes import unlogged_changes_of
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.pipeline.initial_load.key_ranges import Key
from spark_jobs.pipeline.initial_load.range_files import FileTarget
from spark_jobs.pipeline.initial_load.row_rules import FilteredRows, RowRules, job_of
from spark_jobs.pipeline.initial_load.selecting import Selecting
from spark_jobs.pipeline.initial_load.snapshot import SnapshotTask, engine_without_snapshots, read_snapshot
from spark_jobs.pipeline.initial_load.wanted_keys import WantedKeys
from spark_jobs.pipeline.outcome import Outcome, why_waiting
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import MendedRows, SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.table_timeline import TableState
from spark_jobs.source.information_schema import definition_on_server

_PASSES = 5
"""Number of times, at most, that a mend reads the same keys: after the first for what foreign keys did meanwhile."""
CatchUp = Callable[[Position], Outcome]
"""Function that brings bronze and silver up to a position, as a run does: a table without news has no commit there."""


@dataclass(frozen=True, slots=True)
class MendableTable:
    """A table with a key, as the server and silver have it: what its rows are read and compared by."""

    name: TableName
    table: Table
    head: Head
    rules: RowRules

    @property
    def columns(self) -> silver.Columns:
        """The source's columns as silver has them."""
        return self.rules.columns

    @property
    def fields(self) -> TableSchema:
        """Silver's columns. Raises LakeError."""
        return _snapshot(self.table, self.head).schema


@dataclass(frozen=True, slots=True)
class MendedKeys:
    """Result of a mend of some keys: differences, what was written, and the position that the rows are of."""

    position: Position
    counts: MendCounts


def mendable(load: LoadContext, name: TableName) -> MendableTable:
    """The table. Raises TableStopped where its rows cannot be read and compared by their keys, ConfigError."""
    # The server has to show the table, and silver has to have it, with the names of its columns.
    declared = definition_on_server(load.server, name)
    if declared is None:
        raise TableStopped(
            "cannot be mended: the server has no such table, or does not show it to this user (stratalog docs "
            "mend#requirements)"
        )
    table = load.lake.silver(load.source, name.schema, name.table)
    head = table.head()
    commit = SilverCommit.of_head(head)
    if head is None or commit is None:
        raise TableStopped(
            f"nothing of it is in silver; a run takes in its log, and stratalog load --source {load.source} --table "
            f"{name} its older rows"
        )
    if silver.is_numbered(head):
        raise TableStopped(
            "cannot be mended: its columns have no names in the lake (on_unnamed: number); rebuild it once they have "
            f"(stratalog reset --source {load.source} --table {name})"
        )
    # A row of shared keys may be another source's, newer than the server's row.
    if any(into.is_shared for into in load.pipeline.routing.of(load.source, name.schema, name.table)):
        raise TableStopped(
            "has keys in common with other sources' tables (keys: shared), and it is not known when its rows were "
            "written, so not which of two is newer"
        )
    # Rules about rows, and masks of the key, leave no row of the lake that a row of the server could be compared with.
    snapshot = BronzeSnapshot.of(load.lake, load.source)
    job = job_of(load, snapshot, declared, Range(snapshot.oldest, snapshot.end)).with_partial_flag()
    job.require_same_shape()
    rules = RowRules.of(job, declared)
    if job.filters.judges_rows:
        listed = ", ".join(name for name in job.filters.names() if not name.startswith("columns."))
        raise TableStopped(
            f"{listed} decides about changes: a row that the server has and the lake has not may have been "
            f"filtered. Rebuild the table, and load it: stratalog reset --source "
            f"{load.source} --table {name}"
        )
    # A masked key in the lake equals no key of the server.
    hidden = {*rules.columns.key} & {*rules.masks.masks}
    if hidden:
        raise TableStopped(
            f"a rule masks {', '.join(sorted(hidden))} of its key, so that a key of the server's names no row "
            f"of the lake; rebuild it (stratalog reset --source {load.source} --table {name}), and load it"
        )
    _require_columns(job, rules, head)
    _require_snapshots(load, name)
    return MendableTable(name, table, head, rules)


def _require_columns(job: CompactionJob, rules: RowRules, head: Head) -> None:
    """Check that silver has the columns and the key of the server's table. Raises TableStopped."""
    stored, retired = silver.stored_columns(job.table, head), TableState.of(SilverCommit.of(_mend_commit(head))).retired
    columns = job.columns_seen(rules.definition, retired)
    silver.require_equal_columns(job.table.path, stored.types, columns.types, str(job.name))
    if stored.key != columns.key:
        raise TableStopped(
            f"its key is ({', '.join(columns.key)}) at the server and ({', '.join(stored.key)}) in the lake; run "
            "stratalog, and mend it again"
        )


def _require_snapshots(load: LoadContext, name: TableName) -> None:
    """Check that the table's engine has snapshots. Raises TableStopped."""
    engine = engine_without_snapshots(load.server, name)
    if engine:
        raise TableStopped(
            f"its engine {engine} has no snapshot that rows could be read in; ALTER TABLE {name.table} ENGINE = InnoDB"
        )


def mend_keys(
    load: LoadContext, mending: MendableTable, keys: WantedKeys, catch_up: CatchUp, *, is_applied: bool
) -> MendedKeys:
    """Read the rows of some keys, and commit to silver those that differ. Merging them is the caller's.

    is_applied: whether rows are committed; otherwise they are compared alone.

    Where changes by foreign keys were derived meanwhile without the rows, the same keys are read again until none
    differs. Raises TableStopped, SourceError, LakeError, LostRace.
    """
    counts, passes = NOTHING, 0
    with about(f"{load.source}: {mending.name}"):
        while True:
            passes += 1
            rows = _read_snapshot(load, mending, keys)
            try:
                _require_caught_up(load, mending.name, rows.position, catch_up(rows.position))
                landing = partial(_landed, load, mending, rows, is_applied=is_applied)
                landed = retry_on_conflict(landing, wait=CONFLICT_WAIT)
                counts = landed + counts.written
                is_committed, position = is_applied and landed.rows > 0, rows.position
                if not (is_committed and _is_derived_without(load, mending.name, position)):
                    return MendedKeys(position, counts)
                if passes == _PASSES:
                    raise TableStopped(
                        f"was read at {position}, and foreign keys change its rows each time that they are mended"
                    )
                # What foreign keys did to the rows meanwhile, the server shows.
                keys = replace(keys, lake_keys=rows.all_keys(mending.columns.key))
            finally:
                vacuum.remove(rows.target.path, (file.location(rows.target.path) for file in rows.files))


def _is_derived_without(load: LoadContext, name: TableName, position: Position) -> bool:
    """True if changes by foreign keys after a position were derived without rows that are in silver since."""
    gaps = unlogged_changes_of(load.pipeline, load.lake, load.source)
    return derived_without(load.pipeline, gaps, name, position) is not None


def _require_caught_up(load: LoadContext, name: TableName, position: Position, outcome: Outcome) -> None:
    """Check that silver has the table up to a position. Raises TableStopped."""
    if name in outcome.stopped:
        raise TableStopped(
            f"was read at {position}, and has stopped: {message_under(outcome.stopped[name], load.source, name)}"
        )
    if (at := outcome.waiting.get(name)) and at < position:
        raise TableStopped(why_waiting(at))
    if outcome.position is None or outcome.position < position:
        raise TableStopped(f"was read at {position}, and bronze ends at {outcome.position}")


@dataclass(frozen=True, slots=True)
class _ReadRows:
    """Rows that were read of some keys, in files that no commit names: the position and the time that they are of."""

    keys: WantedKeys
    files: tuple[DataFile, ...]
    target: FileTarget
    position: Position
    at: datetime

    def all_keys(self, key: Sequence[str]) -> pa.Table:
        """The keys that the lake may have now: those that were looked for in it, and those of the rows."""
        path, names, schema = self.target.path, [*key, "_raw"], self.target.schema
        in_rows = (data_files.read_columns(path, file, names, schema) for file in self.files)
        return pa.concat_tables([self.keys.lake_keys, *in_rows])


def _read_snapshot(load: LoadContext, mending: MendableTable, keys: WantedKeys) -> _ReadRows:
    """Rows as of one position of bronze's log."""
    snapshot = _snapshot(mending.table, mending.head)
    target = _target_of(snapshot, {*mending.columns.types, "_raw"})
    at = load.server.now()
    rules, key = mending.rules, Key(mending.name.schema, mending.name.table, ())
    selecting = Selecting(load.source, load.server.settings, rules.definition, key, load.anchor.identity)
    task = SnapshotTask(selecting, rules, target, keys.parts, mending.columns.key)
    position, *results = spark_job.run(load.spark, [task], read_snapshot)
    files = tuple(result for result in results if not isinstance(result, FilteredRows))
    return _ReadRows(keys, files, target, load.anchor.resolve(position), at)


def _landed(load: LoadContext, mending: MendableTable, rows: _ReadRows, *, is_applied: bool) -> MendCounts:
    """Compare rows with silver at its head as it is now, and commit those that differ."""
    # Silver has passed the snapshot by now: in the log that it is of, and without a statement that emptied the table.
    table, position = mending.table, rows.position
    head = table.head()
    assert head is not None
    commit = SilverCommit.of(_mend_commit(head))
    bronze = BronzeSnapshot.of(load.lake, load.source)
    if bronze.end.stretch != position.stretch:
        raise TableStopped(f"was read at {position}, and the source has gone on with another log since")
    if commit.emptied_at and commit.emptied_at >= position:
        raise TableStopped(f"was emptied at {commit.emptied_at}, after it was read at {position}")
    job = job_of(load, bronze, mending.rules.definition, Range(commit.position, commit.position)).with_partial_flag()
    job = replace(job, head=head)
    _require_columns(job, mending.rules, head)
    # What differs is a file of its own.
    snapshot = _snapshot(table, head)
    task = MendTask(
        origin=SilverSource(table.path, snapshot.schema, mending.columns.key),
        files=tuple(snapshot.files),
        server_files=rows.files,
        read_from=rows.target,
        lake_keys=rows.keys.lake_keys,
        names=tuple(mending.columns.types),
        position=position,
        at=rows.at,
        floor=commit.emptied_at,
        target=FileTarget.of(snapshot),
    )
    results = spark_job.run(load.spark, [task], compared)
    files = [result for result in results if isinstance(result, DataFile)]
    (counts,) = (result for result in results if isinstance(result, MendCounts))
    # A dry run, or one without differences, leaves no file; otherwise the commit says what was mended.
    if not (is_applied and files):
        vacuum.remove(table.path, (file.location(table.path) for file in files))
        return counts
    mended = MendedRows(position, counts.inserted, counts.updated, counts.deleted)
    state = TableState.of(commit)
    within = Range(commit.position, commit.position)
    new = job.commit(within, state, silver.stored_columns(table, head))
    new = replace(new, kind=CommitKind.MEND, mended=mended)
    table.land(snapshot, head, new, **driver_commit.commit_of_files(files))
    return counts


def _mend_commit(head: Head) -> SilverCommit:
    commit = SilverCommit.of_head(head)
    assert commit is not None
    return commit


def _snapshot(table: Table, head: Head) -> Snapshot:
    """Silver at a head. Raises LakeError where another tool gave it what is not written."""
    snapshot = snapshot_of(table.path, head.version)
    assert snapshot is not None
    features.require_written(snapshot, appends=True)
    return snapshot


def _target_of(snapshot: Snapshot, names: Iterable[str]) -> FileTarget:
    """Files in the table's folder with some of its columns."""
    target_names = {*names}
    schema = TableSchema(tuple(column for column in snapshot.schema.columns if column.name in target_names))
    return FileTarget(snapshot.path, schema, dict(snapshot.configuration))
