"""Blocks of rows: the memory that the row kernel fills for one table, and the Arrow columns that come of it.

A table is compiled once (Plan): what the row kernel does with each column, for the row itself and for the before image
of updates. A block of it takes rows until it is full, or until its reader wants what there is; then each column has one
finishing step.

Put here: buffers, and how large they are. Not here: which rows go into a block (decoder.py), what a type does (types/).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.events.compression import PADDING
from spark_jobs.binlog.events.table_map import TableDefinition
from spark_jobs.binlog.kernels import row_blocks, row_cells
from spark_jobs.binlog.kernels.addresses import CHECKED, address_of, address_of_parts
from spark_jobs.binlog.kernels.memory import fresh
from spark_jobs.binlog.types.base import BadValue, ColumnReading, Exact, Filled, Numbers
from spark_jobs.errors import Unsupported

ROW = 0
BEFORE = 1
"""The kernel's two programs: the row (a delete's is its before image), and the before image of updates."""

TEXT_SLACK = 1 << 14
"""Bytes of text that there is room for beside what is expected."""
_MOST_TEXT = 64 << 20
"""Bytes of one column's text that room is made for in advance, besides that for one event."""
_LEAST = 1024
"""Rows of a table's first block, which tells how much text is in them, and of any at least."""
BLOCK_BYTES = 32 << 20
"""Approximate size that a block grows to, if it has more than a few rows."""

MOMENT = pa.timestamp("us", "UTC")
_OWN = ((pa.int64(), 8), (MOMENT, 8), (pa.int32(), 4), (pa.uint8(), 1))
"""Cells of every change besides its columns, in a block's memory: offset, commit time, ordinal, operation; each with
its bytes."""
_OWN_CELLS = (row_cells.B_OFFSETS, row_cells.B_COMMITTED, row_cells.B_ORDINALS, row_cells.B_OPS)
_ADDRESSES = slice(min(_OWN_CELLS), max(_OWN_CELLS) + 1)
RAW = pa.map_(pa.string(), pa.string())


@dataclass(slots=True)
class _RowStatistics:
    """Statistics that this process has of a layout's rows."""

    expected: Numbers
    """Bytes of text to make room for, a row: what the last block had, by program and column."""
    rows: int = 0
    """Decoded so far."""
    worth: int = _LEAST
    """Rows of a block."""
    window: int = 0
    """Rows since the reader last wanted all that there was."""
    layout: "_BlockLayout | None" = None
    """Layout of the last block."""


@dataclass(frozen=True, slots=True)
class _BlockLayout:
    """Addresses of the parts of a block in its memory.

    offsets, sizes: bytes [program, 0: slots 1: text, column]; own_offsets: offsets of what rows have beside columns,
    and the end.
    """

    rows: int
    room: int
    sizes: Numbers
    offsets: Numbers
    own_offsets: list[int]

    @classmethod
    def of(cls, rows: int, room: int, sizes: Numbers) -> "_BlockLayout":
        rounded = (sizes + PADDING - 1) & -PADDING
        offsets = np.cumsum(rounded).reshape(sizes.shape) - rounded
        own_offsets = int(rounded.sum()) + np.cumsum([0, *(width * rows for _, width in _OWN)])
        return cls(rows, room, sizes, offsets, own_offsets.tolist())

    def addresses(self, memory: pa.Buffer) -> int:
        """The address that kernels get: of the memory, or where memory is checked, of an array of its parts."""
        if not CHECKED:
            return address_of(memory)
        own_offsets = np.array(self.own_offsets)
        starts, lengths = np.append(self.offsets, own_offsets[:-1]), np.append(self.sizes, np.diff(own_offsets))
        return address_of_parts(memory, starts, lengths)


_statistics: dict[bytes, _RowStatistics] = {}
"""Statistics of rows by the steps of a layout."""


