"""Merge of a source table into each of its downstream tables, and its result.

Put here: which merge is taken for a table, what is published of the table after it. Not here: the merges
(engine/merge/downstream_job.py), or which tables a run merges (run.py).
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Spark
from spark_jobs.config.modes import Mode
from spark_jobs.config.routes import Destination
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import Merged, MergeJob
from spark_jobs.downstream.multi_source import PartTable, SharedPart
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.downstream.shared_keys import SharedSources
from spark_jobs.engine.changes.column_history import ChangedLog
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job
from spark_jobs.engine.merge.part_merge import PlannedTables
from spark_jobs.engine.target.target_unit import MergedFiles
from spark_jobs.errors import (
    LakeError,
    LostRace,
    StratalogError,
    TableStopped,
    about,
)
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.pipeline.comments import SourceComments, commented
from spark_jobs.pipeline.destinations import TableInto, downstream_of
from spark_jobs.pipeline.logged_changes import LoggedChanges
from spark_jobs.runtime.tasks_here import placement_for, task_errors
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import is_complete

_CONFLICT_WAIT = 1.0
"""Seconds before a part is planned again upon what another source has committed."""


@dataclass(frozen=True, slots=True)
class TableMergeResult:
    """A table after a merge into one downstream table: the heads of both layers, and what was merged if anything."""

    name: TableInto
    target: Table
    silver: Head | None
    downstream: Head | None
    merged: Merged | None
    unseen: int | None = None
    """Keys that downstream lacks because no row image of theirs was whole."""
    stopped: StratalogError | None = None
    """Reason why the merge stopped, where it holds what silver had before."""


@dataclass(frozen=True, slots=True)
class TableMerge:
    """The merge of a source table into one downstream table."""

    spark: SparkSession
    lake: Lake
    source: str
    origin: TableName
    into: Destination
    is_one_of_several: bool
    """True if the source table goes to others too."""
    locks: dict[str, threading.Lock]
    """Locks by path: parts of one table are merged one after the other."""
    changes: LoggedChanges
    """Logged changes, for tables that are made of every change."""
    comments: SourceComments
    """Comments of the source on its tables."""
    settings: Spark
    repeated: tuple[Range, ...] = ()

    @property
    def name(self) -> TableInto:
        return self.origin, self.into.name

    def prepared(
        self, number: int, planned_tables: PlannedTables, log: ChangedLog | None
    ) -> "downstream_job.PreparedMerge | None":
        """The table's merge as a unit of a job; None where there is nothing to do now. Raises TableStopped."""
        into = downstream_of(self.lake, self.source, self.origin, self.into)
        if self.into.mode.has_every_change and log is None:
            return None  # the merge of the table says so
        origin = self.lake.silver(self.source, self.origin.schema, self.origin.table)
        pinned = origin.head()
        if pinned is None or pinned.checkpoint is None:
            return None
        sources = SharedSources(self.spark, self.lake)
        return downstream_job.prepared(number, self._work(origin, pinned, into), planned_tables, log, sources)

    def merge(self, unit: "tuple[downstream_job.PreparedMerge, list[MergedFiles]] | None" = None) -> TableMergeResult:
        """Merge what is new, or commit what a job did of it. Raises TableStopped, LakeError, LostRace."""
        merge = partial(self._committed, *unit) if unit else self._merge
        if not self.is_one_of_several:
            return self._with_comments(merge())
        try:
            result = self._with_comments(merge())
        except StratalogError as error:
            raise self._with_names(error) from error
        return replace(result, stopped=self._with_names(result.stopped)) if result.stopped else result

    def _with_comments(self, result: TableMergeResult) -> TableMergeResult:
        """Result of a merge with the comments of the source's table; a table of several has none."""
        if result.merged is None or result.stopped or result.downstream is None or self.into.is_merged:
            return result
        comments = self.comments.of(self.origin)
        if comments is None:
            return result
        head = commented(result.target, result.downstream, comments)
        return replace(result, downstream=head, merged=replace(result.merged, head=head))

    def _with_names(self, error: StratalogError) -> StratalogError:
        """The error, which says into which of several downstream tables."""
        prefix = f"{self.source}: {self.origin}"
        return type(error)(f"{prefix} into {self.into}: {str(error).removeprefix(f'{prefix}: ')}")

    def _merge(self) -> TableMergeResult:
        into = downstream_of(self.lake, self.source, self.origin, self.into)
        if not isinstance(into, PartTable):
            return self._merged_into(into)
        with self.locks[into.path]:
            # Other sources merge into it too, by plans of their own.
            return retry_on_conflict(lambda: self._merged_into(into), wait=_CONFLICT_WAIT)

    def _merged_into(self, into: Table) -> TableMergeResult:
        origin = self.lake.silver(self.source, self.origin.schema, self.origin.table)
        pinned = origin.head()
        if pinned is None or pinned.checkpoint is None:
            return TableMergeResult(self.name, into, None, None, None)
        # A table that stops still gets what lies before its stop.
        stopped: TableStopped | None = None
        try:
            merged = self._by_engine(self._work(origin, pinned, into))
        except TableStopped as error:
            merged, stopped = self._merged_before(origin, pinned, into), error
            if merged is None:
                raise
        head = merged.head if merged else into.head()
        commit = DownstreamCommit.of_head(head)
        unseen = commit.keys_never_whole or None if commit else None
        into_name = str(self.into) if self.is_one_of_several else None
        merged = replace(merged, into=into_name) if merged else None
        return TableMergeResult(self.name, into, pinned, head, merged, unseen, stopped)

    def _committed(self, unit: downstream_job.PreparedMerge, results: Sequence[MergedFiles]) -> TableMergeResult:
        stopped = next((result.stopped for result in results if result.stopped), None)
        if stopped:
            return self._before_stop(unit.work, stopped)
        with about(f"{self.source}: {self.origin}"):
            if not isinstance(unit.work.target, PartTable):
                merged = downstream_job.commit(unit, results)
            else:
                try:
                    with self.locks[unit.work.target.path]:
                        merged = retry_on_conflict(lambda: downstream_job.commit(unit, results))
                except LostRace:  # another part or maintenance was first: planned again, by a job of its own
                    return self._merge()
        merged = replace(merged, into=str(self.into)) if self.is_one_of_several else merged
        return TableMergeResult(
            self.name, unit.work.target, unit.work.pinned, merged.head, merged, merged.unseen or None
        )

    def _before_stop(self, work: MergeJob, stopped: TableStopped) -> TableMergeResult:
        """Delta of silver before a stop; raises TableStopped where none of it can be merged."""
        with self.locks[work.target.path]:
            merged = self._merged_before(work.origin, work.pinned, work.target)
        if merged is None:
            raise stopped
        merged = replace(merged, into=str(self.into)) if self.is_one_of_several else merged
        return TableMergeResult(self.name, work.target, work.pinned, merged.head, merged, stopped=stopped)

    def _work(self, origin: Table, pinned: Head, into: Table) -> MergeJob:
        columns = silver.stored_columns(origin, pinned)
        return MergeJob(
            source=self.source,
            name=self.origin,
            columns=columns,
            origin=origin,
            pinned=pinned,
            target=into,
            replays=self.repeated,
            mode=self.into.mode,
            has_feed=self.into.has_feed,
        )

    def _by_engine(self, work: MergeJob) -> Merged | None:
        """The merge of a table by a job of its own. Raises TableStopped, LakeError, LostRace."""
        log = self.changes.log() if work.mode.has_every_change else None
        unit = downstream_job.prepared(0, work, None, log, SharedSources(self.spark, self.lake))
        if unit is None:
            return None
        placement = placement_for(self.spark, self.settings, downstream_job.size_of([unit]))
        capacity = Capacity(placement.slots, self.settings.task_bytes)
        with about(str(work)), task_errors(placement.session):
            results = downstream_job.run(placement.session, [unit], capacity, log)[0]
            stopped = next((result.stopped for result in results if result.stopped), None)
            error = next((result.error for result in results if result.error), None)
            if stopped or error:
                raise stopped or LakeError(error)
            return downstream_job.commit(unit, results)

    def _merged_before(self, origin: Table, pinned: Head, into: Table) -> Merged | None:
        """The last merge of what silver had before a merge of all stopped; None where none of it can be merged.

        One commit of silver after the other: how many of them a run makes must not decide what is downstream. Where
        keys are shared, other sources decide what may be merged, and nothing is.
        """
        if isinstance(into, SharedPart):
            return None
        commit = DownstreamCommit.of_head(into.head())
        last_merged = commit.silver_version if commit else -1
        merged: Merged | None = None
        for version, checkpoint in reversed(origin.since(last_merged)):
            if version >= pinned.version or checkpoint.kind == CommitKind.MAINTENANCE:
                continue
            try:
                merged = self._by_engine(self._work(origin, Head(version, pinned.counter, checkpoint), into)) or merged
            except TableStopped:  # why, the merge of all has said
                break
        return merged


