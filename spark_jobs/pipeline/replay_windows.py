"""Windows of a silver table in a range of the log.

Put here: the windows that silver shows, gaps between them that may have rows, the statement that brought rows with a
name. Not here: what is to be done with them (replay_plan.py, backfill/replay.py).

A range is snapped outward to whole windows. A table under rules may have no row of a window of which they left out all
changes: what lies between the windows that silver shows counts too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import DataRange, TimelineStep
from spark_jobs.silver.windows import windows_at


def windows(table: Table, head: Head, log_range: Range, log_stretches: Sequence[Stretch] = ()) -> tuple[Range, ...]:
    """The windows of a silver table that a range touches, in order; none where its rows lie elsewhere.

    log_stretches: the log index, for the names of files.
    """
    positions = windows_at(table, head.version)
    ranges = [
        Range(*(position_of_stored(position, log_range, log_stretches) for position in window)) for window in positions
    ]
    touched = (window for window in ranges if window.overlaps(log_range))
    return tuple(sorted(touched, key=lambda window: window.start.order))


def position_of_stored(position: Sequence[int], like: Range, log_stretches: Sequence[Stretch] = ()) -> Position:
    """A stored position as a position; silver keeps numbers, and the files of a stretch share their base name."""
    stretch, number, offset = position
    if len(log_stretches) > 1:
        return Position(log_stretches[stretch - 1].file(number), offset, stretch)
    base, _, digits = like.start.file.rpartition(".")
    return Position(f"{base}.{number:0{len(digits)}d}", offset, stretch)


def naming_statement(table: Table, head: Head, log_range: Range, log_stretches: Sequence[Stretch]) -> Range | None:
    """The statement by which the table has its name, where it has rows of before and the range may touch them."""
    commit = SilverCommit.of_head(head)
    emptied = commit.emptied_at if commit else None
    if emptied is None:
        return None
    renames = windows_at(table, head.version, (silver.Op.RENAME,))
    ends = [position_of_stored(stop, log_range, log_stretches) for start, stop in renames if start == emptied.order]
    return next((Range(emptied, stop) for stop in ends if log_range.start < stop), None)


@dataclass(frozen=True, slots=True)
class TouchedWindows:
    """Windows of a table that a range touches: those that silver shows, and gaps between them that may have rows.

    These lie between windows of a table under rules, and of any table before the first extraction, whose windows are
    all after that.

    is_whole: it is all that the table has of the log.
    """

    windows: tuple[Range, ...]
    gaps: tuple[Range, ...] = ()
    is_whole: bool = False


def touched_windows(
    snapshot: BronzeSnapshot, table: Table, head: Head | None, log_range: Range, *, is_ruled: bool
) -> TouchedWindows | None:
    """None where the range touches nothing."""
    # A table that has no checkpoint takes the whole range.
    if head is None or head.position is None:
        return TouchedWindows((log_range,)) if head else None
    # Windows and gaps as far as silver and bronze still have them; folded windows cannot be replayed.
    begin, oldest = snapshot.earliest, snapshot.oldest
    floor = silver.fold_floor(head)
    oldest, complete_from = max(oldest, floor or oldest), snapshot.complete_from
    all_windows = windows(table, head, Range(begin, max(head.position, begin)), stretches(snapshot.checkpoint))
    commit = SilverCommit.of_head(head)
    # Rules may have left a window without rows, so that gaps are windows too; only with all of them is the replay
    # whole.
    is_ruled = is_ruled or (commit is not None and commit.rule_digests is not None)
    looked_for = head.position if is_ruled else snapshot.begin
    gaps = _gaps_between(all_windows, Range(oldest, max(looked_for, oldest)))
    touched = tuple(window for window in all_windows if window.overlaps(log_range))
    between = tuple(gap for gap in gaps if gap.overlaps(log_range))
    if not is_ruled:
        return TouchedWindows(touched, between) if touched or between else None
    is_all = len(touched) + len(between) == len(all_windows) + len(gaps) and all(
        window.start >= complete_from for window in all_windows
    )
    is_whole = is_all and floor is None
    return TouchedWindows(touched, between, is_whole) if touched or between else None


def _gaps_between(present: Sequence[Range], log_range: Range) -> list[Range]:
    """Gaps between windows, of a part of the log."""
    starts = [log_range.start, *(window.stop for window in present)]
    stops = [*(window.start for window in present), log_range.stop]
    between = (
        (max(start, log_range.start), min(stop, log_range.stop)) for start, stop in zip(starts, stops, strict=True)
    )
    return [Range(start, stop) for start, stop in between if start < stop]


def ranges_of_gaps(gaps: Sequence[Range], steps: Sequence[TimelineStep]) -> Iterator[Range]:
    """The parts of gaps that have rows of one definition each."""
    for gap in gaps:
        for step in (step for step in steps if isinstance(step, DataRange)):
            start, stop = max(gap.start, step.range.start), min(gap.stop, step.range.stop)
            if start < stop:
                yield Range(start, stop)
