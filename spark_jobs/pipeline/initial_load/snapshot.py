"""Read of a table in one transaction whose snapshot is at an exact position of the log: all rows, or some keys.

Put here: opening the snapshot, and the tasks that read rows of it. Not here: rows as the log would have had them
(selecting.py), what a task writes (range_files.py), when the rows land (landing.py).

MariaDB names the position of a snapshot. MySQL does not: there the table is locked against writers for the
moment in which the snapshot is opened and the position is asked for. A transaction holds its lock of the table until
its rows are committed, so the position has all that the snapshot shows, and the snapshot all up to the position.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import pymysql
from pymysql.cursors import DictCursor, SSCursor

from spark_jobs.binlog import Changes, TableName
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.errors import AccessDenied, SourceError
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.key_ranges import KeyRange, RowCondition
from spark_jobs.pipeline.initial_load.range_files import FileTarget, files_of, with_raw
from spark_jobs.pipeline.initial_load.row_rules import FilteredRows, RowRules
from spark_jobs.pipeline.initial_load.selecting import Selecting
from spark_jobs.source.connection import error_number
from spark_jobs.source.server import Server
from spark_jobs.text.sql import account, identifier, is_table

Connection: TypeAlias = "pymysql.Connection[SSCursor]"
_ALL = KeyRange(None, None)
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
_LOCK_SECONDS, _TRIES, _PAUSE = 3, 5, 1.0
"""Seconds of waiting for the lock at a time, since writers wait behind it, how often, and what is between."""
_NO_TABLE = "stratalog_no_table"
_DENIED, _TIMED_OUT, _NO_SUCH_COMMAND = 1044, 1205, 1064


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """A table that a task reads in one snapshot: whole, or the parts that are named.

    target: the table that it writes files of. key: columns of the key, where it has one.
    """

    selecting: Selecting
    rules: RowRules
    target: FileTarget
    parts: tuple[RowCondition, ...] = (_ALL,)
    key: tuple[str, ...] = ()


def read_snapshot(task: SnapshotTask) -> Iterator[Position | DataFile | FilteredRows]:
    """The position of the snapshot, the files with its rows, and what rules have filtered."""
    loaded = task.rules.judge()
    with open_snapshot(task.selecting, task.parts) as (position, changes):
        yield position
        rows = (loaded.masked(with_raw(loaded.remaining(batch), task.key, task.selecting)) for batch in changes)
        yield from files_of(task.target, rows)
    yield from loaded.filtered


def engine_without_snapshots(server: Server, name: TableName) -> str | None:
    """The engine of a table that cannot be read in a snapshot; None where it can be. Raises SourceError."""
    query = f"SELECT ENGINE engine FROM information_schema.TABLES WHERE {is_table(name.schema, name.table)}"
    with server.connect() as connection:
        engine = next((row["engine"] for row in server.ask(connection, query)), None)
    return None if str(engine).upper() == "INNODB" else str(engine)


def require_lock(server: Server, names: Sequence[TableName]) -> None:
    """Check that the user may lock tables, where their server names no position of a snapshot. No table is locked.

    Raises AccessDenied, with a GRANT for each schema in which the user may not.
    """
    by_schema = dict[str, TableName]()
    for name in names:
        by_schema.setdefault(name.schema, name)
    with server.connect() as connection:
        if server.ask(connection, "SHOW STATUS LIKE 'binlog_snapshot_file'"):
            return
        denied = [schema for schema in by_schema if not _may_lock(connection, schema)]
        if denied:
            user = next(iter(server.ask(connection, "SELECT CURRENT_USER()")[0].values()))
            raise AccessDenied(_denied(f"{server.name}: {by_schema[denied[0]]}", denied, user))


def _may_lock(connection: "pymysql.Connection[DictCursor]", schema: str) -> bool:
    """True if the user may lock tables of a schema: the privilege is looked at before the table's name is."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLES {identifier(schema)}.{identifier(_NO_TABLE)} READ")
    except pymysql.MySQLError as error:
        return error_number(error) != _DENIED
    return True


@contextmanager
def open_snapshot(
    selecting: Selecting, parts: Sequence[RowCondition] = (_ALL,)
) -> Iterator[tuple[Position, Iterator[Changes]]]:
    """A snapshot of a table: its position in the server's log, and the rows of parts, all of them by default.

    Raises SourceError.
    """
    with selecting.errors(), selecting.connected() as reading:
        _query(reading, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        _query(reading, _BEGIN)
        position = _named_position(reading)
        if position is None:
            position = _locked_position(selecting, reading)
        # Whoever changes the table's columns waits for a transaction that has touched it.
        _touch(selecting, reading)
        yield position, chain.from_iterable(selecting.rows(reading, part) for part in parts)


def _named_position(reading: Connection) -> Position | None:
    """The position of the transaction's snapshot; None where the server does not name it."""
    rows = _query(reading, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    values = {name.decode().lower(): value.decode() for name, value in rows}
    file = values.get("binlog_snapshot_file")
    return Position(file, int(values["binlog_snapshot_position"])) if file else None


def _locked_position(selecting: Selecting, reading: Connection) -> Position:
    """Open the snapshot again while nobody writes to the table, and return where the log ends meanwhile."""
    with selecting.connected() as locking:
        _lock(selecting, locking)
        _query(reading, _BEGIN)
        _touch(selecting, reading)
        position = _log_end(locking)
        _query(locking, "UNLOCK TABLES")
    return position


def _log_end(locking: Connection) -> Position:
    """Position where the log ends; MySQL 8.4 renamed the statement."""
    try:
        ((file, offset, *_),) = _query(locking, "SHOW BINARY LOG STATUS")
    except pymysql.MySQLError as error:
        if error_number(error) != _NO_SUCH_COMMAND:
            raise
        ((file, offset, *_),) = _query(locking, "SHOW MASTER STATUS")
    return Position(file.decode(), int(offset))


def _lock(selecting: Selecting, locking: Connection) -> None:
    """Lock the table against writers. Raises SourceError where the user may not, or writers do not end."""
    _query(locking, f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
    for attempt in range(1, _TRIES + 1):
        try:
            _query(locking, f"LOCK TABLES {selecting.key.table} READ")
        except pymysql.MySQLError as error:
            number = error_number(error)
            if number == _DENIED:
                ((user,),) = _query(locking, "SELECT CURRENT_USER()")
                label = f"{selecting.source}: {selecting.definition.name}"
                raise AccessDenied(_denied(label, [selecting.key.schema], user.decode())) from error
            if number != _TIMED_OUT:
                raise
            if attempt == _TRIES:
                raise SourceError(_unended(selecting)) from error
            time.sleep(_PAUSE)
        else:
            return


def _unended(selecting: Selecting) -> str:
    return (
        f"{selecting.source}: {selecting.definition.name}: is locked against writers for the moment in which its "
        f"snapshot is opened, and a transaction that wrote to it has not ended within {_LOCK_SECONDS * _TRIES} s; try "
        "again once it has"
    )


def _denied(label: str, schemas: Sequence[str], user: str) -> str:
    grantee = account(user)
    listed = f".* TO {grantee}; GRANT LOCK TABLES ON ".join(map(identifier, schemas))
    return (
        f"{label}: is locked against writers for the moment in which its snapshot is opened, and the user may not do "
        f"that; GRANT LOCK TABLES ON {listed}.* TO {grantee}"
    )


def _touch(selecting: Selecting, reading: Connection) -> None:
    _query(reading, f"SELECT 1 FROM {selecting.key.table} LIMIT 1")


def _query(connection: Connection, statement: str) -> tuple[tuple[bytes, ...], ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())
