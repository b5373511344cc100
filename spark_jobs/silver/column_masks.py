"""Filtered, masked and computed columns of decoded rows, in tasks for tables with rules about columns.

Put here: masks as functions over Arrow columns, and the values of computed columns. Not here: which rules a table can
take (masking.py), or expressions (expressions/).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.binlog import Changes, TableDefinition
from spark_jobs.config.filters import ColumnRule, Mask
from spark_jobs.expressions.computed import Computed
from spark_jobs.silver import moved_from_codec
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import DELETE, UPDATE, AbsentColumns, key_change_mask
from spark_jobs.silver.partial_images import absent_names
from spark_jobs.silver.row_overlay import present_mask
from spark_jobs.silver.row_values import Image, fault_error, resolving

RAW = "_raw"
TEXTS = pa.map_(pa.string(), pa.string())


FileNames = Mapping[tuple[int, int], str]
"""The names of the log's files, by stretch and number."""
_NO_VALUE = "its type in the lake cannot hold the value of a row, so the expression cannot be evaluated"


@dataclass(frozen=True, slots=True)
class ColumnMasks:
    """Effects of a rule on the columns of one definition."""

    definition: TableDefinition
    types: Mapping[str, str]
    """Spark types of the source's columns, by name."""
    excluded: frozenset[str]
    masks: Mapping[str, Mask]
    computed: tuple[Computed, ...] = ()
    key: str = ""
    """Key of the rule in the configuration, for messages."""

    def __bool__(self) -> bool:
        return bool(self.excluded or self.masks or self.computed)

    @property
    def sources(self) -> frozenset[str]:
        """Names of the table's columns that expressions ask for."""
        asked = frozenset[str]().union(*(column.columns for column in self.computed))
        return frozenset(str(column.name) for column in self.definition.columns if str(column.name).casefold() in asked)

    def apply(self, rows: pa.Table, file_names: FileNames | None = None) -> pa.Table:
        """Rows without the excluded columns, with masked values, and no exact text (``_raw``) of either.

        Computed columns are of the values before masks. file_names: for messages about rows with ``_position``. Raises
        TableStopped where an expression asks for a value that the lake does not hold.
        """
        texts = rows.column(RAW).combine_chunks()
        image = Image(rows, texts)
        columns = {name: rows.column(name) for name in rows.column_names if name not in self.excluded}
        columns |= {
            column.name: self._computed(column, image, len(rows), lambda row: _row_location(rows, row, file_names))
            for column in self.computed
            if column.name not in columns  # those of rows that may lack columns come with them
        }
        for name, mask in self.masks.items():
            columns[name] = _masked(rows.column(name).combine_chunks(), mask, self.types[name], _TextsOf(name, texts))
        columns[RAW] = _without(texts, self.excluded | self.masks.keys())
        # Of rows that may lack columns: nobody asks for those that are excluded.
        if silver.ABSENT in columns:
            columns[silver.ABSENT] = _listed_without(columns[silver.ABSENT].combine_chunks(), self.excluded)
        # Rows without a key come from no other one, and whole rows ask for nothing of it.
        if silver.MOVED_FROM in columns:
            is_lacking = pc.is_valid(columns[silver.ABSENT])
            columns[silver.MOVED_FROM] = pc.if_else(is_lacking, self._masked_keys(rows), None)
        return pa.table(columns)

    def _masked_keys(self, rows: pa.Table) -> pa.ChunkedArray:
        """The keys that rows had before with the values that their columns have in the lake."""
        named = rows.column(silver.MOVED_FROM)
        key = [str(self.definition.columns[at].name) for at in self.definition.key or ()]
        masks = {name: mask for name, mask in self.masks.items() if name in key}
        if not masks or named.null_count == len(named):
            return named
        # The few keys that are named, masked as those of rows are.
        keys, numbers = moved_from_codec.keys_from_texts(named, key, rows.schema)
        texts = keys.column(RAW).combine_chunks()
        for name, mask in masks.items():
            masked = _masked(keys.column(name).combine_chunks(), mask, self.types[name], _TextsOf(name, texts))
            keys = keys.set_column(keys.schema.get_field_index(name), name, masked)
        keys = keys.set_column(keys.schema.get_field_index(RAW), RAW, _without(texts, frozenset(masks)))
        numbers_of_keys = np.full(len(rows), -1, np.int64)
        numbers_of_keys[numbers.to_numpy()] = np.arange(len(keys))
        masked_keys = moved_from_codec.keys_to_texts(keys, key).take(
            pa.array(numbers_of_keys, mask=numbers_of_keys < 0)
        )
        return moved_from_codec.with_unknown_inserts(
            pa.chunked_array([masked_keys]), moved_from_codec.has_unknown_insert(named)
        )

    def _computed(
        self,
        column: Computed,
        image: Image,
        count: int,
        location: Callable[[int], str],
        is_asked: NDArray[np.bool_] | None = None,
    ) -> pa.Array:
        """A computed column of rows; NULL where the table lacks a column that the expression names.

        count: of the rows. location: of a row, for messages. is_asked: mask of the rows that have a value, by default
        all. Raises TableStopped.
        """
        names = {str(source.name).casefold() for source in self.definition.columns}
        if column.columns - names:
            return pa.nulls(count, column.arrow)
        cells = column.compiled(resolving(self.definition))(image.cells(self.definition, column.columns))
        if cells.faults is not None:
            faulty = np.flatnonzero(cells.faults if is_asked is None else np.where(is_asked, cells.faults, 0))
            if len(faulty):
                begin = f"{location(int(faulty[0]))}{self.key}.computed.{column.name}"
                raise fault_error(self.definition, int(cells.faults[faulty[0]]), begin, _NO_VALUE)
        values = cells.over(count)
        return values if is_asked is None else pc.if_else(pa.array(is_asked), values, pa.scalar(None, values.type))

    def with_computed(
        self, logged: tuple[Changes, AbsentColumns], known: tuple[Changes, AbsentColumns], file: str
    ) -> tuple[Changes, AbsentColumns]:
        """Changes whose images may leave columns out, with the computed columns, and what their rows lack then.

        A change that has none of the columns that an expression asks for leaves its value as it is: the row lacks it,
        as it lacks them. logged: as the images have the rows; known: with what changes before tell of them; each with
        what rows lack. Raises TableStopped where an expression asks for a value that is not known.
        """
        (changes, absent), (rows, lacking) = logged, known
        image = Image(rows.after, rows.raw, lacking.after)
        names = [str(column.name) for column in self.definition.columns]
        key = [names[at] for at in self.definition.key or ()]
        added = [column.name for column in self.computed]
        is_held = present_mask(pa.chunked_array([absent.after]), names)
        is_moved = np.asarray(key_change_mask(changes, key), np.bool_)
        op = changes.op.to_numpy()

        def location(row: int) -> str:
            return f"{file}:{changes.offset[row].as_py()}: "

        lacks, values = ~np.hstack([is_held, np.ones((len(changes), len(added)), np.bool_)]), []
        for at, column in enumerate(self.computed, len(names)):
            asked = [nth for nth, name in enumerate(names) if name.casefold() in column.columns]
            # The key is in every row: it is new in rows that are new, or had another one.
            other_columns = [nth for nth in asked if names[nth] not in key]
            is_unchanged = np.zeros(len(changes), np.bool_)
            if other_columns:
                holds = is_held[:, other_columns]
                is_same_key = ~is_moved if len(other_columns) < len(asked) else np.ones(len(changes), np.bool_)
                is_unchanged = np.where(op == DELETE, ~holds.all(axis=1), ~holds.any(axis=1) & is_same_key)
            values.append(self._computed(column, image, len(changes), location, ~is_unchanged))
            lacks[:, at] = is_unchanged
        arrays = [*changes.after.columns, *values]
        after = pa.RecordBatch.from_arrays(arrays, [*changes.after.schema.names, *added])
        # Rows before updates are of no use but for their keys: their computed columns are as they were.
        nulls = [pa.nulls(len(changes), column.arrow) for column in self.computed]
        before = pa.RecordBatch.from_arrays([*changes.before.columns, *nulls], [*changes.before.schema.names, *added])
        lacks_before = ~present_mask(pa.chunked_array([absent.before]), names)
        is_update = np.repeat((op == UPDATE)[:, None], len(added), axis=1)
        lists = [absent_names(mask, [*names, *added]) for mask in (lacks, np.hstack([lacks_before, is_update]))]
        return replace(changes, after=after, before=before), AbsentColumns(*lists)


