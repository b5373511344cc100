"""Task of a replay: rows of windows decoded again, compared with silver's: how many differ.

Put here: rows of both sides on their way to buckets, their comparison, and files written again without replaced rows.
Not here: decoding (silver_task.py), which files those are, or the commit (replay_job.py).

Two rows are one where all of their stored bytes are. Equal rows are counted on both sides, in the bucket of all that is
in them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.delta.value_hash import hashes_of
from spark_jobs.engine.jobs import shuffle_blocks
from spark_jobs.engine.jobs.spark_job import ShuffleBlock
from spark_jobs.engine.rows.inherited_rows import row_groups
from spark_jobs.errors import StratalogError
from spark_jobs.log.position import Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.keyless_rows import comparable_columns
from spark_jobs.silver.positions import within

_COUNT = "\0count"
_NEW = "\0new"
_SEPARATOR = "\0"


@dataclass(frozen=True, slots=True)
class ReplayedRange:
    """A range of silver's windows that is replaced. is_inherited: only rows that came with a name are."""

    range: Range
    is_inherited: bool = False


@dataclass(frozen=True, slots=True)
class ReplayedFiles:
    """Data files of one side of the comparison: the present rows of some windows, or new ones.

    windows: of the present rows, as ``in_windows`` takes them; none of new ones, all of which count. buckets: how many
    there are.
    """

    path: str
    files: tuple[DataFile, ...]
    schema: TableSchema
    buckets: int
    windows: tuple[ReplayedRange, ...] = ()
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class ReplacedRows:
    """Row numbers of a file that are replaced, as a serialized bitmap. is_whole: no row of the file stays."""

    file: DataFile
    rows: bytes
    is_whole: bool


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """Counts of a bucket. rows: new ones in all. new, removed: those that the other side does not have."""

    rows: int
    new: int
    removed: int


@dataclass(frozen=True, slots=True)
class FailedReplay:
    """Reason why a task could not compare its rows."""

    error: StratalogError


@dataclass(frozen=True, slots=True)
class KeptRows:
    """A file that is written again without replaced rows."""

    path: str
    replaced: ReplacedRows
    schema: TableSchema
    configuration: dict[str, str]


def work(task: ReplayedFiles) -> Iterator[ShuffleBlock | ReplacedRows | FailedReplay]:
    """Send the rows of files to buckets; of present ones it says which they are."""
    try:
        for file in task.files:
            yield from _replayed_file(task, file)
    except StratalogError as error:
        yield FailedReplay(error)


def _replayed_file(task: ReplayedFiles, file: DataFile) -> Iterator[ShuffleBlock | ReplacedRows]:
    numbers, living_rows = BitMap64(), 0
    for begin, living, rows in row_groups(task.path, task.schema, file):
        is_meant = living
        if not task.is_new:
            is_meant = living & in_windows(rows, task.windows)
            numbers |= BitMap64(begin + np.flatnonzero(is_meant))
        living_rows += int(living.sum())
        yield from _blocks(task, rows.filter(pa.array(is_meant)))
    if numbers:
        yield ReplacedRows(file, numbers.serialize(), len(numbers) == living_rows)


def in_windows(rows: pa.Table, windows: Sequence[ReplayedRange]) -> NDArray[np.bool_]:
    """Mask of the rows of silver in windows; those from the server lie in none.

    windows: in order and joined, those of inherited rows by themselves.
    """
    op, starts = rows.column("_op"), rows.column("_window_start")
    plain, inherited = (
        within(starts, [window.range for window in windows if window.is_inherited == is_inherited])
        for is_inherited in (False, True)
    )
    is_inside = pc.or_(plain, pc.and_(inherited, pc.equal(op, silver.Op.RENAME)))
    return np.asarray(pc.and_not(is_inside, silver.is_from_server(op)), np.bool_)


def _blocks(task: ReplayedFiles, rows: pa.Table) -> Iterator[ShuffleBlock]:
    hashes = hashes_of(_hashable_columns(rows), len(rows))
    yield from shuffle_blocks.blocks_by(0, range(task.buckets), int(task.is_new), rows, hashes)


def _hashable_columns(rows: pa.Table) -> list[pa.Array]:
    """All that is in rows, as columns that can be grouped and hashed."""
    names = [name for name in rows.column_names if name not in ("_raw", *silver.LACKING)]
    lists = [pc.binary_join(rows.column(name), _SEPARATOR) for name in silver.LACKING if name in rows.column_names]
    columns = [*comparable_columns(rows, names), *lists]
    return [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]


def finish(blocks: Iterable[ShuffleBlock]) -> Iterator[ComparedRows]:
    """Compare the rows of both sides in a bucket."""
    # A row of each side counts one and minus one, by all that is in it.
    parts: list[pa.Table] = []
    for block in blocks:
        is_new, batch = shuffle_blocks.rows_of(block)
        rows = pa.Table.from_batches([batch])
        cells = {f"\0{at}": cell for at, cell in enumerate(_hashable_columns(rows))}
        sign, count = pa.scalar(1 if is_new else -1, pa.int64()), len(rows)
        parts.append(pa.table(cells | {_COUNT: pa.repeat(sign, count), _NEW: pa.repeat(pa.scalar(is_new), count)}))
    if not parts:
        return
    all_rows = pa.concat_tables(parts)
    keys = [name for name in all_rows.column_names if name not in (_COUNT, _NEW)]
    grouped = all_rows.group_by(keys, use_threads=False).aggregate([(_COUNT, "sum"), (_NEW, "sum")])
    net = np.asarray(grouped.column(f"{_COUNT}_sum"))
    yield ComparedRows(
        int(np.asarray(grouped.column(f"{_NEW}_sum")).sum()), int(net[net > 0].sum()), int(-net[net < 0].sum())
    )


def file_without_replaced(task: KeptRows) -> Iterator[DataFile | FailedReplay]:
    """A file written again without the rows that are replaced."""
    file = task.replaced.file
    try:
        rows = data_files.read_columns(task.path, file, task.schema.names, task.schema)
        is_alive = deletion_vectors.living_rows_mask(task.path, file.deletion_vector, len(rows))
        is_alive[np.asarray(BitMap64.deserialize(task.replaced.rows).to_array(), np.int64)] = False
        yield data_files.write(task.path, rows.filter(pa.array(is_alive)), task.schema, task.configuration)
    except StratalogError as error:
        yield FailedReplay(error)
