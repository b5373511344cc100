"""What a task does for silver: slices where they lie -> net rows -> data files, of many tables.

Put here: the units that tasks work on and the work itself. Not here: which slices those are (silver_job.py), decoding
(binlog/), what net rows are (silver/net_changes.py), or commits.

A unit is one table's part of a run; its windows lie between two statements that change the table. A unit of which one
task has all slices is written there. Of others each task sends what it reduced, by buckets of keys, and whoever gets a
bucket writes it by the same code.
"""

import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableDefinition
from spark_jobs.bronze.xa import EFFECT
from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine import key_hash
from spark_jobs.engine.fills import Fill, refilled, schema_with, with_fills
from spark_jobs.engine.spark_job import Piece
from spark_jobs.errors import LakeError, StratalogError
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.decode_task import decoding_task, passing_over
from spark_jobs.silver.net_changes import settle
from spark_jobs.storage.files import stored_path

_CELLS = ("stretch", "number", "start", "file", "transaction_start", "committed_at", "window")
_ROW_GROUPS = 3
"""Row groups of bronze that a task keeps open: units take their slices from one after the other."""
_PIECE_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class SilverWindow:
    """One or more ranges of the log between two statements about a table, and how its rows are there."""

    definition: TableDefinition
    columns: silver.Columns
    """As silver stores them; those that the definition does not have are NULL."""
    ranges: tuple[Range, ...]
    schema: TableSchema
    configuration: Mapping[str, str]
    """The silver table's."""
    fills: tuple[Fill, ...] = ()
    """Columns that later statements of the run add with a default, which the rows get at once."""


@dataclass(frozen=True, slots=True)
class SilverUnit:
    """A table in a silver job: what tasks need to know of it."""

    number: int
    name: str
    path: str
    windows: tuple[SilverWindow, ...]
    skips: frozenset[Position] = frozenset()
    buckets: tuple[int, ...] = ()
    """The buckets of its keys; none where one task has all its slices."""


@dataclass(frozen=True, slots=True)
class Refill:
    """Files of silver that are written again with the columns that statements of the run add with a default."""

    unit: int
    path: str
    files: tuple[DataFile, ...]
    schema: TableSchema
    configuration: Mapping[str, str]
    fills: tuple[Fill, ...]


@dataclass(frozen=True, slots=True)
class SilverTask:
    """Units, and the slices that the task takes for them."""

    bronze: str
    """The bronze table's path."""
    units: tuple[SilverUnit, ...]
    slices: Mapping[tuple[int, int], pa.Table] = field(default_factory=dict)
    """By unit and window: rows of ``bronze.index.OF_TABLE``, in the order in which they take effect."""


@dataclass(frozen=True, slots=True)
class WindowResult:
    """What a task wrote for a window of a unit, or why it could not."""

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
    error: str | None = None


REFILLED = -2
"""In the place of a window's number: a file that was there, written again."""


def work(task: SilverTask | Refill) -> Iterator[WindowResult | Piece]:
    """Decodes and reduces the slices of a task; writes the units that are whole in it, and sends pieces of others."""
    if isinstance(task, Refill):
        yield from _or_error(task.unit, lambda: _refilled(task))
        return
    for unit in task.units:
        yield from _or_error(unit.number, partial(_unit, task, unit))


def _or_error(unit: int, results: Callable[[], Iterator[WindowResult | Piece]]) -> Iterator[WindowResult | Piece]:
    """The results of a unit's work, or what stops it: other units go on."""
    began = time.monotonic()
    try:
        outcomes = list(results())
        share = (time.monotonic() - began) / max(1, len(outcomes))
        yield from (
            replace(outcome, seconds=share) if isinstance(outcome, WindowResult) else outcome for outcome in outcomes
        )
    except StratalogError as error:
        yield WindowResult(unit, -1, error=f"{type(error).__name__}: {error}")


def _refilled(task: Refill) -> Iterator[WindowResult]:
    for file in task.files:
        for file_ in refilled(task.path, file, task.schema, task.configuration, task.fills):
            yield WindowResult(task.unit, REFILLED, file_)


def _unit(task: SilverTask, unit: SilverUnit) -> Iterator[WindowResult | Piece]:
    for at, window in enumerate(unit.windows):
        slices = task.slices.get((unit.number, at))
        if slices is None:
            continue
        columns = silver.columns(window.definition)
        reduced = passing_over(decoding_task(window.definition, columns, alone=not unit.buckets), unit.skips)
        batches = list(reduced(_slices(task.bronze, slices)))
        if not batches:
            continue
        rows = pa.Table.from_batches(batches)
        if unit.buckets:
            yield from _pieces(unit, at, rows, window.columns.key)
        else:
            yield result_of(unit, at, rows)


def _slices(bronze: str, slices: pa.Table) -> Iterator[pa.RecordBatch]:
    """The slices one by one as the decoding task takes them; no payload is copied."""
    places = slices.select(["data_file", "row_group", "row", "offset", "bytes"]).to_pylist()
    cells = _cells(slices)
    for at, place in enumerate(places):
        stored = _row_group(f"{bronze}/{place['data_file']}", place["row_group"]).slice(place["row"], 1)
        payload, context = stored.column("payload"), stored.column("context")
        size = len(payload[0].as_buffer())
        if (place["offset"], place["bytes"]) != (0, size):
            content = payload[0].as_buffer().slice(place["offset"], place["bytes"])
            offsets = pa.py_buffer(np.array([0, len(content)], np.int32))
            payload = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, content])
        yield cells.slice(at, 1).append_column("context", context).append_column("payload", payload)


