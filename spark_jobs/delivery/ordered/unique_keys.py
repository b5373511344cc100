"""The keys by which changes of a table conflict: one number a row and unique index of the target.

Put here: numbers that are equal wherever the target takes two values of an index for the same. Not here: what conflicts
follow (causality.py).

Different values may have one number, by a hash or because nothing better is known; then changes are written one after
the other that need not be. Equal ones never have two: text is compared by the weights of its collation, which the
target is asked for where the text is not plain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delivery.encode import NULL, OutputColumn, key_literals, tuples
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.target_table import IndexPart, TargetTable
from spark_jobs.engine.jobs.key_hash import hashes
from spark_jobs.text.sql import server_text

NONE = np.uint64(0)
"""The number of a row that an index does not hold: a column of it is NULL."""
Keys = NDArray[np.uint64]
Weights = Callable[[str, pa.Array], pa.Array]
"""Function of a collation and texts: texts that are equal where the target takes texts for equal."""
_BINARY = ("binary", "")
_PLAIN = "^[ -~]*$"
"""Text in which letters differ by their case alone, under the collations of ``_PLAIN_COLLATIONS``."""
_PLAIN_COLLATIONS = (
    *("_general_ci", "_general_nopad_ci", "_general_mysql500_ci", "_bin", "_nopad_bin", "_0900_bin"),
    *("_unicode_ci", "_unicode_nopad_ci", "_unicode_520_ci", "_unicode_520_nopad_ci"),
    *("utf8mb4_0900_ai_ci", "utf8mb4_0900_as_ci", "utf8mb4_0900_as_cs"),
    *("_uca1400_ai_ci", "_uca1400_as_ci", "_uca1400_as_cs", "latin1_swedish_ci"),
)
_AT_ONCE = 500
"""Texts that the target is asked for at once."""


@dataclass(frozen=True, slots=True)
class UniqueKeys:
    """The keys of one table's rows.

    seed: of the table, so that rows of two tables have no number in common. columns: those that are written.
    """

    seed: int
    target: TargetTable
    columns: tuple[OutputColumn, ...]
    weights: Weights

    @property
    def has_key(self) -> bool:
        """True if rows are identified by an index; otherwise by all of their columns."""
        return bool(self.target.key(self.columns))

    def of(self, rows: pa.Table) -> list[Keys]:
        """The numbers of rows, one array an index. rows: with the columns, and ``_raw``."""
        keys = [self._index_hashes(rows, number, parts) for number, parts in enumerate(self.target.indexes, 1)]
        if not self.has_key:
            images = tuples(key_literals(rows, self.columns))
            keys.append(self._hashed(rows, [images], 0))
        return keys

    def _index_hashes(self, rows: pa.Table, number: int, parts: Sequence[IndexPart]) -> Keys:
        by_name = {column.name.casefold(): column for column in self.columns}
        columns = [by_name.get(part.column.casefold()) if part.column else None for part in parts]
        # Of an expression, or a column that the target fills, nothing is known: all rows of it conflict.
        known_columns = [column for column in columns if column is not None]
        if len(known_columns) < len(parts):
            return np.full(len(rows), self._seed(number), np.uint64)
        literal_list = [_flat(array) for array in key_literals(rows, known_columns)]
        is_null = np.zeros(len(rows), np.bool_)
        for array in literal_list:
            is_null |= pc.equal(array, NULL).to_numpy(zero_copy_only=False)
        values = [
            self._compared(rows, column, part, array)
            for column, part, array in zip(known_columns, parts, literal_list, strict=True)
        ]
        keys = self._hashed(rows, values, number)
        keys[is_null] = NONE
        return keys

    def _compared(self, rows: pa.Table, column: OutputColumn, part: IndexPart, literal: pa.Array) -> pa.Array:
        """The values of a column as the index compares them. literal: as SQL has them."""
        target = self.target.column(column.name)
        values = _flat(rows.column(column.name))
        if pa.types.is_floating(values.type):
            return pc.replace_substring_regex(literal, r"^'-0(\.0*)?'$", "'0'")
        if pa.types.is_binary(values.type) and part.length:
            return pc.utf8_slice_codeunits(literal, 0, 2 + 2 * part.length)
        if target is None or target.collation in (None, *_BINARY) or not pa.types.is_string(values.type):
            return literal
        # Where only ``_raw`` has the value, its bytes are not the column's characters.
        texts = pc.coalesce(values, literal)
        texts = pc.utf8_slice_codeunits(texts, 0, part.length) if part.length else texts
        assert target.collation
        return self._weighed(target.collation, pc.utf8_rtrim(texts, " "))

    def _weighed(self, collation: str, texts: pa.Array) -> pa.Array:
        """Equal texts where the collation's are; one that ignores spaces at the end is taken for granted."""
        if collation.endswith("_bin"):
            return texts
        is_plain = pc.all(pc.match_substring_regex(texts, _PLAIN)).as_py() in (True, None)
        if is_plain and collation.endswith(_PLAIN_COLLATIONS):
            return pc.ascii_lower(texts)
        distinct = pc.unique(texts)
        return self.weights(collation, distinct).take(pc.index_in(texts, value_set=distinct))

    def _hashed(self, rows: pa.Table, values: Sequence[pa.Array], number: int) -> Keys:
        names = [str(at) for at in range(len(values))]
        cells = [_flat(value).cast(pa.string()) for value in values]
        raw = pa.nulls(len(rows), pa.map_(pa.string(), pa.string()))
        keys = hashes(pa.table([*cells, raw], [*names, "_raw"]), names, self._seed(number))
        keys[keys == NONE] = np.uint64(1)
        return keys

    def _seed(self, number: int) -> np.uint64:
        return np.uint64((self.seed + number + 1) * 0x9E3779B97F4A7C15 % (1 << 64))


def _flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def weights_of(connection: Connection) -> Weights:
    """Ask a target. What it raises is a DeliveryError."""

    def weights(collation: str, texts: pa.Array) -> pa.Array:
        charset = collation.partition("_")[0]
        weight_columns: list[str] = []
        values = texts.to_pylist()
        for begin in range(0, len(values), _AT_ONCE):
            # Each with its number, since a UNION promises no order.
            queries = (
                f"SELECT {at} AS at, HEX(WEIGHT_STRING(CONVERT({server_text(text)} USING {charset}) "
                f"COLLATE {collation})) AS weight"
                for at, text in enumerate(values[begin : begin + _AT_ONCE])
            )
            rows = connection.ask(" UNION ALL ".join(queries))
            weight_columns += [str(row["weight"]) for row in sorted(rows, key=lambda row: int(row["at"]))]
        return pa.array(weight_columns, pa.string())

    return weights
