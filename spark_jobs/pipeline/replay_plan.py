"""Plan of a replay for one table: the job, or why the range cannot be replayed.

Put here: the windows, timeline and rules of the job. Not here: which windows the range touches (replay_windows.py), or
doing it (backfill/replay.py).
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.bronze.xa import Xa
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import LakeError, TableStopped, about
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.destinations import why_not_anew
from spark_jobs.pipeline.replay_windows import (
    TouchedWindows,
    naming_statement,
    ranges_of_gaps,
    touched_windows,
)
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.planning_context import PlanningContext, filters_of
from spark_jobs.silver.rename_lineage import RenameLineage
from spark_jobs.silver.table_timeline import SchemaChange, TableContents, TimelineStep
from spark_jobs.silver.timeline.build import build as content_at_end
from spark_jobs.silver.timeline.inputs import ReplayState

log = logging.getLogger(__name__)


def floor_above(head: Head | None, log_range: Range) -> Position | None:
    """The floor of a table, where a range begins below it."""
    floor = silver.fold_floor(head)
    return floor if floor and log_range.start < floor else None


class NeedsEarlierLog(LakeError):
    """A window that a range touches begins before bronze does."""

    def __init__(self, begin: Position) -> None:
        super().__init__(f"a window of the range begins at {begin}, before bronze does")
        self.begin = begin


def plan_table(
    pipeline: Pipeline,
    snapshot: BronzeSnapshot,
    name: TableName,
    head: Head | None,
    *,
    log_range: Range,
    has_inherited: bool = True,
) -> CompactionJob | None:
    """Replay of a table whose silver is at ``head``; None where the range has none of its rows.

    has_inherited: whether rows that came with the table's name are too.
    """
    # Windows of silver that the range touches, gaps between them, and the statement that gave the table its name.
    lake = lake_of(pipeline)
    context = replace(PlanningContext.of(pipeline, lake, snapshot), by_log=True)
    table = lake.silver(snapshot.source, name.schema, name.table)
    _require_unfolded(snapshot.source, name, head, log_range)
    filters = filters_of(context.filters, snapshot.source, name)
    touched = touched_windows(snapshot, table, head, log_range, is_ruled=bool(filters))
    log_stretches = stretches(snapshot.checkpoint)
    naming = naming_statement(table, head, log_range, log_stretches) if head and has_inherited else None
    if head is None or (touched is None and naming is None):
        log.info("%s: %s: has no window in %s", snapshot.source, name, log_range)
        return None
    assert head.position is not None, "a table with windows has a commit of ours"
    touched = touched or TouchedWindows(())
    begin = min(window.start for window in (*touched.windows, *touched.gaps, *([naming] if naming else [])))
    if begin < snapshot.complete_from:
        raise NeedsEarlierLog(begin)

    # The timeline from there on, and the windows and gaps that have rows in it.
    why_not = why_not_anew(pipeline, snapshot.source, name)
    contents, xa = _timeline(context, name, table, head, begin=begin, why_not=why_not)
    steps = contents.steps
    with about(f"{snapshot.source}: {name}"):
        repeated = naming if naming and _is_repeated(name, steps, naming, log_range) else None
    ranges = sorted(
        (*touched.windows, *ranges_of_gaps(touched.gaps, steps)), key=lambda log_range: log_range.start.order
    )
    if not ranges and repeated is None:
        log.info("%s: %s: has no row in %s", snapshot.source, name, log_range)
        return None
    bounds = frozenset(position for log_range in ranges for position in (log_range.start, log_range.stop))
    window = Window(snapshot.table, snapshot.version, tuple(ranges), snapshot.oldest, xa, bounds)
    work = CompactionJob(
        snapshot.source, name, window, steps, table, head, contents.size, replay=repeated, filters=filters
    )
    state = contents.state if ranges and ranges[0].start < snapshot.begin else None
    return replace(work, is_whole=touched.is_whole, state=state)


def _is_repeated(name: TableName, steps: Sequence[TimelineStep], naming: Range, log_range: Range) -> bool:
    """True if rows that came with the table's name are of the range. Raises LakeError where some are from before it."""
    inherited = next(
        (step.inherited for step in steps if isinstance(step, SchemaChange) and step.range == naming), None
    )
    return inherited is not None and _inherited_since(name, inherited, log_range) < log_range.stop


def _timeline(
    context: PlanningContext, name: TableName, table: Table, head: Head, *, begin: Position, why_not: str | None
) -> tuple[TableContents, Xa]:
    """The timeline of a table from a position to silver's end, and the XA transactions that it commits.

    why_not: why none of its columns is retired.
    """
    snapshot = context.snapshot
    assert head.position is not None
    snapshot.require_log(head.position)  # statements that it lacks would be missing in the timeline
    full_range = Range(begin, head.position)
    # Silver may have stopped inside a slice: what comes after that is no part of the range.
    slices, scan = scan_effective(snapshot.table, snapshot.version, full_range, snapshot.oldest, {begin, head.position})
    with about(f"{snapshot.source}: {name}"):
        context = replace(context, numbers=context.numbers or silver.is_numbered(head))
        inputs = replace(
            RenameLineage(context).inputs(slices),
            why_not=why_not,
            is_keyless=silver.stored_columns(table, head).is_keyless,
            replay=ReplayState(SilverCommit.of(head.checkpoint).emptied_at if head.checkpoint else None),
            first_definition=_definition_at(table, begin),
        )
        contents = content_at_end(scan, name, full_range, None, inputs)
        if silver.is_numbered(head) and not contents.state.is_numbered:
            raise TableStopped(
                "its columns are numbered in the lake (on_unnamed: number), and have names now; rebuild it with "
                f"them (stratalog reset --source {snapshot.source} --table {name})"
            )
    return contents, scan.xa


def _require_unfolded(source: str, name: TableName, head: Head | None, log_range: Range) -> None:
    """Check that no window of the range was folded: a part of a snapshot cannot be replayed. Raises LakeError."""
    floor = floor_above(head, log_range)
    if floor:
        raise LakeError(
            f"{source}: {name}: its windows before {floor} are folded into one, and are not replayed, whatever "
            f"bronze holds: begin the range at {floor} or later. With copies of the log from before all of its rows "
            f"in bronze (stratalog extract --source {source} --archive DIR) the whole table can be rebuilt: stratalog "
            f"reset --source {source} --table {name}"
        )


def _definition_at(table: Table, begin: Position) -> TableDefinition | None:
    """The definition that rows at a position were compacted by; None where no commit says it any more."""
    commits = (commit for _, commit in table.since(-1) if commit.kind == CommitKind.LIVE)
    windows_there = (commit for commit in commits if commit.position > begin)
    first = min(windows_there, key=lambda commit: commit.position, default=None)
    commit = SilverCommit.of(first) if first else None
    return commit.definition if commit and commit.start and commit.start <= begin else None


def _inherited_since(name: TableName, inherited: TableContents, log_range: Range) -> Position:
    """Position from which on the log has the rows that came with a name. Raises LakeError where some are older."""
    content = inherited.alive
    starts = [content.since]
    starts += [
        _inherited_since(name, step.inherited, log_range)
        for step in content.steps
        if isinstance(step, SchemaChange) and step.inherited
    ]
    if content.base and log_range.start < content.since:
        owner = "it had when its key changed" if content.name == name else f"{content.name} had"
        raise LakeError(
            f"{name}: it has the rows that {owner}, and those from before {content.since} come from "
            f"{'its own' if content.name == name else 'that table'}'s silver as it was then; begin the range there or "
            "later"
        )
    return min(starts)
