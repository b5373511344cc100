"""Task of a merge: new silver rows -> keys located in the target -> new images, and rows to mark.

Put here: the units that tasks work on and the work itself. Not here: how keys are located (engine/rows/locate.py),
which silver files are new (downstream_job.py), or commits.

Live windows only move forward: a silver row is newer than what the target has of its key, unless that was loaded since.
So the target's ``_position`` is read of hits in files that may hold a later one, and the later one stays. Where windows
were replayed or rows loaded, the state of their keys is taken from all of silver (engine/rows/restatement.py), and a
row of the target stays where it is that.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.modes import Mode
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.downstream.modes import MODE_COLUMNS
from spark_jobs.engine.changes.change_units import ChangeUnit
from spark_jobs.engine.merge.part_merge import own_rows
from spark_jobs.engine.rows import moved_lookup
from spark_jobs.engine.rows.locate import Hit, Keys, Numbers, hits
from spark_jobs.engine.rows.restatement import (
    EmptyingStatements,
    Restatement,
    SilverSource,
    equal_rows_mask,
    newest_states,
    touched_keys,
)
from spark_jobs.engine.target import feed
from spark_jobs.engine.target.deleted_rows import Truncations, with_deletion_state
from spark_jobs.engine.target.partial_merge import (
    LocatedRows,
    SilverLookup,
    TargetReader,
    restated_rows_and_never_whole_count,
    rows_and_never_whole_count,
)
from spark_jobs.engine.target.target_files import RowChanges, WrittenAgain, as_bytes, write_rows, written_again
from spark_jobs.engine.target.target_unit import MergedFiles, TargetUnit
from spark_jobs.errors import StratalogError, TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import sorted_by_key
from spark_jobs.silver.positions import FIELDS, at_or_after, bounds_of, newest_by_key, since_emptied

_NO_ROWS: Numbers = np.zeros(0, np.int64)
_SAMPLED = 1 << 16
"""Keys at least, of all that there are, by which new rows are parted into ranges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamUnit(TargetUnit):
    """A downstream table in a job, or one range of its keys: what a task needs to know of it."""

    columns: silver.Columns
    origin: str
    """The silver table's path."""
    origin_schema: TableSchema
    pending: tuple[DataFile, ...]
    """Silver's files that the target has not got."""
    after: Position | None
    """The target's position: windows before it are in it."""
    windows: int
    """Number of windows that the files hold: in one no key is twice."""
    statements: tuple[DataFile, ...] = ()
    """Silver's files that may say that a statement deleted all rows, where deleted rows stay."""
    defers: bool = False
    """True if files are written again by tasks of their own, after all those of the unit."""
    floor: Position | None = None
    """Position where the last statement stands that emptied the table: silver rows before it count no more."""
    empties: bool = False
    """True if the target's own rows from before the floor go."""
    replaces: bool = False
    """True if the pending rows are put in the place of all of the part's."""
    keeps_deleted: bool = False
    """True if deleted rows stay, marked as such."""
    restatement: Restatement | None = None
    """Changes of silver other than by windows appended; the keys concerned are merged by all of silver."""
    lookup: SilverLookup | None = None
    """Lookup that completes keys whose rows lack columns; None where no row does."""
    lacks_older: bool = False
    """True if copies of rows without a key may have been there before the log: less than none counts as none."""
    part: int = 0
    parts: int = 1
    """Number of the range of the keys, of how many."""

    @property
    def stored(self) -> list[str]:
        """The target's columns."""
        mode = Mode.SOFT_DELETE if self.keeps_deleted else Mode.MIRROR
        return [*self.columns.types, *ADDED, *MODE_COLUMNS[mode], *(name for name, _ in self.provenance)]

    @property
    def changes_files(self) -> bool:
        """True if files of the target may be written again."""
        return bool(self.files) and bool(self.rewrites or self.fills or self.exact or self.deletes_rows_in_files)

    @property
    def deletes_rows_in_files(self) -> bool:
        """True if statements mark rows of the target's files as deleted; of rows without a key it is all made again."""
        return bool(self.statements) and not self.columns.is_keyless

    @property
    def size(self) -> int:
        """Bytes of the files of silver whose rows or keys it is about."""
        removed = self.restatement.removed if self.restatement else ()
        return sum(file.size for file in (*removed, *self.pending))

    @property
    def searched_files(self) -> tuple[DataFile, ...]:
        """The target's files that may have rows of the keys, and do not lose them anyway."""
        return () if self.replaces else self.files

    @property
    def identity(self) -> list[str]:
        """The columns by which a row is found in the target."""
        key = self.columns.types if self.columns.is_keyless else self.columns.key
        return [*key, *(name for name, _ in self.provenance)]


