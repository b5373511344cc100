"""Statements that write rows: INSERT, upserts and DELETE of many rows each, with how many rows each has to find.

Put here: the text of statements, and what the target has to answer. Not here: literals (encode.py), which rows are
written how (changes.py), or executing statements (transactions.py).

No statement writes over a row of another key. An INSERT stops at it. An upsert has a guard: it computes a number that
the server refuses where the row in its way has other bytes in the key, as under a collation for which 'a' is 'A', a
key's prefix, or a second unique index.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delivery.encode import OutputColumn, cuts, joined, key_literals, literals, tuples
from spark_jobs.errors import DeliveryError
from spark_jobs.text.sql import identifier

_OVERHEAD = 1 << 10
"""Bytes of a packet that are left to the statement beside its rows."""
_MOST_BYTES = 4 << 20
"""Bytes of one statement at limit, but for one of a single row."""


_GUARD = str((1 << 63) - 1)
"""The largest BIGINT: a server refuses to add to it, and quotes it."""
_OUT_OF_RANGE = 1690
_FOUND = re.compile(rb"Duplicates: (\d+)")


class WriteMethod(Enum):
    """Method of writing a row."""

    INSERT = "insert"
    """Insert a row that must not be there."""
    UPDATE = "update"
    """Give these values to a row that is there."""
    UPSERT = "upsert"
    """Insert a row, or give it these values where it is there."""
    REPEATED_INSERT = "repeated insert"
    """Insert a row, or give it these values where it is there already; a row that the source identifies as another one
    stops the statement."""


@dataclass(frozen=True, slots=True)
class RowStatement:
    """A statement, and what the target has to answer.

    does: what it does with rows, for messages. rows: how many it has to find or make, at most where is_at_most, since a
    run before may have done the same; None for any number. counts_found: whether the rows that were there are counted,
    and not all.
    """

    text: bytes
    table: str
    does: str
    rows: int | None
    is_at_most: bool = False
    counts_found: bool = False

    def require(self, label: str, affected: int, info: bytes) -> None:
        """Check the target's answer to the statement: affected rows and info. Raises DeliveryError.

        affected: rows. info: what the server says beside that number.
        """
        if self.rows is None:
            return
        # Of an upsert that has to find rows, those that it changes count twice in the number.
        count = affected
        if self.counts_found:
            match = _FOUND.search(info)
            if match is None:
                raise DeliveryError(
                    f"{label}: {self.table}: a proxy before the target hides how many rows were there; connect without"
                )
            count = int(match[1])
        if count == self.rows or (self.is_at_most and count < self.rows):
            return
        raise DeliveryError(
            f"{label}: {self.table}: the target {self.does} {count:,} rows where the window has {self.rows:,}, so its "
            "rows are not those that this delivery wrote, and nothing of the transaction is there; see which by "
            "`stratalog verify --delivery`, and deliver the table from the beginning: stratalog deliver --reload"
        )

    def collision(self, label: str, number: int | None, text: str) -> DeliveryError | None:
        """Error of the guard for an error's number and text; None for other errors."""
        if number != _OUT_OF_RANGE or _GUARD not in text:
            return None
        return DeliveryError(
            f"{label}: {self.table}: a row of another key is in the way: a unique index of the target takes values for "
            "equal that differ, by its collation or prefix, or the source does not have it; compare by `stratalog "
            "verify --delivery`, and give the target the source's indexes and collations, or finer ones"
        )


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes rows to one table of the target.

    columns: those written. key: of these, the ones by which rows are found; none where rows are identified by all.
    rows: of a statement, at most. packet: the bytes of a packet, at most. source_key: the written columns by which the
    source identifies rows; all without a key. The target's key may lack some of them.
    """

    schema: str
    table: str
    columns: tuple[OutputColumn, ...]
    key: tuple[str, ...]
    rows: int
    packet: int
    source_key: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{identifier(self.schema)}.{identifier(self.table)}"

    @property
    def key_columns(self) -> tuple[OutputColumn, ...]:
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.key)

    @property
    def has_source_key(self) -> bool:
        """True if rows that differ at the source have different keys."""
        return set(self.source_key) <= set(self.key)

    @property
    def identity_columns(self) -> tuple[OutputColumn, ...]:
        """The key's, and what else tells rows apart at the source."""
        names = set(self.source_key) - set(self.key)
        return (*self.key_columns, *(column for column in self.columns if column.name in names))

    def write(self, rows: pa.Table, method: WriteMethod) -> Iterator[RowStatement]:
        """The statements that write rows."""
        yield from self.write_texts(self.row_texts(rows), method, lambda index: rows.slice(index, 1))

    def row_texts(self, rows: pa.Table) -> pa.Array:
        """Texts of each row for ``write_texts``."""
        return tuples(literals(rows, self.columns))

    def write_texts(
        self, texts: pa.Array, method: WriteMethod, row: Callable[[int], pa.Table]
    ) -> Iterator[RowStatement]:
        """The statements that write the rows of these texts. row: gives one of them as a table, by its position."""
        listed = ", ".join(identifier(column.name) for column in self.columns)
        head = f"INSERT INTO {self.name} ({listed}) VALUES ("
        tail = ")" if method is WriteMethod.INSERT else f") ON DUPLICATE KEY UPDATE {self._assignments(method)}"
        for begin, text, rows in self._statements(texts, head, "),(", tail):
            if method is WriteMethod.INSERT:
                yield self._row_statement(text, "inserted", rows)
            elif method in (WriteMethod.UPSERT, WriteMethod.REPEATED_INSERT):
                # A row that was there and is changed counts twice.
                yield self._row_statement(text, "wrote", 2 * rows, is_at_most=True)
            elif rows == 1:
                # Servers count found rows beside the number, but for a statement of one row.
                yield from self.update(row(begin), self.key_texts(row(begin)))
            else:
                yield self._row_statement(text, "found", rows, counts_found=True)

    def delete(self, rows: pa.Table, *, is_again: bool = False) -> Iterator[RowStatement]:
        """The statements that delete the rows of these keys. rows: with the identity's columns.

        is_again: whether they may be gone already, and rows be there whose keys the target takes for equal.
        """
        if is_again and self.key:
            head = f"DELETE FROM {self.name} WHERE ("
            for _, text, count in self._statements(self._spelled_keys(rows), head, ") OR (", ")"):
                yield self._row_statement(text, "deleted", count, is_at_most=True)
            return
        yield from self.delete_texts(self.key_texts(rows))

    def key_texts(self, rows: pa.Table) -> pa.Array:
        """Texts of each row for ``delete_texts``; of a table without a key a condition that its copies fulfil."""
        if not self.key:
            return self._conditions(rows)
        arrays = key_literals(rows, self.key_columns)
        if len(self.key) == 1:
            return arrays[0]
        names = [f"{identifier(name)} = " for name in self.key]
        parts = [part for name, array in zip(names, arrays, strict=True) for part in (" AND ", name, array)][1:]
        return pc.binary_join_element_wise(*parts, "")

    def delete_texts(self, texts: pa.Array, *, is_at_most: bool = False) -> Iterator[RowStatement]:
        """The statements that delete the rows of these texts; of a table without a key one copy for each.

        is_at_most: whether some may not be there.
        """
        if not self.key:
            for condition, copies in Counter(texts.to_pylist()).items():
                yield self._delete_of_copies(condition, copies, is_at_most=is_at_most)
            return
        is_single = len(self.key) == 1
        condition = f"{identifier(self.key[0])} IN (" if is_single else "("
        statements = self._statements(
            texts, f"DELETE FROM {self.name} WHERE {condition}", "," if is_single else ") OR (", ")"
        )
        for _, text, rows in statements:
            yield self._row_statement(text, "deleted", rows, is_at_most=is_at_most)

    def update(self, rows: pa.Table, keys: pa.Array) -> Iterator[RowStatement]:
        """The statements that give rows these values, one each. keys: ``key_texts`` of the rows before."""
        arrays = literals(rows, self.columns)
        names = [f"{identifier(column.name)} = " for column in self.columns]
        parts = [part for name, array in zip(names, arrays, strict=True) for part in (", ", name, array)][1:]
        assignments = pc.binary_join_element_wise(*parts, "")
        operand = f"{identifier(self.key[0])} = " if len(self.key) == 1 else ""
        for values, key in zip(assignments.to_pylist(), keys.to_pylist(), strict=True):
            text = f"UPDATE {self.name} SET {values} WHERE {operand}{key}".encode()
            yield self._row_statement(text, "found", 1)

    def delete_copies(self, rows: pa.Table, copies: Sequence[int]) -> Iterator[RowStatement]:
        """The statements that delete so many copies of each of these rows, which are identified by all columns."""
        for condition, count in zip(self._conditions(rows).to_pylist(), copies, strict=True):
            yield self._delete_of_copies(condition, count)

    def _delete_of_copies(self, condition: str, copies: int, *, is_at_most: bool = False) -> RowStatement:
        text = f"DELETE FROM {self.name} WHERE {condition} LIMIT {copies}".encode()
        return self._row_statement(text, "deleted", copies, is_at_most=is_at_most)

    def _row_statement(
        self, text: bytes, does: str, rows: int, *, is_at_most: bool = False, counts_found: bool = False
    ) -> RowStatement:
        return RowStatement(text, f"{self.schema}.{self.table}", does, rows, is_at_most, counts_found)

    def _conditions(self, rows: pa.Table) -> pa.Array:
        if not self.columns:
            return pa.array(["TRUE"] * len(rows))
        arrays = key_literals(rows, self.columns)
        return _conjunction([is_stored(column, array) for column, array in zip(self.columns, arrays, strict=True)])

    def _spelled_keys(self, rows: pa.Table) -> pa.Array:
        """Conditions of keys by which an index finds them, and by the bytes of all that tells rows apart."""
        columns, arrays = self.identity_columns, key_literals(rows, self.identity_columns)
        by_index = [
            pc.binary_join_element_wise(f"{identifier(column.name)} = ", array, "")
            for column, array in zip(self.key_columns, arrays, strict=False)
        ]
        spelled = [
            is_stored(column, array)
            for column, array in zip(columns, arrays, strict=True)
            if column.kind in TEXT_KINDS or column.name not in self.key
        ]
        return _conjunction([*by_index, *spelled])

    def _statements(self, texts: pa.Array, head: str, separator: str, tail: str) -> Iterator[tuple[int, bytes, int]]:
        """Statements, each after where its texts begin and before how many of them it has."""
        size = max(1, min(_MOST_BYTES, self.packet - len(head.encode()) - len(tail.encode()) - _OVERHEAD))
        for begin, end in cuts(texts, self.rows, size):
            rows = joined(texts.slice(begin, end - begin), separator)
            yield begin, b"".join([head.encode(), rows, tail.encode()]), end - begin

    def _assignments(self, method: WriteMethod) -> str:
        """Assignments of an upsert, after its guard: a server carries them out one after the other."""
        compared = self.identity_columns if method is WriteMethod.REPEATED_INSERT else self.key_columns
        condition = " AND ".join(_is_same(column) for column in compared)
        first = identifier(self.key[0])
        guard = f"{first} = IF({_GUARD} + (NOT ({condition})), VALUES({first}), NULL)"
        names = [identifier(column.name) for column in self.columns if column.name not in self.key]
        return ", ".join([guard, *(f"{name} = VALUES({name})" for name in names)])


