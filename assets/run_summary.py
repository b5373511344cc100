"""Summary of a run in one line: a tag of the run, which the list of runs shows.

Put here: the tag, and the words for each kind of work. Not here: numbers of one table (checkpoint.py).
"""

from typing import TYPE_CHECKING, Any

from spark_jobs.text.counts import counted

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.delivery.deliver import DeliveryOutcome
    from spark_jobs.pipeline.outcome import Outcome

NOTHING_NEW = "nothing new"
_LISTED = 3
"""Tables that a line names."""


def tag_run(context: Any, subject: str, did: str) -> None:
    """Tag a run with its effect on a source or a delivery: ``did/shop`` = ``3 changes in 2 tables: …``."""
    context.instance.add_run_tags(context.run.run_id, {f"did/{subject}": did})


def changes_summary(outcome: "Outcome | None") -> str:
    """A line about a run that processes log."""
    changes = sum(table.changes for table in outcome.compacted) if outcome else 0
    compacted = {str(table.name) for table in outcome.compacted} if outcome else set()
    names = compacted | ({str(table.name) for table in outcome.merged} if outcome else set())
    if not names:
        return NOTHING_NEW
    return f"{counted(changes, 'change')} in {_table_count_text(names)}"


def delivery_summary(outcome: "DeliveryOutcome") -> str:
    """A line about a delivery."""
    delivered = [table for table in outcome.tables if table.rows]
    rows = sum(table.rows for table in delivered)
    names = {str(table.table) for table in delivered}
    return f"delivered {counted(rows, 'row')} of {_table_count_text(names)}" if rows else NOTHING_NEW


def _table_count_text(names: set[str]) -> str:
    listed = ", ".join(sorted(names)[:_LISTED])
    rest = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return f"{counted(len(names), 'table')}: {listed}{rest}" if names else counted(0, "table")
