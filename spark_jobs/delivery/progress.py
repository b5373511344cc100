"""Progress of a delivery: a row a table in ``stratalog.checkpoint`` of the target, changed in the rows' transactions.

Put here: the table, what its rows say, and the statements that move them. Not here: the transactions themselves
(transactions.py).

A **fence** is a number that each deliverer raises by one when it takes a table over. Every transaction ends with a
statement that changes the row only where it has the deliverer's own number, and commits only where it did: one that was
overtaken while it slept cannot commit.

A window that takes several transactions is opened first: its exit point and its **plan** are stored, and then each
transaction, a part of the window, adds its name to those that are complete. The window's last statement moves the
position. A plan's digest is of what the names depend on: under another one they say nothing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pymysql

from spark_jobs.delivery import sessions
from spark_jobs.delivery.sessions import TargetSession
from spark_jobs.delivery.target import Connection
from spark_jobs.source.connection import error_number
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
  parts MEDIUMTEXT NULL,
  plan MEDIUMTEXT CHARACTER SET utf8mb4 NULL,
  executing VARCHAR(500) CHARACTER SET utf8mb4 NULL,
  rows_written BIGINT UNSIGNED NOT NULL DEFAULT 0,
  updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (delivery, table_schema, table_name)
) ENGINE = InnoDB""",
)


_COLUMNS = (
    f"SELECT COLUMN_NAME name FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{SCHEMA}' "
    "AND TABLE_NAME = 'checkpoint'"
)
_LATER_COLUMNS = {
    "plan": f"ALTER TABLE {TABLE} ADD COLUMN plan MEDIUMTEXT CHARACTER SET utf8mb4 NULL",
    "executing": f"ALTER TABLE {TABLE} ADD COLUMN executing VARCHAR(500) CHARACTER SET utf8mb4 NULL",
}
"""Columns that a table of an earlier release does not have."""
_DUPLICATE_COLUMN = 1060

Names = frozenset[tuple[str, str]]
"""Source tables: schema and table."""


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
class WindowPlan:
    """Basis of the plan of an open window's parts.

    digest: differs where the names of parts mean other rows. is_repeated: whether the window is written from its
    beginning again, over rows that it wrote before. part_rows, tables: of a log, the rows of a part and its tables.
    """

    digest: str
    is_repeated: bool = False
    part_rows: int = 0
    tables: Names = frozenset()


