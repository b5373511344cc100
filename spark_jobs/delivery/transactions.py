"""Transactions at the target that commit once: retried where they conflict, looked up where the server was lost.

Put here: a transaction with the statement that moves the progress row, and what becomes of it. Not here: its rows'
statements (statements.py), or the progress row (progress.py).

Where the answer to COMMIT is lost, the row tells whether it was carried out: it is read with a lock, so that a
transaction that the server is still committing is waited for. A transaction that is sent again ends by a statement
that changes nothing if the first one was committed, and is rolled back then.
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pymysql

from spark_jobs.delivery import progress as rows_of
from spark_jobs.delivery.progress import Progress, TableId
from spark_jobs.delivery.target import CONFLICTS, Connection
from spark_jobs.errors import DeliveryError, LostRace
from spark_jobs.source.connection import error_number, may_pass

log = logging.getLogger(__name__)

ATTEMPTS = 8
"""How often a transaction is sent: for about half a minute."""
_FIRST_WAIT = 0.25
"""Seconds; doubled with each further attempt."""


@dataclass(frozen=True, slots=True)
class TargetTransaction:
    """Statements of rows, and the statement of the progress row that they are committed with.

    is_committed: whether a progress row says that it was committed.
    """

    table: TableId
    statements: Sequence[bytes]
    progress: str
    is_committed: Callable[[Progress], bool]


def commit(connection: Connection, work: TargetTransaction, fence: int) -> bool:
    """Commits a transaction; False where it had been committed before. Raises DeliveryError, LostRace."""
    for attempt in range(ATTEMPTS):
        try:
            if attempt and _is_committed(connection, work, fence):
                return False
            return _attempt(connection, work, fence)
        except (pymysql.MySQLError, OSError, DeliveryError) as error:
            connection.close()
            if not _may_succeed(error) or attempt == ATTEMPTS - 1:
                raise connection.error(error, str(work.table)) from error
            log.warning("%s; trying again", connection.error(error, str(work.table)))
            time.sleep(_FIRST_WAIT * 2**attempt * random.uniform(0.5, 1.0))  # noqa: S311 - so that two do not meet again
    raise AssertionError("the last attempt returns or raises")


def _attempt(connection: Connection, work: TargetTransaction, fence: int) -> bool:
    connection.execute("START TRANSACTION")
    for statement in work.statements:
        connection.execute(statement)
    if connection.execute(work.progress) == 1:
        connection.execute("COMMIT")
        return True
    connection.execute("ROLLBACK")
    if _is_committed(connection, work, fence):
        return False
    raise DeliveryError(
        f"{connection.place}: {work.table}: its row in {rows_of.TABLE} is not as this run left it; nothing of this "
        "transaction is at the target. Run again; do not change that table by hand"
    )


def _is_committed(connection: Connection, work: TargetTransaction, fence: int) -> bool:
    """Raises LostRace where another deliverer took the table over."""
    progress = rows_of.stored(connection, work.table)
    if progress is None or progress.fence != fence:
        raise LostRace(
            f"{connection.place}: {work.table}: another run delivers the table since; nothing of this transaction is "
            "at the target, and that run delivers what this one had to"
        )
    return work.is_committed(progress)


def _may_succeed(error: BaseException) -> bool:
    cause = error.__cause__ if isinstance(error, DeliveryError) else error
    return cause is not None and (error_number(cause) in CONFLICTS or may_pass(cause))
