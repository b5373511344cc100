"""Rewrite of data files in one Spark job: small ones joined, and those with many dead rows without them.

Put here: which files are worth it, what a task does, and the commit. Not here: when a table is maintained
(operations/retention/maintenance.py).

The rows stay as they are, so the commit that puts a file in the place of others holds upon any later version that still
names them all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from spark_jobs.bronze.landing import layout_of, row_groups
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.errors import StratalogError
from spark_jobs.lake.commit import CommitKind, Head, new_batch
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.silver.net_changes import sorted_by_key

SMALL = 64 << 20
"""Bytes below which a file is written together with others, and of what becomes of them at most."""
DEAD = 0.05
"""Part of a file's rows marked as deleted from which on it is written again."""
_LEAST = 1 << 20
"""Bytes that each file counts for at least: below them its size does not matter."""
_GROUP_BYTES = 64 << 10
"""Cost of a group besides its bytes, as bytes: opening and writing files takes some milliseconds."""
_COPIED = 8
"""Bytes of files that cost as much to write again as a byte of log to decode and merge."""
_SHARE = 8
"""Files are written into one this many times their size at most: else each run of maintenance writes a large one."""


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of a table that become one, or none where no row of theirs is left.

    sort_key: the columns by whose values rows are sorted; none leaves them in the order of the files. oldest: stretch
    and number of the first binlog file whose slices are kept, of bronze; None keeps all. edit: what becomes of rows.
    """

    unit: int
    path: str
    files: tuple[DataFile, ...]
    schema: TableSchema
    configuration: Mapping[str, str]
    sort_key: tuple[str, ...]
    oldest: tuple[int, int] | None = None
    edit: Callable[[pa.Table], pa.Table] | None = None

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Result of a group, or why it was not written."""

    unit: int
    files: tuple[DataFile, ...]
    file: DataFile | None = None
    error: str | None = None


def groups_of(unit: int, snapshot: Snapshot, sort_key: Sequence[str], *, purge: bool) -> list[FileGroup]:
    """The groups of a table's files that are worth writing again; neighbours in time are written together.

    purge: files with any row marked as deleted are worth it.
    """
    candidates = [file for file in snapshot.files if file.size < SMALL or _is_dead(file, purge=purge)]
    groups: list[list[DataFile]] = [[]]
    for file in sorted(candidates, key=lambda file: (file.action.get("modificationTime", 0), file.path)):
        if groups[-1] and sum(member.size for member in groups[-1]) + file.size > SMALL:
            groups.append([])
        groups[-1].append(file)
    worthwhile = (_worthwhile(group, purge=purge) for group in groups)
    return [
        FileGroup(unit, snapshot.path, tuple(group), snapshot.schema, snapshot.configuration, tuple(sort_key))
        for group in worthwhile
        if group
    ]


def _is_dead(file: DataFile, *, purge: bool) -> bool:
    """True if so many rows of a file are marked as deleted that it is worth writing again."""
    if file.deletion_vector is None:
        return False
    return purge or file.deletion_vector.cardinality >= DEAD * max(1, file.num_records or 0)


def _worthwhile(group: Sequence[DataFile], *, purge: bool) -> list[DataFile]:
    """The files of a group without a large one that the others are too small for; none where one would be alone."""
    sizes = sorted(max(file.size, _LEAST) for file in group)
    is_uneven = bool(sizes) and sizes[-1] > _SHARE * sum(sizes[:-1])
    dead = {file.key for file in group if _is_dead(file, purge=purge)}
    rest = [file for file in group if not is_uneven or file.key in dead or max(file.size, _LEAST) < sizes[-1]]
    return rest if len(rest) > 1 or dead else []


def size_of(groups: Sequence[FileGroup]) -> int:
    """Size of a job, in bytes of log that cost as much: rows are copied, not decoded."""
    return sum(group.bytes for group in groups) // _COPIED


def run(spark: SparkSession, groups: Sequence[FileGroup], capacity: Capacity) -> list[Rewritten]:
    """Results of the groups, which one job writes."""
    return spark_job.run(spark, _tasks(groups, capacity), work)


