"""Files of a merge's target: new ones, and those that are written again without some rows or with filled columns.

Put here: which files go and come for rows that die or get values. Not here: which rows these are (downstream_task.py,
keyless_merge.py, change_task.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine import feed
from spark_jobs.engine.feed import FeedUnit
from spark_jobs.engine.fills import ColumnFill, with_fills
from spark_jobs.engine.locate import Numbers

_NO_ROWS: Numbers = np.zeros(0, np.int64)


class WritingUnit(FeedUnit, Protocol):
    """A unit whose target's files may be written again."""

    @property
    def rewrites(self) -> bool: ...
    @property
    def fills(self) -> tuple[ColumnFill, ...]: ...
    @property
    def marks(self) -> tuple[tuple[str, str], ...]: ...


def as_bytes(dead: Mapping[str, Numbers]) -> dict[str, bytes]:
    """Row numbers by file as ``MergedFiles`` has them; without files that have none."""
    return {path: numbers.astype(np.int64).tobytes() for path, numbers in dead.items() if len(numbers)}


@dataclass(frozen=True, slots=True)
class WrittenAgain:
    """Files of a target that go, those in their place, and files of changes for its feed."""

    removed: tuple[str, ...] = ()
    added: tuple[DataFile, ...] = ()
    changes: tuple[DataFile, ...] = ()


def written_again(unit: WritingUnit, dead: dict[str, Numbers]) -> WrittenAgain:
    """The files that go where a unit rewrites files, and those in their place, without dead rows.

    dead: row numbers by file; loses those of files that are written again.
    """
    removed, added, changes = list[str](), list[DataFile](), list[DataFile]()
    for file in unit.files if unit.rewrites else ():
        if unit.fills or len(dead.get(file.path, ())):
            before = _living(unit, file, dead.pop(file.path, _NO_ROWS))
            after = with_fills(before, unit.fills)
            removed.append(file.path)
            added += write_rows(unit, after)
            changes += feed.change_files(unit, feed.updates(before, after)) if unit.fills else ()
    return WrittenAgain(tuple(removed), tuple(added), tuple(changes))


def _living(unit: WritingUnit, file: DataFile, dead: Numbers) -> pa.Table:
    """The rows of a file of the target without dead ones."""
    rows = data_files.read_columns(unit.target, file, unit.stored, unit.schema)
    is_alive = deletion_vectors.living(unit.target, file.deletion_vector, len(rows))
    is_alive[dead] = False
    return rows.filter(pa.array(is_alive))


def write_rows(unit: WritingUnit, rows: pa.Table) -> list[DataFile]:
    """Rows of the target as a data file; none where there are none. Columns of other parts are null."""
    if not len(rows):
        return []
    for field in unit.schema.arrow(physical=False) if unit.marks else ():
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return [data_files.write(unit.target, rows, unit.schema, unit.configuration)]
