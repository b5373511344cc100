"""Job of a merge of every change (``mode: append``, ``history``): its units, and the commits.

Put here: units, and tasks of their slices and files. Not here: which windows of the log a target lacks
(column_history.py), what tasks do (change_task.py), commits (engine/merge/downstream_job.py).

One read of the metadata of slices serves all tables of a source.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableName
from spark_jobs.bronze.table import BronzeSnapshot, statement_gtids
from spark_jobs.config.modes import Mode
from spark_jobs.delta import features
from spark_jobs.delta.history import added_since
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta
from spark_jobs.engine.changes.change_extent import STATEMENTS, Extent, may_have_statements
from spark_jobs.engine.changes.change_units import ChangeTask, ChangeUnit, ChangeWindow, UnitPart
from spark_jobs.engine.changes.column_history import ChangedLog, column_history_of
from spark_jobs.engine.changes.row_completion import EarlierRows
from spark_jobs.engine.changes.version_merge import may_have_current
from spark_jobs.engine.jobs.spark_job import Capacity, packed
from spark_jobs.engine.rows.earlier_log import loaded_files, log_before
from spark_jobs.engine.rows.exact_texts import change_of
from spark_jobs.engine.rows.restatement import Restatement, SilverSource
from spark_jobs.engine.target.partial_merge import SilverLookup
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.ranges import joined
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit

_VERSIONS_BYTES = 64 << 20
"""Bytes of log and data files up to which one task computes the versions of a table, or of a bucket of its keys."""
_LEAST_TASK_BYTES = 2 << 20
_UNIT_BYTES = 128 << 10
"""Cost of a unit besides its rows, as bytes of log."""


class ChangePlan(NamedTuple):
    """A unit, upon a snapshot of its target, for a delta of silver.

    design: the target with the metadata that it has after the merge.
    """

    delta: SilverDelta
    unit: ChangeUnit
    snapshot: Snapshot
    design: Snapshot


def planned(
    number: int, work: MergeJob, upon: tuple[Head, Snapshot], delta: SilverDelta, log: ChangedLog
) -> ChangePlan:
    """A table's merge as a unit. upon: the target as the plan saw it.

    The unit's slices are not read yet: ``tasks_of``. Raises TableStopped, LakeError, LostRace.
    """
    # The range of the log whose changes are read, and the definitions of the table in it.
    head, snapshot = upon
    features.require_written(snapshot)
    delta = _widened_if_incomplete(work, head, delta)
    extent = Extent.of(work, head, delta)
    completes = work.columns.has_partial
    begin = _decided_again_from(work, delta) if completes and not extent.is_all else None
    if begin:
        extent = extent.back_to(begin, _next_offset(head))
        _require_same_rules(work, delta, extent, log)
    history = column_history_of(work, upon, delta, extent, log)
    extent = extent.with_ranges(log_range for window in history.windows for log_range in window.ranges)
    # What no change in the log says, and whether a new statement ends all versions.
    floor, is_first = work.floor, extent.is_all
    has_statements = floor is not None and (is_first or extent.is_restated or not floor < _next_offset(head))
    needs_silver = has_statements or extent.from_server or completes
    origin = snapshot_of(work.origin.path, work.pinned.version) if needs_silver else None
    # Without silver, whose rows only some units need, a unit has no origin.
    unit = ChangeUnit(
        number=number,
        name=str(work),
        mode=work.mode,
        columns=work.columns,
        windows=history.windows,
        target=work.target.path,
        schema=history.design.schema,
        configuration=history.design.configuration,
        files=() if delta.is_renewed else history.begin.files,
        rewrites=not history.begin.has_deletion_vectors,
        extent=extent,
        fills=history.fills,
        exact=history.exact,
        skips=log.filters(work.name).skips,
        origin=work.origin.path,
        origin_schema=origin.schema if origin else None,
        earlier=_earlier_rows(work, head, delta, origin) if origin and completes else None,
        statements=_statement_files(work, head, extent, origin, has_statements=has_statements) if origin else (),
        statement_gtids=_statement_gtids(work, extent, log.snapshot) if has_statements else {},
        ends_all=work.mode is Mode.HISTORY and not is_first and floor is not None and not floor < _next_offset(head),
    )
    return ChangePlan(delta, unit, history.begin if head.design else snapshot, history.design)


def _decided_again_from(work: MergeJob, delta: SilverDelta) -> Position | None:
    """Position from which on changes without all columns decide again about the target; None where none does."""
    # Changes behind rows that were replaced are completed from these.
    if delta.replaced_from:
        return delta.replaced_from
    # What ended a version that is merged again may be no version itself: the log alone has it.
    return joined(delta.redone)[0].start if work.mode is Mode.HISTORY and delta.redone else None


def _next_offset(head: Head) -> Position:
    assert head.position
    return head.position


def _widened_if_incomplete(work: MergeJob, head: Head, delta: SilverDelta) -> SilverDelta:
    """The delta, widened to a replacement of the whole target where the target cannot be continued.

    That is where its newest commit is none of a complete merge, or where silver's log does not tell any more which keys
    of replaced rows were incomplete.
    """
    last = DownstreamCommit.of_head(head)
    is_other = last is None and not head.design
    is_uncounted = _restates_count(head, delta) and _silver_before(work, head) is None
    return replace(delta, is_renewed=True) if is_other or is_uncounted else delta


def _require_same_rules(work: MergeJob, delta: SilverDelta, extent: Extent, log: ChangedLog) -> None:
    """Check that silver's windows were made by the rules by which they are decoded again. Raises TableStopped."""
    pinned, until = SilverCommit.of_head(work.pinned), work.pinned.position
    if pinned is None or pinned.rule_digests is None or extent.hull is None:
        return
    # Windows that the merge decodes beside those that were replayed, by their commits.
    digest, replayed = log.filters(work.name).prints().get("changes"), joined(delta.redone)
    commits = [SilverCommit.of(checkpoint) for _, checkpoint in work.origin.since(-1)]
    windows = [commit for commit in commits if commit.kind == CommitKind.LIVE and commit.start]
    is_named = bool(windows) and min(window.start for window in windows if window.start) <= extent.hull.start
    unlike_windows = [
        window
        for commit in windows
        if commit.start and (commit.rule_digests or {}).get("changes") != digest
        if extent.overlaps(window := Range(commit.start, commit.position))
        if not any(part.start <= window.start and window.stop <= part.stop for part in replayed)
    ]
    if unlike_windows or not is_named:
        raise TableStopped(
            f"changes after {extent.hull.start} omit columns and are completed from earlier rows, which were "
            f"replaced; rules about the table have changed since these changes were read: replay them too (stratalog "
            f"backfill --source {work.source} --table {work.name} --from {extent.hull.start} --to {until})"
        )


