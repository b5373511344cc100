"""The definitions that the rows of a slice were logged with.

Put here: finding them. Not here: how a TABLE_MAP event is read (table.py).
"""

import numpy as np

from spark_jobs.binlog import kernels
from spark_jobs.binlog.framing import Bytes, TableMaps, open_slice
from spark_jobs.binlog.table import TableDefinition, parse_table_map


def definitions_of(file: str, start: int, context: bytes | None, payload: Bytes) -> list[TableDefinition]:
    """One definition a table map that row events of the slice use, in order of first use. Raises DecodeError."""
    maps = TableMaps()
    scanner, found = open_slice(file, start, context, payload, maps, transaction_start=None, committed_us=0)
    used, first = np.unique(found.table[(found.mark & kernels.MARK_ROWS) != 0], return_index=True)
    ordinals = [ordinal for ordinal in used[np.argsort(first)].tolist() if ordinal >= 0]
    parsed = [parse_table_map(maps.events[ordinal], scanner.format, f"{file}:{start}") for ordinal in ordinals]
    return list(dict.fromkeys(parsed))
