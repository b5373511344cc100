"""Base of column types: the classes and functions that every type family uses.

A type is compiled once a table into a Reading: what the row kernel does with the column's bytes (a kind and its
parameters), and what is done with the filled slots once a block (``finish``). A new type is a class with the methods of
ColumnType in the file of its family, and its offset in TYPES (types/__init__.py).

Put here: the shapes that families share. Not here: any one type.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.kernels import row_cells, value_text
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.errors import Unsupported

Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]

WITH_LENGTH = {
    1: (row_cells.TEXT_1, row_cells.SKIP_1),
    2: (row_cells.TEXT_2, row_cells.SKIP_2),
    3: (row_cells.TEXT_3, row_cells.SKIP_3),
    4: (row_cells.TEXT_4, row_cells.SKIP_4),
}
"""Actions of the row kernel on bytes after their length, and to pass over them, by the bytes of the length."""
MOST_TEXT = 2**31 - 8
"""Bytes of one column's text in one block: Arrow's offsets have 32 bits."""


class BadValue(Exception):
    """A row holds what its type has no value for; the caller knows table, file and offset."""

    def __init__(self, row: int, text: str) -> None:
        self.row = row
        self.text = text
        super().__init__(row, text)


class TypedColumn(Protocol):
    """Facts that a type needs about a column; table.Column is one."""

    @property
    def type_code(self) -> int: ...
    @property
    def meta(self) -> int: ...
    @property
    def unsigned(self) -> bool | None: ...
    @property
    def charset(self) -> int | None: ...
    @property
    def labels(self) -> tuple[str, ...] | None: ...
    @property
    def declared(self) -> str | None: ...


@dataclass(slots=True)
class Filled:
    """Output of the kernel for one column of one block.

    slots: ``rows`` values of the kind's width, or ``rows + 1`` int32 offsets into ``text``.
    validity: Arrow's bitmap, None where ``nulls`` is 0. marked: some slots hold marks (row_cells.DATE_MARK, TIME_MARK).
    """

    rows: int
    slots: pa.Buffer
    text: pa.Buffer | None
    validity: pa.Buffer | None
    nulls: int
    marked: bool

    @property
    def text_address(self) -> int:
        """Address of the text; 0 where there is none."""
        return address_of(self.text) if self.text else 0

    def numbers(self, kind: str) -> Numbers:
        """The slots as numbers of a numpy type, always read-only, which to a kernel is a part of their type."""
        numbers = np.frombuffer(self.slots, kind)
        numbers.setflags(write=False)
        return numbers

    def array(self, arrow: pa.DataType) -> pa.Array:
        """The slots as they are, as an Arrow array."""
        buffers = [self.validity, self.slots] if self.text is None else [self.validity, self.slots, self.text]
        return pa.Array.from_buffers(arrow, self.rows, buffers, self.nulls)

    def is_null(self) -> Numbers:
        """One byte a row, 1 for a null."""
        if self.validity is None:
            return np.zeros(self.rows, np.uint8)
        bits = np.unpackbits(np.frombuffer(self.validity, np.uint8), bitorder="little")[: self.rows]
        return (1 - bits).astype(np.uint8)

    def texts(self, offsets: Numbers, text: Numbers | pa.Buffer) -> pa.Array:
        """A string array with this column's nulls."""
        buffers = [self.validity, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(pa.string(), self.rows, buffers, self.nulls)


@dataclass(frozen=True, slots=True)
class Exact:
    """Values that the typed column cannot hold: their rows, ascending, and their exact text or hex."""

    rows: Numbers
    texts: pa.Array


def exact_hex(filled: Filled, bad: Numbers) -> Exact:
    """The hex of the bytes of those rows of a text column that ``bad`` marks."""
    rows = np.flatnonzero(bad)
    offsets = filled.numbers("i4")
    size = int((offsets[rows + 1].astype(np.int64) - offsets[rows]).sum())
    require_fits(2 * size)
    hex_offsets = np.empty(len(rows) + 1, np.int32)
    out = np.empty(2 * size, np.uint8)
    value_text.hex_text(offsets, filled.text_address, rows, hex_offsets, out)
    buffers = [None, pa.py_buffer(hex_offsets), pa.py_buffer(out)]
    return Exact(rows, pa.Array.from_buffers(pa.string(), len(rows), buffers))


def validity_of(nulls: Numbers) -> tuple[pa.Buffer, int]:
    """Arrow's bitmap from one byte a row, and the number of nulls."""
    return pa.py_buffer(np.packbits(nulls == 0, bitorder="little")), int(np.count_nonzero(nulls))


Finished: TypeAlias = tuple[pa.Array, Exact | None]
Finish: TypeAlias = Callable[[Filled], Finished]


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """Reading of one column.

    kind, skip: what the row kernel does to read it, or to pass over it; parameters: see kernels. width: bytes of a slot
    (4 for the offsets of text). bounded: the most text bytes a row gives, or 0 where only the event's length bounds it.
    """

    kind: int
    parameters: tuple[int, ...]
    width: int
    arrow: pa.DataType
    finish: Finish
    skip: int = row_cells.SKIP
    bounded: int = 0

    @property
    def is_text(self) -> bool:
        return self.kind >= row_cells.TEXT_1


def require_fits(size: int) -> None:
    """Check that a column's text of ``size`` bytes fits into one block. Raises Unsupported."""
    if size > MOST_TEXT:
        raise Unsupported(f"one block of a column holds {size} bytes of text; 2 GiB is the most")


def as_is(arrow: pa.DataType) -> Finish:
    """Function that finishes slots that are Arrow values already."""

    def finish(filled: Filled) -> Finished:
        return filled.array(arrow), None

    return finish


def fixed(kind: int, size: int, arrow: pa.DataType, *parameters: int, finish: Finish | None = None) -> ColumnReading:
    """A value of ``size`` bytes on the wire whose slot has the width of ``arrow``."""
    return ColumnReading(kind, (size, *parameters), arrow.bit_width // 8, arrow, finish or as_is(arrow))


class ColumnType(ABC):
    """One wire type. ``meta_size``: bytes that TABLE_MAP holds about each column of it."""

    meta_size: int = 0
    is_numeric: ClassVar[bool] = False
    """True if TABLE_MAP's signedness bits may count it."""
    is_character: ClassVar[bool] = False
    """True if TABLE_MAP's character sets count it."""
    has_labels: ClassVar[bool] = False

    def meta(self, wire: bytes) -> int:
        """The metadata bytes of TABLE_MAP as one number."""
        return int.from_bytes(wire, "little")

    def allows(self, meta: int) -> bool:  # noqa: ARG002 - every type is asked alike
        """True if a server writes such metadata; with others its values have no layout."""
        return True

    @abstractmethod
    def sql(self, column: TypedColumn) -> str:
        """The type as SHOW CREATE TABLE would print it."""

    @abstractmethod
    def reading(self, column: TypedColumn) -> ColumnReading:
        """The kernel code and sizes by which a column's values are read.

        Raises Unsupported if this version has none.
        """

    def digits(self, column: TypedColumn) -> int:  # noqa: ARG002 - every type is asked alike
        """Digits of a second's fraction. Raises as ``reading``."""
        return 0

    def arrow(self, column: TypedColumn) -> pa.DataType:
        """The type of the column in Arrow, and so in the lake."""
        return self.reading(column).arrow


class Counted(ColumnType):
    """A type whose values come behind their length, metadata: bytes of the length, 1 to 4."""

    meta_size: int = 1

    def allows(self, meta: int) -> bool:
        return meta in WITH_LENGTH


class Refused(ColumnType):
    """A type known by name only."""

    def __init__(self, name: str, meta_size: int = 0) -> None:
        self.name = name
        self.meta_size = meta_size

    def sql(self, column: TypedColumn) -> str:  # noqa: ARG002 - every type is asked alike
        return self.name

    def reading(self, column: TypedColumn) -> ColumnReading:  # noqa: ARG002 - every type is asked alike
        raise Unsupported(f"type {self.name} is not read in this version; leave the table out")