def _restates_count(head: Head, delta: SilverDelta) -> bool:
    """True if rows were replaced of a table that has keys which were never whole."""
    last = DownstreamCommit.of_head(head)
    return bool(last and last.keys_never_whole and delta.replaced_from and not delta.is_renewed)


def _silver_before(work: MergeJob, head: Head) -> Snapshot | None:
    """Silver as the target has it; None where its log does not have that any more."""
    last = DownstreamCommit.of_head(head)
    return snapshot_of(work.origin.path, last.silver_version) if last and last.silver_version >= 0 else None


def _earlier_rows(work: MergeJob, head: Head, delta: SilverDelta, origin: Snapshot) -> EarlierRows:
    """Source that completes changes without all columns. origin: the silver table."""
    source = SilverSource(origin.path, origin.schema, work.columns.key)
    if delta.is_renewed:
        return EarlierRows(SilverLookup(source, tuple(origin.files), None, work.floor))
    # A statement that emptied the table leaves no key that was never whole.
    last, floor = DownstreamCommit.of_head(head), work.floor
    is_emptied = floor is not None and head.position is not None and head.position <= floor
    never_whole = last.keys_never_whole if last and not is_emptied else 0
    lookup = SilverLookup(source, tuple(origin.files), head.position, floor, never_whole)
    before = _silver_before(work, head) if never_whole and delta.replaced_from else None
    if before is None:
        return EarlierRows(lookup)
    present = {file.key for file in origin.files}
    changes = [change for step in delta.steps if (change := change_of(step))]
    restatement = Restatement(
        removed=tuple(file for file in before.files if file.key not in present),
        windows=tuple(joined(delta.redone)),
        is_from_server=bool(delta.from_server),
        files=tuple(origin.files),
        before=tuple(before.files),
        exact=tuple(changes),
    )
    return EarlierRows(lookup, restatement)