def _row_location(rows: pa.Table, row: int, file_names: FileNames | None) -> str:
    """Location of a row's change, as messages begin; nothing for a row of no log."""
    if file_names is None:
        return ""
    position = rows.column("_position")[row].as_py()
    return f"{file_names[position['stretch'], position['number']]}:{position['offset']}: "


def masks_of(definition: TableDefinition, rule: ColumnRule | None) -> ColumnMasks:
    """Effects of a rule that the table can take (``masking.columns_seen``) on its columns; none without a rule."""
    types = silver.columns(definition).types
    if rule is None:
        return ColumnMasks(definition, {}, frozenset(), {})
    excluded = frozenset(name for name in types if rule.is_left_out(name))
    masks = {name: mask for name in types if name not in excluded and (mask := rule.mask(name))}
    return ColumnMasks(definition, types, excluded, masks, rule.computed, f"columns.{rule.name}")


@dataclass(frozen=True, slots=True)
class _TextsOf:
    """The exact texts of one column."""

    name: str
    texts: pa.MapArray

    def rows(self) -> Iterator[tuple[int, str]]:
        """Rows that have one, and their texts."""
        for row in pc.indices_nonzero(self.texts.is_valid()).to_pylist():
            text = dict(self.texts[row].as_py()).get(self.name)
            if text is not None:
                yield row, text