def by_table(stopped: Mapping[TableInto, str]) -> dict[TableName, str]:
    """Reasons why tables stopped, those of one source table together."""
    reasons: dict[TableName, str] = {}
    for (origin, _), reason in stopped.items():
        reasons[origin] = f"{reasons[origin]}\n{reason}" if origin in reasons else reason
    return reasons


def newest_versions(results: Iterable[TableMergeResult]) -> dict[str, int]:
    """The newest version of each downstream table that results are about, by path."""
    newest: dict[str, int] = {}
    for result in results:
        if result.downstream:
            newest[result.target.path] = max(result.downstream.version, newest.get(result.target.path, -1))
    return newest


def at_one_version(results: dict[TableInto, TableMergeResult]) -> dict[TableInto, TableMergeResult]:
    """Results with the newest version of each table of several for all its parts: it holds all of them now."""
    newest = newest_versions(results.values())
    return {
        name: replace(result, downstream=replace(result.downstream, version=newest[result.target.path]))
        if result.downstream
        else result
        for name, result in results.items()
    }


@dataclass(frozen=True)
class MergeSummary:
    """Results of a run's merges: into which tables rows came, and why which stopped."""

    lake: Lake
    legs: Mapping[TableName, tuple[Destination, ...]]
    """Downstream tables that each source table goes to."""
    results: Mapping[TableInto, TableMergeResult]
    stopped_into: Mapping[TableInto, str]
    stopped: Mapping[TableName, str]
    unchanged: Mapping[TableInto, Target] = field(default_factory=dict)
    """Published targets of the downstream tables that had nothing to merge."""

    @cached_property
    def versions(self) -> dict[str, int]:
        """The newest version of each table that rows came into, by path."""
        return newest_versions(self.results.values())

    def after(self, entry: Entry) -> Entry:
        """A table's row after them. One that stopped somewhere has stopped; its other targets are named too."""
        name = TableName(*entry.name)
        legs = self.legs.get(name, ())
        if name in self.stopped:
            entry = replace(entry, state="stopped", reason=self.stopped[name])
            is_ended = bool(legs) and all((name, leg.name) in self.results for leg in legs)
            if not is_ended and (not legs[1:] or all((name, leg.name) not in self.stopped_into for leg in legs)):
                return replace(entry, targets=tuple(replace(target, reason=None) for target in entry.targets))
        # What the merges wrote counts; without any, the entry stays as it is.
        landed = [self.results.get((name, leg.name)) for leg in legs]
        pinned = next((result.silver for result in landed if result and result.silver and result.downstream), None)
        if pinned and not _is_beyond(pinned, entry):
            complete, unnamed = is_complete(pinned), silver.is_numbered(pinned) or None
            entry = replace(entry, silver_version=pinned.version, complete=complete, numbered=unnamed)
        elif not pinned and name not in self.stopped and all((name, leg.name) not in self.unchanged for leg in legs):
            return entry
        targets = list(self._targets(entry, legs))
        return entry.with_targets(targets) if targets else entry

    def _targets(self, entry: Entry, legs: Sequence[Destination]) -> Iterator[Target]:
        targets = {target.name: target for target in entry.into}
        for into, mode in ((leg.name, leg.mode) for leg in legs):
            with suppress(TableStopped):  # the lake has no place for it; the row's reason says so
                path, name = self.lake.downstream(*into).path, (TableName(*entry.name), into)
                if name in self.unchanged:
                    # Others may have been merged into the same table: their version has this one's rows too.
                    version = self.versions.get(path, self.unchanged[name].version)
                    yield replace(self.unchanged[name], merged=entry.position, version=version)
                    continue
                target = replace(targets.get(into, Target(path)), path=path, reason=self.stopped_into.get(name))
                yield _reached(target, entry, self.results.get(name), mode)


def _is_beyond(head: Head, entry: Entry) -> bool:
    """True if a table has log that is behind what the run publishes: another run has gone on, and publishes that."""
    return head.position is not None and entry.checkpoint is not None and head.position > entry.checkpoint


def _reached(target: Target, entry: Entry, result: TableMergeResult | None, mode: Mode) -> Target:
    if result is None or result.downstream is None or _is_beyond(result.downstream, entry):
        return target
    merged = str(result.downstream.position) if result.stopped else entry.position
    version = result.downstream.version
    return replace(target, merged=merged, version=version, keys_never_whole=result.unseen, mode=mode.value)
