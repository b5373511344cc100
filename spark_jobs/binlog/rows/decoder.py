"""Decoder of one table's row events to Arrow columns, a block of rows at a time.

Put here: which events' rows go into which table's block, and what a block's reader gets. Not here: blocks themselves
(blocks.py), what a type does (types/), where events lie (binlog/events/scanner.py).
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog.events.redaction import refuse_blanked
from spark_jobs.binlog.events.scanner import Bytes, FormatDescription, Scan, TableMaps, empty_scan
from spark_jobs.binlog.events.slice_bytes import Scans, SliceBytes
from spark_jobs.binlog.events.table_map import Column, TableDefinition, parse_table_map, same_layout
from spark_jobs.binlog.events.transaction_payload import PayloadContents, Payloads
from spark_jobs.binlog.kernels import event_cells, row_cells, row_decode
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.kernels.memory import rounded
from spark_jobs.binlog.rows.blocks import BEFORE, ROW, TEXT_SLACK, Block, DecodePlan, Scratch, plan_of
from spark_jobs.binlog.rows.changes import Changes
from spark_jobs.binlog.rows.event_columns import EventColumns, event_columns
from spark_jobs.binlog.rows.located_events import (
    LocatedEvents,
    RowSource,
    inner_events,
    leads,
    locate,
    outer_events,
    written_rows,
)
from spark_jobs.binlog.rows.row_events import RowEvents, merged, plain_events, rows_in
from spark_jobs.binlog.types.base import BadValue, Numbers
from spark_jobs.binlog.types.charsets import are_labels, charset_of
from spark_jobs.errors import DecodeError, PartialImage, Truncated, Unsupported

OPEN = 256 << 20
"""Bytes that blocks which are not full have taken together, from which on they are handed out whatever is in them."""


_UNKNOWN = -1
_UNDECIDED = {
    event_cells.TX_XA: "rows of an XA transaction, which may be rolled back later, are not decoded in this version",
    event_cells.TX_ROLLED_BACK: (
        "rows of a transaction with a ROLLBACK past them are not decoded: which stay is not logged"
    ),
}


def _require_same(expected: TableDefinition, logged: TableDefinition, location_of: str) -> None:
    """Check that a TABLE_MAP equals the definition.

    Raises DecodeError if they differ, Unsupported if they cannot be compared.
    """
    if not same_layout(logged, expected):
        raise DecodeError(f"{location_of}: the log's table is not the one expected: {logged} instead of {expected}")
    pairs = zip(expected.columns, logged.columns, expected.column_names(), strict=True)
    for expected_column, logged_column, name in pairs:
        location = f"{location_of}: {expected.name}.{name}"
        try:
            different = next(_differences(expected_column, logged_column), None)
        except Unsupported as error:
            raise Unsupported(f"{location}: {error}") from None
        if different:
            attribute, expected_value, logged_value = different
            raise DecodeError(f"{location}: {attribute} {logged_value} in the log, {expected_value} expected")


def _differences(expected: Column, logged: Column) -> Iterator[tuple[str, object, object]]:
    """(what, expected, in the log) where both the definition and a TABLE_MAP say something, and not the same."""
    pairs = {
        "name": (expected.name, logged.name),
        "UNSIGNED": (expected.unsigned, logged.unsigned),
        "character set": (_charset_name(expected), _charset_name(logged)),
        "labels": (expected.labels, _labels(expected, logged)),
    }
    for attribute, (expected_value, logged_value) in pairs.items():
        if expected_value is not None and logged_value is not None and expected_value != logged_value:
            yield attribute, expected_value, logged_value


def _labels(expected: Column, logged: Column) -> object:
    """Labels of a TABLE_MAP: the known ones, where their bytes in it are those."""
    if logged.label_bytes is None or expected.labels is None:
        return logged.labels
    return expected.labels if are_labels(logged.label_bytes, expected.labels, expected.charset) else logged.label_bytes


def _charset_name(column: Column) -> str | None:
    """A name to compare: two collations that are not known are the same set only where they are the same."""
    try:
        return None if column.charset is None else charset_of(column.charset)
    except Unsupported:
        return f"collation {column.charset}"


def _completed(expected: Column, logged: Column) -> Column:
    """The known column, with what it leaves open taken from a TABLE_MAP."""
    return replace(
        expected,
        name=logged.name if expected.name is None else expected.name,
        unsigned=logged.unsigned if expected.unsigned is None else expected.unsigned,
        charset=logged.charset if expected.charset is None else expected.charset,
        labels=logged.labels if expected.labels is None else expected.labels,
        declared=logged.declared if expected.declared is None else expected.declared,
    )


class Decoder:
    """Decodes the rows of one table from slices; events of other tables are ignored.

    before: which columns of an update's before image are kept: the key's (none where the table has no key or it is not
    known), or all. rows: the most rows of one Changes. partial: whether row images without all columns are decoded;
    they are refused otherwise. prepared: whether rows of XA transactions are; the caller knows that they took effect.
    redacted: whether redacted events of the table are ignored; they are refused otherwise. flags: whether changes have
    the flags of their row events.

    What the definition leaves open (signs, character sets, labels) is taken from the first TABLE_MAP met, and from then
    on every TABLE_MAP must agree; logged: of the only TABLE_MAP whose rows are decoded, where others have decoders too.
    """

    def __init__(  # noqa: PLR0913 - what is kept of the rows, and which are taken
        self,
        definition: TableDefinition,
        *,
        before: Literal["key", "all"] = "key",
        rows: int = 16384,
        gtids: bool = False,
        flags: bool = False,
        partial: bool = False,
        prepared: bool = False,
        logged: TableDefinition | None = None,
        redacted: bool = False,
        maps: TableMaps | None = None,
        scans: Scans | None = None,
    ) -> None:
        """maps: those of who scans for it, where it is not given whole slices; scans: shared with other decoders."""
        self.definition = definition
        self._name = definition.name.schema, definition.name.table
        self.is_mariadb = False
        """True if the last slice is of MariaDB's log."""
        self._partial = partial
        self._accepted = event_cells.TX_XA if prepared else 0
        self._logged = logged
        self._redacted = redacted
        self._before = before
        self._rows = rows
        self._gtids = gtids
        self._flags = flags
        self.is_lasting = not (gtids or flags or partial)
        """True if rows in a block can do without what they came from."""
        self._scans = scans
        self._maps = scans.maps if scans is not None else TableMaps() if maps is None else maps
        self._owned = np.zeros(0, np.int8)
        """True if the rows of a table map are this decoder's; by its ordinal."""
        self._foreign: dict[int, TableDefinition] = {}
        self._plan: DecodePlan | None = None
        self._scratch = Scratch()
        self._block: Block | None = None
        """Open while rows go into it."""
        self.cells = np.zeros(row_cells.B_CELLS, np.int64)
        """The block as the row kernel sees it."""
        self._cells_at = np.array([address_of(self.cells)])

    def decode(  # noqa: PLR0913 - a slice's columns
        self,
        file: str,
        start: int,
        context: bytes | None,
        payload: Bytes,
        *,
        transaction_start: int | None = None,
        committed_us: int = 0,
        gtid: str | None = None,
    ) -> Iterator[Changes]:
        """The table's changes in one slice, in log order: as ``decode_slices`` with one."""
        chunk = SliceBytes(start, context, payload, transaction_start, committed_us, gtid)
        return self.decode_slices(file, [chunk])

    def decode_slices(self, file: str, slices: Iterable[SliceBytes]) -> Iterator[Changes]:
        """The table's changes in slices of one file, in log order; rows of several slices may come together.

        Raises DecodeError, Truncated, ChecksumMismatch or Unsupported, after the changes that stand before; every
        message begins with ``file:offset``.
        """
        yield from self._with_rest(self._changes_in_slices(file, slices))

    def _changes_in_slices(self, file: str, slices: Iterable[SliceBytes]) -> Iterator[Changes]:
        """The blocks that slices fill."""
        for chunk in slices:
            scanner, scan = chunk.opened(file, self._maps) if self._scans is None else self._scans.of(file, chunk)
            self.is_mariadb = scanner.format.flavor == "mariadb"
            yield from self._filled(self._events(file, scan, scanner.format), scan, chunk.gtid)

    def decode_scan(
        self, file: str, scan: Scan, head: FormatDescription, *, gtid: str | None = None
    ) -> Iterator[Changes]:
        """The table's changes in events that a caller has scanned with this decoder's maps. Raises as ``decode``."""
        yield from self._decoded_events(self._events(file, scan, head), scan, gtid)

    def decode_events(self, events: RowEvents, scan: Scan) -> Iterator[Changes]:
        """The changes in row events of a scan that a caller has found to be this table's. Raises as ``decode``."""
        yield from self._decoded_events(self._readable(events, scan), scan, None)

    def _decoded_events(self, runs: Iterator[RowEvents], scan: Scan, gtid: str | None) -> Iterator[Changes]:
        """All rows of all events, blocks of which end with them."""
        return self._with_rest(self._filled(runs, scan, gtid))

    def _with_rest(self, blocks: Iterator[Changes]) -> Iterator[Changes]:
        """Full blocks, then the last one, also before an error; one such iterator of a decoder at a time."""
        self._block, self.cells[:] = None, 0  # what an iterator that was given up has left
        try:
            yield from blocks
        except DecodeError:
            yield from self.rest()
            raise
        yield from self.rest()

    def _filled(self, runs: Iterator[RowEvents], scan: Scan, gtid: str | None) -> Iterator[Changes]:
        """The blocks that events of a scan fill; the last one stays open where the decoder is lasting."""
        for events in runs:
            for _, changes in fill_blocks([self], self._cells_at, RowSource(events, scan, gtid)):
                yield changes

    def decode_images(self, location: str, event: NDArray[np.uint8], length: int) -> Iterator[Changes]:
        """Rows of this table that no log holds, as inserts: an event of ``written_head`` and full row images.

        ``location`` opens every message, in the place of a file. Raises as ``decode``, for the images' values.
        """
        assert not self._gtids
        no_scan = empty_scan(np.zeros(0, np.uint8), 0, 0, 1)
        yield from self._decoded_events(iter([written_rows(location, event, length)]), no_scan, None)

    def _events(self, file: str, scan: Scan, head: FormatDescription) -> Iterator[RowEvents]:
        """Row events of this table, plain in memory, in log order. Raises Unsupported after those that can be read."""
        if not self._redacted:
            refuse_blanked(scan, self._maps, self._name, lambda event: locate(file, scan, event))
        rows = np.flatnonzero(scan.mark & event_cells.MARK_ROWS)
        own_rows = rows[self._own_events(scan.table[rows], head, lambda row: locate(file, scan, rows[row]))]
        ahead = 0  # rows of a payload in parts that earlier parts had
        for opened in Payloads(file, head, self._maps).open(scan):
            last = opened.outer[-1] if len(opened.outer) else -1
            before, own_rows = own_rows[own_rows < last], own_rows[own_rows > last]
            inner, after = self._inside(file, scan, opened, head)
            ahead = 0 if opened.begins else ahead
            inner.leads[:1] += ahead
            row_events = merged(outer_events(file, scan, before, head.footer), inner)
            for events in self._readable(row_events, scan):
                yield events
                ahead = events.rows_after
            ahead = after + (ahead if len(inner) or not opened.begins else 0)
        yield from self._readable(outer_events(file, scan, own_rows, head.footer), scan)

    def _readable(self, events: RowEvents, scan: Scan) -> Iterator[RowEvents]:
        """The events as plain ones, up to the first of a transaction whose rows are not decoded: raises Unsupported."""
        flags = scan.transactions[events.transactions, event_cells.TX_FLAGS] & ~self._accepted
        refused = np.flatnonzero(flags & (event_cells.TX_XA | event_cells.TX_ROLLED_BACK))
        yield from plain_events(events.part(slice(refused[0])) if len(refused) else events, self.definition)
        if len(refused):
            text = next(text for flag, text in _UNDECIDED.items() if flags[refused[0]] & flag)
            raise Unsupported(f"{events.location(refused[0])}: {self.definition.name}: {text}")

    def _inside(self, file: str, scan: Scan, opened: PayloadContents, head: FormatDescription) -> tuple[RowEvents, int]:
        """Row events of this table inside payloads, and the number of other tables' rows after the last of them."""
        if not self._redacted:
            offsets = opened.outer
            refuse_blanked(opened.inner, self._maps, self._name, lambda event: locate(file, scan, offsets[event]))
        rows = np.flatnonzero(opened.inner.mark & event_cells.MARK_ROWS)
        tables, outer = opened.inner.table[rows], opened.outer[rows]
        is_own = self._own_events(tables, head, lambda row: locate(file, scan, outer[row]))
        events = inner_events(file, scan, opened, rows[is_own])
        foreign = ~is_own & (np.isin(outer, outer[is_own]) | (not opened.is_whole))
        if not foreign.any():  # rows of other tables count for the numbers of the rows after them
            return events, 0
        counts = np.zeros(len(rows), np.int64)
        for ordinal in np.unique(tables[foreign]).tolist():
            of_it = foreign & (tables == ordinal)
            counts[of_it] = self._row_count(inner_events(file, scan, opened, rows[of_it]), ordinal, head)
        events.leads, after = leads(counts, outer, np.flatnonzero(is_own))
        return events, after

    def _row_count(self, events: RowEvents, ordinal: int, head: FormatDescription) -> Numbers:
        if ordinal not in self._foreign:
            self._foreign[ordinal] = parse_table_map(self._maps.events[ordinal], head, events.location(0))
        return rows_in(events, self._foreign[ordinal])

    def _own_events(self, tables: Numbers, head: FormatDescription, location: Callable[[int], str]) -> Numbers:
        """Ordinals of this table's table maps; ``location`` names that of an offset in ``tables``."""
        count = len(self._owned)
        if len(self._maps) > count:
            self._owned = np.concatenate([self._owned, np.zeros(len(self._maps) - count, np.int8)])
            own_ordinals = np.array(self._maps.by_name.get(self._name, ()), np.int64)
            self._owned[own_ordinals[own_ordinals >= count]] = _UNKNOWN
        owned = self._owned[tables]
        if (owned == _UNKNOWN).any():
            ordinals, first = np.unique(tables, return_index=True)
            for ordinal, at in zip(ordinals.tolist(), first.tolist(), strict=True):
                if self._owned[ordinal] == _UNKNOWN:
                    self._owned[ordinal] = self._accept(ordinal, location(at), head)
            owned = self._owned[tables]
        return owned.view(np.bool_)

    def _accept(self, ordinal: int, location_of: str, head: FormatDescription) -> bool:
        """Check a TABLE_MAP of this table against the definition, and fill in what that leaves open.

        False where its rows are left to another decoder.
        """
        definition = parse_table_map(self._maps.events[ordinal], head, location_of)
        # A decoder of one TABLE_MAP takes it alone, another takes every map of the same layout.
        if self._logged is not None:
            return definition == self._logged
        _require_same(self.definition, definition, location_of)
        if self._plan is None:
            pairs = zip(self.definition.columns, definition.columns, strict=True)
            columns = tuple(_completed(expected, logged) for expected, logged in pairs)
            self.definition = replace(self.definition, columns=columns)
        return True

    def closed(self, origin: RowSource | None = None) -> Iterator[Changes]:
        """The rows of the block that is open; its place is free for the next one.

        origin: what they came from, for a decoder that is not lasting. Raises DecodeError after the rows before.
        """
        block, self._block = self._block, None
        if block is None:
            return
        try:
            changes, failed = self._finished(block, origin)
        finally:
            self.cells[:] = 0  # before anybody has the memory that they lead to
        if changes:
            yield changes
        if failed:
            raise failed.pop()

    def rest(self, origin: RowSource | None = None) -> Iterator[Changes]:
        """The rows of the block that is open, as ``closed`` gives them, for a reader that wants all that there is."""
        try:
            yield from self.closed(origin)
        finally:
            if self._plan:
                self._plan.ended()

    def open(self, events: LocatedEvents, event: int) -> None:
        """Open the block that the rows of an event go into, where there is none or the one before was full."""
        if self._plan is None:
            self._plan = self._compiled(events.location(event))
        # A block that is empty has room for the text of this event, whatever it is.
        room = rounded(int(events.lengths[event]) + TEXT_SLACK)
        rows = self._plan.rows(self._rows)
        options = {"partial": self._partial, "lasting": self.is_lasting}
        self._block = Block(self._plan, events.file, rows, room, self.cells, scratch=self._scratch, **options)

    @property
    def size(self) -> int:
        """Bytes of the block that is open."""
        return self._block.memory.size if self._block else 0

    def _compiled(self, location: str) -> DecodePlan:
        try:
            return plan_of(self.definition, self._before)
        except Unsupported as error:
            raise Unsupported(f"{location}: {error}") from None

    def _finished(self, block: Block, origin: RowSource | None) -> tuple[Changes | None, list[DecodeError]]:
        """A block's rows up to the first with a value that its type has not, and what is to be said of that, if any."""
        failed: list[DecodeError] = []
        block.plan.filled(block.rows)
        while block.rows:
            try:
                return self._changes(block, origin), failed
            except BadValue as bad:
                failed = [DecodeError(f"{block.location(bad.row)}: {self.definition.name}.{bad.text}")]
                block.cut(bad.row)
        return None, failed

    def _changes(self, block: Block, origin: RowSource | None) -> Changes:
        """The changes that a filled block holds, as Arrow arrays. Raises BadValue."""
        block.close()
        added = EventColumns()
        if not self.is_lasting:
            assert origin
            added = event_columns(block, origin, gtids=self._gtids, flags=self._flags)
        after, raw = block.columns(ROW)
        before, before_raw = block.columns(BEFORE)
        offset, committed_at, row, op = block.own_arrays()
        presence = added.present, added.before_present, added.flags
        return Changes(op, offset, row, committed_at, added.gtid, after, before, raw, before_raw, *presence)

    def error(self, reason: int, events: LocatedEvents, state: Numbers) -> DecodeError:
        """Reason why the row kernel stopped there."""
        event, row, ordinal = (
            int(state[cell]) for cell in (row_cells.R_EVENT, row_cells.R_ORDINAL, row_cells.R_COLUMN)
        )
        name = self.definition.name
        location = events.location(event)
        if reason == row_cells.PARTIAL_IMAGE:
            return PartialImage(
                f"{location}: {name}: a row image without all columns; set binlog_row_image=FULL on the server and "
                f"start from a position after it"
            )
        if reason == row_cells.OTHER_COLUMN_COUNT:
            return DecodeError(f"{location}: {name}: a row event whose column count is not its TABLE_MAP's")
        # What concerns one value names its row and column.
        column = "its null bits" if ordinal < 0 else _described(self.definition, ordinal)
        if reason == row_cells.BAD_VALUE:
            return DecodeError(f"{location}: row {row} of {name}: {column}: the bytes are no value of the type")
        return Truncated(f"{location}: row {row} of {name}: {column}: the row ends beyond its event")