class DecodePlan:
    """A definition compiled: the kernel's steps, the sizes of buffers, and how each column is finished.

    Decoders of one definition share it (``plan_of``), those of other threads too.
    """

    def __init__(self, definition: TableDefinition, before: Literal["key", "all"]) -> None:
        self.names = definition.column_names()
        self.readings = [_reading(definition, ordinal) for ordinal in range(len(definition.columns))]
        count = len(self.readings)
        self.ordinals = (list(range(count)), list(range(count)) if before == "all" else sorted(definition.key or ()))
        self.schemas = tuple(
            pa.schema([(self.names[ordinal], self.readings[ordinal].arrow) for ordinal in ordinals])
            for ordinals in self.ordinals
        )
        self.words = (count + 63) // 64
        self.steps = np.zeros((2, count, row_cells.STEP_CELLS), np.int64)
        self.widths, self.is_text, self.bounded = (np.zeros((2, count), np.int64) for _ in range(3))
        for program, ordinal in product((ROW, BEFORE), range(count)):
            self._compile(program, ordinal, self.readings[ordinal])
        self.statistics = _statistics.setdefault(self.steps.tobytes(), _RowStatistics(np.full((2, count), 32.0)))
        self._variable = np.flatnonzero((self.is_text == 1) & (self.bounded == 0))
        self._kept_before = count + np.array(self.ordinals[BEFORE], np.int64)
        self.cells = self._kernel_cells()
        self._described: tuple[_BlockLayout, Numbers, Numbers] | None = None

    def _compile(self, program: int, ordinal: int, reading: ColumnReading) -> None:
        is_read = ordinal in self.ordinals[program]
        step = self.steps[program, ordinal]
        step[row_cells.STEP_KIND] = reading.kind if is_read else reading.skip
        step[row_cells.STEP_WIDTH] = reading.width
        step[row_cells.STEP_PARAMETERS :][: len(reading.parameters)] = reading.parameters
        if is_read:
            self.widths[program, ordinal] = reading.width
            self.is_text[program, ordinal] = reading.is_text
            self.bounded[program, ordinal] = reading.bounded

    def _kernel_cells(self) -> Numbers:
        """Cells that describe every block of the table to the kernel."""
        cells = np.zeros(row_cells.B_CELLS, np.int64)
        cells[row_cells.B_COLUMNS], cells[row_cells.B_WORDS] = len(self.readings), self.words
        cells[row_cells.B_VARIABLE], cells[row_cells.B_VARIABLES] = address_of(self._variable), len(self._variable)
        cells[row_cells.B_KEPT], cells[row_cells.B_KEPTS] = address_of(self._kept_before), len(self._kept_before)
        return cells

    def rows(self, limit: int) -> int:
        """Rows that the next block is worth: about what comes of this table between two ends, as far as is known."""
        size = float((self.widths + self.statistics.expected * self.is_text).sum())
        return min(limit, max(_LEAST, min(int(BLOCK_BYTES / size), self.statistics.worth)))

    def filled(self, rows: int) -> None:
        """Note a block that was taken."""
        statistics = self.statistics
        statistics.rows += rows
        statistics.window += rows
        statistics.worth = max(statistics.worth, 2 * statistics.window)

    def ended(self) -> None:
        """Notes that the reader wanted all that there was."""
        if self.statistics.window:
            self.statistics.worth = max(
                self.statistics.window + self.statistics.window // 4, self.statistics.worth * 3 // 4
            )
            self.statistics.window = 0

    def layout(self, rows: int, room: int) -> "_BlockLayout":
        """The layout of a block of so many rows; ``room``, at most twice as much, is added to text without a bound."""
        last = self.statistics.layout
        if last and last.rows == rows and room <= last.room <= 2 * room:
            return last
        slots = self.widths * (rows + self.is_text)
        expected = np.minimum(self.statistics.expected * rows * 1.25, _MOST_TEXT).astype(np.int64) + room
        texts = np.where(self.bounded > 0, self.bounded * rows + PADDING, expected) * self.is_text
        layout = _BlockLayout.of(rows, room, np.stack([slots, texts], axis=1))
        self.statistics.layout = layout  # for whoever asks next, in whatever thread
        return layout

    def described(self, layout: "_BlockLayout") -> tuple[Numbers, Numbers]:
        """Steps and cells of a block, with offsets in its memory where addresses are to be."""
        last = self._described  # of whoever asked last, in whatever thread
        if last is None or last[0] is not layout:
            steps, cells = self.steps.copy(), self.cells.copy()
            steps[:, :, row_cells.STEP_SLOT], steps[:, :, row_cells.STEP_TEXT] = (
                layout.offsets[:, 0],
                layout.offsets[:, 1],
            )
            steps[:, :, row_cells.STEP_CAPACITY] = layout.sizes[:, 1]
            cells[row_cells.B_CAPACITY] = layout.rows
            cells[[*_OWN_CELLS]] = layout.own_offsets[:-1]
            self._described = last = layout, steps, cells
        return last[1:]

    def learn(self, sizes: Numbers, rows: int) -> None:
        """Notes bytes of text [program, column] that so many rows had."""
        sizes_per_row = [max(size / rows, 8.0) for size in sizes.ravel().tolist()]  # of a few numbers faster than numpy
        expected = self.statistics.expected[: len(sizes)].ravel().tolist()
        if not all(before / 2 <= size <= before for size, before in zip(sizes_per_row, expected, strict=True)):
            self.statistics.expected[: len(sizes)] = np.reshape(sizes_per_row, sizes.shape) * 1.125
            self.statistics.layout = None

    def absent(self, rows: int) -> pa.RecordBatch:
        """The before images of rows that have none."""
        arrays = [_nulls(self.readings[ordinal].arrow, rows) for ordinal in self.ordinals[BEFORE]]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schemas[BEFORE])


