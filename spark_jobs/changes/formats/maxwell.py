"""Maxwell's JSON, as it writes it with its default settings.

Source: Maxwell 1.45 (RowMap, BinlogConnectorEvent, schema/columndef).

The transaction's id is in its last event, and each of its rows has it: so lines wait, in a temporary file where
they are many, until the transaction ends.

Put here: the object and its values, and the waiting. Not here: numbers as Java writes them (java_text.py), geometries
as text (wkt.py).
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from tempfile import SpooledTemporaryFile
from typing import Any

from spark_jobs.binlog import Changes, Column, TableDefinition
from spark_jobs.changes.formats.base import (
    BINARY_KINDS,
    DELETE,
    INSERT,
    UPDATE,
    ChangeLine,
    ColumnTexts,
    Format,
    SliceContext,
    json_object,
    kind_of,
    padded_off,
    portions,
    texts_of,
)
from spark_jobs.changes.formats.java_text import (
    compact_document,
    decimal_text,
    double_text,
    float_text,
)
from spark_jobs.changes.formats.java_text import (
    quoted_by_jackson as quoted,
)
from spark_jobs.changes.formats.wkt import wkt_of
from spark_jobs.changes.json_encoding import local

_TYPES = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}
_IN_MEMORY = 16 << 20
"""Bytes of waiting lines that stay in memory."""
Text = Callable[[Any], str]


def _spool() -> SpooledTemporaryFile[bytes]:
    return SpooledTemporaryFile(_IN_MEMORY)


@dataclass(slots=True)
class _Waiting:
    """The lines of the transaction that is being read: position, and the two parts that its id stands between."""

    spool: SpooledTemporaryFile[bytes] = field(default_factory=_spool)
    positions: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Offset, row, bytes of the first part, bytes of the second."""

    def __del__(self) -> None:
        """A feed may end, or be dropped, before the transaction does."""
        self.spool.close()


class MaxwellFormat(Format):
    """Writes ``database, table, type, ts, xid, commit, data, old``."""

    def __init__(self) -> None:
        self._waiting = _Waiting()

    def lines(
        self, context: SliceContext, definition: TableDefinition, changes: Iterable[Changes]
    ) -> Iterator[ChangeLine]:
        """One line a row, in two pieces: the transaction's id comes between them. Raises DecodeError."""
        assert context.marks
        columns = [
            ColumnTexts(name, column, kind_of(column), _text_of(column), _exact(column))
            for name, column in zip(definition.column_names(), definition.columns, strict=True)
        ]
        name = definition.name
        for part in portions(changes):
            after = texts_of(columns, part.after, part.raw, part.present)
            before = texts_of(columns, part.before, part.before_raw, part.before_present)
            positions = zip(part.op.to_pylist(), part.offset.to_pylist(), part.row.to_pylist(), strict=True)
            for at, (op, offset, row) in enumerate(positions):
                seconds, _ = context.marks.stamp(offset)
                data, old = after[at], before[at]
                # Columns that only the image before has (row images without all columns) are data, not old.
                missing = {key: text for key, text in old.items() if op == UPDATE and key not in data}
                changed = {key: text for key, text in old.items() if op == UPDATE and data.get(key, text) != text}
                head = (
                    f'{{"database":{quoted(name.schema)},"table":{quoted(name.table)},"type":"{_TYPES[op]}",'
                    f'"ts":{seconds}'
                )
                tail = f',"data":{json_object(data | missing)}'
                tail += f',"old":{json_object(changed)}}}\n' if changed else "}\n"
                yield ChangeLine(offset, row, (head, tail))

    def arranged(self, lines: Iterator[ChangeLine]) -> Iterator[ChangeLine]:
        for line in lines:
            if line.kind == "change":
                self._keep(line)
            elif line.kind == "end":
                yield from self._released(line.mark.xid if line.mark else None)

    def rest(self) -> Iterator[ChangeLine]:
        return self._released(None)

    def _keep(self, line: ChangeLine) -> None:
        head, tail = (piece.encode() for piece in line.pieces)
        self._waiting.spool.write(head + tail)
        self._waiting.positions.append((line.offset, line.row, len(head), len(tail)))

    def _released(self, xid: int | None) -> Iterator[ChangeLine]:
        waiting, self._waiting = self._waiting, _Waiting()
        waiting.spool.seek(0)
        for at, (offset, row, *sizes) in enumerate(waiting.positions, 1):
            head, tail = (waiting.spool.read(size).decode() for size in sizes)
            number = "" if xid is None else f',"xid":{xid}'
            is_last = at == len(waiting.positions)
            yield ChangeLine(offset, row, (head, number, ',"commit":true' if is_last else "", tail))


def _exact(column: Column) -> Text:
    """Values that a typed column cannot hold: dates as they are, bytes that are no text with marks for what is none."""
    if column.type.is_character:
        return lambda text: quoted(bytes.fromhex(text).decode("utf-8", "replace"))
    return lambda text: text.partition(" or ")[0] if " or " in text else quoted(text)


def _base64(kind: str) -> Text:
    return lambda value: f'"{base64.b64encode(padded_off(value, kind)).decode()}"'


_TEXTS: dict[str, Text] = {
    "float": float_text,
    "double": double_text,
    "decimal": lambda value: decimal_text(Decimal(value)),
    "date": lambda value: f'"{value.isoformat()}"',
    "json": compact_document,
    "set": lambda value: f"[{','.join(map(quoted, value.split(',') if value else ()))}]",
    "geometry": lambda value: quoted(wkt_of(value["wkb"])),
    "vector": lambda value: f"[{','.join(map(float_text, value))}]",
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year"), str),
    **{kind: _base64(kind) for kind in BINARY_KINDS},
}
"""Writers by the first word of a declaration; all else is a string."""


def _text_of(column: Column) -> Text:
    kind = kind_of(column)
    if kind in ("datetime", "timestamp"):
        digits = column.type.digits(column)
        return lambda value: f'"{_utc(value, digits)}"'
    if kind == "enum":
        return lambda value: "null" if value == "" and "" not in (column.labels or ()) else quoted(value)
    return _TEXTS.get(kind, quoted)


def _utc(value: datetime, digits: int) -> str:
    return local(value if value.tzinfo is None else value.astimezone(UTC), digits)
