"""Plans of tables in which equal keys of several source tables are one row (``keys: shared``).

Put here: what a task has to know of such a merge, and of the source tables that take part. Not here: what it does
(shared_merge.py), which tables can share keys (downstream/shared_keys.py), or the target's columns (part_merge.py).

Rows of silver are read with the names and the types that the downstream table has, so that keys of several sources are
compared as one type.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spark_jobs.delta.schema import PHYSICAL_NAME, DeltaColumn, TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.downstream.commit_clock import Clock
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta
from spark_jobs.downstream.multi_source import Owner, Part, SharedPart
from spark_jobs.downstream.shared_keys import SharedSources
from spark_jobs.engine.merge.order_times import OrderTimes
from spark_jobs.engine.merge.part_merge import part_schema
from spark_jobs.engine.rows.restatement import Restatement, SilverSource
from spark_jobs.engine.target.target_unit import TargetUnit
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Head
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit


@dataclass(frozen=True, slots=True)
class Side:
    """A source table's silver at one version, and its source's order times."""

    owner: Owner
    silver: SilverSource
    """The source table's silver; its columns have the names and types of the downstream table."""
    columns: tuple[str, ...]
    """Columns that the source table has, under the downstream table's names."""
    files: tuple[DataFile, ...]
    """Silver's files that may have the last change of a key."""
    marker_files: tuple[DataFile, ...]
    """Silver's files that may say that a statement emptied the table."""
    times: OrderTimes

    def __str__(self) -> str:
        source, schema, table = self.owner
        return f"{source}: {schema}.{table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedUnit(TargetUnit):
    """A merge of a source table that has keys in common with others, or one range of its keys.

    It has no fills: where a statement fills columns, all of silver is merged.
    """

    key: tuple[str, ...]
    sides: tuple[Side, ...]
    """Sides of all source tables, that of the merged one first."""
    pending: tuple[DataFile, ...]
    """Files of the merged source table's silver of which the keys are touched."""
    after: Position | None
    """Windows before it touch none."""
    restatement: Restatement | None
    """Changes of its silver other than by windows appended."""
    is_total: bool
    """True if the merge is about all keys of all sources, and replaces all rows of the target."""
    part: int = 0
    parts: int = 1
    """Number of the range of the keys, of how many."""
    defers: bool = False

    @property
    def size(self) -> int:
        """Bytes that are read of silver for the keys."""
        return sum(file.size for _, file in self.sources)

    @property
    def changes_files(self) -> bool:
        """True if files of the target may be written again."""
        return self.rewrites

    @property
    def sources(self) -> Iterator[tuple[SilverSource, DataFile]]:
        """The files of which keys are touched."""
        if not self.is_total:
            removed = self.restatement.removed if self.restatement else ()
            yield from ((self.sides[0].silver, file) for file in (*removed, *self.pending))
            return
        for side in self.sides:
            yield from ((side.silver, file) for file in side.files)


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Basis of a plan for a source table that shares keys.

    delta: what silver has that the target has not. design: the target with the columns that it is to have. origin: the
    silver table. lacking: its files that the target has not got, and what else changed; None where that cannot be told.
    """

    delta: SilverDelta
    design: Snapshot
    origin: Snapshot
    lacking: tuple[tuple[DataFile, ...], Restatement | None] | None


def planned(
    number: int, work: MergeJob, upon: tuple[Head, Snapshot], plan: SharedPlan, sources: SharedSources
) -> SharedUnit:
    """The unit of a source table. upon: the target as the plan saw it. Raises TableStopped, LakeError."""
    (head, snapshot), target, origin = upon, work.target, plan.origin
    assert isinstance(target, SharedPart)
    # A statement that emptied the table since is about all of its keys, and with a replay about all of everybody's.
    files, restatement = plan.lacking or (origin.files, None)
    is_emptied = bool(work.floor and head.position and work.floor >= head.position)
    is_unknown = plan.lacking is None or (is_emptied and restatement is not None)
    is_total = bool(head.design) or plan.delta.is_renewed or is_unknown
    takes_all = is_total or is_emptied
    pending = origin.files if takes_all else files
    schema = part_schema(plan.design.schema, work.columns.types)
    # Of keys in new windows the last change is there; markers matter where older rows are looked at.
    is_live = not takes_all and restatement is None
    own_side = Side(
        owner=target.owner,
        silver=_silver_source(origin, work.columns, schema),
        columns=tuple(work.columns.types),
        files=tuple(pending if is_live else origin.files),
        marker_files=tuple(origin.files) if work.floor and not (is_live and head.position) else (),
        times=_times(sources.clock(work.source, work.pinned.position)),
    )
    # The unit holds values alone, since it is pickled for a task.
    return SharedUnit(
        number=number,
        name=str(work),
        key=tuple(sorted(work.columns.key)),
        sides=(own_side, *(_side_of(part, schema, sources) for part in target.other_parts(head))),
        pending=tuple(pending),
        after=None if takes_all else head.position,
        restatement=None if is_total else restatement,
        is_total=is_total,
        target=target.path,
        schema=schema,
        configuration=plan.design.configuration,
        files=() if is_total else tuple(snapshot.files),
        rewrites=not is_total and not snapshot.has_deletion_vectors,
    )


def _side_of(part: Part, schema: TableSchema, sources: SharedSources) -> Side:
    """Another source table, as it was merged last. schema: the target's. Raises LakeError."""
    # Its silver at that version: what came since is merged by it.
    table = sources.silver(part.owner)
    snapshot = snapshot_of(table.path, part.silver_version)
    if snapshot is None:
        raise LakeError(
            f"{table.path}: version {part.silver_version}, which was merged of it, cannot be read any more; merge "
            f"{part} first (stratalog run --source {part.owner[0]})"
        )
    # Whether it was ever emptied says the commit of the version, as long as it is there.
    columns = silver.Columns(part.columns, part.key)
    source = _silver_source(snapshot, columns, schema)
    by_name = {name.casefold(): name for name in source.schema.names}
    checkpoint = dict(table.since(part.silver_version - 1)).get(part.silver_version)
    may_be_emptied = checkpoint is None or SilverCommit.of(checkpoint).emptied_at is not None
    return Side(
        owner=part.owner,
        silver=source,
        columns=tuple(by_name[name.casefold()] for name in part.columns),
        files=snapshot.files,
        marker_files=snapshot.files if may_be_emptied else (),
        times=_times(sources.clock(part.owner[0])),
    )


def _times(clock: Clock) -> OrderTimes:
    snapshot = snapshot_of(clock.table.path, clock.version)
    assert snapshot is not None
    return OrderTimes.at(snapshot, clock.begin, has_late=clock.has_late)


def _silver_source(snapshot: Snapshot, columns: silver.Columns, schema: TableSchema) -> SilverSource:
    """A silver table whose columns are read by the names and types of a target. schema: the target's."""
    by_name = {column.name.casefold(): column for column in schema.columns}
    columns_read = tuple(
        _read_as(column, by_name[column.name.casefold()]) if column.name in columns.types else column
        for column in snapshot.schema.columns
    )
    return SilverSource(snapshot.path, TableSchema(columns_read), tuple(sorted(columns.key)))


def _read_as(column: DeltaColumn, target: DeltaColumn) -> DeltaColumn:
    metadata = dict(column.metadata) | {PHYSICAL_NAME: column.physical_name}
    kind = column.type if column.ddl == target.ddl else target.type
    return replace(column, name=target.name, type=kind, metadata=metadata)
