"""Definitions of all tables of a server, from information_schema.

Put here: the queries, and their rows as table definitions. Not here: how definitions are matched with the log
(ddl/definitions.py), or foreign keys and system versioning (server_facts.py).
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.config.table_patterns import SYSTEM_SCHEMAS
from spark_jobs.ddl.definitions import PRIMARY, column_of_row
from spark_jobs.ddl.unreadable_types import readable
from spark_jobs.errors import Unsupported
from spark_jobs.source.server import Server, is_mariadb
from spark_jobs.text.sql import identifier, is_table, literal

Finish = Callable[[Column, dict[str, Any]], Column]
"""Adds to a column what its row of information_schema.COLUMNS says besides."""
DefaultOf = Callable[[Column, dict[str, Any], bool], Column]
"""The same for its default; True: the server is a MariaDB."""


def logs_all(variables: Mapping[str, str]) -> bool:
    """True if a server's log tells of its tables all that is asked of a server otherwise.

    MySQL's does with FULL metadata and FULL row images, from 8.0.17 on: others leave out what an INSERT sets to a
    column's default, earlier versions the character set of labels.
    """
    is_full = variables.get("binlog_row_metadata", "MINIMAL").upper() == "FULL"
    is_whole = variables.get("binlog_row_image", "FULL").upper() == "FULL"
    return is_full and is_whole and not is_mariadb(variables) and not _leaves_label_charsets_out(variables)


def ask(
    source: Server, connection: Any, variables: Mapping[str, str], default_of: DefaultOf
) -> tuple[TableDefinition, ...]:
    """Every table as the server declares it now, with the defaults of its columns. Raises SourceError."""
    of_mariadb = is_mariadb(variables)

    def finish(column: Column, row: dict[str, Any]) -> Column:
        try:
            finished = readable(default_of)(column, row, of_mariadb)
        except Unsupported:  # whoever meets a row without a value says that its default is not known
            finished = replace(column, default=None, computed=False)
        return replace(finished, invisible="INVISIBLE" in (row["extra"] or "").upper())

    return tuple(read_definitions(source, connection, finish))


def on_server(source: Server) -> dict[TableName, TableDefinition]:
    """Every table as the server declares it now, without system tables. Raises SourceError."""
    with source.connect() as connection:
        return {definition.name: definition for definition in read_definitions(source, connection)}


def definition_of(source: Server, connection: Any, name: TableName) -> TableDefinition | None:
    """One table as the server declares it now; None where there is no such table. Raises SourceError."""
    return next(iter(read_definitions(source, connection, only=name)), None)


def definition_on_server(source: Server, name: TableName) -> TableDefinition | None:
    """The same by a connection of its own. Raises SourceError."""
    with source.connect() as connection:
        return definition_of(source, connection, name)


def table_names(source: Server, connection: Any) -> list[TableName]:
    """The names of a server's tables, without views, sequences and system tables. Raises SourceError."""
    rows = source.ask(connection, _ASK_TABLES.format(""))
    return [TableName(row["schema"], row["table"]) for row in rows if row["kind"] != "SEQUENCE"]


def _leaves_label_charsets_out(variables: Mapping[str, str]) -> bool:
    """MySQL before 8.0.17 logs labels, and not their character set."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", variables.get("version", ""))
    return numbers is not None and tuple(map(int, numbers.groups())) < (8, 0, 17)


def user_schema_condition(column: str) -> str:
    """SQL: whether a column names no schema of the server's own; by bytes, since `Sys` may be a user's."""
    return f"CAST({column} AS BINARY) NOT IN ({', '.join(map(literal, SYSTEM_SCHEMAS))})"


_ASK_TABLES = f"""
SELECT t.TABLE_SCHEMA `schema`, t.TABLE_NAME `table`, t.TABLE_TYPE kind FROM information_schema.TABLES t
WHERE t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') AND {user_schema_condition("t.TABLE_SCHEMA")} {{}}
"""
_ASK_COLUMNS = f"""
SELECT c.TABLE_SCHEMA `schema`, c.TABLE_NAME `table`, c.COLUMN_NAME name, c.DATA_TYPE kind, c.COLUMN_TYPE declared,
       c.CHARACTER_OCTET_LENGTH octets, c.NUMERIC_PRECISION digits, c.NUMERIC_SCALE scale,
       c.DATETIME_PRECISION fraction, c.IS_NULLABLE nullable, c.COLLATION_NAME collation, c.COLUMN_DEFAULT fallback,
       c.EXTRA extra
