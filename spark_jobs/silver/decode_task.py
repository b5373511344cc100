"""The Spark task of a window: slices become rows, at most two a key and gathered run of changes.

Put here: functions for mapInArrow, and the columns that they give. Not here: how bytes become columns (binlog/), the
reduction itself (net_changes.py), or what Spark does with the rows (window_rows.py).

Slices are decoded where they lie and reduced to one row a key inside the task, so that only what is left is shuffled.
Where rules judge a table's changes, each is judged by itself, as a row of Spark's between decoding and reducing.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Literal

import numpy as np
import pyarrow as pa

from spark_jobs.binlog import Changes, Decoder, TableDefinition
from spark_jobs.bronze.xa import EFFECT
from spark_jobs.errors import DecodeError, Unsupported
from spark_jobs.log.position import Position
from spark_jobs.silver import masking, partial_images, row_filters
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import Place, image_rows, net_rows, reduce, settle
from spark_jobs.silver.partial_rows import ABSENT_TYPE
from spark_jobs.silver.timeline.inputs import without
from spark_jobs.text import sql

_REDUCE_AT = 1 << 19
"""Rows that a task gathers before it reduces them again: a hot key costs no more than this."""


_PIECES = 256
"""Decoded pieces held at once: each has buffers made for more rows than a small slice fills them with."""


_BATCH = 1 << 16


DECODED = {
    "_position": silver.CHANGE_PLACE,
    "_committed_at": "TIMESTAMP",
    "_raw": "MAP<STRING, STRING>",
    "_changes": "BIGINT",
    "_micros": "BIGINT",
}


OF_KEYS = {"_existed": "BOOLEAN", "_exists": "BOOLEAN"}


OF_BAGS = {silver.COPIES: "BIGINT"}


def decoded_ddl(columns: silver.Columns, salt: str | None = None) -> str:
    types = columns.types | {"_window": "INT"} | (OF_BAGS if columns.is_bag else OF_KEYS)
    types |= ({silver.ABSENT: ABSENT_TYPE} if columns.has_partial else {}) | DECODED
    types |= {masking.SALT: "STRING"} if salt else {}
    return sql.columns(types)


Batches = Iterator[pa.RecordBatch]


def decoding_task(
    definition: TableDefinition, columns: silver.Columns, *, alone: bool, unseen: frozenset[str] = frozenset()
) -> Callable[[Batches], Batches]:
    """A mapInArrow function from slices to two rows at most a key and gathered run of changes; of a bag to all images.

    ``alone``: it gets all slices of the window; then it gives one row a key and window. Where rows may lack columns
    they are all given, in either case; unseen: those that nobody asks for.
    """
    if columns.has_partial:
        return _net_task(lambda slices: _partial(definition, unseen, slices), columns, alone=alone)
    before: Literal["key", "all"] = "all" if columns.is_bag else "key"
    return _net_task(
        lambda slices: _complete(Decoder(definition, before=before, prepared=True), slices), columns, alone=alone
    )


def judged_task(definition: TableDefinition, columns: silver.Columns, *, alone: bool) -> Callable[[Batches], Batches]:
    """The same from changes as rows, those that rules have left."""
    names = definition.column_names()

    def read_changes(rows: Batches) -> Iterator[tuple[Changes, Place, pa.Array | None]]:
        for row in rows:
            for changes, place, absent in row_filters.as_changes(row, names):
                yield changes, place, absent if columns.has_partial else None

    return _net_task(read_changes, columns, alone=alone)


def _net_task(
    read_changes: Callable[[Batches], Iterator[tuple[Changes, Place, pa.Array | None]]],
    columns: silver.Columns,
    *,
    alone: bool,
) -> Callable[[Batches], Batches]:
    names, finish = list(columns.types), settle if alone else reduce

    def each_row(batches: Batches) -> Batches:
        for changes, place, absent in read_changes(batches):
            row_batches = image_rows(changes, place, names, absent) if columns.is_bag else None
            for rows in row_batches or net_rows(changes, place, names, columns.key, absent):
                yield from rows.to_batches(_BATCH)

    def run(batches: Batches) -> Batches:
        gathered: list[pa.Table] = []
        limit = _REDUCE_AT
        nets = (net_rows(changes, place, names, columns.key) for changes, place, _ in read_changes(batches))
        for rows in chain.from_iterable(nets):
            gathered.append(rows)
            if sum(map(len, gathered)) >= limit or len(gathered) >= _PIECES:
                gathered = [reduce(pa.concat_tables(gathered), columns.key)]
                limit = max(_REDUCE_AT, 2 * len(gathered[0]))
                if len(gathered[0]) >= _REDUCE_AT // 2 and not alone:  # few keys repeat; holding them gains nothing
                    yield from gathered.pop().combine_chunks().to_batches(_BATCH)
        if gathered:
            yield from finish(pa.concat_tables(gathered), columns.key).combine_chunks().to_batches(_BATCH)

    return each_row if columns.is_bag or columns.has_partial else run


def salted(task: Callable[[Batches], Batches], salt: str | None) -> Callable[[Batches], Batches]:
    """The task with the salt beside its rows; in the task's own code it stands in no query that Spark shows."""
    if salt is None:
        return task

    def run(batches: Batches) -> Batches:
        for rows in task(batches):
            yield rows.append_column(masking.SALT, pa.repeat(pa.scalar(salt), len(rows)))

    return run


