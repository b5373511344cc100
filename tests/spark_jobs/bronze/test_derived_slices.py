"""Derived changes as slices: stored, found by position, and read back."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import Changes, Column, TableDefinition, TableName
from spark_jobs.bronze import derived_slices
from spark_jobs.bronze.derived_slices import COLUMNS, CascadesCommit, DerivedSlice
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range

NAME = TableName("shop", "c")
DEFINITION = TableDefinition(NAME, (Column("id", 3),), (0,))
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def at(offset: int, number: int = 1) -> Position:
    return Position(f"b.{number:06}", offset)


def part_of(position: Position, *ids: int) -> DerivedSlice:
    """Deletes of rows."""
    after, before = (
        pa.RecordBatch.from_arrays([pa.array(cells, pa.int32())], names=["id"]) for cells in (ids, [None] * len(ids))
    )
    changes = Changes(
        op=pa.array([3] * len(ids), pa.uint8()),
        offset=pa.array([position.offset] * len(ids), pa.int64()),
        row=pa.array(range(len(ids)), pa.int32()),
        committed_at=pa.array([NOON] * len(ids), pa.timestamp("us", "UTC")),
        gtid=None,
        after=after,
        before=before,
        raw=None,
        before_raw=None,
    )
    return DerivedSlice(NAME, position, replace(position, offset=position.offset - 9), DEFINITION, changes, "uuid:7")


def stored(folder: Path, *parts: DerivedSlice) -> str:
    """The path of bronze beside them."""
    lake = Lake(str(folder))
    table = lake.cascades("s")
    commit = CascadesCommit(
        at(9), new_batch(), positions={"shop.c": str(at(9))}, changes=sum(derived_slices.counts(parts).values())
    )
    table.append_rows(derived_slices.rows_of(parts), table.head() or table.unwritten_head(COLUMNS, {}), commit)
    return lake.bronze("s").path


def test_slices_are_found_by_position_and_read_back(tmp_path: Path) -> None:
    bronze = stored(tmp_path, part_of(at(500), 1, 2), part_of(at(100), 3))
    stored(tmp_path, part_of(at(50, 2), 4))
    slices = derived_slices.read(bronze, Range(at(100), at(60, 2)))
    assert slices.column("start").to_pylist() == [100, 500, 50]
    assert derived_slices.read(bronze, Range(at(101), at(500))).num_rows == 0
    assert derived_slices.read(bronze, Range(at(50, 2), at(60, 2))).column("start").to_pylist() == [50]
    assert slices.column("transaction_start").to_pylist() == [91, 491, 41]
    images = [part.batch().column("after").to_pylist() for part in derived_slices.stored_changes(bronze, slices)]
    assert images == [[{"id": 3}], [{"id": 1}, {"id": 2}], [{"id": 4}]]
    gtids = [part.changes(DEFINITION).gtid for part in derived_slices.stored_changes(bronze, slices)]
    assert [[*gtid.to_pylist()] for gtid in gtids if gtid is not None] == [["uuid:7"], ["uuid:7"] * 2, ["uuid:7"]]
    ((first, definition), *_) = derived_slices.definitions_in(slices)[NAME]
    assert (first, definition) == (at(100), DEFINITION)
    for path in slices.column("data_file").to_pylist():
        assert derived_slices.is_derived(path)
        assert Path(derived_slices.location(bronze, path)).is_file()
    assert derived_slices.location(bronze, "part-1.parquet") == f"{bronze}/part-1.parquet"


def test_a_lake_without_them_has_none(tmp_path: Path) -> None:
    assert derived_slices.read(Lake(str(tmp_path)).bronze("s").path, Range(at(1), at(9))).num_rows == 0


def test_changes_have_the_columns_of_their_table_in_its_order() -> None:
    part = part_of(at(100), 3)
    payload = part.to_row()["payload"]
    assert isinstance(payload, bytes)
    changes = derived_slices.changes_of(payload, DEFINITION)
    assert changes.gtid is None, "a server may have none"
    assert (changes.after.to_pylist(), changes.before.to_pylist()) == ([{"id": 3}], [{"id": None}])
    assert (changes.raw, changes.op.to_pylist()) == (None, [3])
    renamed = replace(DEFINITION, columns=(replace(DEFINITION.columns[0], name="n"),))
    with pytest.raises(LakeError, match=r"shop\.c: changes that were derived from foreign keys have the columns id"):
        derived_slices.changes_of(payload, renamed)
