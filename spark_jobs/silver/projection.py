"""Projection of rows of an older definition of a table to its present columns.

Put here: which older column each present one was, and what rows have in the others. Not here: what changed them
(timeline/), rows that are projected (engine/rows/row_projection.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.silver import table as silver
from spark_jobs.silver.table_timeline import SchemaChange, TableState


@dataclass(frozen=True, slots=True)
class ProjectedColumn:
    """A present column: its Spark type, and the older column that it was, or what rows have in it that is new."""

    type: str
    origin: str | None = None
    fill: str | None = None
    """SQL of a constant; None for NULL."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Effects of statements on the columns that rows have.

    types: of the older columns. columns: the present ones by name. names: by an older name the present one, None where
    the column went. texts: exact texts that all rows have in new columns.
    """

    types: Mapping[str, str]
    columns: Mapping[str, ProjectedColumn]
    names: Mapping[str, str | None]
    texts: Mapping[str, str]


def projection_of(
    types: Mapping[str, str],
    changes: Sequence[SchemaChange],
    columns_of: Callable[[TableState], silver.Columns] = lambda state: state.columns,
) -> Projection:
    """Composes statements one after the other. types: names and Spark types at the rows' time.

    columns_of: the columns that a table has in silver.
    """
    columns = {name: ProjectedColumn(kind, name) for name, kind in types.items()}
    names: dict[str, str | None] = {name: name for name in types}
    texts: dict[str, str] = {}
    # A statement at a time: where each column came from, and which names the old columns have by now.
    for change in changes:
        if change.state.definition is None:
            continue
        before = {name: column.type for name, column in columns.items()}
        after = columns_of(change.state).types
        all_origins = column_origins(change, before, after)
        origins = {name: origin if (origin := all_origins[name]) in columns else None for name in after}
        new_names = {origin: name for name, origin in origins.items() if origin is not None}
        names = {old: new_names.get(new) if new else None for old, new in names.items()}
        texts = {new_names[old]: text for old, text in texts.items() if old in new_names}
        texts |= {name: fill.exact for name, fill in change.fills.items() if fill.exact and name in after}
        fills = {name: f"CAST({fill.sql} AS {after[name]})" for name, fill in change.fills.items() if name in after}
        columns = {
            name: ProjectedColumn(kind, fill=fills.get(name))
            if (origin := origins[name]) is None
            else _carried(columns[origin], kind)
            for name, kind in after.items()
        }
    return Projection(types, columns, names, texts)


def _carried(column: ProjectedColumn, kind: str) -> ProjectedColumn:
    """A column after a statement that may have widened it."""
    is_widened = column.fill is not None and column.type != kind
    return ProjectedColumn(kind, column.origin, f"CAST({column.fill} AS {kind})" if is_widened else column.fill)


def column_origins(change: SchemaChange, before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """The origin of each column; in a table that was recreated, columns with an unchanged type keep theirs."""
    unchanged = {name: name if before.get(name) == kind else None for name, kind in after.items()}
    if change.origins is not None:  # computed columns are of no statement
        return unchanged | change.origins
    return unchanged
