"""Changes of some tables in a part of the log, row by row, in the order in which the server made them.

Put here: decoding them. Not here: what follows from them (walk.py).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from spark_jobs.binlog import Decoder, TableDefinition, TableName, definitions_of
from spark_jobs.binlog.events.types import CASCADES_LOGGED, NO_FOREIGN_KEY_CHECKS
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.cascades.derivation import ImagePair
from spark_jobs.cascades.key_columns import rows_of
from spark_jobs.cascades.parent_changes import Named, boundary_before
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Position

_INSERT, _DELETE = 1, 3
"""Values of ``Changes.op``."""


class LoggedRow(NamedTuple):
    """A change of a row in the log.

    Attributes:
        at: its row event; of an XA transaction its XA COMMIT.
        event: its row event.
        row: its number in the event.
        change: both images, by columns in small letters.
        cascades: whether the server carries out foreign keys at it, and does not log that.
        gtid: that of its transaction; None without one.
    """

    at: Position
    committed_at: datetime
    event: Position
    row: int
    change: ImagePair
    cascades: bool
    gtid: str | None = None


@dataclass(frozen=True, slots=True)
class LoggedSlice:
    """The changes of some tables in one slice.

    Attributes:
        at: where it takes effect.
        is_moved: whether it is of an XA transaction.
        definitions: those of its tables as the log has them, and with their names.
    """

    number: int
    at: Position
    is_moved: bool
    definitions: tuple[tuple[TableDefinition, TableDefinition], ...]
    rows: tuple[LoggedRow, ...]


def logged_slices(
    index: SliceIndex, tables: Collection[TableName], named: Named, since: Position
) -> Iterator[LoggedSlice]:
    """The slices that have rows of some tables, from a position on.

    named: for tables whose columns the log does not name. Raises TableStopped with the boundary of transactions before
    rows that cannot be read, LakeError.
    """
    numbers = np.unique(np.concatenate([np.zeros(0, np.int64), *(index.rows_of(name) for name in tables)])).tolist()
    for number in numbers:
        if index.position(number) < since:
            continue
        (cells,) = index.cells([number])
        yield _slice(index, number, cells, tables, named)


def _slice(
    index: SliceIndex, number: int, cells: dict[str, Any], tables: Collection[TableName], named: Named
) -> LoggedSlice:
    at, begin, is_moved = index.position(number), index.begin(number), index.is_moved(number)
    committed_at = index.slices.column("committed_at")[number]
    content = cells["context"], cells["payload"]
    pairs, rows = [], list[LoggedRow]()
    try:
        for logged in definitions_of(begin.file, begin.offset, *content, unused=is_moved):
            if logged.name not in tables:
                continue
            definition = logged if logged.has_names() else named(logged, begin)
            pairs.append((logged, definition))
            decoder = Decoder(definition, before="all", flags=True, prepared=True, gtids=True)
            for changes in decoder.decode(
                begin.file,
                begin.offset,
                *content,
                transaction_start=cells["transaction_start"],
                committed_us=committed_at.value,
                gtid=cells["gtid"],
            ):
                rows.extend(_rows(changes, definition, begin, (at, committed_at.as_py()) if is_moved else None))
    except (DecodeError, TableStopped) as error:
        boundary = at if is_moved else boundary_before(index, number, begin.offset)
        raise TableStopped(str(error), boundary) from error
    # Tables are decoded one after the other, and their events follow each other in any order.
    rows.sort(key=lambda row: (row.event.offset, row.row))
    return LoggedSlice(number, at, is_moved, tuple(pairs), tuple(rows))


def _rows(
    changes: Any, definition: TableDefinition, begin: Position, effect: tuple[Position, datetime] | None
) -> Iterator[LoggedRow]:
    """effect: of an XA transaction where and when it was committed."""
    names = definition.column_names()
    raws = [
        [None] * len(changes) if texts is None else texts.to_pylist() for texts in (changes.raw, changes.before_raw)
    ]
    ops, *columns = (column.to_pylist() for column in (changes.op, changes.offset, changes.row, changes.flags))
    columns += [_few_values(column) for column in (changes.committed_at, changes.gtid)]
    images = rows_of(names, changes.after, raws[0])
    # Of a DELETE the image after is the row as it was.
    has_updates = not {_INSERT, _DELETE}.issuperset(ops)
    old_images = rows_of(names, changes.before, raws[1]) if has_updates else images
    cells = zip(ops, *columns, images, old_images, strict=True)
    event = begin
    for op, offset, row, flags, committed_at, gtid, image, old_image in cells:
        old = image if op == _DELETE else None if op == _INSERT else old_image
        # Rows of an event have one position.
        if offset != event.offset:
            event = Position(begin.file, offset, begin.stretch)
        is_unlogged = not flags & (NO_FOREIGN_KEY_CHECKS | CASCADES_LOGGED)
        change = ImagePair(definition.name, old, None if op == _DELETE else image)
        at, commit_time = (event, committed_at) if effect is None else effect
        yield LoggedRow(at, commit_time, event, row, change, is_unlogged, gtid)


def _few_values(column: Any) -> list[Any]:
    """The values of a column that has the same ones many times, each made once."""
    encoded = column.dictionary_encode()
    values = [*encoded.dictionary.to_pylist(), None]
    return [values[at] for at in encoded.indices.fill_null(-1).to_pylist()]
