"""Statements that empty a table in which deleted rows stay: each row is deleted by the first one after it."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from spark_jobs.delta.snapshot import new_table
from spark_jobs.downstream.merge_job import ADDED, MergeJob
from spark_jobs.engine.target.deleted_rows import Truncations, require_unfolded, with_deletion_state
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import Columns, Op
from tests.binlogs.timelines import NAME
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, at, stored, table_of

COLUMNS = Columns({"id": "INT", "v": "INT"}, ("id",))


def truncations_of(folder: Path, positions: list[int]) -> Truncations:
    """Statements that a silver table has, each in a file of its own, among files of rows."""
    origin = new_table(str(folder / "silver"), COLUMNS.stored, MAPPED)
    files = [[Row((None,), None, offset, Op.TRUNCATE, offset)] for offset in positions] + [[Row((1,), 1, 7)]]
    origin = stored(origin, [table_of(rows, ("id",), origin.schema) for rows in files])
    return Truncations.read(origin.path, origin.files, origin.schema)


def test_rows_are_deleted_by_the_first_statement_after_them(tmp_path: Path) -> None:
    chance = Random(7)
    positions = chance.sample(range(10, 990), 12)
    truncations = truncations_of(tmp_path, positions)
    schema = new_table("none", COLUMNS.stored, MAPPED).schema
    rows = [Row((key,), key, chance.choice([*positions, *range(1000)]), chance.choice([*Op][:3])) for key in range(300)]
    deleted = with_deletion_state(truncations.deleted(table_of(rows, ("id",), schema))).to_pylist()
    for row, after in zip(rows, deleted, strict=True):
        later = [offset for offset in sorted(positions) if offset > row.position]
        offset = later[0] if later and row.op != Op.DELETE else row.position
        assert (after["_op"] == Op.DELETE, after["_position"]["offset"], after["v"]) == (
            bool(later) or row.op == Op.DELETE,
            offset,
            row.value,
        )
        assert after["_deleted"] == (after["_op"] == Op.DELETE)
        assert after["_deleted_at"] == (after["_committed_at"] if after["_deleted"] else None)


def test_rows_of_a_target_are_marked_once(tmp_path: Path) -> None:
    truncations = truncations_of(tmp_path, [100, 200])
    target = new_table("none", COLUMNS.types | ADDED | {"_deleted": "BOOLEAN", "_deleted_at": "TIMESTAMP"}, MAPPED)
    rows = table_of([Row((1,), 1, 50), Row((2,), 2, 150), Row((3,), 3, 250)], ("id",), target.schema)
    rows = rows.set_column(rows.schema.get_field_index("_deleted"), "_deleted", pa.array([False, False, False]))
    changed = truncations.with_deletions(rows)
    assert changed.schema == rows.schema
    assert changed.column("_deleted").to_pylist() == [True, True, False]
    assert [offset["offset"] for offset in changed.column("_position").to_pylist()] == [100, 200, 250]
    assert truncations.with_deletions(changed).equals(changed)
    # What files may have such rows follows from their statistics.
    table = new_table(str(tmp_path / "target"), COLUMNS.types | ADDED, MAPPED)
    table = stored(table, [table_of([Row((1,), 1, offset)], ("id",), table.schema) for offset in (150, 250)])
    assert sorted(truncations.may_delete(file, table.schema) for file in table.files) == [False, True]
    assert not any(Truncations().may_delete(file, table.schema) for file in table.files)


def test_without_the_rows_that_were_deleted_the_table_stops(tmp_path: Path) -> None:
    table = Table(str(tmp_path), plain=False)
    job = MergeJob("shop", NAME, COLUMNS, table, Head(1, 1, SilverCommit(at(10), "b")), table)
    require_unfolded(job)
    folded = Head(1, 1, SilverCommit(at(10), "b", folded_to=at(5)))
    with pytest.raises(TableStopped, match="are folded into one, without the rows that were deleted"):
        require_unfolded(MergeJob("shop", NAME, COLUMNS, table, folded, table))
