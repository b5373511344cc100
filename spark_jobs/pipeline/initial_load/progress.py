"""Rows that are being loaded: a Delta table for each table, and how far its load has come.

Put here: what such a table's commits say. Not here: reading rows, or what becomes of them (load.py).

Every commit holds the rows of some ranges of the key and, in its metadata, up to which key the table has been read: so
a load that ends anywhere goes on there. Nobody else reads these rows; they are removed once silver has them.
"""

from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.ddl.definitions import from_json, to_json
from spark_jobs.lake.commit import Checkpoint, Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.key_ranges import Boundary

READING = "reading"
READ = "read"
LOADED = "loaded"
STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the load of one table has come.

    state: READING; READ: all of it, and the log has to pass ``read_to``; LOADED; STOPPED, for ``reason``.
    since: the place in the log that rows count from; all before it was committed. read_from, read_to: where the log
    ended when reading began and ended. after: the last key of the ranges read; is_walked: the last range was read.
    rows: read so far, known once all are. estimate: rows, as the server guesses.
    """

    state: str
    since: Position
    read_from: Position
    definition: TableDefinition
    chunk_rows: int
    estimate: int | None = None
    chunks: int = 0
    rows: int = 0
    after: Boundary | None = None
    is_walked: bool = False
    read_to: Position | None = None
    reason: str | None = None
    gtids: str | None = None
    """All transactions up to ``read_to``, where the source may go on with another log that has them elsewhere."""

    @property
    def is_open(self) -> bool:
        """Whether a load goes on with it."""
        return self.state in {READING, READ}

    def checkpoint(self) -> Checkpoint:
        """As it stands in a commit."""
        notes: dict[str, Any] = {
            "state": self.state,
            "read_from": str(self.read_from),
            "definition": to_json(self.definition),
            "chunk_rows": self.chunk_rows,
            "estimate": self.estimate,
            "chunks": self.chunks,
            "rows": self.rows,
            "after": self.after and list(self.after),
            "is_walked": self.is_walked,
            "read_to": self.read_to and str(self.read_to),
            "reason": self.reason,
            "gtids": self.gtids,
        }
        return Checkpoint(self.since, new_batch(), notes=notes)

    @classmethod
    def of(cls, head: Head | None) -> "Progress | None":
        """None where nothing of the table was ever loaded."""
        if head is None or head.checkpoint is None:
            return None
        notes = head.checkpoint.notes
        return cls(
            notes["state"],
            head.checkpoint.position,
            Position.parse(notes["read_from"]),
            from_json(notes["definition"]),
            notes["chunk_rows"],
            notes["estimate"],
            notes["chunks"],
            notes["rows"],
            notes["after"] and tuple(notes["after"]),
            notes["is_walked"],
            notes["read_to"] and Position.parse(notes["read_to"]),
            notes["reason"],
            notes.get("gtids"),
        )

    def stopped(self, reason: str) -> "Progress":
        return replace(self, state=STOPPED, reason=reason)


def progress(lake: Lake, source: str, name: TableName) -> Progress | None:
    """How far a table's load has come, without a JVM; None where there was none. Raises LakeError."""
    return Progress.of(lake.load(source, name.schema, name.table).head())