@dataclass(frozen=True, slots=True)
class Progress:
    """Content of a row of progress."""

    fence: int
    lake_id: str | None = None
    """The id of the downstream table that was delivered; another one was made since where it differs."""
    version: int | None = None
    """The version of the downstream table that the target has; None where none is complete."""
    position: str | None = None
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Columns of that version by physical name: name and declared type."""
    exit_version: int | None = None
    """The version by which an open window ends; None where none is open."""
    exit_position: str | None = None
    parts: frozenset[str] = frozenset()
    """Names of its parts that are complete."""
    plan: WindowPlan | None = None
    """Plan of the open window; None where none is open, or an earlier release of Stratalog opened it."""
    tables: Names | None = None
    """Source tables of a log that are delivered up to the position; None where the row does not say."""
    logs: Mapping[str, str] | None = None
    """Position that the log of each source of a table had, by source, when the target had the version; None where the
    row does not say."""
    session: TargetSession | None = None
    """Statement that commits by itself and is, or was, executed; None where none may be active."""
    rows_written: int = 0


def create(connection: Connection) -> None:
    """Create the table where it is not there. Raises DeliveryError."""
    connection.retried(lambda: _create_tables(connection))


def _create_tables(connection: Connection) -> None:
    for statement in _CREATE:
        connection.execute(statement)
    present = {str(row["name"]).casefold() for row in connection.rows(_COLUMNS)}
    for name, statement in _LATER_COLUMNS.items():
        if name in present:
            continue
        # Another run may add the column at the same time.
        try:
            connection.execute(statement)
        except pymysql.MySQLError as error:
            if error_number(error) != _DUPLICATE_COLUMN:
                raise


def exists(connection: Connection) -> bool:
    """True if the table is there. Raises DeliveryError."""
    query = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 'checkpoint'"
    return bool(connection.ask(query, (SCHEMA,)))


def claim(connection: Connection, table: TableId) -> Progress:
    """Take a table over from whoever delivers it, with a fence of its own. Raises DeliveryError."""
    return connection.retried(lambda: _claim(connection, table), str(table))


def _claim(connection: Connection, table: TableId) -> Progress:
    names = ", ".join(server_text(name) for name in (table.delivery, table.schema, table.table))
    connection.execute(f"INSERT IGNORE INTO {TABLE} (delivery, table_schema, table_name) VALUES ({names})")
    # LAST_INSERT_ID(expression) hands the new number to this session alone.
    connection.execute(f"UPDATE {TABLE} SET fence = LAST_INSERT_ID(fence + 1) WHERE {table.condition()}")
    fence = int(connection.rows("SELECT LAST_INSERT_ID() fence")[0]["fence"])
    progress = stored_progress(connection, table)
    assert progress is not None
    if progress.session is not None:
        outlast(connection, table, fence, progress.session)
    return replace(progress, fence=fence, session=None)


def outlast(connection: Connection, table: TableId, fence: int, session: TargetSession) -> None:
    """Wait for the end of a statement that commits by itself. Raises DeliveryError, MySQLError, OSError."""
    sessions.outlast(connection, session)
    connection.execute(end_statement_sql(table, fence))


def stored_progress(connection: Connection, table: TableId) -> Progress | None:
    """Stored row of progress, after whoever is changing it now; None without one. Raises DeliveryError, MySQLError."""
    rows = connection.rows(f"SELECT * FROM {TABLE} WHERE {table.condition()} FOR UPDATE")
    return _progress(rows[0]) if rows else None


def progress_by_table(connection: Connection, delivery: str) -> dict[tuple[str, str], tuple[Progress, Any]]:
    """Rows of progress of a delivery, by schema and table, with their times. Raises DeliveryError."""
    query = f"SELECT * FROM {TABLE} WHERE delivery = %s ORDER BY table_schema, table_name"
    rows = connection.ask(query, (delivery,))
    return {(row["table_schema"], row["table_name"]): (_progress(row), row["updated_at"]) for row in rows}


def _progress(row: Mapping[str, Any]) -> Progress:
    parts, plan = row["parts"] or "", json.loads(row.get("plan") or "{}")
    window = plan.get("window")
    # A table of an earlier release lacks the columns ``plan`` and ``executing``.
    return Progress(
        fence=int(row["fence"]),
        lake_id=row["lake_id"],
        version=row["lake_version"],
        position=row["position"],
        columns=json.loads(row["columns_json"] or "{}"),
        exit_version=row["exit_version"],
        exit_position=row["exit_position"],
        parts=frozenset(filter(None, parts.split(","))),
        plan=WindowPlan(**window | {"tables": _table_names(window["tables"])}) if window else None,
        tables=_table_names(plan["tables"]) if "tables" in plan else None,
        logs=plan.get("logs"),
        session=TargetSession.parse(row["executing"]) if row.get("executing") else None,
        rows_written=int(row["rows_written"]),
    )


def _table_names(pairs: Iterable[Sequence[str]]) -> Names:
    return frozenset((schema, name) for schema, name in pairs)


def _plan_literal(tables: Names | None, logs: Mapping[str, str] | None = None, window: WindowPlan | None = None) -> str:
    """SQL: a plan as the row has it."""
    plan: dict[str, Any] = {}
    if tables is not None:
        plan["tables"] = sorted(tables)
    if logs is not None:
        plan["logs"] = dict(logs)
    if window is not None:
        plan["window"] = asdict(window) | {"tables": sorted(window.tables)}
    return server_text(json.dumps(plan, ensure_ascii=True)) if plan else "NULL"


@dataclass(frozen=True, slots=True)
class Step:
    """A downstream table's version as the row names it. tables, logs: as ``Progress`` has them."""

    lake_id: str
    version: int
    position: str
    columns: Mapping[str, Mapping[str, str]]
    tables: Names | None = None
    logs: Mapping[str, str] | None = None


def open_window_sql(table: TableId, progress: Progress, step: Step, plan: WindowPlan) -> str:
    """SQL: opens a window that takes several transactions, or one that is open from its beginning again.

    It changes no row where another deliverer took over.
    """
    is_open = "IS NULL" if progress.exit_version is None else "IS NOT NULL"
    return (
        f"UPDATE {TABLE} SET exit_version = {step.version}, exit_position = {server_text(step.position)}, "
        f"plan = {_plan_literal(progress.tables, progress.logs, plan)}, parts = '', "
        f"lake_id = {server_text(step.lake_id)}, updated_at = CURRENT_TIMESTAMP(6) "
        f"WHERE {table.condition()} AND fence = {progress.fence} AND exit_version {is_open}"
    )


