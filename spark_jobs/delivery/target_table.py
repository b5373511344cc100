"""Table of the target: its columns and keys, and the statements that prepare it for a version of a downstream table.

Put here: what information_schema says of it, and the statements by which its columns become those of the lake.
Not here: running them (table_delivery.py), or rows.

Statements follow from what the target has and what the lake has, not from the source's statements: a column that is
there is not added again, so a deliverer that was killed between a statement and its note of it continues. Columns are
known by their physical names in the lake, which a rename leaves.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.binlog.types.charsets import charset_of, some_collation
from spark_jobs.delivery.encode import OutputColumn
from spark_jobs.delivery.lake_table import LakeColumn, LakeTableShape
from spark_jobs.delivery.target import Connection, Facts
from spark_jobs.delivery.target_key import KeyCollation, cut_note, is_as_fine, key_collation, key_parts
from spark_jobs.downstream.multi_source import PROVENANCE
from spark_jobs.errors import DeliveryError, Unsupported
from spark_jobs.text.sql import identifier

_MARK = "varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_BY_SPARK_TYPE = {
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BOOLEAN": "tinyint",
    "DATE": "date",
    "TIMESTAMP": "timestamp(6)",
    "TIMESTAMP_NTZ": "datetime(6)",
    "BINARY": "longblob",
    "STRING": "longtext CHARACTER SET utf8mb4",
    "STRUCT<srid: INT, wkb: BINARY>": "geometry",
}
_ELSEWHERE = {"uuid": "char(36)", "inet4": "varchar(15)", "inet6": "varchar(45)"}
"""MariaDB's types at other servers."""
_BYTES = 63
_TEXT = re.compile(r"(var)?char\b|(tiny|medium|long)?text\b|enum\b|set\b")


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of the target. kind: its DATA_TYPE; declared: its COLUMN_TYPE; collation: of text."""

    name: str
    kind: str
    declared: str
    is_nullable: bool
    is_generated: bool
    collation: str | None = None
    has_default: bool = False
    """True if it has a default, or a value of its own: AUTO_INCREMENT."""


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A column of a unique index, or (None) an expression. length: characters or bytes that it takes of a value."""

    column: str | None
    length: int | None


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table as the target has it.

    keys: the columns of each index by which rows are identified, the primary key first. indexes: all unique indexes.
    """

    columns: tuple[TargetColumn, ...]
    keys: tuple[tuple[str, ...], ...]
    indexes: tuple[tuple[IndexPart, ...], ...] = ()

    @property
    def unique(self) -> int:
        """Number of unique indexes that there are."""
        return len(self.indexes)

    def unique_columns(self, columns: tuple[OutputColumn, ...]) -> tuple[OutputColumn, ...]:
        """The written columns that unique indexes have; all of them where an index has an expression of some."""
        names = {part.column.casefold() if part.column else None for parts in self.indexes for part in parts}
        names |= {name.casefold() for name in self.key(columns)}
        computed = {column.name.casefold() for column in self.columns if column.is_generated}
        if None in names or names & computed:
            return columns
        return tuple(column for column in columns if column.name.casefold() in names)

    def column(self, name: str) -> TargetColumn | None:
        """Column by name, in letters of any case, as servers compare them."""
        return next((column for column in self.columns if column.name.casefold() == name.casefold()), None)

    def output_columns(self, shape: LakeTableShape) -> tuple[OutputColumn, ...]:
        """The columns that the lake and the target both have, but for those that the target generates."""
        pairs = ((column.name, self.column(column.name)) for column in shape.columns)
        return tuple(OutputColumn(name, target.kind) for name, target in pairs if target and not target.is_generated)

    def key(self, columns: tuple[OutputColumn, ...]) -> tuple[str, ...]:
        """The lake's names of the columns by which rows are found: the first key of which all columns are written."""
        names = {column.name.casefold(): column.name for column in columns}
        for key in self.keys:
            if all(part.casefold() in names for part in key):
                return tuple(names[part.casefold()] for part in key)
        return ()


_COLUMNS = """
SELECT COLUMN_NAME name, DATA_TYPE kind, COLUMN_TYPE declared, IS_NULLABLE nullable, EXTRA extra,
  COLLATION_NAME collation, COLUMN_DEFAULT fallback
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION
"""
_KEYS = """
SELECT INDEX_NAME index_name, COLUMN_NAME name, SUB_PART part, NULLABLE nullable
FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0
ORDER BY INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX
"""
_COLLATIONS = "SELECT ID id, COLLATION_NAME name FROM information_schema.COLLATIONS WHERE ID IS NOT NULL"
_FULL_COLLATIONS = (
    "SELECT ID id, FULL_COLLATION_NAME name FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY "
    "WHERE ID IS NOT NULL"
)
"""MariaDB from 10.10 on: collations that several character sets have, each by its own name."""


