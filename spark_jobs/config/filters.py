"""Filters: rules over events, rows and columns, for the changes of a table that reach silver and its columns there.

Put here: the rules, which tables they are about, and what they say of an event. Not here: how they are written in
pipeline.yaml (model.py), conditions (expressions/), or carrying rules out (silver/row_filters.py,
silver/column_masks.py).

A change is judged by itself, before anything is folded, in this order: filters of events, filters of rows. A rule names
tables by patterns, of which the last one that matches decides. The meaning is that of TiDB DM's binlog event filters
and expression filters (https://docs.pingcap.com/tidb/stable/dm-binlog-event-filter).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from spark_jobs.config.table_patterns import Scope
from spark_jobs.errors import ConfigError
from spark_jobs.expressions.computed import Computed
from spark_jobs.expressions.condition import Condition
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
"""Statements that cannot be left out: the rows after them have their columns and their name."""
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

    ignore: events that match are filtered. do: those that do not match are. stop: a statement that matches stops its
    table. A statement matches by its kind, or by its text.
    """

    name: str
    scope: Scope
    events: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    action: Action

    def lists(self, event: str) -> bool:
        """True if the event is among the rule's; the first word that is about it decides."""
        for name in self.events:
            about, verdict = _CLASSES.get(name, ((_ALIASES.get(name, name),), True))
            if event in about:
                return verdict
        return False

    def matches(self, event: str, text: str) -> bool:
        return self.lists(event) or any(pattern.search(text) for pattern in self.patterns)

    def leaves_out(self, event: str, text: str = "") -> bool:
        matched = self.matches(event, text)
        return matched if self.action == "ignore" else not matched and self.action == "do"


def problem_of_events(events: Sequence[str], action: Action, *, has_patterns: bool) -> str | None:
    """Reason why a rule with these events can not be carried out; None where it can."""
    names = [*ROW_EVENTS, *STATEMENTS, *_CLASSES, *_ALIASES]
    unknown = next((event for event in events if event not in names), None)
    if unknown is not None:
        return f"{unknown!r} is no event; known are {', '.join(names)}"
    if has_patterns and action == "do":
        return "sql-pattern goes with ignore and stop"
    if not events:
        return None if has_patterns else "needs events or sql-pattern"
    return _problem_of_kinds(events, action)


def _problem_of_kinds(events: Sequence[str], action: Action) -> str | None:
    rule = EventFilter("", Scope(), tuple(events), (), action)
    if action == "stop" and any(rule.lists(event) for event in ROW_EVENTS):
        return f"stop is for statements, and this rule lists {next(filter(rule.lists, ROW_EVENTS))}"
    if all(rule.leaves_out(event) for event in ROW_EVENTS):
        return 'leaves out all rows; leave the table out instead, with "!SCHEMA.TABLE" in tables:'
    ignored = [event for event in FOLLOWED if rule.leaves_out(event)]
    if ignored:
        optional = ", ".join(event for event in STATEMENTS if event not in FOLLOWED)
        add = f"add {' and '.join(ignored)}" if action == "do" else f"list the others ({optional})"
        return (
            f"leaves out {' and '.join(ignored)}, which is always applied, since later rows have its columns; "
            f"{add}, and leave columns out with columns:"
        )
    return None


@dataclass(frozen=True)
class RowFilter:
    """One of ``row_filters:``: a change for which it is TRUE is filtered.

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
    """Replacement of a column's value. hash: of the value, with a salt; truncate: its beginning; constant: a value."""

    kind: Literal["hash", "truncate", "constant"]
    salt: str = field(default="", repr=False)
    length: int = 0
    constant: str | int | None = None


@dataclass(frozen=True)
class ColumnRule:
    """One of ``columns:``, its names in small letters. include: no others are seen; None: all but ``exclude``.

    Computed columns are seen in either case.
    """

    name: str
    scope: Scope
    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    masks: Mapping[str, Mask] = field(default_factory=dict)
    computed: tuple[Computed, ...] = ()
    """Columns that the source does not have."""

    def is_left_out(self, column: str) -> bool:
        name = column.casefold()
        return name in self.exclude or (self.include is not None and name not in self.include)

    def mask(self, column: str) -> Mask | None:
        return self.masks.get(column.casefold())

    def names(self) -> frozenset[str]:
        """All columns that it names."""
        computed = frozenset[str]().union(*(column.columns for column in self.computed))
        return (self.include or frozenset()) | self.exclude | frozenset(self.masks) | computed


def skip_name(position: Position) -> str:
    """The name under which a quarantined event is counted, beside the rules."""
    return f"skip {position}"


