"""Task of compaction: slices of many tables -> net rows -> data files.

Put here: the units that tasks work on and the work itself. Not here: which slices those are (silver_job.py), decoding
(binlog/), what net rows are (silver/net_changes.py), or commits.

A unit is one table's part of a run; its windows lie between two statements that change the table. A unit of which one
task has all slices is written there. Of others each task sends what it reduced, by buckets of keys, and whoever gets a
bucket writes it by the same code.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Scans, SliceBytes, TableDefinition
from spark_jobs.bronze import derived_slices
from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.jobs import shuffle_blocks
from spark_jobs.engine.jobs.spark_job import ShuffleBlock
from spark_jobs.engine.rows import fills
from spark_jobs.engine.rows.exact_texts import ExactTextChange
from spark_jobs.engine.rows.fills import ColumnFill, rewritten_with_fills
from spark_jobs.engine.rows.inherited_rows import (
    InheritedFiles,
    InheritedRows,
    inherited,
    part_from_log,
    parts_from_files,
    stored_cells,
)
from spark_jobs.engine.rows.loaded_rows import LoadedFiles, rows_of_loads
from spark_jobs.engine.rows.row_projection import RowProjection
from spark_jobs.errors import DecodeError, LakeError, PartialImage, StratalogError, TableStopped
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import ColumnMasks
from spark_jobs.silver.decode_task import WindowLog, WindowRules, decoding_task, noting_files
from spark_jobs.silver.failing_transaction import first_failing
from spark_jobs.silver.keyless_rows import sorted_by_bounded_column, summed_copies
from spark_jobs.silver.net_changes import SliceOrigin, sorted_by_key
from spark_jobs.silver.partial_reduction import one_row_per_key
from spark_jobs.silver.positions import LOADED_ROW
from spark_jobs.silver.row_filters import ChangeFilters
from spark_jobs.silver.row_values import ColumnLeftOut
from spark_jobs.silver.slice_runs import Runs, SliceRun, gathered
from spark_jobs.storage.files import stored_path

_ROW_GROUPS = 1
"""Row groups of bronze that a task keeps beside its slices."""
_KEPT_BYTES = 40 << 20
"""Bytes of slices that are kept for a task's next unit; the scan of a slice is about half as large as it is."""


@dataclass(frozen=True, slots=True)
class SilverWindow:
    """One or more ranges of the log between two statements about a table, and how its rows are there."""

    definition: TableDefinition
    columns: silver.Columns
    """The columns as silver stores them; those that the definition does not have are NULL."""
    ranges: tuple[Range, ...]
    schema: TableSchema
    configuration: Mapping[str, str]
    """The silver table's."""
    fills: tuple[ColumnFill, ...] = ()
    """Columns that later statements of the run add with a default, which the rows get at once."""
    masks: ColumnMasks | None = None
    """Effects of a rule on the definition's columns."""
    filters: ChangeFilters | None = None
    """The rules that filter changes of its rows."""
    inherited: InheritedRows | None = None
    """Rows that a statement or a load brings, whose range is then the window's; None for windows of changes."""
    into: int | None = None
    """Number of the window of the statement, where this one is a part of what it brings; None otherwise."""
    projection: RowProjection | None = None
    """Projection of a part's columns (``into``) to those of all parts; in other windows, to those that rows are written
    with."""
    present: silver.Columns | None = None
    """Result of a projection that comes before rows are written."""
    skips: frozenset[Position] = frozenset()
    """Events of its log that are quarantined."""
    earlier: tuple[Range, ...] = ()
    """Log before its ranges, by which rules know columns that row images leave out; its slices are numbered behind
    theirs."""
    loads: tuple[LoadedFiles, ...] = ()
    """Loaded rows, by which they know those of rows that came before all that log."""
    is_older_unread: bool = False
    """True if there may be more of such log."""

    def expressions(self) -> Iterator[str]:
        """SQL of the values that rows have in new columns, but for those of statements after them."""
        for projection in (self.projection, self.inherited and self.inherited.rekeyed):
            yield from projection.expressions() if projection else ()

    def valued(self, values: Mapping[str, pa.Scalar]) -> "SilverWindow":
        """Window with these values, as ``fills.values_by_expression`` gives them."""
        return replace(
            self,
            fills=fills.fills_with_values(self.fills, values),
            inherited=self.inherited and self.inherited.valued(values),
            projection=self.projection and self.projection.valued(values),
        )


