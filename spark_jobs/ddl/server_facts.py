"""Declarations of a live server that its log may lack: foreign keys that cascade, system versioning.

Source: MySQL manual, "The INFORMATION_SCHEMA REFERENTIAL_CONSTRAINTS Table", "innodb_native_foreign_keys" (from 9.6 on
the server carries out cascades itself, and logs them, unless that is ON); MariaDB Knowledge Base, "Information Schema
TABLES Table" (TABLE_TYPE).

Put here: asking for it, and its form in the lake. Not here: what follows from it (unlogged_changes.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.binlog import TableName
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.log.position import Position


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Declarations of a server when it was asked.

    Attributes:
        at: the log's end before that.
        foreign_keys: those that cascade, with their child tables.
        versioned: the system-versioned tables.
        has_inline_keys: REFERENCES in a column's definition makes a foreign key.
        logs_cascades: what foreign keys do to child rows is in the log.
    """

    at: Position
    foreign_keys: tuple[tuple[TableName, ForeignKey], ...] = ()
    versioned: tuple[TableName, ...] = ()
    has_inline_keys: bool = True
    logs_cascades: bool = False

    def to_note(self) -> dict[str, Any]:
        """The declarations as a commit of the schema history stores them."""
        keys = [
            [
                *(*_pair(child), key.name, *_pair(key.parent), key.on_delete, key.on_update),
                *([*key.columns], [*key.parent_columns]),
            ]
            for child, key in self.foreign_keys
        ]
        return {
            "at": str(self.at),
            "foreign_keys": keys,
            "versioned": [[*_pair(name)] for name in self.versioned],
            "has_inline_keys": self.has_inline_keys,
            "logs_cascades": self.logs_cascades,
        }

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> "ServerFacts":
        keys = tuple(_key_of(cells) for cells in note["foreign_keys"])
        versioned = tuple(TableName(*pair) for pair in note["versioned"])
        return cls(Position.parse(note["at"]), keys, versioned, note["has_inline_keys"], note["logs_cascades"])


def _key_of(cells: Sequence[Any]) -> tuple[TableName, ForeignKey]:
    """cells: as ``to_note`` lists them; earlier versions kept no columns."""
    schema, table, name, parent_schema, parent, on_delete, on_update, *columns = cells
    own_columns, parent_columns = columns or ((), ())
    key = ForeignKey(
        name,
        TableName(parent_schema, parent),
        on_delete,
        on_update,
        columns=tuple(own_columns),
        parent_columns=tuple(parent_columns),
    )
    return TableName(schema, table), key


def _pair(name: TableName) -> tuple[str, str]:
    return name.schema, name.table
