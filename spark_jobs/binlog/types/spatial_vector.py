"""GEOMETRY and VECTOR: bytes behind a length that become a struct and a list.

Source: MySQL manual, "Internal Geometry Storage Format"; sql/field.h, Field_vector. All spatial types are one on the
wire.

Put here: types whose values have parts. Not here: JSON (json.py).
"""

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.kernels import value_text
from spark_jobs.binlog.types.base import (
    WITH_LENGTH,
    BadValue,
    ColumnReading,
    ColumnType,
    Counted,
    Filled,
    Finished,
    TypedColumn,
    exact_hex,
    validity_of,
)

GEOMETRY_TYPE = pa.struct([pa.field("srid", pa.int32()), pa.field("wkb", pa.binary())])
VECTOR_TYPE = pa.list_(pa.float32())
_FLOAT_SIZE = 4


class Geometry(Counted):
    """Any spatial type. Four bytes of SRID, then WKB as stored (x before y).

    A value without an SRID (an implicit default is empty), or with one beyond 2^31, is NULL with its hex beside it.
    """

    def sql(self, column: TypedColumn) -> str:  # noqa: ARG002 - every type is asked alike
        return "geometry"

    def reading(self, column: TypedColumn) -> ColumnReading:
        kind, skip = WITH_LENGTH[column.meta]
        return ColumnReading(kind, (0,), 4, GEOMETRY_TYPE, _finish_geometry, skip)


def _finish_geometry(filled: Filled) -> Finished:
    offsets = filled.numbers("i4")[: filled.rows + 1]
    srids, new_offsets = np.zeros(filled.rows, np.int32), np.empty(filled.rows + 1, np.int32)
    out = np.empty(int(offsets[-1]), np.uint8)
    bad = np.zeros(filled.rows, np.uint8)
    count = value_text.split_geometry(offsets, filled.text_address, filled.is_null(), srids, new_offsets, out, bad)
    validity, nulls = validity_of(filled.is_null() | bad) if count else (filled.validity, filled.nulls)
    wkb = pa.Array.from_buffers(pa.binary(), filled.rows, [None, pa.py_buffer(new_offsets), pa.py_buffer(out)])
    array = pa.Array.from_buffers(GEOMETRY_TYPE, filled.rows, [validity], nulls, children=[pa.array(srids), wkb])
    return array, exact_hex(filled, bad) if count else None


class Vector(Counted):
    """VECTOR of MySQL 9. Floats, IEEE 754, little-endian."""

    def sql(self, column: TypedColumn) -> str:  # noqa: ARG002 - every type is asked alike
        return "vector"

    def reading(self, column: TypedColumn) -> ColumnReading:
        kind, skip = WITH_LENGTH[column.meta]
        return ColumnReading(kind, (0,), 4, VECTOR_TYPE, _finish_vector, skip)


def _finish_vector(filled: Filled) -> Finished:
    """The bytes of a block's values are its floats already."""
    offsets = filled.numbers("i4")[: filled.rows + 1]
    broken = np.flatnonzero(offsets % _FLOAT_SIZE)
    if len(broken):
        raise BadValue(int(broken[0]) - 1, "the bytes are no whole number of floats")
    text = pa.py_buffer(b"") if filled.text is None else filled.text
    floats = pa.Array.from_buffers(pa.float32(), int(offsets[-1]) // _FLOAT_SIZE, [None, text])
    buffers = [filled.validity, pa.py_buffer(offsets // _FLOAT_SIZE)]
    return pa.Array.from_buffers(VECTOR_TYPE, filled.rows, buffers, filled.nulls, children=[floats]), None


class MariaDBVector(ColumnType):
    """VECTOR of MariaDB 11.7: in the log a VARBINARY, metadata: the bytes of a value (sql/sql_type_vector.h)."""

    def sql(self, column: TypedColumn) -> str:
        return f"vector({column.meta // _FLOAT_SIZE})"

    def reading(self, column: TypedColumn) -> ColumnReading:
        kind, skip = WITH_LENGTH[1 if column.meta < 256 else 2]
        return ColumnReading(kind, (0,), 4, VECTOR_TYPE, _finish_vector, skip)


GEOMETRY = Geometry()
VECTOR = Vector()
MARIADB_VECTOR = MariaDBVector()
