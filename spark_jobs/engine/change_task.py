"""What a task does for tables that are made of every change: slices of the log -> rows, and versions that they end.

Put here: the units that tasks work on and the work itself. Not here: which slices those are (change_job.py), decoding
(silver/decode_task.py), the intervals of versions (version_intervals.py), or commits (downstream_job.py).

A row of ``mode: append`` is a change, and nothing in the target is looked up. One of ``mode: history`` ends the current
version of its key: that is located by the key, marked, and written again with its end. Ended and current versions are
files of their own, so that statistics leave out the files that have ended ones alone.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.modes import Mode
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.log_files import SparkOnly
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.downstream.modes import MODE_COLUMNS
from spark_jobs.engine.downstream_task import MergedFiles
from spark_jobs.engine.fills import ColumnFill, with_fills
from spark_jobs.engine.locate import Hit, Keys, Numbers, hits
from spark_jobs.engine.silver_task import OpenSlices
from spark_jobs.engine.target_files import WrittenAgain, as_bytes, written_again
from spark_jobs.engine.version_intervals import with_intervals
from spark_jobs.errors import StratalogError
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import ColumnMasks
from spark_jobs.silver.decode_task import changes_task, noting
from spark_jobs.silver.keyless_rows import distinct
from spark_jobs.silver.net_changes import by_position
from spark_jobs.silver.positions import at_or_after, last_of_each
from spark_jobs.silver.row_filters import ChangeFilters, ChangeJudge
from spark_jobs.silver.slice_runs import gathered

_OF_CHANGES = ("_op", "_gtid", "_position", "_committed_at", "_raw")
"""What decoded changes have beside the source's columns."""


@dataclass(frozen=True, slots=True)
class ChangeWindow:
    """Ranges of the log between two statements about a table, and the target's columns there."""

    definition: TableDefinition
    ranges: tuple[Range, ...]
    schema: TableSchema
    first_fill: int = 0
    """The first of the unit's fills that is of a later statement: its rows get them from there on."""
    masks: ColumnMasks | None = None
    """What a rule makes of the definition's columns."""
    filters: ChangeFilters | None = None
    """The rules that filter changes of rows."""
    needs_no_exact: bool = False
    """Whether a later statement changes exact texts (``_raw``), so that no row may have one."""


@dataclass(frozen=True, slots=True)
class ChangeUnit:
    """A downstream table that is made of every change, in a job: what a task needs to know of it."""

    number: int
    name: str
    mode: Mode
    columns: silver.Columns
    windows: tuple[ChangeWindow, ...]
    target: str
    schema: TableSchema
    configuration: Mapping[str, str]
    files: tuple[DataFile, ...]
    rewrites: bool
    """Whether files are written again; as of ``DownstreamUnit``."""
    fills: tuple[ColumnFill, ...] = ()
    """Columns that statements added with a default, in their order."""
    skips: frozenset[Position] = frozenset()
    origin: str = ""
    """The silver table's path."""
    origin_schema: TableSchema | None = None
    markers: tuple[DataFile, ...] = ()
    """Silver's files that may say that a statement emptied the table."""
    statement_gtids: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    """GTIDs of such statements, and of others, by where they stand."""
    after: Position | None = None
    """The target's position."""
    ends_all: bool = False
    """Whether a statement emptied the table, so that all current versions end."""
    is_part: bool = False
    """Whether another task writes the target's files again and takes the statements."""

    @property
    def stored(self) -> list[str]:
        """The target's columns."""
        return [*self.columns.types, *ADDED, *MODE_COLUMNS[self.mode]]

    @property
    def marks(self) -> tuple[tuple[str, str], ...]:
        """None: such a table is of one source table."""
        return ()

    @property
    def has_feed(self) -> bool:
        """Not yet: with a change data feed such a table is Spark SQL's."""
        return False


@dataclass(frozen=True, slots=True)
class UnitSlices:
    """A unit, and the slices that a task takes for it.

    slices: by window rows of ``bronze.index.OF_TABLE``, in the order in which they take effect.
    """

    unit: ChangeUnit
    slices: Mapping[int, pa.Table]


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Units with their slices. bronze: the bronze table's path."""

    bronze: str
    units: tuple[UnitSlices, ...]


