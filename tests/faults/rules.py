"""Row filters, masks and computed columns of tables in fault tests, and what tables have to be under them.

Put here: the rules, and the plain twin of tables that have them, change by change. Not here: changes (changes.py), the
comparison (checking.py). Expressions are evaluated by ``slow_expressions.py``, row by row.
"""

import hashlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import sqlglot
from sqlglot import exp

from tests.faults.changes import SCHEMA, Changes, Event, Key, Row, Twin, end_version
from tests.twins.plain_layers import RowChange, TableShape, silver_rows
from tests.twins.slow_expressions import truth_of, value_of

ENVIRONMENT = {"MASK_SALT": "pepper"}
"""Variables that the rules name."""
ROW_FILTERS: dict[str, dict[str, Any]] = {
    "thirds": {
        "tables": [f"{SCHEMA}.orders"],
        "insert-value-expr": "total % 3 = 0",
        "update-old-value-expr": "total < 600",
        "update-new-value-expr": "total % 2 = 1 OR state COLLATE utf8mb4_0900_bin LIKE 'v1%'",
        "delete-value-expr": "state COLLATE utf8mb4_0900_bin LIKE '%7'",
    },
    "fifths": {"tables": [f"{SCHEMA}.pairs"], "insert-value-expr": "b % 5 = 1", "update-new-value-expr": "b % 5 = 2"},
    "texts": {
        "tables": [f"{SCHEMA}.pairs", f"{SCHEMA}.notes"],
        "update-new-value-expr": "text IS NULL",
        "delete-value-expr": "text COLLATE utf8mb4_0900_bin > 'v5'",
    },
    "short": {"tables": [f"{SCHEMA}.notes"], "insert-value-expr": "CHAR_LENGTH(text) = 2"},
}
COLUMNS: dict[str, dict[str, Any]] = {
    "orders": {
        "tables": [f"{SCHEMA}.orders"],
        "exclude": ["total"],
        "mask": {"state": {"truncate": 2}},
        "computed": {
            "twice": {"sql": "total * 2 + id", "type": "BIGINT"},
            "size": {"sql": "CASE WHEN total > 500 THEN 'big' ELSE 'small' END", "type": "STRING"},
        },
    },
    "pairs": {
        "tables": [f"{SCHEMA}.pairs"],
        "mask": {"text": {"constant": "removed"}},
        "computed": {"sum": {"sql": "a * 100 + b", "type": "BIGINT"}},
    },
    "notes": {
        "tables": [f"{SCHEMA}.notes"],
        "mask": {"code": {"hash": "${MASK_SALT}"}},
        "computed": {"start": {"sql": "LEFT(text, 2)", "type": "STRING"}},
    },
}
"""By table; as in a pipeline's file, as the filters are."""
_FILTERS = {
    table: [rule for rule in ROW_FILTERS.values() if f"{SCHEMA}.{table}" in rule["tables"]] for table in COLUMNS
}
_UNKNOWN = object()
"""What the lake has of a column whose value no change that it got has told."""


@cache
def _tree(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect="mysql")


def is_filtered(event: Event) -> bool:
    """True if a rule filters a change of a row."""
    rows = dict.fromkeys(("insert", "delete", "update-old", "update-new"), Row())
    names = (
        ("update-old", "update-new") if event.before and event.after else ("insert",) if event.after else ("delete",)
    )
    for name, row in zip(names, (*event.before, *event.after), strict=True):
        rows[name] = row
    conditions = ([(name, rule.get(f"{name}-value-expr")) for name in names] for rule in _FILTERS[event.table])
    stated = ([(name, text) for name, text in of_rule if text] for of_rule in conditions)
    return any(of_rule and all(truth_of(_tree(text), rows[name]) for name, text in of_rule) for of_rule in stated)


def _masked_cells(table: str, row: Row, held: AbstractSet[str]) -> Row:
    """What silver has of an image that holds some columns of a row, without computed columns."""
    rule = COLUMNS[table]
    masks, excluded = rule.get("mask", {}), rule.get("exclude", ())
    return {
        name: _masked(value, masks.get(name, {}))
        for name, value in row.items()
        if name in held and name not in excluded
    }