def _tasks(groups: Sequence[FileGroup], capacity: Capacity) -> list[tuple[FileGroup, ...]]:
    target = capacity.share(sum(group.bytes + _GROUP_BYTES for group in groups), _LEAST)
    tasks: list[list[FileGroup]] = [[]]
    size = 0
    for group in groups:
        if tasks[-1] and size + group.bytes > target:
            tasks.append([])
            size = 0
        tasks[-1].append(group)
        size += group.bytes + _GROUP_BYTES
    return [tuple(task) for task in tasks if task]


def work(task: Sequence[FileGroup]) -> Iterator[Rewritten]:
    """Write the groups of a task, one after the other."""
    for group in task:
        try:
            yield Rewritten(group.unit, group.files, _new_file(group))
        except StratalogError as error:
            yield Rewritten(group.unit, group.files, error=str(error))


def _new_file(group: FileGroup) -> DataFile | None:
    parts = _living(group)
    # Slices of bronze are large, and pass through a few at a time.
    layout: data_files.FileLayout = {}
    if "payload" in group.schema.names:
        layout = layout_of(group.schema)
        parts = row_groups(batch for part in parts for batch in part.to_batches())
    elif group.sort_key and group.bytes <= SMALL:  # a larger one passes through, sorted as the engine wrote it
        parts = iter([sorted_by_key(pa.concat_tables(parts), group.sort_key)])
    filled = (part for part in parts if part.num_rows)
    first = next(filled, None)
    if first is None:
        return None
    return data_files.write_parts(group.path, chain([first], filled), group.schema, group.configuration, **layout)


def _living(group: FileGroup) -> Iterator[pa.Table]:
    """The rows that are kept of a group's files, a row group at a time: neither marked as deleted nor too old."""
    names = group.schema.names
    for file in group.files:
        begin = 0
        dead = deletion_vectors.row_numbers(group.path, file.deletion_vector)
        with data_files.reading(group.path, file):
            opened = data_files.open_file(group.path, file)
            for number in range(opened.num_row_groups):
                rows = data_files.read_row_group(opened, number, names, group.schema)
                end = begin + rows.num_rows
                is_alive = np.ones(rows.num_rows, np.bool_)
                is_alive[dead[(dead >= begin) & (dead < end)] - begin] = False
                if group.oldest:
                    is_alive &= _is_kept(rows, group.oldest)
                rows = rows if is_alive.all() else rows.filter(pa.array(is_alive))
                yield group.edit(rows) if group.edit else rows
                begin = end


def _is_kept(slices: pa.Table, oldest: tuple[int, int]) -> NDArray[np.bool_]:
    """Mask of the slices that are not of a binlog file before the oldest."""
    stretch, number = (slices.column(name).to_numpy() for name in ("stretch", "number"))
    is_kept: NDArray[np.bool_] = (stretch > oldest[0]) | ((stretch == oldest[0]) & (number >= oldest[1]))
    return is_kept


def commit(table: Table, results: Sequence[Rewritten]) -> None:
    """Commit what tasks wrote of a table, but groups of which another writer changed a file since.

    Raises LostRace where others win every time, LakeError.
    """

    def land_valid() -> None:
        head = table.head()
        snapshot = snapshot_of(table.path, head.version) if head else None
        if head is None or snapshot is None:
            return
        present = {file.key for file in snapshot.files}
        valid = [result for result in results if all(file.key in present for file in result.files)]
        if valid:
            added = [result.file for result in valid if result.file]
            land(table, snapshot, head, added, [file for result in valid for file in result.files])

    retry_on_conflict(land_valid)


def land(table: Table, upon: Snapshot, head: Head, adds: Sequence[DataFile], removes: Sequence[DataFile]) -> Head:
    """Replace files by others with the same rows, in one commit upon ``head``. Raises LostRace."""
    assert head.checkpoint is not None
    checkpoint = replace(head.checkpoint, batch=new_batch(), kind=CommitKind.MAINTENANCE)
    metrics = {"numFiles": len(adds), "numRemovedFiles": len(removes)}
    return table.land(
        upon, head, checkpoint, adds=adds, removes=removes, changes_rows=False, operation="REWRITE", metrics=metrics
    )
