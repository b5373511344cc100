"""Work of compacting a table, and its result.

Put here: the job of one table (its window, steps, filters and the silver head that it is planned upon), and what its
commits say. Not here: who plans it (pipeline/planner.py), or who does it (engine/silver/silver_job.py).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.xa import NO_XA, Xa
from spark_jobs.config.filters import TableFilters
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Head, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import masking
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.retired_columns import RetiredColumn, names_of, types_of
from spark_jobs.silver.row_filters import ChangeFilters
from spark_jobs.silver.table_timeline import (
    Ended,
    SchemaChange,
    TableState,
    TimelineStep,
)


@dataclass(frozen=True, slots=True)
class Compacted:
    """Addition of one window to a silver table: rows by net operation, and how many changes they came from."""

    source: str
    name: TableName
    range: Range
    head: Head
    changes: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    committed_at: datetime | None = None
    seconds: float = 0.0
    left_out: dict[str, int] = field(default_factory=dict)
    """Changes and statements that rules left out, by rule; ``changes`` does not count them."""
    stopped: Ended | None = None
    """Stop of the table, with everything before in silver; None where it continues."""

    @property
    def rows(self) -> int:
        return self.inserts + self.updates + self.deletes


@dataclass(frozen=True, slots=True)
class Window:
    """Ranges of bronze, at one Delta version, to compact for a table."""

    table: Table
    version: int
    ranges: tuple[Range, ...]
    oldest: Position | None = None
    """Position where the log begins that bronze holds."""
    xa: Xa = NO_XA
    """The XA transactions that it commits, and perhaps others."""
    cuts: frozenset[Position] = frozenset()
    """Positions where ranges begin or end that may lie inside a slice."""

    @property
    def extent(self) -> Range:
        return Range(self.ranges[0].start, self.ranges[-1].stop)


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """One table that has something to compact, and the silver head (None: no table yet) that it is planned upon."""

    source: str
    name: TableName
    window: Window
    steps: Sequence[TimelineStep]
    table: Table
    head: Head | None
    size: int
    """Bytes of log that the table's slices hold."""
    filters: TableFilters = field(default_factory=TableFilters)
    is_whole: bool = False
    """True if it is all that the table has of the log, replayed."""
    replay: Range | None = None
    """The statement by which the table has its name, where the rows that came with it are replayed."""
    has_partial: bool = False
    """True if silver takes rows that lack columns; row images that leave some out raise PartialImage otherwise."""
    is_undivided: bool = False
    """True if one task takes all slices: changes lack columns that others have, and raise PartialWindow otherwise."""
    earlier_bytes: int = 0
    """Bytes of the table's log before the window that tasks read, about: rules ask for columns that row images leave
    out, and raise ColumnLeftOut where changes before tell more."""
    reset: int = 0
    """Number of the rebuild. Its first commit replaces all that silver has of the table."""
    state: TableState | None = None
    """State of the table after the steps."""
    ended: Ended | None = None
    """Stop of the steps before the log ends, with the table stopped there."""

    def with_partial_flag(self) -> "CompactionJob":
        """Job with ``has_partial`` as the silver table is: whether partial row images have a column there."""
        return replace(self, has_partial=silver.ABSENT in self.table.columns())

    def __str__(self) -> str:
        return f"{self.source}: {self.name}"

    def part(self, log_range: Range) -> Window:
        return replace(self.window, ranges=(log_range,))

    def commit(
        self, within: Range, state: TableState, columns: silver.Columns, filtered: Mapping[str, int] | None = None
    ) -> SilverCommit:
        """The silver commit of a part of the log.

        Args:
            within: the part; the table is complete up to its end.
            state: how the table stands there.
            columns: those that it has then.
            filtered: by rule how many changes and statements it kept out.
        """
        commit = SilverCommit(
            within.stop,
            new_batch(),
            start=within.start,
            bronze_version=self.window.version,
            log_bytes=self.size,
            resets=self.reset or silver.reset_count(self.head),
            key=columns.key,
        )
        return state.in_commit(self._ruled(commit, filtered) if self.is_ruled else commit)

    @property
    def before(self) -> SilverCommit | None:
        """The commit that the work is planned upon; none where the table is rebuilt."""
        return None if self.reset else SilverCommit.of_head(self.head)

    def _ruled(self, commit: SilverCommit, filtered: Mapping[str, int] | None) -> SilverCommit:
        return replace(
            commit,
            rules=tuple(self.filters.names()),
            rule_digests=self.filters.prints(),
            known_columns=tuple(sorted(self.known_columns)),
            filtered=dict(filtered) if filtered else None,
        )

    @property
    def is_ruled(self) -> bool:
        """True if the table is, or was, under rules: then a window need not have left rows in silver."""
        before = self.before
        return bool(self.filters) or (before is not None and before.rule_digests is not None)

    @property
    def known_columns(self) -> frozenset[str]:
        """Names, in small letters, of the columns that the table has or had, as far as silver was told of rules."""
        before = self.before
        names = set(before.known_columns or ()) if before else set()
        for definition in (*(step.state.definition for step in self.steps), before and before.definition):
            names |= {str(column.name).casefold() for column in definition.columns} if definition else set()
        return frozenset(names)

    @property
    def is_reshaped(self) -> bool:
        """True if silver's rows were made by other rules about the columns."""
        before, has = self.before, self.filters.prints()
        had = (before.rule_digests if before else None) or {}
        return bool(had.get("columns") != has.get("columns"))

    def columns_seen(self, definition: TableDefinition, retired: Sequence[RetiredColumn] = ()) -> silver.Columns:
        """Columns of the table that are seen, and after them what is kept of others. Raises TableStopped."""
        wrong = masking.unknown_column_problem(self.filters.columns, self.known_columns)
        if wrong:
            raise TableStopped(f"{wrong}: {definition}")
        if retired:
            self._require_keeping(retired)
        columns = masking.columns_seen(definition, self.filters.columns, has_partial=self.has_partial)
        return masking.with_retired(columns, types_of(retired))

    def columns_of(self, state: TableState) -> silver.Columns:
        """The columns that silver has where the table stands so. Raises TableStopped."""
        assert state.definition
        return self.columns_seen(state.definition, state.retired)

    def change_filters(self, definition: TableDefinition) -> ChangeFilters:
        """The rules that filter changes of rows of a definition. Raises TableStopped."""
        return ChangeFilters.of(self.filters, definition, self.known_columns)

    def _require_keeping(self, retired: Sequence[RetiredColumn]) -> None:
        """Check that a table with retired columns has no rule about columns and complete row images.

        Raises TableStopped.
        """
        names, rule = names_of(retired), self.filters.columns
        if rule:
            raise TableStopped(
                f"columns.{rule.name} applies to it, and it has retired columns ({names}), which do not work together"
            )
        if self.has_partial:
            raise TableStopped(
                f"it has retired columns ({names}), and its row images omit columns, which does not work together; set "
                "binlog_row_image to FULL before such a statement, or on_incompatible to stop"
            )

    def require_same_shape(self) -> None:
        """Check that silver's rows were made by today's rules about columns. Raises TableStopped."""
        if self.before and self.is_reshaped:
            remedy = (
                f"replay all of it: stratalog backfill --source {self.source} --from {self.window.oldest} "
                f"--to {self.window.extent.stop} --table {self.name}"
            )
            if self.before.floor:
                remedy = (
                    f"its windows before {self.before.floor} are folded into one, so that it can only be "
                    f"rebuilt: stratalog reset --source {self.source} --table {self.name}, once copies of the older "
                    "log are fetched (stratalog extract --archive DIR)"
                )
            raise TableStopped(
                f"the rules about its columns are not those by which {self.table.path} was made; {remedy}"
            )


def by_rule(change: SchemaChange) -> dict[str, int]:
    return {change.left_out_by: 1} if change.left_out_by else {}


def compacted_total(work: CompactionJob, head: Head, compacted: Sequence[Compacted], seconds: float) -> Compacted:
    """Total of all windows of a table."""
    # Counts add up over the windows; the newest commit is that of any of them.
    counts = {
        name: sum(getattr(window, name) for window in compacted)
        for name in ("changes", "inserts", "updates", "deletes")
    }
    newest = max((window.committed_at for window in compacted if window.committed_at), default=None)
    left_out = sum((Counter(window.left_out) for window in compacted), Counter())
    return Compacted(
        source=work.source,
        name=work.name,
        range=work.window.extent,
        head=head,
        committed_at=newest,
        seconds=seconds,
        left_out=dict(left_out),
        **counts,
    )