def _computed_cells(event: Event, held: AbstractSet[str], key: AbstractSet[str]) -> Row:
    """The computed columns that silver has of a change whose images hold some columns.

    Columns of the key are in every image: they count where the key changes, or where an expression has no others.
    """
    row, is_gone = (event.after or event.before)[0], not event.after
    is_moved = any(before[name] != row[name] for before in event.before for name in key)
    cells = {}
    for name, column in COLUMNS[event.table]["computed"].items():
        tree = _tree(column["sql"])
        sources = {str(source.name) for source in tree.find_all(exp.Column)}
        beyond_key = sources - key
        is_held = beyond_key <= held if is_gone else bool(beyond_key & held)
        if not beyond_key or is_held or (is_moved and sources & key):
            cells[name] = value_of(tree, row)
    return cells


def _computed_of_image(table: str, row: Row, held: AbstractSet[str]) -> Row:
    """The computed columns of a row that left its key: those whose columns its image holds."""
    trees = {name: _tree(column["sql"]) for name, column in COLUMNS[table]["computed"].items()}
    sources = {name: {str(source.name) for source in tree.find_all(exp.Column)} for name, tree in trees.items()}
    return {name: value_of(tree, row) for name, tree in trees.items() if sources[name] <= held}


def _masked(value: Any, mask: Mapping[str, Any]) -> Any:
    (kind, setting), *_ = [*mask.items(), ("", None)]
    if kind == "constant":
        return setting
    if value is None or not kind:
        return value
    if kind == "truncate":
        return value[:setting]
    return hashlib.sha256(f"{ENVIRONMENT['MASK_SALT']}{value}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Left:
    """A change that the rules of a table leave: what silver has of its images. Or a statement."""

    end: int
    event: Event
    before: Row | None = None
    after: Row | None = None
    columns: tuple[str, ...] = ()
    """Those that the table has in silver."""

    @property
    def op(self) -> str:
        return "insert" if self.before is None else "delete" if self.after is None else "update"


@dataclass(slots=True)
class _Layers:
    """What downstream tables of each mode have, change by change; rows have ``_UNKNOWN`` where that is so."""

    key: tuple[str, ...]
    rows: dict[Key, Row] = field(default_factory=dict)
    last: dict[Key, tuple[Row, bool]] = field(default_factory=dict)
    """By key its last row, and whether it is deleted."""
    log: list[tuple[str, Row]] = field(default_factory=list)
    versions: list[tuple[str, Row, bool]] = field(default_factory=list)
    """Operation, row, whether it is current."""

    def add(self, change: _Left) -> None:
        if change.event.statement:
            self._execute(change.event)
            return
        row = dict.fromkeys(change.columns, _UNKNOWN)
        old = new = None
        if change.before is not None:
            old = self._key_of(change.before)
            row |= self.rows.pop(old, {}) | change.before
            end_version(self.versions, partial(self._has_key, old))
        gone = dict(row)
        if change.after is not None:
            row |= change.after
            new = self._key_of(row)
        if old is not None and old != new:
            self.last[old] = gone, True
            self.versions.append(("delete", gone, False))
        self.log.append((change.op, row))
        if new is not None:
            end_version(self.versions, partial(self._has_key, new))
            self.rows[new] = row
            self.last[new] = row, False
            self.versions.append((change.op, row, True))

    def _execute(self, event: Event) -> None:
        if event.statement == "truncate":
            self.rows.clear()
            self.last = {key: (row, True) for key, (row, _) in self.last.items()}
            self.log.append(("truncate", {}))
            self.versions = [*((op, row, False) for op, row, _ in self.versions), ("truncate", {}, False)]
            return
        self.rows = {key: reshaped(event, row) for key, row in self.rows.items()}
        self.last = {key: (reshaped(event, row), is_deleted) for key, (row, is_deleted) in self.last.items()}
        self.log = [(op, reshaped(event, row)) for op, row in self.log]
        self.versions = [(op, reshaped(event, row), is_current) for op, row, is_current in self.versions]

    def _key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    def _has_key(self, key: Key, row: Row) -> bool:
        return bool(row) and self._key_of(row) == key


def reshaped(event: Event, row: Row) -> Row:
    """A row after a statement that adds or drops a column; that of a statement has no values."""
    verb, _, name = event.statement.partition(" ")
    if not row:
        return row
    return row | {name: event.value} if verb == "add" else {key: row[key] for key in row if key != name}


def _is_known(row: Row) -> bool:
    return _UNKNOWN not in row.values()


class RuledTwin(Twin):
    """What tables have to be of a log under the rules."""

    def __init__(self, changes: Changes) -> None:
        super().__init__(changes)
        self._left = {table: [*self._changes_left(table)] for table in changes.keys}

    def _changes_left(self, table: str) -> Iterator[_Left]:
        for end, event in self._of(table, 0, self.changes.events[-1][0]):
            if event.statement:
                yield _Left(end, event)
            elif not is_filtered(event):
                yield _Left(end, event, *self._images(event))

    def _images(self, event: Event) -> tuple[Row | None, Row | None, tuple[str, ...]]:
        """What silver has of a change's images, and the columns that the table has there."""
        table, row, key = event.table, (event.after or event.before)[0], {*self.changes.keys[event.table]}
        held_before, held_after = self.changes.held(event)
        columns = (*_masked_cells(table, row, {*row}), *COLUMNS[table]["computed"])
        before = _masked_cells(table, event.before[0], held_before) if event.before else None
        computed = _computed_cells(event, held_before | held_after, key)
        if before is not None and not event.after:
            return before | computed, None, columns
        if before is not None and any(event.before[0][name] != row[name] for name in key):
            before |= _computed_of_image(table, event.before[0], held_before)
        return before, _masked_cells(table, row, held_after) | computed, columns

    def _layers(self, table: str, until: int) -> _Layers:
        layers = _Layers(tuple(self.changes.keys[table]))
        for change in self._left[table]:
            if change.end <= until:
                layers.add(change)
        return layers

    def downstream(self, table: str, until: int) -> dict[Key, Row]:
        return {key: row for key, row in self._layers(table, until).rows.items() if _is_known(row)}

    def kept_rows(self, table: str, until: int) -> list[tuple[Row, bool]]:
        return [kept for kept in self._layers(table, until).last.values() if _is_known(kept[0])]

    def changes_of(self, table: str, until: int, loaded_at: int | None = None) -> list[tuple[str, Row]]:
        assert loaded_at is None
        return [logged for logged in self._layers(table, until).log if _is_known(logged[1])]

    def versions_of(self, table: str, until: int, loaded_at: int | None = None) -> list[tuple[str, Row, bool]]:
        assert loaded_at is None
        return [version for version in self._layers(table, until).versions if _is_known(version[1])]

    def has_changes(self, table: str, start: int, stop: int) -> bool:
        return any(start < change.end <= stop for change in self._left[table])

    def last_change(self, table: str, until: int) -> int:
        ends = [change.end for change in self._left[table] if change.end <= until]
        has_rows = any(change.event.after for change in self._left[table] if change.end <= until)
        return ends[-1] if has_rows else 0

    def silver(self, table: str, start: int, stop: int, until: int) -> list[tuple[Key, str, Row]]:
        """As ``Twin.silver``; a column that no change of the window told is NULL."""
        changes, columns, key = list[RowChange](), tuple[str, ...](), tuple(self.changes.keys[table])
        for change in self._left[table]:
            if not start < change.end <= stop:
                continue
            if change.event.statement:
                changes = [] if change.event.statement == "truncate" else changes
            else:
                changes.append(RowChange(change.before, change.after))
                columns = change.columns
        rows = []
        for row_key, net in silver_rows(enumerate(changes), TableShape(columns, key)).items():
            row = dict.fromkeys(columns) | dict(net.values)
            for _, event in self._of(table, stop, until):
                if net.exists and event.statement and event.statement != "truncate":
                    row = reshaped(event, row)
            rows.append((row_key, net.op, row))
        return rows
