"""Units of tables in which equal keys of several source tables are one row (``keys: shared``).

Every source table says in silver what its last change of a key was, a delete too. Among these the one with the greatest
(order time, source, position) is what the table has: the row, or none. So it does not matter in which order sources are
merged, and none waits for another. Order times never go back within a source (downstream/commit_clock.py), so the last
change by position is a source table's greatest.

A merge is about the keys that one source table changed since it was merged last. It locates them in the others' silver,
at the versions that were merged of them, and in the target. Where the source's silver was replaced as a whole it is
about all keys of all sources. TRUNCATE, and DROP with ``on_drop: drop``, delete the keys that their own table has at
that position, as deleting them one by one would.

A large unit is divided by ranges of the key's first column.

Put here: what a task does of such a merge. Not here: its plan (shared_plan.py), which tables can share keys
(downstream/shared_keys.py), or order times (order_times.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.downstream.multi_source import PROVENANCE
from spark_jobs.engine.merge.downstream_task import range_bounds, range_mask
from spark_jobs.engine.merge.order_times import positions_of
from spark_jobs.engine.merge.shared_plan import SharedUnit, Side
from spark_jobs.engine.rows.locate import Hit, Keys, Numbers, hits
from spark_jobs.engine.rows.restatement import SilverSource, equal_rows_mask, touched_rows
from spark_jobs.engine.target.target_files import RowChanges, as_bytes, write_rows, written_again
from spark_jobs.engine.target.target_unit import MergedFiles
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import sorted_by_key
from spark_jobs.silver.positions import at_or_after, last_rows_by_key

Flags = NDArray[np.bool_]
_CHANGE = ("_op", "_position", "_committed_at")
_NO_ROWS: Numbers = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class LastChanges:
    """Last changes of some keys, by one source table or by all of them. An item a change.

    keys: ordinals of the keys. positions: an array a field. sides, files, rows: where its row is.
    """

    keys: Numbers
    orders: Numbers
    positions: Numbers
    is_gone: Flags
    sides: Numbers
    files: Numbers
    rows: Numbers

    def take(self, items: "Numbers | Flags") -> "LastChanges":
        return LastChanges(
            self.keys[items],
            self.orders[items],
            self.positions[:, items],
            self.is_gone[items],
            self.sides[items],
            self.files[items],
            self.rows[items],
        )

    def newest_by_key(self, weights: Sequence[Numbers]) -> "LastChanges":
        """The greatest change of each key, in the order of the keys. weights: the most significant first."""
        order = np.lexsort((*reversed(weights), self.keys))
        keys = self.keys[order]
        is_last = np.ones(len(keys), np.bool_)
        is_last[:-1] = keys[1:] != keys[:-1]
        return self.take(order[is_last])


def merged(unit: SharedUnit) -> MergedFiles:
    """Write the touched keys as the last change of all sources has them. Raises TableStopped, LakeError."""
    touched = _touched(unit)
    if not len(touched):
        return MergedFiles(unit.number, {})
    # Of each key the last change of any source; none of those that silver has no row of any more.
    keys = Keys(touched, unit.key)
    changes = [_last_changes_of_side(side, number, keys) for number, side in enumerate(unit.sides)]
    last = _last_changes_of_all(unit.sides, changes)
    winners = np.full(len(touched), -1, np.int64)
    winners[last.keys] = np.arange(len(last.keys))
    exists = np.zeros(len(touched), np.bool_)
    exists[last.keys] = ~last.is_gone
    # Rows of the target that are not what is wanted die; what it lacks is written.
    is_present, is_right = np.zeros(len(touched), np.bool_), np.zeros(len(touched), np.bool_)
    dead: dict[str, Numbers] = {}
    for hit in () if unit.is_total else hits(unit.target, unit.files, unit.schema, keys):
        stays = exists[hit.keys]
        if stays.any():
            stays[stays] = _is_winner(unit, Hit(hit.file, hit.rows[stays], hit.keys[stays]), last, winners)
        is_present[hit.keys] = True
        is_right[hit.keys[stays]] = True
        dead[hit.file.path] = np.concatenate([dead.get(hit.file.path, _NO_ROWS), hit.rows[~stays]])
    # Only keys whose row changes are written, so that a merge that is repeated writes nothing.
    is_written = exists & ~is_right
    rows = _new_target_rows(unit, last.take(winners[is_written]))
    added = write_rows(unit, sorted_by_key(rows, unit.key))
    rewritten = written_again(unit, dead, RowChanges())
    return MergedFiles(
        unit=unit.number,
        dead=as_bytes(dead),
        added=(*added, *rewritten.added),
        removed=rewritten.removed,
        inserted=int((is_written & ~is_present).sum()),
        updated=int((is_written & is_present).sum()),
        deleted=int((is_present & ~exists).sum()),
    )


def _touched(unit: SharedUnit) -> pa.Table:
    """The keys that a merge is about, a row each; one range of them where tasks share it."""
    names = [*unit.key, "_raw"]
    origin = unit.sides[0].silver
    no_rows = pa.schema([origin.schema.column(name).arrow(physical=False) for name in names]).empty_table()
    if unit.restatement:
        removed = touched_rows(origin, unit.restatement.removed, names, unit.restatement, after=None)
        parts = [*removed, *touched_rows(origin, unit.pending, names, unit.restatement, after=unit.after)]
    else:
        parts = [_changed_keys(source, file, names, unit.after) for source, file in unit.sources]
    touched = last_rows_by_key(pa.concat_tables([no_rows, *parts]), unit.key)
    if unit.parts == 1 or not len(touched):
        return touched
    bounds = range_bounds([(side.path, side.schema, file) for side, file in unit.sources], unit.key[0], unit.parts)
    return touched.filter(range_mask(touched.column(unit.key[0]), bounds, unit.part))


def _changed_keys(source: SilverSource, file: DataFile, names: Sequence[str], after: Position | None) -> pa.Table:
    """Keys of the rows of one silver file whose window is after a position, or which were read from the server."""
    rows = data_files.read_columns(source.path, file, [*names, "_op", "_window_start"], source.schema)
    is_changed = pc.not_equal(rows.column("_op"), silver.Op.TRUNCATE)
    if after:  # rows that were read from the server are in no window
        is_read = silver.is_from_server(rows.column("_op"))
        is_changed = pc.and_(is_changed, pc.or_(is_read, at_or_after(rows.column("_window_start"), after)))
    if file.deletion_vector is not None:
        living = deletion_vectors.living_rows_mask(source.path, file.deletion_vector, len(rows))
        is_changed = pc.and_(is_changed, pa.array(living))
    return rows.select(list(names)).filter(is_changed)


def _last_changes_of_side(side: Side, number: int, keys: Keys) -> LastChanges:
    """Last change of each key in a source table. Raises TableStopped for one that has no order time."""
    # All of its rows of these keys, and where they are.
    tables = [_changes(side, [])]
    at: list[Numbers] = [np.zeros((3, 0), np.int64)]
    by_path = {file.key: ordinal for ordinal, file in enumerate(side.files)}
    for hit in hits(side.silver.path, side.files, side.silver.schema, keys):
        tables.append(data_files.read_rows(side.silver.path, hit.file, hit.rows, _CHANGE, side.silver.schema))
        at.append(np.stack([hit.keys, np.full(len(hit.keys), by_path[hit.file.key]), hit.rows]))
    rows, (ordinals, files, numbers) = pa.concat_tables(tables), np.concatenate(at, axis=1)
    is_change = np.asarray(pc.not_equal(rows.column("_op"), silver.Op.TRUNCATE), np.bool_)
    rows, ordinals, files, numbers = (
        rows.filter(pa.array(is_change)),
        ordinals[is_change],
        files[is_change],
        numbers[is_change],
    )
    positions = positions_of(rows)
    sides = np.full(len(rows), number)
    is_gone = np.asarray(silver.is_delete(rows.column("_op")), np.bool_)
    changes = LastChanges(ordinals, side.times.of(rows), positions, is_gone, sides, files, numbers)
    _require_timed(side, rows)
    return _cut(side, changes.newest_by_key([*positions]))


def _changes(side: Side, parts: Iterable[pa.Table]) -> pa.Table:
    no_rows = pa.schema([side.silver.schema.column(name).arrow(physical=False) for name in _CHANGE]).empty_table()
    return pa.concat_tables([no_rows, *parts])


def _require_timed(side: Side, rows: pa.Table) -> None:
    """Check that all rows of a side have an order time. Raises TableStopped."""
    op, begin = rows.column("_op"), side.times.begin
    is_early = pc.invert(at_or_after(rows.column("_position"), begin))
    reasons = {
        "it has rows that were loaded or mended, whose time of writing is not known": silver.is_from_server(op),
        "it has rows that came with its name, or with a change of its key, whose time of writing is not "
        "known": pc.equal(op, silver.Op.RENAME),
        f"order times are known from {begin} on ({side.times.path}), and it has rows from before that": is_early,
    }
    reason = next((reason for reason, applies in reasons.items() if pc.any(applies).as_py()), None)
    if reason:
        raise TableStopped(
            f"{side}: {reason}, and keys: shared has to know when; route it to a table of its own "
            "(stratalog docs routes)"
        )


def _cut(side: Side, last: LastChanges) -> LastChanges:
    """Last changes in which a row that stands before a statement that emptied the table is deleted."""
    markers = _markers(side)
    if not len(markers) or not len(last.keys):
        return last
    _require_timed(side, markers)
    positions, orders = positions_of(markers), side.times.of(markers)
    order = np.lexsort([*reversed(positions)])
    positions, orders = positions[:, order], orders[order]
    # The number of each change and of each marker among all of them: the next marker is the first with a greater one.
    indexes = np.concatenate([positions, last.positions], axis=1)
    ranks = np.empty(indexes.shape[1], np.int64)
    ranks[np.lexsort([*reversed(indexes)])] = np.arange(indexes.shape[1])
    following = np.searchsorted(ranks[: len(order)], ranks[len(order) :])
    is_cut = ~last.is_gone & (following < len(order))
    following = np.minimum(following, len(order) - 1)
    return replace(
        last,
        orders=np.where(is_cut, orders[following], last.orders),
        positions=np.where(is_cut, positions[:, following], last.positions),
        is_gone=last.is_gone | is_cut,
    )


def _markers(side: Side) -> pa.Table:
    """The rows of silver that say that a statement emptied the table."""
    parts = []
    for file in side.marker_files:
        bounds = file.bounds(side.silver.schema, "_op")
        if bounds.minimum is not None and not bounds.minimum <= silver.Op.TRUNCATE <= (bounds.maximum or ""):
            continue
        rows = data_files.read_columns(side.silver.path, file, _CHANGE, side.silver.schema)
        is_marker = pc.equal(rows.column("_op"), silver.Op.TRUNCATE)
        if file.deletion_vector is not None:
            living = deletion_vectors.living_rows_mask(side.silver.path, file.deletion_vector, len(rows))
            is_marker = pc.and_(is_marker, pa.array(living))
        parts.append(rows.filter(is_marker))
    return _changes(side, parts)


def _last_changes_of_all(sides: Sequence[Side], changes: Sequence[LastChanges]) -> LastChanges:
    """Last change of each key in all source tables."""
    together = LastChanges(
        *(np.concatenate([getattr(c, name) for c in changes], axis=-1) for name in LastChanges.__dataclass_fields__)
    )
    sources = sorted({side.owner[0] for side in sides})
    rank = np.array([sources.index(side.owner[0]) for side in sides], np.int64)
    return together.newest_by_key([together.orders, rank[together.sides], *together.positions])


def _is_winner(unit: SharedUnit, hit: Hit, last: LastChanges, winners: Numbers) -> Flags:
    """Mask of the rows of the target that are of the last change of their keys.

    The others' rows change with them alone.
    """
    of_hit = last.take(winners[hit.keys])
    target_rows = data_files.read_rows(unit.target, hit.file, hit.rows, [*PROVENANCE, "_position"], unit.schema)
    is_same = (positions_of(target_rows) == of_hit.positions).all(axis=0)
    for index, name in enumerate(PROVENANCE):
        owners = pa.array([side.owner[index] for side in unit.sides]).take(pa.array(of_hit.sides))
        is_same &= np.asarray(pc.fill_null(pc.equal(target_rows.column(name), owners), False), np.bool_)
    # Its own may have been decoded again.
    own_rows = np.flatnonzero(is_same & (of_hit.sides == 0)) if unit.restatement else _NO_ROWS
    if len(own_rows):
        target_rows = data_files.read_rows(unit.target, hit.file, hit.rows[own_rows], unit.schema.names, unit.schema)
        is_same[own_rows] = equal_rows_mask(_new_target_rows(unit, of_hit.take(own_rows)), target_rows)
    return np.asarray(is_same, np.bool_)


def _new_target_rows(unit: SharedUnit, last: LastChanges) -> pa.Table:
    """The rows of the target that changes lead to, in their order."""
    fields = unit.schema.arrow(physical=False)
    parts, items = [fields.empty_table()], [_NO_ROWS]
    for number, side in enumerate(unit.sides):
        names = [*side.columns, *ADDED]
        for at, file in enumerate(side.files):
            of_file = np.flatnonzero((last.sides == number) & (last.files == at))
            if not len(of_file):
                continue
            rows = data_files.read_rows(side.silver.path, file, last.rows[of_file], names, side.silver.schema)
            provenance = dict(zip(PROVENANCE, side.owner, strict=True))
            columns = [_target_column(rows, field, provenance) for field in fields]
            parts.append(pa.Table.from_arrays(columns, schema=fields))
            items.append(of_file)
    order = np.argsort(np.concatenate(items), kind="stable")
    return pa.concat_tables(parts).take(pa.array(order))


def _target_column(rows: pa.Table, field: pa.Field, provenance: dict[str, str]) -> Any:
    """Rows of silver as one column of the target; NULL where silver has no such column."""
    if field.name in provenance:
        return pa.repeat(pa.scalar(provenance[field.name], field.type), len(rows))
    return rows.column(field.name) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