def work(task: Sequence[TargetUnit], merge: Callable[[Any], MergedFiles] | None = None) -> Iterator[MergedFiles]:
    """Execute the units of a task, one after the other. merge: instead of ``merged``."""
    does: Callable[[Any], MergedFiles] = merge or merged
    for unit in task:
        began = time.monotonic()
        try:
            result = does(unit)
            yield replace(result, seconds=time.monotonic() - began)
        except TableStopped as error:
            yield MergedFiles(unit.number, {}, stopped=error)
        except StratalogError as error:
            yield MergedFiles(unit.number, {}, error=f"{type(error).__name__}: {error}")


def merged(unit: DownstreamUnit) -> MergedFiles:
    """Locates the keys of a unit's new rows in the target, and writes their new images."""
    # Rows to write, one per key, and rows that a statement emptied (row numbers by file).
    row_changes = row_changes_of(unit)
    truncations, restatement = row_changes.truncations, unit.restatement
    if unit.lookup:
        unit = replace(unit, lookup=replace(unit.lookup, marked=truncations.orders))
    if restatement is None:
        silver_rows, never_whole = newest_rows_to_merge(unit, truncations), 0
    else:
        silver_rows, never_whole = _restated(unit, restatement, truncations)
    rows = _as_kept(unit, with_provenance(unit, truncations.deleted(silver_rows)))
    dead = vanished_rows(unit)
    emptied = {} if unit.part else dict(dead)
    # Old rows of these keys: each dies unless it is as new as the row that would replace it.
    is_present = np.zeros(len(rows), np.bool_)
    is_older = np.zeros(len(rows), np.bool_)
    replaced: list[Hit] = []
    keys = Keys(rows, unit.identity, exact=unit.exact) if len(rows) and unit.searched_files else None
    for located in hits(unit.target, unit.searched_files, unit.schema, keys) if keys else ():
        hit = without_dead(located, dead.get(located.file.path))
        stays = _later(unit, hit, silver_rows) if unit.restatement is None else _unchanged(unit, hit, rows)
        is_older[hit.keys[stays]] = True
        is_present[hit.keys] = True
        dead[hit.file.path] = np.concatenate([dead.get(hit.file.path, _NO_ROWS), hit.rows[~stays]])
        replaced.append(Hit(hit.file, hit.rows[~stays], hit.keys[~stays]))
    if unit.lookup and unit.restatement is None:
        located_rows = LocatedRows(rows, silver_rows, replaced, is_present, is_older)
        rows, never_whole = _completed(unit, unit.lookup, located_rows, row_changes)
    # Of deletes and of older rows nothing is written.
    is_deleted = silver.is_delete(rows.column("_op")).to_numpy()
    is_written = _stays(unit, rows) & ~is_older
    images = _filtered(rows.select(unit.stored), pa.array(is_written))
    added = write_rows(unit, sorted_by_key(images, unit.columns.key))
    changed = chain(feed.by_key(unit, rows, is_written, replaced), feed.deletes(unit, emptied))
    changes = feed.change_files(unit, changed)
    # Without deletion vectors, or with filled columns, a file with dead rows is written again without them.
    rewritten = WrittenAgain() if unit.defers else written_again(unit, dead, row_changes)
    return MergedFiles(
        unit=unit.number,
        dead=as_bytes(dead),
        added=(*added, *rewritten.added),
        removed=rewritten.removed,
        changes=(*changes, *rewritten.changes),
        inserted=int((~is_present & ~is_deleted).sum()),
        updated=int((is_present & ~is_deleted & ~is_older).sum()),
        deleted=int((is_present & is_deleted & ~is_older).sum()) + sum(map(len, emptied.values())) + rewritten.deleted,
        never_whole=never_whole,
    )