def _masked(cells: pa.Array, mask: Mask, kind: str, exact: _TextsOf) -> pa.Array:
    match mask.kind:
        case "hash":
            return _hashed(cells, mask.salt.encode(), kind, exact)
        case "truncate" if kind == "BINARY":
            return pc.binary_slice(cells, 0, mask.length)
        case "truncate":
            return pc.utf8_slice_codeunits(cells.cast(pa.string()), 0, mask.length)
    if mask.constant is None:
        return pa.nulls(len(cells), cells.type)
    constant = str(mask.constant) if kind == "STRING" else mask.constant
    return pa.repeat(pa.scalar(constant, cells.type), len(cells))


def _hashed(cells: pa.Array, salt: bytes, kind: str, exact: _TextsOf) -> pa.Array:
    """SHA-256 of salt and value, in hex. A value that only ``_raw`` has is hashed as its text behind a zero byte."""
    # Values often repeat, and each is hashed once.
    encode = _encoder(kind)
    values = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
    digests = [
        None if value is None else hashlib.sha256(salt + encode(value)).hexdigest()
        for value in values.dictionary.to_pylist()
    ]
    hashed = pa.array(digests, pa.string()).take(values.indices)
    texts = {row: hashlib.sha256(salt + b"\0" + text.encode()).hexdigest() for row, text in exact.rows()}
    if not texts:
        return hashed
    return pa.array(
        [digest if digest is not None else texts.get(row) for row, digest in enumerate(hashed.to_pylist())],
        pa.string(),
    )


def _encoder(kind: str) -> Callable[[Any], bytes]:
    """The bytes of a value's text, of bytes themselves."""
    if kind == "BINARY":
        return bytes
    if kind.startswith("DECIMAL"):
        return lambda value: format(Decimal(value), "f").encode()
    return lambda value: str(value).encode()


def _without(texts: pa.MapArray, names: frozenset[str]) -> pa.MapArray:
    """Exact texts less those of some columns; null where none is left."""
    if texts.null_count == len(texts):
        return texts
    remaining = (
        None if row is None else [(name, text) for name, text in row if name not in names] for row in texts.to_pylist()
    )
    return pa.array([row or None for row in remaining], TEXTS)


def _listed_without(lists: pa.ListArray, names: frozenset[str]) -> pa.ListArray:
    """Lists less some items; null where none is left."""
    if lists.null_count == len(lists) or not names:
        return lists
    remaining = (None if row is None else [name for name in row if name not in names] for row in lists.to_pylist())
    return pa.array([row or None for row in remaining], lists.type)