def target_table(connection: Connection, schema: str, table: str) -> TargetTable | None:
    """None where the target has no such table. Raises DeliveryError."""
    rows = connection.ask(_COLUMNS, (schema, table))
    if not rows:
        return None
    columns = tuple(
        TargetColumn(
            row["name"],
            row["kind"].lower(),
            row["declared"].lower(),
            row["nullable"] == "YES",
            "GENERATED" in row["extra"].upper().replace("DEFAULT_GENERATED", "") or "VIRTUAL" in row["extra"].upper(),
            row["collation"],
            row["fallback"] is not None or "AUTO_INCREMENT" in row["extra"].upper(),
        )
        for row in rows
    )
    # Rows are identified by the primary key, or by a unique index of whole columns without NULL.
    indexes: dict[str, list[Mapping[str, Any]]] = {}
    for row in connection.ask(_KEYS, (schema, table)):
        indexes.setdefault(row["index_name"], []).append(row)
    keys = tuple(
        tuple(str(part["name"]) for part in parts)
        for name, parts in indexes.items()
        if name == "PRIMARY" or not any(part["part"] or part["nullable"] or part["name"] is None for part in parts)
    )
    parts = tuple(tuple(IndexPart(part["name"], part["part"]) for part in parts) for parts in indexes.values())
    return TargetTable(columns, keys, parts)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Dialect in which a server writes definitions. collations: names by id."""

    facts: Facts
    collations: Mapping[int, str]

    @classmethod
    def of(cls, connection: Connection) -> "Dialect":
        """The dialect of the target: its facts, and its collations by number. Raises DeliveryError."""
        facts = connection.facts
        rows = connection.ask(_FULL_COLLATIONS if facts.is_mariadb and facts.numbers >= (10, 10) else _COLLATIONS)
        return cls(facts, {int(row["id"]): row["name"] for row in rows})

    def definition(self, column: LakeColumn, *, is_key: bool = False) -> str:
        """A column without its name: type, character set, NULL or NOT NULL. Raises DeliveryError."""
        is_nullable = not is_key and (column.column is None or column.column.nullable)
        collation = self.key_collation(column) if is_key else None
        text = f"{self.type_of(column)}{self._column_charset(column)}"
        if collation is not None:
            name = f" COLLATE {collation.collation}" if collation.collation else ""
            text = f"{self.type_of(column)} CHARACTER SET {collation.charset}{name}"
        return f"{text} {'NULL' if is_nullable else 'NOT NULL'}"

    def type_of(self, column: LakeColumn) -> str:
        """The column's type at the target, without a character set. Raises DeliveryError."""
        declared = column.column
        if declared is None:
            return self._by_spark_type(column).partition(" CHARACTER SET")[0]
        text = declared.sql_type.removesuffix(" of unknown sign")
        return text if self.facts.is_mariadb else _ELSEWHERE.get(text, text).removesuffix(" compressed")

    def key_collation(self, column: LakeColumn) -> KeyCollation | None:
        """Collation that a key compares the column by.

        None where it is not text, or is one of our own. Raises DeliveryError.
        """
        if column.name in PROVENANCE:
            return None
        declared = column.column
        if not _TEXT.match(self.type_of(column)):
            return None
        if declared is not None and (declared.charset == _BYTES or declared.sql_type in _ELSEWHERE):
            return None
        return key_collation(declared.charset if declared else None, self.collations)

    def _column_charset(self, lake_column: LakeColumn) -> str:
        column = lake_column.column
        if column is None:
            return "".join(self._by_spark_type(lake_column).partition(" CHARACTER SET")[1:])
        is_text = column.type.has_labels or (column.type.is_character and column.charset != _BYTES)
        if not is_text or column.charset is None or column.sql_type.startswith(("json", "geometry", "vector")):
            return ""
        try:
            charset = charset_of(column.charset)
        except Unsupported:
            return ""
        collation = self.collations.get(some_collation(column.charset))
        return f" CHARACTER SET {charset}{f' COLLATE {collation}' if collation else ''}"

    def _by_spark_type(self, column: LakeColumn) -> str:
        if column.name in PROVENANCE:
            return _MARK
        kind = _BY_SPARK_TYPE.get(column.spark_type)
        if kind or column.spark_type.startswith("DECIMAL"):
            return kind or column.spark_type.lower()
        raise DeliveryError(f"column {column.name}: a column of type {column.spark_type} has no type in MySQL")

    @property
    def has_rename_column(self) -> bool:
        """True if ALTER TABLE … RENAME COLUMN is there; CHANGE is everywhere."""
        return self.facts.is_tidb or self.facts.numbers >= ((10, 5, 2) if self.facts.is_mariadb else (8, 0, 0))

    def altering(self, table: str, clauses: Sequence[str]) -> list[str]:
        """The statements that carry out clauses of ALTER TABLE; ``table`` is quoted.

        TiDB looks a statement's names up in the table as it is before it, so each clause is one there. Those that a
        kill has left out are found by what the target's table has.
        """
        if not self.facts.is_tidb:
            return [f"ALTER TABLE {table} {', '.join(clauses)}"] if clauses else []
        return [f"ALTER TABLE {table} {clause}" for clause in clauses]


