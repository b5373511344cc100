"""Erasure of the rows of some keys of one table from the lake, table by table: ``stratalog forget``.

Put here: what is refused, the order of the tables, and the report. Not here: what is done in a table
(logged_rows.py, lake_rows.py), or how it is printed (cli/forget.py).

Bronze goes first, in one commit, and its older files with it, then what foreign keys did to the rows: from then on no
replay finds them. Each layer above it gets a commit, so that what others have planned while the rows were there loses.
Files of older versions go at the end, once every table is published without the rows. What is killed on the way is
finished by doing it again: each step asks what its table has, and not what an earlier step has done.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.config.modes import Mode
from spark_jobs.config.table_patterns import Scope
from spark_jobs.delivery.deliver import chosen_tables, deliver
from spark_jobs.delta import index_files, vacuum
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream import publication as published
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.multi_source import SHARED, view
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.errors import ConfigError, DeliveryError, TableStopped, about
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import Checkpoint, CommitKind, Head, new_batch
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.retry import CONFLICT_WAIT, retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.operations.forgetting import lake_rows, logged_rows
from spark_jobs.operations.forgetting.keys import ForgottenKeys
from spark_jobs.operations.forgetting.lake_rows import Erasing, HeldRows
from spark_jobs.operations.forgetting.logged_rows import ErasedSlices, LoggedRows
from spark_jobs.operations.retention.fold_windows import is_merged
from spark_jobs.operations.retention.gc import DELIVERY, GROUP, SILVER, LogReaders
from spark_jobs.operations.retention.maintenance import newest_with_same_rows
from spark_jobs.pipeline import iceberg_tables
from spark_jobs.pipeline.initial_load.commit import progress
from spark_jobs.pipeline.initial_load.wanted_keys import keys_of_texts
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ForgottenIn:
    """The rows of the keys in bronze or in a table, as they are or were before the erasure.

    path: of the table in the lake; ``bronze`` of the log. events, bytes: of bronze, of events that are not the server's
    own any more. rows: of a table, in its newest version, and marked: those that are deleted there already. old_files:
    of older versions.
    """

    path: str
    events: int = 0
    bytes: int = 0
    rows: int = 0
    marked: int = 0
    old_files: int = 0

    @property
    def is_empty(self) -> bool:
        """True if there is nothing of the keys."""
        return not (self.events or self.rows or self.marked or self.old_files)

    def to_json(self) -> dict[str, Any]:
        """A member of ``places`` of ``stratalog forget --json``."""
        counts = ("events", "bytes", "rows", "marked", "old_files")
        return {"place": self.path} | {name: getattr(self, name) for name in counts}


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Result of forgetting rows of one table, or its preview. holders: who still has the rows, one sentence each."""

    source: str
    table: TableName
    keys: int
    tables: tuple[ForgottenIn, ...]
    holders: tuple[str, ...]

    def to_json(self, *, is_applied: bool) -> dict[str, Any]:
        """The object of ``stratalog forget --json``."""
        return {
            "source": self.source,
            "table": str(self.table),
            "keys": self.keys,
            "applied": is_applied,
            "places": [holder.to_json() for holder in self.tables],
            "holders": list(self.holders),
        }


def forget(  # noqa: PLR0913 - a verb's options
    spark: SparkSession,
    pipeline: Pipeline,
    source: str,
    name: TableName,
    keys: Sequence[str],
    *,
    ignored: Collection[str] = (),
    is_applied: bool = False,
) -> Forgotten:
    """Erase the rows of keys from bronze, silver, downstream, what is loaded, indexes, statistics and older versions.

    The rows have to be deleted at the source, and the lake to have that. Nothing is written at the server.

    Args:
        spark: the session, which may be a lazy one.
        pipeline: the configuration.
        source: whose table.
        name: the table.
        keys: ``COLUMN=VALUE,…`` with all columns of the key; all that a row has had.
        ignored: readers of the log that are not waited for, as gc names them.
        is_applied: whether anything is erased; otherwise the result says what would be.

    Raises ConfigError, TableStopped for what cannot be forgotten, DecodeError, Unsupported, LakeError, and LostRace
    where other writers keep winning: forgetting again finishes it.
    """
    work = _Forgetting(spark, pipeline, source, name, tuple(keys), frozenset(ignored))
    with about(f"{source}: {name}"):
        return work.run(is_applied=is_applied)


