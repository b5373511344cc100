"""Statements that write rows: INSERT, upserts and DELETE of many rows each.

Put here: the text of statements. Not here: literals (encode.py), or which rows are written how (changes.py).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delivery.encode import OutputColumn, cuts, joined, key_literals, literals, tuples
from spark_jobs.text.sql import identifier

_OVERHEAD = 1 << 10
"""Bytes of a packet that are left to the statement beside its rows."""
_MOST_BYTES = 4 << 20
"""Bytes of one statement at limit, but for one of a single row."""


class Way(Enum):
    """How a row is written."""

    INSERT = "insert"
    """It must not be there."""
    UPSERT = "upsert"
    """It replaces the row of its key."""
    REPLACE = "replace"
    """It replaces all rows with which it has a unique key in common."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes rows to one table of the target.

    columns: those written. key: of these, the ones by which rows are found; none where rows are identified by all.
    limits: rows of a statement at limit, and bytes of a packet.
    """

    schema: str
    table: str
    columns: tuple[OutputColumn, ...]
    key: tuple[str, ...]
    rows: int
    packet: int

    @property
    def name(self) -> str:
        return f"{identifier(self.schema)}.{identifier(self.table)}"

    @property
    def key_columns(self) -> tuple[OutputColumn, ...]:
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.key)

    def write(self, rows: pa.Table, way: Way) -> Iterator[bytes]:
        """The statements that write rows."""
        yield from self.write_texts(self.row_texts(rows), way)

    def row_texts(self, rows: pa.Table) -> pa.Array:
        """What ``write_texts`` takes of each row."""
        return tuples(literals(rows, self.columns))

    def write_texts(self, texts: pa.Array, way: Way) -> Iterator[bytes]:
        """The statements that write the rows of these texts."""
        listed = ", ".join(identifier(column.name) for column in self.columns)
        head = f"{'REPLACE' if way is Way.REPLACE else 'INSERT'} INTO {self.name} ({listed}) VALUES ("
        tail = f") ON DUPLICATE KEY UPDATE {self._assignments()}" if way is Way.UPSERT else ")"
        yield from self._statements(texts, head, "),(", tail)

    def delete(self, rows: pa.Table) -> Iterator[bytes]:
        """The statements that delete the rows of these keys. rows: with the key's columns."""
        yield from self.delete_texts(self.key_texts(rows))

    def key_texts(self, rows: pa.Table) -> pa.Array:
        """What ``delete_texts`` takes of each row; of a table without a key a condition that its copies fulfil."""
        if not self.key:
            return self._conditions(rows)
        arrays = key_literals(rows, self.key_columns)
        if len(self.key) == 1:
            return arrays[0]
        names = [f"{identifier(name)} = " for name in self.key]
        parts = [part for name, array in zip(names, arrays, strict=True) for part in (" AND ", name, array)][1:]
        return pc.binary_join_element_wise(*parts, "")

    def delete_texts(self, texts: pa.Array) -> Iterator[bytes]:
        """The statements that delete the rows of these texts; of a table without a key one copy for each."""
        if not self.key:
            for condition, copies in Counter(texts.to_pylist()).items():
                yield f"DELETE FROM {self.name} WHERE {condition} LIMIT {copies}".encode()
        elif len(self.key) == 1:
            head = f"DELETE FROM {self.name} WHERE {identifier(self.key[0])} IN ("
            yield from self._statements(texts, head, ",", ")")
        else:
            yield from self._statements(texts, f"DELETE FROM {self.name} WHERE (", ") OR (", ")")

    def update(self, rows: pa.Table, keys: pa.Array) -> Iterator[bytes]:
        """The statements that give rows these values, one each. keys: ``key_texts`` of the rows before."""
        arrays = literals(rows, self.columns)
        names = [f"{identifier(column.name)} = " for column in self.columns]
        parts = [part for name, array in zip(names, arrays, strict=True) for part in (", ", name, array)][1:]
        assignments = pc.binary_join_element_wise(*parts, "")
        operand = f"{identifier(self.key[0])} = " if len(self.key) == 1 else ""
        for values, key in zip(assignments.to_pylist(), keys.to_pylist(), strict=True):
            yield f"UPDATE {self.name} SET {values} WHERE {operand}{key}".encode()

    def delete_copies(self, rows: pa.Table, copies: Sequence[int]) -> Iterator[bytes]:
        """The statements that delete so many copies of each of these rows, which are identified by all columns."""
        for condition, count in zip(self._conditions(rows).to_pylist(), copies, strict=True):
            yield f"DELETE FROM {self.name} WHERE {condition} LIMIT {count}".encode()

    def _conditions(self, rows: pa.Table) -> pa.Array:
        arrays = key_literals(rows, self.columns)
        operands = [_operands(column) for column in self.columns]
        parts = [
            part
            for (before, behind), array in zip(operands, arrays, strict=True)
            for part in (" AND ", before, array, behind)
        ][1:]
        return pc.binary_join_element_wise(*parts, "")

    def _statements(self, texts: pa.Array, head: str, separator: str, tail: str) -> Iterator[bytes]:
        size = max(1, min(_MOST_BYTES, self.packet - len(head.encode()) - len(tail.encode()) - _OVERHEAD))
        for begin, end in cuts(texts, self.rows, size):
            yield b"".join([head.encode(), joined(texts.slice(begin, end - begin), separator), tail.encode()])

    def _assignments(self) -> str:
        names = [identifier(column.name) for column in self.columns if column.name not in self.key]
        names = names or [identifier(self.key[0])]
        return ", ".join(f"{name} = VALUES({name})" for name in names)


_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}


def _operands(column: OutputColumn) -> tuple[str, str]:
    """What stands before and after the literal that a column is compared with.

    JSON is compared as a document, and text by its bytes: under most collations 'a' equals 'A'.
    """
    name = identifier(column.name)
    if column.kind == "json":
        return f"CAST({name} AS CHAR) <=> ", ""
    if column.kind in _TEXTS:
        return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY) <=> CAST(", " AS BINARY)"
    return f"{name} <=> ", ""
