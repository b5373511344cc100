"""Columns of changes with facts of their row events: GTIDs, flags, and which columns row images hold.

Put here: a block's rows, each with what is its event's. Not here: the rows' values (blocks.py).
"""

from ctypes import string_at
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.events.scanner import HEADER, Scan
from spark_jobs.binlog.kernels import event_cells, row_images
from spark_jobs.binlog.rows.blocks import BEFORE, ROW, Block
from spark_jobs.binlog.rows.changes import Presence
from spark_jobs.binlog.rows.located_events import RowSource
from spark_jobs.binlog.rows.row_events import RowEvents
from spark_jobs.binlog.types.base import Numbers

_FLAGS = HEADER + 6
"""Position where the flags are in a row event: behind its table's id."""


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Columns of ``Changes`` that row events give: GTIDs, presence of columns, flags; None for those not asked for."""

    gtid: pa.Array | None = None
    present: Presence | None = None
    before_present: Presence | None = None
    flags: pa.Array | None = None


def event_columns(block: Block, origin: RowSource, *, gtids: bool, flags: bool) -> EventColumns:
    """The event columns of a block's rows. origin: the events that the rows came from."""
    source = block.source[: block.rows]
    columns = len(block.plan.names)
    present, before_present = _presence(origin.events, source, columns) if block.is_partial else (None, None)
    return EventColumns(
        _gtids(origin.scan, origin.events.transactions[source], origin.gtid) if gtids else None,
        present,
        before_present,
        _flags(origin.events, source) if flags else None,
    )


def _presence(events: RowEvents, source: Numbers, columns: int) -> list[Presence]:
    """Presence of columns in the rows' own images, and in their before images; source: the event of each row."""
    sources, indexes = np.unique(source, return_inverse=True)
    masks = np.zeros((len(sources), 2, (columns + 63) // 64), np.uint64)
    row_images.image_masks(events.addresses[sources], columns, masks)
    presences = []
    for program in (ROW, BEFORE):
        sets, numbers = np.unique(masks[:, program], axis=0, return_inverse=True)
        bits = np.unpackbits(sets.view(np.uint8), axis=1, count=columns, bitorder="little")
        presences.append(Presence(bits.astype(np.bool_), numbers.reshape(-1)[indexes].astype(np.int32)))
    return presences


def _flags(events: RowEvents, source: Numbers) -> pa.Array:
    """Flags of the events of rows. source: the event of each."""
    sources, indexes = np.unique(source, return_inverse=True)
    flags = [int.from_bytes(string_at(int(at) + _FLAGS, 2), "little") for at in events.addresses[sources]]
    return pa.array(np.array(flags, np.uint16)[indexes])


def _gtids(scan: Scan, transactions: Numbers, gtid: str | None) -> pa.Array:
    """One GTID a row; rows of a transaction that began before the slice have the given one."""
    owners, indexes = np.unique(transactions, return_inverse=True)
    texts = [
        gtid if scan.transactions[t, event_cells.TX_GTID] == event_cells.GTID_GIVEN else scan.gtid(t)
        for t in owners.tolist()
    ]
    return pa.DictionaryArray.from_arrays(pa.array(indexes.astype(np.int32)), pa.array(texts, pa.string()))
