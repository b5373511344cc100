"""Filtered, masked and computed columns of decoded rows: what a task makes of a table that a rule about columns is for.

Put here: masks as functions over Arrow columns, and the values of computed columns. Not here: which rules a table can
take (masking.py), or expressions (expressions/).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.filters import ColumnRule, Mask
from spark_jobs.errors import TableStopped
from spark_jobs.expressions.computed import Computed
from spark_jobs.silver import moved_keys
from spark_jobs.silver import table as silver
from spark_jobs.silver.row_values import Image, fault_text, resolving

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
    """Of the rule, for messages."""

    def __bool__(self) -> bool:
        return bool(self.excluded or self.masks or self.computed)

    def apply(self, rows: pa.Table, file_names: FileNames | None = None) -> pa.Table:
        """Rows without the excluded columns, with masked values, and no exact text (``_raw``) of either.

        Computed columns are of the values before masks. file_names: for messages about rows with ``_position``. Raises
        TableStopped where an expression asks for a value that the lake does not hold.
        """
        texts = rows.column(RAW).combine_chunks()
        columns = {name: rows.column(name) for name in rows.column_names if name not in self.excluded}
        columns |= {column.name: self._computed(column, rows, texts, file_names) for column in self.computed}
        for name, mask in self.masks.items():
            columns[name] = _masked(rows.column(name).combine_chunks(), mask, self.types[name], _TextsOf(name, texts))
        columns[RAW] = _without(texts, self.excluded | self.masks.keys())
        # Of rows that may lack columns: nobody asks for those that are excluded.
        if silver.ABSENT in columns:
            columns[silver.ABSENT] = _listed_without(columns[silver.ABSENT].combine_chunks(), self.excluded)
            columns[silver.MOVED_FROM] = self._masked_keys(rows)
        return pa.table(columns)

    def _masked_keys(self, rows: pa.Table) -> pa.ChunkedArray:
        """The keys that rows had before with the values that their columns have in the lake."""
        named = rows.column(silver.MOVED_FROM)
        key = [str(self.definition.columns[at].name) for at in self.definition.key or ()]
        masks = {name: mask for name, mask in self.masks.items() if name in key}
        if not masks or named.null_count == len(named):
            return named
        # The few keys that are named, masked as those of rows are.
        keys, numbers = moved_keys.keys_from_texts(named, key, rows.schema)
        texts = keys.column(RAW).combine_chunks()
        for name, mask in masks.items():
            masked = _masked(keys.column(name).combine_chunks(), mask, self.types[name], _TextsOf(name, texts))
            keys = keys.set_column(keys.schema.get_field_index(name), name, masked)
        keys = keys.set_column(keys.schema.get_field_index(RAW), RAW, _without(texts, frozenset(masks)))
        numbers_of_keys = np.full(len(rows), -1, np.int64)
        numbers_of_keys[numbers.to_numpy()] = np.arange(len(keys))
        return pa.chunked_array(
            [moved_keys.keys_to_texts(keys, key).take(pa.array(numbers_of_keys, mask=numbers_of_keys < 0))]
        )

    def _computed(self, column: Computed, rows: pa.Table, texts: pa.MapArray, file_names: FileNames | None) -> pa.Array:
        """A computed column of rows; NULL where the table lacks a column that the expression names."""
        names = {str(source.name).casefold() for source in self.definition.columns}
        if column.columns - names:
            return pa.nulls(len(rows), column.arrow)
        cells = column.compiled(resolving(self.definition))(Image(rows, texts).cells(self.definition, column.columns))
        if cells.faults is not None and cells.faults.any():
            row = int(np.flatnonzero(cells.faults)[0])
            reason = fault_text(self.definition, int(cells.faults[row]), _NO_VALUE)
            raise TableStopped(f"{_row_location(rows, row, file_names)}{self.key}.computed.{column.name}: {reason}")
        return cells.over(len(rows))


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
