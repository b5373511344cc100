"""ENUM and SET: numbers on the wire, labels in the table's definition.

Put here: types whose values are numbers of labels. Not here: reading labels out of TABLE_MAP
(binlog/events/table_map.py).
"""

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog.kernels import intrinsics, row_cells, value_text
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.kernels.memory import fresh
from spark_jobs.binlog.types.base import BadValue, ColumnReading, ColumnType, Filled, Finish, Finished, TypedColumn


def _quoted(name: str, column: TypedColumn) -> str:
    labels = "" if column.labels is None else ",".join("'" + label.replace("'", "''") + "'" for label in column.labels)
    return f"{name}({labels})"


def _as_number(filled: Filled) -> Finished:
    """Numbers in place of unknown labels; as text, so that the column keeps its type."""
    return pc.cast(filled.array(pa.uint64()), pa.string()), None


def _finish_enum(labels: tuple[str, ...]) -> Finish:
    # Ordinals begin at 1; 0 is the empty text of a value that was not valid.
    encoded = [b"", *(label.encode() for label in labels)]
    starts = np.cumsum([0, *map(len, encoded)])
    text = np.frombuffer(b"".join(encoded) + bytes(intrinsics.COPIED), np.uint8)

    def finish(filled: Filled) -> Finished:
        numbers = filled.numbers("u8")[: filled.rows]
        offsets = np.empty(filled.rows + 1, np.int32)
        bad = value_text.label_offsets(numbers, starts, offsets)
        if bad >= 0:
            raise BadValue(bad, f"an ENUM value beyond its {len(labels)} labels")
        size = int(offsets[-1])
        out = fresh(size + intrinsics.COPIED)
        value_text.copy_labels(numbers, starts, address_of(text), offsets, address_of(out))
        return filled.texts(offsets, out[:size]), None

    return finish


def _finish_set(labels: tuple[str, ...]) -> Finish:
    encoded = [label.encode() for label in labels]
    starts = np.cumsum([0, *map(len, encoded)])
    text = np.frombuffer(b"".join(encoded), np.uint8)
    longest = len(text) + len(labels)

    def finish(filled: Filled) -> Finished:
        offsets = np.zeros(filled.rows + 1, np.int32)
        out = np.empty(filled.rows * longest, np.uint8)
        masks = filled.numbers("u8")[: filled.rows]
        bad = value_text.join_labels(masks, filled.is_null(), starts, text, offsets, out)
        if bad >= 0:
            raise BadValue(bad, f"a SET value beyond its {len(labels)} labels")
        return filled.texts(offsets, out[: offsets[-1]]), None

    return finish


class Enum(ColumnType):
    """ENUM, metadata: bytes of the number, 1 or 2. Number 0 is the empty text of an invalid value."""

    meta_size: int = 2
    has_labels: ClassVar[bool] = True

    def meta(self, wire: bytes) -> int:
        return wire[1]

    def allows(self, meta: int) -> bool:
        return meta in {1, 2}

    def sql(self, column: TypedColumn) -> str:
        return _quoted("enum", column)

    def reading(self, column: TypedColumn) -> ColumnReading:
        finish = _as_number if column.labels is None else _finish_enum(column.labels)
        return ColumnReading(row_cells.LITTLE_TO_64, (column.meta,), 8, pa.string(), finish)


class Set(ColumnType):
    """SET, metadata: bytes of the bits, 1 to 8; bit k stands for the label k."""

    meta_size: int = 2
    has_labels: ClassVar[bool] = True

    def meta(self, wire: bytes) -> int:
        return wire[1]

    def allows(self, meta: int) -> bool:
        return meta in {1, 2, 3, 4, 8}

    def sql(self, column: TypedColumn) -> str:
        return _quoted("set", column)

    def reading(self, column: TypedColumn) -> ColumnReading:
        finish = _as_number if column.labels is None else _finish_set(column.labels)
        return ColumnReading(row_cells.LITTLE_TO_64, (column.meta,), 8, pa.string(), finish)


ENUM = Enum()
SET = Set()
