"""Modes of downstream tables (``downstream:``): which rows they keep of their source table's changes.

Put here: the modes, which table has which, and what is wrong between modes and routes. Not here: how a mode's rows come
about (downstream/), or where rows go (routes.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from spark_jobs.config.table_patterns import Pattern
from spark_jobs.config.values import Duration, at_least_a_minute, listed, mode_pattern


class Mode(StrEnum):
    """Kind of rows that a downstream table has of its source table."""

    MIRROR = "mirror"
    """The current rows."""
    SOFT_DELETE = "soft_delete"
    """The current rows, and those that were deleted, which say so."""
    APPEND = "append"
    """Every change as a row."""
    HISTORY = "history"
    """Every version of every row, from when to when it was there."""

    @property
    def has_every_change(self) -> bool:
        """True if its rows come of every change in the log, not of the net change of a window."""
        return self in (Mode.APPEND, Mode.HISTORY)


class ModeRule(BaseModel):
    """One line of ``downstream:``."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    tables: Annotated[
        tuple[Annotated[str, AfterValidator(mode_pattern)], ...], BeforeValidator(listed), Field(min_length=1)
    ]
    """A pattern of downstream tables, or a list of several; the last line that matches a table decides."""
    mode: Literal["mirror", "soft_delete", "append", "history"] | None = None
    """Mode of such a table: ``mirror``, the source's current rows; ``soft_delete``, deleted rows too; ``append``, a
    row for every change; ``history``, every version of each row (SCD type 2). A line without it leaves the mode to the
    others."""
    change_data_feed: bool | None = None
    """True if Delta's change data feed is on in such a table, so that ``table_changes`` and streams read what each
    merge changed. A line without it leaves that to the others; off without any."""
    iceberg: bool | None = None
    """True if such a table is an Iceberg table too. A line without it leaves that to the others, and to ``iceberg`` at
    the top."""
    changes_within: Annotated[Duration, AfterValidator(at_least_a_minute)] | None = None
    """Time that such a table may go without a change before it is stale in Dagster, like ``1d``; at least ``1m``. A
    line without it leaves that to the others; without any, a table without changes stays fresh."""

    @model_validator(mode="after")
    def _require_setting(self) -> Self:
        if not any(value is not None for key, value in self if key != "tables"):
            raise ValueError("needs mode, change_data_feed, iceberg or changes_within")
        return self


@dataclass(frozen=True)
class Modes:
    """The modes of all downstream tables: patterns in order, of which the last that matches decides."""

    rules: tuple[tuple[Pattern, Mode], ...] = ()
    feeds: tuple[tuple[Pattern, bool], ...] = ()
    """Tables that have a change data feed."""
    windows: tuple[tuple[Pattern, timedelta], ...] = ()
    """Times within which tables have to change, by pattern."""
    iceberg: tuple[tuple[Pattern, bool], ...] = ()
    """Tables that are Iceberg tables too, where that is not as for all."""

    @classmethod
    def from_rules(cls, rules: Iterable[ModeRule]) -> "Modes":
        listed = [(Pattern.parse(text), rule) for rule in rules for text in rule.tables]
        return cls(
            tuple((pattern, Mode(rule.mode)) for pattern, rule in listed if rule.mode),
            tuple((pattern, rule.change_data_feed) for pattern, rule in listed if rule.change_data_feed is not None),
            tuple((pattern, rule.changes_within) for pattern, rule in listed if rule.changes_within is not None),
            tuple((pattern, rule.iceberg) for pattern, rule in listed if rule.iceberg is not None),
        )

    def of(self, schema: str, table: str) -> Mode:
        return next((mode for pattern, mode in reversed(self.rules) if pattern.matches(schema, table)), Mode.MIRROR)

    def has_feed(self, schema: str, table: str) -> bool:
        """True if a table has a change data feed."""
        return next((is_on for pattern, is_on in reversed(self.feeds) if pattern.matches(schema, table)), False)

    def has_iceberg(self, schema: str, table: str) -> bool | None:
        """True if a table is an Iceberg table too; None where that is as for all."""
        return next((is_on for pattern, is_on in reversed(self.iceberg) if pattern.matches(schema, table)), None)

    def window_of(self, schema: str, table: str) -> timedelta | None:
        """Time within which a table has to change; None where it need not."""
        return next((window for pattern, window in reversed(self.windows) if pattern.matches(schema, table)), None)

    def may_have_feed(self, tables: Pattern) -> bool:
        """True if a table may have one that matches a pattern."""
        for pattern, is_on in reversed(self.feeds):
            if is_on and pattern.meets(tables):
                return True
            if pattern.covers(tables):
                return False
        return False

    def may_have(self, tables: Pattern) -> Iterator[Mode]:
        """The modes, besides mirror, that a table may have which matches a pattern."""
        for at, (pattern, mode) in enumerate(self.rules):
            later = (pattern for pattern, _ in self.rules[at + 1 :])
            is_overruled = any(after.covers(tables) or after.covers(pattern) for after in later)
            if mode is not Mode.MIRROR and pattern.meets(tables) and not is_overruled:
                yield mode


MIRRORS = Modes()
"""Every table is a mirror."""


def problem_of_modes(modes: Modes, merged: Sequence[Pattern]) -> str | None:
    """Reason why a table of several source tables cannot have its mode; None where all can. merged: their patterns."""
    for tables in merged:
        if modes.may_have_feed(tables):
            return (
                f"by routes: several source tables may have the target {tables.schema}.{tables.table}, and a table "
                "with change_data_feed is of one source table; route them to tables of their own, or list it last with "
                "change_data_feed: false"
            )
        for mode in modes.may_have(tables):
            return (
                f"by routes: several source tables may have the target {tables.schema}.{tables.table}, and a table "
                f"with mode: {mode} is of one source table; route them to tables of their own, or list it last with "
                "mode: mirror"
            )
    return None
