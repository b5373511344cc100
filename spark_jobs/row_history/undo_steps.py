"""Statements that revert changes, each guarded: it does nothing where the row is not as the change left it.

Put here: the text of a statement and of its conditions. Not here: which changes are taken back, and in which order
(undo.py), literals and comparisons of values (delivery/encode.py, delivery/statements.py), or what a server answers
(undo_check.py).

Literals are meant for the session that ``SESSION`` sets. Text with a backslash or a control character is written by its
bytes, so that no client reads it otherwise.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from spark_jobs.binlog import Changes, TableDefinition, TableName
from spark_jobs.changes.formats.base import DELETE, INSERT, kind_of
from spark_jobs.delivery.encode import RAW, OutputColumn, key_literals, literals
from spark_jobs.delivery.statements import TEXT_KINDS, is_stored
from spark_jobs.delivery.target import SQL_MODE
from spark_jobs.errors import Unsupported
from spark_jobs.row_history.key_texts import key_columns
from spark_jobs.row_history.trace import TracedChange
from spark_jobs.text.sql import identifier

SESSION = (
    "SET NAMES utf8mb4",
    f"SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00', foreign_key_checks = 1",
)
_RAW_TYPE = pa.map_(pa.string(), pa.string())
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True)
class RowTexts:
    """One row as SQL, by column: its literals, and conditions that hold where a row of the table has these values.

    lookup: the condition by which the server finds the row: of its key, or of all columns without one.
    """

    literals: Mapping[str, str]
    conditions: Mapping[str, str]
    lookup: str


@dataclass(frozen=True, slots=True)
class UndoStep:
    """A change to be taken back.

    table: in which, as SQL. after: the row as the change left it, None of a deleted one. before: as it was, None of an
    inserted one. columns: those that differ. has_key: whether the table identifies rows.
    """

    traced: TracedChange
    table: str
    before: RowTexts | None
    after: RowTexts | None
    columns: tuple[str, ...] = field(default=())
    has_key: bool = True

    @property
    def location(self) -> str:
        """The location of the change, as messages name it."""
        change = self.traced.change
        prefix = f"{self.traced.stretch}/" if self.traced.stretch > 1 else ""
        return f"{prefix}{change.file}:{change.offset} row {change.row}"

    @property
    def moves(self) -> bool:
        """True if taking it back gives the row another key."""
        return bool(self.before and self.after and self.has_key and self.before.lookup != self.after.lookup)

    @property
    def guards(self) -> dict[str, str]:
        """Conditions by column on the row that is there; none for one that is to be inserted."""
        if self.after is None:
            return {}
        return {name: self.after.conditions[name] for name in self.columns}

    def sql(self) -> str:
        """The statement, without the semicolon."""
        if self.after is None:
            return self._insert()
        limit = "" if self.has_key else " LIMIT 1"
        condition = self._condition()
        if self.before is None:
            return f"DELETE FROM {self.table} WHERE {condition}{limit}"
        values = ", ".join(f"{identifier(name)} = {self.before.literals[name]}" for name in self.columns)
        return f"UPDATE {self.table} SET {values} WHERE {condition}{limit}"

    def _condition(self) -> str:
        assert self.after
        parts = [self.after.lookup]
        if self.has_key:
            parts += [guard for guard in self.guards.values() if guard not in self.after.lookup]
        if self.moves:
            assert self.before
            parts.append(
                f"NOT EXISTS (SELECT 1 FROM (SELECT 1 FROM {self.table} WHERE {self.before.lookup} LIMIT 1) row_)"
            )
        return " AND ".join(parts)

    def _insert(self) -> str:
        assert self.before
        names = ", ".join(identifier(name) for name in self.columns)
        values = ", ".join(self.before.literals[name] for name in self.columns)
        head = f"INSERT INTO {self.table} ({names})"
        if not self.has_key:
            return f"{head} VALUES ({values})"
        return (
            f"{head} SELECT {values} FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM {self.table} WHERE {self.before.lookup})"
        )


def steps_of(
    name: TableName, definition: TableDefinition, changes: Sequence[TracedChange], generated: Collection[str]
) -> list[UndoStep | None]:
    """Steps that take changes of one definition back; None for one that changed no column that can be set.

    name: what the table is called now. generated: its generated columns, which no statement sets.

    Raises:
        Unsupported: the log does not hold what a change replaced, by position and column.
    """
    columns = [
        OutputColumn(full_name, kind_of(column))
        for full_name, column in zip(definition.column_names(), definition.columns, strict=True)
        if full_name not in generated and not column.computed
    ]
    images = {
        side: _Image.of(definition, columns, [traced.change.changes for traced in changes], side)
        for side in ("before", "after")
    }
    table = f"{identifier(name.schema)}.{identifier(name.table)}"
    return [_step(table, definition, traced, images, at) for at, traced in enumerate(changes)]


def _step(
    table: str, definition: TableDefinition, traced: TracedChange, images: Mapping[str, "_Image"], at: int
) -> UndoStep | None:
    op, has_key = traced.change.changes.op[0].as_py(), bool(definition.key)
    row, names = images["after"], [column.name for column in images["after"].columns]
    held_after = row.columns_of(at)
    # An insert is taken back by what the log holds of it, a delete needs every column.
    if op == INSERT:
        _require(traced, key_columns(definition) if has_key else names, held_after)
        return UndoStep(
            table=table, traced=traced, before=None, after=row.texts(at), columns=(*held_after,), has_key=has_key
        )
    if op == DELETE:
        _require(traced, names, held_after)
        return UndoStep(
            table=table, traced=traced, before=row.texts(at), after=None, columns=(*names,), has_key=has_key
        )
    # Of an update each column that was set needs its value before; what the row after leaves out is unchanged.
    old, held_before = images["before"], images["before"].columns_of(at)
    _require(traced, held_after, held_before)
    _require(traced, key_columns(definition) if has_key else names, held_before)
    before, after = old.texts(at), row.texts(at, {name: old for name in held_before if name not in held_after})
    differing = tuple(name for name in held_after if before.literals[name] != after.literals[name])
    return UndoStep(traced, table, before, after, differing, has_key) if differing else None


def _require(traced: TracedChange, names: Collection[str], present: Collection[str]) -> None:
    change = traced.change
    lacking = [name for name in names if name not in present]
    if lacking:
        raise Unsupported(
            f"{change.file}:{change.offset}: row {change.row} of {change.definition.name}: column {lacking[0]} is not "
            "in the row before, so the change cannot be taken back: the server logs whole rows with binlog_row_image = "
            "FULL; leave the change out by --from, --to, --key or --gtid"
        )


@dataclass(frozen=True, slots=True)
class _Image:
    """One image of several changes as SQL, by column and row. presence: which columns each row has; None: all."""

    definition: TableDefinition
    columns: Sequence[OutputColumn]
    literals: Mapping[str, Sequence[str]]
    conditions: Mapping[str, Sequence[str]]
    comparable: Mapping[str, Sequence[str]]
    presence: Sequence[Collection[str] | None]

    @classmethod
    def of(
        cls, definition: TableDefinition, columns: Sequence[OutputColumn], changes: Sequence[Changes], side: str
    ) -> "_Image":
        rows = pa.concat_tables([_image_table(change, side) for change in changes]).combine_chunks()
        values = [_safe(array) for array in literals(rows, columns)]
        compared = [_safe(array) for array in key_literals(rows, columns)]
        conditions = [is_stored(column, array).to_pylist() for column, array in zip(columns, compared, strict=True)]
        names = [column.name for column in columns]
        return cls(
            definition,
            columns,
            dict(zip(names, (array.to_pylist() for array in values), strict=True)),
            dict(zip(names, conditions, strict=True)),
            dict(zip(names, (array.to_pylist() for array in compared), strict=True)),
            [_present(definition, change, side) for change in changes],
        )

    def columns_of(self, at: int) -> list[str]:
        """The columns that a row has."""
        presence = self.presence[at]
        return [column.name for column in self.columns if presence is None or column.name in presence]

    def texts(self, at: int, fallback: Mapping[str, "_Image"] | None = None) -> RowTexts:
        """A row. fallback: the images that have columns which this one leaves out."""
        image_of = {name: (fallback or {}).get(name, self) for name in self.literals}
        values = {name: image.literals[name][at] for name, image in image_of.items()}
        conditions = {name: image.conditions[name][at] for name, image in image_of.items()}
        keys = key_columns(self.definition)
        if not keys:
            return RowTexts(values, conditions, " AND ".join(conditions.values()))
        # An index finds the key by its values, and of text the bytes decide.
        kinds = {column.name: column.kind for column in self.columns}
        parts = [f"{identifier(name)} = {image_of[name].comparable[name][at]}" for name in keys]
        parts += [conditions[name] for name in keys if kinds[name] in TEXT_KINDS]
        return RowTexts(values, conditions, " AND ".join(parts))


def _image_table(changes: Changes, side: str) -> pa.Table:
    image, raw = (changes.after, changes.raw) if side == "after" else (changes.before, changes.before_raw)
    raw = pa.nulls(len(changes), _RAW_TYPE) if raw is None else raw
    return pa.Table.from_batches([image]).append_column(RAW, raw)


def _present(definition: TableDefinition, changes: Changes, side: str) -> Collection[str] | None:
    presence = changes.present if side == "after" else changes.before_present
    if presence is None:
        return None
    flags = presence.sets[presence.index[0]].tolist()
    return {name for name, is_present in zip(definition.column_names(), flags, strict=True) if is_present}


def _safe(array: pa.Array) -> pa.Array:
    """Literals that every client sends as they are."""
    texts = array.to_pylist()
    if not any(text.startswith("'") and _UNSAFE.search(text) for text in texts):
        return array
    return pa.array([_by_bytes(text) for text in texts], pa.string())


def _by_bytes(text: str) -> str:
    if not (text.startswith("'") and _UNSAFE.search(text)):
        return text
    content = text[1:-1].replace("''", "'")
    return f"_utf8mb4 x'{content.encode().hex()}'"
