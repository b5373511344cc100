"""Rows of an older definition of a table, as its present columns have them.

Put here: which SQL over older columns gives the present ones. Not here: what changed them (timeline/), running the SQL
(compact.py).
"""

from collections.abc import Callable, Mapping, Sequence

from spark_jobs.ddl.default_values import Fill
from spark_jobs.silver import partial_rows
from spark_jobs.silver import table as silver
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from spark_jobs.text.sql import identifier


def project_to_latest(
    columns: Mapping[str, str],
    turns: Sequence[SchemaChange],
    columns_of: Callable[[TableState], silver.Columns] = lambda state: state.columns,
) -> dict[str, str]:
    """Rows of an older definition as the present one has them: by present column, SQL over the older ones.

    Beside them ``_raw`` and, of rows that may lack columns, ``_absent``.

    columns: names and types at the rows' time. columns_of: the columns that a table has in silver.

    Names of all steps are composed first, and applied once: each application is longer than what it is applied to.
    """
    now = {name: identifier(name) for name in columns}
    names: dict[str, str | None] = {name: name for name in columns}
    texts: dict[str, str] = {}
    types = dict(columns)
    # A statement at a time: where each column came from, and which names the old columns have by now.
    for turn in turns:
        if turn.standing.definition is None:
            continue
        after = columns_of(turn.standing).types
        origins_ = column_origins(turn, types, after)
        origins = {name: origin if (origin := origins_[name]) in types else None for name in after}
        new_names = {origin: name for name, origin in origins.items() if origin is not None}
        names = {old: new_names.get(new) if new else None for old, new in names.items()}
        texts = {new_names[old]: text for old, text in texts.items() if old in new_names}
        texts |= {name: fill.exact for name, fill in turn.fills.items() if fill.exact and name in after}
        now = {name: _projected(now, types, origins, turn.fills, (name, kind)) for name, kind in after.items()}
        types = after
    raw = silver.raw_with(silver.raw_sql("_raw", names), texts)
    return now | {"_raw": raw, silver.ABSENT: partial_rows.renamed(names)}


def column_origins(turn: SchemaChange, before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """The origin of each column; in a table that was recreated, columns with an unchanged type keep theirs."""
    unchanged = {name: name if before.get(name) == kind else None for name, kind in after.items()}
    if turn.origins is not None:  # computed columns are of no statement
        return unchanged | turn.origins
    return unchanged


def _projected(
    now: Mapping[str, str],
    types: Mapping[str, str],
    origins: Mapping[str, str | None],
    fills: Mapping[str, Fill],
    column: tuple[str, str],
) -> str:
    name, kind = column
    origin = origins[name]
    if origin is None:
        return f"CAST({fills[name].sql if name in fills else 'NULL'} AS {kind})"
    return now[origin] if types[origin] == kind else f"CAST({now[origin]} AS {kind})"
