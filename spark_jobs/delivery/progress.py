"""How far a delivery is: a row a table in ``stratalog.checkpoint`` of the target, changed in the rows' transactions.

Put here: the table, what its rows say, and the statements that move them. Not here: the transactions themselves
(transactions.py).

A **fence** is a number that each deliverer raises by one when it takes a table over. Every transaction ends with a
statement that changes the row only where it has the deliverer's own number, and commits only where it did: one that was
overtaken while it slept cannot commit.

A window that takes several transactions is opened first: its exit point is stored, and then each transaction, a part
of the window, adds its number to those that are complete. The window's last statement moves the position.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.delivery.target import Connection
from spark_jobs.text.sql import server_text

SCHEMA = "stratalog"
TABLE = f"{SCHEMA}.checkpoint"
_NAME = "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_CREATE = (
    f"CREATE DATABASE IF NOT EXISTS {SCHEMA}",
    f"""CREATE TABLE IF NOT EXISTS {TABLE} (
  delivery {_NAME}, table_schema {_NAME}, table_name {_NAME},
  fence BIGINT UNSIGNED NOT NULL DEFAULT 0,
  lake_id VARCHAR(64) NULL,
  lake_version BIGINT NULL,
  position TEXT CHARACTER SET utf8mb4 NULL,
  columns_json MEDIUMTEXT CHARACTER SET utf8mb4 NULL,
  exit_version BIGINT NULL,
  exit_position TEXT CHARACTER SET utf8mb4 NULL,
  part_rows BIGINT NULL,
  parts MEDIUMTEXT NULL,
  rows_written BIGINT UNSIGNED NOT NULL DEFAULT 0,
  updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (delivery, table_schema, table_name)
) ENGINE = InnoDB""",
)


@dataclass(frozen=True, slots=True)
class TableId:
    """A delivery's table: the row's key. Without a schema it is the log of the source of that name (ordered/)."""

    delivery: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table

    def condition(self) -> str:
        """SQL: the row. Names are written as hex, whatever characters they have."""
        names = (("delivery", self.delivery), ("table_schema", self.schema), ("table_name", self.table))
        return " AND ".join(f"{column} = {server_text(name)}" for column, name in names)


@dataclass(frozen=True, slots=True)
class Progress:
    """What the row says."""

    fence: int
    lake_id: str | None = None
    """The id of the downstream table that was delivered; another one was made since where it differs."""
    version: int | None = None
    """The version of the downstream table that the target has; None where none is complete."""
    position: str | None = None
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By physical name the columns of that version: name and declared type."""
    exit_version: int | None = None
    """The version by which an open window ends; None where none is open."""
    exit_position: str | None = None
    part_rows: int | None = None
    """Rows of the parts that the open window was planned with."""
    parts: frozenset[int] = frozenset()
    """Numbers of its parts that are complete."""
    rows_written: int = 0


def create(connection: Connection) -> None:
    """Creates the table where it is not there. Raises DeliveryError, MySQLError."""
    for statement in _CREATE:
        connection.execute(statement)


def exists(connection: Connection) -> bool:
    """Whether the table is there. Raises DeliveryError."""
    query = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 'checkpoint'"
    return bool(connection.ask(query, (SCHEMA,)))


def claim(connection: Connection, table: TableId) -> Progress:
    """Takes a table over from whoever delivers it, with a fence of its own. Raises DeliveryError, MySQLError."""
    names = ", ".join(server_text(name) for name in (table.delivery, table.schema, table.table))
    connection.execute(f"INSERT IGNORE INTO {TABLE} (delivery, table_schema, table_name) VALUES ({names})")
    # LAST_INSERT_ID(expression) hands the new number to this session alone.
    connection.execute(f"UPDATE {TABLE} SET fence = LAST_INSERT_ID(fence + 1) WHERE {table.condition()}")
    fence = int(connection.rows("SELECT LAST_INSERT_ID() fence")[0]["fence"])
    progress = stored(connection, table)
    assert progress is not None
    return Progress(**{name: getattr(progress, name) for name in Progress.__slots__} | {"fence": fence})


