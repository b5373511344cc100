"""The tables of a delivery in a range of their source's log: their definitions there, and the statements about them.

Put here: which tables of a source are delivered in order, up to where, and their timelines. Not here: their rows
(log_changes.py), or what a statement does at the target (target_state.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from spark_jobs.binlog import TableName
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.bronze.table import BronzeSnapshot, require_held
from spark_jobs.config.model import Pipeline
from spark_jobs.delivery import progress
from spark_jobs.delivery.lake_table import LakeTable, positions_of, published
from spark_jobs.delivery.target import Connection
from spark_jobs.downstream import publication
from spark_jobs.errors import DeliveryError, about
from spark_jobs.lake.commit import CommitKind
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.planning_context import PlanningContext, filters_of
from spark_jobs.silver.rename_lineage import RenameLineage, own_base
from spark_jobs.silver.table_timeline import TableState
from spark_jobs.silver.timeline.build import build
from spark_jobs.silver.timeline.inputs import position_of_rows


@dataclass(frozen=True, slots=True)
class OrderedTable:
    """A source table that is delivered in order.

    since: the target has what stands before it. end: up to where the lake has the table.
    """

    name: TableName
    into: LakeTable
    since: Position
    end: Position


def require_ordered(tables: Iterable[LakeTable], label: str) -> None:
    """Check that the rows of each table come from one log. Raises DeliveryError."""
    for table in tables:
        if table.into.is_shared:
            raise DeliveryError(
                f"{label}: {table} has keys that several sources share, and their logs have no common order; leave it "
                "out of tables:, or deliver it by apply: net"
            )


def published_positions(
    lake: Lake, source: str, tables: Sequence[LakeTable]
) -> list[tuple[TableName, LakeTable, Position]]:
    """The source tables of downstream tables, and the position up to which each is published there."""
    entries = {TableName(*entry.name): entry for entry in publication.read(lake, source)}
    listed = []
    for table in tables:
        for origin, name in table.origins:
            text = entries[name].reached((table.schema, table.name)) if origin == source and name in entries else None
            if text:
                listed.append((name, table, Position.parse(text)))
    return listed


def require_log_alone(lake: Lake, source: str, table: OrderedTable, version: int | None) -> None:
    """Check that silver's commits after a version contain rows of the log alone: no load, replay or reset.

    Raises DeliveryError.

    version: of silver, as it was delivered; None where that is not known.
    """
    origin = lake.silver(source, table.name.schema, table.name.table)
    kinds_elsewhere = {
        CommitKind.LOAD: "loaded",
        CommitKind.MEND: "mended",
        CommitKind.REDO: "replayed",
        CommitKind.RESET: "rebuilt",
    }
    for _, commit in origin.since(version) if version is not None else ():
        if commit.kind in kinds_elsewhere:
            raise DeliveryError(
                f"{source}: {table.name}: its rows in the lake were {kinds_elsewhere[CommitKind(commit.kind)]} since "
                "they were "
                "delivered, which the log does not say; deliver the table from the beginning: stratalog deliver "
                f"--reload --table {table.into} --yes"
            )


@dataclass(frozen=True, slots=True)
class Logged:
    """The tables of one source in a range of its log.

    index: the slices that take effect in it. jobs: by table its timeline, as a job of compaction would have it.
    """

    snapshot: BronzeSnapshot
    within: Range
    index: SliceIndex
    tables: tuple[OrderedTable, ...]
    jobs: tuple[CompactionJob, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, lake: Lake, source: str, within: Range, tables: Sequence[OrderedTable]) -> "Logged":
        """The tables with the timeline of each in a range of the log. Raises LakeError, TableStopped, DecodeError."""
        # One scan of the log for all tables; each has a timeline of its own, from where the target has it on.
        snapshot = BronzeSnapshot.of(lake, source)
        require_held(source, snapshot.checkpoint, within.start)
        context = PlanningContext.of(pipeline, lake, snapshot)
        cuts = {within.start, within.stop, *(table.since for table in tables)}
        index, scan = scan_effective(snapshot.table, snapshot.version, within, snapshot.oldest, cuts)
        inputs = replace(RenameLineage(context).inputs(index), first_row_position=position_of_rows(index))
        jobs = []
        for table in tables:
            log_range = Range(min(max(within.start, table.since), within.stop), within.stop)
            origin = lake.silver(source, table.name.schema, table.name.table)
            state = state_at(origin, log_range.start)
            own_inputs = replace(inputs, base=partial(own_base, origin, state), why_not=_WHY_NOT)
            with about(f"{source}: {table.name}"):
                contents = build(scan, table.name, log_range, state, own_inputs)
            window = Window(snapshot.table, snapshot.version, (log_range,), xa=scan.xa)
            filters = filters_of(context.filters, source, table.name)
            jobs.append(
                CompactionJob(source, table.name, window, contents.steps, origin, origin.head(), 0, filters=filters)
            )
        return cls(snapshot, within, index, tuple(tables), tuple(jobs))


def state_at(table: Table, position: Position) -> TableState | None:
    """State of a table at a position, by the newest commit of silver that is not after it; None without one."""
    commits = (SilverCommit.of(commit) for _, commit in table.since(-1))
    commit = next((commit for commit in commits if commit.position <= position), None)
    return TableState.of(commit) if commit else None


_WHY_NOT = "the table is delivered in order, and a column that restarts has no log of its own"


def needed_from(pipeline: Pipeline, lake: Lake, name: str, source: str) -> Position | None:
    """Position from which a delivery in order needs a source's log; None where it needs none. Raises DeliveryError."""
    settings = pipeline.deliveries[name]
    if settings.apply != "ordered":
        return None
    tables = [table for table in published(pipeline, lake) if settings.scope.holds(table.schema, table.name)]
    tables = [table for table in tables if any(origin == source for origin, _ in table.origins)]
    if not tables:
        return None
    with Connection(name, settings.mysql) as connection:
        rows = progress.progress_by_table(connection, name) if progress.exists(connection) else {}
    # The log's own row; before there is one, the tables' positions: of a table whose first copy still runs that of the
    # version that is copied, since the log from there on follows.
    log, _ = rows.get(("", source), (None, None))
    if log and log.position:
        return Position.parse(log.position)
    stored = [(table, rows[table.schema, table.name][0]) for table in tables if (table.schema, table.name) in rows]
    positions = [
        position
        for table, row in stored
        for position in positions_of(row.position or row.exit_position, table).values()
    ]
    return min(positions, default=None)