@dataclass(slots=True)
class _Forgetting:
    spark: SparkSession
    pipeline: Pipeline
    source: str
    name: TableName
    key_texts: tuple[str, ...]
    ignored: frozenset[str]
    _holders: list[str] = field(default_factory=list)

    def run(self, *, is_applied: bool) -> Forgotten:
        holders = [*self._rows_left()]
        if is_applied:
            self._deliver()
            retry_on_conflict(self._erase_log, wait=CONFLICT_WAIT)
            retry_on_conflict(self._erase_silver, wait=CONFLICT_WAIT)
            for target in self._entry().into:
                retry_on_conflict(partial(self._erase_downstream, target), wait=CONFLICT_WAIT)
            self._publish()
            self._deliver()
            self._remove_old()
        return Forgotten(self.source, self.name, len(self.key_texts), tuple(holders), tuple(self._holders))

    def _rows_left(self) -> Iterator[ForgottenIn]:
        """The rows that each table has now. Raises TableStopped, ConfigError for what cannot be forgotten."""
        # The log first: what is erased there, and what was derived of it.
        keys = self._keys()
        logged, erased = self._in_log()
        yield self._in_bronze(logged, erased)
        if logged.derived.head:
            derived = logged.derived
            old_files = len(derived.files_that_hold())
            yield ForgottenIn(derived.table.path, rows=len(derived.changes), old_files=old_files)
        # Silver, downstream and loads, by the columns of the key that each has.
        for path, key_list in self._tables(keys):
            snapshot = snapshot_of(path)
            if snapshot is not None and {*key_list.names} <= {*snapshot.schema.names}:
                held_rows = HeldRows.of(snapshot, key_list)
                old_files = len(lake_rows.files_that_hold(snapshot, key_list))
                yield ForgottenIn(path, rows=held_rows.rows, marked=held_rows.marked, old_files=old_files)
            elif snapshot is not None:
                raise TableStopped(
                    f"{path} lacks the columns of the key ({', '.join(key_list.columns)}), so that its rows "
                    "are not known; move it away, so that the next run rebuilds it with them, and forget again"
                )

    def _in_bronze(self, logged: LoggedRows, erased: ErasedSlices) -> ForgottenIn:
        snapshot = driver_commit.snapshot_upon(logged.snapshot.table.path, logged.snapshot.head)
        old_files = logged_rows.files_that_hold(logged, snapshot)
        return ForgottenIn(snapshot.path, events=erased.events, bytes=erased.bytes, old_files=len(old_files))

    def _tables(self, keys: ForgottenKeys) -> Iterator[tuple[str, ForgottenKeys]]:
        """The tables of the lake with rows of the keys, by path, and how these are found there."""
        lake = self._lake
        yield lake.silver(self.source, *self._name).path, keys
        yield lake.load(self.source, *self._name).path, keys
        for target in self._entry().into:
            yield target.path, self._keys_in(target, keys)

    def _keys_in(self, target: Target, keys: ForgottenKeys) -> ForgottenKeys:
        provenance = view(Table(target.path, self._lake.plain), self._owner).provenance
        return keys.marked(provenance) if provenance else keys

    @property
    def _lake(self) -> Lake:
        return lake_of(self.pipeline)

    @property
    def _name(self) -> tuple[str, str]:
        return self.name.schema, self.name.table

    @property
    def _owner(self) -> tuple[str, str, str]:
        return self.source, self.name.schema, self.name.table

    def _entry(self) -> Entry:
        """Published entry of the table. Raises ConfigError, TableStopped."""
        entries = published.read(self._lake, self.source)
        entry = next((entry for entry in entries if entry.name == self._name), None)
        if entry is None or entry.silver_version is None:
            raise ConfigError(f"{self.source} has no table {self.name} in the lake")
        # What no step erases is refused first: rows on their way, keys of several sources.
        load = progress(self._lake, self.source, self.name)
        if entry.is_reset or (load and load.is_open):
            raise TableStopped("is being rebuilt or loaded; run stratalog until it is done, and forget again")
        for target in entry.into:
            commit = DownstreamCommit.of_head(Table(target.path, self._lake.plain).head())
            if commit and commit.key_sharing == SHARED:
                raise TableStopped(
                    f"{target.path} has keys in common with other sources' tables (keys: shared), and it is not "
                    "known which sources a row of it has values of; route it to a separate table, and forget again"
                )
        return entry

    def _keys(self) -> ForgottenKeys:
        """The keys in silver's types. Raises ConfigError, TableStopped."""
        table = self._lake.silver(self.source, *self._name)
        head = table.head()
        commit = SilverCommit.of_head(head)
        if head is None or commit is None:
            raise ConfigError(f"{self.source} has no table {self.name} in the lake")
        if not commit.key or commit.is_numbered:
            raise TableStopped(
                "has no key with names in the lake, and rows are forgotten by their key; delete them at the source, "
                "let gc remove their log, and rebuild the table (stratalog reset)"
            )
        # A masked key of the lake is no key of the source.
        rule = self.pipeline.filters.of(self.name.schema, self.name.table).columns
        masked = sorted(column for column in commit.key if rule and column.casefold() in rule.masks)
        if masked:
            raise TableStopped(
                f"a rule masks {', '.join(masked)} of its key, so that a key of the source names no row of the lake; "
                f"once gc has removed its log, rebuild it (stratalog reset --source {self.source} --table {self.name})"
            )
        snapshot = snapshot_of(table.path, head.version)
        assert snapshot is not None
        columns = silver.stored_columns(table, head)
        fields = snapshot.schema.arrow(physical=False)
        lake_keys = keys_of_texts(self.key_texts, columns, fields, str(self.name)).lake_keys
        return ForgottenKeys.of(lake_keys, columns.key)

    def _in_log(self) -> tuple[LoggedRows, ErasedSlices]:
        """The changes of the keys in bronze as it is now, and its slices without them. Raises TableStopped."""
        logged = LoggedRows.find(self.pipeline, self.source, self.name, self.key_texts)
        if logged.other_keys:
            listed = ", ".join(sorted(logged.other_keys))
            raise TableStopped(f"these rows have had other keys; name these too: {listed}")
        self._require_deleted(logged)
        self._require_read(logged)
        self._holders = [
            *remaining_copies(self.pipeline, self.source),
            *(
                f"{position}: a statement that changes rows of the table is logged as text, with values that it names "
                "(statement format); it goes with retention.bronze"
                for position in logged.by_statement
            ),
        ]
        return logged, ErasedSlices.of(logged)

    def _require_deleted(self, logged: LoggedRows) -> None:
        """Check that no key has a row. Raises TableStopped."""
        living = set(logged.living)
        keys = self._keys()
        for target in (target for target in self._entry().into if target.mode == Mode.MIRROR):
            snapshot = snapshot_of(target.path)
            rows = HeldRows.of(snapshot, self._keys_in(target, keys)).rows if snapshot else 0
            living |= {f"{rows} in {target.path}"} if rows else set()
        if living:
            raise TableStopped(
                f"rows of these keys are not deleted: {', '.join(sorted(living))}; delete them at the source, run "
                "stratalog, and forget them then: else they would come again"
            )

    def _require_read(self, logged: LoggedRows) -> None:
        """Check that every reader has read the log up to the last change of the keys. Raises TableStopped."""
        head, entry = logged.snapshot.head, self._entry()
        targets = {target.path: view(Table(target.path, self._lake.plain), self._owner) for target in entry.into}
        origin = self._silver_head()
        unmerged = [path for path, table in targets.items() if not is_merged(self._lake, entry, origin, table)]
        if unmerged or not entry.into:
            raise TableStopped(f"{', '.join(unmerged) or 'downstream'} has not all of silver; run stratalog first")
        if logged.newest is None:
            return
        for reader in LogReaders(self.pipeline, self._lake, self.source).every_one(head, logged.snapshot.checkpoint):
            is_about_it = reader.name in (str(self.name), SILVER) or reader.name.startswith((GROUP, DELIVERY))
            if is_about_it and reader.name not in self.ignored and reader.position.order <= logged.newest:
                raise TableStopped(
                    f"{reader.name} has not read the log up to the last change of these rows ({reader.reason}), and "
                    f"would keep them without their changes. Let it go on, or take --ignore {reader.name}"
                )

    def _silver_head(self) -> Head:
        head = self._lake.silver(self.source, *self._name).head()
        assert head is not None
        return head

    def _erase_log(self) -> None:
        """Erase the rows from bronze, and the older files that have them. Raises LostRace."""
        logged, erased = self._in_log()
        logged_rows.erase(logged, erased)
        table = logged.snapshot.table
        logged = replace(logged, snapshot=BronzeSnapshot.of(self._lake, self.source))
        snapshot = driver_commit.snapshot_upon(table.path, logged.snapshot.head)
        vacuum.remove(table.path, logged_rows.files_that_hold(logged, snapshot))
        index_files.remove_stale(table.path)
        # What foreign keys did goes last: by it rows are known to be deleted that the log has alive.
        logged.derived.erase()

    @property
    def _erasing(self) -> Erasing:
        return Erasing(self.spark, self.pipeline.spark.task_bytes)

    def _erase_silver(self) -> None:
        keys = self._keys()
        for table in (self._lake.silver(self.source, *self._name), self._lake.load(self.source, *self._name)):
            head = table.head()
            if head and head.checkpoint:
                self._erasing.land(table, head, keys, _upkeep(head.checkpoint))

    def _erase_downstream(self, target: Target) -> None:
        """Erase the rows from a downstream table, which has silver's newest version then. Raises LostRace."""
        table, origin = Table(target.path, self._lake.plain), self._silver_head()
        head = table.head()
        commit = DownstreamCommit.of_head(head)
        assert head
        assert commit
        assert origin.checkpoint
        # The commit says that silver's newest version is merged, for this table alone where there are several.
        merged: dict[str, Any] = {"silver_version": origin.version, "silver_batch": origin.checkpoint.batch}
        if commit.parts is None:
            commit = replace(commit, **merged)
        else:
            parts = [
                replace(part, **merged) if (part.source, part.schema, part.table) == self._owner else part
                for part in commit.parts
            ]
            commit = replace(commit, parts=tuple(parts))
        self._erasing.land(table, head, self._keys_in(target, self._keys()), _upkeep(commit))

    def _publish(self) -> None:
        """Names the versions without the rows where those with them are published. Raises LostRace."""
        paths = self._paths()

        def renewed(entry: Entry) -> Entry:
            if entry.silver_version is not None and (entry.source, *entry.name) == self._owner:
                table = self._lake.silver(self.source, *entry.name)
                entry = replace(entry, silver_version=newest_with_same_rows(table, entry.silver_version))
            targets = [self._renewed(target) if target.path in paths else target for target in entry.into]
            return entry.with_targets(targets) if targets else entry

        # A downstream table of several sources is published by each.
        sources = {row["source"] for row in self._lake.published().rows(columns=["source"])}
        for source in sorted(sources):
            published.overwrite(self._lake, source, renewed)

    def _renewed(self, target: Target) -> Target:
        table = Table(target.path, self._lake.plain)
        return (
            target if target.version is None else replace(target, version=newest_with_same_rows(table, target.version))
        )

    def _paths(self) -> set[str]:
        """The downstream tables with rows of the table."""
        return {target.path for target in self._entry().into}

    def _deliver(self) -> None:
        """Deliver the table as it is now: a delivery that lags would need the files that go. Raises DeliveryError."""
        paths = self._paths()
        for delivery, settings in self.pipeline.deliveries.items():
            tables = [] if settings.apply == "ordered" else chosen_tables(self.pipeline, self._lake, delivery)
            for table in (table for table in tables if table.table.path in paths):
                outcome = deliver(self.pipeline, delivery, Scope.parse([str(table)]))
                if outcome.stopped:
                    raise DeliveryError("; ".join(map(str, outcome.stopped.values())))

    def _remove_old(self) -> None:
        """Remove the files of older versions that have the rows, and what the log says of their values."""
        paths = self._paths()
        for path, keys in self._tables(self._keys()):
            lake_rows.remove_old(Table(path, self._lake.plain), keys)
            if path in paths:
                iceberg_tables.renew(self.pipeline, path)


def remaining_copies(pipeline: Pipeline, source: str) -> Iterator[str]:
    """Copies of the rows that are not erased, one sentence each: archives, and copies that are not known here."""
    archive = pipeline.sources[source].archive
    if archive is not None:
        yield f"{archive}: the archive of the log still has the rows; a backfill that reads it brings them back"
    yield (
        "not erased: the server's own log and backups, exported files, object versions of a store, other copies of the "
        "lake, and what consumers and readers have kept"
    )


def _upkeep(checkpoint: Checkpoint) -> Checkpoint:
    """A commit that moves no position."""
    return replace(checkpoint, batch=new_batch(), kind=CommitKind.MAINTENANCE)
