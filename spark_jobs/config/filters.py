"""Rules over events, rows and columns: which changes of a table reach silver, and what is seen of its columns.

Put here: the rules, which tables they are about, and what they say of an event. Not here: how they are written in
pipeline.yaml (model.py), conditions (conditions.py), or carrying rules out (silver/compact.py, silver/row_filters.py,
silver/masking.py).

A change is judged by itself, before anything is folded, in this order: filters of events, filters of rows. A rule names
tables by patterns, of which the last one that matches decides. The meaning is that of TiDB DM's binlog event filters
and expression filters (https://docs.pingcap.com/tidb/stable/dm-binlog-event-filter).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from spark_jobs.config.conditions import Condition
from spark_jobs.config.table_patterns import Scope
from spark_jobs.errors import ConfigError
from spark_jobs.log.position import Position, Range

INSERT, UPDATE, DELETE = "insert", "update", "delete"
ROW_EVENTS = (INSERT, UPDATE, DELETE)
TRUNCATE_TABLE, DROP_TABLE, DROP_DATABASE = "truncate table", "drop table", "drop database"
CREATE_TABLE, ALTER_TABLE, RENAME_TABLE = "create table", "alter table", "rename table"
STATEMENTS = (
    *(CREATE_TABLE, ALTER_TABLE, RENAME_TABLE, TRUNCATE_TABLE, DROP_TABLE, DROP_DATABASE),
    *("create index", "drop index"),
)
FOLLOWED = (ALTER_TABLE, RENAME_TABLE)
"""What cannot be left out: the rows behind such a statement have its columns and its name."""
_CLASSES: dict[str, tuple[tuple[str, ...], bool]] = {
    "all": ((*ROW_EVENTS, *STATEMENTS), True),
    "all dml": (ROW_EVENTS, True),
    "all ddl": (STATEMENTS, True),
    "none": ((*ROW_EVENTS, *STATEMENTS), False),
    "none dml": (ROW_EVENTS, False),
    "none ddl": (STATEMENTS, False),
}
_ALIASES = {"drop schema": DROP_DATABASE, "truncate": TRUNCATE_TABLE}

Action = Literal["ignore", "do", "stop"]


@dataclass(frozen=True)
class EventFilter:
    """One of ``filters:``.

    ignore: events that match are left out. do: those that do not match are. stop: a statement that matches stops its
    table. A statement matches by its kind, or by its text.
    """

    name: str
    scope: Scope
    events: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    action: Action

    def lists(self, event: str) -> bool:
        """Whether the event is among the rule's; the first word that is about it decides."""
        for one in self.events:
            about, verdict = _CLASSES.get(one, ((_ALIASES.get(one, one),), True))
            if event in about:
                return verdict
        return False

    def matches(self, event: str, text: str) -> bool:
        return self.lists(event) or any(pattern.search(text) for pattern in self.patterns)

    def leaves_out(self, event: str, text: str = "") -> bool:
        matched = self.matches(event, text)
        return matched if self.action == "ignore" else not matched and self.action == "do"


def problem_of_events(events: Sequence[str], action: Action, *, has_patterns: bool) -> str | None:
    """Why a rule with these events can not be carried out; None where it can."""
    known = [*ROW_EVENTS, *STATEMENTS, *_CLASSES, *_ALIASES]
    unknown = next((event for event in events if event not in known), None)
    if unknown is not None:
        return f"{unknown!r} is no event; known are {', '.join(known)}"
    if has_patterns and action == "do":
        return "sql-pattern goes with ignore and stop"
    if not events:
        return None if has_patterns else "needs events or sql-pattern"
    return _problem_of_kinds(events, action)


def _problem_of_kinds(events: Sequence[str], action: Action) -> str | None:
    rule = EventFilter("", Scope(), tuple(events), (), action)
    if action == "stop" and any(rule.lists(one) for one in ROW_EVENTS):
        return f"stop is for statements, and this rule lists {next(filter(rule.lists, ROW_EVENTS))}"
    if all(rule.leaves_out(one) for one in ROW_EVENTS):
        return 'leaves out all rows; leave the table out instead, with "!SCHEMA.TABLE" in tables:'
    left = [one for one in FOLLOWED if rule.leaves_out(one)]
    if left:
        others = ", ".join(one for one in STATEMENTS if one not in FOLLOWED)
        add = f"add {' and '.join(left)}" if action == "do" else f"list the others ({others})"
        return (
            f"leaves out {' and '.join(left)}, which is followed always, since the rows behind it have its columns; "
            f"{add}, and leave columns out with columns:"
        )
    return None


@dataclass(frozen=True)
class RowFilter:
    """One of ``row_filters:``: a change for which it is TRUE is left out.

    For an update both conditions must be TRUE; one that is not given is. A kind of change without a condition is kept.
    """

    name: str
    scope: Scope
    insert: Condition | None = None
    update_old: Condition | None = None
    update_new: Condition | None = None
    delete: Condition | None = None


@dataclass(frozen=True)
class Mask:
    """What stands in a column's place. hash: of the value, with a salt; truncate: its beginning; constant: a value."""

    kind: Literal["hash", "truncate", "constant"]
    salt: str = field(default="", repr=False)
    length: int = 0
    constant: str | int | None = None