def set_tables_sql(table: TableId, progress: Progress, tables: Names) -> str:
    """SQL: these are the tables that a log's position is about. It changes no row where another deliverer took over."""
    return (
        f"UPDATE {TABLE} SET plan = {_plan_literal(tables, window=progress.plan)}, "
        f"updated_at = CURRENT_TIMESTAMP(6) WHERE {table.condition()} AND fence = {progress.fence}"
    )


def leave_log_sql(table: TableId, progress: Progress, tables: Names) -> str:
    """SQL: a log's position is not about these tables any more; who delivers the log now cannot commit any more."""
    names = None if progress.tables is None else progress.tables - tables
    return (
        f"UPDATE {TABLE} SET fence = fence + 1, plan = {_plan_literal(names, window=progress.plan)}, "
        f"updated_at = CURRENT_TIMESTAMP(6) WHERE {table.condition()}"
    )


def begin_statement_sql(table: TableId, fence: int, session: TargetSession) -> str:
    """SQL: a session executes a statement that commits by itself; changes no row where another deliverer took over."""
    return (
        f"UPDATE {TABLE} SET executing = {server_text(session.to_text())} WHERE {table.condition()} "
        f"AND fence = {fence} AND executing IS NULL"
    )


def end_statement_sql(table: TableId, fence: int) -> str:
    """SQL: that statement has ended."""
    return f"UPDATE {TABLE} SET executing = NULL WHERE {table.condition()} AND fence = {fence}"


def complete_part_sql(table: TableId, progress: Progress, exit_version: int, part: str, rows: int) -> str:
    """SQL: a part is complete; changes no row where it was before, or another deliverer took over."""
    return (
        f"UPDATE {TABLE} SET parts = CONCAT(parts, ',{part}'), rows_written = rows_written + {rows}, "
        f"updated_at = CURRENT_TIMESTAMP(6) WHERE {table.condition()} AND fence = {progress.fence} "
        f"AND exit_version = {exit_version} AND NOT FIND_IN_SET('{part}', parts)"
    )


def complete_version_sql(table: TableId, progress: Progress, step: Step, rows: int) -> str:
    """SQL: the target has a version; changes no row where it had it before, or another deliverer took over."""
    columns = columns_literal(step.columns)
    version = "IS NULL" if progress.version is None else f"= {progress.version}"
    return (
        f"UPDATE {TABLE} SET lake_id = {server_text(step.lake_id)}, lake_version = {step.version}, "
        f"position = {server_text(step.position)}, columns_json = {columns}, exit_version = NULL, "
        f"exit_position = NULL, parts = NULL, plan = {_plan_literal(step.tables, step.logs)}, "
        f"rows_written = rows_written + {rows}, "
        f"updated_at = CURRENT_TIMESTAMP(6) WHERE {table.condition()} AND fence = {progress.fence} "
        f"AND lake_version {version}"
    )


def set_version_sql(table: TableId, step: Step) -> str:
    """SQL: by its log the target has a version, which another way of applying may continue from."""
    return (
        f"UPDATE {TABLE} SET lake_id = {server_text(step.lake_id)}, lake_version = {step.version}, "
        f"position = {server_text(step.position)}, columns_json = {columns_literal(step.columns)}, "
        f"plan = {_plan_literal(None, step.logs)}, updated_at = CURRENT_TIMESTAMP(6) WHERE {table.condition()}"
    )


def columns_literal(columns: Mapping[str, Mapping[str, str]]) -> str:
    """SQL: columns as the row has them."""
    return server_text(json.dumps(columns, ensure_ascii=True))


def restart_sql(table: TableId) -> str:
    """SQL: the delivery begins with the table again; a deliverer that has it now cannot commit any more."""
    return (
        f"UPDATE {TABLE} SET fence = fence + 1, lake_id = NULL, lake_version = NULL, position = NULL, "
        f"columns_json = NULL, exit_version = NULL, exit_position = NULL, parts = NULL, plan = NULL, "
        f"updated_at = CURRENT_TIMESTAMP(6) WHERE {table.condition()}"
    )