def _cells(slices: pa.Table) -> pa.RecordBatch:
    """What the decoding task needs of slices beside their bytes."""
    names = [*_CELLS]
    columns = [slices.column(name).combine_chunks() for name in names]
    starts = slices.column("effect_start").combine_chunks()
    if starts.null_count < len(slices):
        fields = ("stretch", "number", "start", "file")
        effect = pa.StructArray.from_arrays(
            [slices.column(f"effect_{name}").combine_chunks() for name in fields], list(fields), mask=starts.is_null()
        )
        columns.append(effect)
        names.append(EFFECT)
    return pa.RecordBatch.from_arrays(columns, names)


@lru_cache(_ROW_GROUPS)
def _row_group(path: str, number: int) -> pa.RecordBatch:
    """Raises LakeError."""
    try:
        table = data_files.parquet(stored_path(path)).read_row_group(number, columns=["context", "payload"])
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise LakeError(
            f"{path}: a data file of bronze cannot be read: {reason}; restore bronze from a backup"
        ) from error
    (batch,) = table.combine_chunks().to_batches()
    return batch


def _pieces(unit: SilverUnit, window: int, rows: pa.Table, key: Sequence[str]) -> Iterator[Piece]:
    """Rows by the bucket of their key, with the number of their window, as Arrow IPC."""
    bucket_numbers = key_hash.hashes(rows, key) % np.uint64(len(unit.buckets))
    order = np.argsort(bucket_numbers, kind="stable")
    bounds = np.searchsorted(bucket_numbers[order], np.arange(len(unit.buckets) + 1))
    for at, bucket in enumerate(unit.buckets):
        bucket_rows = order[bounds[at] : bounds[at + 1]]
        for start in range(0, len(bucket_rows), _PIECE_ROWS):
            part = rows.take(pa.array(bucket_rows[start : start + _PIECE_ROWS]))
            yield Piece(unit.number, bucket, _packed(part, window))


def _packed(rows: pa.Table, window: int) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema.with_metadata({"window": str(window)})) as stream:
        stream.write_table(rows)
    return sink.getvalue()


def finish(units: Mapping[int, SilverUnit]) -> Callable[[Iterable[Piece]], Iterator[WindowResult | Piece]]:
    """The step that writes a bucket's units from the pieces of all tasks."""

    def rows_written(number: int, window: int, tables: Sequence[pa.Table]) -> Iterator[WindowResult]:
        unit = units[number]
        yield result_of(unit, window, settle(pa.concat_tables(tables), unit.windows[window].columns.key))

    def finish_bucket(pieces: Iterable[Piece]) -> Iterator[WindowResult | Piece]:
        gathered: dict[tuple[int, int], list[pa.Table]] = {}
        for piece in pieces:
            table = pa.ipc.open_stream(piece.rows).read_all()
            window = int(table.schema.metadata[b"window"])
            gathered.setdefault((piece.unit, window), []).append(table.replace_schema_metadata())
        while gathered:
            (number, window), tables = gathered.popitem()
            yield from _or_error(number, partial(rows_written, number, window, tables))

    return finish_bucket


def result_of(unit: SilverUnit, at: int, settled: pa.Table) -> WindowResult:
    """Writes one row a key and range as a data file of silver. settled: as ``net_changes.settle`` gives them."""
    window = unit.windows[at]
    op = _operations(settled)
    starts, stops = (_places([getattr(range_, end) for range_ in window.ranges]) for end in ("start", "stop"))
    ordinals = settled.column("_window").combine_chunks()
    added_cells: dict[str, Any] = {
        "_op": op,
        "_window_start": starts.take(ordinals),
        "_window_stop": stops.take(ordinals),
    }
    fields = window.schema.arrow(physical=False)
    columns = [
        added_cells[name] if name in added_cells else settled.column(name) if name in settled.column_names else None
        for name in window.columns.stored
    ]
    arrays = [
        pa.nulls(len(settled), fields.field(name).type) if column is None else column
        for name, column in zip(window.columns.stored, columns, strict=True)
    ]
    rows = pa.table(arrays, names=list(window.columns.stored)).cast(
        pa.schema([fields.field(name) for name in window.columns.stored])
    )
    counts = {value["values"]: value["counts"] for value in pc.value_counts(op).to_pylist()}
    return WindowResult(
        unit=unit.number,
        window=at,
        file=_stored(unit.path, rows, window) if len(rows) else None,
        changes=pc.sum(settled.column("_changes")).as_py() or 0,
        inserts=counts.get(silver.Op.INSERT, 0),
        updates=counts.get(silver.Op.UPDATE, 0),
        deletes=counts.get(silver.Op.DELETE, 0),
        newest_us=pc.max(settled.column("_micros")).as_py(),
    )


def _stored(path: str, rows: pa.Table, window: SilverWindow) -> DataFile:
    schema = schema_with(window.schema, window.fills)
    return data_files.write(path, with_fills(rows, window.fills), schema, window.configuration)


def _operations(settled: pa.Table) -> pa.Array:
    """``_op`` of net rows: gone behind the window, there before it, or new."""
    alive, existed = settled.column("_exists"), settled.column("_existed")
    return pc.if_else(alive, pc.if_else(existed, silver.Op.UPDATE, silver.Op.INSERT), silver.Op.DELETE).combine_chunks()


def _places(positions: Sequence[Position]) -> pa.StructArray:
    orders = [position.order for position in positions]
    kinds = {"stretch": pa.int32(), "number": pa.int64(), "offset": pa.int64()}
    arrays = [pa.array([order[at] for order in orders], kind) for at, kind in enumerate(kinds.values())]
    return pa.StructArray.from_arrays(arrays, list(kinds))
