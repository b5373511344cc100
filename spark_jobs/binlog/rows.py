"""Row events of one table into Arrow columns, a block of rows at a time.

A table is compiled once (_Plan): what the row kernel does with each column, for the row itself and for the before image
of updates. Then each block is: fresh buffers, one run of the kernel, one finishing step a column.

Put here: decoding the rows of slices. Not here: what a type does (types/), where events lie (framing.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.binlog import kernels
from spark_jobs.binlog.event_types import EVENT_TYPES, type_name
from spark_jobs.binlog.framing import Bytes, FormatDescription, Scan, TableMaps, open_slice
from spark_jobs.binlog.table import Column, TableDefinition, parse_table_map, same_layout
from spark_jobs.binlog.types.base import BadValue, Exact, Filled, Numbers, Reading
from spark_jobs.binlog.types.charsets import charset_of
from spark_jobs.errors import DecodeError, Truncated, Unsupported

ROW = 0
BEFORE = 1
"""The kernel's two programs: the row (a delete's is its before image), and the before image of updates."""

_PADDING = 64
"""Bytes that the kernel may read behind an event."""
_MOST_TEXT = 64 << 20
"""Bytes of one column's text that end a block early, unless one event holds more."""
_TEXT_SLACK = 1 << 16

MOMENT = pa.timestamp("us", "UTC")
RAW = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class Presence:
    """Which columns the images of a block hold, apart from what is NULL in them.

    Every row of an event has the event's columns, and a table sees a handful of sets of them: so the sets are kept once
    and a row has the number of its set. Where every image is whole there is no Presence at all, and nothing is spent.

    sets: bool[set, column], by ordinal of the definition. index: int32[row], which set a row has.
    """

    sets: NDArray[np.bool_]
    index: NDArray[np.int32]

    def column(self, ordinal: int) -> NDArray[np.bool_]:
        """bool[row]: whether the row's image holds the column."""
        present: NDArray[np.bool_] = self.sets[self.index, ordinal]
        return present


