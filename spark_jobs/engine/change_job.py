"""Tables that are made of every change (``mode: append``, ``history``), as units of a job; and the log that they read.

Put here: which windows of the log a target has not got, with the target's columns in each, and tasks of their slices.
Not here: what tasks do (change_task.py), which tables come this way (routing.py), commits (downstream_job.py).

Silver's commits say all of it: each is a window with the definition of its rows, or a statement with what it did to the
columns. So one read of the metadata of slices serves all tables of a source.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.bronze.table import BronzeSnapshot, statement_gtids
from spark_jobs.bronze.xa import read_effective
from spark_jobs.config.filters import TableFilters
from spark_jobs.config.modes import Mode
from spark_jobs.delta import schema_changes
from spark_jobs.delta.history import added_since
from spark_jobs.delta.log_files import SparkOnly
from spark_jobs.delta.snapshot import Snapshot, new_table, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import ADDED, MergeJob, SilverDelta
from spark_jobs.downstream.modes import MODE_COLUMNS
from spark_jobs.engine import fills, routing
from spark_jobs.engine.change_task import ChangeTask, ChangeUnit, ChangeWindow, UnitSlices, may_have_current
from spark_jobs.engine.fills import ColumnFill
from spark_jobs.engine.silver_job import has_exact_texts
from spark_jobs.engine.spark_job import Capacity, packed
from spark_jobs.errors import StratalogError
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.log.position import Range
from spark_jobs.silver import masking, schema_evolution
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.retired_columns import types_of
from spark_jobs.silver.row_filters import ChangeFilters

_VERSIONS_BYTES = 64 << 20
"""Bytes of log up to which one task computes the versions of a table."""
_FILLED_BYTES = 64 << 20
"""Bytes of a target's data files up to which one task writes them again with a column that is filled, or with the end
of all versions."""
_LEAST_TASK_BYTES = 2 << 20
_UNIT_BYTES = 128 << 10
"""What a unit costs beside its rows, as bytes of log."""


@dataclass(frozen=True, slots=True)
class ChangedLog:
    """What changes are decoded from: bronze at one version, and the rules about tables."""

    snapshot: BronzeSnapshot
    filters: Callable[[TableName], TableFilters]
    """Raises TableStopped."""

    def index(self, windows: Sequence[Range]) -> SliceIndex:
        """The slices that take effect in windows, or between them. Raises LakeError, DecodeError."""
        extent = Range(min(window.start for window in windows), max(window.stop for window in windows))
        cuts = {place for window in windows for place in (window.start, window.stop)}
        snapshot = self.snapshot
        return read_effective(snapshot.table, snapshot.version, extent, snapshot.oldest, cuts)


class ChangePlan(NamedTuple):
    """A unit, upon a snapshot of its target. design: the target with the metadata that it has after the merge."""

    unit: ChangeUnit
    snapshot: Snapshot
    design: Snapshot


def planned(
    number: int, work: MergeJob, upon: tuple[Head, Snapshot], delta: SilverDelta, log: ChangedLog
) -> ChangePlan | str:
    """A table's merge as a unit, or why Spark SQL takes it. upon: the target as the plan saw it. Raises TableStopped.

    The unit's slices are not read yet: ``tasks_of``.
    """
    # Reasons for Spark SQL that no commit of silver has to be read for, then what the commits say.
    head, _ = upon
    rules = log.filters(work.name)
    reason = routing.why_not_written(upon[1])
    if reason:
        return reason
    try:
        course = _course(work, upon, rules)
        markers = _markers(work, head)
    except StratalogError as error:
        return str(error)
    ends_all = work.mode is Mode.HISTORY and markers is not None
    snapshot = course.begin
    reason = _why_not_in_bronze(course, head, log.snapshot) or _why_too_large(work, delta, snapshot, ends_all=ends_all)
    if reason:
        return reason
    if course.design.schema.spark_types != work.stored:
        return "its columns are others than silver's"
    unit = ChangeUnit(
        number=number,
        name=str(work),
        mode=work.mode,
        columns=work.columns,
        windows=course.windows,
        target=work.target.path,
        schema=course.design.schema,
        configuration=course.design.configuration,
        files=snapshot.files,
        rewrites=bool(course.fills) or not snapshot.has_deletion_vectors,
        fills=course.fills,
        skips=rules.skips,
        origin=work.origin.path,
        origin_schema=markers.schema if markers else None,
        markers=markers.files if markers else (),
        statement_gtids=_statement_gtids(work, head, log.snapshot) if markers else {},
        after=head.position,
        ends_all=ends_all,
    )
    return ChangePlan(unit, snapshot, course.design)


def _why_not_in_bronze(course: "_Course", head: Head, bronze: BronzeSnapshot) -> str | None:
    """Why a target's windows are not all that bronze has of the table; None where they are."""
    if not course.windows:
        return None
    start, stop = course.windows[0].ranges[0].start, course.windows[-1].ranges[-1].stop
    has_older = head.design is not None and bronze.oldest < bronze.begin
    # Another run may have extracted and compacted more since bronze was looked at.
    is_other = start < bronze.complete_from or bronze.end < stop or has_older
    return "bronze has less or more of its log than silver" if is_other else None


