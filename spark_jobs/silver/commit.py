"""Metadata of silver commits besides their position.

Put here: their fields. Not here: how a table stands, which follows from some of them (table_timeline.py), or what
commits of downstream tables say (downstream/commit.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from spark_jobs.binlog import TableDefinition
from spark_jobs.ddl.definitions import from_json, to_json
from spark_jobs.lake.commit import LIST, POSITION, RANGES, Checkpoint, Head, JsonForm, list_of, member, object_of
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.retired_columns import RetiredColumn

_DEFINITION = JsonForm(to_json, lru_cache(maxsize=4096)(from_json))
"""A run reads the same definition many times: commits of a table repeat it."""
_RETIRED = list_of(JsonForm(RetiredColumn.to_note, RetiredColumn.from_note))
NOT_FOLDED: Literal[""] = ""
"""Mark of windows that were folded, but are not any more: the table was rebuilt."""
_FLOOR = JsonForm(str, lambda text: Position.parse(text) if text else NOT_FOLDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit(Checkpoint):
    """Common part of commits of silver and of downstream tables."""

    start: Position | None = field(default=None, metadata=member("start", POSITION))
    """Position where the log begins that the commit is of; it ends at its position."""
    is_complete: bool | None = field(default=None, metadata=member("complete"))
    """True if the table has the rows from before the log began, where any were. None: not known."""
    is_numbered: bool = field(default=False, metadata=member("numbered"))
    """True if nothing names the table's columns, and they are called by their numbers."""


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """Rows that an initial load read, and where the log ended when reading began and ended."""

    rows: int = field(metadata=member("rows"))
    read_from: Position = field(metadata=member("read_from", POSITION))
    read_to: Position | None = field(metadata=member("read_to", POSITION))
    batch: str | None = field(default=None, metadata=member("batch"))
    """Commit of the load that said that all were read. None where an earlier version of the program did not say."""


@dataclass(frozen=True, slots=True)
class MendedRows:
    """Rows that a mend changed, and the position of the snapshot in which it read them."""

    at: Position = field(metadata=member("at", POSITION))
    inserted: int = field(metadata=member("inserted"))
    updated: int = field(metadata=member("updated"))
    deleted: int = field(metadata=member("deleted"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SilverCommit(TableCommit):
    """A commit of a silver table: a window, a statement, loaded or mended rows, windows compacted again."""

    bronze_version: int | None = field(default=None, metadata=member("bronze_version"))
    log_bytes: int | None = field(default=None, metadata=member("log_bytes"))
    """Bytes of log that its rows were decoded from."""
    resets: int = field(default=0, metadata=member("resets"))
    """Number of times that the table was rebuilt from bronze."""
    key: tuple[str, ...] | None = field(default=None, metadata=member("key", LIST))
    rules: tuple[str, ...] | None = field(default=None, metadata=member("rules", LIST))
    """Names of the rules that the rows were made by. None: the table was never under rules."""
    rule_digests: Mapping[str, str] | None = field(default=None, metadata=member("rule_prints"))
    known_columns: tuple[str, ...] | None = field(default=None, metadata=member("columns_known", LIST))
    """Names, in small letters, of the columns that a table under rules has or had."""
    filtered: Mapping[str, int] | None = field(default=None, metadata=member("left_out"))
    """Number of changes and statements that each rule kept out."""
    definition: TableDefinition | None = field(default=None, metadata=member("definition", _DEFINITION, is_always=True))
    is_dropped: bool = field(default=False, metadata=member("dropped", is_always=True))
    emptied_at: Position | None = field(default=None, metadata=member("emptied", POSITION, is_always=True))
    """The last statement that emptied the table: what was written before counts no more."""
    keeps_dropped_rows: bool = field(default=False, metadata=member("kept"))
    """True if a rule kept the table's DROP out, so that its rows stay when it is created again."""
    retired_columns: tuple[RetiredColumn, ...] = field(default=(), metadata=member("kept_columns", _RETIRED))
    is_overwrite: bool = field(default=False, metadata=member("renewed"))
    """True if it replaced all rows and the columns."""
    has_unknown_columns: bool = field(default=False, metadata=member("bare"))
    """True in a commit that replaced all rows if nothing tells the table's columns, and those that it still has count
    for nothing."""
    inherited_from: str | None = field(default=None, metadata=member("carried"))
    """Earlier name of the table whose rows a statement brought, or its own name for its own rows; None where it brought
    none."""
    folded_to: Position | Literal[""] | None = field(default=None, metadata=member("folded", _FLOOR))
    """Position up to which windows were folded into one, and cannot be compacted again; it stands until a commit says
    another position, or ``NOT_FOLDED``."""
    steps: tuple[str, ...] | None = field(default=None, metadata=member("steps", LIST))
    """Effects of a statement on the columns, step by step."""
    ranges: tuple[Range, ...] = field(default=(), metadata=member("ranges", RANGES))
    """The windows that were replaced."""
    loaded: LoadedRows | None = field(default=None, metadata=member("load", object_of(LoadedRows)))
    mended: MendedRows | None = field(default=None, metadata=member("mend", object_of(MendedRows)))

    @property
    def floor(self) -> Position | None:
        """Windows before it were folded into one; None where none were."""
        return self.folded_to or None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the table's key; none of a keyless table."""
        assert self.key is not None, "every commit of a silver table names its key"
        return self.key


def is_complete(head: Head) -> bool:
    """True if a silver or downstream table has the rows from before its log begins, if there were any."""
    commit = TableCommit.of_head(head)
    return bool(commit and commit.is_complete)
