"""Passes of a file in one kernel call, one after the other, as long as each holds plain rows of known tables alone.

A pass is read, scanned, its rows are chosen and decoded (kernels.take_passes). What a kernel cannot do ends the call: a
block that is full, a table not seen before, rows that are not plain, damage, the end of the file.

Put here: the kernel's memory, and what it comes back with. Not here: what is done about that (file_decoder.py).
"""

from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog import kernels
from spark_jobs.binlog.compression import PADDING
from spark_jobs.binlog.event_types import MEANINGS
from spark_jobs.binlog.feed import Feed
from spark_jobs.binlog.framing import empty_scan
from spark_jobs.binlog.memory import fresh
from spark_jobs.binlog.plain_rows import RowEvents
from spark_jobs.binlog.types.base import Numbers


class PlainPasses:
    """The passes of the file that a Feed reads, from where the feed is until one is not plain.

    ended: file offset up to which the feed's bytes are decoded, transactions that are complete; early: whether rows of
    the one that is open are. Both move on with the passes.
    """

    def __init__(self, feed: Feed, step: int, held: int, ended: int, *, early: bool) -> None:
        """step: bytes to read at once; held: bytes of one transaction that are held back until its end is seen."""
        self._feed, self._step, self._held = feed, step, held
        self._room = held + 2 * step
        self._memory = feed.open_room(self._room + PADDING)
        capacity = self._room // kernels.HEADER + 1
        self._scanned = empty_scan(self._memory, 0, 0, capacity)
        self._kept_maps = np.empty_like(feed.scanner.open_maps)
        self._chosen = _chosen(capacity)
        self.state = np.zeros(kernels.R_CELLS, np.int64)
        """The row kernel's."""
        self._passes = np.zeros(kernels.P_CELLS, np.int64)
        self._passes[kernels.P_ENDED], self._passes[kernels.P_EARLY] = ended, early
        self._passes[kernels.P_CHOSEN] = -1

    @property
    def ended(self) -> int:
        return int(self._passes[kernels.P_ENDED])

    @property
    def early(self) -> bool:
        return bool(self._passes[kernels.P_EARLY])

    @property
    def events(self) -> RowEvents:
        """The row events of the pass that the row kernel has stopped in."""
        count = int(self._passes[kernels.P_CHOSEN])
        _, groups, gathered, codes, owners = (cells[..., :count] for cells in self._chosen)
        addresses, lengths, offsets, commits, zeros = gathered
        return RowEvents(self._feed.file, addresses, lengths, codes, offsets, commits, owners, zeros, groups)

    def take(self, descriptor: int, until: int, wanted: Numbers, blocks: Numbers) -> tuple[int, int]:
        """Goes on: (one of kernels.PASSES_…, why the row kernel stopped if it has).

        until: file offset where to come back; wanted, blocks: as kernels.choose_rows and decode_rows have them.
        """
        feed, found, passes = self._feed, self._scanned, self._passes
        passes[kernels.P_FILLED], passes[kernels.P_BASE] = feed.waiting, feed.base
        scanned = found.offset, found.length, found.code, found.table, found.transaction, found.mark, found.transactions
        why, reason = kernels.take_passes(
            descriptor,
            kernels.address_of(self._memory),
            self._room,
            self._step,
            self._held,
            until,
            feed.format.footer,
            MEANINGS,
            feed.scanner.arrays,
            scanned,
            self._kept_maps,
            wanted,
            self._chosen,
            blocks,
            self.state,
            passes,
            *kernels.CALENDAR,
        )
        feed.moved(int(passes[kernels.P_BASE]), int(passes[kernels.P_FILLED]))
        return int(why), int(reason)


def _chosen(events: int) -> tuple[NDArray[Any], ...]:
    """Memory for what is known of so many row events: their numbers, groups, what is gathered, codes, owners.

    The larger numbers first: a kernel is compiled once for arrays that are aligned and once for others.
    """
    sizes = (8, 8, 5 * 8, 4, 1)
    stops = [events * stop for stop in accumulate(sizes)]
    memory = fresh(stops[-1])
    chosen, groups, gathered, owners, codes = (
        memory[stop - events * size : stop] for size, stop in zip(sizes, stops, strict=True)
    )
    words = chosen.view(np.int64), groups.view(np.int64), gathered.view(np.int64).reshape(5, events)
    return *words, codes, owners.view(np.int32)