def _statement_files(
    work: MergeJob, head: Head, extent: Extent, origin: Snapshot, *, has_statements: bool
) -> tuple[DataFile, ...]:
    """Silver's files that may have rows which no change in the log says."""
    last, files = DownstreamCommit.of_head(head), origin.files
    is_completed = work.columns.has_partial and has_statements
    if last and not (extent.is_all or extent.is_restated or is_completed):
        new = added_since(work.origin.path, last.silver_version, work.pinned.version)
        files = files if new is None else new
    operations = (*(STATEMENTS if has_statements else ()), *extent.from_server)
    return tuple(file for file in files if may_have_statements(file, origin.schema, *operations))


def _statement_gtids(work: MergeJob, extent: Extent, bronze: BronzeSnapshot) -> dict[tuple[int, int, int], str]:
    """GTIDs of the statements of an extent, by where they stand; of tables that show them."""
    if work.mode is not Mode.APPEND or work.pinned.position is None:
        return {}
    within = Range(bronze.earliest, work.pinned.position) if extent.is_all else extent.hull
    return statement_gtids(bronze, within) if within else {}


class ChangeTasks(NamedTuple):
    """Tasks of a job, how many buckets its second step has, and the units that have a part in that."""

    tasks: list[ChangeTask]
    buckets: int
    bucketed: dict[int, ChangeUnit]


def tasks_of(
    units: Sequence[tuple[TableName, ChangeUnit]], log: ChangedLog, capacity: Capacity, *, is_divided: bool = True
) -> ChangeTasks:
    """Units packed by the bytes that they read, large ones in parts, if they may be. Raises LakeError, DecodeError."""
    if not is_divided:
        units = [(name, _with_earlier_log(unit, log)) for name, unit in units]
    all_windows = [window for _, unit in units for window in unit.windows]
    windows = [log_range for window in all_windows for log_range in (*window.ranges, *window.earlier)]
    index = log.index(windows) if windows else None
    undivided_parts, begin = list[UnitPart](), 0
    for name, unit in units:
        ranges = [(*window.ranges, *window.earlier) for window in unit.windows]
        tables = [index.slices_of_table(name, parts, unit.skips) for parts in ranges] if index else []
        slices = {at: table for at, table in enumerate(tables) if len(table)}
        part = UnitPart(unit, slices, unit.statements, _looked_through(unit))
        buckets = _bucket_count(part) if is_divided else 1
        if buckets > 1:
            part = replace(part, unit=replace(unit, buckets=tuple(range(begin, begin + buckets))))
            begin += buckets
        undivided_parts.append(part)
    # Slices hold rows of several tables, and a task reads each once.
    size = sum(map(_log_bytes, undivided_parts))
    shared = _distinct_bytes(undivided_parts) / max(1, size)
    total = int(shared * size) + sum(map(_file_bytes, undivided_parts)) + len(undivided_parts) * _UNIT_BYTES
    target = capacity.share(total, _LEAST_TASK_BYTES)
    parts = (part for undivided in undivided_parts for part in _parts(undivided, target))
    groups = packed(parts, lambda part: shared * _log_bytes(part) + _file_bytes(part) + _UNIT_BYTES, target)
    tasks = [ChangeTask(log.snapshot.table.path, log.snapshot.version, group) for group in groups]
    return ChangeTasks(tasks, begin, {part.unit.number: part.unit for part in undivided_parts if part.unit.buckets})


