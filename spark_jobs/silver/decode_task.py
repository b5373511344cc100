"""The Spark task of a window: slices become rows, at most two a key and gathered run of changes.

Put here: what tasks do with slices (slice_runs.py), and the columns that they give. Not here: how bytes become
columns (binlog/), the reduction itself (net_changes.py), or what Spark does with the rows (window_rows.py).

Slices are decoded where they lie and reduced to one row a key inside the task, so that only what is left is shuffled.
Where rules judge a table's changes, each is judged by itself, as a row of Spark's between decoding and reducing.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Changes, Decoder, Scans, TableDefinition
from spark_jobs.errors import DecodeError, Unsupported
from spark_jobs.log.position import Position
from spark_jobs.silver import masking, partial_images, row_filters
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import SliceOrigin, every_change, image_rows, moved, net_rows
from spark_jobs.silver.partial_reduction import reduce, settle
from spark_jobs.silver.partial_rows import ABSENT_TYPE
from spark_jobs.silver.slice_runs import Batches, Runs, SliceRun
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


OF_CHANGES = {"_op": "STRING", "_gtid": "STRING"}


def changes_ddl(columns: silver.Columns, salt: str | None = None) -> str:
    """The columns of rows that are every change."""
    salted_types = {masking.SALT: "STRING"} if salt else {}
    return sql.columns(columns.types | {"_window": "INT"} | OF_CHANGES | DECODED | salted_types)


def decoded_ddl(columns: silver.Columns, salt: str | None = None) -> str:
    types = columns.types | {"_window": "INT"} | (OF_BAGS if columns.is_bag else OF_KEYS)
    types |= ({silver.ABSENT: ABSENT_TYPE} if columns.has_partial else {}) | DECODED
    types |= {masking.SALT: "STRING"} if salt else {}
    return sql.columns(types)


Input = TypeVar("Input")


def decoding_task(
    definition: TableDefinition,
    columns: silver.Columns,
    *,
    alone: bool,
    unseen: frozenset[str] = frozenset(),
    scans: Scans | None = None,
    ignored: "IgnoredChanges | None" = None,
) -> Callable[[Runs], Batches]:
    """From slices to two rows at most a key and gathered run of changes; of a bag to all images.

    ``alone``: it gets all slices of the window; then it gives one row a key and window. unseen: columns that nobody
    asks for, where rows may lack some. scans: shared with tasks of other tables. ignored: kinds of changes that rules
    filter.
    """
    if columns.has_partial:

        def read_partial(runs: Runs) -> Iterator[tuple[Changes, SliceOrigin, pa.Array]]:
            partial_changes = _partial(definition, unseen, runs, scans)
            return ignored.leave(partial_changes) if ignored else partial_changes

        return _net_task(read_partial, columns, alone=alone)
    before: Literal["key", "all"] = "all" if columns.is_bag else "key"

    def read_changes(runs: Runs) -> Iterator[tuple[Changes, SliceOrigin, None]]:
        complete_changes = _complete(definition, before, columns.key, runs, scans)
        return ignored.leave(complete_changes) if ignored else complete_changes

    return _net_task(read_changes, columns, alone=alone)


class IgnoredChanges:
    """Kinds of changes that rules filter, and how many each rule has filtered."""

    def __init__(self, rules: Mapping[int, str]) -> None:
        """rules: by kind (net_changes.INSERT, …) the name of the rule."""
        self._rules = rules
        self.counts: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._rules)

    def leave(
        self, all_changes: Iterator[tuple[Changes, SliceOrigin, Any]]
    ) -> Iterator[tuple[Changes, SliceOrigin, Any]]:
        """The changes of other kinds, with what each row lacks: an array, or None where they are whole."""
        for changes, place, absent in all_changes:
            kinds = changes.op.to_numpy()
            is_kept = np.ones(len(kinds), bool)
            for kind, rule in self._rules.items():
                count = int(np.count_nonzero(kinds == kind))
                if count:
                    self.counts[rule] += count
                    is_kept &= kinds != kind
            if is_kept.all():
                yield changes, place, absent
            elif is_kept.any():
                numbers = pa.array(np.flatnonzero(is_kept))
                yield changes.take(numbers), place, absent if absent is None else absent.take(numbers)


def judged_task(definition: TableDefinition, columns: silver.Columns, *, alone: bool) -> Callable[[Batches], Batches]:
    """A mapInArrow function that does the same from changes as rows, those that rules have left."""
    names = definition.column_names()

    def read_changes(rows: Batches) -> Iterator[tuple[Changes, SliceOrigin, pa.Array | None]]:
        for row in rows:
            for changes, place, absent in row_filters.as_changes(row, names):
                yield changes, place, absent if columns.has_partial else None

    return _net_task(read_changes, columns, alone=alone)


def changes_task(
    definition: TableDefinition,
    columns: silver.Columns,
    *,
    splits: bool,
    scans: Scans | None = None,
    ignored: "IgnoredChanges | None" = None,
) -> Callable[[Runs], Batches]:
    """From slices to every change; splits: as for ``every_change``. scans, ignored: as for ``decoding_task``."""
    before: Literal["key", "all"] = "all" if splits and columns.is_bag else "key"

    def run(slices: Runs) -> Batches:
        decoder, full_decoder = (
            Decoder(definition, before=columns_, prepared=True, gtids=True, scans=scans) for columns_ in (before, "all")
        )
        moved_rows = MovedRows(full_decoder, columns.key) if splits and not columns.is_bag else None
        all_changes = ((changes, place, None) for changes, place in decoded(decoder, slices, moved_rows))
        for changes, place, _ in ignored.leave(all_changes) if ignored else all_changes:
            yield from _each_change(changes, place, columns, splits=splits)

    return run


def judged_changes_task(
    definition: TableDefinition, columns: silver.Columns, *, splits: bool
) -> Callable[[Batches], Batches]:
    """A mapInArrow function that does the same from changes as rows, those that rules have left."""
    names = definition.column_names()

    def run(rows: Batches) -> Batches:
        for row in rows:
            for changes, place, _ in row_filters.as_changes(row, names):
                yield from _each_change(changes, place, columns, splits=splits)

    return run


def _each_change(changes: Changes, place: SliceOrigin, columns: silver.Columns, *, splits: bool) -> Batches:
    names = [*columns.types]
    for rows in every_change(changes, place, names, columns.key, splits=splits):
        yield from rows.select([*names, "_window", *OF_CHANGES, *DECODED]).to_batches(_BATCH)


def _net_task(
    read_changes: Callable[[Input], Iterator[tuple[Changes, SliceOrigin, pa.Array | None]]],
    columns: silver.Columns,
    *,
    alone: bool,
) -> Callable[[Input], Batches]:
    names, finish = list(columns.types), settle if alone else reduce

    def each_row(source: Input) -> Batches:
        for changes, place, absent in read_changes(source):
            for rows in image_rows(changes, place, names, absent):
                yield from rows.to_batches(_BATCH)

    def run(source: Input) -> Batches:
        gathered: list[pa.Table] = []
        limit = _REDUCE_AT
        nets = (net_rows(changes, place, names, columns.key, absent) for changes, place, absent in read_changes(source))
        for rows in chain.from_iterable(nets):
            gathered.append(rows)
            if sum(map(len, gathered)) >= limit or len(gathered) >= _PIECES:
                gathered = [reduce(pa.concat_tables(gathered), columns.key)]
                limit = max(_REDUCE_AT, 2 * len(gathered[0]))
                if len(gathered[0]) >= _REDUCE_AT // 2 and not alone:  # few keys repeat; holding them gains nothing
                    yield from gathered.pop().combine_chunks().to_batches(_BATCH)
        if gathered:
            yield from finish(pa.concat_tables(gathered), columns.key).combine_chunks().to_batches(_BATCH)

    return each_row if columns.is_bag else run


def salted(task: Callable[[Batches], Batches], salt: str | None) -> Callable[[Batches], Batches]:
    """The task with the salt beside its rows; in the task's own code it is in no query that Spark shows."""
    if salt is None:
        return task

    def run(batches: Batches) -> Batches:
        for rows in task(batches):
            yield rows.append_column(masking.SALT, pa.repeat(pa.scalar(salt), len(rows)))

    return run


