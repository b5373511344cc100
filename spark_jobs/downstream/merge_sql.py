"""The MERGE statement of a downstream table.

Put here: its text. Not here: the rows that it merges (silver_reader.py), or running it (merge.py).
"""

from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.downstream.multi_source import marked
from spark_jobs.downstream.silver_reader import identity_names, quoted
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.text.sql import identifier, literal, with_rows


def merge_statement(target: Table, columns: silver.Columns, floor: Position | None, *, is_complete: bool) -> str:
    """``floor``: rows of the target from before go, where it is given: none of them is matched.

    They may be of a table with another key, and then several may have what is one key now.
    """
    names = [identifier(name) for name in (*columns.types, *ADDED)]
    assigned = ", ".join(f"t.{name} = s.{name}" for name in names)
    # Of a table with several sources only this source's rows are matched.
    own_rows = f" AND {marked(target.marks, 't.')}" if target.marks else ""
    on = columns.is_same_row("t.", [f"s.{name}" for name in identity_names(columns)]) + own_rows
    on += f" AND t._position > {silver.before_sql(floor)}" if floor else ""
    # A complete merge replaces whatever differs; otherwise the newer position wins.
    is_complete = is_complete or columns.is_bag
    newer = _differs(columns) if is_complete else "s._position > t._position"
    delete = "s._gone" if is_complete else f"s._gone AND {newer}"
    # Rows before the floor belong to the table's life before it was emptied.
    old = (
        f" WHEN NOT MATCHED BY SOURCE{own_rows} AND t._position < {silver.before_sql(floor)} THEN DELETE"
        if floor
        else ""
    )
    values = [*(f"s.{name}" for name in names), *map(literal, target.marks.values())]
    clauses = (
        f" s ON {on} "
        f"WHEN MATCHED AND {delete} THEN DELETE "
        f"WHEN MATCHED AND NOT s._gone AND {newer} THEN UPDATE SET {assigned} "
        f"WHEN NOT MATCHED AND NOT s._gone THEN INSERT ({', '.join([*names, *target.marks])}) "
        f"VALUES ({', '.join(values)}){old}"
    )
    return with_rows(f"MERGE INTO {target.sql} t USING ", clauses)


def _differs(columns: silver.Columns) -> str:
    """Whether source and target rows differ; maps compare as arrays of their entries."""
    plain = quoted([*columns.rest, "_position", "_committed_at"])
    equalities = [f"t.{name} <=> s.{name}" for name in plain] + ["map_entries(t._raw) <=> map_entries(s._raw)"]
    return f"NOT ({' AND '.join(equalities)})"
