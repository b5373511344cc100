"""Packed row events rewritten as plain ones, and rows counted without being decoded.

MariaDB's compressed rows (sql/log_event.cc, ``row_log_event_uncompress``): the event's head and bitmaps stand as ever,
what follows is one compressed record. MySQL's partial updates (sql/rpl_record.cc): between the images of an update
stands which JSON documents are diffs; the plain event has the document after instead. MariaDB's fragments are joined
(binlog/events/row_fragments.py).

Put here: from row events of any kind to WRITE, UPDATE and DELETE. Not here: payloads
(binlog/events/transaction_payload.py), values (decoder.py).
"""

from collections.abc import Iterator
from ctypes import string_at
from dataclasses import dataclass, field

import numpy as np

from spark_jobs.binlog.events.compression import AT_ONCE, PADDING, inflated_record
from spark_jobs.binlog.events.partial_json import apply_diffs
from spark_jobs.binlog.events.redaction import PARTIAL_UPDATE, PLAIN_ROWS
from spark_jobs.binlog.events.row_fragments import joined
from spark_jobs.binlog.events.table_map import Column, TableDefinition
from spark_jobs.binlog.events.types import FRAGMENT, type_name
from spark_jobs.binlog.kernels import packed_events, row_images
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.types import GEOMETRY_CODE, VECTOR_CODE
from spark_jobs.binlog.types.base import Numbers
from spark_jobs.errors import DecodeError, Truncated, Unsupported

PLAIN = np.array([PLAIN_ROWS.get(code, code) for code in range(256)])
"""The plain event of each type."""
_UPDATES = [code for code, plain_code in PLAIN_ROWS.items() if plain_code in (24, 31)]
_TYPE = 4
"""Offset of the type in an event."""
JSON_CODE = 245


@dataclass(slots=True)
class RowEvents:
    """Row events in memory, in log order; all arrays have one length."""

    file: str
    addresses: Numbers
    """Address where an event begins, with PADDING readable bytes after its end."""
    lengths: Numbers
    """Lengths of the events without a checksum."""
    codes: Numbers
    """Type codes of the events."""
    offsets: Numbers
    """Offsets in the file; of the payload event for what was inside one."""
    commits: Numbers
    """Commit times, in µs."""
    transactions: Numbers
    """Rows of the scan's array."""
    leads: Numbers
    """Rows of other tables between an event of the same payload and this one."""
    groups: Numbers
    """Owner of the rows, 0 where all are one table's."""
    buffers: list[object] = field(default_factory=list)
    """Arrays that the addresses point into."""
    rows_after: int = 0
    """Set by who decodes them: rows of the last payload up to its last event here."""

    def __len__(self) -> int:
        return len(self.addresses)

    def location(self, event: int) -> str:
        """Location of an event in messages."""
        return f"{self.file}:{self.offsets[event]}"

    def cells(self) -> Numbers:
        """[n, event_cells.E_CELLS], for the row kernel."""
        return np.column_stack([self.addresses, self.lengths, self.offsets, self.commits, self.leads, self.groups])

    def part(self, events: slice | Numbers) -> "RowEvents":
        """Some of the events, or all in another order."""
        return RowEvents(
            self.file,
            self.addresses[events],
            self.lengths[events],
            self.codes[events],
            self.offsets[events],
            self.commits[events],
            self.transactions[events],
            self.leads[events],
            self.groups[events],
            list(self.buffers),
        )


def merged(first: RowEvents, second: RowEvents) -> RowEvents:
    """Row events of both in log order; events of one offset stay as they are."""
    joined = RowEvents(
        first.file,
        np.concatenate([first.addresses, second.addresses]),
        np.concatenate([first.lengths, second.lengths]),
        np.concatenate([first.codes, second.codes]),
        np.concatenate([first.offsets, second.offsets]),
        np.concatenate([first.commits, second.commits]),
        np.concatenate([first.transactions, second.transactions]),
        np.concatenate([first.leads, second.leads]),
        np.concatenate([first.groups, second.groups]),
        first.buffers + second.buffers,
    )
    return joined.part(np.argsort(joined.offsets, kind="stable"))


