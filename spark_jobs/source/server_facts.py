"""Foreign keys that cascade and system-versioned tables of a server, which its log may lack.

Source: MySQL manual, "The INFORMATION_SCHEMA REFERENTIAL_CONSTRAINTS Table", "innodb_native_foreign_keys" (from 9.6 on
the server carries out cascades itself, and logs them, unless that is ON); MariaDB Knowledge Base, "Information Schema
TABLES Table" (TABLE_TYPE).

Put here: the queries. Not here: their result as it is stored (ddl/server_facts.py), what follows from it
(ddl/unlogged_changes.py).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_jobs.binlog import TableName
from spark_jobs.ddl.foreign_keys import ForeignKey, declared_keys
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.errors import SourceError
from spark_jobs.source.connection import error_number
from spark_jobs.source.information_schema import user_schema_condition
from spark_jobs.source.server import Server, is_mariadb
from spark_jobs.text.sql import identifier

_NOT_SHOWN = {1142, 1146}
"""Numbers of a server's errors: command denied, no such table."""
_ASK_KEYS = f"""
SELECT CONSTRAINT_SCHEMA `schema`, TABLE_NAME `table`, CONSTRAINT_NAME name, UNIQUE_CONSTRAINT_SCHEMA parent_schema,
       REFERENCED_TABLE_NAME parent, DELETE_RULE on_delete, UPDATE_RULE on_update
FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE {user_schema_condition("CONSTRAINT_SCHEMA")}
ORDER BY CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME
"""
_ASK_COLUMNS = f"""
SELECT CONSTRAINT_SCHEMA `schema`, TABLE_NAME `table`, CONSTRAINT_NAME name, COLUMN_NAME `column`,
       REFERENCED_COLUMN_NAME parent_column
FROM information_schema.KEY_COLUMN_USAGE
WHERE {user_schema_condition("CONSTRAINT_SCHEMA")} AND REFERENCED_TABLE_NAME IS NOT NULL
ORDER BY CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION
"""
_ASK_TABLES = f"""
SELECT TABLE_SCHEMA `schema`, TABLE_NAME `table`, TABLE_TYPE kind, ENGINE engine FROM information_schema.TABLES
WHERE {user_schema_condition("TABLE_SCHEMA")} AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
ORDER BY TABLE_SCHEMA, TABLE_NAME
"""


def has_inline_keys(variables: Mapping[str, str]) -> bool:
    """True if a server makes a foreign key of REFERENCES in a column's definition."""
    return _version(variables) >= ((10, 5) if is_mariadb(variables) else (9, 0))


def logs_cascades(variables: Mapping[str, str]) -> bool:
    """True if a server's log has what foreign keys do to child rows."""
    is_native = variables.get("innodb_native_foreign_keys", "OFF").upper() in ("ON", "1")
    return not is_mariadb(variables) and _version(variables) >= (9, 6) and not is_native


def ask_facts(
    source: Server, connection: Any, variables: Mapping[str, str], in_scope: Callable[[str, str], bool]
) -> ServerFacts:
    """Ask a server for what its tables in scope are. Raises SourceError.

    MariaDB shows foreign keys in information_schema to users alone that may change the table; what it shows to all that
    may read a table is the statement that makes it.
    """
    at = source.end(connection)
    # Every table is asked for at once; MariaDB's foreign keys a table at a time, by its CREATE statement.
    tables = [row for row in source.ask(connection, _ASK_TABLES) if in_scope(row["schema"], row["table"])]
    if is_mariadb(variables):
        keys = [
            pair
            for table in tables
            if (table["engine"] or "").upper() == "INNODB"
            for pair in _declared_keys(source, connection, table)
        ]
    else:
        rows = source.ask(connection, _ASK_KEYS)
        columns: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
        for row in source.ask(connection, _ASK_COLUMNS):
            columns.setdefault(_identity(row), []).append((row["column"], row["parent_column"]))
        keys = [
            _declared_key(row, columns.get(_identity(row), [])) for row in rows if in_scope(row["schema"], row["table"])
        ]
    return ServerFacts(
        at,
        tuple((child, key) for child, key in keys if key.is_cascading),
        tuple(TableName(table["schema"], table["table"]) for table in tables if table["kind"] == "SYSTEM VERSIONED"),
        has_inline_keys(variables),
        logs_cascades(variables),
    )


def _identity(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["schema"], row["table"], row["name"]


def _declared_key(row: Mapping[str, Any], columns: Sequence[tuple[str, str]]) -> tuple[TableName, ForeignKey]:
    key = ForeignKey(
        row["name"],
        TableName(row["parent_schema"], row["parent"]),
        row["on_delete"],
        row["on_update"],
        columns=tuple(column for column, _ in columns),
        parent_columns=tuple(parent_column for _, parent_column in columns),
    )
    return TableName(row["schema"], row["table"]), key


def _declared_keys(source: Server, connection: Any, table: Mapping[str, Any]) -> list[tuple[TableName, ForeignKey]]:
    """The foreign keys of a table, by SHOW CREATE TABLE; none of one that is gone or that the user may not read."""
    name = f"{identifier(table['schema'])}.{identifier(table['table'])}"
    try:
        (row,) = source.ask(connection, f"SHOW CREATE TABLE {name}")
    except SourceError as error:
        if error_number(error.__cause__) in _NOT_SHOWN:
            return []
        raise
    child = TableName(table["schema"], table["table"])
    return [(child, key) for key in declared_keys(row["Create Table"], child.schema)]


def _version(variables: Mapping[str, str]) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", variables.get("version", ""))
    return tuple(map(int, match.groups())) if match else (0, 0)
