"""A table's log before the windows of a job: what rules know columns by that row images leave out.

Put here: which log that is, and its slices. Not here: the values of such columns (silver/rule_rows.py).

It is the log of windows that silver has, of the same definition, up to the windows of the job. It begins behind what
changes rows and is not in the log as rows: a statement, rows that a load or a mend read, an event in quarantine.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.binlog import TableDefinition
from spark_jobs.bronze.xa import read_effective
from spark_jobs.lake.commit import CommitKind
from spark_jobs.lake.ranges import joined
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob


@dataclass(slots=True)
class _Segment:
    """Windows of one definition that follow each other: where the first one begins, and where each ends.

    is_last: whether nothing came after them, so that the next window follows too.
    """

    definition: TableDefinition
    start: Position
    stops: list[Position]
    is_last: bool = False


def earlier_ranges(
    table: Table,
    definition: TableDefinition,
    ranges: Sequence[Range],
    oldest: Position,
    skips: Collection[Position] = frozenset(),
) -> tuple[Range, ...]:
    """The log before windows, and between them.

    Args:
        table: of silver.
        definition: of the rows of the windows.
        ranges: the windows.
        oldest: where bronze begins.
        skips: events in quarantine.
    """
    windows = joined(ranges)
    last = windows[-1].start
    segment = next(
        (
            segment
            for segment in reversed([*_segments(_commits(table))])
            if segment.definition == definition
            and segment.start < last
            and (last < segment.stops[-1] or (segment.is_last and last == segment.stops[-1]))
        ),
        None,
    )
    if segment is None:
        return ()
    # A change that is left out may have set any column of any row.
    start = max(segment.start, oldest)
    left_out = [skip for skip in skips if start <= skip < last]
    if left_out:
        start = min((stop for stop in segment.stops if stop > max(left_out)), default=last)
    starts, stops = [start, *(window.stop for window in windows)], [*(window.start for window in windows), last]
    gaps = (Range(max(start, begin), end) for begin, end in zip(starts, stops, strict=True) if max(start, begin) < end)
    return tuple(gaps)


def _commits(table: Table) -> Iterator[SilverCommit]:
    """Silver's commits, oldest first."""
    return (SilverCommit.of(checkpoint) for _, checkpoint in reversed(table.since(-1)))


def _segments(commits: Iterable[SilverCommit]) -> Iterator[_Segment]:
    segment: _Segment | None = None
    for commit in commits:
        if commit.kind in (CommitKind.MAINTENANCE, CommitKind.REDO):  # the log is as it was
            continue
        is_next = segment and commit.kind == CommitKind.LIVE and commit.start == segment.stops[-1]
        if segment and is_next and commit.definition == segment.definition:
            segment.stops.append(commit.position)
            continue
        if segment:
            yield segment
        segment = None
        if commit.kind == CommitKind.LIVE and commit.start and commit.definition:
            segment = _Segment(commit.definition, commit.start, [commit.position])
    if segment:
        segment.is_last = True
        yield segment


def slices_before(
    work: CompactionJob, definition: TableDefinition, ranges: Sequence[Range]
) -> tuple[tuple[Range, ...], pa.Table] | None:
    """The log before windows, and its slices: rows of ``bronze.index.OF_TABLE``. None where there is none.

    Raises LakeError, DecodeError.
    """
    bronze, skips = work.window, work.filters.skips
    oldest = bronze.oldest or bronze.extent.start
    parts = earlier_ranges(work.table, definition, ranges, oldest, skips)
    if not parts:
        return None
    within = Range(parts[0].start, parts[-1].stop)
    cuts = {position for part in parts for position in (part.start, part.stop)}
    index = read_effective(bronze.table, bronze.version, within, oldest, cuts)
    return parts, index.of_table(work.name, parts, skips)


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
