"""Effects of a merge on rows of its target, for Delta's change data feed.

Put here: whether a target has a feed, rows as they were and as they are, by kind of change. Not here: the layout of
the files (delta/change_data.py), or which rows a merge writes (engine/merge/downstream_task.py,
engine/merge/keyless_merge.py).

A commit that has any file of changes is read by these alone, so each task writes its inserts too. A first commit, and
one that replaces all rows, needs none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.delta import change_data, data_files, schema_changes
from spark_jobs.delta.change_data import AFTER, BEFORE, DELETE, INSERT
from spark_jobs.delta.snapshot import CHANGE_DATA_FEED, DataFile, Snapshot
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.engine.rows.locate import Hit, Numbers
from spark_jobs.engine.target.target_unit import TargetUnit
from spark_jobs.text.sql import literal

Flags = NDArray[np.bool_]
Changed = tuple[str, pa.Table]
"""A kind of change, and rows that it is of."""


def change_files(unit: TargetUnit, changes: Iterable[Changed]) -> tuple[DataFile, ...]:
    """Rows of changes as one file; none where there are none, or the target has no feed. Raises LakeError."""
    if not unit.has_feed:
        return ()
    parts = [(kind, rows) for kind, rows in changes if len(rows)]
    if not parts:
        return ()
    columns: dict[str, Any] = {}
    for name in unit.stored:
        kind = unit.schema.column(name).arrow(physical=False).type
        cells = (rows.column(name) for _, rows in parts)
        typed = [column if column.type == kind else column.cast(kind) for column in cells]
        columns[name] = pa.chunked_array([chunk for column in typed for chunk in column.chunks], kind)
    types = [pa.repeat(pa.scalar(kind), len(rows)) for kind, rows in parts]
    columns[change_data.CHANGE_TYPE] = pa.chunked_array(types)
    return (change_data.write(unit.target, pa.table(columns), unit.schema, unit.configuration),)


def by_key(unit: TargetUnit, images: pa.Table, is_written: Flags, replaced: Sequence[Hit]) -> Iterator[Changed]:
    """The changes of keys: updates of those that have a new row and had one, else inserts and deletes.

    images: one a key. is_written: which of them the target gets. replaced: rows of the target that go, by key.
    """
    is_replaced = np.zeros(len(images), np.bool_)
    for hit in replaced:
        is_replaced[hit.keys] = True
        old, is_updated = old_rows(unit, hit.file, hit.rows), is_written[hit.keys]
        yield BEFORE, old.filter(pa.array(is_updated))
        yield DELETE, old.filter(pa.array(~is_updated))
    yield AFTER, images.filter(pa.array(is_written & is_replaced))
    yield INSERT, images.filter(pa.array(is_written & ~is_replaced))


def deletes(unit: TargetUnit, dead: Mapping[str, Numbers]) -> Iterator[Changed]:
    """Rows of the target that go. dead: their numbers by file."""
    by_path = {file.path: file for file in unit.files}
    for path, numbers in dead.items():
        yield DELETE, old_rows(unit, by_path[path], numbers)


def updates(before: pa.Table, after: pa.Table) -> Iterator[Changed]:
    """Rows that a statement changed. after: the same ones as they are now."""
    yield BEFORE, before
    yield AFTER, after


def old_rows(unit: TargetUnit, file: DataFile, numbers: Numbers) -> pa.Table:
    """Rows of the target as they are before the merge, with the columns that it has after it."""
    if not unit.has_feed or not len(numbers):
        return unit.schema.arrow(physical=False).empty_table()
    return data_files.read_rows(unit.target, file, numbers, unit.stored, unit.schema)


def design_with_feed(design: Snapshot, work: MergeJob, *, is_replaced: bool) -> Snapshot:
    """The target with its change data feed on or off; off in a commit that gives all rows other columns.

    is_replaced: whether it does. Rows that go are read by the columns of the commit, and would have no values.
    """
    is_on = work.has_feed and not is_replaced
    if is_on == design.has_change_data:
        return design
    value = literal("true" if is_on else "false")
    return schema_changes.apply(design, [f"SET TBLPROPERTIES ({literal(CHANGE_DATA_FEED)} = {value})"])
