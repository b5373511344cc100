"""Values of a row in columns that its INSERT omits, in Arrow: the constants in definitions.

Put here: values of defaults, and rows with them. Not here: what a default is (ddl/default_values.py), or which columns
an image leaves out (partial_images.py).
"""

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.binlog import TableDefinition

_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)", re.DOTALL)
_BYTES = re.compile(r"X'([0-9a-f]*)'")


def default_scalar(sql: str, kind: pa.DataType) -> pa.Scalar:
    """The value of a column's default. sql: as ``ddl.default_values`` writes it, a literal of the type in the lake."""
    if sql == "NULL":
        return pa.scalar(None, kind)
    if wire := _BYTES.fullmatch(sql):
        return pa.scalar(bytes.fromhex(wire[1]), kind)
    quoted = _TEXT.fullmatch(sql)
    text = _ESCAPE.sub(_unescaped, quoted[1]) if quoted else sql
    return pa.scalar(text, pa.string()).cast(kind)


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1][1:], 16)) if len(escape[1]) > 1 else escape[1]


def with_defaults(rows: pa.RecordBatch, definition: TableDefinition, lacking: NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows with defaults where they are inserted and lack columns; a column without a known one stays null.

    lacking: bool[row, column], of the definition's columns.
    """
    constants = _constants(definition, rows.schema)
    columns = [
        pc.if_else(pa.array(mask), constants[name], column) if name in constants and mask.any() else column
        for name, column, mask in zip(rows.schema.names, rows.columns, lacking.T, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _constants(definition: TableDefinition, schema: pa.Schema) -> Mapping[str, pa.Scalar]:
    """The defaults that are not NULL, by column."""
    return {
        str(column.name): default_scalar(column.default, schema.field(str(column.name)).type)
        for column in definition.columns
        if column.default not in (None, "NULL")
    }
