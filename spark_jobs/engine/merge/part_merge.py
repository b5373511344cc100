"""Parts of downstream tables of several source tables, as units of the engine.

Put here: the columns that such a table has for a part, which rows and files are a part's, and a commit upon what other
parts have committed in between. Not here: what such a table says of its parts (downstream/multi_source.py), the merge
itself (downstream_job.py).

Parts are planned side by side and committed one after the other, so most commits find a newer version than they were
planned on. Rows have the provenance of their part, and only commits of a part write or remove rows of it. So what a
task found is right in a newer version too, where the part is as it was and no file with marked rows has gone.

The columns are the union of all parts', so a part's commit gives the table what the part has and the table lacks, and
takes away what no part has any more. Data files have the names that a column got when their part was planned; the
commit adds the column by that name, unless another part has added it meanwhile by another one.

A statement that changed values of rows, which other parts' rows keep, replaces the part by what silver folds to: all
rows of it go.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delta import data_files, schema_changes
from spark_jobs.delta.schema import PHYSICAL_NAME, DeltaColumn, TableSchema
from spark_jobs.delta.snapshot import MAX_COLUMN_ID, DataFile, Snapshot, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import ADDED, MergeJob, SilverDelta
from spark_jobs.downstream.multi_source import PROVENANCE, WIDENING, Part, PartTable, parts_of, union
from spark_jobs.errors import LostRace, TableStopped
from spark_jobs.lake.commit import Head
from spark_jobs.silver import table as silver

PlannedTables = dict[str, Snapshot]
"""Tables by path with the columns that the parts planned before are to give them."""
_NAME = re.compile(r"`((?:[^`]|``)+)`")
_LEAVES_ROWS = ("ADD COLUMN", "ALTER COLUMN", "SET TBLPROPERTIES")
"""Steps behind which all rows are as they were, those of a new column NULL."""


def head_of_part(work: MergeJob) -> Head:
    """The head of a table of several as one of its parts has it.

    Raises TableStopped where the part's columns cannot be told from those of others, or the table is another's.
    """
    if silver.is_numbered(work.pinned):
        raise TableStopped(
            "its columns have no names (on_unnamed: number), and a table of several goes by names; route it to a "
            "table of its own"
        )
    collisions = [name for name in work.columns.types if name.lower() in PROVENANCE]
    if collisions:
        raise TableStopped(
            f"its column {collisions[0]} has the name of one that is added where several tables are merged into one; "
            "rename it, or route it to a table of its own"
        )
    columns = work.columns.types | PROVENANCE | ADDED
    return work.target.head() or work.target.unwritten_head(columns, silver.properties(work.target))


def delta_of_part(head: Head, delta: SilverDelta) -> SilverDelta:
    """Delta of silver for a part: all of it, where a statement changed values of rows that are there."""
    is_changed = not all(step.startswith(_LEAVES_ROWS) for step in delta.steps)
    return replace(delta, is_renewed=delta.is_renewed or (head.checkpoint is not None and is_changed))


def planned_design(work: MergeJob, upon: tuple[Head, Snapshot], planned_tables: PlannedTables) -> Snapshot:
    """The table with all columns that a part is to have, for its data files; what others have of it stays.

    upon: the table as the plan saw it. planned_tables: gets the result. Raises TableStopped where no type holds what
    this part and another one have.
    """
    (head, snapshot), planned = upon, planned_tables.get(upon[1].path)
    parts = parts_of(head.all_parts)
    base = planned if planned and planned.version == snapshot.version else snapshot
    try:
        actions = _actions(work, base, parts)
    except TableStopped:  # what contradicts it may be planned alone: whoever is committed first is right
        base = snapshot
        actions = _actions(work, base, parts)
    added = _added(actions)
    actions = [action for action in actions if not action.startswith("DROP") or _column_name(action) in added]
    design = schema_changes.apply(base, actions) if actions else base
    planned_tables[snapshot.path] = design
    return design


def committed_design(work: MergeJob, head: Head, upon: Snapshot, planned: Snapshot) -> Snapshot:
    """The table with the columns that a part's commit gives it: those of ``upon`` as they are, where they fit.

    planned: with the columns that the part's data files have. Raises LostRace where the table cannot have these any
    more, TableStopped where another part has come to contradict this one.
    """
    actions = _actions(work, upon, parts_of(head.all_parts))
    if actions and head.version >= 0 and head.all_parts is None:
        raise TableStopped(f"{work.target.path} is a table that no run has made; move it away")
    design = schema_changes.apply(upon, actions) if actions else upon
    # What is new has the names that it has in the data files.
    present = {column.physical_name for column in upon.schema.columns}
    by_name = {column.name.casefold(): column for column in planned.schema.columns}
    columns = tuple(
        column if column.physical_name in present else by_name.get(column.name.casefold(), column)
        for column in design.schema.columns
    )
    if columns != design.schema.columns:
        design = _with_columns(design, columns)
    if not _holds(design.schema, by_name, work):
        raise LostRace(f"{upon.path}: other parts have changed its columns since this one was planned")
    return design


def part_schema(schema: TableSchema, types: Iterable[str]) -> TableSchema:
    """A table's columns, those of a part under the names that the part has: these may be in other case."""
    by_name = {name.casefold(): name for name in types}
    return TableSchema(tuple(_named(column, by_name.get(column.name.casefold())) for column in schema.columns))


