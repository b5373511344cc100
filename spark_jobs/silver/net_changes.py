"""Net changes, in Arrow: decoded changes -> at most two rows a key, in a compacting task.

Put here: the net effect of changes and the reduction in a task. Not here: tasks (decode_task.py), the decoder (binlog).

A row says whether its key existed before its first change (``_existed``) and after its last (``_exists``). That pair
composes: (a, b) then (c, d) is (a, d), in any grouping, which the four operations' names alone would not.

Two keys are one where the bytes stored are: 'a' and 'A' are two, and so are two dates that no column holds, by their
exact texts. 0 and -0 are one number, which no index holds twice.

Tables without a key are keyless tables: their changes are images that came or went (``image_rows``), and are only
counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Changes, comparable_texts
from spark_jobs.bronze.derived_slices import FIRST_DERIVED_ROW
from spark_jobs.errors import Unsupported
from spark_jobs.silver import moved_from_codec

INSERT, UPDATE, DELETE = 1, 2, 3
_ABSENT, _MOVED_FROM, _MOVED = "_absent", "_moved_from", "_moved"
_RAW = pa.map_(pa.string(), pa.string())
_ORDER = ("row", "offset", "number", "stretch")
"""Fields of ``_position``, the least significant first."""


@dataclass(frozen=True, slots=True)
class SliceOrigin:
    """Origin of a slice: its file, what its rows' positions begin with, and the ordinal of its window."""

    file: str
    stretch: int
    number: int
    window: int


@dataclass(frozen=True, slots=True)
class AbsentColumns:
    """Columns of which the images of some changes have no value, as lists of names; NULL where an image is whole.

    after: of the row after each change, or of the row that was deleted. before: of the row before an update.
    """

    after: pa.Array
    before: pa.Array

    def take(self, numbers: Any) -> "AbsentColumns":
        """The absent columns of some of the changes."""
        return AbsentColumns(self.after.take(numbers), self.before.take(numbers))


Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
_EXACT, _AT = "\0exact", "\0at"
"""Columns of the exact texts of a key that its columns do not hold, null for nearly every row, and of a row's position;
gone when reduced. No column of a server has a zero byte in its name."""


def net_rows(
    changes: Changes, origin: SliceOrigin, names: Sequence[str], key: Sequence[str], absent: AbsentColumns | None = None
) -> Iterator[pa.Table]:
    """One row a change; where an update changed the key, a delete of the old one besides, and the new one is new.

    absent: where rows may lack columns; they say it then in ``_absent``, and in ``_moved_from`` which key they had,
    where that changed. Raises Unsupported where a column of the key is NULL.
    """
    _require_keys(changes, origin, key)
    is_moved = key_change_mask(changes, key)
    # Whether the row existed before the change and exists after it; a changed key is a new row.
    effects = {
        "_existed": pc.and_not(pc.not_equal(changes.op, INSERT), is_moved),
        "_exists": pc.not_equal(changes.op, DELETE),
    }
    image = {name: changes.after.column(name) for name in names}
    if absent is not None:
        old_keys = _old_key_texts(changes, key, is_moved, absent.after)
        effects |= {_ABSENT: absent.after, _MOVED_FROM: old_keys, _MOVED: old_keys.is_valid()}
    yield _image_table(image, changes, origin, effects, counted=1)
    # The delete of the old key, in a table of its own: a change gives one row of each key.
    indexes = pc.indices_nonzero(is_moved)
    if len(indexes):
        absent_columns = {} if absent is None else _not_moved(absent.before.take(indexes))
        yield _old_keys(changes, origin, names, key, indexes, more_columns=absent_columns)


def image_rows(
    changes: Changes, origin: SliceOrigin, names: Sequence[str], absent: AbsentColumns | None = None
) -> Iterator[pa.Table]:
    """A row for each image of a keyless table that was added or removed; ``_copies`` is 1 or -1.

    absent: as for ``net_rows``; only inserts may lack columns, which are their defaults.
    """
    copies = pc.if_else(pc.equal(changes.op, DELETE), pa.scalar(-1, pa.int64()), pa.scalar(1, pa.int64()))
    effects = {"_copies": copies} if absent is None else {"_copies": copies, _ABSENT: absent.after}
    yield _image_table({name: changes.after.column(name) for name in names}, changes, origin, effects, counted=1)
    indexes = pc.indices_nonzero(pc.equal(changes.op, UPDATE))
    if len(indexes):
        image = {name: changes.before.column(name).take(indexes) for name in names}
        old = _select(changes, indexes)
        effects = {"_copies": _constant(-1, pa.int64(), len(old))}
        effects |= {} if absent is None else {_ABSENT: absent.before.take(indexes)}
        yield _image_table(image, old, origin, effects, counted=0)