def _filtered(rows: pa.Table, mask: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows of a mask; without a copy where it has all."""
    return rows if pc.sum(mask).as_py() == len(rows) else rows.filter(mask)


def _completed(
    unit: DownstreamUnit, lookup: SilverLookup, located_rows: LocatedRows, row_changes: RowChanges
) -> tuple[pa.Table, int]:
    target = TargetReader(unit.target, unit.schema, row_changes, unit.keeps_deleted)
    rows, never_whole = rows_and_never_whole_count(
        located_rows,
        lookup,
        target,
        unit.columns,
        lambda rows: _as_kept(unit, with_provenance(unit, row_changes.truncations.deleted(rows))),
    )
    return _as_kept(unit, rows), never_whole


def with_provenance(unit: DownstreamUnit, rows: pa.Table) -> pa.Table:
    """Rows with the part's provenance, and the types of the table, which hold the values of all parts."""
    for name in unit.columns.types if unit.provenance else ():
        field = unit.schema.column(name).arrow(physical=False)
        if rows.schema.field(name).type != field.type:
            rows = rows.set_column(rows.schema.get_field_index(name), field, rows.column(name).cast(field.type))
    for name, value in unit.provenance:
        rows = rows.append_column(name, pa.repeat(pa.scalar(value), len(rows)))
    return rows


def _as_kept(unit: DownstreamUnit, rows: pa.Table) -> pa.Table:
    """Rows with what a table in which deleted rows stay says of them."""
    return with_deletion_state(rows) if unit.keeps_deleted else rows


def row_changes_of(unit: DownstreamUnit) -> RowChanges:
    """Effects of statements on rows of the target. Raises LakeError."""
    truncations = Truncations.read(unit.origin, unit.statements, unit.origin_schema)
    return RowChanges(unit.fills, unit.exact, truncations)


@dataclass(frozen=True, slots=True)
class FileRewrite:
    """A file of a unit's target that a task of its own writes again. dead: numbers of rows that go, as bytes."""

    unit: DownstreamUnit | ChangeUnit
    file: DataFile
    dead: bytes


def rewritten_alone(rewrites: Sequence[FileRewrite]) -> Iterator[MergedFiles]:
    """Write files again whose dead rows other tasks have found, one after the other."""
    for rewrite in rewrites:
        unit, began = rewrite.unit, time.monotonic()
        try:
            dead = {rewrite.file.path: np.frombuffer(rewrite.dead, np.int64)}
            row_changes = row_changes_of(unit) if isinstance(unit, DownstreamUnit) else unit.row_changes
            files = written_again(unit, dead, row_changes, [rewrite.file])
            yield MergedFiles(
                unit=unit.number,
                dead={},
                added=files.added,
                removed=files.removed,
                changes=files.changes,
                deleted=files.deleted,
                seconds=time.monotonic() - began,
            )
        except StratalogError as error:
            yield MergedFiles(unit.number, {}, error=f"{type(error).__name__}: {error}")


def _stays(unit: DownstreamUnit, rows: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Mask of the keys that have a row in the target: those that are not deleted, or all that silver has a row of."""
    if unit.keeps_deleted:
        return np.asarray(pc.is_valid(rows.column("_position")).to_numpy(), np.bool_)
    return np.asarray(pc.invert(silver.is_delete(rows.column("_op"))).to_numpy(), np.bool_)


def vanished_rows(unit: DownstreamUnit) -> dict[str, Numbers]:
    """Rows of the target by path that go whatever is new: from before a statement that emptied it, or all of a part."""
    # One of the tasks that share a part says it; the others do not look for these rows.
    if not (unit.replaces or (unit.floor and unit.empties)) or (unit.replaces and unit.part):
        return {}
    vanished: dict[str, Numbers] = {}
    for file in unit.files:
        is_vanished = (
            own_rows(unit.target, file, unit.schema, unit.provenance) if unit.replaces else _emptied(unit, file)
        )
        rows = np.flatnonzero(is_vanished)
        rows = rows[~np.isin(rows, deletion_vectors.row_numbers(unit.target, file.deletion_vector))]
        if len(rows):
            vanished[file.path] = rows
    return vanished


def _emptied(unit: DownstreamUnit, file: DataFile) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Mask of the rows of a file from before the statement that emptied the table, and the unit's."""
    assert unit.floor
    lowest, highest = bounds_of(file, unit.schema, "_position")
    if lowest is not None and lowest > unit.floor.order:
        return np.zeros(0, np.bool_)
    if highest is not None and highest < unit.floor.order and file.num_records is not None:
        is_older = np.ones(file.num_records, np.bool_)
    else:
        positions = data_files.read_columns(unit.target, file, ["_position"], unit.schema).column(0)
        is_older = ~np.asarray(since_emptied(positions, unit.floor), np.bool_)
    return is_older & own_rows(unit.target, file, unit.schema, unit.provenance) if unit.provenance else is_older


def without_dead(hit: Hit, dead: Numbers | None) -> Hit:
    """The hit without rows that are gone already."""
    if dead is None:
        return hit
    is_alive = ~np.isin(hit.rows, dead)
    return Hit(hit.file, hit.rows[is_alive], hit.keys[is_alive])


def _restated(unit: DownstreamUnit, restatement: Restatement, truncations: Truncations) -> tuple[pa.Table, int]:
    """The state of each key, and by how many more the keys are that were never whole."""
    origin = SilverSource(unit.origin, unit.origin_schema, unit.columns.key)
    bounds = _part_bounds(unit, (*restatement.removed, *unit.pending))

    def keys_in_range(keys: pa.Table) -> pa.Table:
        if bounds is None:
            return keys
        return keys.filter(range_mask(keys.column(unit.columns.key[0]), bounds, unit.part))

    touched = touched_keys(origin, restatement, unit.pending, after=unit.after, within=keys_in_range)
    emptying = EmptyingStatements(unit.floor, truncations.orders, truncations.ended)
    key_states = newest_states(origin, restatement, touched, _silver_names(unit), emptying=emptying)
    if unit.lookup is None:
        return key_states, 0
    return restated_rows_and_never_whole_count(key_states, restatement, unit.lookup, [*unit.columns.types])


def _silver_names(unit: DownstreamUnit) -> list[str]:
    lacking = [name for name in silver.LACKING if unit.columns.has_partial and name in unit.origin_schema.names]
    return [*unit.columns.types, *ADDED, "_op", *lacking]


def _unchanged(unit: DownstreamUnit, hit: Hit, rows: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Mask of the hits that are rows of the target equal to what silver says of their keys."""
    if not len(hit.rows):
        return np.zeros(0, np.bool_)
    names = unit.stored
    silver_rows = rows.take(pa.array(hit.keys))
    target_rows = data_files.read_rows(unit.target, hit.file, hit.rows, names, unit.schema)
    target_rows = RowChanges(unit.fills, unit.exact).columns_changed(target_rows).select(names)
    return np.asarray(equal_rows_mask(silver_rows.select(names), target_rows) & _stays(unit, silver_rows), np.bool_)


def newest_rows_to_merge(unit: DownstreamUnit, truncations: Truncations) -> pa.Table:
    """The newest row of every key in silver's new files, deletes among them; one range of the keys where parted.

    truncations: statements that delete rows, where deleted rows stay.
    """
    names = [*_silver_names(unit), *(["_window_start"] if unit.after else [])]
    reading = [*dict.fromkeys([*names, *moved_lookup.NEEDED])] if silver.MOVED_FROM in names else names
    # Of each file the rows that are new, then what they lack from the rows of old keys, then the newest of each key.
    bounds = _part_bounds(unit, unit.pending)
    # The new rows of each file, then the newest of each key.
    tables = []
    for file in unit.pending:
        rows = _file_rows(unit, file, reading, bounds)
        is_pending = new_rows(unit, file, rows)
        if bounds is not None:
            is_pending = pc.and_(is_pending, range_mask(rows.column(unit.columns.key[0]), bounds, unit.part))
        tables.append(_filtered(rows, is_pending))
    no_rows = pa.schema([unit.origin_schema.column(name).arrow(physical=False) for name in reading]).empty_table()
    rows = pa.concat_tables([no_rows, *tables])
    if unit.lookup and silver.MOVED_FROM in names:
        rows = unit.lookup.with_moved(rows, [*unit.columns.types])
    rows = truncations.ended(rows.select(names))
    return newest_by_key(rows, unit.columns.key) if unit.columns.has_partial or unit.windows > 1 else rows


def new_rows(unit: DownstreamUnit, file: DataFile, rows: pa.Table) -> pa.Array:
    """Mask of the rows of a file of silver that the target lacks, and no later statement emptied."""
    is_new = pc.not_equal(rows.column("_op"), silver.Op.TRUNCATE)
    if file.deletion_vector is not None:
        living = deletion_vectors.living_rows_mask(unit.origin, file.deletion_vector, len(rows))
        is_new = pc.and_(is_new, pa.array(living))
    if unit.after:  # rows that were read from the server are in no window, wherever they count from
        is_new = pc.and_not(is_new, silver.is_from_server(rows.column("_op")))
        is_new = pc.and_(is_new, at_or_after(rows.column("_window_start"), unit.after))
    if unit.floor:
        is_new = pc.and_(is_new, since_emptied(rows.column("_position"), unit.floor))
    return is_new


def _file_rows(unit: DownstreamUnit, file: DataFile, names: Sequence[str], bounds: pa.Array | None) -> pa.Table:
    """Rows of a file of silver; of one range of the keys those row groups alone that may have some."""
    if bounds is None or file.deletion_vector is not None or not _is_number(bounds.type):
        return data_files.read_columns(unit.origin, file, names, unit.origin_schema)
    lowest = bounds[unit.part - 1].as_py() if 0 < unit.part <= len(bounds) else None
    highest = bounds[unit.part].as_py() if unit.part < len(bounds) else None
    return data_files.read_between(unit.origin, file, names, unit.origin_schema, (unit.columns.key[0], lowest, highest))


def _is_number(kind: pa.DataType) -> bool:
    """True if Parquet's bounds of a column compare as its values do."""
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _part_bounds(unit: DownstreamUnit, files: Sequence[DataFile]) -> pa.Array | None:
    """Values of the key's first column by which tasks share the rows of files; None where one has all."""
    if unit.parts == 1 or not files:
        return None
    sources = [(unit.origin, unit.origin_schema, file) for file in files]
    return range_bounds(sources, unit.columns.key[0], unit.parts)


def range_bounds(sources: Sequence[tuple[str, TableSchema, DataFile]], name: str, parts: int) -> pa.Array:
    """Values of a column that part rows into equal ranges; every task finds the same ones.

    A sample of rows tells, as many of each file as it has of all rows.

    Args:
        sources: tables' paths and schemas, and files of theirs; the column has one type in all.
        name: the column.
        parts: how many ranges.
    """
    kind = sources[0][1].column(name).arrow(physical=False).type
    step = 1 + sum(file.num_records or 0 for _, _, file in sources) // _SAMPLED
    samples = []
    for path, schema, file in sources:
        keys = data_files.read_columns(path, file, [name], schema).column(name).drop_null()
        samples += keys.take(pa.array(np.arange(0, len(keys), step))).chunks
    values = pa.chunked_array(samples, kind).combine_chunks()
    ordered = pc.sort_indices(values)
    at = [len(values) * part // parts for part in range(1, parts)]
    return values.take(ordered.take(pa.array(at))) if len(values) else values


def range_mask(values: pa.ChunkedArray, bounds: pa.Array, part: int) -> pa.ChunkedArray:
    """Mask of the values in one of the ranges that bounds part; NULL lies in the first. No bounds: all are NULL."""
    is_within = pc.fill_null(pc.is_valid(values), False)
    if 0 < part <= len(bounds):
        is_within = pc.fill_null(pc.greater_equal(values, bounds[part - 1]), False)
    if part < len(bounds):
        is_within = pc.and_(is_within, pc.fill_null(pc.less(values, bounds[part]), part == 0))
    return pc.or_(is_within, pc.is_null(values)) if part == 0 else is_within


def _later(unit: DownstreamUnit, hit: Hit, rows: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Mask of the hits that are rows of the target as new as the wanted ones, or newer."""
    if not len(hit.rows):
        return np.zeros(0, np.bool_)
    # Files whose newest position is before every new row need not be read.
    silver_positions = rows.column("_position").combine_chunks().take(pa.array(hit.keys))
    _, highest = bounds_of(hit.file, unit.schema, "_position")
    first = tuple(pc.min(silver_positions.field(name)).as_py() for name in FIELDS[:3])
    if highest is not None and highest < first:
        return np.zeros(len(hit.rows), np.bool_)
    target_positions = (
        data_files.read_columns(unit.target, hit.file, ["_position"], unit.schema).column(0).combine_chunks()
    )
    hit_positions = target_positions.take(pa.array(hit.rows))
    # Positions are compared from the last field to the first, so that the first field that differs decides.
    later = np.ones(len(hit.rows), np.bool_)
    for name in reversed(FIELDS):
        here, target_values = (
            side.field(name).to_numpy(zero_copy_only=False) for side in (silver_positions, hit_positions)
        )
        later = np.where(here == target_values, later, target_values > here)
    return later