def _why_too_large(work: MergeJob, delta: SilverDelta, snapshot: Snapshot, *, ends_all: bool) -> str | None:
    """Why one task cannot compute the versions of a table; None where it can. ends_all: whether all of them end."""
    if work.mode is not Mode.HISTORY:
        return None
    if delta.size > _VERSIONS_BYTES:
        return "more was changed than a task takes"
    current = [file for file in snapshot.files if may_have_current(file, snapshot.schema)]
    if ends_all and sum(file.size for file in current) > _FILLED_BYTES:
        return "a statement emptied a large table, and all versions end"
    return None


@dataclass(slots=True)
class _Course:
    """The target's columns through silver's commits: where it begins, what each window has, and how it is after."""

    begin: Snapshot
    design: Snapshot
    windows: tuple[ChangeWindow, ...] = ()
    fills: tuple[ColumnFill, ...] = ()
    _designs: list[Snapshot] = field(default_factory=list)
    """Of each window, to tell whether the next one has the same."""

    def add_window(
        self, definition: TableDefinition, range_: Range, rules: TableFilters, known_columns: frozenset[str]
    ) -> None:
        last = self.windows[-1] if self.windows else None
        is_same = last and last.definition == definition and self._designs[-1] is self.design
        if last and is_same and last.first_fill == len(self.fills):
            self.windows = (*self.windows[:-1], replace(last, ranges=(*last.ranges, range_)))
            return
        window = ChangeWindow(
            definition=definition,
            ranges=(range_,),
            schema=self.design.schema,
            first_fill=len(self.fills),
            masks=masks_of(definition, rules.columns) or None,
            filters=ChangeFilters.of(rules, definition, known_columns) or None,
        )
        self.windows = (*self.windows, window)
        self._designs.append(self.design)

    def add_step(self, step: str) -> None:
        """One change of the columns. Raises SparkOnly, LakeError."""
        if step.endswith(schema_evolution.OF_EXACT):
            # It changes nothing where no row has an exact text.
            if any(has_exact_texts(self.begin, file) for file in self.begin.files):
                raise SparkOnly("a statement changes columns that rows have exact texts of")
            self.windows = tuple(replace(window, needs_no_exact=True) for window in self.windows)
            return
        plain, filled = fills.split([step])
        self.design = schema_changes.apply(self.design, plain) if plain else self.design
        self.fills += fills.fills_of(self.design, filled)

    def settled(self) -> "_Course":
        """With the fills of columns that are there at the end, by the names that they have then."""
        behind = {column.physical_name: column for column in self.design.schema.columns}
        is_left = [fill.column.physical_name in behind for fill in self.fills]
        self.windows = tuple(replace(window, first_fill=sum(is_left[: window.first_fill])) for window in self.windows)
        self.fills = tuple(
            replace(fill, column=behind[fill.column.physical_name])
            for fill, stays in zip(self.fills, is_left, strict=True)
            if stays
        )
        return self


def _course(work: MergeJob, upon: tuple[Head, Snapshot], rules: TableFilters) -> _Course:
    """Windows and columns by the commits that the target has not got. Raises SparkOnly, LakeError, TableStopped."""
    head, snapshot = upon
    commits = _commits(work, head)
    if head.design and commits:
        snapshot = _first_snapshot(work, head, commits, rules)
    # Each commit is a window, or a statement that leaves other columns to the windows after it.
    course, known_columns = _Course(snapshot, snapshot), {*(commits[-1].known_columns or ())} if commits else set()
    for commit in commits:
        if commit.kind == CommitKind.LIVE:
            assert commit.definition
            assert commit.start
            range_ = Range(commit.start, commit.position)
            known_columns |= {str(column.name).casefold() for column in commit.definition.columns}
            course.add_window(commit.definition, range_, rules, frozenset(known_columns))
        for step in commit.steps or () if commit.kind == CommitKind.CHANGE else ():
            course.add_step(step)
    if course.fills and sum(file.size for file in snapshot.files) > _FILLED_BYTES:
        raise SparkOnly("a statement fills a column of a large table")
    return course.settled()


def _commits(work: MergeJob, head: Head) -> list[SilverCommit]:
    """Silver's commits that the target has not got, oldest first. Raises SparkOnly."""
    last = DownstreamCommit.of_head(head)
    merged = last.silver_version if last else -1
    listed = work.origin.since(max(-1, merged - 1))
    # A new target needs all of silver's commits; of others the commit that was merged shows that none is missing.
    if not listed or listed[-1][0] != max(0, merged):
        raise SparkOnly("the log of silver does not have all commits any more that the target has not got")
    commits = [
        SilverCommit.of(checkpoint)
        for version, checkpoint in reversed(listed)
        if merged < version <= work.pinned.version
        and checkpoint.kind not in (CommitKind.ALTERING, CommitKind.MAINTENANCE)
    ]
    reason = next((reason for commit in commits if (reason := routing.why_not_next(commit))), None)
    if reason:
        raise SparkOnly(reason)
    return commits


