"""Silver tables: the net change of every key and window of one source table.

Put here: their columns and what a row says. Not here: how rows come about (compact.py) or are used (merge.py).

Besides the source's columns a row has ``_op`` (insert, update or delete: existed before the window × exists after it),
``_existed``, the position of the key's last change, its commit time, its window, and ``_raw``. Deletes stay as rows, so
silver remembers what was deleted when. Windows are appended, and replaced whole when a range is done again.
A TRUNCATE is a row and window of its own, with no key and ``_op`` truncate: rows before it count no more.
Rows that were loaded are one window without extent, with ``_op`` load: the table as queries saw it (load.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.binlog import TableDefinition
from spark_jobs.errors import TableStopped
from spark_jobs.lake import Head, Table, quoted
from spark_jobs.position import Position, Range

TRUNCATE = "truncate"
LOAD = "load"
"""``_op`` of rows that were loaded, and the kind of the commit that has them."""
FROM_LOG = f"_op NOT IN ('{TRUNCATE}', '{LOAD}')"
"""SQL: the rows that sum up a part of the log."""
CHANGE = "change"
"""Kind of a commit that moves the table over a statement; its notes hold the steps that changed its columns."""
PLACE = "STRUCT<stretch: INT, number: BIGINT, offset: BIGINT>"
CHANGE_PLACE = "STRUCT<stretch: INT, number: BIGINT, offset: BIGINT, row: INT>"
ADDED = {
    "_op": "STRING",
    "_existed": "BOOLEAN",
    "_position": CHANGE_PLACE,
    "_committed_at": "TIMESTAMP",
    "_window_start": PLACE,
    "_window_stop": PLACE,
    "_raw": "MAP<STRING, STRING>",
}
_ARROW_TO_SPARK = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date32[day]": "DATE",
    "timestamp[us]": "TIMESTAMP_NTZ",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
    "struct<srid: int32, wkb: binary>": "STRUCT<srid: INT, wkb: BINARY>",
    "list<item: float>": "ARRAY<FLOAT>",
}


@dataclass(frozen=True, slots=True)
class Columns:
    """A source table's columns as its silver and downstream tables have them: names, Spark types, key."""

    types: dict[str, str]
    key: tuple[str, ...]

    @property
    def rest(self) -> tuple[str, ...]:
        return tuple(name for name in self.types if name not in self.key)


def columns(definition: TableDefinition) -> Columns:
    """Raises TableStopped where the table has no primary key, a name is unknown, or collides with ours."""
    names = [column.name for column in definition.columns]
    if not definition.key:
        known = "has no primary key" if definition.key == () else "has a primary key that the log does not tell"
        raise TableStopped(f"{definition.name}: the table {known}; only tables with a known primary key are merged")
    if not definition.named():
        raise TableStopped(
            f"{definition.name}: the names of its columns are not known; SET GLOBAL binlog_row_metadata = 'FULL'"
        )
    collisions = [name for name in names if name and name.lower() in ADDED]
    if collisions:
        raise TableStopped(
            f"{definition.name}: its column {collisions[0]} has the name of one that is added; rename it"
        )
    types = {str(column.name): spark_type(str(column.arrow)) for column in definition.columns}
    return Columns(types, tuple(str(names[at]) for at in definition.key))


def stored_columns(table: Table, head: Head) -> Columns:
    """The columns of a silver table as it is; its commits name the key."""
    types = {name: kind for name, kind in table.columns().items() if name not in ADDED}
    return Columns(types, tuple(head.checkpoint.notes["key"]) if head.checkpoint else ())


def spark_type(arrow: str) -> str:
    """The Spark type of a decoded column, written as in DDL."""
    if arrow.startswith("decimal128"):
        return arrow.removeprefix("decimal128").replace(" ", "").join(("DECIMAL", ""))
    return _ARROW_TO_SPARK[arrow]


def raw_sql(raw: str, names: Mapping[str, str | None]) -> str:
    """SQL: the exact texts of a row behind a change of columns.

    names: by the old one the new one, None where it went.
    """
    gone = ", ".join(quoted(old) for old, new in names.items() if new is None)
    cases = " ".join(f"WHEN {quoted(old)} THEN {quoted(new)}" for old, new in names.items() if new not in (None, old))
    left = f"map_filter({raw}, (k, v) -> k NOT IN ({gone}))" if gone else raw
    named = f"transform_keys({left}, (k, v) -> CASE k {cases} ELSE k END)" if cases else left
    return f"IF(size({named}) = 0, NULL, {named})" if gone else named


def properties(table: Table) -> dict[str, str]:
    """Delta features: any column name, and rows marked as deleted instead of files written again."""
    return {} if table.plain else {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}


def require_same_columns(table: Table, wanted: dict[str, str], name: str) -> None:
    """Raises TableStopped where the table exists with other columns."""
    there = table.columns()
    if there and there != wanted:
        raise TableStopped(
            f"{name}: its columns are now ({_listed(wanted)}), but {table.path} has ({_listed(there)}), "
            "and no statement of the log says why"
        )


def place(position: Position) -> Column:
    """A position as the struct that windows are stored with."""
    return F.expr(place_sql(position)).cast(PLACE)


def within(windows: Range) -> str:
    """SQL: the rows whose window lies in a range that is a union of windows; loaded ones lie in none."""
    start, stop = place_sql(windows.start), place_sql(windows.stop)
    return f"_window_start >= {start} AND _window_start < {stop} AND _op <> '{LOAD}'"


def place_sql(position: Position) -> str:
    """A position as SQL, to compare windows with."""
    stretch, number, offset = position.order
    return f"named_struct('stretch', {stretch}, 'number', {number}L, 'offset', {offset}L)"


def _listed(types: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items() if name not in ADDED)
