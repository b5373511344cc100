"""The definitions that the rows of a slice were logged with.

Put here: finding them. Not here: how a TABLE_MAP event is read (table.py).
"""

import numpy as np

from spark_jobs.binlog import kernels
from spark_jobs.binlog.framing import Bytes, TableMaps, open_slice
from spark_jobs.binlog.table import TableDefinition, parse_table_map


class Definitions:
    """The definitions in the slices of one file, one after the other; every table map is read once."""

    def __init__(self) -> None:
        self._maps = TableMaps()
        self._parsed: dict[int, TableDefinition] = {}

    def of_slice(self, file: str, start: int, context: bytes | None, payload: Bytes) -> list[TableDefinition]:
        """One definition a table map that row events of the slice use, in order of first use. Raises DecodeError."""
        scanner, found = open_slice(file, start, context, payload, self._maps, transaction_start=None, committed_us=0)
        used, first = np.unique(found.table[(found.mark & kernels.MARK_ROWS) != 0], return_index=True)
        ordinals = [ordinal for ordinal in used[np.argsort(first)].tolist() if ordinal >= 0]
        for ordinal in ordinals:
            if ordinal not in self._parsed:
                event = self._maps.events[ordinal]
                self._parsed[ordinal] = parse_table_map(event, scanner.format, f"{file}:{start}")
        return list(dict.fromkeys(self._parsed[ordinal] for ordinal in ordinals))


def definitions_of(file: str, start: int, context: bytes | None, payload: Bytes) -> list[TableDefinition]:
    """As ``Definitions.of_slice``, of one slice alone."""
    return Definitions().of_slice(file, start, context, payload)