def creation(schema: str, table: str, shape: LakeTableShape, dialect: Dialect) -> list[str]:
    """The statements that make a table of a version's columns. Raises DeliveryError."""
    lines = [
        f"{identifier(column.name)} {dialect.definition(column, is_key=column.name in shape.key)}"
        for column in shape.columns
    ]
    if shape.key:
        parts = [
            identifier(part.column) + (f"({part.prefix})" if part.prefix else "")
            for part in key_parts(_key_types(shape, dialect))
        ]
        lines.append(f"PRIMARY KEY ({', '.join(parts)})")
    name = f"{identifier(schema)}.{identifier(table)}"
    return [
        f"CREATE DATABASE IF NOT EXISTS {identifier(schema)}",
        f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(lines)})",
    ]


def key_notes(shape: LakeTableShape, dialect: Dialect) -> list[str]:
    """Notes on the key of a table that ``creation`` makes, where it is not the source's."""
    by_name = {column.name: column for column in shape.columns}
    collations = {name: dialect.key_collation(by_name[name]) for name in shape.key}
    notes = [f"key column {name}: {text.note}" for name, text in collations.items() if text and text.note]
    types = _key_types(shape, dialect)
    cut = cut_note(key_parts(types), types)
    return [*notes, cut] if cut else notes


def index_notes(shape: LakeTableShape, target: TargetTable, dialect: Dialect) -> list[str]:
    """Notes on unique indexes of a target that may refuse rows the source takes, as far as definitions tell."""
    by_name, notes = {column.name.casefold(): column for column in shape.columns}, []
    key = {name.casefold() for name in shape.key}
    # Text by its collation, in each column that an index has.
    names = dict.fromkeys(part.column.casefold() for parts in target.indexes for part in parts if part.column)
    for name in names:
        collation, column = getattr(target.column(name), "collation", None), by_name.get(name)
        declared = column.column if column else None
        if declared is None or declared.charset == _BYTES or collation in (None, "binary"):
            continue
        if not is_as_fine(collation, declared.charset, dialect.collations):
            notes.append(f"unique column {name} has the collation {collation}, and the source's has another")
    # The source's key by prefixes, and indexes that it does not make unique.
    parts = {part.column.casefold(): part.prefix for part in key_parts(_key_types(shape, dialect))}
    for index in target.indexes:
        columns = {part.column.casefold() if part.column else "" for part in index}
        listed = ", ".join(part.column or "an expression" for part in index)
        if not key <= columns:
            notes.append(f"a unique index on ({listed}), which the source's key does not have")
        elif any(_is_short(part, parts) for part in index):
            notes.append(f"a unique index on ({listed}) with a prefix, which may be shorter than the source's")
    return notes


def _is_short(part: IndexPart, prefixes: Mapping[str, int | None]) -> bool:
    """True if an index has less of a column than a key that a delivery creates. prefixes: of that key, by column."""
    if part.column is None or part.length is None:
        return False
    longest = prefixes.get(part.column.casefold())
    return longest is None or part.length < longest


def _key_types(shape: LakeTableShape, dialect: Dialect) -> dict[str, tuple[str, str | None]]:
    """Type and character set by key column."""
    by_name = {column.name: column for column in shape.columns}
    collations = {name: dialect.key_collation(by_name[name]) for name in shape.key}
    return {
        name: (dialect.type_of(by_name[name]), text.charset if (text := collations[name]) else None)
        for name in shape.key
    }


def types_of(shape: LakeTableShape, dialect: Dialect) -> dict[str, dict[str, str]]:
    """Columns by physical name as the progress row keeps them: names and definitions."""
    return {
        column.physical: {
            "name": column.name,
            "definition": dialect.definition(column, is_key=column.name in shape.key),
        }
        for column in shape.columns
    }


