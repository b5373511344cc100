"""Row changes of all tables of one file, straight from its bytes: every event is scanned and checked once.

The way for whoever reads a file from its beginning and wants rows. Slices (transactions.py) are for what is to be kept
and decoded later, a table at a time; they cost a second scan.

Put here: which events are decoded together, and by which decoder. Not here: the walk (framing.py), rows (rows.py).
"""

import functools
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog import kernels
from spark_jobs.binlog.feed import Feed
from spark_jobs.binlog.framing import Scan
from spark_jobs.binlog.payload import Payloads
from spark_jobs.binlog.redaction import IGNORABLE, refuse_blanked
from spark_jobs.binlog.rows import Changes, Decoder
from spark_jobs.binlog.table import TableDefinition, TableName, parse_table_map
from spark_jobs.errors import Unsupported

AT_ONCE = 16 << 20
"""Bytes worth a pass: what Python does a block and a column weighs less the more rows a block has."""

HELD = 4 << 20
"""Bytes of one transaction that are held back until its end is seen; beyond, its changes are handed out before."""


class FileDecoder:
    """Decodes the bytes of one file, fed in order from its first.

    wanted: which tables; the others' rows are passed over, whatever their types. before, rows, gtids, partial: as for
    Decoder.

    Changes come by runs of whole transactions of some MiB, in them table by table, each table in log order. Those of
    a transaction larger than HELD come before its end is seen: ``complete`` tells when it has passed.
    """

    def __init__(
        self,
        file: str,
        wanted: Callable[[TableName], bool] | None = None,
        *,
        before: Literal["key", "all"] = "key",
        rows: int = 65536,
        gtids: bool = False,
        partial: bool = False,
    ) -> None:
        self.file = file
        self.complete = 0
        """Offset after the last complete transaction or control event of what was decoded."""
        self._wanted = wanted
        self._feed = Feed(file, 0, None, least=AT_ONCE)
        # No closure over self: memory as large as a pass would wait for the garbage collector.
        self._new = functools.partial(
            Decoder, before=before, rows=rows, gtids=gtids, partial=partial, exact=True, maps=self._feed.maps
        )
        self._decoders: list[Decoder] = []
        self._numbers: dict[TableDefinition, int] = {}
        self._by_map: NDArray[np.int64] = np.empty(0, np.int64)
        """By ordinal of a table map: which of the decoders reads its rows, -1 for none."""

    @property
    def pending(self) -> int:
        """Bytes fed beyond ``complete``."""
        return self._feed.fed - self.complete

    def feed(self, chunk: bytes | memoryview) -> Iterator[tuple[TableDefinition, Changes]]:
        """Takes the next bytes, any number of them, and yields what they complete.

        Raises DecodeError and its kinds, naming file:offset. The chunk may be reused once the iterator is exhausted.
        """
        for found in self._feed.add(chunk):
            yield from self._advance(found)

    def read(self, readinto: Callable[[memoryview], int | None]) -> Iterator[tuple[TableDefinition, Changes]]:
        """Reads a file to its end and yields all its changes: ``feed`` and ``finish`` in one, and a copy less.

        readinto: of a file opened with ``open(path, "rb", buffering=0)``. Raises as ``feed``, and OSError.
        """
        for found in self._feed.read(readinto):
            yield from self._advance(found)
        yield from self.finish()

    def finish(self) -> Iterator[tuple[TableDefinition, Changes]]:
        """Yields the changes not handed out yet of transactions that are complete; see ``pending`` for the others."""
        for found in self._feed.scan():
            yield from self._advance(found)

    def _advance(self, found: Scan) -> Iterator[tuple[TableDefinition, Changes]]:
        """Decodes what is complete; events behind that are scanned again when more has come, as if never seen."""
        ends = np.flatnonzero(found.mark & (kernels.MARK_ENDS | kernels.MARK_CONTROL))
        ready = int(ends[-1]) + 1 if len(ends) else 0
        done = int(found.offset[ready - 1] + found.length[ready - 1]) if ready else 0
        if ready:
            self.complete = found.base + done
        if found.base + found.end - self.complete > HELD:
            ready, done = len(found), found.end
        yield from self._decoded(found, ready)
        if done < found.end:
            self._feed.rewind(done)
        else:
            self._feed.keep(done)

    def _decoded(self, found: Scan, ready: int) -> Iterator[tuple[TableDefinition, Changes]]:
        """The changes in the first ``ready`` events."""
        self._refuse_late(found)
        if (found.mark[:ready] & kernels.MARK_ANY_TABLE).any():
            yield from self._opened(found.first(ready))
            return
        self._note_maps(found)
        self._refuse_blanked(found.first(ready))
        starts, chosen = np.empty(len(self._decoders) + 1, np.int64), np.empty(ready, np.int64)
        kernels.group_rows(ready, found.mark, found.table, self._by_map, starts, chosen)
        for decoder, (first, after) in zip(self._decoders, pairwise(starts.tolist()), strict=True):
            if first == after:
                continue
            for changes in decoder.decode_events(self.file, found, chosen[first:after], self._feed.format.footer):
                yield decoder.definition, changes

    def _opened(self, found: Scan) -> Iterator[tuple[TableDefinition, Changes]]:
        """The changes in events among which are compressed transactions; each decoder opens these by itself."""
        for _ in Payloads(self.file, self._feed.format, self._feed.maps).open(found):
            pass  # now all table maps are known
        self._note_maps(found)
        for decoder in self._decoders:
            for changes in decoder.decode_scan(self.file, found, self._feed.format):
                yield decoder.definition, changes

    def _refuse_blanked(self, found: Scan) -> None:
        """Raises Unsupported for rows of a table wanted that were left out when the log was extracted."""
        for event in np.flatnonzero((found.code == IGNORABLE) & (found.table >= 0)).tolist():
            number = int(self._by_map[found.table[event]])
            if number >= 0:
                name = self._feed.maps.names[int(found.table[event])]
                refuse_blanked(
                    found, self._feed.maps, name, lambda at: f"{self.file}:{found.base + int(found.offset[at])}"
                )

    def _refuse_late(self, found: Scan) -> None:
        """Raises Unsupported where a transaction ends in a ROLLBACK after some of its changes were handed out."""
        flags, starts = found.transactions[:, kernels.TX_FLAGS], found.transactions[:, kernels.TX_START]
        undone = (flags & kernels.TX_ROLLED_BACK != 0) & (flags & kernels.TX_HAS_ROWS != 0) & (starts < found.base)
        for start in starts[undone].tolist():
            raise Unsupported(
                f"{self.file}:{start}: a transaction of more than {HELD >> 20} MiB ends in a ROLLBACK, and rows of it"
                f" were handed out already"
            )

    def _note_maps(self, found: Scan) -> None:
        """Finds a decoder for each table map that was new; maps of one definition share theirs."""
        maps = self._feed.maps
        for ordinal in range(len(self._by_map), len(maps)):
            number = -1
            if self._wanted is None or self._wanted(TableName(*maps.names[ordinal])):
                event = int(np.argmax(found.table == ordinal))
                where = f"{self.file}:{found.base + int(found.offset[event])}"
                definition = parse_table_map(maps.events[ordinal], self._feed.format, where)
                number = self._numbers.setdefault(definition, len(self._decoders))
                if number == len(self._decoders):
                    self._decoders.append(self._new(definition))
            self._by_map = np.append(self._by_map, number)
