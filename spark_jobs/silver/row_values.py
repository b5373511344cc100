"""Columns of a table as parts of expressions: the type of each, and its values in decoded rows.

Put here: columns as terms and cells, and why a cell has no value. Not here: expressions (expressions/), rules over
changes (row_filters.py), or rules over columns (column_masks.py).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.errors import ConfigError, TableStopped
from spark_jobs.expressions.computed import Computed
from spark_jobs.expressions.condition import Condition
from spark_jobs.expressions.exact_numbers import number, with_whole
from spark_jobs.expressions.terms import ARROW, Cells, Faults, Resolve, Sort, Term, column_of, mapped
from spark_jobs.silver import table as silver

_YEAR, _ENUM = 13, 247
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_SORTS = {
    "FLOAT": Sort.REAL,
    "DOUBLE": Sort.REAL,
    "DATE": Sort.DATE,
    "TIMESTAMP_NTZ": Sort.DATETIME,
    "TIMESTAMP": Sort.MOMENT,
    "BINARY": Sort.BYTES,
}
NO_VALUE = "its type in the lake cannot hold the value of this row, so the filter cannot be evaluated"
LEFT_OUT = (
    "the row image leaves column {} out, a rule asks for it, and neither a change of the row since the last ALTER "
    "TABLE, mend or quarantined event nor its loaded row has it; SET GLOBAL binlog_row_image = 'FULL' and quarantine "
    "the change (stratalog skip), whose row stays as it was until its next change, or take the column out of the rule"
)


def term_of(column: Column) -> Term:
    """A column as a part of expressions."""
    kind, values = silver.spark_type(str(column.arrow)), column_of(str(column.name).casefold())
    if kind in _DIGITS:
        return replace(with_whole(values, _DIGITS[kind]), is_year=column.type_code == _YEAR)
    if kind.startswith("DECIMAL"):
        return number(values, *map(int, kind.removeprefix("DECIMAL(").removesuffix(")").split(",")))
    if kind != "STRING":
        sort = _SORTS.get(kind, Sort.OTHER)
        return Term(sort, values if sort is Sort.OTHER else mapped(values, lambda cells: cells.cast(ARROW[sort])))
    texts = mapped(values, lambda cells: cells.cast(pa.string()))
    if column.type_code == _ENUM:
        return Term(Sort.LABEL if column.labels else Sort.OTHER, texts, labels=column.labels or ())
    return Term(Sort.TEXT if column.type.is_character and column.declared is None else Sort.OTHER, texts)


def sources_of(names: Collection[str], computed: Sequence[Computed], columns: Collection[str]) -> frozenset[str]:
    """The names with, in the place of a computed column's, those that its expression has. columns: the table's."""
    by_name = {column.name.casefold(): column.columns for column in computed}
    parts = (by_name.get(name, frozenset((name,))) if name not in columns else frozenset((name,)) for name in names)
    return frozenset().union(*parts)


def resolving(definition: TableDefinition, computed: Sequence[Computed] = ()) -> Resolve:
    """Lookup of the table's columns, and of computed ones as the expressions that they are."""
    columns = {str(column.name).casefold(): column for column in definition.columns}
    by_name = {column.name.casefold(): column for column in computed}

    def column_term(name: str) -> Term:
        return term_of(columns[name])

    return lambda name: column_term(name) if name in columns else by_name[name].term(column_term)


def problem_of(condition: Condition, definition: TableDefinition, computed: Sequence[Computed] = ()) -> str | None:
    """Reason why a condition cannot be asked about rows of a table.

    None where it can. computed: the columns beside them.
    """
    columns = {str(column.name).casefold() for column in definition.columns}
    unknown = sorted(sources_of(condition.columns, computed, columns) - columns)
    if unknown:
        return f"names column {unknown[0]}, which the table does not have: {definition}"
    try:
        condition.compiled(resolving(definition, computed))
    except ConfigError as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class Image:
    """Rows of a table as they were decoded, and what their columns do not hold.

    raw: exact texts (``_raw``); absent: names of columns that row images leave out; None: none.
    """

    rows: pa.RecordBatch | pa.Table
    raw: pa.Array | None
    absent: pa.Array | None = None

    def cells(self, definition: TableDefinition, names: Collection[str]) -> dict[str, Cells]:
        """The columns of some names, in small letters.

        A fault is the column's position in the definition, from 1 on; below zero where the image leaves the column out.
        """
        cells = {}
        for at, column in enumerate(definition.columns, 1):
            name = str(column.name)
            if name.casefold() in names:
                values = self.rows.column(name)
                values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
                cells[name.casefold()] = Cells(values, self._faults(name, at))
        return cells

    def _faults(self, name: str, at: int) -> Faults | None:
        exact, absent = _rows_with(self.raw, name), _rows_with(self.absent, name)
        if exact is None and absent is None:
            return None
        faults = np.zeros(len(self.rows), np.int32)
        for rows, file_number in ((exact, at), (absent, -at)):
            if rows is not None:
                faults[rows] = file_number
        return faults


def fault_text(definition: TableDefinition, fault: int, no_value: str = NO_VALUE) -> str:
    """Reason why a cell has no value. no_value: where the column's type does not hold it."""
    name = str(definition.columns[abs(fault) - 1].name)
    return f"column {name}: {no_value}" if fault > 0 else LEFT_OUT.format(name)


class ColumnLeftOut(TableStopped):
    """A rule asks for a column that a row image leaves out."""


def fault_error(definition: TableDefinition, fault: int, begin: str, no_value: str = NO_VALUE) -> TableStopped:
    """The error that stops a table for a cell whose value is needed and does not exist.

    begin: of the message. no_value: as for ``fault_text``.
    """
    return (ColumnLeftOut if fault < 0 else TableStopped)(f"{begin}: {fault_text(definition, fault, no_value)}")


def _rows_with(lists: pa.Array | None, name: str) -> NDArray[np.int64] | None:
    """Rows of a map that have a key, or of lists that have an item; None where no row has."""
    if lists is None or lists.null_count == len(lists):
        return None
    if pa.types.is_map(lists.type):
        lists = pa.ListArray.from_arrays(lists.offsets, lists.keys)
    parents = pc.list_parent_indices(lists).filter(pc.equal(pc.list_flatten(lists), name))
    return parents.to_numpy() if len(parents) else None
