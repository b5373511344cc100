"""Tables as a server has them at a moment, and as they are shown at a position of its log, to be compared.

Put here: both readings, in one form. Not here: how a server comes to a moment.
"""

from spark_jobs.pipeline.as_of.table_rows import TableAt
from tests.fix_mysql import Database
from tests.fix_pipeline import _AS_IN_THE_LAKE, _comparable_row

Contents = tuple[list[str], list[str]]
"""The names of a table's columns, and its rows as text, sorted."""


def server_tables(database: Database) -> dict[str, Contents]:
    """Every table of a schema."""
    return {name: _server_table(database, name) for (name,) in database.execute("SHOW TABLES")}


def _server_table(database: Database, table: str) -> Contents:
    listed = database.execute(
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        (database.name, table),
    )
    cells = ", ".join(_AS_IN_THE_LAKE.get(kind, "`{}`").format(name) for name, kind in listed)
    rows = database.execute(f"SELECT {cells} FROM `{table}`")
    return [name for name, _ in listed], sorted(repr(_comparable_row(row)) for row in rows)


def contents(table: TableAt) -> Contents:
    """A table as it was: exact texts in the place of values that the lake's types do not hold."""
    rows = table.selection().table().to_pylist(maps_as_pydicts="strict")
    names = [name for name in table.selection().columns if name != "_raw"]
    cells = [
        tuple((row.get("_raw") or {}).get(name) if row[name] is None else row[name] for name in names) for row in rows
    ]
    return names, sorted(repr(_comparable_row(row)) for row in cells)
