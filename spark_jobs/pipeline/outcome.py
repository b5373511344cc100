"""Result of a run for the tables of a source.

Put here: the value that each layer's run returns and the next one takes. Not here: what makes it (run.py, backfill/).
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from spark_jobs.binlog import TableName
from spark_jobs.config import known_tables
from spark_jobs.downstream.merge_job import Merged
from spark_jobs.downstream.publication import Entry
from spark_jobs.log.position import Position
from spark_jobs.pipeline.destinations import TableInto
from spark_jobs.silver.compaction_job import Compacted


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one layer's run for a source's tables. ``stopped`` says why, by table."""

    entries: list[Entry]
    position: Position | None
    compacted: list[Compacted] = field(default_factory=list)
    merged: list[Merged] = field(default_factory=list)
    stopped: dict[TableName, str] = field(default_factory=dict)
    stopped_into: dict[TableInto, str] = field(default_factory=dict)
    """Reasons why tables stopped on their way downstream, by source table and downstream table: others may continue."""
    new: set[known_tables.SeenTable] = field(default_factory=set)
    waiting: dict[TableName, Position] = field(default_factory=dict)
    """Child tables whose changes by foreign keys are derived up to a position, and further once that is merged."""

    derived: dict[TableName, int] = field(default_factory=dict)
    """Changes of child tables that were derived from foreign keys (``on_cascade: apply``)."""
    found: list[Entry] = field(default_factory=list)
    """Entries that were published of the source's tables when the run began with them."""

    def then(self, later: "Outcome") -> "Outcome":
        """Outcome of this run and the one after it as one."""
        return replace(
            later,
            compacted=[*self.compacted, *later.compacted],
            merged=[*self.merged, *later.merged],
            new=self.new | later.new,
            derived=Counter(self.derived) + Counter(later.derived),
        )


def why_waiting(position: Position) -> str:
    """Reason why a child table's rows are those of a position, where a run left it waiting there."""
    return (
        f"it waits at {position} for a table that foreign keys join it with, which has stopped; the reason is that "
        "table's, in stratalog status"
    )