def passing_over(task: Callable[[Batches], Batches], skips: frozenset[Position]) -> Callable[[Batches], Batches]:
    """The task over slices without the quarantined events."""
    if not skips:
        return task

    def plain(slices: Batches) -> Batches:
        for batch in slices:
            places = zip(*(batch.column(column).to_pylist() for column in ("file", "start", "stretch")), strict=True)
            contents = batch.column("payload").to_pylist()
            payloads = [without(skips, Position(*at), content) for at, content in zip(places, contents, strict=True)]
            at = batch.schema.get_field_index("payload")
            yield batch.set_column(at, "payload", pa.array(payloads, pa.binary()))

    return lambda slices: task(plain(slices))


def as_rows_task(definition: TableDefinition, unseen: frozenset[str] | None, slices: Batches) -> Batches:
    """unseen: None where every row image is to be whole."""
    if unseen is None:
        for changes, place in _decoded(Decoder(definition, before="all", prepared=True), slices):
            yield row_filters.as_rows(changes, place)
        return
    for completed_changes, place, absent, absent_before in _completed(definition, unseen, slices):
        yield row_filters.as_rows(completed_changes, place, absent, absent_before)


def _complete(decoder: Decoder, slices: Batches) -> Iterator[tuple[Changes, Place, None]]:
    for changes, place in _decoded(decoder, slices):
        yield changes, place, None


def _partial(
    definition: TableDefinition, unseen: frozenset[str], slices: Batches
) -> Iterator[tuple[Changes, Place, pa.Array]]:
    for completed_changes, place, absent, _ in _completed(definition, unseen, slices):
        yield completed_changes, place, absent


def _completed(
    definition: TableDefinition, unseen: frozenset[str], slices: Batches
) -> Iterator[tuple[Changes, Place, pa.Array, pa.Array]]:
    """The changes, as whole as their images make them, and what the row behind each and the one before it lack."""
    decoder = Decoder(definition, before="all", partial=True, prepared=True)
    for changes, place in _decoded(decoder, slices):
        origin = partial_images.Origin(definition, place.file, decoder.is_mariadb, unseen)
        completed_changes, absent, absent_before = partial_images.completed(changes, origin)
        yield completed_changes, place, absent, absent_before


def _decoded(decoder: Decoder, slices: Batches) -> Iterator[tuple[Changes, Place]]:
    numbered = _Numbered()
    for batch in slices:
        for cells in ({name: batch.column(name)[at] for name in batch.schema.names} for at in range(batch.num_rows)):
            place_ = {name: cells[name].as_py() for name in ("file", "stretch", "number", "window")}
            start, context = cells["start"].as_py(), cells["context"].as_py()
            transaction = {
                "transaction_start": cells["transaction_start"].as_py(),
                "committed_us": cells["committed_at"].value,
            }
            decoded = decoder.decode(place_["file"], start, context, cells["payload"].as_buffer(), **transaction)
            effect = cells[EFFECT].as_py() if EFFECT in cells else None
            if effect is None:
                yield from ((changes, Place(**place_)) for changes in decoded)
                continue
            place = Place(effect["file"], effect["stretch"], effect["number"], place_["window"])
            at = Position(effect["file"], effect["start"], effect["stretch"])
            yield from ((changes, place) for changes in numbered.at(at, decoded, cells["committed_at"]))


class _Numbered:
    """Changes of XA transactions as of their commits: its place and time, and one row after the other there.

    The slices of a transaction have to come one after the other.
    """

    def __init__(self) -> None:
        self._place: Position | None = None
        self._rows = 0

    def at(self, place: Position, decoded: Iterator[Changes], committed: pa.Scalar) -> Iterator[Changes]:
        """Raises as the decoder does, naming the commit too; Unsupported for more rows than a position counts."""
        self._place, self._rows = place, self._rows if place == self._place else 0
        try:
            for changes in decoded:
                numbers = np.arange(self._rows, self._rows + len(changes))
                self._rows += len(changes)
                if self._rows > _MOST_ROWS:
                    raise Unsupported(f"{place}: an XA transaction of more than {_MOST_ROWS:,} rows of a table")
                offset = pa.repeat(pa.scalar(place.offset, pa.int64()), len(changes))
                times = pa.repeat(committed.cast(changes.committed_at.type), len(changes))
                yield replace(changes, offset=offset, row=pa.array(numbers.astype(np.int32)), committed_at=times)
        except DecodeError as error:
            raise type(error)(f"{error} (of the XA transaction that {place} commits)") from None


_MOST_ROWS = 1 << 31
