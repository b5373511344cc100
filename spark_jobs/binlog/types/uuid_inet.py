"""MariaDB's UUID, INET4 and INET6: BINARY without trailing zero bytes in the log; only a definition names the type.

Source: MariaDB plugin/type_uuid/sql_type_uuid.h (the log has the bytes in the order of the text, whatever order the
table stores them in), plugin/type_inet/sql_type_inet.cc.

Put here: types of fixed bytes with a text of their own. Not here: the loops that print them (kernels/value_text.py).
"""

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.kernels import row_cells, value_text
from spark_jobs.binlog.types.base import ColumnReading, ColumnType, Filled, Finished, TypedColumn


class FixedText(ColumnType):
    """``size`` bytes that the kernel of its name prints as at most ``longest`` characters."""

    def __init__(self, name: str, size: int, longest: int) -> None:
        self.name = name
        self.size = size
        self.longest = longest

    def sql(self, column: TypedColumn) -> str:  # noqa: ARG002 - every type is asked alike
        return self.name

    def reading(self, column: TypedColumn) -> ColumnReading:  # noqa: ARG002 - every type is asked alike
        size = self.size
        return ColumnReading(row_cells.PADDED, (size,), 4, pa.string(), self._finish, row_cells.SKIP_1, bounded=size)

    def _finish(self, filled: Filled) -> Finished:
        new_offsets = np.empty(filled.rows + 1, np.int32)
        out = np.empty(self.longest * filled.rows, np.uint8)
        print_texts = getattr(value_text, f"{self.name}_text")
        print_texts(filled.numbers("i4")[: filled.rows + 1], filled.text_address, filled.is_null(), new_offsets, out)
        return filled.texts(new_offsets, out[: new_offsets[-1]]), None


UUID = FixedText("uuid", 16, 36)
INET4 = FixedText("inet4", 4, 15)
INET6 = FixedText("inet6", 16, 39)