def stored(connection: Connection, table: TableId) -> Progress | None:
    """What the row says, after whoever is changing it now; None without one. Raises DeliveryError, MySQLError."""
    rows = connection.rows(f"SELECT * FROM {TABLE} WHERE {table.condition()} FOR UPDATE")
    return _progress(rows[0]) if rows else None


def listed(connection: Connection, delivery: str) -> dict[tuple[str, str], tuple[Progress, Any]]:
    """What the rows of a delivery say, by schema and table, and when they said so. Raises DeliveryError."""
    query = f"SELECT * FROM {TABLE} WHERE delivery = %s ORDER BY table_schema, table_name"
    rows = connection.ask(query, (delivery,))
    return {(row["table_schema"], row["table_name"]): (_progress(row), row["updated_at"]) for row in rows}


def _progress(row: Mapping[str, Any]) -> Progress:
    parts = row["parts"] or ""
    return Progress(
        fence=int(row["fence"]),
        lake_id=row["lake_id"],
        version=row["lake_version"],
        position=row["position"],
        columns=json.loads(row["columns_json"] or "{}"),
        exit_version=row["exit_version"],
        exit_position=row["exit_position"],
        part_rows=row["part_rows"],
        parts=frozenset(map(int, filter(None, parts.split(",")))),
        rows_written=int(row["rows_written"]),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """A downstream table's version as the row names it."""

    lake_id: str
    version: int
    position: str
    columns: Mapping[str, Mapping[str, str]]


def opened(table: TableId, progress: Progress, step: Step, part_rows: int) -> str:
    """SQL: opens a window that takes several transactions. It changes no row where another deliverer took over."""
    return (
        f"UPDATE {TABLE} SET exit_version = {step.version}, exit_position = {server_text(step.position)}, "
        f"part_rows = {part_rows}, parts = '', lake_id = {server_text(step.lake_id)}, "
        "updated_at = CURRENT_TIMESTAMP(6) "
        f"WHERE {table.condition()} AND fence = {progress.fence} AND exit_version IS NULL"
    )


def part_complete(table: TableId, progress: Progress, exit_version: int, part: int, rows: int) -> str:
    """SQL: a part is complete; changes no row where it was before, or another deliverer took over."""
    return (
        f"UPDATE {TABLE} SET parts = CONCAT(parts, ',{part}'), rows_written = rows_written + {rows}, "
        f"updated_at = CURRENT_TIMESTAMP(6) WHERE {table.condition()} AND fence = {progress.fence} "
        f"AND exit_version = {exit_version} AND NOT FIND_IN_SET('{part}', parts)"
    )


def complete(table: TableId, progress: Progress, step: Step, rows: int) -> str:
    """SQL: the target has a version; changes no row where it had it before, or another deliverer took over."""
    columns = columns_literal(step.columns)
    version = "IS NULL" if progress.version is None else f"= {progress.version}"
    return (
        f"UPDATE {TABLE} SET lake_id = {server_text(step.lake_id)}, lake_version = {step.version}, "
        f"position = {server_text(step.position)}, columns_json = {columns}, exit_version = NULL, "
        f"exit_position = NULL, part_rows = NULL, parts = NULL, rows_written = rows_written + {rows}, "
        f"updated_at = CURRENT_TIMESTAMP(6) WHERE {table.condition()} AND fence = {progress.fence} "
        f"AND lake_version {version}"
    )


def columns_literal(columns: Mapping[str, Mapping[str, str]]) -> str:
    """SQL: columns as the row has them."""
    return server_text(json.dumps(columns, ensure_ascii=True))


def forgotten(table: TableId) -> str:
    """SQL: the delivery begins with the table again; a deliverer that has it now cannot commit any more."""
    return (
        f"UPDATE {TABLE} SET fence = fence + 1, lake_id = NULL, lake_version = NULL, position = NULL, "
        f"columns_json = NULL, exit_version = NULL, exit_position = NULL, part_rows = NULL, parts = NULL, "
        f"updated_at = CURRENT_TIMESTAMP(6) WHERE {table.condition()}"
    )
