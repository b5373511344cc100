"""Overlay of the partial rows of one key, in Arrow: each column from the newest row that holds it.

A row has ``_absent``: the columns that it has no value of, NULL where it is whole. What a later row lacks is as it was
before; a row that says that its key is gone ends what was before, and so does one that came from another key
(``_moved_from``): what it lacks is not to be found under its own. A key of which a column is in no row since was never
seen whole: its state is not known, and it has no row downstream. A key that is gone has the values of the row that was
deleted last, and none of rows that were deleted before that.

Put here: rows by key and position, which of them say anything (``telling_rows``), one row a key (``overlaid``), and
every row as whole as the rows of its key before it make it (``completed_rows_and_whole_flags``). Not here: how rows
come to lack columns (partial_images.py), or what becomes of them (decode_task.py, engine/target/partial_merge.py,
engine/changes/row_completion.py).

Rows of a key that several tasks have lie between each other in the log. So a task may leave out rows, and never lays
one over another: what is laid over each other are all rows that there are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.silver.net_changes import identity_columns, position_order
from spark_jobs.silver.partial_images import absent_names

ABSENT = "_absent"
MOVED_FROM = "_moved_from"
ENDED = "_ended"
"""Column of a key's row: true if it lacks columns, and the key's row before it ended, or it came from another key."""
PERIOD = "_period"
"""Column of rows: how many statements emptied the table before the row, which takes nothing from an earlier period."""
RAW = "_raw"
_RAW_TYPE = pa.map_(pa.string(), pa.string())
_NUMBER = "\0number"
_SEPARATOR = "\0"
"""Separator of names of columns; no name of a server's has a zero byte."""
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyRuns:
    """The rows of a table by key, those of a key in the order of their positions.

    numbers: row numbers. starts: where each key's rows begin in ``numbers``. is_gone: of ``numbers``, whether the row
    says that its key is gone. is_begun: of ``numbers``, whether the row came from another key, and lacks columns.
    is_first: of ``numbers``, whether nothing before the row counts for it: it is the key's first one, the row before
    says that the key is gone, or is of another period.
    """

    numbers: Numbers
    starts: Numbers
    is_gone: Flags
    is_begun: Flags
    is_first: Flags

    @classmethod
    def of(
        cls,
        rows: pa.Table,
        key: Sequence[str],
        is_gone: pa.Array | pa.ChunkedArray,
        periods: NDArray[np.int64] | None = None,
    ) -> "KeyRuns":
        """The rows by a key.

        rows: with the key's columns, ``_position`` and RAW; of windows too where they have ``_window``. periods: of
        each row the part of the log that it is in; a row takes nothing from another part.
        """
        order = position_order(rows)
        cells = dict(enumerate(identity_columns(rows, key)))
        names = [f"\0{at}" for at in cells]
        columns = [*cells.values(), *([rows.column("_window")] if "_window" in rows.column_names else [])]
        names += ["\0window"] if "_window" in rows.column_names else []
        indexes = np.empty(len(rows), np.int64)
        indexes[order] = np.arange(len(rows))
        grouped = pa.table([*columns, pa.array(indexes)], names=[*names, _NUMBER]).group_by(names, use_threads=False)
        lists = grouped.aggregate([(_NUMBER, "list")]).column(f"{_NUMBER}_list").combine_chunks()
        # A key's rows are gathered in the order of the table, which need not be that of the log.
        offsets, ordered = lists.offsets.to_numpy().astype(np.int64), lists.values.to_numpy()
        if len(ordered) and not np.array_equal(order, np.arange(len(order))):
            ordered = ordered[np.lexsort((ordered, np.repeat(np.arange(len(lists)), np.diff(offsets))))]
        numbers = order[ordered]
        gone = np.asarray(is_gone.to_numpy(zero_copy_only=False), np.bool_)[numbers]
        begun = np.zeros(len(rows), np.bool_)
        if MOVED_FROM in rows.column_names:
            begun = np.asarray(rows.column(MOVED_FROM).is_valid().to_numpy(zero_copy_only=False), np.bool_)
        is_first = np.zeros(len(rows), np.bool_)
        is_first[offsets[:-1]] = True
        is_first[1:] |= gone[:-1]
        if periods is not None:
            is_first[1:] |= np.diff(periods[numbers]) != 0
        return cls(numbers, offsets[:-1], gone, begun[numbers], is_first)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lasts(self) -> Numbers:
        """Index of each key's last row in ``numbers``."""
        return np.append(self.starts[1:], len(self.numbers))[: len(self.starts)] - 1

    @property
    def last_first(self) -> Numbers:
        """Index of the row in ``numbers`` that nothing before counts behind, of each key's rows the last such one."""
        return self.newest(self.is_first)

    @property
    def last_begun(self) -> Numbers:
        """Index of each key's last row in ``numbers`` that came from another key; -1 where it has none."""
        return self.newest(self.is_begun)

    def newest(self, flags: Flags) -> Numbers:
        """Index of each key's last row in ``numbers`` with a flag; -1 where it has none."""
        if not len(self):
            return np.zeros(0, np.int64)
        return np.maximum.reduceat(np.where(flags, np.arange(len(flags)), -1), self.starts)


