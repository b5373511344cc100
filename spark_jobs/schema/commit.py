"""Metadata of a schema history's commits besides their position.

Put here: their fields. Not here: the history's rows (history_rows.py), or when it is written (history.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.lake.commit import POSITION, Checkpoint, JsonForm, member
from spark_jobs.log.position import Position

_FACTS = JsonForm(ServerFacts.to_note, ServerFacts.from_note)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCommit(Checkpoint):
    """A commit of a source's schema history, which is complete up to its position."""

    begin: Position = field(metadata=member("begin", POSITION))
    """Position where the history begins."""
    asked_at: Position | None = field(default=None, metadata=member("asked", POSITION))
    """Position where a server was asked last for its tables' definitions."""
    completes_log: bool | None = field(default=None, metadata=member("completes"))
    """True if that completes its log, which leaves out what only the server tells."""
    dump: str | None = field(default=None, metadata=member("dump"))
    """Schema dump that is in the history."""
    charsets: Mapping[str, str | None] | None = field(default=None, metadata=member("charsets"))
    """Character set by schema of tables that name none, or a collation of it, as statements in the log told it."""
    facts: ServerFacts | None = field(default=None, metadata=member("facts", _FACTS))
    """Declarations of the server that its log may not tell."""