@dataclass(frozen=True, slots=True)
class Changes:
    """Row changes in log order; all arrays have one length.

    op: uint8, 1 insert, 2 update, 3 delete. offset: int64, where the row's event starts in its file. row: int32, its
    place within the event. committed_at: timestamp[us, UTC] of the transaction. gtid: a dictionary of strings, or None.
    after: the row, in a delete its last one. before: an update's before image, all null for other rows.
    raw, before_raw: map<string, string>: exact text or hex of what typed columns cannot hold; None when no row has any.
    present, before_present: which columns of ``after`` and ``before`` the log holds; what it leaves out is null there.
    None: every image is whole. A row without a before image has no column in ``before_present``.
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
    present: Presence | None = None
    before_present: Presence | None = None

    def __len__(self) -> int:
        return len(self.op)

    @property
    def nbytes(self) -> int:
        """Bytes of the values of both images."""
        return int(self.after.nbytes + self.before.nbytes)

    def slice(self, first: int, rows: int) -> "Changes":
        """Some of the changes that follow each other, without a copy."""

        def cut(values: pa.Array | None) -> pa.Array | None:
            return None if values is None else values.slice(first, rows)

        def held(presence: Presence | None) -> Presence | None:
            return None if presence is None else Presence(presence.sets, presence.index[first : first + rows])

        return Changes(
            cut(self.op),
            cut(self.offset),
            cut(self.row),
            cut(self.committed_at),
            cut(self.gtid),
            cut(self.after),
            cut(self.before),
            cut(self.raw),
            cut(self.before_raw),
            held(self.present),
            held(self.before_present),
        )


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


@dataclass(slots=True)
class _Events:
    """The row events of one table in one slice, as the kernel takes them."""

    file: str
    found: Scan
    footer: int
    addresses: Numbers
    lengths: Numbers
    offsets: Numbers
    commits: Numbers
    transactions: Numbers
    tail: Numbers
    """Padded copy of the slice's end, which some addresses point into; kept alive here."""

    def place(self, event: int) -> str:
        return f"{self.file}:{self.offsets[event]}"

    def length(self, event: int) -> int:
        return int(self.lengths[event])

    def most_rows(self, columns: int) -> int:
        """A row has at least its null bits."""
        return int(self.lengths.sum()) // ((columns + 7) // 8) + 1


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
        self.op, self.source = np.empty(rows, np.uint8), np.empty(rows, np.int32)
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
        self.slot_addresses[program, ordinal] = kernels.address_of(buffer)

    def _allocate_text(self, program: int, ordinal: int, reading: Reading, rows: int, room: int) -> None:
        expected = int(min(self.plan.expected[program, ordinal] * rows * 1.25, _MOST_TEXT)) + room
        size = reading.bounded * rows + _PADDING if reading.bounded else expected
        buffer = pa.allocate_buffer(size)
        self.texts[program, ordinal] = buffer
        self.text_addresses[program, ordinal] = kernels.address_of(buffer)
        self.capacity[program, ordinal] = size

    def run(self, events: _Events, state: Numbers, *, partial: bool) -> int:
        """Fills the block; returns the kernel's reason for stopping."""
        plan = self.plan
        return int(
            kernels.decode_rows(
                events.addresses, events.offsets, events.commits, events.footer, state, partial, len(plan.readings),
                plan.kinds, plan.parameters, plan.widths, self.slot_addresses, self.text_addresses,
                self.used, self.capacity, self.variable, len(self.op), self.nulls, bool(plan.kept[BEFORE]), self.marked,
                self.op, self.offset, self.row, self.committed, self.source,
                kernels.address_of(kernels.MONTH_START), kernels.address_of(kernels.MONTH_LENGTH),
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


def _events(file: str, found: Scan, chosen: Numbers, footer: int) -> _Events:
    offsets, lengths = found.offset[chosen], found.length[chosen]
    addresses = found.address + offsets
    tail = np.empty(0, np.uint8)
    late = np.flatnonzero(offsets + lengths + _PADDING > len(found.buffer))
    if len(late):
        first = offsets[late[0]]
        tail = np.concatenate([found.buffer[first:], np.zeros(_PADDING, np.uint8)])
        addresses[late] = kernels.address_of(tail) + offsets[late] - first
    transactions = found.transaction[chosen]
    commits = found.transactions[transactions, kernels.TX_COMMITTED]
    return _Events(file, found, footer, addresses, lengths, offsets + found.base, commits, transactions, tail)


def _place(file: str, found: Scan, event: int) -> str:
    return f"{file}:{found.base + found.offset[event]}"


_COMPRESSED = (
    "a Transaction_payload event: compressed transactions are kept but not decoded in this version; "
    "set binlog_transaction_compression=OFF on the server"
)
_UNDECIDED = {
    kernels.TX_XA: "rows of an XA transaction, which may be rolled back later, are not decoded in this version",
    kernels.TX_ROLLED_BACK: "rows of a transaction with a ROLLBACK past them are not decoded: which stay is not logged",
}


def _refused(
    file: str, found: Scan, chosen: Numbers, definition: TableDefinition, accepted: int
) -> tuple[int, Unsupported | None]:
    """How many row events stand before the first whose rows are not decoded, and why those are not.

    accepted: bits of _UNDECIDED that are decoded nevertheless.
    """
    reasons = {}
    for code in np.unique(found.code[chosen]).tolist():
        if not EVENT_TYPES[code].rows:
            first = int(np.flatnonzero(found.code[chosen] == code)[0])
            reasons[first] = f"rows of {type_name(code)} events are not decoded in this version"
    flags = found.transactions[found.transaction[chosen], kernels.TX_FLAGS]
    for flag, text in _UNDECIDED.items():
        found_at = np.flatnonzero(flags & flag & ~accepted)
        if len(found_at):
            reasons.setdefault(int(found_at[0]), text)
    if not reasons:
        return len(chosen), None
    first = min(reasons)
    return first, Unsupported(f"{_place(file, found, chosen[first])}: {definition.name}: {reasons[first]}")


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
    """A name to compare: two collations that are not known are the same set only where they are the same."""
    try:
        return None if column.charset is None else charset_of(column.charset)
    except Unsupported:
        return f"collation {column.charset}"


def _completed(known: Column, said: Column) -> Column:
    """The known column, with what it leaves open taken from a TABLE_MAP."""
    return replace(
        known,
        name=said.name if known.name is None else known.name,
        unsigned=said.unsigned if known.unsigned is None else known.unsigned,
        charset=said.charset if known.charset is None else known.charset,
        labels=said.labels if known.labels is None else known.labels,
        declared=said.declared if known.declared is None else known.declared,
    )


def _presence(events: _Events, source: Numbers, columns: int) -> list[Presence]:
    """Of the rows' own images, and of their before images; source: the event of each row."""
    used, places = np.unique(source, return_inverse=True)
    masks = np.zeros((len(used), 2, (columns + 63) // 64), np.uint64)
    kernels.image_masks(events.addresses[used], columns, masks)
    found = []
    for program in (ROW, BEFORE):
        sets, numbers = np.unique(masks[:, program], axis=0, return_inverse=True)
        bits = np.unpackbits(sets.view(np.uint8), axis=1, count=columns, bitorder="little")
        found.append(Presence(bits.astype(np.bool_), numbers.reshape(-1)[places].astype(np.int32)))
    return found


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
    known), or all. rows: the most rows of one Changes. partial: whether row images without all columns are decoded;
    they are refused otherwise. prepared: whether rows of XA transactions are; the caller knows that they took effect.

    What the definition leaves open (signs, character sets, labels) is taken from the first TABLE_MAP met, and from then
    on every TABLE_MAP must agree; exact: rows logged under another TABLE_MAP are those of another decoder.
    """

    def __init__(  # noqa: PLR0913 - what is kept of the rows, and which are taken
        self,
        definition: TableDefinition,
        *,
        before: Literal["key", "all"] = "key",
        rows: int = 16384,
        gtids: bool = False,
        partial: bool = False,
        prepared: bool = False,
        exact: bool = False,
    ) -> None:
        self.definition = definition
        self._partial = partial
        self._accepted = kernels.TX_XA if prepared else 0
        self._exact = exact
        self._before = before
        self._rows = rows
        self._gtids = gtids
        self._maps = TableMaps()
        self._mine: dict[int, bool] = {}
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

        Raises DecodeError, Truncated, ChecksumMismatch or Unsupported, after the changes that stand before; every
        message begins with ``file:offset``.
        """
        scanner, found = open_slice(
            file, start, context, payload, self._maps, transaction_start=transaction_start, committed_us=committed_us
        )
        chosen, refusal = self._choose(file, found, scanner.format)
        if len(chosen):
            events = _events(file, found, chosen, scanner.format.footer)
            yield from self._blocks(events, gtid)
        if refusal:
            raise refusal

    def _choose(self, file: str, found: Scan, head: FormatDescription) -> tuple[Numbers, Unsupported | None]:
        """Indices of this table's row events up to the first that cannot be read, and why it cannot be."""
        payloads = np.flatnonzero(found.mark & kernels.MARK_ANY_TABLE)
        rows = np.flatnonzero((found.mark & kernels.MARK_ROWS) != 0)
        tables = found.table[rows]
        mine = np.array([o for o in np.unique(tables).tolist() if self._is_mine(o, file, found, head)], np.int32)
        chosen = rows[np.isin(tables, mine)]
        count, refusal = _refused(file, found, chosen, self.definition, self._accepted)
        if len(payloads) and (refusal is None or payloads[0] < chosen[count]):
            count = int(np.searchsorted(chosen, payloads[0]))
            refusal = Unsupported(f"{_place(file, found, payloads[0])}: {_COMPRESSED}")
        return chosen[:count], refusal

    def _is_mine(self, ordinal: int, file: str, found: Scan, head: FormatDescription) -> bool:
        if ordinal not in self._mine:
            name = self.definition.name
            self._mine[ordinal] = self._maps.names[ordinal] == (name.schema, name.table)
            if self._mine[ordinal]:
                where = _place(file, found, np.flatnonzero(found.table == ordinal)[0])
                self._mine[ordinal] = self._accept(ordinal, where, head)
        return self._mine[ordinal]

    def _accept(self, ordinal: int, where: str, head: FormatDescription) -> bool:
        """Checks a TABLE_MAP of this table against the definition, and fills in what that leaves open.

        False where its rows are left to another decoder.
        """
        met = parse_table_map(self._maps.events[ordinal], head, where)
        if self._exact:
            return met == self.definition
        if not same_layout(met, self.definition):
            raise DecodeError(f"{where}: the log's table is not the one expected: {met} instead of {self.definition}")
        pairs = list(zip(self.definition.columns, met.columns, strict=True))
        for (known, said), name in zip(pairs, self.definition.column_names(), strict=True):
            for what, one, other in _differences(known, said):
                raise DecodeError(f"{where}: {self.definition.name}.{name}: {what} {other} in the log, {one} expected")
        if self._plan is None:
            columns = tuple(_completed(known, said) for known, said in pairs)
            self.definition = replace(self.definition, columns=columns)
        return True

    def _blocks(self, events: _Events, gtid: str | None) -> Iterator[Changes]:
        if self._plan is None:
            self._plan = self._compiled(events.place(0))
        state = np.zeros(kernels.R_CELLS, np.int64)
        most = min(self._rows, events.most_rows(len(self.definition.columns)))
        room = _TEXT_SLACK
        while state[kernels.R_EVENT] < len(events.addresses):
            block = _Block(self._plan, most, room)
            reason = block.run(events, state, partial=self._partial)
            room = _TEXT_SLACK
            if state[kernels.R_ROWS]:
                yield self._changes(block, state, events, gtid)
            if reason not in (kernels.DONE, kernels.BLOCK_FULL):
                raise self._error(reason, events, state)
            if reason == kernels.BLOCK_FULL and not state[kernels.R_ROWS]:
                room = events.length(int(state[kernels.R_EVENT])) + _TEXT_SLACK

    def _compiled(self, where: str) -> _Plan:
        try:
            return _Plan(self.definition, self._before)
        except Unsupported as error:
            raise Unsupported(f"{where}: {error}") from None

    def _changes(self, block: _Block, state: Numbers, events: _Events, gtid: str | None) -> Changes:
        rows = int(state[kernels.R_ROWS])
        source = block.source[:rows]
        presence: list[Presence] | list[None] = [None, None]
        if state[kernels.R_PARTIAL]:
            presence = _presence(events, source, len(self.definition.columns))
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
            _gtids(events.found, events.transactions[source], gtid) if self._gtids else None,
            after,
            before,
            raw,
            before_raw,
            *presence,
        )

    def _error(self, reason: int, events: _Events, state: Numbers) -> DecodeError:
        event, row, ordinal = (int(state[cell]) for cell in (kernels.R_EVENT, kernels.R_ORDINAL, kernels.R_COLUMN))
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