@dataclass(frozen=True, slots=True)
class SilverUnit:
    """A table in a silver job: what tasks need to know of it."""

    number: int
    name: str
    path: str
    windows: tuple[SilverWindow, ...]
    buckets: tuple[int, ...] = ()
    """The buckets of its keys; none where one task has all its slices, and no statement brings rows."""
    is_undivided: bool = False
    """True if one task has all its slices, in the order of the log."""


@dataclass(frozen=True, slots=True)
class Refill:
    """Files of silver that are written again with the columns that statements of the run add with a default."""

    unit: int
    path: str
    files: tuple[DataFile, ...]
    schema: TableSchema
    configuration: Mapping[str, str]
    fills: tuple[ColumnFill, ...]
    exact: tuple[ExactTextChange, ...] = ()
    """Effects of a statement on exact texts of the rows."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of data files on their way to the buckets of a unit."""

    unit: SilverUnit
    files: InheritedFiles


@dataclass(frozen=True, slots=True)
class SilverTask:
    """Units, and the slices that the task takes for them."""

    bronze: str
    """The bronze table's path."""
    units: tuple[SilverUnit, ...]
    slices: Mapping[tuple[int, int], pa.Table] = field(default_factory=dict)
    """Slices by unit and window: rows of ``bronze.index.OF_TABLE``, in the order in which they take effect."""


@dataclass(frozen=True, slots=True)
class WindowResult:
    """Result of a task for a window of a unit, or why it could not be written."""

    unit: int
    window: int
    file: DataFile | None = None
    changes: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    newest_us: int | None = None
    """The latest commit time, in microseconds since 1970."""
    seconds: float = 0.0
    filtered: Mapping[str, int] = field(default_factory=dict)
    """Changes that rules have filtered, by rule."""
    error: StratalogError | None = None
    replaced: str | None = None
    """Path of the file whose rows the new file has, where it was written again."""
    failing: Position | None = None
    """Position where the first transaction of the task's slices begins whose rows cannot be taken; None where no single
    transaction is at fault."""


def require_written(results: Iterable[WindowResult]) -> None:
    """Raise the error of tasks that comes first in the log, if there is one."""
    errors = [(result.failing.order if result.failing else (), result.error) for result in results if result.error]
    if errors:
        raise min(errors, key=lambda error: error[0])[1]


REFILLED = -2
"""Value in place of a window's number: a file that was there, written again."""
_NO_WINDOW = -1
"""Value in place of a window's number: an error that is of no window."""


def work(task: SilverTask | Refill | StoredRows) -> Iterator[WindowResult | ShuffleBlock]:
    """Decode and reduce the slices of a task; write the units that are whole in it, and send blocks of others."""
    if isinstance(task, Refill):
        yield from _or_error((task.unit, _NO_WINDOW), lambda: _refilled(task))
        return
    if isinstance(task, StoredRows):
        yield from _or_error((task.unit.number, task.files.window), lambda: _stored_rows(task))
        return
    opened = OpenSlices(task.bronze)
    for unit in task.units:
        yield from _or_error((unit.number, _NO_WINDOW), partial(_unit, task, unit, opened))


def _or_error(
    of: tuple[int, int], results: Callable[[], Iterator[WindowResult | ShuffleBlock]]
) -> Iterator[WindowResult | ShuffleBlock]:
    """The results of a unit's work, or what stops it: other units continue. of: the unit, and the window in it."""
    began = time.monotonic()
    try:
        outcomes = list(results())
        share = (time.monotonic() - began) / max(1, len(outcomes))
        yield from (
            replace(outcome, seconds=share) if isinstance(outcome, WindowResult) else outcome for outcome in outcomes
        )
    except StratalogError as error:
        yield WindowResult(*of, error=error)


def _refilled(task: Refill) -> Iterator[WindowResult]:
    for file in task.files:
        for new_file in rewritten_with_fills(
            task.path, file, task.schema, task.configuration, task.fills, exact=task.exact
        ):
            yield WindowResult(task.unit, REFILLED, new_file, replaced=file.path)


def _stored_rows(task: StoredRows) -> Iterator[ShuffleBlock]:
    for rows in parts_from_files(task.files, _inherited(task.unit, task.files.window)):
        yield from _part_blocks(task.unit, task.files.window, rows)


def _inherited(unit: SilverUnit, window: int) -> InheritedRows:
    into = unit.windows[window].inherited
    assert into is not None, "parts go to windows of statements that bring rows"
    return into


