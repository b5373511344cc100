"""Passes of a file in one kernel call, one after the other, as long as each holds plain rows of known tables alone.

A pass is read, scanned, its rows are chosen and decoded (kernels.take_passes). What a kernel cannot do ends the call: a
block that is full, a table not seen before, rows that are not plain, damage, the end of the file.

Put here: the kernel's memory, and what it comes back with. Not here: what is done about that (file_decoder.py).
"""

from dataclasses import dataclass

import numpy as np

from spark_jobs.binlog import kernels
from spark_jobs.binlog.events.chunk_buffer import Feed
from spark_jobs.binlog.events.compression import PADDING
from spark_jobs.binlog.events.types import MEANINGS
from spark_jobs.binlog.kernels.memory import fresh
from spark_jobs.binlog.types.base import Numbers


@dataclass(frozen=True, slots=True)
class PassedEvents:
    """The row events of one pass; cells: [n, kernels.E_CELLS]."""

    file: str
    cells: Numbers

    @property
    def lengths(self) -> Numbers:
        return self.cells[:, kernels.E_LENGTH]

    @property
    def groups(self) -> Numbers:
        return self.cells[:, kernels.E_GROUP]

    def location(self, event: int) -> str:
        """Location of an event in messages."""
        return f"{self.file}:{self.cells[event, kernels.E_OFFSET]}"


class PlainPasses:
    """The passes of the file that a Feed reads, from where the feed is until one is not plain.

    ended: file offset up to which the feed's bytes are decoded, transactions that are complete; early: whether rows of
    the one that is open are. Both move on with the passes.
    """

    def __init__(self, feed: Feed, step: int, reserve: int, ended: int, *, early: bool) -> None:
        """step: bytes to read at once; reserve: bytes of one transaction that are held back until its end is seen."""
        self._feed, self._step, self._reserve = feed, step, reserve
        self._room = reserve + 2 * step
        self._memory = feed.open_room(self._room + PADDING)
        _, open_maps, transaction, *_ = feed.scanner.arrays
        self._saved = np.empty_like(open_maps), np.empty_like(transaction)
        capacity = self._room // kernels.HEADER + 1
        self._rows = fresh(kernels.E_BYTES * capacity).view(np.int64)[: kernels.E_CELLS * capacity]
        """Notes of a pass's row events: kernels.E_CELLS of each."""
        self.state = np.zeros(kernels.R_CELLS, np.int64)
        """The row kernel's."""
        self._passes = np.zeros(kernels.P_CELLS, np.int64)
        self._passes[kernels.P_ENDED], self._passes[kernels.P_EARLY] = ended, early
        self._passes[kernels.P_EVENTS] = -1

    @property
    def ended(self) -> int:
        return int(self._passes[kernels.P_ENDED])

    @property
    def early(self) -> bool:
        return bool(self._passes[kernels.P_EARLY])

    @property
    def events(self) -> PassedEvents:
        """Those of the pass that the row kernel has stopped in."""
        count = int(self._passes[kernels.P_EVENTS])
        return PassedEvents(self._feed.file, self._rows[: kernels.E_CELLS * count].reshape(-1, kernels.E_CELLS))

    def take(self, descriptor: int, until: int, is_wanted: Numbers, blocks: Numbers) -> tuple[int, int]:
        """Resumes: (one of kernels.PASSES_…, why the row kernel stopped if it has).

        until: file offset where to come back; is_wanted, blocks: as kernels.choose_rows and decode_rows have them.
        """
        # The kernel reads the file into this memory itself; Python gets it back where it is to decide something.
        feed, passes = self._feed, self._passes
        passes[kernels.P_FILLED], passes[kernels.P_BASE] = feed.waiting, feed.base
        code, reason = kernels.take_passes(
            descriptor,
            kernels.address_of(self._memory),
            self._room,
            self._step,
            self._reserve,
            until,
            feed.format.footer,
            MEANINGS,
            feed.scanner.arrays,
            self._saved,
            (is_wanted, self._rows),
            blocks,
            self.state,
            passes,
            *kernels.CALENDAR,
        )
        feed.moved(int(passes[kernels.P_BASE]), int(passes[kernels.P_FILLED]))
        return int(code), int(reason)