def every_change(
    changes: Changes,
    origin: SliceOrigin,
    names: Sequence[str],
    key: Sequence[str],
    absent: AbsentColumns | None = None,
    *,
    splits: bool,
) -> Iterator[pa.Table]:
    """One row a change, of a delete the row before: nothing is reduced.

    absent: as for ``net_rows``. splits: an update that changes the key, and each one of a table without a key, is a
    delete of the row before besides, which counts as no change; before images have all columns then. Raises Unsupported
    as ``net_rows`` where rows may lack columns.
    """
    effects = {"_op": _operations(changes), "_gtid": _gtids(changes)}
    # The changes themselves, and the deletes of rows that updates moved away from.
    is_split = key_change_mask(changes, key) if key else pc.equal(changes.op, UPDATE)
    if absent is not None:
        effects |= _not_moved(absent.after)
    if absent is not None and key:
        _require_keys(changes, origin, key)
        effects[_MOVED_FROM] = _old_key_texts(changes, key, is_split, absent.after)
    yield _image_table({name: changes.after.column(name) for name in names}, changes, origin, effects, counted=1)
    indexes = pc.indices_nonzero(is_split) if splits else ()
    if len(indexes):
        image = {name: changes.before.column(name).take(indexes) for name in names}
        old = _select(changes, indexes)
        deletes = replace(old, op=_constant(DELETE, pa.uint8(), len(old)))
        effects = {"_op": _operations(deletes), "_gtid": _gtids(changes).take(indexes)}
        effects |= {} if absent is None else _not_moved(absent.before.take(indexes))
        yield _image_table(image, old, origin, effects, counted=0)


_OPERATIONS = pa.array(["", "insert", "update", "delete", "", "", "cascade_update", "cascade_delete"])
"""Operations by ``Changes.op``, and four more where the change was derived from a foreign key."""


def _operations(changes: Changes) -> pa.Array:
    is_derived = np.asarray(pc.greater_equal(changes.row, FIRST_DERIVED_ROW).to_numpy(zero_copy_only=False), np.uint8)
    return _OPERATIONS.take(pa.array(changes.op.to_numpy() + 4 * is_derived))


def _gtids(changes: Changes) -> pa.Array:
    return pa.nulls(len(changes), pa.string()) if changes.gtid is None else changes.gtid.cast(pa.string())