def _part_blocks(unit: SilverUnit, window: int, rows: pa.Table) -> Iterator[ShuffleBlock]:
    """Rows of a part, to the buckets of what tells them apart in what the statement brings."""
    return shuffle_blocks.blocks(unit.number, unit.buckets, window, rows, _inherited(unit, window).columns)


def _unit(task: SilverTask, unit: SilverUnit, opened: "OpenSlices") -> Iterator[WindowResult | ShuffleBlock]:
    for at, window in enumerate(unit.windows):
        slices = task.slices.get((unit.number, at))
        if slices is None:
            continue
        alone = unit.is_undivided or not unit.buckets
        rules = rules_of(window, is_alone=alone)
        rows_of = _reading(window, rules, opened.scans, alone=alone)
        try:
            rows = rows_of(gathered(opened.runs(slices), window.skips))
        except (TableStopped, DecodeError) as error:
            yield _stopped((unit, at), error, opened.runs(slices), rules.rows.restarted().attempting(rows_of))
            return
        if rules.judge and rules.judge.counts:
            yield WindowResult(unit.number, at, filtered=dict(rules.judge.counts))
        if rows is None:
            continue
        if window.into is not None and window.projection is not None:
            yield from _part_blocks(
                unit, window.into, part_from_log(rows, window.projection, _inherited(unit, window.into))
            )
        elif unit.buckets:
            yield from shuffle_blocks.blocks(unit.number, unit.buckets, at, rows, window.columns)
        else:
            yield result_of(unit, at, _reordered(rows, window))


def rules_of(window: SilverWindow, *, is_alone: bool) -> WindowRules:
    """The rules about a window's rows. is_alone: as in WindowRules. Raises TableStopped."""
    loads = rows_of_loads(window.loads, window.columns.key, window.masks)
    log = WindowLog(window.ranges, window.earlier, window.skips, loads)
    return WindowRules.of(window.definition, log, window.filters, window.masks, is_alone=is_alone)


def _reordered(rows: pa.Table, window: SilverWindow) -> pa.Table:
    """Reduced rows in the order of a file. Masks may have made rows without a key equal, or reordered keys."""
    columns = window.columns
    if columns.is_keyless:
        names = [name for name in columns.types if name in rows.column_names]
        return sorted_by_bounded_column(summed_copies(rows, names) if window.masks else rows, names)
    is_rekeyed = window.masks and window.masks.masks.keys() & {*columns.key}
    return sorted_by_key(rows, columns.key) if is_rekeyed else rows


def _reading(
    window: SilverWindow, rules: WindowRules, scans: Scans, *, alone: bool
) -> Callable[[Runs], pa.Table | None]:
    """Function that gives the rows of slices, reduced, as silver has them; None where there are none."""
    # Rules about changes come before the reduction, those about columns after it: a key that is hashed stays one key.
    columns = rules.columns_of(window.definition, has_partial=window.columns.has_partial)
    reduced = decoding_task(window.definition, columns, alone=alone, scans=scans, rules=rules)

    def rows_of(runs: Runs) -> pa.Table | None:
        files: dict[tuple[int, int], str] = {}
        batches = list(reduced(noting_files(runs, files)))
        if not batches:
            return None
        rows = pa.Table.from_batches(batches)
        return window.masks.apply(rows, files) if window.masks else rows

    return rows_of


def _stopped(
    of: tuple[SilverUnit, int],
    error: TableStopped | DecodeError,
    runs: Iterable[SliceRun],
    rows_of: Callable[[Runs], object],
) -> WindowResult:
    """Stop of a window: the first transaction that fails by itself, with its own error. of: the unit and window."""
    unit, window = of
    is_older_read = not unit.windows[window].is_older_unread
    if isinstance(error, PartialImage) or (isinstance(error, ColumnLeftOut) and not is_older_read):
        # The unit is repeated, whatever else there is.
        return WindowResult(unit.number, window, error=error)
    first = first_failing(runs, lambda run: rows_of(gathered([run], unit.windows[window].skips)))
    failing, own_error = first or (None, error)
    return WindowResult(unit.number, window, error=own_error, failing=failing)


_EFFECT = ("effect_file", "effect_start", "effect_stretch")
_CELLS = (
    *("data_file", "row_group", "row", "offset", "bytes", "start", "transaction_start"),
    *("file", "stretch", "number", "window", *_EFFECT),
)