def _first_snapshot(work: MergeJob, head: Head, commits: Sequence[SilverCommit], rules: TableFilters) -> Snapshot:
    """The target that the first commit makes, with the columns of the first window. Raises SparkOnly, TableStopped."""
    first = commits[0]
    if first.kind != CommitKind.LIVE:
        raise SparkOnly("it begins with a statement")
    assert first.definition
    assert head.design
    columns = masking.columns_seen(first.definition, rules.columns)
    columns = masking.with_retired(columns, types_of(first.retired_columns))
    types = {**columns.types, **ADDED, **MODE_COLUMNS[work.mode]}
    return new_table(work.target.path, types, head.design.properties)


def _markers(work: MergeJob, head: Head) -> Snapshot | None:
    """Silver with the files that may say that a statement emptied it since; None where none did. Raises SparkOnly."""
    if work.floor is None or (head.position and work.floor < head.position):
        return None
    origin = snapshot_of(work.origin.path, work.pinned.version)
    assert origin is not None
    last = DownstreamCommit.of_head(head)
    new = added_since(work.origin.path, last.silver_version, work.pinned.version) if last else None
    if last and new is None:
        raise SparkOnly("the log of silver does not have all commits any more that the target has not got")
    return origin if new is None else origin.with_files(new)


def _statement_gtids(work: MergeJob, head: Head, bronze: BronzeSnapshot) -> dict[tuple[int, int, int], str]:
    """GTIDs of the statements that the target has not got, by where they stand; of tables that show them."""
    if work.mode is not Mode.APPEND or work.pinned.position is None:
        return {}
    return statement_gtids(bronze, Range(head.position or bronze.earliest, work.pinned.position))


def tasks_of(units: Sequence[tuple[TableName, ChangeUnit]], log: ChangedLog, capacity: Capacity) -> list[ChangeTask]:
    """Units packed by the bytes of their slices, a large one with mode append in parts.

    Raises LakeError, DecodeError.
    """
    windows = [range_ for _, unit in units for window in unit.windows for range_ in window.ranges]
    index = log.index(windows) if windows else None
    undivided: list[UnitSlices] = []
    for name, unit in units:
        tables = [index.of_table(name, window.ranges, unit.skips) for window in unit.windows] if index else []
        undivided.append(UnitSlices(unit, {at: table for at, table in enumerate(tables) if len(table)}))
    # Slices hold rows of several tables, and a task reads each once.
    size = sum(map(_bytes, undivided))
    shared = _distinct_bytes(undivided) / max(1, size)
    target = capacity.share(int(shared * size) + len(undivided) * _UNIT_BYTES, _LEAST_TASK_BYTES)
    parts = (part for unit_slices in undivided for part in _parts(unit_slices, target))
    groups = packed(parts, lambda part: shared * _bytes(part) + _UNIT_BYTES, target)
    return [ChangeTask(log.snapshot.table.path, group) for group in groups]


def _parts(unit_slices: UnitSlices, target: int) -> Iterator[UnitSlices]:
    """A unit's slices in parts of about so many bytes; all of them where it is not large, or cannot be divided."""
    unit = unit_slices.unit
    # Versions are of all changes of a key, and rows of an XA transaction are numbered one after the other.
    if unit.mode is Mode.HISTORY or any(map(_has_xa, unit_slices.slices.values())) or _bytes(unit_slices) <= 2 * target:
        yield unit_slices
        return
    number = 0
    for at, table in unit_slices.slices.items():
        sizes = table.column("bytes").to_pylist()
        begin = filled = 0
        for row, size in enumerate(sizes):
            filled += size
            if filled >= target or row == len(sizes) - 1:
                yield UnitSlices(replace(unit, is_part=number > 0), {at: table.slice(begin, row + 1 - begin)})
                begin, filled, number = row + 1, 0, number + 1


def _has_xa(slices: pa.Table) -> bool:
    return bool(slices.column("effect_start").null_count < len(slices))


def _bytes(part: UnitSlices) -> int:
    return sum(pc.sum(table.column("bytes")).as_py() or 0 for table in part.slices.values())


def _distinct_bytes(parts: Sequence[UnitSlices]) -> int:
    """Bytes of the slices that units read, those of several once."""
    names = ("data_file", "row_group", "row", "offset")
    sizes: dict[tuple[object, ...], int] = {}
    for table in (table for part in parts for table in part.slices.values()):
        places = zip(*(table.column(name).to_pylist() for name in names), strict=True)
        sizes.update(zip(places, table.column("bytes").to_pylist(), strict=True))
    return sum(sizes.values())
