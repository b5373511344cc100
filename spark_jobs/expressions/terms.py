"""Parts of an expression: what each is, and its values for rows.

Put here: sorts, terms, cells with faults. Not here: numbers (exact_numbers.py), comparisons (comparisons.py), or which
parts there are (compiler.py).

A value that the lake does not hold (a zero date, a column that a row image leaves out) is a **fault**: a number, by
row, that says why. What does not depend on it has a value all the same: ``FALSE AND fault`` is FALSE.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Faults: TypeAlias = NDArray[np.int32]
"""Numbers by row that say why there is no value, 0 where there is one."""
Values: TypeAlias = pa.Array | pa.Scalar
"""Values of all rows; a scalar where they are the same in all of them."""


class Sort(Enum):
    """Sort of values, which are compared with values of the same one."""

    TRUTH = "a condition"
    NUMBER = "a whole number or a DECIMAL"
    REAL = "a FLOAT or a DOUBLE"
    TEXT = "text"
    POINTS = "text compared by its characters"
    BYTES = "bytes"
    LABEL = "an ENUM"
    DATE = "a DATE"
    DATETIME = "a DATETIME"
    MOMENT = "a TIMESTAMP"
    OTHER = "of a type that is asked for NULL alone"
    LITERAL = "a text literal"
    NULL = "NULL"
    UNKNOWN = "not known yet"


TIMES = (Sort.DATE, Sort.DATETIME, Sort.MOMENT)
ARROW = {
    Sort.TRUTH: pa.bool_(),
    Sort.REAL: pa.float64(),
    Sort.TEXT: pa.string(),
    Sort.POINTS: pa.string(),
    Sort.LABEL: pa.string(),
    Sort.LITERAL: pa.string(),
    Sort.BYTES: pa.binary(),
    Sort.DATE: pa.date32(),
    Sort.DATETIME: pa.timestamp("us"),
    Sort.MOMENT: pa.timestamp("us", "UTC"),
}
"""Arrow's types of the sorts; of numbers it is ``Term.arrow``."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of rows, null for NULL and for faults. faults: None where no row has one."""

    values: Values
    faults: Faults | None = None

    def mapped(self, change: Callable[[Values], Values]) -> "Cells":
        """The values changed one by one; faults stay."""
        return replace(self, values=change(self.values))

    def over(self, rows: int) -> pa.Array:
        """The values as an array, one a row."""
        return self.values if isinstance(self.values, pa.Array) else pa.repeat(self.values, rows)


Row: TypeAlias = Mapping[str, Cells]
"""The columns that an expression names, in small letters, of a batch of rows."""
Evaluate: TypeAlias = Callable[[Row], Cells]


def never(_: Row) -> Cells:
    """The values of a term whose column is not known yet: nobody may ask for them."""
    raise AssertionError


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an expression: what it is, and what gives its values.

    digits, scale: of a number, as in DECIMAL(digits, scale). labels: of an ENUM. text: of a literal. is_year: whether
    it is a column of type YEAR. is_constant: whether it names no column.
    """

    sort: Sort
    evaluate: Evaluate = never
    digits: int = 0
    scale: int = 0
    labels: tuple[str, ...] = ()
    text: str = ""
    is_year: bool = False
    is_constant: bool = False

    @property
    def integer_digits(self) -> int:
        """Digits before the point."""
        return self.digits - self.scale

    @property
    def arrow(self) -> pa.DataType:
        """The type of its values; of NULL and of what is asked for NULL alone there is none."""
        return pa.decimal128(self.digits, self.scale) if self.sort is Sort.NUMBER else ARROW[self.sort]


Resolve: TypeAlias = Callable[[str], Term]
"""Function that gives a column as a term, by its name in small letters. Raises ConfigError where there is none."""


def constant(value: object, kind: pa.DataType) -> Evaluate:
    """Function that gives one value for all rows."""
    cells = Cells(pa.scalar(value, kind))
    return lambda _: cells


def column_of(name: str) -> Evaluate:
    """Function that gives a column's values. name: in small letters."""
    return lambda row: row[name]


def mapped(term: Evaluate, change: Callable[[Values], Values]) -> Evaluate:
    """Function that gives a term's values changed one by one."""
    return lambda row: term(row).mapped(change)


def combined(terms: tuple[Evaluate, ...], combine: Callable[..., Values]) -> Evaluate:
    """Function that gives one value of several terms', with the faults of all of them."""

    def evaluate(row: Row) -> Cells:
        cells = [term(row) for term in terms]
        return Cells(combine(*(cell.values for cell in cells)), united([cell.faults for cell in cells]))

    return evaluate


def united(all_faults: list[Faults | None]) -> Faults | None:
    """The first fault of each row."""
    union: Faults | None = None
    for faults in all_faults:
        if faults is not None:
            union = faults if union is None else np.where(union != 0, union, faults)
    return union


def conjunction(left: Evaluate, right: Evaluate, *, is_and: bool) -> Evaluate:
    """AND or OR of three truths. One side that decides does so whatever the fault of the other."""
    operation = pc.and_kleene if is_and else pc.or_kleene

    def evaluate(row: Row) -> Cells:
        cells = [left(row), right(row)]
        union = united([cell.faults for cell in cells])
        if union is None:
            return Cells(operation(*(cell.values for cell in cells)))
        # A fault's own value is null, which decides nothing.
        decisions = [true_mask(cell, len(union), value=not is_and) for cell in cells]
        is_decided = decisions[0] | decisions[1]
        return Cells(operation(*(cell.values for cell in cells)), np.where(is_decided, 0, union).astype(np.int32))

    return evaluate


def true_mask(cells: Cells, rows: int, *, value: bool = True) -> NDArray[np.bool_]:
    """Mask of the rows of truths that are TRUE, or FALSE where that is sought: neither NULL nor a fault."""
    is_sought = pc.fill_null(pc.equal(cells.over(rows), pa.scalar(value)), False)
    mask: NDArray[np.bool_] = is_sought.to_numpy(zero_copy_only=False)
    return mask if cells.faults is None else mask & (cells.faults == 0)


def choice(condition: Evaluate, then: Evaluate, rest: Evaluate) -> Evaluate:
    """One value where a condition is TRUE, else another one of the same type; faults of what is not chosen go."""

    def evaluate(row: Row) -> Cells:
        cells = [term(row) for term in (condition, then, rest)]
        is_true = pc.fill_null(cells[0].values, False)
        values = pc.if_else(is_true, cells[1].values, cells[2].values)
        union = united([cell.faults for cell in cells])
        if union is None:
            return Cells(values)
        # Faults of the condition count, and those of what it chooses.
        mask = true_mask(cells[0], len(union))
        unharmed = np.zeros(len(union), np.int32)
        conditions, branch, default = (unharmed if cell.faults is None else cell.faults for cell in cells)
        faults = np.where(conditions != 0, conditions, np.where(mask, branch, default))
        return Cells(values, faults.astype(np.int32))

    return evaluate