@lru_cache(maxsize=1024)
def plan_of(definition: TableDefinition, before: Literal["key", "all"]) -> DecodePlan:
    """The same for the same: each file of a server has its table maps again. Raises Unsupported."""
    return DecodePlan(definition, before)


class Scratch:
    """Memory that a block needs only while it is filled: a decoder's blocks, one after the other, write it over."""

    def __init__(self) -> None:
        self._nulls: Numbers = np.empty(0, np.uint64)
        self._source: Numbers = np.empty(0, np.int32)
        self._addresses = 0, 0

    def of(self, rows: int, words: int, sources: int) -> tuple[Numbers, Numbers, int, int]:
        """Null bits [program, row, word], memory for the event of so many rows, and the addresses of both."""
        count = 2 * rows * words
        if len(self._nulls) < count or len(self._source) < sources:
            self._nulls, self._source = fresh(8 * count).view(np.uint64), fresh(4 * sources).view(np.int32)
            self._addresses = address_of(self._nulls), address_of(self._source)
        return self._nulls[:count].reshape(2, rows, words), self._source[:sources], *self._addresses


def _nulls(kind: pa.DataType, rows: int) -> pa.Array:
    """Array of so many nulls, over zeros that all of them share."""
    if pa.types.is_nested(kind):
        return pa.nulls(rows, kind)
    buffers = 3 if pa.types.is_string(kind) or pa.types.is_binary(kind) else 2
    return pa.Array.from_buffers(kind, rows, [_zeros(16 * (rows + 1))] * buffers, rows)


@lru_cache(maxsize=4)
def _zeros_of(power: int) -> pa.Buffer:
    return pa.py_buffer(bytes(1 << power))


def _zeros(size: int) -> pa.Buffer:
    """Buffer of at least so many zero bytes."""
    return _zeros_of(max(20, (size - 1).bit_length()))


def _reading(definition: TableDefinition, ordinal: int) -> ColumnReading:
    try:
        return definition.columns[ordinal].reading()
    except Unsupported as error:
        raise Unsupported(f"{definition.name}.{definition.column_names()[ordinal]}: {error}") from None


