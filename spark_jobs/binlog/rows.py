"""Row events of one table into Arrow columns, a block of rows at a time.

A table is compiled once (_Plan): what the row kernel does with each column, for the row itself and for the before image
of updates. Then each block is: fresh buffers, one run of the kernel, one finishing step a column.

Put here: decoding the rows of slices. Not here: what a type does (types/), where events lie (framing.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from spark_jobs.binlog import kernels
from spark_jobs.binlog.compression import PADDING
from spark_jobs.binlog.framing import Bytes, FormatDescription, Scan, TableMaps, open_slice
from spark_jobs.binlog.payload import Opened, Payloads
from spark_jobs.binlog.plain_rows import RowEvents, merged, plain, rows_in
from spark_jobs.binlog.table import Column, TableDefinition, parse_table_map, same_layout
from spark_jobs.binlog.types.base import BadValue, Exact, Filled, Numbers, Reading
from spark_jobs.binlog.types.charsets import charset_of
from spark_jobs.errors import DecodeError, Truncated, Unsupported

ROW = 0
BEFORE = 1
"""The kernel's two programs: the row (a delete's is its before image), and the before image of updates."""

_MOST_TEXT = 64 << 20
"""Bytes of one column's text that end a block early, unless one event holds more."""
_TEXT_SLACK = 1 << 16

MOMENT = pa.timestamp("us", "UTC")
RAW = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class Changes:
    """Row changes in log order; all arrays have one length.

    op: uint8, 1 insert, 2 update, 3 delete. offset: int64, where the row's event starts in its file. row: int32, its
    place within the event. committed_at: timestamp[us, UTC] of the transaction. gtid: a dictionary of strings, or None.
    after: the row, in a delete its last one. before: an update's before image, all null for other rows.
    raw, before_raw: map<string, string>: exact text or hex of what typed columns cannot hold; None when no row has any.
    """

    op: pa.Array
    offset: pa.Array
    row: pa.Array
    committed_at: pa.Array
    gtid: pa.Array | None
    after: pa.RecordBatch
    before: pa.RecordBatch
    raw: pa.Array | None
    before_raw: pa.Array | None

    def __len__(self) -> int:
        return len(self.op)


class _Plan:
    """A definition compiled: the kernel's arrays, and how each column is finished."""

    def __init__(self, definition: TableDefinition, before: Literal["key", "all"]) -> None:
        self.definition = definition
        self.names = definition.column_names()
        self.readings = [_reading(definition, ordinal) for ordinal in range(len(definition.columns))]
        count = len(self.readings)
        self.kept = (list(range(count)), list(range(count)) if before == "all" else sorted(definition.key or ()))
        self.words = (count + 63) // 64
        self.kinds = np.array([[self._kind(program, o) for o in range(count)] for program in (ROW, BEFORE)], np.int64)
        self.widths = np.array([[reading.width for reading in self.readings]] * 2, np.int64)
        self.parameters = np.zeros((count, 6), np.int64)
        for ordinal, reading in enumerate(self.readings):
            self.parameters[ordinal, : len(reading.parameters)] = reading.parameters
        self.expected = np.full((2, count), 32.0)
        """Bytes of text to make room for, a row: what the last block had."""

    def _kind(self, program: int, ordinal: int) -> int:
        reading = self.readings[ordinal]
        return reading.kind if ordinal in self.kept[program] else reading.skip

    def columns(self) -> Iterator[tuple[int, int, Reading]]:
        """(program, ordinal, reading) of every column that is kept."""
        for program in (ROW, BEFORE):
            for ordinal in self.kept[program]:
                yield program, ordinal, self.readings[ordinal]


def _reading(definition: TableDefinition, ordinal: int) -> Reading:
    try:
        return definition.columns[ordinal].reading()
    except Unsupported as error:
        raise Unsupported(f"{definition.name}.{definition.column_names()[ordinal]}: {error}") from None


