"""Row changes as JSON lines, in the log's order.

Put here: how a decoded value is written as JSON. Not here: decoding (binlog/).
One slice is in memory at a time. This is the one place where values become Python objects: text is made of them.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import bronze
from spark_jobs.binlog import (
    Changes,
    Column,
    Decoder,
    FormatDescription,
    Slicer,
    TableDefinition,
    TableName,
    definitions_of,
)
from spark_jobs.errors import LakeError, Truncated
from spark_jobs.lake import Lake, Table
from spark_jobs.position import Position, Range
from spark_jobs.rules import Pattern

OPERATIONS = {1: "insert", 2: "update", 3: "delete"}
_DECIMAL = 246
Wanted = Callable[[TableName], bool]
Complete = Callable[[TableDefinition], TableDefinition]
"""Adds to a table's definition what the log leaves out of it: names, signs, character sets, labels."""


def as_logged(definition: TableDefinition) -> TableDefinition:
    """Adds nothing to what the log says of a table."""
    return definition


@dataclass(frozen=True, slots=True)
class Written:
    """One JSON line and where its change stands."""

    offset: int
    row: int
    line: str


class JsonChanges:
    """Turns slices (rows of SLICE_SCHEMA or of bronze) into JSON lines."""

    def __init__(self, source: str | None, wanted: Wanted, complete: Complete = as_logged) -> None:
        self.source = source
        self.wanted = wanted
        self.complete = complete

    def lines(self, batch: pa.RecordBatch) -> Iterator[Written]:
        """The changes of the batch's slices, in order of offset and row. Raises DecodeError, Unsupported."""
        for at in range(batch.num_rows):
            yield from self._slice({name: batch.column(name)[at] for name in batch.schema.names})

    def _slice(self, cells: dict[str, pa.Scalar]) -> list[Written]:
        file, start = cells["file"].as_py(), cells["start"].as_py()
        context, payload = cells["context"].as_py(), cells["payload"].as_buffer()
        found: list[Written] = []
        for logged in definitions_of(file, start, context, payload):
            if self.wanted(logged.name):
                definition = self.complete(logged)
                decoder = Decoder(definition, before="all", gtids=True)
                begun = {name: cells[name].as_py() for name in ("transaction_start", "gtid")}
                for changes in decoder.decode(
                    file, start, context, payload, committed_us=cells["committed_at"].value, **begun
                ):
                    found += self._written(file, definition, changes)
        return sorted(found, key=lambda one: (one.offset, one.row))

    def _written(self, file: str, definition: TableDefinition, changes: Changes) -> Iterator[Written]:
        after = _images(definition, changes.after, _listed(changes.raw, len(changes)))
        before = _images(definition, changes.before, _listed(changes.before_raw, len(changes)))
        gtids = _listed(changes.gtid, len(changes))
        places = zip(changes.op.to_pylist(), changes.offset.to_pylist(), changes.row.to_pylist(), strict=True)
        committed = changes.committed_at.to_pylist()
        for at, (op, offset, row) in enumerate(places):
            name = definition.name
            change = {
                "source": self.source,
                "file": file,
                "offset": offset,
                "row": row,
                "gtid": gtids[at],
                "committed_at": _instant(committed[at], 6),
                "schema": name.schema,
                "table": name.table,
                "op": OPERATIONS[op],
                "before": {1: None, 2: before[at], 3: after[at]}[op],
                "after": None if op == 3 else after[at],
            }
            yield Written(offset, row, json.dumps(change, ensure_ascii=False))


def wanted_tables(names: Sequence[str]) -> Wanted:
    """A test for tables named ``DB.TABLE`` (patterns are fine); any table passes where none is named.

    Raises ConfigError.
    """
    patterns = [Pattern.parse(name) for name in names]
    return lambda name: not patterns or any(one.matches(name.schema, name.table) for one in patterns)


def changes_of_files(
    files: Iterable[tuple[str, Iterator[bytes]]], wanted: Wanted, complete: Complete = as_logged
) -> Iterator[str]:
    """The changes in binlog files, given by name and chunks of bytes. Raises DecodeError where a file is cut."""
    for file, chunks in files:
        slicer, written = Slicer(file, 0, None), JsonChanges(None, wanted, complete)
        for chunk in chunks:
            for batch in slicer.feed(chunk):
                yield from (one.line for one in written.lines(batch))
        for batch in slicer.finish():
            yield from (one.line for one in written.lines(batch))
        if slicer.pending:
            left = f"{slicer.pending} bytes at the end are no complete transaction"
            raise Truncated(f"{file}:{slicer.complete}: {left}; copy the file again")


def changes_of_bronze(
    spark: SparkSession, lake: Lake, source: str, start: str | None, stop: str | None, wanted: Wanted
) -> Iterator[str]:
    """The changes of a range of bronze, snapped outward to transactions; all of it by default. Raises LakeError."""
    table = lake.bronze(source)
    head = table.head()
    if head is None or head.checkpoint is None:
        raise LakeError(f"{source}: bronze holds nothing yet")
    begin = Position.parse(start) if start else bronze.begin(head.checkpoint)
    end = Position.parse(stop) if stop else head.checkpoint.position
    written = JsonChanges(source, wanted)
    for row in _slices(spark, table, head.version, Range(begin, end)).toLocalIterator(prefetchPartitions=True):
        cells = pa.RecordBatch.from_pydict({name: [row[name]] for name in bronze.ARROW.names}, schema=bronze.ARROW)
        for part in _cut(cells, begin, end):
            yield from (one.line for one in written.lines(part))


