"""Files of a target written again: dead rows stay behind, filled columns have their value, and the feed says so."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.delta import data_files, schema_changes
from spark_jobs.delta.schema import DeltaColumn, TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table
from spark_jobs.engine.fills import ColumnFill
from spark_jobs.engine.locate import Numbers
from spark_jobs.engine.target_files import RowChanges, as_bytes, write_rows, written_again
from tests.spark_jobs.engine.lake_rows import MAPPED, alive, stored


@dataclass
class Unit:
    """What a merge says of its target."""

    snapshot: Snapshot
    has_feed: bool = False
    rewrites: bool = True
    provenance: tuple[tuple[str, str], ...] = ()
    dead: dict[str, Numbers] = field(default_factory=dict)

    @property
    def target(self) -> str:
        return self.snapshot.path

    @property
    def schema(self) -> TableSchema:
        return self.snapshot.schema

    @property
    def configuration(self) -> dict[str, str]:
        return dict(self.snapshot.configuration)

    @property
    def files(self) -> tuple[DataFile, ...]:
        return self.snapshot.files

    @property
    def stored(self) -> list[str]:
        return self.schema.names

    def rows(self, file: DataFile) -> list[tuple[int | None, ...]]:
        return sorted(tuple(row.values()) for row in alive(self.target, file, self.schema))


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    """A target of two files; of the first a deletion vector marks a row."""
    table = new_table(str(tmp_path), {"id": "INT"}, MAPPED)
    parts = [pa.table({"id": pa.array(numbers, pa.int32())}) for numbers in ([1, 2, 3], [4, 5])]
    return Unit(stored(table, parts, {0: [1]}))


def test_only_files_with_dead_rows_are_written_again(unit: Unit) -> None:
    first = next(file for file in unit.files if file.deletion_vector)
    dead = {first.path: np.array([0], np.int64)}
    rewritten = written_again(unit, dead, RowChanges())
    assert (rewritten.removed, dead, rewritten.changes) == ((first.path,), {}, ())
    assert [unit.rows(file) for file in rewritten.added] == [[(3,)]]
    unit.rewrites = False
    dead = {first.path: np.array([0], np.int64)}
    assert written_again(unit, dead, RowChanges()).removed == ()
    assert as_bytes(dead | {"none": np.zeros(0, np.int64)}) == {first.path: np.array([0], np.int64).tobytes()}


def test_a_filled_column_is_in_the_feed_as_an_update_of_each_row(unit: Unit) -> None:
    design = schema_changes.apply(unit.snapshot, ["ADD COLUMN (`w` INT AFTER `id`)"])
    fill = ColumnFill(design.schema.column("w"), "CAST(4 AS INT)", pa.scalar(4, pa.int32()))
    filled = Unit(design, has_feed=True)
    first = next(file for file in unit.files if file.deletion_vector)
    rewritten = written_again(filled, {first.path: np.array([0], np.int64)}, RowChanges((fill,)))
    assert sorted(row for file in rewritten.added for row in filled.rows(file)) == [(3, 4), (4, 4), (5, 4)]
    extended = TableSchema((*design.schema.columns, DeltaColumn("_change_type", "string")))
    changes = [
        tuple(row.values())
        for file in rewritten.changes
        for row in data_files.read_columns(filled.target, file, extended.names, extended).to_pylist()
    ]
    before = [(number, None, "update_preimage") for number in (3, 4, 5)]
    assert sorted(changes, key=str) == sorted([*before, *((n, 4, "update_postimage") for n in (3, 4, 5))], key=str)


def test_rows_of_a_part_have_null_in_columns_of_others(unit: Unit) -> None:
    unit.provenance = (("_source", "eu"),)
    design = schema_changes.apply(unit.snapshot, ["ADD COLUMN (`w` INT AFTER `id`)"])
    part = Unit(design, provenance=unit.provenance)
    (file,) = write_rows(part, pa.table({"id": pa.array([7], pa.int32())}))
    assert part.rows(file) == [(7, None)]
    assert write_rows(part, pa.table({"id": pa.array([], pa.int32())})) == []