FROM information_schema.COLUMNS c
WHERE {user_schema_condition("c.TABLE_SCHEMA")} {{}}
ORDER BY c.TABLE_SCHEMA, c.TABLE_NAME, c.ORDINAL_POSITION
"""
_ASK_FULL_NAMES = """
SELECT 1 FROM information_schema.COLUMNS
WHERE TABLE_NAME = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND COLUMN_NAME = 'FULL_COLLATION_NAME'
"""
_COLLATIONS, _FULL_COLLATIONS = (
    "SELECT COLLATION_NAME name, ID id FROM information_schema.COLLATIONS WHERE ID IS NOT NULL",
    "SELECT FULL_COLLATION_NAME name, ID id FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY",
)
"""MariaDB from 10.10 on has collations for several character sets; COLLATIONS has only the name that they share."""
_ASK_KEYS = f"""
SELECT s.TABLE_SCHEMA `schema`, s.TABLE_NAME `table`, s.INDEX_NAME `index`, s.COLUMN_NAME name, s.SUB_PART part
FROM information_schema.STATISTICS s
WHERE s.NON_UNIQUE = 0 AND {user_schema_condition("s.TABLE_SCHEMA")} {{}}
ORDER BY s.TABLE_SCHEMA, s.TABLE_NAME, s.INDEX_NAME, s.SEQ_IN_INDEX
"""
"""Query without a join by name: MySQL 5.7 and MariaDB compare names in information_schema by a collation to which `ta`
and `tä` are one table."""


def read_definitions(
    source: Server, connection: Any, finish: Finish = lambda column, _: column, only: TableName | None = None
) -> Iterator[TableDefinition]:
    """The definitions of a server's tables, views left out; ``finish`` completes each column. Raises SourceError.

    only: the table whose definition is read; all by default.
    """
    condition = f"AND {is_table(only.schema, only.table)}" if only else ""
    tables = _by_table(source.ask(connection, _ASK_TABLES.format(condition)))
    columns = _by_table(source.ask(connection, _ASK_COLUMNS.format(condition)))
    query = _FULL_COLLATIONS if source.ask(connection, _ASK_FULL_NAMES) else _COLLATIONS
    collations = {row["name"]: row["id"] for row in source.ask(connection, query)}
    keys = _by_table(source.ask(connection, _ASK_KEYS.format(condition)))
    for name, rows in columns.items():
        if name not in tables:  # a view
            continue
        table_columns = tuple(finish(column_of_row(row, collations), row) for row in rows)
        usable = _usable(keys.get(name, ()), {row["name"] for row in rows if _is_stored(row)})
        index = next(iter(usable), None) if len(usable) < 2 else _first_index(source, connection, name, usable)
        names = [row["name"] for row in rows]
        key = tuple(names.index(part) for part in usable[index]) if index else ()
        yield TableDefinition(name, table_columns, key, index)


def _is_stored(row: Mapping[str, Any]) -> bool:
    """True if every row has a value of the column in its image."""
    return row["nullable"] == "NO" and "VIRTUAL" not in (row["extra"] or "").upper()


def _usable(rows: Iterable[dict[str, Any]], stored: Container[str]) -> dict[str, list[str]]:
    """The columns of each unique index by which a table's rows can be identified; the primary key alone, if there.

    An expression in an index has no column, a part of a column only tells the rows of a primary key apart.
    """
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault(row["index"], []).append(row)
    candidates = {
        index: [row["name"] for row in listed]
        for index, listed in parts.items()
        if index == PRIMARY or all(row["part"] is None and row["name"] in stored for row in listed)
    }
    return {PRIMARY: candidates[PRIMARY]} if PRIMARY in candidates else candidates


def _first_index(source: Server, connection: Any, name: TableName, usable: Container[str]) -> str:
    """The first of these indexes in the order in which the server tries them, which SHOW INDEX lists."""
    listed = source.ask(connection, f"SHOW INDEX FROM {identifier(name.schema)}.{identifier(name.table)}")
    return next(str(row["Key_name"]) for row in listed if row["Key_name"] in usable)


def _by_table(rows: list[dict[str, Any]]) -> dict[TableName, list[dict[str, Any]]]:
    tables: dict[TableName, list[dict[str, Any]]] = {}
    for row in rows:
        tables.setdefault(TableName(row["schema"], row["table"]), []).append(row)
    return tables