def _slices(spark: SparkSession, table: Table, version: int, wanted: Range) -> DataFrame:
    """The slices that hold a range, in order, with the earlier parts of a transaction that the range begins inside."""
    slices = bronze.overlapping(spark, table, version, wanted).where("kind != 'control'")
    first = slices.select("stretch", "file", "transaction_start").orderBy("stretch", "number", "start").head()
    if first is not None:
        begin = min(wanted.start, Position(first["file"], first["transaction_start"], first["stretch"]))
        slices = bronze.overlapping(spark, table, version, Range(begin, wanted.stop)).where("kind != 'control'")
    return slices.orderBy("stretch", "number", "start")


def _cut(cells: pa.RecordBatch, begin: Position, end: Position) -> Iterator[pa.RecordBatch]:
    """The transactions of one slice that the range touches; the slice itself where it lies inside or is part of one."""
    file, start, stop, transaction = (
        cells.column(n)[0].as_py() for n in ("file", "start", "stop", "transaction_start")
    )
    ends = [at.offset for at in (begin, end) if at.file == file and start < at.offset < stop]
    if not ends or transaction != start or not cells.column("transactions")[0].as_py():
        yield cells
        return
    low = begin.offset if begin.file == file else 0
    high = end.offset if end.file == file else stop
    pieces = [(_number(piece, "transaction_start"), piece) for piece in _pieces(cells, file, start)]
    stops = {begun: _number(piece, "stop") for begun, piece in pieces}
    yield from (piece for begun, piece in pieces if stops[begun] > low and begun < high)


def _number(cells: pa.RecordBatch, name: str) -> int:
    return int(cells.column(name)[0].as_py())


def _pieces(cells: pa.RecordBatch, file: str, start: int) -> Iterator[pa.RecordBatch]:
    """A slice cut as small as it goes; what belongs to a transaction that ends in a later slice comes last, in one."""
    context, payload = cells.column("context")[0].as_py(), cells.column("payload")[0].as_py()
    head = context[: int.from_bytes(context[9:13], "little")]
    slicer = Slicer(file, start, FormatDescription.parse(head, f"{file}:{start}"), target=1)
    for batch in [*slicer.feed(payload), *slicer.finish()]:
        yield from (batch.slice(at, 1) for at in range(batch.num_rows))
    if slicer.pending:
        rest = slicer.complete
        values = {name: cells.column(name)[0].as_py() for name in cells.schema.names}
        values |= {"start": rest, "transaction_start": rest, "context": head, "payload": payload[rest - start :]}
        yield pa.RecordBatch.from_pylist([values], schema=cells.schema)


def _images(definition: TableDefinition, image: pa.RecordBatch, raw: list[Any]) -> list[dict[str, Any]]:
    """One dict a row: column name to JSON value; ``@1``, ``@2`` … where names are unknown."""
    columns = [
        (column.name or f"@{at + 1}", _json_values(column, image.column(at)))
        for at, column in enumerate(definition.columns)
    ]
    bytes_of_text = {name for (name, _), column in zip(columns, definition.columns, strict=True) if _is_text(column)}
    rows = [{name: values[at] for name, values in columns} for at in range(image.num_rows)]
    for row, exact in zip(rows, raw, strict=True):
        for name, text in exact or ():
            row[name] = _base64(bytes.fromhex(text)) if name in bytes_of_text else text
    return rows


def _is_text(column: Column) -> bool:
    """Whether an exact text of the column is the hex of bytes that are no text."""
    return column.type.is_character


def _base64(value: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(value).decode()}


def _listed(values: pa.Array | None, length: int) -> list[Any]:
    return [None] * length if values is None else values.to_pylist()


def _json_values(column: Column, values: pa.Array) -> list[Any]:
    write = _writer(column, values.type)
    return [None if value is None else write(value) for value in values.to_pylist()]


def _writer(column: Column, arrow: pa.DataType) -> Callable[[Any], Any]:  # noqa: PLR0911 - one line a kind of type
    if pa.types.is_decimal(arrow):
        return "{:f}".format if column.type_code == _DECIMAL else int
    if column.type.has_labels and column.labels is None:
        return int
    if pa.types.is_float32(arrow):
        return lambda value: float(str(np.float32(value)))
    if pa.types.is_binary(arrow):
        return _base64
    if pa.types.is_timestamp(arrow):
        digits = column.meta
        return (lambda value: _instant(value, digits)) if arrow.tz else (lambda value: _local(value, digits))
    if pa.types.is_date(arrow):
        return date.isoformat
    return lambda value: value


def _instant(value: datetime | None, digits: int) -> str | None:
    return None if value is None else f"{_local(value.astimezone(UTC), digits).replace(' ', 'T')}Z"


def _local(value: datetime, digits: int) -> str:
    text = value.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    return f"{text}.{value.microsecond:06d}"[: 20 + digits] if digits else text
