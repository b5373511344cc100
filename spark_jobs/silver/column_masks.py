"""Filtered and masked columns of decoded rows, in Arrow: what a task makes of a table that a rule about columns is for.

Put here: masks as functions over columns. Not here: which rules a table can take, and the same masks as SQL, which
Spark applies where it compacts a table (masking.py). Both give the same values; tests compare them.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.filters import ColumnRule, Mask
from spark_jobs.silver import table as silver

RAW = "_raw"
TEXTS = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class ColumnMasks:
    """What a rule makes of the columns of one definition."""

    types: Mapping[str, str]
    """Spark types of the source's columns, by name."""
    excluded: frozenset[str]
    masks: Mapping[str, Mask]

    def __bool__(self) -> bool:
        return bool(self.excluded or self.masks)

    def apply(self, rows: pa.Table) -> pa.Table:
        """Rows without the excluded columns, with masked values, and no exact text (``_raw``) of either."""
        texts = rows.column(RAW).combine_chunks()
        columns = {name: rows.column(name) for name in rows.column_names if name not in self.excluded}
        for name, mask in self.masks.items():
            columns[name] = _masked(rows.column(name).combine_chunks(), mask, self.types[name], _TextsOf(name, texts))
        columns[RAW] = _without(texts, self.excluded | self.masks.keys())
        return pa.table(columns)


def masks_of(definition: TableDefinition, rule: ColumnRule | None) -> ColumnMasks:
    """What a rule that the table can take (``masking.shape``) does to its columns; nothing without a rule."""
    types = silver.columns(definition).types
    if rule is None:
        return ColumnMasks({}, frozenset(), {})
    excluded = frozenset(name for name in types if rule.is_left_out(name))
    masks = {name: mask for name in types if name not in excluded and (mask := rule.mask(name))}
    return ColumnMasks(types, excluded, masks)


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
    """The bytes of a value as Spark's ``CAST(… AS STRING)`` writes it."""
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
