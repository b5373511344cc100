"""Rules about statements on a table: which filter a statement, and which stop the table.

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
from spark_jobs.silver.timeline.statements import leaves_rows
from spark_jobs.silver.timeline.timeline import Timeline

_EVENTS = {
    "TRUNCATE": TRUNCATE_TABLE,
    "CREATE": CREATE_TABLE,
    "ALTER": ALTER_TABLE,
    "RENAME": RENAME_TABLE,
    "DROP": DROP_TABLE,
}
"""Statements as rules name them, by their verb."""


def filtered_by(timeline: Timeline, event: LoggedStatement) -> str | None:
    """The rule that leaves a statement out. Raises TableStopped where one stops the table."""
    judged = None if leaves_rows(timeline, event) else _judged(timeline, event)
    if judged is None:
        return None
    name, action = judged
    if action == "stop":
        raise timeline.refusal(event, f"is to stop the table, by {name}")
    if _kind(event) in FOLLOWED:
        raise timeline.refusal(event, f"is filtered by {name}, and cannot be: the rows after it have its columns")
    return name


def is_ignored(timeline: Timeline, event: LoggedStatement) -> bool:
    """True if a rule leaves a statement out, before the first row of the table: none is refused there."""
    judged = _judged(timeline, event)
    return judged is not None and judged[1] == "ignore"


def require_no_filters(timeline: Timeline, event: LoggedStatement, does: str, was: TableName) -> None:
    """Check that no rules apply to inherited rows, or to rows that the name had. Raises TableStopped."""
    of = timeline.inputs.filters.of
    rules = sorted({rule for table in (was, timeline.name) for rule in of(table.schema, table.table).names()})
    if rules:
        raise timeline.refusal(
            event, f"{does}, and {', '.join(rules)} would have to judge them, which is not supported"
        )


def _judged(timeline: Timeline, event: LoggedStatement) -> tuple[str, Action] | None:
    """The rule that is about a statement, and what it wants."""
    filters = timeline.inputs.filters.of(timeline.name.schema, timeline.name.table)
    return filters.statement(_kind(event), event.statement.text)


def _kind(event: LoggedStatement) -> str:
    """A statement's kind, as rules name it."""
    return DROP_DATABASE if event.statement.schemas else _EVENTS[event.statement.verb.split()[0]]