@dataclass(frozen=True)
class ColumnRule:
    """One of ``columns:``, its names in small letters. include: no others are seen; None: all but ``exclude``."""

    name: str
    scope: Scope
    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    masks: Mapping[str, Mask] = field(default_factory=dict)

    def is_left_out(self, column: str) -> bool:
        name = column.casefold()
        return name in self.exclude or (self.include is not None and name not in self.include)

    def mask(self, column: str) -> Mask | None:
        return self.masks.get(column.casefold())

    def names(self) -> frozenset[str]:
        """All columns that it names."""
        return (self.include or frozenset()) | self.exclude | frozenset(self.masks)


def skip_name(position: Position) -> str:
    """What an event that is passed over is counted under, among the rules."""
    return f"skip {position}"


@dataclass(frozen=True)
class TableFilters:
    """The rules about one table."""

    events: tuple[EventFilter, ...] = ()
    rows: tuple[RowFilter, ...] = ()
    columns: ColumnRule | None = None
    skips: frozenset[Position] = frozenset()
    """Events that are passed over for this table, each by its place."""

    def __bool__(self) -> bool:
        return bool(self.events or self.rows or self.columns or self.skips)

    def skipped_in(self, ranges: Iterable[Range]) -> dict[str, int]:
        """The events of parts of the log that are passed over, as what rules leave out is counted."""
        parts = tuple(ranges)
        found = sorted(skip for skip in self.skips if any(part.start <= skip < part.stop for part in parts))
        return {skip_name(one): 1 for one in found}

    def names(self) -> list[str]:
        """As metadata names the rules, such as ``filters.NAME``."""
        own = [f"filters.{event.name}" for event in self.events] + [f"row_filters.{row.name}" for row in self.rows]
        return own + ([f"columns.{self.columns.name}"] if self.columns else [])

    def left_out(self, event: str) -> str | None:
        """The rule that leaves out every change of a kind (insert, update, delete)."""
        return next((f"filters.{one.name}" for one in self.events if one.leaves_out(event)), None)

    @property
    def judges_rows(self) -> bool:
        """Whether a change of rows may be left out."""
        return bool(self.rows) or any(self.left_out(event) for event in ROW_EVENTS)

    def statement(self, event: str, text: str) -> tuple[str, Action] | None:
        """The rule that leaves a statement out, or stops its table; None where it is carried out."""
        for one in self.events:
            if one.action == "stop" and one.matches(event, text):
                return f"filters.{one.name}", "stop"
            if one.leaves_out(event, text):
                return f"filters.{one.name}", "ignore"
        return None

    @property
    def asked(self) -> frozenset[str]:
        """Names, in small letters, of the columns that conditions about changes of rows ask for."""
        asked = (one for rule in self.rows for one in (rule.insert, rule.update_old, rule.update_new, rule.delete))
        return frozenset().union(*(one.columns for one in asked if one))

    def prints(self) -> dict[str, str]:
        """A short digest of the rules about columns, and one of the others; a changed rule changes it. None: no key."""
        of = {"columns": self.columns, "changes": (self.events, self.rows) if self.events or self.rows else None}
        return {key: _digest(rules) for key, rules in of.items() if rules}


@dataclass(frozen=True)
class Filters:
    """All rules of a pipeline."""

    events: tuple[EventFilter, ...] = ()
    rows: tuple[RowFilter, ...] = ()
    columns: tuple[ColumnRule, ...] = ()
    skips: Mapping[tuple[str, str], frozenset[Position]] = field(default_factory=dict)
    """Events that are passed over, by schema and table."""

    @property
    def skips_alone(self) -> "Filters":
        """Without the rules of the configuration."""
        return Filters(skips=self.skips)

    def skipped(self, schema: str, table: str) -> frozenset[Position]:
        """The events that are passed over for a table."""
        return self.skips.get((schema, table), frozenset())

    def of(self, schema: str, table: str) -> TableFilters:
        """The rules about a table. Raises ConfigError where two of ``columns:`` are about it."""
        columns = _about(self.columns, schema, table)
        if len(columns) > 1:
            named = " and ".join(f"columns.{column.name}" for column in columns)
            raise ConfigError(f"{schema}.{table}: {named} are both about it; a table has at most one")
        events, rows = _about(self.events, schema, table), _about(self.rows, schema, table)
        return TableFilters(events, rows, columns[0] if columns else None, self.skipped(schema, table))


Rule = TypeVar("Rule", EventFilter, RowFilter, ColumnRule)


def _about(rules: tuple[Rule, ...], schema: str, table: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.scope.holds(schema, table))


def _digest(rules: Any) -> str:
    return hashlib.sha256(repr(_plain(rules)).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """A rule as numbers and texts in an order of their own; of the salt, only what tells another one from it."""
    match value:
        case Mask():
            found: Any = (value.kind, hashlib.sha256(value.salt.encode()).hexdigest(), value.length, value.constant)
        case re.Pattern():
            found = value.pattern
        case Condition():
            found = value.text
        case EventFilter() | RowFilter() | ColumnRule():
            found = [_plain(one) for key, one in vars(value).items() if key != "scope"]
        case Mapping():
            found = [(key, _plain(one)) for key, one in sorted(value.items())]
        case frozenset():
            found = sorted(value)
        case tuple():
            found = [_plain(one) for one in value]
        case _:
            found = value
    return found
