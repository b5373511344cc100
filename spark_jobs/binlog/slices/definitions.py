"""The definitions that the rows of a slice were logged with.

Put here: finding them. Not here: how a TABLE_MAP event is read (binlog/events/table_map.py).
"""

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog.events.redaction import IGNORABLE
from spark_jobs.binlog.events.scanner import Bytes, Scan, TableMaps, open_slice
from spark_jobs.binlog.events.table_map import TableDefinition, parse_table_map
from spark_jobs.binlog.events.transaction_payload import Payloads
from spark_jobs.binlog.kernels import event_cells


class Definitions:
    """The definitions in the slices of one file, one after the other; every table map is read once."""

    def __init__(self) -> None:
        self._maps = TableMaps()
        self._parsed: dict[int, TableDefinition] = {}

    def of_slice(
        self, file: str, start: int, context: bytes | None, payload: Bytes, *, unused: bool = False
    ) -> list[TableDefinition]:
        """One definition a table map that row events of the slice use, in order of first use. Raises DecodeError.

        unused: behind them those whose rows come in a later slice.
        """
        scanner, scan = open_slice(file, start, context, payload, self._maps, transaction_start=None, committed_us=0)
        first_use = _first_uses(scan, scan.offset)
        for opened in Payloads(file, scanner.format, self._maps).open(scan):
            inside = _first_uses(opened.inner, scan.offset[opened.outer])
            first_use = inside | {
                ordinal: min(offset, inside.get(ordinal, offset)) for ordinal, offset in first_use.items()
            }
        ordinals = sorted(first_use, key=lambda ordinal: (first_use[ordinal], ordinal))
        ordinals += [ordinal for ordinal in range(len(self._maps)) if unused and ordinal not in first_use]
        for ordinal in ordinals:
            if ordinal not in self._parsed:
                event = self._maps.events[ordinal]
                self._parsed[ordinal] = parse_table_map(event, scanner.format, f"{file}:{start}")
        return list(dict.fromkeys(self._parsed[ordinal] for ordinal in ordinals))


def _first_uses(scan: Scan, offsets: NDArray[np.int64]) -> dict[int, int]:
    """The place of the first row event of each table map; a redacted one is of its table still."""
    rows = (scan.mark & event_cells.MARK_ROWS) != 0
    rows |= (scan.code == IGNORABLE) & (scan.table >= 0)
    ordinals, first = np.unique(scan.table[rows], return_index=True)
    return {
        ordinal: offset
        for ordinal, offset in zip(ordinals.tolist(), offsets[rows][first].tolist(), strict=True)
        if ordinal >= 0
    }


def definitions_of(
    file: str, start: int, context: bytes | None, payload: Bytes, *, unused: bool = False
) -> list[TableDefinition]:
    """Table definitions of one slice alone, as ``Definitions.of_slice`` gives them."""
    return Definitions().of_slice(file, start, context, payload, unused=unused)