def _actions(work: MergeJob, base: Snapshot, parts: Sequence[Part]) -> list[str]:
    """Actions that give a table the columns that fit a part and the others. Raises TableStopped."""
    target = work.target
    assert isinstance(target, PartTable)
    stored = {name: kind for name, kind in base.schema.spark_types.items() if name not in (*PROVENANCE, *ADDED)}
    other_parts = [part for part in parts if part.owner != target.owner]
    name = f"{target.path}, {work.name} of {work.source}"
    actions = union(stored, work.columns.types, other_parts, name)
    if not target.plain:
        return actions
    # A column that nobody has stays, without a value; what a reader would have to know of is not done.
    added = _added(actions)
    for action in actions:
        is_dropped = action.startswith("DROP") and _column_name(action) not in added
        if action.startswith(("DROP", "ALTER", WIDENING)) and not is_dropped:
            raise TableStopped(
                f"{target.path}: {action} needs a feature of Delta that tables with compat: plain do not have"
            )
    return [action for action in actions if not action.startswith("DROP")]


def _added(actions: Iterable[str]) -> set[str]:
    """The columns that actions add, in the place of others of their names or not."""
    return {_column_name(action) for action in actions if action.startswith("ADD COLUMN")}


def _column_name(action: str) -> str:
    """The column that an action is about, as names are compared."""
    match = _NAME.search(action)
    assert match
    return match[1].casefold()


def _with_columns(design: Snapshot, columns: tuple[DeltaColumn, ...]) -> Snapshot:
    """A table with columns that have ids and names of their own. Raises LostRace where two have one id."""
    schema = TableSchema(columns)
    ids = [column.id for column in schema.all_columns() if column.id is not None]
    if len({*ids}) < len(ids):
        raise LostRace(f"{design.path}: other parts have added columns since this one was planned")
    last_id = max([schema.max_column_id, int(design.configuration.get(MAX_COLUMN_ID, "0"))])
    configuration = dict(design.configuration) | ({MAX_COLUMN_ID: str(last_id)} if ids else {})
    return replace(design, metadata=design.metadata.with_schema(schema, configuration))


def _holds(schema: TableSchema, planned: Mapping[str, DeltaColumn], work: MergeJob) -> bool:
    """True if a part's data files can be read by a schema: its columns by their names, in types that hold theirs."""
    by_name = {column.name.casefold(): column for column in schema.columns}
    for name in (*work.columns.types, *PROVENANCE, *ADDED):
        column, planned_column = by_name[name.casefold()], planned[name.casefold()]
        if column.physical_name != planned_column.physical_name:
            return False
        if column.ddl != planned_column.ddl and not schema_changes.is_wider(planned_column.type, column.type):
            return False
    return True


def _named(column: DeltaColumn, name: str | None) -> DeltaColumn:
    if name is None or name == column.name:
        return column
    return replace(column, name=name, metadata=dict(column.metadata) | {PHYSICAL_NAME: column.physical_name})


def files_of_part(snapshot: Snapshot, provenance: Iterable[tuple[str, str]]) -> list[DataFile]:
    """The files that may have rows with these provenance columns, by their statistics."""

    def may_have(file: DataFile, name: str, value: str) -> bool:
        bounds = file.bounds(snapshot.schema, name)
        return bounds.minimum is None or bounds.maximum is None or bool(bounds.minimum <= value <= bounds.maximum)

    all_provenance = tuple(provenance)
    return [file for file in snapshot.files if all(may_have(file, *mark) for mark in all_provenance)]


def own_rows(
    path: str, file: DataFile, schema: TableSchema, provenance: Sequence[tuple[str, str]]
) -> NDArray[np.bool_]:
    """Mask of the rows of a file with a part's provenance. path: the table's."""
    pairs = [(file.bounds(schema, name), value) for name, value in provenance]
    if file.num_records is not None and all(bounds.minimum == value == bounds.maximum for bounds, value in pairs):
        return np.ones(file.num_records, np.bool_)
    rows = data_files.read_columns(path, file, [name for name, _ in provenance], schema)
    is_own: Any = pa.array(np.ones(len(rows), np.bool_))
    for name, value in provenance:
        is_own = pc.and_(is_own, pc.fill_null(pc.equal(rows.column(name), value), False))
    return np.asarray(is_own, np.bool_)


def newest_unchanged_target(
    target: PartTable, planned: tuple[Snapshot, Head], touched: Iterable[str]
) -> tuple[Snapshot, Head]:
    """The newest version of the table, for a commit of what was planned on an older one.

    planned: the snapshot and the head that the merge was planned on. touched: paths of the files that it removes or
    marks rows of. Raises LostRace where the part or one of these files is not as it was.
    """
    snapshot, planned_head = planned
    head = target.head()
    if head is None or head.version == snapshot.version:
        return planned
    newest = snapshot_of(target.path, head.version)
    if (
        newest is None
        or target.is_shared  # rows of other parts have decided what is written
        or _target_state(head) != _target_state(planned_head)
        or not {*touched} <= {file.path for file in newest.files}
    ):
        raise LostRace(f"{target.path}: planned on version {snapshot.version}, but another writer committed first")
    return newest, head


def _target_state(head: Head) -> tuple[object, ...] | None:
    """State up to which the part is merged."""
    commit = DownstreamCommit.of_head(head)
    return (commit.position, commit.silver_version, commit.is_complete) if commit else None