def work(task: ChangeTask) -> Iterator[MergedFiles]:
    """Does the units of a task, one after the other."""
    opened = OpenSlices(task.bronze, gtids=True)
    for part in task.units:
        unit, began = part.unit, time.monotonic()
        try:
            result = changed(unit, _rows(unit, part.slices, opened))
            yield replace(result, seconds=time.monotonic() - began)
        except SparkOnly as error:
            yield MergedFiles(unit.number, {}, error=str(error))
        except StratalogError as error:
            yield MergedFiles(unit.number, {}, error=f"{type(error).__name__}: {error}")


def changed(unit: ChangeUnit, rows: pa.Table) -> MergedFiles:
    """Writes rows of changes, and the versions that they end. rows: with the target's columns, as far as they go."""
    dead: dict[str, Numbers] = {}
    if unit.mode is Mode.HISTORY:
        parts, dead = _versions(unit, rows)
    else:
        parts = [rows]
    ended = sum(map(len, dead.values()))
    added = [
        data_files.write(unit.target, part.select(unit.stored), unit.schema, unit.configuration)
        for part in parts
        if len(part)
    ]
    # Without deletion vectors, or with filled columns, a file is written again without its dead rows.
    rewritten = written_again(unit, dead) if not unit.is_part else WrittenAgain()
    return MergedFiles(
        unit=unit.number,
        dead=as_bytes(dead),
        added=(*added, *rewritten.added),
        removed=rewritten.removed,
        inserted=len(rows),
        updated=ended,
    )


def _rows(unit: ChangeUnit, slices: Mapping[int, pa.Table], opened: OpenSlices) -> pa.Table:
    """Every change of the unit's slices, in the log's order, with the target's columns."""
    fields = pa.schema(
        [unit.schema.column(name).arrow(physical=False) for name in unit.stored if name in _change_columns(unit)]
    )
    parts = [fields.empty_table()]
    for number, window in enumerate(unit.windows):
        of_window = slices.get(number)
        if of_window is not None:
            parts += _of_window(unit, window, of_window, opened)
    if not unit.is_part:
        parts.append(_statements(unit, fields))
    return by_position(pa.concat_tables([part.select(fields.names) for part in parts]))


def _change_columns(unit: ChangeUnit) -> set[str]:
    """The target's columns that changes have."""
    return {*unit.columns.types, *_OF_CHANGES}


def _of_window(unit: ChangeUnit, window: ChangeWindow, slices: pa.Table, opened: OpenSlices) -> Iterator[pa.Table]:
    """The changes of a window, with the columns that the target has now. Raises SparkOnly, DecodeError."""
    columns = silver.columns(window.definition)
    judge = ChangeJudge(window.filters) if window.filters else None
    splits = unit.mode is Mode.HISTORY
    task = changes_task(window.definition, columns, splits=splits, scans=opened.scans, judge=judge)
    files: dict[tuple[int, int], str] = {}
    batches = list(task(noting(gathered(opened.runs(slices), unit.skips), files)))
    if not batches:
        return
    rows = pa.Table.from_batches(batches)
    if window.needs_no_exact and rows.column("_raw").null_count < len(rows):
        raise SparkOnly("a statement changes columns that rows have exact texts of")
    rows = window.masks.apply(rows, files) if window.masks else rows
    yield with_fills(_projected(rows, window.schema, unit.schema), unit.fills[window.first_fill :])