def _with_earlier_log(unit: ChangeUnit, log: ChangedLog) -> ChangeUnit:
    """The unit with the log before its windows, for rules about columns that row images leave out."""
    windows = tuple(
        _window_with_earlier_log(unit, window, log.snapshot.oldest) if window.filters or window.masks else window
        for window in unit.windows
    )
    return replace(unit, windows=windows, is_older_unread=False)


def _window_with_earlier_log(unit: ChangeUnit, window: ChangeWindow, oldest: Position) -> ChangeWindow:
    silver_table = Table(unit.origin, plain=True)
    before = log_before(silver_table, window.definition, window.ranges, oldest, unit.skips)
    return replace(window, earlier=before.ranges, loads=loaded_files(silver_table, before))


def _looked_through(unit: ChangeUnit) -> tuple[DataFile, ...]:
    """The target's files that have rows which the merge may be about whatever their keys are."""
    # Rows of mode append have no key to find them by: whoever looks through a file writes it again too.
    rewritten = {file.path for file in unit.rewritten} if unit.mode is Mode.APPEND else set()
    return tuple(
        file
        for file in unit.files
        if file.path in rewritten
        or unit.extent.may_be_of(file, unit.schema)
        or (unit.ends_all and may_have_current(file, unit.schema))
    )


def _bucket_count(part: UnitPart) -> int:
    """Number of tasks that merge the versions of a unit."""
    # Rows that are identified by another key than the table has now are no bucket's.
    if not part.unit.is_by_key or (part.unit.earlier and part.unit.keys[1:]):
        return 1
    rewritten = sum(file.size for file in part.unit.rewritten)
    return math.ceil(max(_log_bytes(part) + _file_bytes(part), rewritten, 1) / _VERSIONS_BYTES)


def _parts(undivided: UnitPart, target: int) -> Iterator[UnitPart]:
    """A unit in parts of about so many bytes; all of it where it is not large, or cannot be divided."""
    unit = undivided.unit
    if unit.is_by_key and not unit.buckets:
        yield undivided
        return
    if _log_bytes(undivided) + _file_bytes(undivided) <= 2 * target:
        yield undivided
        return
    # Rows of an XA transaction are numbered one after the other.
    is_ordered = any(map(_has_xa, undivided.slices.values()))
    slices = [undivided.slices] if is_ordered else [*_slices_in_parts(undivided, target)]
    parts = [
        *(UnitPart(unit, slices=of_part) for of_part in slices),
        *(UnitPart(unit, statements=files) for files in packed(undivided.statements, lambda file: file.size, target)),
        *(UnitPart(unit, files=files) for files in packed(undivided.files, lambda file: file.size, target)),
    ]
    yield from (replace(part, is_first=number == 0) for number, part in enumerate(parts))


def _slices_in_parts(undivided: UnitPart, target: int) -> Iterator[dict[int, pa.Table]]:
    for at, table in undivided.slices.items():
        sizes = table.column("bytes").to_pylist()
        begin = filled = 0
        for row, size in enumerate(sizes):
            filled += size
            if filled >= target or row == len(sizes) - 1:
                yield {at: table.slice(begin, row + 1 - begin)}
                begin, filled = row + 1, 0


def _has_xa(slices: pa.Table) -> bool:
    return bool(slices.column("effect_start").null_count < len(slices))


def _log_bytes(part: UnitPart) -> int:
    return sum(pc.sum(table.column("bytes")).as_py() or 0 for table in part.slices.values())


def _file_bytes(part: UnitPart) -> int:
    return sum(file.size for file in (*part.statements, *part.files))


def _distinct_bytes(parts: Sequence[UnitPart]) -> int:
    """Bytes of the slices that units read, those of several once."""
    names = ("data_file", "row_group", "row", "offset")
    sizes: dict[tuple[object, ...], int] = {}
    for table in (table for part in parts for table in part.slices.values()):
        positions = zip(*(table.column(name).to_pylist() for name in names), strict=True)
        sizes.update(zip(positions, table.column("bytes").to_pylist(), strict=True))
    return sum(sizes.values())
