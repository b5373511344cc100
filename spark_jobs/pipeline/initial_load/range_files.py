"""Tasks of a load: ranges of rows to data files where they wait, and these files to silver.

Put here: the work of a task, in Arrow from the connection to Parquet. Not here: which ranges and commits (reading.py),
when rows may land (landing.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Changes
from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.engine.rows.inherited_rows import row_groups
from spark_jobs.engine.rows.row_projection import RowProjection
from spark_jobs.errors import LakeError, Unsupported
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.key_ranges import KeyRange
from spark_jobs.pipeline.initial_load.row_rules import FilteredRows, RowRules
from spark_jobs.pipeline.initial_load.selecting import Selecting
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import RAW
from spark_jobs.silver.positions import LOADED_ROW
from spark_jobs.storage.files import link, reason

_GROUP_ROWS = 1 << 16
_GROUP_BYTES = 32 << 20
"""Rows and bytes of a row group at most; until it ends, they are in memory."""
_FILE_BYTES = 256 << 20
"""Bytes of rows in memory that a file takes, where a task writes several."""
_COUNTED: data_files.FileLayout = {"stats_columns": [], "page_statistics": []}
"""Layout of files whose rows wait to be counted: nobody asks for their bounds."""


@dataclass(frozen=True, slots=True)
class FileTarget:
    """The table that a task writes files of, which no commit names yet."""

    path: str
    schema: TableSchema
    configuration: Mapping[str, str]

    @classmethod
    def of(cls, upon: Snapshot) -> "FileTarget":
        return cls(upon.path, upon.schema, dict(upon.configuration))


@dataclass(frozen=True, slots=True)
class RangeTask:
    """Ranges that a task reads, one after the other, into one file.

    since: the position that rows count from.
    """

    selecting: Selecting
    parts: tuple[KeyRange, ...]
    key: tuple[str, ...]
    since: Position
    target: FileTarget
    rules: RowRules


@dataclass(frozen=True, slots=True)
class LandingTask:
    """Files of rows that wait, and what the rows are in silver.

    projection: from the columns that they were read with to those that statements since then left; None where the
    files are as silver has them.
    """

    waiting: FileTarget
    files: tuple[DataFile, ...]
    since: Position
    target: FileTarget
    projection: RowProjection | None


def read_ranges(task: RangeTask) -> Iterator[DataFile | FilteredRows]:
    """The file with the rows of all ranges of a task, none where there are no rows; and what rules have filtered."""
    loaded = task.rules.judge()
    changes = (loaded.remaining(rows) for part in task.parts for rows in task.selecting.read(part))
    batches = (loaded.masked(with_raw(rows, task.key, task.selecting)) for rows in changes)
    yield from _file(task.target, as_silver(_groups(batches), task.since, task.target.schema), {})
    yield from loaded.filtered


def files_of(target: FileTarget, batches: Iterator[pa.RecordBatch]) -> Iterator[DataFile]:
    """The files with rows that wait to be counted, where they may be many."""
    groups = _groups(batches)
    for first in groups:
        yield from _file(target, chain([first], _up_to(groups, _FILE_BYTES - first.nbytes)), _COUNTED)


def _up_to(groups: Iterator[pa.Table], room: int) -> Iterator[pa.Table]:
    while room > 0 and (group := next(groups, None)) is not None:
        room -= group.nbytes
        yield group


def land_files(task: LandingTask) -> Iterator[DataFile]:
    """The files of silver with the rows of a task's files: the same ones, or one with other rows."""
    if task.projection is None:
        yield from _linked_files(task)
    else:
        rows = _projected_rows(task, task.projection)
        yield from _file(task.target, as_silver(rows, task.since, task.target.schema), {})


def _linked_files(task: LandingTask) -> Iterator[DataFile]:
    """A task's files, in silver's folder too. Raises LakeError."""
    for file in task.files:
        try:
            link(file.location(task.waiting.path), file.location(task.target.path))
        except OSError as error:
            raise LakeError(f"{task.target.path}: a loaded file cannot be put there: {reason(error)}") from error
        yield file


def _file(target: FileTarget, groups: Iterator[pa.Table], layout: data_files.FileLayout) -> Iterator[DataFile]:
    """File of the groups, none where there is no row: the first group decides whether one is opened."""
    for first in islice(groups, 1):
        rest = chain([first], groups)
        yield data_files.write_parts(target.path, rest, target.schema, target.configuration, **layout)


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables that are a row group each."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def with_raw(rows: Changes, key: Sequence[str], selecting: Selecting) -> pa.RecordBatch:
    """The rows with ``_raw``, the texts of zero dates and of bytes that are no text.

    Raises Unsupported for NULL in the key.
    """
    for name in key:
        if not rows.after.column(name).null_count:
            continue
        for row in pc.indices_nonzero(pc.is_null(rows.after.column(name))).to_pylist():
            texts = dict(rows.raw[row].as_py() or ()) if rows.raw is not None else {}
            if name not in texts:
                raise Unsupported(
                    f"{selecting.source}: {selecting.definition.name}: column {name} of the key is NULL in a row"
                )
    return rows.with_exact_texts()


def _projected_rows(task: LandingTask, projection: RowProjection) -> Iterator[pa.Table]:
    """The waiting rows with the columns that statements left, a row group at a time."""
    names = [name for name in task.waiting.schema.names if name in projection.names or name == RAW]
    for file in task.files:
        for _, living, stored in row_groups(task.waiting.path, task.waiting.schema, file, names):
            yield projection.apply(stored.filter(pa.array(living)))


def as_silver(groups: Iterable[pa.Table], since: Position, schema: TableSchema) -> Iterator[pa.Table]:
    """Rows with silver's own columns, as older than all that the log says from a position on."""
    fields = schema.arrow(physical=False)
    position = dict(zip(("stretch", "number", "offset"), since.order, strict=True))
    cells: dict[str, Any] = {
        "_op": silver.Op.LOAD.value,
        "_position": position | {"row": LOADED_ROW},
        "_window_start": position,
        "_window_stop": position,
    }
    constants = {name: pa.array([cells.get(name)], fields.field(name).type) for name in fields.names}
    # Beside columns of one value.
    for rows in groups:
        first = _zeros(rows.num_rows)
        columns = [
            rows.column(name).cast(fields.field(name).type)
            if name in rows.column_names
            else constants[name].take(first)
            for name in fields.names
        ]
        yield pa.table(columns, schema=fields)


def _zeros(count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(bytes(4 * count))])
