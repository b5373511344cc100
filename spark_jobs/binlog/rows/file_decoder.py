"""Row changes of all tables of one file, straight from its bytes: every event is scanned and checked once.

The way for whoever reads a file from its beginning and wants rows. Slices (binlog/slices/slicer.py) are for what is to
be kept and decoded later, a table at a time; they cost a second scan.

Put here: which events are decoded together, and by which decoder. Not here: the walk (binlog/events/scanner.py), rows
(decoder.py).
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog.events.chunk_buffer import Feed
from spark_jobs.binlog.events.redaction import IGNORABLE, refuse_blanked
from spark_jobs.binlog.events.scanner import Scan
from spark_jobs.binlog.events.table_map import TableDefinition, TableName, parse_table_map
from spark_jobs.binlog.events.transaction_payload import Payloads
from spark_jobs.binlog.kernels import event_cells, packed_events
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.rows.changes import Changes
from spark_jobs.binlog.rows.decoder import Decoder, fill_blocks, remaining_changes
from spark_jobs.binlog.rows.located_events import RowSource, outer_events
from spark_jobs.errors import DecodeError, Unsupported

PASS = 4 << 20
"""Bytes scanned and decoded at once."""

GATHERED = 64 << 20
"""Bytes of log whose rows blocks gather: what Python does a block and a column weighs less the more rows it has."""

AT_ONCE = 32 << 20
"""Bytes of a pass whose rows are decoded a table at a time, into blocks that end with it."""

HELD = 1 << 20
"""Bytes of one transaction that are held back until its end is seen; beyond, its changes are handed out before. What is
held back is scanned again."""


class Readable(Protocol):
    """An unbuffered file, or what reads like one."""

    def readinto(self, room: memoryview, /) -> int | None:
        """Fill some of ``room`` and say how much; 0 at the end."""


class FileDecoder:
    """Decodes the bytes of one binlog file, fed in order from its first byte.

    Changes come in blocks of one table, each table's in log order. Those of a transaction larger than 1 MiB may
    come before its end is read: ``complete`` is the offset up to which transactions are complete.

    Args:
        file: The file's name, for error messages.
        wanted: Which tables to decode; rows of other tables are skipped, whatever their types. All by default.
        before: Which columns of an update's before image to decode: those of the key, or all.
        rows: The most rows in one block.
        gtids: Whether each change has the GTID of its transaction.
        partial: Whether to decode row images that lack columns; they are an error otherwise.
    """

    def __init__(
        self,
        file: str,
        wanted: Callable[[TableName], bool] | None = None,
        *,
        before: Literal["key", "all"] = "key",
        rows: int = 131072,
        gtids: bool = False,
        partial: bool = False,
    ) -> None:
        self.file = file
        self.complete = 0
        """Offset after the last transaction or control event whose changes, and all before, were handed out."""
        self._is_wanted = wanted
        # With GTIDs or masks of columns a block ends with the pass that these are of.
        self._is_plain = not (gtids or partial)
        """True if rows are decoded in log order, not a table at a time; until some are met that are not plain."""
        self._feed = Feed(file, 0, None, minimum=min(PASS, AT_ONCE) if self._is_plain else AT_ONCE, reuse=True)
        self._ended = 0
        """Offset after the last complete transaction or control event that was decoded."""
        self._handed = 0
        """Offset up to which changes were handed out, those of the transaction that is open there too."""
        self._last = -1
        """Owner of the last rows that were chosen from a scan: a row of its transactions, -1 where there were none."""
        self._is_early = False
        """True if rows of the transaction that is open were decoded, which may yet end in a ROLLBACK."""
        # No closure over self: memory as large as a pass would wait for the garbage collector.
        self._new = functools.partial(
            Decoder, before=before, rows=rows, gtids=gtids, partial=partial, maps=self._feed.maps
        )
        self._decoders: list[Decoder] = []
        self._numbers: dict[TableDefinition, int] = {}
        self._by_map: NDArray[np.int64] = np.empty(0, np.int64)
        """Number of the decoder that reads the rows of a table map, by its ordinal; -1 for none."""
        self._blocks: NDArray[np.int64] = np.empty(0, np.int64)
        """Cells that describe each decoder's block."""

    @property
    def pending(self) -> int:
        """Bytes fed beyond ``complete``."""
        return self._feed.fed_to - self.complete

    def feed(self, chunk: bytes | memoryview) -> Iterator[tuple[TableDefinition, Changes]]:
        """Take the next bytes, any number of them, and yield what they complete.

        Raises DecodeError and its kinds, naming file:offset. The chunk may be reused once the iterator is exhausted.
        """
        yield from self._changes_before_damage(self._advanced(self._feed.add(chunk)))

    def read(self, file: Readable) -> Iterator[tuple[TableDefinition, Changes]]:
        """Read a file to its end and yield all its changes: ``feed`` and ``finish`` in one.

        file: opened with ``open(path, "rb", buffering=0)``. Raises as ``feed``, and OSError.
        """
        yield from self._changes_before_damage(self._read_changes(file))
        yield from self.finish()

    def finish(self) -> Iterator[tuple[TableDefinition, Changes]]:
        """Yield the changes not handed out yet of transactions that are complete; see ``pending`` for the others."""
        if self._feed.waiting:
            yield from self._changes_before_damage(self._advanced(self._feed.scan()))
        for decoder, changes in self._handed_out():
            yield decoder.definition, changes

    def _changes_before_damage(
        self, steps: Iterator[tuple[Decoder, Changes]]
    ) -> Iterator[tuple[TableDefinition, Changes]]:
        """The same, and before a DecodeError is raised what blocks hold of the rows before it."""
        try:
            for decoder, changes in steps:
                yield decoder.definition, changes
        except DecodeError:
            with suppress(DecodeError):  # what is wrong in a block is not what stopped first
                for decoder, changes in self._handed_out():
                    yield decoder.definition, changes
            raise

    def _read_changes(self, file: Readable) -> Iterator[tuple[Decoder, Changes]]:
        while self._feed.fill(file.readinto):
            yield from self._advanced(self._feed.scan())

    def _advanced(self, scans: Iterator[Scan]) -> Iterator[tuple[Decoder, Changes]]:
        for scan in scans:
            yield from self._advance(scan)
            if self._feed.base - self._handed >= GATHERED:
                yield from self._handed_out()

    def _advance(self, scan: Scan) -> Iterator[tuple[Decoder, Changes]]:
        """Decode what is complete; events after that are scanned again when more has come, as if never seen."""
        ready = packed_events.complete_events(scan.mark)
        size = int(scan.offset[ready - 1] + scan.length[ready - 1]) if ready else 0
        ended = scan.base + size if ready else self._ended
        if scan.base + scan.end - ended > HELD:
            ready, size = len(scan), scan.end
        yield from self._decoded_blocks(scan, ready)
        self._is_early &= ended == self._ended  # where none has ended meanwhile
        self._is_early |= scan.base + size > ended and self._last == len(scan.transactions) - 1
        self._ended = ended
        if size < scan.end:
            self._feed.rewind(size)
        else:
            self._feed.keep(size)

    def _handed_out(self) -> Iterator[tuple[Decoder, Changes]]:
        """Changes in blocks that are not full. Raises DecodeError after that."""
        yield from remaining_changes(self._decoders)
        self.complete, self._handed = self._ended, self._feed.base

    def _decoded_blocks(self, scan: Scan, ready: int) -> Iterator[tuple[Decoder, Changes]]:
        """The changes in the first ``ready`` events, as far as they fill blocks."""
        self._note_maps(scan)
        offsets, groups = np.empty(ready, np.int64), np.empty(ready, np.int64)
        events = scan.mark, scan.code, scan.table, scan.transactions, self._by_map
        count, kinds = packed_events.choose_rows(ready, *events, offsets, groups)
        self._last = int(scan.transaction[offsets[count - 1]]) if count else -1
        if kinds:
            yield from self._handed_out()
            yield from self._decoded_apart(scan, ready, kinds, offsets[:count], groups[:count])
            return
        rows = outer_events(self.file, scan, offsets[:count], self._feed.format.footer, groups[:count])
        yield from fill_blocks(self._decoders, self._blocks, RowSource(rows, scan, None))

    def _decoded_apart(
        self, scan: Scan, ready: int, kinds: int, offsets: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> Iterator[tuple[Decoder, Changes]]:
        """The same where not all are plain row events of transactions that took effect, a table at a time."""
        self._is_plain = False  # where there is one such there are many, and each step takes longer
        self._feed.want(AT_ONCE)
        self._refuse_late(scan)
        if kinds & event_cells.CHOSEN_ANY_TABLE:
            yield from self._opened(scan.first(ready))
            return
        if kinds & event_cells.CHOSEN_BLANKED:
            self._refuse_blanked(scan.first(ready))
        for number in np.unique(groups).tolist():
            decoder = self._decoders[number]
            rows = outer_events(self.file, scan, offsets[groups == number], self._feed.format.footer)
            for changes in decoder.decode_events(rows, scan):
                yield decoder, changes

    def _opened(self, scan: Scan) -> Iterator[tuple[Decoder, Changes]]:
        """The changes in events among which are compressed transactions; each decoder opens these by itself."""
        for _ in Payloads(self.file, self._feed.format, self._feed.maps).open(scan):
            pass  # now all table maps are known
        self._note_maps(scan)
        for decoder in self._decoders:
            for changes in decoder.decode_scan(self.file, scan, self._feed.format):
                yield decoder, changes

    def _refuse_blanked(self, scan: Scan) -> None:
        """Check that rows of a wanted table were not redacted when the log was extracted. Raises Unsupported."""
        for event in np.flatnonzero((scan.code == IGNORABLE) & (scan.table >= 0)).tolist():
            number = int(self._by_map[scan.table[event]])
            if number >= 0:
                name = self._feed.maps.names[int(scan.table[event])]
                refuse_blanked(
                    scan, self._feed.maps, name, lambda at: f"{self.file}:{scan.base + int(scan.offset[at])}"
                )

    def _refuse_late(self, scan: Scan) -> None:
        """Check that no transaction ends in a ROLLBACK after some of its changes were returned. Raises Unsupported."""
        if not self._is_early:
            return
        flags, starts = scan.transactions[:, event_cells.TX_FLAGS], scan.transactions[:, event_cells.TX_START]
        undone = (
            (flags & event_cells.TX_ROLLED_BACK != 0) & (flags & event_cells.TX_HAS_ROWS != 0) & (starts < scan.base)
        )
        for start in starts[undone].tolist():
            raise Unsupported(
                f"{self.file}:{start}: a transaction of more than {HELD >> 20} MiB ends in a ROLLBACK, and rows of it"
                f" were handed out already"
            )

    def _note_maps(self, scan: Scan) -> None:
        """Find a decoder for each table map that was new; maps of one definition share theirs."""
        maps = self._feed.maps
        if len(maps) == len(self._by_map):
            return
        for ordinal in range(len(self._by_map), len(maps)):
            number = -1
            if self._is_wanted is None or self._is_wanted(TableName(*maps.names[ordinal])):
                event = int(np.argmax(scan.table == ordinal))
                location = f"{self.file}:{scan.base + int(scan.offset[event])}"
                definition = parse_table_map(maps.events[ordinal], self._feed.format, location)
                number = self._numbers.setdefault(definition, len(self._decoders))
                if number == len(self._decoders):
                    self._decoders.append(self._new(definition, logged=definition))
                    self._blocks = np.append(self._blocks, address_of(self._decoders[-1].cells))
            self._by_map = np.append(self._by_map, number)
