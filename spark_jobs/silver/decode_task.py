"""Task that decodes a window: slices to rows, at most two a key and gathered run of changes.

Put here: what tasks do with slices (slice_runs.py), and the columns that they give. Not here: how bytes become
columns (binlog/), the reduction itself (net_changes.py), or what becomes of the rows (engine/silver/silver_task.py).

Slices are decoded where they lie and reduced to one row a key inside the task, so that only what is left is shuffled.
Rules judge each change by itself, between decoding and reducing; rules about columns are applied to what is left.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Changes, Decoder, Scans, TableDefinition
from spark_jobs.errors import DecodeError, PartialWindow, Unsupported
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import partial_images
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import ColumnMasks
from spark_jobs.silver.keyless_rows import summed_copies
from spark_jobs.silver.net_changes import (
    AbsentColumns,
    SliceOrigin,
    every_change,
    image_rows,
    key_change_mask,
    net_rows,
)
from spark_jobs.silver.partial_reduction import needed_net_rows, one_row_per_key
from spark_jobs.silver.row_filters import ChangeFilters, ChangeJudge
from spark_jobs.silver.row_values import ColumnLeftOut
from spark_jobs.silver.rule_rows import RowsOfLoad, RuleRows
from spark_jobs.silver.slice_runs import Batches, Runs, SliceRun

_REDUCE_AT = 1 << 19
"""Rows that a task gathers before it reduces them again: a hot key costs no more than this."""


_PIECES = 256
"""Decoded pieces held at once: each has buffers made for more rows than a small slice fills them with."""


_BATCH = 1 << 16


DECODED = {
    "_position": silver.CHANGE_POSITION_TYPE,
    "_committed_at": "TIMESTAMP",
    "_raw": "MAP<STRING, STRING>",
    "_changes": "BIGINT",
    "_micros": "BIGINT",
}


OF_CHANGES = {"_op": "STRING", "_gtid": "STRING"}


@dataclass(frozen=True, slots=True)
class WindowLog:
    """The log of some windows. earlier: log before them. skips: events in quarantine. loads: of the table."""

    ranges: tuple[Range, ...]
    earlier: tuple[Range, ...] = ()
    skips: frozenset[Position] = frozenset()
    loads: tuple[RowsOfLoad, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowRules:
    """The rules about the rows of some windows of one definition.

    judge: leaves out changes that rules filter. masks: what a rule makes of columns. rows: completes rows for both.
    is_alone: whether a task gets all slices of the windows, so that nothing else tells what a row lacks. count: how
    many windows there are; ranges behind these are log before them, which only completes rows.
    """

    judge: ChangeJudge | None
    masks: ColumnMasks | None
    rows: RuleRows
    is_alone: bool
    count: int

    @classmethod
    def of(
        cls,
        definition: TableDefinition,
        log: "WindowLog",
        filters: ChangeFilters | None,
        masks: ColumnMasks | None,
        *,
        is_alone: bool,
    ) -> "WindowRules":
        """The rules of a window for rows of a definition. Raises TableStopped if a rule does not fit the table."""
        names = (filters.names if filters else frozenset()) | (masks.sources if masks else frozenset())
        rows = RuleRows(definition, names, (*log.ranges, *log.earlier), log.skips, log.loads)
        return cls(ChangeJudge(filters) if filters else None, masks, rows, is_alone, len(log.ranges))

    @property
    def unseen(self) -> frozenset[str]:
        """Columns that nobody asks for."""
        return (self.masks.excluded if self.masks else frozenset()) - self.rows.asked

    def columns_of(self, definition: TableDefinition, *, has_partial: bool) -> silver.Columns:
        """The columns of decoded rows: computed ones are among them where rows may lack columns and have a key."""
        columns = silver.columns(definition, has_partial=has_partial)
        if self.masks is None or not has_partial or columns.is_keyless:
            return columns
        return replace(columns, types=columns.types | {column.name: column.type for column in self.masks.computed})

    def applied(self, changes: Changes, absent: AbsentColumns, origin: SliceOrigin) -> tuple[Changes, AbsentColumns]:
        """The changes that no rule filters, with computed columns; absent: what their rows lack.

        Raises TableStopped, and PartialWindow where another task may have what a rule asks for.
        """
        if origin.window >= self.count:
            self.rows.completed(changes, absent, origin.window)
            return changes.slice(0, 0), absent.take(pa.array([], pa.int64()))
        if not self.is_alone:
            # What is between the slices of a task may have another value.
            try:
                return self._applied((changes, absent), (changes, absent), origin.file)
            except ColumnLeftOut as error:
                raise PartialWindow("a rule asks for a column that a row image leaves out") from error
        return self._applied((changes, absent), self.rows.completed(changes, absent, origin.window), origin.file)

    def _applied(
        self, logged: tuple[Changes, AbsentColumns], completed: tuple[Changes, AbsentColumns], file: str
    ) -> tuple[Changes, AbsentColumns]:
        (changes, absent), (known, lacking) = logged, completed
        rows = self.judge.remaining(known, file, lacking.after, lacking.before) if self.judge else None
        if rows is not None:
            changes, known = changes.take(rows), known.take(rows)
            absent, lacking = absent.take(rows), lacking.take(rows)
        if self.masks and self.masks.computed and self.masks.definition.key and len(changes):
            return self.masks.with_computed((changes, absent), (known, lacking), file)
        return changes, absent


def decoding_task(
    definition: TableDefinition,
    columns: silver.Columns,
    *,
    alone: bool,
    scans: Scans | None = None,
    rules: WindowRules | None = None,
) -> Callable[[Runs], Batches]:
    """Task from slices to two rows at most a key and gathered run of changes.

    Of a keyless table to one row an image and run.

    ``alone``: it gets all slices of the window; then it gives one row a key and window. scans: shared with tasks of
    other tables. rules: those about changes and, where rows may lack columns, computed columns.
    """
    if columns.has_partial:
        return _net_task(lambda runs: _partial(definition, runs, scans, rules), columns, alone=alone)
    judge = rules.judge if rules else None
    before: Literal["key", "all"] = "all" if columns.is_keyless or _needs_before(judge) else "key"
    return _net_task(
        lambda runs: _remaining(_complete(definition, before, columns.key, runs, scans), judge), columns, alone=alone
    )


def _needs_before(judge: ChangeJudge | None) -> bool:
    return judge is not None and judge.needs_before


def noting_files(runs: Iterable[SliceRun], files: dict[tuple[int, int], str]) -> Runs:
    """The runs; the names of the files in which they stand, or take effect, are put beside them."""
    for run in runs:
        origin = run.origin if run.effect is None else run.effect
        files[origin.stretch, origin.number] = origin.file
        yield run


def changes_task(
    definition: TableDefinition,
    columns: silver.Columns,
    *,
    splits: bool,
    scans: Scans | None = None,
    rules: WindowRules | None = None,
) -> Callable[[Runs], Batches]:
    """Task from slices to every change; splits: as for ``every_change``. scans, rules: as for ``decoding_task``."""
    # Images that lack columns are completed as far as their events do it, others decoded as far as somebody asks.
    if columns.has_partial:
        return lambda slices: _each_change(
            _partial(definition, slices, scans, rules, gtids=True), columns, splits=splits
        )
    judge = rules.judge if rules else None
    is_whole = (splits and columns.is_keyless) or _needs_before(judge)
    before: Literal["key", "all"] = "all" if is_whole else "key"

    def run(slices: Runs) -> Batches:
        decoder, full_decoder = (
            Decoder(definition, before=table_columns, prepared=True, gtids=True, scans=scans)
            for table_columns in (before, "all")
        )
        moved_rows = MovedKeyDecoding(full_decoder, columns.key) if splits and before == "key" else None
        yield from _each_change(
            _remaining(_with_whole_rows(decoder, slices, moved_rows), judge), columns, splits=splits
        )

    return run


def _each_change(all_changes: "LocatedChanges", columns: silver.Columns, *, splits: bool) -> Batches:
    names, absent_names = [*columns.types], list(silver.LACKING) if columns.has_partial else []
    for changes, origin, absent in all_changes:
        for rows in every_change(changes, origin, names, columns.key, absent, splits=splits):
            yield from rows.select([*names, "_window", *OF_CHANGES, *DECODED, *absent_names]).to_batches(_BATCH)


LocatedChanges = Iterator[tuple[Changes, SliceOrigin, AbsentColumns | None]]
"""Changes, where they take effect, and what their rows lack."""


def _net_task(
    read_changes: Callable[[Runs], LocatedChanges], columns: silver.Columns, *, alone: bool
) -> Callable[[Runs], Batches]:
    def run(source: Runs) -> Batches:
        nets = chain.from_iterable(
            _rows_of(changes, origin, absent, columns) for changes, origin, absent in read_changes(source)
        )
        return _reduced(nets, columns, alone=alone)

    return run


def _rows_of(
    changes: Changes, origin: SliceOrigin, absent: AbsentColumns | None, columns: silver.Columns
) -> Iterator[pa.Table]:
    """The rows of changes that a reduction takes. absent: what each lacks."""
    names = list(columns.types)
    if columns.is_keyless:
        return image_rows(changes, origin, names, absent)
    return net_rows(changes, origin, names, columns.key, absent)


def _reduced(nets: Iterator[pa.Table], columns: silver.Columns, *, alone: bool) -> Batches:
    """Rows reduced in batches. alone: whether they are all of the window, and what is left is final."""
    # Sums of copies are final in any grouping; of keys the first and last rows are kept until all are together.
    names, key = list(columns.types), columns.key
    gathered: list[pa.Table] = []
    limit = _REDUCE_AT
    for rows in nets:
        gathered.append(rows)
        if sum(map(len, gathered)) >= limit or len(gathered) >= _PIECES:
            table = pa.concat_tables(gathered)
            gathered = [
                summed_copies(table, names) if columns.is_keyless else needed_net_rows(table, key, is_all=alone)
            ]
            limit = max(_REDUCE_AT, 2 * len(gathered[0]))
            if len(gathered[0]) >= _REDUCE_AT // 2 and not alone:  # few rows repeat; holding them gains nothing
                yield from gathered.pop().combine_chunks().to_batches(_BATCH)
    if gathered:
        table = pa.concat_tables(gathered)
        reduced = (
            summed_copies(table, names)
            if columns.is_keyless
            else one_row_per_key(table, key, is_all=True)
            if alone
            else needed_net_rows(table, key)
        )
        yield from reduced.combine_chunks().to_batches(_BATCH)


def _complete(
    definition: TableDefinition,
    before: Literal["key", "all"],
    key: Sequence[str],
    runs: Runs,
    scans: Scans | None,
) -> LocatedChanges:
    """The changes; from where a slice changes a key, with all columns of the rows before."""
    decoder = Decoder(definition, before=before, prepared=True, scans=scans)
    moved_rows = (
        MovedKeyDecoding(Decoder(definition, before="all", prepared=True, scans=scans), key)
        if before == "key"
        else None
    )
    yield from _with_whole_rows(decoder, runs, moved_rows)


def _with_whole_rows(decoder: Decoder, runs: Runs, moved_rows: "MovedKeyDecoding | None" = None) -> LocatedChanges:
    yield from ((changes, origin, None) for changes, origin in decoded(decoder, runs, moved_rows))


def _remaining(all_changes: LocatedChanges, judge: ChangeJudge | None) -> LocatedChanges:
    """The changes that no rule filters."""
    for changes, origin, absent in all_changes:
        rows = judge.remaining(changes, origin.file) if judge else None
        if rows is None:
            yield changes, origin, absent
        elif len(rows):
            yield changes.take(rows), origin, absent


@dataclass(frozen=True, slots=True)
class MovedKeyDecoding:
    """Decodes a slice again, with all columns of the rows before, where it changes a key: few slices do."""

    decoder: Decoder
    key: Sequence[str]

    def changes_with_old_rows(self, decoder: Decoder, slices: SliceRun) -> Iterator[Changes]:
        """The changes of slices. decoder: the one to begin with."""
        rows = 0
        for changes in slices.changes(decoder):
            if pc.any(key_change_mask(changes, self.key)).as_py():
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
    definition: TableDefinition, runs: Runs, scans: Scans | None, rules: WindowRules | None, *, gtids: bool = False
) -> LocatedChanges:
    """The changes that no rule filters, as whole as their images make them, and what the row behind each lacks."""
    unseen = rules.unseen if rules else frozenset[str]()
    decoder = Decoder(definition, before="all", partial=True, prepared=True, gtids=gtids, scans=scans)
    for changes, slice_origin in decoded(decoder, runs):
        origin = partial_images.ImageContext(definition, slice_origin.file, decoder.is_mariadb, unseen)
        for part in rules.rows.in_parts(changes, slice_origin) if rules else (changes,):
            completed, absent = partial_images.changes_and_absent_columns(part, origin)
            if rules:
                completed, absent = rules.applied(completed, absent, slice_origin)
            if len(completed):
                yield completed, slice_origin, absent


def decoded(
    decoder: Decoder, runs: Runs, moved_rows: MovedKeyDecoding | None = None
) -> Iterator[tuple[Changes, SliceOrigin]]:
    """Changes of runs in order, and where they take effect; those of a run before the next run is taken."""
    numbered = _Numbered()
    for run in runs:
        all_changes = moved_rows.changes_with_old_rows(decoder, run) if moved_rows else run.changes(decoder)
        # Rows of an XA transaction have their effect where it was committed, not where they were logged.
        if run.effect is None:
            yield from ((changes, run.origin) for changes in all_changes)
            continue
        origin = SliceOrigin(run.effect.file, run.effect.stretch, run.effect.number, run.origin.window)
        yield from ((changes, origin) for changes in numbered.at(run.effect, all_changes, run.slices[0].committed_us))


class _Numbered:
    """Changes of XA transactions as of their commits: its position and time, and one row after the other there.

    The slices of a transaction have to come one after the other.
    """

    def __init__(self) -> None:
        self._origin: Position | None = None
        self._rows = 0

    def at(self, position: Position, decoded: Iterator[Changes], committed_us: int) -> Iterator[Changes]:
        """The changes of an XA transaction with the position and time of its commit.

        Raises DecodeError, naming the commit; Unsupported for too many rows.
        """
        self._origin, self._rows = position, self._rows if position == self._origin else 0
        try:
            for changes in decoded:
                numbers = np.arange(self._rows, self._rows + len(changes))
                self._rows += len(changes)
                if self._rows > _MOST_ROWS:
                    raise Unsupported(f"{position}: an XA transaction of more than {_MOST_ROWS:,} rows of a table")
                offset = pa.repeat(pa.scalar(position.offset, pa.int64()), len(changes))
                committed = pa.scalar(committed_us, changes.committed_at.type)
                times = pa.repeat(committed, len(changes))
                yield replace(changes, offset=offset, row=pa.array(numbers.astype(np.int32)), committed_at=times)
        except DecodeError as error:
            raise type(error)(f"{error} (of the XA transaction that {position} commits)") from None


_MOST_ROWS = 1 << 31
