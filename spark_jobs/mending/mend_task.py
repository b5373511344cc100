"""Task of a mend: rows read from the server, compared with silver's; differences become rows of a mend.

Put here: the comparison, and the rows of silver that it leaves. Not here: reading rows at the server
(pipeline/initial_load/snapshot.py), or the commit (mend_table.py).

A row of a mend stands right before the position of the snapshot that it was read in: after all that the log said
before, and before all that it says from there on. No event begins a byte before a position, so that place is free;
rows of several mends in one place are numbered.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delta import data_files
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.rows.locate import Keys, Numbers
from spark_jobs.engine.rows.restatement import SilverSource, equal_rows_mask, living_rows
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.range_files import FileTarget
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import sorted_by_key
from spark_jobs.silver.positions import FIELDS, at_or_after, last_rows_by_key, newest_by_key

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MendTask:
    """Rows of some keys, and silver's.

    Attributes:
        origin: the silver table.
        files: all of its data files.
        server_files: where the rows are that the server had, files of its folder.
        read_from: the columns of these files: the source's, and ``_raw``.
        lake_keys: keys that may be missing at the server, with ``_raw``.
        names: the source's columns that silver has.
        position: the position of the snapshot.
        at: the server's time when it was opened, or shortly before.
        floor: where the last statement stands that emptied the table.
        target: silver, as the commit leaves it.
    """

    origin: SilverSource
    files: tuple[DataFile, ...]
    server_files: tuple[DataFile, ...]
    read_from: FileTarget
    lake_keys: pa.Table
    names: tuple[str, ...]
    position: Position
    at: datetime
    floor: Position | None
    target: FileTarget


@dataclass(frozen=True, slots=True)
class MendCounts:
    """Counts of rows of some keys: those that a mend writes, by what silver had of them, and those that it does not.

    equal: silver has what the server has. changed: the log has a change of the key from the snapshot on. tied: a load
    read the row at the snapshot's very position, and no position is between the two.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    equal: int = 0
    changed: int = 0
    tied: int = 0

    @property
    def rows(self) -> int:
        """Rows that differ, and are written."""
        return self.inserted + self.updated + self.deleted

    @property
    def rows_left(self) -> int:
        """Rows that differ, or may, and are not written."""
        return self.changed + self.tied

    @property
    def written(self) -> "MendCounts":
        """The counts of rows that differ alone."""
        return MendCounts(self.inserted, self.updated, self.deleted)

    def __add__(self, other: "MendCounts") -> "MendCounts":
        names = MendCounts.__slots__
        return MendCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


NOTHING = MendCounts()


def compared(task: MendTask) -> Iterator[DataFile | MendCounts]:
    """The file with the rows of the mend, none where nothing differs, and how many there are. Raises LakeError."""
    # The server's rows of the task, and all keys that either side has.
    key = task.origin.key
    names = [*task.names, "_raw"]
    parts = [
        data_files.read_columns(task.origin.path, file, names, task.read_from.schema) for file in task.server_files
    ]
    at_server = pa.concat_tables([_empty(task, names), *parts])
    key_rows = last_rows_by_key(pa.concat_tables([at_server.select([*key, "_raw"]), task.lake_keys]), key)
    if not len(key_rows):
        yield NOTHING
        return
    # Of each wanted key its row at the server, and the newest of silver; -1 where there is none.
    keys = Keys(key_rows, key)
    has_absent = silver.ABSENT in task.origin.schema.names
    reading = [*names, "_op", "_position", *([silver.ABSENT] if has_absent else [])]
    in_silver = newest_by_key(living_rows(task.origin, task.files, keys, reading, task.floor), key)
    server_numbers, silver_numbers = _numbers(keys, at_server, len(key_rows)), _numbers(keys, in_silver, len(key_rows))
    is_alive = _flags_by_key(pc.invert(silver.is_delete(in_silver.column("_op"))), silver_numbers)
    is_later = _flags_by_key(at_or_after(in_silver.column("_position"), task.position), silver_numbers)
    is_tied = is_later & _flags_by_key(_are_loaded_at(in_silver, task.position), silver_numbers)
    is_same = _are_same(at_server, in_silver, names, (server_numbers, silver_numbers)) & is_alive
    is_same |= (server_numbers < 0) & ~is_alive
    # What the log says from the snapshot on stays, and so does what is equal.
    is_mended = ~is_same & ~is_later
    is_written, is_deleted = is_mended & (server_numbers >= 0), is_mended & (server_numbers < 0)
    parts = [
        _mended(task, rows.take(pa.array(numbers)), _numbered(task, in_silver, silver_numbers[flags]), operation)
        for rows, numbers, flags, operation in (
            (at_server, server_numbers[is_written], is_written, silver.Op.MEND),
            (in_silver.select(names), silver_numbers[is_deleted], is_deleted, silver.Op.MEND_DELETE),
        )
    ]
    rows = pa.concat_tables(parts)
    if len(rows):
        ordered = sorted_by_key(rows, key)
        yield data_files.write(task.target.path, ordered, task.target.schema, task.target.configuration)
    # Each key counts once: as mended, as equal, or as one that the log decides about.
    yield MendCounts(
        inserted=int((is_written & ~is_alive).sum()),
        updated=int((is_written & is_alive).sum()),
        deleted=int(is_deleted.sum()),
        equal=int(is_same.sum()),
        changed=int((is_later & ~is_tied & ~is_same).sum()),
        tied=int((is_tied & ~is_same).sum()),
    )


