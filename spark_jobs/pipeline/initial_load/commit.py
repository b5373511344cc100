"""Commits of rows that are being loaded: a Delta table for each table, and the progress of its load.

Put here: what such a table's commits say. Not here: reading rows, or what becomes of them (load.py).

Every commit holds the rows of some ranges of the key and, in its metadata, up to which key the table has been read: so
a load that ends anywhere continues there. Nobody else reads these rows; they are removed once silver has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.ddl.definitions import from_json, to_json
from spark_jobs.lake.commit import LIST, POSITION, Checkpoint, CommitKind, JsonForm, member, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.key_ranges import Boundary

READING = "reading"
READ = "read"
LOADED = "loaded"
STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCommit(Checkpoint):
    """Progress of the load of one table; its position is the one in the log that rows count from."""

    state: str = field(metadata=member("state"))
    """READING; READ: all of it, and the log has to pass ``read_to``; LOADED; STOPPED, for ``reason``."""
    read_from: Position = field(metadata=member("read_from", POSITION))
    """Position where the log ended when reading began."""
    definition: TableDefinition = field(metadata=member("definition", JsonForm(to_json, from_json)))
    chunk_rows: int = field(metadata=member("chunk_rows"))
    estimate: int | None = field(default=None, metadata=member("estimate", is_always=True))
    """Rows of the table, as the server guesses."""
    chunks: int = field(default=0, metadata=member("chunks", is_always=True))
    rows: int = field(default=0, metadata=member("rows", is_always=True))
    """Read so far; known once all are."""
    after: Boundary | None = field(default=None, metadata=member("after", LIST, is_always=True))
    """The last key of the ranges read; none where rules hide the key."""
    is_walked: bool = field(default=False, metadata=member("is_walked", is_always=True))
    """True if the last range was read."""
    read_to: Position | None = field(default=None, metadata=member("read_to", POSITION, is_always=True))
    """Position where the log ended when reading ended."""
    reason: str | None = field(default=None, metadata=member("reason", is_always=True))
    gtids: str | None = field(default=None, metadata=member("gtids", is_always=True))
    """All transactions up to ``read_to``, where the source may continue with another log that has them elsewhere."""
    is_snapshot: bool = field(default=False, metadata=member("snapshot"))
    """True if rows are those that the table had at ``position``, read in one transaction, since it has no key."""
    rule_digests: Mapping[str, str] | None = field(default=None, metadata=member("rule_prints"))
    """Identifier of the rules that the rows were judged and masked by; None without rules."""
    filtered: Mapping[str, int] | None = field(default=None, metadata=member("left_out"))
    """Number of rows that each rule filtered. Of rows that Spark wrote, those of the commits before."""

    @property
    def since(self) -> Position:
        """The position in the log that rows count from; all before it was committed."""
        return self.position

    @property
    def is_open(self) -> bool:
        """True if a load continues with it."""
        return self.state in {READING, READ}

    def next(self) -> "LoadCommit":
        """The same as a commit of its own."""
        return replace(self, batch=new_batch(), kind=CommitKind.LIVE)

    def stopped(self, reason: str) -> "LoadCommit":
        return replace(self, state=STOPPED, reason=reason)


def progress(lake: Lake, source: str, name: TableName) -> LoadCommit | None:
    """Progress of a table's load, without a JVM; None where there was none. Raises LakeError."""
    return LoadCommit.of_head(lake.load(source, name.schema, name.table).head())