def _projected(rows: pa.Table, schema: TableSchema, target: TableSchema) -> pa.Table:
    """Rows with a table's columns, of rows with those that it had: by physical names, as a reader of its files does."""
    names = {column.physical_name: column.name for column in schema.columns}
    fields, arrays = [], []
    for column in target.columns:
        to = column.arrow(physical=False)
        name = names.get(column.physical_name)
        cells = rows.column(name) if name in rows.column_names else pa.chunked_array([pa.nulls(len(rows), to.type)])
        fields.append(to)
        arrays.append(cells if cells.type == to.type else cells.cast(to.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _statements(unit: ChangeUnit, fields: pa.Schema) -> pa.Table:
    """The statements that emptied the table, as rows that have the defaults of later columns alone, as silver's do."""
    names = [name for name in fields.names if name != "_gtid"]
    parts = [pa.schema([fields.field(name) for name in names]).empty_table()]
    for file in unit.markers:
        # Silver's rows of statements alone, and those that the target has not got.
        assert unit.origin_schema is not None
        rows = data_files.read_columns(unit.origin, file, names, unit.origin_schema)
        is_marker = pc.equal(rows.column("_op"), silver.Op.TRUNCATE)
        if unit.after:
            is_marker = pc.and_(is_marker, at_or_after(rows.column("_position"), unit.after))
        if file.deletion_vector is not None:
            is_marker = pc.and_(
                is_marker, pa.array(deletion_vectors.living(unit.origin, file.deletion_vector, len(rows)))
            )
        parts.append(rows.filter(is_marker))
    rows = pa.concat_tables(parts)
    # Silver's rows do not say under which GTID their statement is logged; bronze does.
    places = (tuple(place[name] for name in ("stretch", "number", "offset")) for place in rows["_position"].to_pylist())
    gtids = pa.array([unit.statement_gtids.get(place) for place in places], pa.string())
    absent = {
        item.name: gtids if item.name == "_gtid" else pa.nulls(len(rows), item.type)
        for item in fields
        if item.name not in names
    }
    cells = [rows.column(item.name) if item.name in names else absent[item.name] for item in fields]
    return pa.table(cells, schema=fields)


def _versions(unit: ChangeUnit, rows: pa.Table) -> tuple[list[pa.Table], dict[str, Numbers]]:
    """New rows and the versions that they end, ended ones and current ones; and which rows of the target these were."""
    current, located = _current(unit, rows)
    versions = with_intervals(pa.concat_tables([current, rows]), unit.columns)
    is_current = np.asarray(versions.column("_is_current").to_numpy(), np.bool_)
    is_ended = ~is_current[: len(current)]
    dead, begin = dict[str, Numbers](), 0
    for hit in located:
        dead[hit.file.path] = hit.rows[is_ended[begin : begin + len(hit.rows)]]
        begin += len(hit.rows)
    # Current versions that stay current are not written again.
    is_new = np.arange(len(versions)) >= len(current)
    return [versions.filter(pa.array(~is_current)), versions.filter(pa.array(is_current & is_new))], dead


def _current(unit: ChangeUnit, rows: pa.Table) -> tuple[pa.Table, Sequence[Hit]]:
    """The current versions of the keys of rows, as the changes that they are, and where the target has them."""
    names = rows.column_names
    current, located = [rows.slice(0, 0)], list[Hit]()
    for hit in _candidates(unit, rows):
        flags = data_files.read_rows(unit.target, hit.file, hit.rows, ["_is_current"], unit.schema)
        is_current = np.asarray(flags.column(0).to_numpy(), np.bool_)
        if not is_current.any():
            continue
        current_hit = Hit(hit.file, hit.rows[is_current], hit.keys[is_current])
        versions = data_files.read_rows(unit.target, hit.file, current_hit.rows, names, unit.schema)
        current.append(with_fills(versions, unit.fills).select(names))
        located.append(current_hit)
    return pa.concat_tables(current), located


def _candidates(unit: ChangeUnit, rows: pa.Table) -> Iterator[Hit]:
    """Versions of the keys of rows, or all versions, in files that may have current ones."""
    files = [file for file in unit.files if may_have_current(file, unit.schema)]
    if unit.ends_all:
        for file in files:
            count = file.num_records
            if count is None:
                count = len(data_files.read_columns(unit.target, file, ["_is_current"], unit.schema))
            dead = deletion_vectors.row_numbers(unit.target, file.deletion_vector)
            numbers = np.setdiff1d(np.arange(count), dead)
            if len(numbers):
                yield Hit(file, numbers, numbers)
        return
    # Versions of the keys that changed; of a table without a key those that are equal to a row that came or went.
    changes, columns = rows.filter(pc.not_equal(rows.column("_op"), silver.Op.TRUNCATE)), unit.columns
    if not (files and len(changes)):
        return
    if columns.is_bag:
        names = [*columns.types]
        keys = Keys(distinct(changes, names), names, is_keyless=True, fills=unit.fills)
    else:
        keys = Keys(last_of_each(changes, columns.key), columns.key)
    yield from hits(unit.target, files, unit.schema, keys)


def may_have_current(file: DataFile, schema: TableSchema) -> bool:
    """Whether a file may have current versions, by its statistics: these have no end."""
    nulls = file.stats.get("nullCount", {}).get(schema.column("_valid_to").physical_name)
    return nulls is None or nulls > 0