def plain_events(events: RowEvents, definition: TableDefinition) -> Iterator[RowEvents]:
    """The same rows in plain events, in runs whose inflated bytes are at most AT_ONCE, or those of one event.

    Raises DecodeError and its kinds, naming file:offset, table and column.
    """
    if not len(events):
        return
    if not (events.codes >= PARTIAL_UPDATE).any():
        yield events
        return
    for run in _inflated(_joined_fragments(events), definition):
        _apply_partial(run, definition)
        yield run


def _joined_fragments(events: RowEvents) -> RowEvents:
    """Row events in which those that were logged in fragments are joined; the others stay as they are."""
    groups = np.flatnonzero(events.codes == FRAGMENT)
    if not len(groups):
        return events
    wires = [joined(string_at(int(events.addresses[at]), int(events.lengths[at]))) for at in groups.tolist()]
    buffer = np.frombuffer(b"".join([*wires, bytes(PADDING)]), np.uint8)
    lengths = np.array([len(wire) for wire in wires], np.int64)
    result = events.part(slice(None))
    result.addresses, result.lengths, result.codes = (
        array.copy() for array in (result.addresses, result.lengths, result.codes)
    )
    result.addresses[groups] = address_of(buffer) + np.cumsum(lengths) - lengths
    result.lengths[groups] = lengths
    result.codes[groups] = [wire[_TYPE] for wire in wires]
    result.buffers.append(buffer)
    return result


def sizes_of(definition: TableDefinition) -> Numbers:
    """Bytes of each column's values on the wire, or below zero those of the length before them.

    Whatever the values mean: signs, character sets and labels need not be known. Raises Unsupported and DecodeError.
    Source: MySQL libs/mysql/binlog/event/binary_log_funcs.cpp (``calc_field_size``).
    """
    names = definition.column_names()
    return np.array(
        [_size(column, f"{definition.name}.{name}") for column, name in zip(definition.columns, names, strict=True)],
        np.int64,
    )


def _sizes_at(location: str, definition: TableDefinition) -> Numbers:
    try:
        return sizes_of(definition)
    except DecodeError as error:
        raise type(error)(f"{location}: {error}") from None