@dataclass(frozen=True, slots=True)
class ColumnSources:
    """Index of the row that each key has its value from, for each column of rows; -1 where the column is absent.

    by_column: the same array for columns that the same rows hold.
    """

    by_column: Mapping[str, Numbers]

    @classmethod
    def of(cls, rows: pa.Table, runs: KeyRuns, names: Sequence[str]) -> "ColumnSources":
        """The sources of the columns of these names. rows: those that the runs are of."""
        # A value counts if it is of the key's last row, not of one that was deleted before; none counts that is older
        # than the row which came from another key.
        oldest = np.maximum(runs.last_first, runs.last_begun)
        counting: dict[int, Numbers] = {}
        by_column = {}
        for name, newest in _newest_holders(rows, runs, names).items():
            if id(newest) not in counting:
                counting[id(newest)] = np.where(newest >= oldest, newest, -1)
            by_column[name] = counting[id(newest)]
        return cls(by_column)

    def absent(self, names: Sequence[str]) -> Flags:
        """bool[key, column]: which columns are in no row that counts."""
        return np.stack([self.by_column[name] < 0 for name in names], axis=1)


def _newest_holders(rows: pa.Table, runs: KeyRuns, names: Sequence[str]) -> dict[str, Numbers]:
    """Newest row of each key that holds a column, by column; -1 where none does. As ``ColumnSources`` has them."""
    sets, codes = _present_sets(rows.column(ABSENT), names)
    codes = codes[runs.numbers]
    by_set: dict[bytes, Numbers] = {}
    by_column = {}
    for name, is_held in zip(names, sets.T, strict=True):
        set_key = is_held.tobytes()
        if set_key not in by_set:
            by_set[set_key] = runs.lasts if is_held.all() else runs.newest(is_held[codes])
        by_column[name] = by_set[set_key]
    return by_column


def present_mask(absent: pa.ChunkedArray, names: Sequence[str]) -> Flags:
    """bool[row, column]: which columns rows hold."""
    sets, codes = _present_sets(absent, names)
    mask: Flags = sets[codes]
    return mask


def _present_sets(absent: pa.ChunkedArray, names: Sequence[str]) -> tuple[Flags, NDArray[np.int32]]:
    """The distinct sets of columns that rows hold, bool[set, column], and which one each row has."""
    texts = pc.binary_join(absent.combine_chunks(), _SEPARATOR).dictionary_encode()
    sets = np.ones((len(texts.dictionary) + 1, len(names)), np.bool_)
    ordinals = {name: at for at, name in enumerate(names)}
    for at, text in enumerate(texts.dictionary.to_pylist()):
        sets[at, [ordinals[name] for name in text.split(_SEPARATOR) if name in ordinals]] = False
    return sets, np.asarray(texts.indices.fill_null(len(texts.dictionary)).to_numpy(), np.int32)


