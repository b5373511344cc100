"""Result of comparing one table, in rows and for people.

Put here: states, counts and lines. Not here: comparing (tables.py, compare.py), or printing (spark_jobs/cli/check.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify.compare import KeyDifference
from spark_jobs.checks.verify.protocol import KeySet
from spark_jobs.checks.verify.row_digest import DigestLayout
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.observation import verified
from spark_jobs.operations.observation.verified import (
    CHANGING,
    DIFFERS,
    DROPPED,
    EQUAL,
    NOT_COMPARED,
    DifferingRows,
    Verified,
)

_SEVERITY = (DROPPED, EQUAL, NOT_COMPARED, CHANGING, DIFFERS)
"""States from the best to the worst."""


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """Keys that differ, and the downstream table that was compared.

    layout: of a table without a key, it has none either.
    """

    layout: DigestLayout
    downstream: Table
    keys: KeySet

    @property
    def are_counted(self) -> bool:
        """True if rows have no key, and were counted."""
        return not self.layout.key


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVerdict(DifferingRows, ABC):
    """Result of comparing one table with another, in rows.

    differences: the first of the keys that differ. reason: of a table that could
    not be compared, or was only counted. seconds: time that the comparison took.
    """

    differences: tuple[KeyDifference, ...] = ()
    reason: str | None = None
    seconds: float = 0.0

    @property
    @abstractmethod
    def label(self) -> str:
        """Name of the table for people."""

    @property
    def directed_differences(self) -> Sequence[KeyDifference]:
        """The differences, with the side that is right in the place of the source."""
        return self.differences

    def lines(self, *, values: bool) -> Iterator[str]:
        """A line for people for each key in ``differences``; ``values``: both sides' values of columns that differ."""
        for difference in self.directed_differences:
            unlike = (_unlike(name, *pair, values=values) for name, pair in difference.columns.items())
            columns = ", ".join(unlike)
            yield f"{self.label} {difference}{': ' if columns else ''}{columns}"

    def keys_as_json(self) -> list[dict[str, Any]]:
        """The differences as a list of JSON."""
        return [difference.to_json() for difference in self.differences]


@dataclass(frozen=True, slots=True)
class Verdict(TableVerdict):
    """Result for one table of a source, in rows.

    state: ``equal``; ``differs``; ``changing``: nothing differs for sure, but some rows changed whenever they were
    read; ``dropped``: the source has it no more, and the lake has of it what ``on_drop`` says; ``not compared``:
    ``reason`` says why. position: up to where the lake held the log. older: rows that the log never held, of a table
    whose CREATE it does not have either; they make no difference. causes: known reasons why the log may not tell its
    rows, of a table that differs; none of them need be why it does. unknown: columns that are not compared, since they
    were restarted (on_incompatible), and of how many rows the lake has no value of them.
    """

    source: str
    table: TableName
    state: str
    position: Position | None = None
    source_rows: int = 0
    lake_rows: int = 0
    older: int = 0
    changing: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    causes: tuple[str, ...] = ()
    into: str | None = None
    """The downstream table that was compared, where the source table goes to several."""
    changes_since: Position | None = None
    """Position from which on rows with changes were compared, and no others; the counts are theirs."""
    unlike_keys: FoundKeys | None = field(default=None, repr=False)
    """All keys that differ for sure; None where no rows were compared."""

    @property
    def label(self) -> str:
        """Name of the source table, and of the downstream table that was compared."""
        return f"{self.table} into {self.into}" if self.into else str(self.table)

    @property
    def is_right(self) -> bool:
        """True if the lake has what it should have."""
        return self.state in (EQUAL, DROPPED)

    @property
    def equal(self) -> int:
        """Rows of the source that the lake has just so."""
        unlike = self.missing + self.different + self.older + self.changing + self.unread
        return max(self.source_rows - unlike, 0)

    def remarks(self) -> Iterator[str]:
        """Remarks about the table."""
        # What could not be compared, and why rows may differ.
        if self.reason:
            yield self.reason
        if self.unread:
            yield f"{self.label}: {self.unread} more rows differ by their hashes; they were not read again one by one"
        if self.older:
            yield f"{self.label}: {self.older} rows are older than the log, which lacks the table's CREATE too"
        for cause in self.causes:
            yield f"{self.label}: its differences may be explained by this: the table {cause}"
        # A cause that is known need not be the one, nor the only one.
        remedy = f"mend the table: stratalog mend --source {self.source} --table {self.table}"
        if self.state == DIFFERS and self.unlike_keys is not None:
            yield (
                f"{self.label}: {'otherwise ' if self.causes else ''}not explained by the log: a session with "
                "sql_log_bin=0, a restored file, or a write to the lake's table by another program; "
                f"{remedy} (stratalog docs verify#when-a-row-differs)"
            )
        elif self.causes:
            yield f"{self.label}: {remedy}"
        for column, rows in self.unknown.items():
            yield (
                f"{self.label}: column {column} is not compared: it restarted when its type changed, and {rows} "
                f"rows are from before; stratalog load --source {self.source} --table {self.table} reads them again"
            )
        if self.changing:
            changing = f"{self.changing} rows changed whenever they were read"
            yield f"{self.label}: {changing}; verify again when it is quieter"

    def to_json(self) -> dict[str, Any]:
        """The verdict as a JSON object."""
        return {
            "source": self.source,
            "table": str(self.table),
            "state": self.state,
            **self.counts(),
            "position": self.position and str(self.position),
            "changes_since": self.changes_since and str(self.changes_since),
            "source_rows": self.source_rows,
            "lake_rows": self.lake_rows,
            "older": self.older,
            "changing": self.changing,
            "unknown": dict(self.unknown),
            "differences": self.keys_as_json(),
            "reason": self.reason,
            "causes": self.causes,
            "seconds": round(self.seconds, 3),
            "into": self.into,
            "equal": self.equal,
        }


def _unlike(name: str, source: str | None, lake: str | None, *, values: bool) -> str:
    return f"{name} is {_or_null(lake)} and should be {_or_null(source)}" if values else name


def _or_null(value: str | None) -> str:
    return "NULL" if value is None else value


def verified_of(
    verdicts: Sequence[Verdict], last: Verified | None = None, *, is_of_all_targets: bool = True
) -> list[Verified]:
    """Record of a table's verdicts, the worst of them; none where nothing new is known of the whole table.

    last: the record so far. is_of_all_targets: whether there is a verdict for each downstream table. Where only changes
    or only some of the downstream tables were compared, and all of that is right, the rest is as it was.
    """
    if not verdicts:
        return []
    worst = max(verdicts, key=lambda verdict: (_SEVERITY.index(verdict.state), verdict.differing))
    position = str(worst.position) if worst.position else None
    starts = [verdict.changes_since for verdict in verdicts if verdict.changes_since]
    if worst.is_right and not is_of_all_targets:
        return []
    if worst.is_right and starts:
        known = last.equal_to if last else None
        return [replace(last, changes_to=position)] if last and known and known >= max(starts) else []
    name, state = worst.table, worst.state
    return [Verified(name.schema, name.table, state, position, verified.now(), worst.reason, None, **worst.counts())]