_FIXED = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8, 4: 4, 5: 8, 13: 1, 10: 3, 14: 3, 7: 4, 11: 3, 12: 8}
_FRACTIONAL = {17: 4, 18: 5, 19: 3}
_COMPRESSED_BLOB, _COMPRESSED_VARCHAR = 140, 141
_PREFIXED = {252, JSON_CODE, GEOMETRY_CODE, VECTOR_CODE, _COMPRESSED_BLOB}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def _size(column: Column, name: str) -> int:  # noqa: PLR0911 - one line a kind of type
    """Bytes of a value: negative, how many bytes its length has. Raises DecodeError, Unsupported."""
    code, meta = column.type_code, column.meta
    # By type code (MYSQL_TYPE_…): fixed, with fractional seconds, with a length, then the rest one by one.
    if code in _FIXED:
        return _FIXED[code]
    if code in _FRACTIONAL:
        return _FRACTIONAL[code] + (meta + 1) // 2
    if code in _PREFIXED:
        if not 1 <= meta <= 4:
            raise DecodeError(f"{name}: a length of {meta} bytes")
        return -meta
    if code in {15, 253, 254, _COMPRESSED_VARCHAR}:
        return -1 if meta < 256 else -2
    if code in {247, 248}:
        return meta
    if code == 16:
        return (meta + 7) // 8
    if code == 246:
        parts = (meta >> 8) - (meta & 255), meta & 255
        return sum(digits // 9 * 4 + _DIGIT_BYTES[digits % 9] for digits in parts)
    raise Unsupported(f"{name}: values of type {column.sql_type} cannot be skipped in this version")


def _documents(definition: TableDefinition) -> Numbers:
    return np.array([column.type_code == JSON_CODE for column in definition.columns], np.uint8)


def rows_in(events: RowEvents, definition: TableDefinition) -> Numbers:
    """int64: the rows of each event of a table, counted without decoding any. Raises Truncated, Unsupported."""
    sizes = _sizes_at(events.location(0), definition)
    spots, counts = np.zeros(len(sizes), np.int64), np.zeros(len(events), np.int64)
    images = events.addresses, events.lengths, len(sizes), sizes, _documents(definition)
    good = int(row_images.count_rows(*images, spots, counts))
    if good < len(events):
        raise Truncated(f"{events.location(good)}: {definition.name}: its rows do not end with their event")
    return counts


def _inflated(events: RowEvents, definition: TableDefinition) -> Iterator[RowEvents]:
    """MariaDB's compressed events inflated; the others as they are."""
    packed = _packed(events, definition)
    first = start = size = 0
    records: list[bytes] = []
    for at, (begin, stop) in enumerate(zip(packed.records.tolist(), packed.stops.tolist(), strict=True), 1):
        try:
            records.append(inflated_record(packed.wire[begin:stop]))
        except DecodeError as error:
            raise DecodeError(f"{_subject(events, packed.events[at - 1], definition)}: {error}") from None
        size += len(records[-1])
        if size > AT_ONCE:
            after = int(packed.events[at - 1]) + 1
            yield _replaced(events, slice(first, after), packed.part(slice(start, at)), records)
            first, start, size, records = after, at, 0, []
    if first < len(events):
        yield _replaced(events, slice(first, len(events)), packed.part(slice(start, None)), records)


@dataclass(frozen=True, slots=True)
class _Packed:
    """Compressed events one after the other in ``wire``: where each starts, where its record does, where it stops.

    Python takes a slice of bytes for each and keeps none: kept, slices of a view or rows of numbers are objects that
    its collector visits again and again, which took a third of the time.
    """

    wire: bytes
    events: Numbers
    starts: Numbers
    records: Numbers
    stops: Numbers

    def part(self, events: slice) -> "_Packed":
        return _Packed(self.wire, self.events[events], self.starts[events], self.records[events], self.stops[events])


def _packed(events: RowEvents, definition: TableDefinition) -> _Packed:
    """The compressed ones among the events. Raises DecodeError."""
    packed = np.flatnonzero(events.codes > PARTIAL_UPDATE)
    addresses, lengths = events.addresses[packed], events.lengths[packed]
    images = 1 + np.isin(events.codes[packed], _UPDATES).astype(np.int64)
    wire, bodies = np.empty(int(lengths.sum()), np.uint8), np.empty(len(packed), np.int64)
    columns, out = len(definition.columns), address_of(wire)
    good = int(packed_events.packed_rows(addresses, lengths, columns, images, bodies, out))
    if good < len(packed):
        raise DecodeError(f"{_subject(events, packed[good], definition)}: its head does not fit its TABLE_MAP")
    stops = np.cumsum(lengths)
    return _Packed(wire.tobytes(), packed, stops - lengths, stops - lengths + bodies, stops)


def _replaced(events: RowEvents, within: slice, packed: _Packed, records: list[bytes]) -> RowEvents:
    """The events of a range that were packed: their heads, each followed by its record."""
    run = events.part(within)
    if not records:
        return run
    # Heads and records interleaved in a new buffer, at the offsets that the lengths give.
    wire, contents = np.frombuffer(packed.wire, np.uint8), np.frombuffer(b"".join(records) or b"\0", np.uint8)
    heads, sizes = packed.records - packed.starts, np.array([len(content) for content in records])
    lengths = heads + sizes
    starts = np.cumsum(lengths) - lengths
    buffer = np.zeros(int(lengths.sum()) + PADDING, np.uint8)
    out = address_of(buffer)
    packed_events.interleave(address_of(wire), packed.starts, heads, address_of(contents), sizes, out)
    # The events of the range refer to that buffer, with the code of the plain type.
    offsets = packed.events - within.start
    run.addresses, run.lengths, run.codes = (array.copy() for array in (run.addresses, run.lengths, run.codes))
    run.codes[offsets] = buffer[starts + _TYPE] = PLAIN[run.codes[offsets]]
    run.addresses[offsets] = out + starts
    run.lengths[offsets] = lengths
    run.buffers.append(buffer)
    return run


def _subject(events: RowEvents, event: int, definition: TableDefinition) -> str:
    return f"{events.location(event)}: {definition.name}: {type_name(int(events.codes[event]))} event"


def _apply_partial(events: RowEvents, definition: TableDefinition) -> None:
    """Rewrite partial updates, in place of the events that they are."""
    partial = np.flatnonzero(events.codes == PARTIAL_UPDATE)
    if not len(partial):
        return
    rewriting = _Rewriting(events, partial, definition)
    buffer, starts = rewriting.rewritten()
    events.addresses, events.lengths, events.codes = (
        array.copy() for array in (events.addresses, events.lengths, events.codes)
    )
    events.addresses[partial] = address_of(buffer) + starts[:-1]
    events.lengths[partial] = np.diff(starts)
    events.codes[partial] = 31
    events.buffers.append(buffer)


class _Rewriting:
    """Partial updates of one table on their way to plain ones."""

    def __init__(self, events: RowEvents, partial: Numbers, definition: TableDefinition) -> None:
        self.events, self.partial, self.definition = events, partial, definition
        self.sizes = _sizes_at(events.location(int(partial[0])), definition)
        self.documents = _documents(definition)

    def rewritten(self) -> tuple[Numbers, Numbers]:
        """The rewritten events, PADDING behind them, and where each begins; one start more than events."""
        starts = np.zeros(len(self.partial) + 1, np.int64)
        no_documents = np.zeros((0, 2), np.int64)
        count = self._copy_contents(np.zeros((0, row_images.CELL_COLUMNS), np.int64), no_documents, starts, 0)
        cells = np.zeros((count, row_images.CELL_COLUMNS), np.int64)
        self._copy_contents(cells, no_documents, starts, 0)
        documents = [self._document(cell) for cell in cells.tolist()]
        contents = np.array([[0, len(document)] for document in documents], np.int64).reshape(-1, 2)
        joined = np.frombuffer(b"".join(documents) or b"\0", np.uint8)
        contents[:, 0] = address_of(joined) + np.cumsum(contents[:, 1]) - contents[:, 1]
        self._copy_contents(cells, contents, starts, 0)
        buffer = np.zeros(int(starts[-1]) + PADDING, np.uint8)
        self._copy_contents(cells, contents, starts, address_of(buffer))
        return buffer, starts

    def _copy_contents(self, cells: Numbers, contents: Numbers, starts: Numbers, out: int) -> int:
        failed = np.zeros(2, np.int64)
        columns = len(self.sizes)
        table = columns, self.sizes, self.documents
        events = self.events.addresses[self.partial], self.events.lengths[self.partial]
        room = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
        count = int(row_images.plain_updates(*events, *table, cells, contents, starts, *room, out, failed))
        if count < 0:
            location = self.events.location(int(self.partial[failed[0]]))
            row = f"row {failed[1]} of " if failed[1] >= 0 else ""
            raise Truncated(
                f"{location}: {row}{self.definition.name}: a partial update whose parts do not fit its event"
            )
        return count

    def _document(self, cell: list[int]) -> bytes:
        """The document after a cell's diffs."""
        event, row, column, before, diffs = cell
        location = f"{self.events.location(int(self.partial[event]))}: row {row} of {self.definition.name}: "
        location += self.definition.column_names()[column]
        if before == 0:
            raise Unsupported(
                f"{location}: a partial update of JSON, and the row before does not hold the document; with "
                f"binlog_row_value_options=PARTIAL_JSON the server needs binlog_row_image=FULL"
            )
        if before < 0:
            raise DecodeError(f"{location}: a partial update of a document that was NULL")
        size = -int(self.sizes[column])
        try:
            return apply_diffs(_prefixed(before, size), _prefixed(diffs, size))
        except DecodeError as error:
            raise DecodeError(f"{location}: {error}") from None


def _prefixed(address: int, size: int) -> bytes:
    """A value whose length of ``size`` bytes stands before it; the kernel has found it inside its event."""
    length = int.from_bytes(string_at(address, size), "little")
    return string_at(address + size, length)