class OpenSlices:
    """The slices of a task. Units of one log read the same ones: the latest are kept, with their scans."""

    def __init__(self, bronze: str, *, gtids: bool = False) -> None:
        """bronze: the table's path. gtids: whether slices have the GTID of the transaction that they begin inside."""
        self.scans = Scans()
        self._columns = ("context", "payload", "gtid") if gtids else ("context", "payload")
        self._bronze = bronze
        self._slices: OrderedDict[tuple[Any, ...], SliceBytes] = OrderedDict()
        self._size = 0

    def runs(self, slices: pa.Table) -> Iterator[SliceRun]:
        """Each slice by itself; no payload is copied.

        slices: rows of ``bronze.index.OF_TABLE``. Raises LakeError.
        """
        committed = slices.column("committed_at").cast(pa.int64()).to_pylist()
        columns = (slices.column(name).to_pylist() for name in _CELLS)
        for committed_us, *position, file, stretch, number, window, effect_file, effect_start, effect_stretch in zip(
            committed, *columns, strict=True
        ):
            effect = None if effect_file is None else Position(effect_file, effect_start, effect_stretch)
            origin = SliceOrigin(file, stretch, number, window)
            parts = (self._slice(committed_us, *position),)
            yield SliceRun(origin, parts, effect, derived_slices.is_derived(position[0]))

    def _slice(self, committed_us: int, *position: Any) -> SliceBytes:
        """A slice's bytes, read once. position: as the first of ``_CELLS``."""
        known_slice = self._slices.get((committed_us, *position))
        if known_slice is not None:
            return known_slice
        data_file, row_group, row, offset, size, start, transaction_start = position
        stored = _row_group(derived_slices.location(self._bronze, data_file), row_group, self._columns)
        context, payload, *gtids = (stored.column(name)[row] for name in self._columns)
        # A part of a slice begins with a transaction, which has its GTID in the part.
        gtid = gtids[0].as_py() if gtids else None
        content = payload.as_buffer().slice(offset, size)
        log_slice = SliceBytes(start, context.as_py(), content, transaction_start, committed_us, gtid)
        self._slices[committed_us, *position] = log_slice
        self._size += size
        while self._size > _KEPT_BYTES:
            _, dropped = self._slices.popitem(last=False)
            self._size -= len(dropped.payload)
        return log_slice