def as_rows_task(
    definition: TableDefinition, unseen: frozenset[str] | None, runs: Runs, *, gtids: bool = False
) -> Batches:
    """unseen: None where every row image is to be whole."""
    if unseen is None:
        for changes, place in decoded(Decoder(definition, before="all", prepared=True, gtids=gtids), runs):
            yield row_filters.as_rows(changes, place)
        return
    for completed_changes, place, absent, absent_before in _completed(definition, unseen, runs):
        yield row_filters.as_rows(completed_changes, place, absent, absent_before)


def _complete(
    definition: TableDefinition,
    before: Literal["key", "all"],
    key: Sequence[str],
    runs: Runs,
    scans: Scans | None,
) -> Iterator[tuple[Changes, SliceOrigin, None]]:
    """The changes; from where a slice changes a key, with all columns of the rows before."""
    decoder = Decoder(definition, before=before, prepared=True, scans=scans)
    moved_rows = (
        MovedRows(Decoder(definition, before="all", prepared=True, scans=scans), key) if before == "key" else None
    )
    for changes, place in decoded(decoder, runs, moved_rows):
        yield changes, place, None


@dataclass(frozen=True, slots=True)
class MovedRows:
    """Decodes a slice again, with all columns of the rows before, where it changes a key: few slices do."""

    decoder: Decoder
    key: Sequence[str]

    def completed(self, decoder: Decoder, slices: SliceRun) -> Iterator[Changes]:
        """The changes of slices. decoder: the one to begin with."""
        rows = 0
        for changes in slices.changes(decoder):
            if pc.any(moved(changes, self.key)).as_py():
                break
            rows += len(changes)
            yield changes
        else:
            return
        for changes in slices.changes(self.decoder):
            skipped = min(rows, len(changes))
            rows -= skipped
            if skipped < len(changes):
                yield changes.slice(skipped, len(changes) - skipped)