class _Block:
    """The buffers of one block of at most ``rows`` changes."""

    def __init__(self, plan: _Plan, rows: int, room: int) -> None:
        """room: bytes of text for one event, on top of what a block is expected to have."""
        self.plan = plan
        count = len(plan.readings)
        self.slots: dict[tuple[int, int], pa.Buffer] = {}
        self.texts: dict[tuple[int, int], pa.Buffer] = {}
        self.slot_addresses = np.zeros((2, count), np.int64)
        self.text_addresses = np.zeros((2, count), np.int64)
        self.used = np.zeros((2, count), np.int64)
        self.capacity = np.zeros((2, count), np.int64)
        self.marked = np.zeros((2, count), np.uint8)
        self.nulls = np.empty((2, rows, plan.words), np.uint64)
        self.seen_nulls: dict[int, Numbers] = {}
        variable: list[tuple[int, int]] = []
        for program, ordinal, reading in plan.columns():
            self._allocate(program, ordinal, reading, rows)
            if reading.is_text:
                self._allocate_text(program, ordinal, reading, rows, room)
                variable += [] if reading.bounded else [(program, ordinal)]
        self.variable = np.array(variable, np.int64).reshape(-1, 2)
        self.op, self.transaction = np.empty(rows, np.uint8), np.empty(rows, np.int32)
        self.offset, self.row, self.committed = (
            np.empty(rows, np.int64),
            np.empty(rows, np.int32),
            np.empty(rows, np.int64),
        )

    def _allocate(self, program: int, ordinal: int, reading: Reading, rows: int) -> None:
        buffer = pa.allocate_buffer(reading.width * (rows + reading.is_text))
        if program == BEFORE:  # rows that are no updates leave their slots alone: no mark may be found there
            np.frombuffer(buffer, np.uint8)[:] = 0
        self.slots[program, ordinal] = buffer
        self.slot_addresses[program, ordinal] = buffer.address

    def _allocate_text(self, program: int, ordinal: int, reading: Reading, rows: int, room: int) -> None:
        expected = int(min(self.plan.expected[program, ordinal] * rows * 1.25, _MOST_TEXT)) + room
        size = reading.bounded * rows + PADDING if reading.bounded else expected
        buffer = pa.allocate_buffer(size)
        self.texts[program, ordinal] = buffer
        self.text_addresses[program, ordinal] = buffer.address
        self.capacity[program, ordinal] = size

    def run(self, events: RowEvents, state: Numbers) -> int:
        """Fills the block; returns the kernel's reason for stopping."""
        plan = self.plan
        return int(
            kernels.decode_rows(
                events.addresses, events.lengths, events.offsets, events.commits, events.transactions, events.leads,
                state, len(plan.readings), plan.kinds, plan.parameters, plan.widths, self.slot_addresses,
                self.text_addresses, self.used, self.capacity, self.variable, len(self.op), self.nulls,
                bool(plan.kept[BEFORE]), self.marked, self.op, self.offset, self.row, self.committed, self.transaction,
                kernels.MONTH_START.ctypes.data, kernels.MONTH_LENGTH.ctypes.data,
            )
        )  # fmt: skip

    def null_words(self, program: int, rows: int) -> Numbers:
        """A set bit for each column that has a null, whatever the definition says."""
        if program not in self.seen_nulls:
            self.seen_nulls[program] = np.bitwise_or.reduce(self.nulls[program, :rows], axis=0)
        return self.seen_nulls[program]

    def filled(self, program: int, ordinal: int, rows: int) -> Filled:
        """One column of the block's first ``rows`` rows."""
        marked = bool(self.marked[program, ordinal])
        validity, nulls = None, 0
        if self.null_words(program, rows)[ordinal >> 6] >> np.uint64(ordinal & 63) & np.uint64(1):
            validity = pa.allocate_buffer((rows + 7) // 8)
            nulls = int(kernels.validity(self.nulls[program], rows, ordinal, np.frombuffer(validity, np.uint8)))
        text = self.texts.get((program, ordinal))
        if text is not None:
            used = int(self.used[program, ordinal])
            self.plan.expected[program, ordinal] = max(8, used / rows)
            text = text.slice(0, used)
        return Filled(rows, self.slots[program, ordinal], text, validity, nulls, marked)

    def columns(self, program: int, rows: int) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The finished columns of one program, and the exact text of what they cannot hold."""
        arrays, names, exact = [], [], {}
        for ordinal in self.plan.kept[program]:
            name = self.plan.names[ordinal]
            try:
                array, found = self.plan.readings[ordinal].finish(self.filled(program, ordinal, rows))
            except BadValue as error:
                raise BadValue(error.row, f"{name}: {error.text}") from None
            arrays.append(array)
            names.append(name)
            if found is not None:
                exact[name] = found
        return pa.RecordBatch.from_arrays(arrays, names), _raw(exact, rows)


def _raw(exact: dict[str, Exact], rows: int) -> pa.Array | None:
    """One map a row from the exact texts of the columns, null where a row has none."""
    if not exact:
        return None
    places = np.concatenate([found.rows for found in exact.values()])
    names = np.repeat(np.arange(len(exact)), [len(found.rows) for found in exact.values()])
    order = np.argsort(places, kind="stable")
    texts = pa.concat_arrays([found.texts for found in exact.values()]).take(pa.array(order))
    keys = pa.array(exact, pa.string()).take(pa.array(names[order]))
    counts = np.bincount(places, minlength=rows)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    validity = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    entries = pa.StructArray.from_arrays(
        [keys, texts], fields=[pa.field("key", pa.string(), nullable=False), RAW.item_field]
    )
    return pa.Array.from_buffers(
        RAW, rows, [validity, pa.py_buffer(offsets)], int((counts == 0).sum()), children=[entries]
    )


def _outer_events(file: str, found: Scan, chosen: Numbers, footer: int) -> RowEvents:
    offsets, lengths = found.offset[chosen], found.length[chosen]
    addresses = found.address + offsets
    kept: list[object] = [found.buffer]
    late = np.flatnonzero(offsets + lengths + PADDING > len(found.buffer))
    if len(late):
        first = offsets[late[0]]
        tail = np.concatenate([found.buffer[first:], np.zeros(PADDING, np.uint8)])
        addresses[late] = tail.ctypes.data + offsets[late] - first
        kept.append(tail)
    commits, transactions = _owners(found, chosen)
    leads = np.zeros(len(chosen), np.int64)
    return RowEvents(
        file, addresses, lengths - footer, found.code[chosen], offsets + found.base, commits, transactions, leads, kept
    )


def _owners(found: Scan, events: Numbers) -> tuple[Numbers, Numbers]:
    """Commit time, and row in the scan's array, of the events' transactions."""
    transactions = found.transaction[events]
    return found.transactions[transactions, kernels.TX_COMMITTED], transactions


def _inner_events(file: str, found: Scan, opened: Opened, chosen: Numbers) -> RowEvents:
    """Row events inside payloads; their offset, time and GTID are those of the payload event."""
    inner, outer = opened.inner, opened.outer[chosen]
    commits, transactions = _owners(found, outer)
    return RowEvents(
        file,
        inner.address + inner.offset[chosen],
        inner.length[chosen],
        inner.code[chosen],
        found.base + found.offset[outer],
        commits,
        transactions,
        np.zeros(len(chosen), np.int64),
        [inner.buffer],
    )


def _leads(counts: Numbers, outer: Numbers, mine: Numbers) -> tuple[Numbers, int]:
    """Other tables' rows between each own event and the own one before it in its payload; and those behind the last.

    counts, outer: of all row events, 0 for own ones; mine: places of these.
    """
    total = np.cumsum(counts)
    if not len(mine):
        return np.zeros(0, np.int64), int(total[-1])
    first = np.searchsorted(outer, outer[mine])
    follows = np.concatenate([[False], outer[mine][1:] == outer[mine][:-1]])
    since = np.where(follows, np.roll(total[mine], 1), total[first] - counts[first])
    return total[mine] - since, int(total[-1] - total[mine[-1]])


def _most_rows(events: RowEvents, columns: int) -> int:
    """A row has at least its null bits."""
    return int(events.lengths.sum()) // ((columns + 7) // 8) + 1


def _place(file: str, found: Scan, event: int) -> str:
    return f"{file}:{found.base + found.offset[event]}"


_UNDECIDED = {
    kernels.TX_XA: "rows of an XA transaction, which may be rolled back later, are not decoded in this version",
    kernels.TX_ROLLED_BACK: "rows of a transaction that ends in a ROLLBACK are not decoded in this version",
}


def _refuse(file: str, found: Scan, chosen: Numbers, definition: TableDefinition) -> None:
    """Raises Unsupported at the first event whose transaction's rows are not decoded in this version."""
    flags = found.transactions[found.transaction[chosen], kernels.TX_FLAGS]
    for flag, text in _UNDECIDED.items():
        found_at = np.flatnonzero(flags & flag)
        if len(found_at):
            raise Unsupported(f"{_place(file, found, chosen[found_at[0]])}: {definition.name}: {text}")


def _differences(known: Column, said: Column) -> Iterator[tuple[str, object, object]]:
    """(what, expected, in the log) where both the definition and a TABLE_MAP say something, and not the same."""
    pairs = {
        "name": (known.name, said.name),
        "UNSIGNED": (known.unsigned, said.unsigned),
        "character set": (_charset(known), _charset(said)),
        "labels": (known.labels, said.labels),
    }
    for what, (one, other) in pairs.items():
        if one is not None and other is not None and one != other:
            yield what, one, other


def _charset(column: Column) -> str | None:
    return None if column.charset is None else charset_of(column.charset)


def _completed(known: Column, said: Column) -> Column:
    """The known column, with what it leaves open taken from a TABLE_MAP."""
    return replace(
        known,
        name=said.name if known.name is None else known.name,
        unsigned=said.unsigned if known.unsigned is None else known.unsigned,
        charset=said.charset if known.charset is None else known.charset,
        labels=said.labels if known.labels is None else known.labels,
    )


def _gtids(found: Scan, transactions: Numbers, given: str | None) -> pa.Array:
    """One GTID a row; rows of a transaction that began before the slice have the given one."""
    used, places = np.unique(transactions, return_inverse=True)
    texts = [
        given if found.transactions[t, kernels.TX_GTID] == kernels.GTID_GIVEN else found.gtid(t) for t in used.tolist()
    ]
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(texts, pa.string()))


