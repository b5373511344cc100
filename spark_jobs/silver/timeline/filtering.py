"""Rules of the configuration about statements on a table: which leave one out, and which stop the table.

Put here: what a rule does to a statement. Not here: rules as values (config/filters.py), rules about rows
(silver/row_filters.py).
"""

from spark_jobs.binlog import TableName
from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.config.filters import (
    ALTER_TABLE,
    CREATE_TABLE,
    DROP_DATABASE,
    DROP_TABLE,
    FOLLOWED,
    RENAME_TABLE,
    TRUNCATE_TABLE,
    Action,
)
from spark_jobs.silver.timeline.progress import TimelineProgress
from spark_jobs.silver.timeline.statements import leaves_rows

_EVENTS = {
    "TRUNCATE": TRUNCATE_TABLE,
    "CREATE": CREATE_TABLE,
    "ALTER": ALTER_TABLE,
    "RENAME": RENAME_TABLE,
    "DROP": DROP_TABLE,
}
"""Statements as rules name them, by their verb."""


def filtered_by(progress: TimelineProgress, event: LoggedStatement) -> str | None:
    """The rule that leaves a statement out. Raises TableStopped where one stops the table."""
    judged = None if leaves_rows(progress, event) else _judged(progress, event)
    if judged is None:
        return None
    name, action = judged
    if action == "stop":
        raise progress.refusal(event, f"is to stop the table, by {name}")
    if _kind(event) in FOLLOWED:
        raise progress.refusal(event, f"is filtered by {name}, and cannot be: the rows after it have its columns")
    return name


def is_ignored(progress: TimelineProgress, event: LoggedStatement) -> bool:
    """True if a rule leaves a statement out, before the first row of the table: none is refused there."""
    judged = _judged(progress, event)
    return judged is not None and judged[1] == "ignore"


def require_no_filters(progress: TimelineProgress, event: LoggedStatement, does: str, was: TableName) -> None:
    """Raises TableStopped where rules are about rows that are taken over, or that the name had."""
    of = progress.inputs.filters.of
    rules = sorted({rule for table in (was, progress.name) for rule in of(table.schema, table.table).names()})
    if rules:
        raise progress.refusal(event, f"{does}, and {', '.join(rules)} would have to judge them: not done yet")


def _judged(progress: TimelineProgress, event: LoggedStatement) -> tuple[str, Action] | None:
    """The rule that is about a statement, and what it wants."""
    filters = progress.inputs.filters.of(progress.name.schema, progress.name.table)
    return filters.statement(_kind(event), event.statement.text)


def _kind(event: LoggedStatement) -> str:
    """A statement's kind, as rules name it."""
    return DROP_DATABASE if event.statement.schemas else _EVENTS[event.statement.verb.split()[0]]