def _partial(
    definition: TableDefinition, unseen: frozenset[str], runs: Runs, scans: Scans | None
) -> Iterator[tuple[Changes, SliceOrigin, pa.Array]]:
    for completed_changes, place, absent, _ in _completed(definition, unseen, runs, scans):
        yield completed_changes, place, absent


def _completed(
    definition: TableDefinition, unseen: frozenset[str], runs: Runs, scans: Scans | None = None
) -> Iterator[tuple[Changes, SliceOrigin, pa.Array, pa.Array]]:
    """The changes, as whole as their images make them, and what the row behind each and the one before it lack."""
    decoder = Decoder(definition, before="all", partial=True, prepared=True, scans=scans)
    for changes, place in decoded(decoder, runs):
        origin = partial_images.ImageContext(definition, place.file, decoder.is_mariadb, unseen)
        completed_changes, absent, absent_before = partial_images.completed(changes, origin)
        yield completed_changes, place, absent, absent_before


def decoded(decoder: Decoder, runs: Runs, moved_rows: MovedRows | None = None) -> Iterator[tuple[Changes, SliceOrigin]]:
    """Changes of runs in order, and where they take effect; those of a run before the next run is taken."""
    numbered = _Numbered()
    for run in runs:
        all_changes = moved_rows.completed(decoder, run) if moved_rows else run.changes(decoder)
        # Rows of an XA transaction have their effect where it was committed, not where they were logged.
        if run.effect is None:
            yield from ((changes, run.origin) for changes in all_changes)
            continue
        origin = SliceOrigin(run.effect.file, run.effect.stretch, run.effect.number, run.origin.window)
        yield from ((changes, origin) for changes in numbered.at(run.effect, all_changes, run.slices[0].committed_us))


class _Numbered:
    """Changes of XA transactions as of their commits: its place and time, and one row after the other there.

    The slices of a transaction have to come one after the other.
    """

    def __init__(self) -> None:
        self._place: Position | None = None
        self._rows = 0

    def at(self, place: Position, decoded: Iterator[Changes], committed_us: int) -> Iterator[Changes]:
        """Raises as the decoder does, naming the commit too; Unsupported for more rows than a position counts."""
        self._place, self._rows = place, self._rows if place == self._place else 0
        try:
            for changes in decoded:
                numbers = np.arange(self._rows, self._rows + len(changes))
                self._rows += len(changes)
                if self._rows > _MOST_ROWS:
                    raise Unsupported(f"{place}: an XA transaction of more than {_MOST_ROWS:,} rows of a table")
                offset = pa.repeat(pa.scalar(place.offset, pa.int64()), len(changes))
                committed = pa.scalar(committed_us, changes.committed_at.type)
                times = pa.repeat(committed, len(changes))
                yield replace(changes, offset=offset, row=pa.array(numbers.astype(np.int32)), committed_at=times)
        except DecodeError as error:
            raise type(error)(f"{error} (of the XA transaction that {place} commits)") from None


_MOST_ROWS = 1 << 31
