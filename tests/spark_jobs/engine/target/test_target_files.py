"""Files of a target written again: dead rows stay behind, filled columns have their value, and the feed says so."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.delta import data_files, schema_changes
from spark_jobs.delta.schema import DeltaColumn, TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.engine.target.target_files import RowChanges, as_bytes, write_rows, written_again
from spark_jobs.engine.target.target_unit import TargetUnit
from tests.spark_jobs.engine.lake_rows import MAPPED, alive, stored


def unit_of(
    table: Snapshot, *, has_feed: bool = False, rewrites: bool = True, provenance: tuple[tuple[str, str], ...] = ()
) -> TargetUnit:
    return TargetUnit(
        number=0,
        name="shop: t",
        target=table.path,
        schema=table.schema,
        configuration=table.configuration,
        files=table.files,
        rewrites=rewrites,
        provenance=provenance,
        has_feed=has_feed,
    )


def rows_of(unit: TargetUnit, file: DataFile) -> list[tuple[int | None, ...]]:
    return sorted(tuple(row.values()) for row in alive(unit.target, file, unit.schema))


@pytest.fixture
def table(tmp_path: Path) -> Snapshot:
    """A target of two files; of the first a deletion vector marks a row."""
    empty = new_table(str(tmp_path), {"id": "INT"}, MAPPED)
    parts = [pa.table({"id": pa.array(numbers, pa.int32())}) for numbers in ([1, 2, 3], [4, 5])]
    return stored(empty, parts, {0: [1]})


def test_only_files_with_dead_rows_are_written_again(table: Snapshot) -> None:
    unit = unit_of(table)
    first = next(file for file in unit.files if file.deletion_vector)
    dead = {first.path: np.array([0], np.int64)}
    rewritten = written_again(unit, dead, RowChanges())
    assert (rewritten.removed, dead, rewritten.changes) == ((first.path,), {}, ())
    assert [rows_of(unit, file) for file in rewritten.added] == [[(3,)]]
    dead = {first.path: np.array([0], np.int64)}
    assert written_again(unit_of(table, rewrites=False), dead, RowChanges()).removed == ()
    assert as_bytes(dead | {"none": np.zeros(0, np.int64)}) == {first.path: np.array([0], np.int64).tobytes()}


def test_a_filled_column_is_in_the_feed_as_an_update_of_each_row(table: Snapshot) -> None:
    design = schema_changes.apply(table, ["ADD COLUMN (`w` INT AFTER `id`)"])
    fill = ColumnFill(design.schema.column("w"), "CAST(4 AS INT)", pa.scalar(4, pa.int32()))
    filled = unit_of(design, has_feed=True)
    first = next(file for file in table.files if file.deletion_vector)
    rewritten = written_again(filled, {first.path: np.array([0], np.int64)}, RowChanges((fill,)))
    assert sorted(row for file in rewritten.added for row in rows_of(filled, file)) == [(3, 4), (4, 4), (5, 4)]
    extended = TableSchema((*design.schema.columns, DeltaColumn("_change_type", "string")))
    changes = [
        tuple(row.values())
        for file in rewritten.changes
        for row in data_files.read_columns(filled.target, file, extended.names, extended).to_pylist()
    ]
    before = [(number, None, "update_preimage") for number in (3, 4, 5)]
    assert sorted(changes, key=str) == sorted([*before, *((n, 4, "update_postimage") for n in (3, 4, 5))], key=str)


def test_rows_of_a_part_have_null_in_columns_of_others(table: Snapshot) -> None:
    design = schema_changes.apply(table, ["ADD COLUMN (`w` INT AFTER `id`)"])
    part = unit_of(design, provenance=(("_source", "eu"),))
    (file,) = write_rows(part, pa.table({"id": pa.array([7], pa.int32())}))
    assert rows_of(part, file) == [(7, None)]
    assert write_rows(part, pa.table({"id": pa.array([], pa.int32())})) == []
