"""Transactions at the target that commit once: retried after a conflict, looked up after a lost connection.

Put here: a transaction with the statement that moves the progress row, and what becomes of it; statements that commit
by themselves. Not here: its rows' statements (statements.py), or the progress row (progress.py).

Where the answer to COMMIT is lost, the row tells whether it was carried out: it is read with a lock, so that a
transaction that the server is still committing is waited for. A transaction that is sent again ends by a statement
that changes nothing if the first one was committed, and is rolled back then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import pymysql

from spark_jobs.delivery import progress as rows_of
from spark_jobs.delivery.progress import Progress, TableId
from spark_jobs.delivery.statements import RowStatement
from spark_jobs.delivery.target import Connection
from spark_jobs.errors import DeliveryError, LostRace
from spark_jobs.source.connection import error_number, may_pass


@dataclass(frozen=True, slots=True)
class TargetTransaction:
    """Statements of rows, and the statement of the progress row that they are committed with.

    is_committed: whether a progress row says that it was committed.
    """

    table: TableId
    statements: Sequence[RowStatement]
    progress: str
    is_committed: Callable[[Progress], bool]


def commit(connection: Connection, work: TargetTransaction, fence: int) -> bool:
    """Commit a transaction; False where it had been committed before. Raises DeliveryError, LostRace."""
    attempts = count()

    def attempt() -> bool:
        if next(attempts) and _is_committed(connection, work, fence):
            return False
        return _attempt(connection, work, fence)

    return connection.retried(attempt, str(work.table))


def execute_alone(connection: Connection, table: TableId, fence: int, statement: str) -> None:
    """Execute a statement that commits by itself; never after another run took the table over.

    The row of progress has the session for as long as the server may execute it, and whoever executes the next one, or
    takes the table over, waits for its end. Raises DeliveryError, LostRace, MySQLError, OSError.
    """
    progress = _own_row(connection, table, fence)
    if progress.session is not None:
        rows_of.outlast(connection, table, fence, progress.session)
    if connection.execute(rows_of.begin_statement_sql(table, fence, connection.session)) != 1:
        raise _lost_race(connection, table)
    try:
        connection.execute(statement)
    except (pymysql.MySQLError, OSError) as error:
        if may_pass(error):  # the server may be at it still
            connection.close()
        else:
            connection.execute(rows_of.end_statement_sql(table, fence))
        raise
    connection.execute(rows_of.end_statement_sql(table, fence))


def _attempt(connection: Connection, work: TargetTransaction, fence: int) -> bool:
    connection.execute("START TRANSACTION")
    for statement in work.statements:
        execute(connection, statement)
    if connection.execute(work.progress) == 1:
        connection.execute("COMMIT")
        return True
    connection.execute("ROLLBACK")
    if _is_committed(connection, work, fence):
        return False
    raise DeliveryError(
        f"{connection.label}: {work.table}: its row in {rows_of.TABLE} is not as this run left it; nothing of this "
        "transaction is at the target. Run again; do not change that table by hand"
    )


def execute(connection: Connection, statement: RowStatement) -> None:
    """Execute a statement and check the target's answer. Raises DeliveryError: then nothing is committed."""
    try:
        affected = connection.execute(statement.text)
    except pymysql.MySQLError as error:
        collision = statement.collision(connection.label, error_number(error), str(error.args[-1]))
        if collision is None:
            raise
        raise collision from error
    statement.require(connection.label, affected, connection.info)


def _is_committed(connection: Connection, work: TargetTransaction, fence: int) -> bool:
    """True if the target has committed the transaction. Raises LostRace if another deliverer took the table over."""
    return work.is_committed(_own_row(connection, work.table, fence))


def _own_row(connection: Connection, table: TableId, fence: int) -> Progress:
    """The table's row of progress under this deliverer's fence.

    Raises LostRace if another deliverer took the table over.
    """
    progress = rows_of.stored_progress(connection, table)
    if progress is None or progress.fence != fence:
        raise _lost_race(connection, table)
    return progress


def _lost_race(connection: Connection, table: TableId) -> LostRace:
    return LostRace(
        f"{connection.label}: {table}: another run delivers the table since; nothing of this transaction is at the "
        "target, and that run delivers what this one had to"
    )
