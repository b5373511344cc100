"""What a task does for downstream: new silver rows -> keys located in the target -> new images, and rows to mark.

Put here: the units that tasks work on and the work itself. Not here: how keys are located (locate.py), which silver
files are new (downstream_job.py), or commits.

Live windows only move forward: a silver row is newer than what the target has of its key, unless that was loaded since.
So the target's ``_position`` is read of hits in files that may hold a later one, and the later one stays.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import StructType, TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.engine.fills import Fill, with_fills
from spark_jobs.engine.locate import Hit, Keys, Numbers, hits
from spark_jobs.errors import StratalogError
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import by_position, identity

_ORDER = ("stretch", "number", "offset", "row")
_AT = "\0at"
_NO_ROWS: Numbers = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class DownstreamUnit:
    """A downstream table in a job, or one range of its keys: what a task needs to know of it."""

    number: int
    name: str
    columns: silver.Columns
    origin: str
    """The silver table's path."""
    origin_schema: TableSchema
    pending: tuple[DataFile, ...]
    """Silver's files that the target has not got."""
    after: Position | None
    """The target's position: windows before it are in it."""
    windows: int
    """How many windows the files hold: in one no key is twice."""
    target: str
    schema: TableSchema
    configuration: Mapping[str, str]
    files: tuple[DataFile, ...]
    rewrites: bool
    """Whether files are written again without the old images (``compat: plain``); deletion vectors mark them else."""
    fills: tuple[Fill, ...] = ()
    """Columns that statements added with a default: the target's files are written again with it."""
    floor: Position | None = None
    """Where the last statement stands that emptied the table: silver rows before it count no more."""
    empties: bool = False
    """Whether the target's own rows from before the floor go."""
    part: int = 0
    parts: int = 1
    """Which range of the keys, of how many."""


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """What a task did for a unit: the rows to take out of the target's files, by path, and files to add."""

    unit: int
    dead: dict[str, bytes]
    """Row numbers, as int64 in native byte order."""
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    """Files that were written again or have no row left."""
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    seconds: float = 0.0
    error: str | None = None


def work(task: Sequence[DownstreamUnit]) -> Iterator[MergedFiles]:
    """Does the units of a task, one after the other."""
    for unit in task:
        began = time.monotonic()
        try:
            done = merged(unit)
            yield replace(done, seconds=time.monotonic() - began)
        except StratalogError as error:
            yield MergedFiles(unit.number, {}, error=f"{type(error).__name__}: {error}")


def merged(unit: DownstreamUnit) -> MergedFiles:
    """Locates the keys of a unit's new rows in the target, and writes their new images."""
    rows = pending(unit)
    dead = _emptied(unit) if unit.floor and unit.empties else {}
    emptied = 0 if unit.part else sum(map(len, dead.values()))
    there = np.zeros(len(rows), np.bool_)
    lost = np.zeros(len(rows), np.bool_)
    every = hits(unit.target, unit.files, unit.schema, Keys(rows, unit.columns.key)) if len(rows) else ()
    for located in every:
        hit = _without(located, dead.get(located.file.path))
        later = _later(unit, hit, rows)
        lost[hit.wanted[later]] = True
        there[hit.wanted] = True
        dead[hit.file.path] = np.concatenate([dead.get(hit.file.path, _NO_ROWS), hit.rows[~later]])
    gone = pc.equal(rows.column("_op"), silver.Op.DELETE).to_numpy()
    images = rows.filter(pa.array(~gone & ~lost)).select([*unit.columns.types, *ADDED])
    added = _written(unit, _sorted(images, unit.columns.key))
    removed: list[str] = []
    if unit.rewrites:
        for file in unit.files:
            if unit.fills or len(dead.get(file.path, ())):
                removed.append(file.path)
                added += _rewritten(unit, file, dead.pop(file.path, _NO_ROWS))
    return MergedFiles(
        unit=unit.number,
        dead={path: numbers.astype(np.int64).tobytes() for path, numbers in dead.items() if len(numbers)},
        added=tuple(added),
        removed=tuple(removed),
        inserted=int((~there & ~gone).sum()),
        updated=int((there & ~gone & ~lost).sum()),
        deleted=int((there & gone & ~lost).sum()) + emptied,
    )


def _emptied(unit: DownstreamUnit) -> dict[str, Numbers]:
    """By path, the target's rows from before the statement that emptied the table."""
    assert unit.floor
    found: dict[str, Numbers] = {}
    for file in unit.files:
        latest = _latest(file, unit.schema)
        if latest is not None and latest < unit.floor.order and file.num_records is not None:
            rows = np.arange(file.num_records)
        else:
            held = data_files.read_columns(unit.target, file, ["_position"], unit.schema).column(0)
            rows = np.flatnonzero(~_at_or_after(held, unit.floor).to_numpy())
        rows = rows[~np.isin(rows, deletion_vectors.row_numbers(unit.target, file.deletion_vector))]
        if len(rows):
            found[file.path] = rows
    return found


def _without(hit: Hit, dead: Numbers | None) -> Hit:
    """The hit without rows that are gone already."""
    if dead is None:
        return hit
    kept = ~np.isin(hit.rows, dead)
    return Hit(hit.file, hit.rows[kept], hit.wanted[kept])