@lru_cache(_ROW_GROUPS)
def _row_group(path: str, number: int, columns: tuple[str, ...]) -> pa.RecordBatch:
    """The columns of a row group of a data file of bronze. Raises LakeError."""
    try:
        table = data_files.parquet(stored_path(path)).read_row_group(number, columns=list(columns), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise LakeError(
            f"{path}: a data file of bronze cannot be read: {reason}; restore bronze from a backup"
        ) from error
    (batch,) = table.combine_chunks().to_batches()
    return batch


def finish(
    units: Mapping[int, SilverUnit],
) -> Callable[[Iterable[ShuffleBlock]], Iterator[WindowResult | ShuffleBlock]]:
    """The step that writes a bucket's units from the blocks of all tasks."""

    def finish_bucket(blocks: Iterable[ShuffleBlock]) -> Iterator[WindowResult | ShuffleBlock]:
        gathered: dict[tuple[int, int], list[pa.RecordBatch]] = {}
        for block in blocks:
            window, rows = shuffle_blocks.rows_of(block)
            gathered.setdefault((block.unit, window), []).append(rows)
        while gathered:
            (number, window), batches = gathered.popitem()
            yield from _or_error((number, window), partial(_rows_written, units[number], window, batches))

    return finish_bucket


def _rows_written(unit: SilverUnit, number: int, batches: Sequence[pa.RecordBatch]) -> Iterator[WindowResult]:
    """A bucket's rows of a window as a file."""
    window, rows = unit.windows[number], pa.Table.from_batches(batches)
    if window.inherited is not None:
        yield _inherited_result(unit, number, inherited(rows, window.inherited, window.columns))
    else:
        yield result_of(unit, number, _net_rows(rows, window.columns))


def _net_rows(rows: pa.Table, columns: silver.Columns) -> pa.Table:
    """One row a key and window, or a distinct row and window, of all rows that there are of a bucket."""
    if not columns.is_keyless:
        return one_row_per_key(rows, columns.key)
    names = [name for name in columns.types if name in rows.column_names]
    return sorted_by_bounded_column(summed_copies(rows, names), names)


def result_of(unit: SilverUnit, at: int, net_rows: pa.Table) -> WindowResult:
    """Write one row a key and range as a data file of silver.

    net_rows: as ``net_changes.one_row_per_key`` gives them.
    """
    # Cells that tell of the window, beside those of the rows.
    window = unit.windows[at]
    op = _operations(net_rows, is_keyless=window.columns.is_keyless)
    starts, stops = (
        _position_array([getattr(log_range, end) for log_range in window.ranges]) for end in ("start", "stop")
    )
    ordinals = net_rows.column("_window").combine_chunks()
    added_cells: dict[str, Any] = {
        "_op": op,
        "_window_start": starts.take(ordinals),
        "_window_stop": stops.take(ordinals),
    }
    # Counts for the commit's metadata.
    counts = {value["values"]: value["counts"] for value in pc.value_counts(op).to_pylist()}
    return WindowResult(
        unit=unit.number,
        window=at,
        file=_file_of(unit, window, net_rows, added_cells),
        changes=pc.sum(net_rows.column("_changes")).as_py() or 0,
        inserts=counts.get(silver.Op.INSERT, 0),
        updates=counts.get(silver.Op.UPDATE, 0),
        deletes=counts.get(silver.Op.DELETE, 0),
        newest_us=pc.max(net_rows.column("_micros")).as_py(),
    )


def _inherited_result(unit: SilverUnit, at: int, rows: pa.Table) -> WindowResult:
    """Write rows that a statement or a load brings. rows: as ``inherited_rows.inherited`` gives them."""
    window, into = unit.windows[at], _inherited(unit, at)
    (log_range,) = window.ranges
    start, stop = (_position_array([log_position])[0] for log_position in (log_range.start, log_range.stop))
    kind = window.schema.column("_position").arrow(physical=False).type
    row, op = (LOADED_ROW, silver.Op.LOAD) if into.is_loaded else (0, silver.Op.RENAME)
    position = pa.scalar(start.as_py() | {"row": row}, kind)
    times = pc.max(rows.column("_committed_at").cast(pa.int64())).as_py()
    cells = stored_cells(rows, window.columns, (position, start, stop), op)
    return WindowResult(unit.number, at, _file_of(unit, window, rows, cells), inserts=len(rows), newest_us=times)


def _file_of(unit: SilverUnit, window: SilverWindow, rows: pa.Table, added: Mapping[str, Any]) -> DataFile | None:
    """Rows as a data file, none of no rows. added: cells that silver has beside those of the rows."""
    if not len(rows):
        return None
    cells = {name: rows.column(name) for name in rows.column_names} | dict(added)
    if window.present is not None and window.projection is not None:
        projected = window.projection.apply(pa.table(cells))
        cells = {name: projected.column(name) for name in projected.column_names}
    # In the order of silver's columns; a column that the rows do not have is null.
    fields, names = window.schema.arrow(physical=False), list((window.present or window.columns).stored)
    columns = [cells[name] if name in cells else pa.nulls(len(rows), fields.field(name).type) for name in names]
    stored = pa.table(columns, names=names).cast(pa.schema([fields.field(name) for name in names]))
    return fills.write(unit.path, stored, window.schema, window.configuration, window.fills)


def _operations(net_rows: pa.Table, *, is_keyless: bool) -> pa.Array:
    """``_op`` of net rows: gone after the window, there before it, or new; of copies: fewer, as many, or more."""
    if is_keyless:
        copies = net_rows.column(silver.COPIES)
        not_fewer = pc.if_else(pc.equal(copies, 0), silver.Op.UPDATE, silver.Op.INSERT)
        return pc.if_else(pc.less(copies, 0), silver.Op.DELETE, not_fewer).combine_chunks()
    alive, existed = net_rows.column("_exists"), net_rows.column("_existed")
    return pc.if_else(alive, pc.if_else(existed, silver.Op.UPDATE, silver.Op.INSERT), silver.Op.DELETE).combine_chunks()


def _position_array(positions: Sequence[Position]) -> pa.StructArray:
    orders = [position.order for position in positions]
    kinds = {"stretch": pa.int32(), "number": pa.int64(), "offset": pa.int64()}
    arrays = [pa.array([order[at] for order in orders], kind) for at, kind in enumerate(kinds.values())]
    return pa.StructArray.from_arrays(arrays, list(kinds))