class Block:
    """The buffers of one block of at most ``rows`` changes: parts of one allocation."""

    def __init__(  # noqa: PLR0913 - what it is of, how large, and what of it is the decoder's
        self,
        plan: DecodePlan,
        file: str,
        rows: int,
        room: int,
        cells: Numbers,
        *,
        scratch: Scratch,
        partial: bool,
        lasting: bool,
    ) -> None:
        """room: bytes of text for one event, on top of what a block is expected to have.

        cells: where the kernel finds it described; partial: whether it takes images without all columns; lasting:
        whether nobody asks for the event of a row.
        """
        self.plan = plan
        self.file = file
        self.cells = cells
        layout = self._layout = plan.layout(rows, room)
        self.memory = pa.py_buffer(fresh(layout.own_offsets[-1] + PADDING))
        address = layout.addresses(self.memory)
        steps, described = plan.described(layout)
        self.steps = steps.copy()
        self.steps[:, :, [row_cells.STEP_SLOT, row_cells.STEP_TEXT]] += address
        self.marked = np.zeros((2, len(plan.readings)), np.uint8)
        self.nulls, self.source, nulls_at, source_at = scratch.of(rows, plan.words, 0 if lasting else rows)
        cells[:] = described
        cells[_ADDRESSES] += address
        cells[row_cells.B_STEPS] = address_of(self.steps)
        cells[row_cells.B_NULLS] = nulls_at
        cells[row_cells.B_MARKED] = address_of(self.marked)
        cells[row_cells.B_SOURCES] = 0 if lasting else source_at
        cells[row_cells.B_TAKES_PARTIAL] = partial

    @property
    def rows(self) -> int:
        """Number of filled rows."""
        return int(self.cells[row_cells.B_ROWS])

    def cut(self, rows: int) -> None:
        """Leave out the rows from this one on."""
        self.cells[row_cells.B_ROWS] = rows

    @property
    def is_partial(self) -> bool:
        """True if rows of it came without all columns."""
        return bool(self.cells[row_cells.B_PARTIAL])

    def location(self, row: int) -> str:
        """Location of a row in messages: its event's location, and its number in there."""
        offset, _, ordinal, _ = self.own_arrays()
        return f"{self.file}:{offset[row]}: row {ordinal[row]}"

    def own_arrays(self) -> list[pa.Array]:
        """Offset, commit time, ordinal and operation of the rows."""
        rows, own_offsets = self.rows, self._layout.own_offsets
        return [
            pa.Array.from_buffers(kind, rows, [None, self.memory.slice(offset, rows * width)], 0)
            for (kind, width), offset in zip(_OWN, own_offsets, strict=False)
        ]

    def close(self) -> None:
        """End the columns' texts, and remember how much there was; once all rows are there, or after ``cut``."""
        row_blocks.end_texts(address_of(self.cells))
        sizes = self.steps[: 1 + self.has_before, :, row_cells.STEP_USED]
        self.plan.learn(sizes, self.rows)

    @property
    def has_before(self) -> bool:
        """True if a row has a before image that is kept."""
        return bool(self.cells[row_cells.B_HAS_BEFORE])

    def validities(self, program: int, rows: int) -> dict[int, tuple[pa.Buffer, int]]:
        """Bitmap and number of nulls of each column that has a null, whatever the definition says."""
        nulls = np.bitwise_or.reduce(self.nulls[program, :rows], axis=0).tobytes()
        bits = int.from_bytes(nulls, "little")
        ordinals = [ordinal for ordinal in self.plan.ordinals[program] if bits >> ordinal & 1]
        if not ordinals:
            return {}
        size = (rows + 511) // 512 * 64
        bitmaps, counts = pa.allocate_buffer(size * len(ordinals)), np.empty(len(ordinals), np.int64)
        row_blocks.validities(self.nulls[program], rows, np.array(ordinals), address_of(bitmaps), size, counts)
        return {
            ordinal: (bitmaps.slice(size * k, size), nulls)
            for k, (ordinal, nulls) in enumerate(zip(ordinals, counts.tolist(), strict=True))
        }

    def filled(self, program: int, rows: int) -> Iterator[tuple[int, Filled]]:
        """(ordinal, column) of the block's rows, for every column kept."""
        validities, no_validity = self.validities(program, rows), (None, 0)
        slots, texts = self._layout.offsets[program].tolist()
        sizes = self.steps[program, :, row_cells.STEP_USED].tolist()
        marked = self.marked[program].tolist()
        readings, memory = self.plan.readings, self.memory
        for ordinal in self.plan.ordinals[program]:
            reading = readings[ordinal]
            is_text = reading.is_text
            text = memory.slice(texts[ordinal], sizes[ordinal]) if is_text else None
            values = memory.slice(slots[ordinal], reading.width * (rows + is_text))
            yield ordinal, Filled(rows, values, text, *validities.get(ordinal, no_validity), bool(marked[ordinal]))

    def columns(self, program: int) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The finished columns of one program, and the exact text of what they cannot hold. Raises BadValue."""
        rows = self.rows
        if program == BEFORE and not self.has_before:
            return self.plan.absent(rows), None
        arrays, exact = [], {}
        for ordinal, filled in self.filled(program, rows):
            try:
                array, raw = self.plan.readings[ordinal].finish(filled)
            except BadValue as error:
                raise BadValue(error.row, f"{self.plan.names[ordinal]}: {error.text}") from None
            arrays.append(array)
            if raw is not None:
                exact[self.plan.names[ordinal]] = raw
        return pa.RecordBatch.from_arrays(arrays, schema=self.plan.schemas[program]), _raw(exact, rows)


def _raw(exact: dict[str, Exact], rows: int) -> pa.Array | None:
    """One map a row from the exact texts of the columns, null where a row has none."""
    if not exact:
        return None
    # Texts of all columns in the order of their rows; a row's entries follow each other.
    byte_offsets = np.concatenate([raw.rows for raw in exact.values()])
    names = np.repeat(np.arange(len(exact)), [len(raw.rows) for raw in exact.values()])
    order = np.argsort(byte_offsets, kind="stable")
    texts = pa.concat_arrays([raw.texts for raw in exact.values()]).take(pa.array(order))
    keys = pa.array(exact, pa.string()).take(pa.array(names[order]))
    # The offsets of a map array: how many entries each row has.
    counts = np.bincount(byte_offsets, minlength=rows)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    validity = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    entries = pa.StructArray.from_arrays(
        [keys, texts], fields=[pa.field("key", pa.string(), nullable=False), RAW.item_field]
    )
    return pa.Array.from_buffers(
        RAW, rows, [validity, pa.py_buffer(offsets)], int((counts == 0).sum()), children=[entries]
    )