def telling_rows(rows: pa.Table, runs: KeyRuns, names: Sequence[str]) -> Numbers:
    """The rows that decide what a key is, by number in their order.

    These are its first, its last, the last two that say that it is gone, the last that came from another key, and of
    each column the newest that holds it.
    What is left out changes nothing, whatever other rows of a key there are elsewhere.
    """
    holders = {id(newest): newest for newest in _newest_holders(rows, runs, names).values()}
    # Where the last one is the key's last row, that before it says where what was deleted began.
    last_gone = runs.newest(runs.is_gone)
    is_earlier = runs.is_gone.copy()
    is_earlier[last_gone[last_gone >= 0]] = False
    gone = last_gone, runs.newest(is_earlier)
    indexes = [runs.starts, runs.lasts, *gone, runs.last_begun, *holders.values()]
    present = np.zeros(len(runs.numbers), np.bool_)
    for numbers in indexes:
        present[numbers[numbers >= 0]] = True
    return np.sort(runs.numbers[present])


def overlaid(rows: pa.Table, runs: KeyRuns, names: Sequence[str]) -> tuple[pa.Table, Flags]:
    """One row a key: the columns of these names, RAW and ABSENT of all of its rows, the other columns of its last row.

    And of each whether it lacks columns behind an end of what its key was before. It has MOVED_FROM where it lacks
    columns of the row that had another key before.
    """
    sources = ColumnSources.of(rows, runs, names)
    row_numbers: dict[int, pa.Array] = {}

    def numbers_of(source: Numbers) -> pa.Array:
        if id(source) not in row_numbers:
            row_numbers[id(source)] = pa.array(runs.numbers[source], mask=source < 0)
        return row_numbers[id(source)]

    # The last row's cells, and of each column those of the newest row that holds it.
    lasts, last_first, last_begun = runs.lasts, runs.last_first, runs.last_begun
    absent = sources.absent(names)
    is_moved = absent.any(axis=1) & (last_begun >= last_first)
    moved_from = np.where(is_moved, last_begun, -1)
    cells: dict[str, Callable[[], pa.Array]] = {
        RAW: lambda: _texts(rows, runs, sources, names),
        ABSENT: lambda: absent_names(absent, names),
        MOVED_FROM: lambda: rows.column(MOVED_FROM).combine_chunks().take(numbers_of(moved_from)),
    }
    columns = [
        cells[name]()
        if name in cells
        else rows.column(name).combine_chunks().take(numbers_of(sources.by_column.get(name, lasts)))
        for name in rows.column_names
    ]
    typed = [column.cast(field.type) for column, field in zip(columns, rows.schema, strict=True)]
    is_ended = (last_first > runs.starts) | (last_begun >= 0)
    return pa.table(typed, rows.schema), absent.any(axis=1) & is_ended


def completed_rows_and_whole_flags(
    rows: pa.Table, runs: KeyRuns, names: Sequence[str]
) -> tuple[pa.Table, NDArray[np.bool_]]:
    """All rows, completed by the rows of their keys before them, and which are whole then.

    A row takes nothing from before a row that says that its key is gone or that came from another key, nor from another
    period.

    Args:
        rows: with ABSENT and RAW.
        runs: of all of them.
        names: the source's columns, in which they are completed, as in RAW.
    """
    # The oldest row that each row may take values from.
    indexes = np.arange(len(rows))
    begins = np.maximum.accumulate(np.where(runs.is_first | runs.is_begun, indexes, 0))
    # Of each column the row that each row has its value from, -1 where none holds it; the same for a few sets of them.
    sets, codes = _present_sets(rows.column(ABSENT), names)
    codes = codes[runs.numbers]
    by_set: dict[bytes, Numbers] = {}
    sources: dict[str, Numbers] = {}
    for name, is_held in zip(names, sets.T, strict=True):
        if is_held.all():
            continue
        if (set_key := is_held.tobytes()) not in by_set:
            newest = np.maximum.accumulate(np.where(is_held[codes], indexes, -1))
            by_set[set_key] = np.empty(len(rows), np.int64)
            by_set[set_key][runs.numbers] = np.where(newest >= begins, runs.numbers[newest], -1)
        sources[name] = by_set[set_key]
    is_whole = np.ones(len(rows), np.bool_)
    for source in by_set.values():
        is_whole &= source >= 0
    completed_rows = rows.set_column(rows.schema.get_field_index(RAW), RAW, completed_texts(rows, sources, names))
    for name, source in sources.items():
        cells = rows.column(name).combine_chunks().take(pa.array(source, mask=source < 0))
        completed_rows = completed_rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), cells)
    return completed_rows, is_whole