@dataclass(frozen=True)
class TableFilters:
    """The rules about one table."""

    events: tuple[EventFilter, ...] = ()
    rows: tuple[RowFilter, ...] = ()
    columns: ColumnRule | None = None
    skips: frozenset[Position] = frozenset()
    """Events that are quarantined for this table, each by its position."""

    def __bool__(self) -> bool:
        return bool(self.events or self.rows or self.columns or self.skips)

    def skipped_in(self, ranges: Iterable[Range]) -> dict[str, int]:
        """The quarantined events of parts of the log, counted as filtered events are."""
        parts = tuple(ranges)
        positions = sorted(skip for skip in self.skips if any(part.start <= skip < part.stop for part in parts))
        return {skip_name(position): 1 for position in positions}

    def names(self) -> list[str]:
        """Names of the rules in metadata, such as ``filters.NAME``."""
        names = [f"filters.{event.name}" for event in self.events] + [f"row_filters.{row.name}" for row in self.rows]
        return names + ([f"columns.{self.columns.name}"] if self.columns else [])

    def left_out(self, event: str) -> str | None:
        """The rule that filters every change of a kind (insert, update, delete)."""
        return next((f"filters.{filter_.name}" for filter_ in self.events if filter_.leaves_out(event)), None)

    def ignored_kinds(self) -> dict[int, str]:
        """Kinds of changes that are filtered, by their number (1 insert, 2 update, 3 delete), and the first rule."""
        rules = {kind: self.left_out(event) for kind, event in enumerate(ROW_EVENTS, 1)}
        return {kind: rule for kind, rule in rules.items() if rule}

    @property
    def judges_rows(self) -> bool:
        """True if a change of rows may be filtered."""
        return bool(self.rows or self.ignored_kinds())

    def statement(self, event: str, text: str) -> tuple[str, Action] | None:
        """The rule that leaves a statement out, or stops its table; None where it is carried out."""
        for filter_ in self.events:
            if filter_.action == "stop" and filter_.matches(event, text):
                return f"filters.{filter_.name}", "stop"
            if filter_.leaves_out(event, text):
                return f"filters.{filter_.name}", "ignore"
        return None

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
    """Events that are quarantined, by schema and table."""

    @property
    def skips_alone(self) -> "Filters":
        """The filters without the configured rules: quarantined events alone."""
        return Filters(skips=self.skips)

    def skipped(self, schema: str, table: str) -> frozenset[Position]:
        """The quarantined events of a table."""
        return self.skips.get((schema, table), frozenset())

    def of(self, schema: str, table: str) -> TableFilters:
        """The rules about a table. Raises ConfigError where two of ``columns:`` are about it."""
        columns = _about(self.columns, schema, table)
        if len(columns) > 1:
            owners = " and ".join(f"columns.{column.name}" for column in columns)
            raise ConfigError(f"{schema}.{table}: {owners} are both about it; a table has at most one")
        events, rows = _about(self.events, schema, table), _about(self.rows, schema, table)
        return TableFilters(events, rows, columns[0] if columns else None, self.skipped(schema, table))


Rule = TypeVar("Rule", EventFilter, RowFilter, ColumnRule)


def _about(rules: tuple[Rule, ...], schema: str, table: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.scope.holds(schema, table))


def _digest(rules: Any) -> str:
    return hashlib.sha256(repr(_canonical_rule(rules)).encode()).hexdigest()[:16]


def _canonical_rule(value: Any) -> Any:
    """A rule as numbers and texts in an order of their own; of the salt, only what tells another one from it."""
    # Equal rules must give equal digests on every machine: nothing here depends on order or on the salt itself.
    match value:
        case Mask():
            plain: Any = (value.kind, hashlib.sha256(value.salt.encode()).hexdigest(), value.length, value.constant)
        case re.Pattern():
            plain = value.pattern
        case Condition():
            plain = value.text
        case Computed():
            plain = (value.name, value.text, value.type)
        case EventFilter() | RowFilter() | ColumnRule():
            # A rule without computed columns has the digest that it had before there were any.
            unsaid = {"scope", *(("computed",) if not getattr(value, "computed", True) else ())}
            plain = [_canonical_rule(field) for key, field in vars(value).items() if key not in unsaid]
        case Mapping():
            plain = [(key, _canonical_rule(field)) for key, field in sorted(value.items())]
        case frozenset():
            plain = sorted(value)
        case tuple():
            plain = [_canonical_rule(element) for element in value]
        case _:
            plain = value
    return plain
