"""JSON: MySQL's binary documents as the text that CAST(… AS CHAR) prints in MySQL 9.

Source: MySQL sql-common/json_binary.h (the bytes), sql-common/json_dom.cc (the text). MariaDB's JSON is LONGTEXT.

Put here: JSON. Not here: the walk over a document's bytes (kernels/json.py).
"""

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.kernels import json as documents
from spark_jobs.binlog.kernels import json_scalars
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.types.base import (
    MOST_TEXT,
    WITH_LENGTH,
    BadValue,
    ColumnReading,
    Counted,
    Filled,
    Finished,
    TypedColumn,
    require_fits,
)

_LONGEST = 8
"""A document's text has no more bytes than so many times its own: six for a control character, and no value twice."""
_SLACK = 1 << 10


class Json(Counted):
    """JSON: a document in MySQL's binary form."""

    def sql(self, column: TypedColumn) -> str:  # noqa: ARG002 - every type is asked alike
        return "json"

    def reading(self, column: TypedColumn) -> ColumnReading:
        kind, skip = WITH_LENGTH[column.meta]
        return ColumnReading(kind, (0,), 4, pa.string(), _finish, skip)


def _finish(filled: Filled) -> Finished:
    """Most text is not much longer than its document; where it is, the buffer is enlarged and the kernel resumes."""
    offsets = filled.numbers("i4")[: filled.rows + 1]
    new_offsets = np.zeros(filled.rows + 1, np.int32)
    stack = np.empty((documents.JSON_DEPTH, 7), np.int64)
    state = np.zeros(2, np.int64)
    nulls = filled.is_null()
    out = np.empty(min(2 * int(offsets[-1]) + 8 * filled.rows + _SLACK, MOST_TEXT), np.uint8)
    # A document without room comes back with its row: the buffer is doubled, up to what JSON's longest text can be.
    while True:
        reason = documents.json_text(
            offsets, filled.text_address, nulls, state, new_offsets, address_of(out), len(out), stack
        )
        row, size = state.tolist()
        if reason == 0:
            return filled.texts(new_offsets, out[:size]), None
        length = int(offsets[row + 1] - offsets[row])
        if reason == json_scalars.JSON_BAD or len(out) - size >= _LONGEST * length + _SLACK:
            raise BadValue(row, "the bytes are no JSON document")
        require_fits(len(out) + 1)
        larger = np.empty(min(2 * len(out), MOST_TEXT), np.uint8)
        larger[:size] = out[:size]
        out = larger


JSON = Json()