def completed_texts(rows: pa.Table, sources: Mapping[str, Numbers], names: Sequence[str]) -> pa.Array:
    """The exact texts of each row: of each column that of the row which it has its value from."""
    raw = rows.column(RAW).combine_chunks()
    if raw.null_count == len(raw):
        return raw
    # Every text by its row and its column's ordinal, in that order.
    lists, items = (pa.ListArray.from_arrays(raw.offsets, values) for values in (raw.keys, raw.items))
    text_rows = np.asarray(pc.list_parent_indices(lists), np.int64)
    ordinals = np.asarray(pc.fill_null(pc.index_in(pc.list_flatten(lists), pa.array(names)), len(names)), np.int64)
    width = len(names) + 1
    codes = text_rows * width + ordinals
    order = np.argsort(codes, kind="stable")
    # Texts of columns that a row holds itself, as it has no others, and those that come with the values of other rows.
    row_numbers = np.arange(len(rows))
    pieces = [np.stack([codes, np.arange(len(codes))])]
    for name, source in sources.items():
        ordinal = names.index(name)
        lacking = row_numbers[(source >= 0) & (source != row_numbers)]
        source_codes = source[lacking] * width + ordinal
        at = np.minimum(np.searchsorted(codes[order], source_codes), max(len(order) - 1, 0))
        is_found = codes[order][at] == source_codes if len(order) else np.zeros(len(source_codes), np.bool_)
        pieces.append(np.stack([lacking[is_found] * width + ordinal, order[at[is_found]]]))
    texts = np.concatenate(pieces, axis=1)
    texts = texts[:, np.argsort(texts[0], kind="stable")]
    counts = np.bincount(texts[0] // width, minlength=len(rows))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    keys, values = (pc.list_flatten(arrays).take(pa.array(texts[1])) for arrays in (lists, items))
    return pa.MapArray.from_arrays(offsets, keys, values, mask=pa.array(counts == 0)).cast(raw.type)


def _texts(rows: pa.Table, runs: KeyRuns, sources: ColumnSources, names: Sequence[str]) -> pa.Array:
    """The exact texts of each key: of each column that of the row which has its value."""
    raw = rows.column(RAW).combine_chunks()
    if raw.null_count == len(raw):
        return pa.nulls(len(runs), _RAW_TYPE)
    # Every text with its row's position, its column's ordinal and its key's number; those that are not the newest go.
    lists, items = (pa.ListArray.from_arrays(raw.offsets, values) for values in (raw.keys, raw.items))
    indexes = np.empty(len(rows), np.int64)
    indexes[runs.numbers] = np.arange(len(rows))
    text_indexes = indexes[np.asarray(pc.list_parent_indices(lists), np.int64)]
    ordinals = np.asarray(pc.fill_null(pc.index_in(pc.list_flatten(lists), pa.array(names)), -1), np.int64)
    keys = np.searchsorted(runs.starts, text_indexes, "right") - 1
    by_ordinal = np.stack([sources.by_column[name] for name in names])
    is_newest = (ordinals >= 0) & (by_ordinal[ordinals, keys] == text_indexes)
    order = np.flatnonzero(is_newest)[np.lexsort((ordinals[is_newest], keys[is_newest]))]
    # In the order of keys, and of columns in each.
    counts = np.bincount(keys[order], minlength=len(runs))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    columns = pa.array(names).take(pa.array(ordinals[order]))
    texts = pc.list_flatten(items).take(pa.array(order))
    return pa.MapArray.from_arrays(offsets, columns, texts, mask=pa.array(counts == 0))


def with_names(rows: pa.Table, names: Mapping[str, str | None]) -> pa.Table:
    """Rows behind a change of columns. names: by the old one the new one, None where the column went."""
    if not names or ABSENT not in rows.column_names:
        return rows
    # Rows lack few distinct sets of columns, each of which gets its names once.
    absent = rows.column(ABSENT).combine_chunks()
    texts = pc.binary_join(absent, _SEPARATOR).dictionary_encode()
    sets = [
        [new for name in text.split(_SEPARATOR) if (new := names.get(name, name)) is not None]
        for text in texts.dictionary.to_pylist()
    ]
    renamed = pa.array([new_names or None for new_names in sets], absent.type).take(texts.indices)
    return rows.set_column(rows.schema.get_field_index(ABSENT), rows.schema.field(ABSENT), renamed)
