"""Metadata of commits of downstream tables besides their position, and of the tables beside them.

Put here: their fields. Not here: which parts a table of several has (multi_source.py), or what order times are
(commit_clock.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_jobs.config.modes import Mode
from spark_jobs.lake.commit import LIST, POSITION, Checkpoint, list_of, member, object_of
from spark_jobs.log.position import Position
from spark_jobs.silver.commit import TableCommit


@dataclass(frozen=True, slots=True)
class PartEntry:
    """Entry of one source table's part in a commit of a table of several."""

    source: str = field(metadata=member("source"))
    schema: str = field(metadata=member("schema"))
    table: str = field(metadata=member("table"))
    position: Position = field(metadata=member("position", POSITION))
    silver_version: int = field(metadata=member("silver_version"))
    is_complete: bool = field(metadata=member("complete"))
    shape: int = field(metadata=member("shape"))
    """Index of its columns among the commit's ``shapes``."""
    keys_never_whole: int = field(default=0, metadata=member("keys_never_whole"))
    key: tuple[str, ...] = field(default=(), metadata=member("key", LIST))
    """The columns of its key, where parts have keys in common."""
    silver_batch: str | None = field(default=None, metadata=member("silver_batch"))
    """Commit of the version of silver; None where an earlier version of the program did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamCommit(TableCommit):
    """A commit that merged silver rows of a source table, or changed the columns for it."""

    silver_version: int = field(metadata=member("silver_version"))
    """The version of silver that was merged."""
    silver_batch: str | None = field(default=None, metadata=member("silver_batch"))
    """Commit of that version: a table that was restored has other commits under the same numbers. None where an
    earlier version of the program did not say."""
    source: str | None = field(default=None, metadata=member("source"))
    table: str | None = field(default=None, metadata=member("table"))
    keys_never_whole: int = field(default=0, metadata=member("keys_never_whole"))
    """Keys without a row because no row image of theirs was whole."""
    columns: Mapping[str, str] | None = field(default=None, metadata=member("columns"))
    """Columns of a part, by name and type, on the way to the commit of its table; ``key`` has the part's key."""
    key: tuple[str, ...] | None = field(default=None, metadata=member("key", LIST))
    parts: tuple[PartEntry, ...] | None = field(default=None, metadata=member("parts", list_of(object_of(PartEntry))))
    """Parts of a table of several source tables, one of each; None for other tables."""
    shapes: tuple[Mapping[str, str], ...] | None = field(default=None, metadata=member("shapes", LIST))
    """The columns of parts, by name and type; those that several have alike stand there once."""
    key_sharing: str | None = field(default=None, metadata=member("keys"))
    """``shared`` where equal keys of its parts are one row."""
    mode: str = field(default=Mode.MIRROR.value, metadata=member("mode"))
    """Mode of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockCommit(Checkpoint):
    """A commit of a source's order times, up to its position."""

    begin: Position = field(metadata=member("begin", POSITION))
    """Position from which on they are known."""
    reached: int | None = field(default=None, metadata=member("reached", is_always=True))
    """The greatest of them, in microseconds since 1970; None where nothing was committed."""
    has_late: bool = field(default=False, metadata=member("late", is_always=True))
    """True if the table may hold any late transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCommit(Checkpoint):
    """A commit that published what a run of a source left."""

    source: str = field(metadata=member("source"))