def _empty(task: MendTask, names: Sequence[str]) -> pa.Table:
    return pa.schema([task.origin.schema.column(name).arrow(physical=False) for name in names]).empty_table()


def _numbers(keys: Keys, rows: pa.Table, count: int) -> Numbers:
    """Number of the row of each wanted key; -1 where it has none."""
    numbers = np.full(count, -1, np.int64)
    at, ordinals = keys.ordinals_of(rows)
    numbers[ordinals] = at
    return numbers


def _flags_by_key(flags: Any, numbers: Numbers) -> Flags:
    """Flags of rows, by wanted key; False where a key has no row."""
    values = np.append(np.asarray(pc.fill_null(flags, False), np.bool_), False)
    flags_by_key: Flags = values[numbers]
    return flags_by_key


def _are_loaded_at(rows: pa.Table, position: Position) -> Any:
    """Mask of the rows that a load read and that count from a position."""
    following = at_or_after(rows.column("_position"), replace(position, offset=position.offset + 1))
    return pc.and_not(pc.equal(rows.column("_op"), silver.Op.LOAD), following)


def _are_same(
    at_server: pa.Table, in_silver: pa.Table, names: Sequence[str], numbers: tuple[Numbers, Numbers]
) -> Flags:
    """Mask of the keys that have a row on both sides, with equal values in all columns.

    Rows that lack columns equal none.
    """
    server_numbers, silver_numbers = numbers
    on_both = np.flatnonzero((server_numbers >= 0) & (silver_numbers >= 0))
    silver_rows = in_silver.take(pa.array(silver_numbers[on_both]))
    is_equal = equal_rows_mask(
        at_server.take(pa.array(server_numbers[on_both])).select(names), silver_rows.select(names)
    )
    if silver.ABSENT in in_silver.column_names:
        is_equal &= np.asarray(pc.is_null(silver_rows.column(silver.ABSENT)), np.bool_)
    is_same = np.zeros(len(server_numbers), np.bool_)
    is_same[on_both[is_equal]] = True
    return is_same


def _numbered(task: MendTask, in_silver: pa.Table, numbers: Numbers) -> Numbers:
    """Number of each key's row in the place of the mend: one more than that of a mend before."""
    position = in_silver.column("_position").combine_chunks()
    fields = [np.asarray(position.field(name).to_numpy(zero_copy_only=False), np.int64) for name in FIELDS]
    is_here = np.ones(len(in_silver), np.bool_)
    for cells, value in zip(fields, _mended_position(task).order, strict=False):
        is_here &= cells == value
    following = np.append(np.where(is_here, fields[3] + 1, 0), 0)
    return following[numbers]


def _mended_position(task: MendTask) -> Position:
    """Position of the rows of the mend: a byte before the snapshot."""
    return replace(task.position, offset=task.position.offset - 1)


def _mended(task: MendTask, rows: pa.Table, numbers: Numbers, operation: silver.Op) -> pa.Table:
    """Rows with silver's own columns."""
    # All rows have one window without extent, and the same place but for the row's number.
    fields = task.target.schema.arrow(physical=False)
    position = dict(zip(FIELDS[:3], _mended_position(task).order, strict=True))
    cells: dict[str, Any] = {
        "_op": str(operation),
        "_committed_at": task.at,
        "_window_start": position,
        "_window_stop": position,
    }
    columns = []
    for item in fields:
        if item.name == "_position":
            parts = [pa.repeat(pa.scalar(position[name], item.type.field(name).type), len(rows)) for name in FIELDS[:3]]
            parts.append(pa.array(numbers, item.type.field("row").type))
            columns.append(pa.StructArray.from_arrays(parts, fields=[*item.type]))
        elif item.name in rows.column_names:
            columns.append(rows.column(item.name).cast(item.type))
        else:
            columns.append(pa.repeat(pa.scalar(cells.get(item.name), item.type), len(rows)))
    return pa.table(columns, schema=fields)