TEXT_KINDS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}


def _is_same(column: OutputColumn) -> str:
    """SQL: whether the row that is there has the bytes of the one that is written."""
    name = identifier(column.name)
    if column.kind in TEXT_KINDS:
        return f"CAST({name} AS BINARY) <=> CAST(VALUES({name}) AS BINARY)"
    return f"{name} <=> VALUES({name})"


def is_stored(column: OutputColumn, literal_list: pa.Array) -> pa.Array:
    """SQL: whether a column has what a literal became when it was stored.

    JSON is compared as the target prints what it reads of the literal: a DECIMAL in it is not one there. Text is
    compared by its bytes, since under most collations 'a' equals 'A': by those of UTF-8, or, where a literal in hex has
    them, by the column's own.
    """
    name = identifier(column.name)
    if column.kind == "json":
        before, behind = f"CAST(CAST({name} AS CHAR) AS BINARY) <=> CAST(CAST(CAST(", " AS JSON) AS CHAR) AS BINARY)"
        return pc.binary_join_element_wise(before, literal_list, behind, "")
    if column.kind in TEXT_KINDS:
        before, behind = f"CAST(CONVERT({name} USING utf8mb4) AS BINARY) <=> CAST(", " AS BINARY)"
        texts = pc.binary_join_element_wise(before, literal_list, behind, "")
        has_bytes = pc.starts_with(literal_list, "x'")
        if not pc.any(has_bytes).as_py():
            return texts
        return pc.if_else(
            has_bytes, pc.binary_join_element_wise(f"CAST({name} AS BINARY) <=> ", literal_list, ""), texts
        )
    return pc.binary_join_element_wise(f"{name} <=> ", literal_list, "")


def _conjunction(conditions: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*conditions, " AND ")