class Decoder:
    """Decodes the rows of one table out of slices; every other table's events are passed over.

    before: which columns of an update's before image are kept: the key's (none where the table has no key or it is not
    known), or all. rows: the most rows of one Changes. What the definition leaves open (signs, character sets, labels)
    is taken from the first TABLE_MAP met, and from then on every TABLE_MAP must agree.
    """

    def __init__(
        self,
        definition: TableDefinition,
        *,
        before: Literal["key", "all"] = "key",
        rows: int = 16384,
        gtids: bool = False,
    ) -> None:
        self.definition = definition
        self._before = before
        self._rows = rows
        self._gtids = gtids
        self._maps = TableMaps()
        self._mine: dict[int, bool] = {}
        self._others: dict[int, TableDefinition] = {}
        self._plan: _Plan | None = None

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
        """The table's changes in one slice, in log order.

        file, start, context, payload, transaction_start: as the slice has them; the payload is not copied.
        committed_us (µs since 1970 UTC), gtid: of the slice, for rows of a transaction that began before it.

        Raises DecodeError, Truncated, ChecksumMismatch or Unsupported; every message begins with ``file:offset``.
        """
        scanner, found = open_slice(
            file, start, context, payload, self._maps, transaction_start=transaction_start, committed_us=committed_us
        )
        for events in self._events(file, found, scanner.format):
            yield from self._blocks(events, found, gtid)

    def _events(self, file: str, found: Scan, head: FormatDescription) -> Iterator[RowEvents]:
        """This table's row events, plain in memory, in log order."""
        rows = np.flatnonzero(found.mark & kernels.MARK_ROWS)
        own = rows[self._own(found.table[rows], head, lambda row: _place(file, found, rows[row]))]
        ahead = 0  # rows of a payload in parts that earlier parts had
        for opened in Payloads(file, head, self._maps).open(found):
            last = opened.outer[-1] if len(opened.outer) else -1
            before, own = own[own < last], own[own > last]
            inner, after = self._inside(file, found, opened, head)
            ahead = 0 if opened.begins else ahead
            inner.leads[:1] += ahead
            for events in plain(merged(self._outside(file, found, before, head), inner), self.definition):
                yield events
                ahead = events.rows_after
            ahead = after + (ahead if len(inner) or not opened.begins else 0)
        yield from plain(self._outside(file, found, own, head), self.definition)

    def _outside(self, file: str, found: Scan, chosen: Numbers, head: FormatDescription) -> RowEvents:
        """Row events that stand in the slice itself."""
        _refuse(file, found, chosen, self.definition)
        return _outer_events(file, found, chosen, head.footer)

    def _inside(self, file: str, found: Scan, opened: Opened, head: FormatDescription) -> tuple[RowEvents, int]:
        """This table's row events inside payloads, and the other tables' rows behind the last of them."""
        rows = np.flatnonzero(opened.inner.mark & kernels.MARK_ROWS)
        tables, outer = opened.inner.table[rows], opened.outer[rows]
        mine = self._own(tables, head, lambda row: _place(file, found, outer[row]))
        _refuse(file, found, outer[mine], self.definition)
        events = _inner_events(file, found, opened, rows[mine])
        others = ~mine & (np.isin(outer, outer[mine]) | (not opened.whole))
        if not others.any():
            return events, 0
        counts = np.zeros(len(rows), np.int64)
        for ordinal in np.unique(tables[others]).tolist():
            of_it = others & (tables == ordinal)
            counts[of_it] = self._count(_inner_events(file, found, opened, rows[of_it]), ordinal, head)
        events.leads, after = _leads(counts, outer, np.flatnonzero(mine))
        return events, after

    def _count(self, events: RowEvents, ordinal: int, head: FormatDescription) -> Numbers:
        if ordinal not in self._others:
            self._others[ordinal] = parse_table_map(self._maps.events[ordinal], head, events.place(0))
        return rows_in(events, self._others[ordinal])

    def _own(self, tables: Numbers, head: FormatDescription, place: Callable[[int], str]) -> Numbers:
        """Which ordinals of table maps are this table's; ``place`` names that of a place in ``tables``."""
        met, first = np.unique(tables, return_index=True)
        pairs = zip(met.tolist(), first.tolist(), strict=True)
        mine = [ordinal for ordinal, at in pairs if self._is_mine(ordinal, place, at, head)]
        return np.isin(tables, np.array(mine, np.int32))

    def _is_mine(self, ordinal: int, place: Callable[[int], str], at: int, head: FormatDescription) -> bool:
        if ordinal not in self._mine:
            name = self.definition.name
            self._mine[ordinal] = self._maps.names[ordinal] == (name.schema, name.table)
            if self._mine[ordinal]:
                self._accept(ordinal, place(at), head)
        return self._mine[ordinal]

    def _accept(self, ordinal: int, where: str, head: FormatDescription) -> None:
        """Checks a TABLE_MAP of this table against the definition, and fills in what that leaves open."""
        met = parse_table_map(self._maps.events[ordinal], head, where)
        if not same_layout(met, self.definition):
            raise DecodeError(f"{where}: the log's table is not the one expected: {met} instead of {self.definition}")
        pairs = list(zip(self.definition.columns, met.columns, strict=True))
        for (known, said), name in zip(pairs, self.definition.column_names(), strict=True):
            for what, one, other in _differences(known, said):
                raise DecodeError(f"{where}: {self.definition.name}.{name}: {what} {other} in the log, {one} expected")
        if self._plan is None:
            columns = tuple(_completed(known, said) for known, said in pairs)
            self.definition = replace(self.definition, columns=columns)

    def _blocks(self, events: RowEvents, found: Scan, gtid: str | None) -> Iterator[Changes]:
        if self._plan is None:
            self._plan = self._compiled(events.place(0))
        state = np.zeros(6, np.int64)
        most = min(self._rows, _most_rows(events, len(self.definition.columns)))
        room = _TEXT_SLACK
        while state[1] < len(events.addresses):
            block = _Block(self._plan, most, room)
            reason = block.run(events, state)
            if reason not in (kernels.DONE, kernels.BLOCK_FULL):
                raise self._error(reason, events, state)
            room = _TEXT_SLACK
            rows = int(state[0])
            if rows:
                gtids = _gtids(found, block.transaction[:rows], gtid) if self._gtids else None
                yield self._changes(block, rows, events, gtids)
            elif reason == kernels.BLOCK_FULL:
                room = int(events.lengths[state[1]]) + _TEXT_SLACK
        events.rows_after = int(state[3])

    def _compiled(self, where: str) -> _Plan:
        try:
            return _Plan(self.definition, self._before)
        except Unsupported as error:
            raise Unsupported(f"{where}: {error}") from None

    def _changes(self, block: _Block, rows: int, events: RowEvents, gtids: pa.Array | None) -> Changes:
        try:
            after, raw = block.columns(ROW, rows)
            before, before_raw = block.columns(BEFORE, rows)
        except BadValue as error:
            where = f"{events.file}:{block.offset[error.row]}"
            raise DecodeError(f"{where}: row {block.row[error.row]}: {self.definition.name}.{error.text}") from None
        return Changes(
            pa.array(block.op[:rows]),
            pa.array(block.offset[:rows]),
            pa.array(block.row[:rows]),
            pa.array(block.committed[:rows].view("M8[us]"), MOMENT),
            gtids,
            after,
            before,
            raw,
            before_raw,
        )

    def _error(self, reason: int, events: RowEvents, state: Numbers) -> DecodeError:
        event, row, ordinal = int(state[1]), int(state[3]), int(state[4])
        name = self.definition.name
        where = events.place(event)
        if reason == kernels.PARTIAL_IMAGE:
            return Unsupported(
                f"{where}: {name}: a row image without all columns; set binlog_row_image=FULL on the server and start "
                f"from a position behind it"
            )
        if reason == kernels.OTHER_COLUMN_COUNT:
            return DecodeError(f"{where}: {name}: a row event whose column count is not its TABLE_MAP's")
        column = "its null bits" if ordinal < 0 else self._described(ordinal)
        if reason == kernels.BAD_VALUE:
            return DecodeError(f"{where}: row {row} of {name}: {column}: the bytes are no value of the type")
        return Truncated(f"{where}: row {row} of {name}: {column}: the row ends beyond its event")

    def _described(self, ordinal: int) -> str:
        return f"{self.definition.column_names()[ordinal]} {self.definition.columns[ordinal].sql_type}"
