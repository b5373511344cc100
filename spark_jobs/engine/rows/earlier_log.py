"""Log of a table before a job's windows, from which rules get columns that row images omit.

Put here: which log that is, its slices, and the loads that tell of rows. Not here: the values of such columns
(silver/rule_rows.py), or loaded rows (loaded_rows.py).

It is the log of windows that silver has, of the same definition, up to the windows of the job. It begins behind what
changes rows and is not in the log as rows: a statement, a mend, an event in quarantine. A load changes none: it tells
what rows were where nothing of the log since it began is missing.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import pyarrow as pa

from spark_jobs.binlog import TableDefinition
from spark_jobs.bronze.index import OF_TABLE
from spark_jobs.bronze.xa import read_effective
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.engine.rows.loaded_rows import LoadedFiles
from spark_jobs.lake.commit import CommitKind
from spark_jobs.lake.ranges import joined
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob


@dataclass(frozen=True, slots=True)
class LogBefore:
    """The log before windows, and between them.

    loads: of each that tells of rows, from where these count to where the log was when they were complete.
    """

    ranges: tuple[Range, ...]
    loads: tuple[Range, ...] = ()


@dataclass(slots=True)
class _Segment:
    """Windows of one definition that follow each other: where the first one begins, and where each ends.

    loads: those among them. is_last: whether nothing came after them, so that the next window follows too.
    """

    definition: TableDefinition
    start: Position
    stops: list[Position]
    loads: list[Range] = field(default_factory=list)
    is_last: bool = False

    def holds(self, position: Position) -> bool:
        """True if a window that begins there is one of them, or the next."""
        return self.start <= position and (position < self.stops[-1] or (self.is_last and position == self.stops[-1]))


def log_before(
    table: Table,
    definition: TableDefinition,
    ranges: Sequence[Range],
    oldest: Position,
    skips: Collection[Position] = frozenset(),
) -> LogBefore:
    """The log before windows, and between them.

    Args:
        table: of silver.
        definition: of the rows of the windows.
        ranges: the windows.
        oldest: where bronze begins.
        skips: events in quarantine.
    """
    gaps, loads, remaining = list[Range](), list[Range](), joined(ranges)
    # A table that was rebuilt has commits of the same log twice: the newest ones count.
    for segment in reversed([*_segments(_commits(table))]):
        windows = [window for window in remaining if segment.holds(window.start)]
        if segment.definition != definition or not windows:
            continue
        remaining = [window for window in remaining if window not in windows]
        # A change that is left out may have set any column of any row.
        start, last = max(segment.start, oldest), windows[-1].start
        left_out = [skip for skip in skips if start <= skip < last]
        if left_out:
            start = min((stop for stop in segment.stops if stop > max(left_out)), default=last)
        starts, stops = [start, *(window.stop for window in windows)], [*(window.start for window in windows), last]
        between = ((max(start, begin), end) for begin, end in zip(starts, stops, strict=True))
        gaps += [Range(begin, end) for begin, end in between if begin < end]
        loads += [load for load in segment.loads if start <= load.start]
    by_start = attrgetter("start")
    return LogBefore(tuple(sorted(gaps, key=by_start)), tuple(sorted(loads, key=by_start)))


def _commits(table: Table) -> Iterator[SilverCommit]:
    """Silver's commits, oldest first."""
    return (SilverCommit.of(checkpoint) for _, checkpoint in reversed(table.since(-1)))


def _segments(commits: Iterable[SilverCommit]) -> Iterator[_Segment]:
    segment: _Segment | None = None
    outside: Position | None = None
    """Position of the last commit that is in no segment."""
    for commit in commits:
        if commit.kind in (CommitKind.MAINTENANCE, CommitKind.REDO):  # the log is as it was
            continue
        is_load, start = commit.kind == CommitKind.LOAD, commit.start
        # A load comes when silver has all of the table's log up to there.
        is_next = segment and (is_load or (commit.kind == CommitKind.LIVE and start == segment.stops[-1]))
        if segment and is_next and commit.definition == segment.definition:
            segment.stops.append(commit.position)
        else:
            if segment:
                yield segment
                outside = segment.stops[-1]
            segment = None
            if is_load and start and outside and start < outside:
                start = commit.position
            if commit.kind in (CommitKind.LIVE, CommitKind.LOAD) and start and commit.definition:
                segment = _Segment(commit.definition, start, [commit.position])
            else:
                outside = commit.position
        if segment and is_load and commit.start and segment.start <= commit.start:
            segment.loads.append(Range(commit.start, commit.position))
    if segment:
        segment.is_last = True
        yield segment


def slices_before(
    work: CompactionJob, definition: TableDefinition, ranges: Sequence[Range]
) -> tuple[LogBefore, pa.Table]:
    """The log before windows, and its slices: rows of ``bronze.index.OF_TABLE``.

    Raises LakeError, DecodeError.
    """
    bronze, skips = work.window, work.filters.skips
    oldest = bronze.oldest or bronze.extent.start
    before = log_before(work.table, definition, ranges, oldest, skips)
    if not before.ranges:
        return before, OF_TABLE.empty_table()
    within = Range(before.ranges[0].start, before.ranges[-1].stop)
    cuts = {position for part in before.ranges for position in (part.start, part.stop)}
    index = read_effective(bronze.table, bronze.version, within, oldest, cuts)
    return before, index.slices_of_table(work.name, before.ranges, skips)


def loaded_files(table: Table, before: LogBefore) -> tuple[LoadedFiles, ...]:
    """Silver's files with the rows of the loads that tell of rows. Raises LakeError."""
    head = table.head() if before.loads else None
    snapshot = snapshot_of(table.path, head.version) if head else None
    return tuple(LoadedFiles.of(snapshot, load.start, load.stop) for load in before.loads) if snapshot else ()


def newest_slices(slices: pa.Table, limit: int) -> pa.Table:
    """The last ones of slices in the order of the log, of so many bytes or a little more."""
    sizes = np.asarray(slices.column("bytes").to_numpy(), np.int64)
    behind = np.cumsum(sizes[::-1])[::-1] - sizes
    return slices.slice(int(np.count_nonzero(behind >= limit)))


def numbered_from(slices: pa.Table, first: int) -> pa.Table:
    """Slices of ranges that come behind others in a list of so many. slices: rows of ``bronze.index.OF_TABLE``."""
    at = slices.schema.get_field_index("window")
    numbers = np.asarray(slices.column("window").to_numpy(), np.int32) + np.int32(first)
    return slices.set_column(at, slices.schema.field(at), pa.array(numbers))
