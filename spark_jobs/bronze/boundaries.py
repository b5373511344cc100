"""Transaction boundaries inside slices of bronze.

A slice holds several transactions. Where a table stops at one of them, its checkpoint lies inside a slice: whoever
reads from there, or up to there, reads the parts that the slice would have been if extraction had ended there.
Bronze itself is never rewritten.

Put here: splitting slices, and finding the transaction that holds a byte. Not here: which position a table stops at
(silver/table_timeline.py, engine/silver/silver_plan.py), or what a slice is (binlog/slices/slicer.py).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import FormatDescription, Slicer, TableDefinition, TableName, definitions_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position

CELLS = ("file", "start", "stop", "transaction_start", "transactions", "kind", "context", "payload")
"""Columns of bronze by which a slice's transactions are told."""


def split_transactions(cells: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The transactions of one slice, the slice itself where it is a part of one.

    Cut as small as it goes; what belongs to a transaction that ends in a later slice comes last, in one.
    """
    file, start = (cells.column(name)[0].as_py() for name in ("file", "start"))
    if _integer_cell(cells, "transaction_start") != start or not _integer_cell(cells, "transactions"):
        yield cells
        return
    context, payload = cells.column("context")[0].as_py(), cells.column("payload")[0].as_py()
    head = context[: int.from_bytes(context[9:13], "little")]
    slicer = Slicer(file, start, FormatDescription.parse(head, f"{file}:{start}"), target=1)
    for batch in [*slicer.feed(payload), *slicer.finish()]:
        yield from (batch.slice(at, 1) for at in range(batch.num_rows))
    if slicer.pending:
        rest = slicer.complete
        values = {name: cells.column(name)[0].as_py() for name in cells.schema.names}
        values |= {"start": rest, "transaction_start": rest, "context": head, "payload": payload[rest - start :]}
        values |= {"transactions": 0}
        yield pa.RecordBatch.from_pylist([values], schema=cells.schema)


def _integer_cell(cells: pa.RecordBatch, name: str) -> int:
    return int(cells.column(name)[0].as_py())


def parts_of(cells: pa.RecordBatch, positions: Sequence[int]) -> list[dict[str, Any]]:
    """A slice cut at offsets, which are in order, as rows of bronze."""
    (fields,) = cells.to_pylist()
    pieces = [fields | part for piece in split_transactions(cells) for part in piece.to_pylist()]
    grouped = groupby(pieces, key=lambda piece: bisect_right(positions, piece["start"]))
    parts = [_joined_pieces(list(group)) for _, group in grouped]
    return [{name: part[name] for name in fields} for part in parts]


def _joined_pieces(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """Consecutive pieces of a slice as one slice."""
    # Counts add up, lists follow each other, and everything that says where a slice ends is the last one's.
    first, last = pieces[0], pieces[-1]
    tables = {(table["schema"], table["table"]): table for piece in pieces for table in piece["tables"] or ()}
    has_tables = all(piece["tables"] is not None for piece in pieces)
    counts = {name: sum(piece[name] for piece in pieces) for name in ("events", "transactions", "ignored")}
    return (
        last
        | counts
        | {
            "start": first["start"],
            "transaction_start": first["transaction_start"],
            "context": first["context"],
            "payload": b"".join(piece["payload"] for piece in pieces),
            "tables": [tables[name] for name in sorted(tables)] if has_tables else None,
            "maps": [event for piece in pieces for event in piece["maps"]],
        }
    )


def transaction_at(table: Table, version: int, position: Position) -> Position | None:
    """Position where the transaction begins that the byte at a position belongs to.

    None where bronze does not hold the byte.
    """
    cells = _slice_at(table, version, position)
    if cells is None:
        return None
    start, first_offset = _integer_cell(cells, "start"), _integer_cell(cells, "transaction_start")
    if cells.column("kind")[0].as_py() == "rows" and first_offset == start:
        starts = [_integer_cell(piece, "transaction_start") for piece in split_transactions(cells)]
        first_offset = max((start for start in starts if start <= position.offset), default=start)
    return Position(cells.column("file")[0].as_py(), first_offset, position.stretch)


def first_transaction(
    cells: pa.RecordBatch, position: Position, name: TableName, matches: Callable[[TableDefinition], bool]
) -> Position:
    """Position where the first transaction of a slice begins whose rows are so defined; its position where none is."""
    for piece in split_transactions(cells):
        file, start, context, payload = (piece.column(full_name)[0].as_py() for full_name in CELLS[:2] + CELLS[-2:])
        if any(
            definition.name == name and matches(definition)
            for definition in definitions_of(file, start, context, payload)
        ):
            return Position(file, _integer_cell(piece, "transaction_start"), position.stretch)
    return position


def _slice_at(table: Table, version: int, position: Position) -> pa.RecordBatch | None:
    """The slice that holds a byte, without a JVM."""
    here = (pc.field("stretch") == position.stretch) & (pc.field("number") == position.number)
    here &= (pc.field("start") <= position.offset) & (pc.field("stop") > position.offset)
    batches = [batch for batch in table.scan(version, CELLS, here, rows=1) if batch.num_rows]
    return batches[0].slice(0, 1) if batches else None