def first_and_last_rows(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The first and the last row of each window and key by position; the last one counts the changes of all.

    Both stay, since a task's slices need not lie next to each other in the log: what another task holds may be first
    of all, last of all, or between. One row a key is left when all are reduced together (``one_row_per_key``).
    """
    ends, first_rows, last_rows = _ends(rows, key)
    if len(ends) == len(rows):  # no key twice
        return rows
    before = first_rows[first_rows != last_rows]
    first = _with(rows.take(pa.array(before)), {"_changes": _constant(0, pa.int64(), len(before))})
    return pa.concat_tables([first, _last(rows, ends, last_rows)])


def one_row_per_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """One row for each window and key, where these rows are all there are: the last, as existing as the first was.

    They are in the order of the key, so that a reader of few keys needs few row groups of the file they become.
    """
    ends, first_rows, last_rows = _ends(rows, key, is_final=True)
    return _with(_last(rows, ends, last_rows), {"_existed": rows.column("_existed").take(pa.array(first_rows))})


def sorted_by_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows in the order of their key's columns."""
    order = pc.sort_indices(rows.select(list(key)), sort_keys=[(name, "ascending") for name in key])
    return rows if np.array_equal(order, np.arange(len(rows))) else rows.take(order)


def _ends(rows: pa.Table, key: Sequence[str], *, is_final: bool = False) -> tuple[pa.Table, Numbers, Numbers]:
    """Sums of the rows of each window and key, and the numbers of the first and the last.

    is_final: in the order of the key.
    """
    order = position_order(rows)
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.arange(len(rows))
    ends = _aggregated(rows, key, ranks)
    ends = sorted_by_key(ends, key) if is_final else ends
    first_rows, last_rows = (order[ends.column(f"{_AT}_{end}").to_numpy()] for end in ("min", "max"))
    return ends, first_rows, last_rows


def _last(rows: pa.Table, ends: pa.Table, last_rows: Numbers) -> pa.Table:
    """Last rows, with the sums of all."""
    last = rows.take(pa.array(last_rows))
    return _with(last, {"_changes": ends.column("_changes_sum"), "_micros": ends.column("_micros_max")})


def by_position(rows: pa.Table) -> pa.Table:
    """The rows in the order of ``_position``."""
    return rows.take(pa.array(position_order(rows)))


def position_order(rows: pa.Table) -> Numbers:
    """The row numbers in the order of ``_position``."""
    position = rows.column("_position").combine_chunks()
    fields = [position.field(name).to_numpy(zero_copy_only=False) for name in _ORDER]
    differing = [values for values in fields if len(values) and values.min() != values.max()]
    return np.lexsort(differing) if differing else np.arange(len(rows))


def _aggregated(rows: pa.Table, key: Sequence[str], ranks: Numbers) -> pa.Table:
    """Least and greatest rank of each window and key, its changes and its latest time.

    Columns that are the same in all rows tell no keys apart, and are left out: mostly the window and the exact texts.
    """
    *columns, exact = identity_columns(rows, key)
    cells = dict(zip(key, columns, strict=True))
    if exact.null_count < len(rows):
        cells[_EXACT] = exact
    window = rows.column("_window")
    if len(rows) and pc.min_max(window).as_py()["min"] != pc.min_max(window).as_py()["max"]:
        cells["_window"] = window
    counted = {_AT: pa.array(ranks), "_changes": rows.column("_changes"), "_micros": rows.column("_micros")}
    grouped = pa.table(cells | counted).group_by([*cells], use_threads=False)
    return grouped.aggregate([(_AT, "min"), (_AT, "max"), ("_changes", "sum"), ("_micros", "max")])


def identity_columns(rows: pa.Table, key: Sequence[str]) -> list[pa.ChunkedArray]:
    """Columns that tell rows apart: those of the key, of which -0 is 0, and the exact texts of those that hold none.

    Two keys are one where these are equal, NULL being a value.
    """
    exact = exact_texts(rows.column("_raw").combine_chunks(), key)
    return [*(_without_negative_zero(rows.column(name)) for name in key), pa.chunked_array([exact])]


def _without_negative_zero(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """-0 as 0; what is no floating number as it is."""
    return pc.add(values, pa.scalar(0, values.type)) if pa.types.is_floating(values.type) else values


def exact_texts(raw: pa.MapArray, names: Sequence[str] | None = None) -> pa.Array:
    """The exact texts that each row has, of some columns or of all, as one text; NULL for rows that have none.

    In the order of the names: in ``_raw`` they stand as the table's columns do, which a statement may move; times
    without the zeros that their fractions end with, of which a statement may add some. No name holds a zero byte, and
    the texts are numbers, hex and their signs.
    """
    if raw.null_count == len(raw):
        return pa.nulls(len(raw), pa.string())
    keys, items = (pa.ListArray.from_arrays(raw.offsets, values) for values in (raw.keys, raw.items))
    columns = [pc.list_parent_indices(keys), pc.list_flatten(keys), pc.list_flatten(items)]
    entries = pa.table(columns, ["row", "name", "text"])
    if names is not None:
        entries = entries.filter(pc.is_in(entries.column("name"), pa.array(names, pa.string())))
    entries = entries.take(pc.sort_indices(entries, sort_keys=[("row", "ascending"), ("name", "ascending")]))
    comparable = comparable_texts(entries.column("text"))
    pairs = pc.binary_join_element_wise(entries.column("name"), comparable, "\0").combine_chunks()
    counts = np.bincount(np.asarray(entries.column("row")), minlength=len(raw))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    texts = pc.binary_join(pa.ListArray.from_arrays(offsets, pairs), "\1")
    return pc.if_else(pa.array(counts > 0), texts, None)


def _with(rows: pa.Table, columns: dict[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    for name, column in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows


def key_change_mask(changes: Changes, key: Sequence[str]) -> pa.Array:
    """Mask of the updates that changed the key, by the bytes stored."""
    differs = pa.repeat(pa.scalar(False), len(changes))
    for name in key:
        differs = pc.or_(differs, _differs(changes.after.column(name), changes.before.column(name)))
    if changes.raw is not None or changes.before_raw is not None:
        exact = (exact_texts(_raw(raw, len(changes)), key) for raw in (changes.raw, changes.before_raw))
        differs = pc.or_(differs, _differs(*exact))
    return pc.and_(pc.equal(changes.op, UPDATE), differs)  # only updates have a row before


def _differs(left: pa.Array, right: pa.Array) -> pa.Array:
    """Value by value, where NULL is a value too."""
    one_sided = pc.not_equal(pc.is_null(left), pc.is_null(right))
    return pc.or_(one_sided, pc.fill_null(pc.not_equal(left, right), False))


def _old_keys(
    changes: Changes,
    origin: SliceOrigin,
    names: Sequence[str],
    key: Sequence[str],
    indexes: pa.Array,
    *,
    more_columns: dict[str, pa.Array],
) -> pa.Table:
    """Deletes of the keys that updates left, as the rows were; NULL in columns that were not decoded."""
    decoded = {*key, *changes.before.schema.names}
    image = {
        name: changes.before.column(name).take(indexes)
        if name in decoded
        else pa.nulls(len(indexes), changes.after.schema.field(name).type)
        for name in names
    }
    old = _select(changes, indexes)
    effects = {name: _constant(value, pa.bool_(), len(old)) for name, value in (("_existed", True), ("_exists", False))}
    return _image_table(image, old, origin, effects | more_columns, counted=0)


def _select(changes: Changes, indexes: pa.Array) -> Changes:
    """Some of the changes, with the exact texts of their before images; the images themselves are the caller's."""
    return Changes(
        op=changes.op.take(indexes),
        offset=changes.offset.take(indexes),
        row=changes.row.take(indexes),
        committed_at=changes.committed_at.take(indexes),
        gtid=None,
        after=changes.after,
        before=changes.before,
        raw=None if changes.before_raw is None else changes.before_raw.take(indexes),
        before_raw=None,
    )


def _image_table(
    image: dict[str, pa.Array], changes: Changes, origin: SliceOrigin, effects: dict[str, pa.Array], *, counted: int
) -> pa.Table:
    """Images with what compacting needs of each; ``counted``: how many changes a row stands for."""
    length = len(changes)
    constants = [_constant(origin.stretch, pa.int32(), length), _constant(origin.number, pa.int64(), length)]
    position = pa.StructArray.from_arrays(
        [*constants, changes.offset, changes.row], ["stretch", "number", "offset", "row"]
    )
    added = {
        "_window": _constant(origin.window, pa.int32(), length),
        **effects,
        "_position": position,
        "_committed_at": changes.committed_at,
        "_raw": _raw(changes.raw, length),
        "_changes": _constant(counted, pa.int64(), length),
        "_micros": changes.committed_at.cast(pa.int64()),
    }
    return pa.table(image | added)


def _constant(value: int | bool | str, kind: pa.DataType, length: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), length)


def _raw(raw: pa.Array | None, length: int) -> pa.Array:
    return pa.nulls(length, _RAW) if raw is None else raw


def _old_key_texts(changes: Changes, key: Sequence[str], is_moved: pa.Array, absent: pa.Array) -> pa.Array:
    """The keys that rows had before, of those that changes gave another one while their images lacked columns."""
    indexes = pc.indices_nonzero(pc.and_(is_moved, pc.is_valid(absent)))
    texts = np.full(len(changes), None, object)
    if len(indexes):
        cells = {name: changes.before.column(name).take(indexes) for name in key}
        old_keys = pa.table(cells | {moved_from_codec.RAW: _raw(changes.before_raw, len(changes)).take(indexes)})
        for index, old_key in zip(
            indexes.to_pylist(), moved_from_codec.keys_to_texts(old_keys, key).to_pylist(), strict=True
        ):
            texts[index] = old_key
    return pa.array(texts.tolist(), moved_from_codec.TEXTS)


def _not_moved(absent: pa.Array) -> dict[str, pa.Array]:
    """Columns about rows that came from no other key: what they lack."""
    return {
        _ABSENT: absent,
        _MOVED_FROM: pa.nulls(len(absent), moved_from_codec.TEXTS),
        _MOVED: _constant(False, pa.bool_(), len(absent)),
    }


def _require_keys(changes: Changes, origin: SliceOrigin, key: Sequence[str]) -> None:
    """Check that key columns have a value, or the exact text of one, in each row. Raises Unsupported."""
    updates = pc.equal(changes.op, UPDATE)
    for name in key:
        for image, raw, is_needed in (
            (changes.after, changes.raw, None),
            (changes.before, changes.before_raw, updates),
        ):
            missing = pc.is_null(image.column(name))
            missing = missing if is_needed is None else pc.and_(missing, is_needed)
            if raw is not None and missing.true_count:
                missing = pc.and_(missing, pc.is_null(exact_texts(raw, [name])))
            if missing.true_count:
                at = changes.offset[pc.index(missing, True).as_py()]
                raise Unsupported(f"{origin.file}:{at}: column {name}: NULL in the key that rows are identified by")