def pending(unit: DownstreamUnit) -> pa.Table:
    """The newest row of every key in silver's new files, deletes among them; one range of the keys where parted."""
    names = [*unit.columns.types, *ADDED, "_op"]
    names += ["_window_start"] if unit.after else []
    bounds = _part_bounds(unit) if unit.parts > 1 else None
    tables = []
    for file in unit.pending:
        rows = data_files.read_columns(unit.origin, file, names, unit.origin_schema)
        kept = pc.not_equal(rows.column("_op"), silver.Op.TRUNCATE)
        if file.deletion_vector is not None:
            living = deletion_vectors.living(unit.origin, file.deletion_vector, len(rows))
            kept = pc.and_(kept, pa.array(living))
        if unit.after:  # rows that were loaded are in no window, wherever they count from
            kept = pc.and_(kept, pc.not_equal(rows.column("_op"), silver.Op.LOAD))
            kept = pc.and_(kept, _at_or_after(rows.column("_window_start"), unit.after))
        if unit.floor:
            kept = pc.and_(kept, _at_or_after(rows.column("_position"), unit.floor))
        if bounds is not None:
            kept = pc.and_(kept, _between(rows.column(unit.columns.key[0]), bounds, unit.part))
        tables.append(rows.filter(kept))
    nothing = pa.schema([unit.origin_schema.column(name).arrow(physical=False) for name in names]).empty_table()
    rows = pa.concat_tables([nothing, *tables])
    return newest(rows, unit.columns.key) if unit.windows > 1 and len(rows) else rows


def newest(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Of each key the row with the last position."""
    ordered = by_position(rows)
    columns = identity(ordered, key)
    names = [f"\0{at}" for at in range(len(columns))]
    places = pa.table([*columns, pa.array(np.arange(len(ordered)))], names=[*names, _AT])
    last = places.group_by(names, use_threads=False).aggregate([(_AT, "max")])
    return ordered.take(last.column(f"{_AT}_max"))


def _part_bounds(unit: DownstreamUnit) -> pa.Array:
    """Values of the key's first column that part the new rows into equal ranges; every task finds the same ones."""
    name = unit.columns.key[0]
    columns = [
        data_files.read_columns(unit.origin, file, [name], unit.origin_schema).column(name) for file in unit.pending
    ]
    kind = unit.origin_schema.column(name).arrow(physical=False).type
    values = pa.chunked_array([chunk for column in columns for chunk in column.chunks], kind)
    values = values.combine_chunks().drop_null()
    ordered = pc.sort_indices(values)
    at = [len(values) * part // unit.parts for part in range(1, unit.parts)]
    return values.take(ordered.take(pa.array(at))) if len(values) else values


def _between(values: pa.ChunkedArray, bounds: pa.Array, part: int) -> pa.ChunkedArray:
    """Which values lie in one of the ranges that bounds part; NULL lies in the first. No bounds: all are NULL."""
    kept = pc.fill_null(pc.is_valid(values), False)
    if 0 < part <= len(bounds):
        kept = pc.fill_null(pc.greater_equal(values, bounds[part - 1]), False)
    if part < len(bounds):
        kept = pc.and_(kept, pc.fill_null(pc.less(values, bounds[part]), part == 0))
    return pc.or_(kept, pc.is_null(values)) if part == 0 else kept


def _at_or_after(places: pa.ChunkedArray, position: Position) -> pa.Array:
    """Which positions, stored as structures, are not before one."""
    stretch, number, offset = (pc.struct_field(places, name) for name in _ORDER[:3])
    begin = position.order
    here = pc.and_(pc.equal(number, begin[1]), pc.greater_equal(offset, begin[2]))
    in_file = pc.or_(pc.greater(number, begin[1]), here)
    return pc.or_(pc.greater(stretch, begin[0]), pc.and_(pc.equal(stretch, begin[0]), in_file))


def _later(unit: DownstreamUnit, hit: Hit, rows: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Which hits are rows of the target that are as new as the wanted ones, or newer."""
    if not len(hit.rows):
        return np.zeros(0, np.bool_)
    own = rows.column("_position").combine_chunks().take(pa.array(hit.wanted))
    most = _latest(hit.file, unit.schema)
    first = tuple(pc.min(own.field(name)).as_py() for name in _ORDER[:3])
    if most is not None and most < first:
        return np.zeros(len(hit.rows), np.bool_)
    held = data_files.read_columns(unit.target, hit.file, ["_position"], unit.schema).column(0).combine_chunks()
    there = held.take(pa.array(hit.rows))
    later = np.ones(len(hit.rows), np.bool_)
    for name in reversed(_ORDER):
        here, other = (one.field(name).to_numpy(zero_copy_only=False) for one in (own, there))
        later = np.where(here == other, later, other > here)
    return later


def _latest(file: DataFile, schema: TableSchema) -> tuple[int, ...] | None:
    """A position, without its row, that no row of a file has a later one than; None where statistics do not tell."""
    column = schema.column("_position")
    assert isinstance(column.type, StructType)
    most = file.stats.get("maxValues", {}).get(column.physical_name, {})
    names = {field.name: field.physical_name for field in column.type.fields}
    found = tuple(most.get(names[name]) for name in _ORDER[:3])
    return None if None in found else found


def _sorted(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """By key, so that statistics of files and row groups tell keys apart."""
    return rows.take(pc.sort_indices(rows.select(list(key)), sort_keys=[(name, "ascending") for name in key]))


def _rewritten(unit: DownstreamUnit, file: DataFile, dead: Numbers) -> list[DataFile]:
    """A file of the target without some of its rows; none where none is left."""
    names = [*unit.columns.types, *ADDED]
    rows = data_files.read_columns(unit.target, file, names, unit.schema)
    kept = deletion_vectors.living(unit.target, file.deletion_vector, len(rows))
    kept[dead] = False
    return _written(unit, with_fills(rows.filter(pa.array(kept)), unit.fills))


def _written(unit: DownstreamUnit, rows: pa.Table) -> list[DataFile]:
    """Rows of the target as a data file; none where there are none."""
    return [data_files.write(unit.target, rows, unit.schema, unit.configuration)] if len(rows) else []