@dataclass(frozen=True, slots=True)
class Alterations:
    """The clauses of ALTER TABLE by which a target's columns become those of a version.

    before: the columns of the version that was delivered before, as ``types_of`` gives them; empty for none. defaults:
    literals that rows which are there have in new columns.
    """

    before: Mapping[str, Mapping[str, str]]
    shape: LakeTableShape
    target: TargetTable
    dialect: Dialect
    defaults: Mapping[str, str] = field(default_factory=dict)

    def clauses(self, *, is_checked: bool) -> list[str]:
        """Clauses in order, for one statement; none where the target has the columns. Raises DeliveryError.

        is_checked: whether a column counts as altered whose type is the target's, since somebody else alters it.
        """
        present = {column.name.casefold() for column in self.target.columns}
        self._require_old_key()
        moves = self._moves(present)
        droppable = present - self._reused_names(moves, is_checked=is_checked)
        drops = [
            column["name"]
            for physical, column in self.before.items()
            if physical not in self._physical and column["name"].casefold() in droppable
        ]
        clauses = [f"DROP COLUMN {identifier(name)}" for name in drops]
        # All clauses are one statement, so a name that is dropped is free for a rename in it.
        free = present - {name.casefold() for name in drops}
        previous: str | None = None
        for column in self.shape.columns:
            definition, old = self._definition(column), self.before.get(column.physical)
            name = identifier(column.name)
            if column.physical in moves:
                clauses.append(self._rename(moves[column.physical], column, definition))
            elif column.name.casefold() not in free:
                default = f" DEFAULT {self.defaults[column.name]}" if column.name in self.defaults else ""
                label = f"AFTER {previous}" if previous else "FIRST"
                clauses.append(f"ADD COLUMN {name} {definition}{default} {label}")
            elif old and old["definition"] != definition and not (is_checked and self._has(column, definition)):
                clauses.append(f"MODIFY COLUMN {name} {definition}")
            previous = name
        return clauses

    def _require_old_key(self) -> None:
        """Check that the key columns are still those by which old rows are located. Raises DeliveryError."""
        replaced = {
            column["name"].casefold() for physical, column in self.before.items() if physical not in self._physical
        }
        columns = [column for column in self.shape.columns if column.name in self.shape.key]
        new = [column.name for column in columns if column.physical not in self.before]
        names = [name for name in new if name.casefold() in replaced]
        if names:
            raise DeliveryError(
                f"the source's table was made again with another key column {', '.join(names)}; give the target's "
                "table its columns, or drop it, and deliver it from the beginning: stratalog deliver --reload"
            )

    @property
    def _physical(self) -> set[str]:
        return {column.physical for column in self.shape.columns}

    def _reused_names(self, moves: Mapping[str, str], *, is_checked: bool) -> set[str]:
        """Names of dropped columns that are other columns' at the target: those of renames that were carried out.

        Where somebody else alters, all names that columns have now may be such.
        """
        return {
            column.name.casefold()
            for column in self.shape.columns
            if is_checked or (column.physical not in moves and self._is_renamed(column))
        }

    def _is_renamed(self, column: LakeColumn) -> bool:
        old = self.before.get(column.physical)
        return old is not None and old["name"].casefold() != column.name.casefold()

    def _definition(self, column: LakeColumn) -> str:
        return self.dialect.definition(column, is_key=column.name in self.shape.key)

    def _moves(self, present: set[str]) -> dict[str, str]:
        """Old names by physical name of columns that are to be renamed. Raises DeliveryError."""
        new = {column.name.casefold() for column in self.shape.columns}
        old = {column["name"].casefold() for column in self.before.values()}
        moves = {
            column.physical: self.before[column.physical]["name"]
            for column in self.shape.columns
            if self._is_renamed(column)
        }
        if not moves or (new <= present and not (old - new) & present):  # carried out, or nothing tells
            if moves and new == old:
                raise DeliveryError(
                    f"columns have exchanged their names ({', '.join(sorted(moves.values()))}), and the target does "
                    "not tell whether its own have; deliver the table from the beginning: stratalog deliver --reload"
                )
            return {}
        return {physical: name for physical, name in moves.items() if name.casefold() in present}

    def _rename(self, old_name: str, column: LakeColumn, definition: str) -> str:
        old, new = identifier(old_name), identifier(column.name)
        if self.dialect.has_rename_column and self.before[column.physical]["definition"] == definition:
            return f"RENAME COLUMN {old} TO {new}"
        return f"CHANGE COLUMN {old} {new} {definition}"

    def _has(self, column: LakeColumn, definition: str) -> bool:
        """True if the target's column has the definition, by what information_schema says of types."""
        target = self.target.column(column.name)
        if target is None:
            return False
        text = definition.removesuffix(" NOT NULL").removesuffix(" NULL").partition(" CHARACTER SET")[0]
        widthless = re.sub(r"(int|year)\(\d+\)", r"\1", target.declared)
        return widthless == text.lower() and target.is_nullable != definition.endswith("NOT NULL")