def _described(definition: TableDefinition, ordinal: int) -> str:
    return f"{definition.column_names()[ordinal]} {definition.columns[ordinal].sql_type}"


def fill_blocks(decoders: Sequence[Decoder], blocks: Numbers, origin: RowSource) -> Iterator[tuple[Decoder, Changes]]:
    """Decode row events into the blocks of some decoders; yield those that become full, each with its decoder.

    blocks: addresses of the decoders' cells; the events' groups are offsets in both. What is in blocks that are not
    full stays there until ``rest`` or until all have OPEN bytes, but for decoders whose changes tell more than the rows
    do (``is_lasting``): these end with the events. Raises DecodeError and its kinds, after the changes before.
    """
    events = origin.events
    failed: list[DecodeError] = []  # a name for it would keep this frame, which it leads to, and all blocks in a cycle
    size = sum(decoder.size for decoder in decoders)
    state = np.zeros(row_cells.R_CELLS, np.int64)
    cells = events.cells()
    images = address_of(cells), len(events)
    try:
        while reason := int(row_decode.decode_rows(*images, blocks, state, *row_cells.CALENDAR)):
            size = yield from _make_room(decoders, size, reason, state, origin)
    except DecodeError as error:
        failed = [error]
    events.rows_after = int(state[row_cells.R_ORDINAL])
    try:
        yield from remaining_changes((decoder for decoder in decoders if not decoder.is_lasting), origin)
    except DecodeError as error:
        failed = failed or [error]
    if failed:
        raise failed.pop()


def _make_room(
    decoders: Sequence[Decoder], size: int, reason: int, state: Numbers, origin: RowSource
) -> Generator[tuple[Decoder, Changes], None, int]:
    """Yield the block that was full where the row kernel has stopped, and open another one in its place.

    size: bytes of all blocks that are open; returns what they are then. Raises DecodeError where that was not why.
    """
    events, event = origin.events, int(state[row_cells.R_EVENT])
    decoder = decoders[events.groups[event]]
    if reason != row_cells.BLOCK_FULL:
        raise decoder.error(reason, events, state)
    size -= decoder.size
    for changes in decoder.closed(origin):
        yield decoder, changes
    if size > OPEN:
        yield from remaining_changes(decoders, origin)
        size = 0
    decoder.open(events, event)
    return int(size + decoder.size)


def remaining_changes(
    decoders: Iterable[Decoder], origin: RowSource | None = None
) -> Iterator[tuple[Decoder, Changes]]:
    """Rest of the changes in the blocks of all of them; raises the first DecodeError after that."""
    failed: list[DecodeError] = []
    for decoder in decoders:
        try:
            for changes in decoder.rest(origin):
                yield decoder, changes
        except DecodeError as error:
            failed = failed or [error]
    if failed:
        raise failed.pop()
