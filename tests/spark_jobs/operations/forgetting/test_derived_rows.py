"""Derived changes of some keys, erased. Whole forgets: tests/pipeline/test_cascades_applied.py."""

from pathlib import Path

from spark_jobs.bronze import derived_slices
from spark_jobs.changes.table_definitions import HistoryDefinitions
from spark_jobs.delta import vacuum
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Range
from spark_jobs.operations.forgetting.derived_rows import DerivedRows
from spark_jobs.row_history.row_choice import RowChoice
from spark_jobs.row_history.table_life import TableLife
from tests.spark_jobs.bronze.test_derived_slices import NAME, at, part_of, stored

ALL = Range(at(4), at(9, 9))


def found(folder: Path, *keys: str, until: int | None = None) -> DerivedRows:
    life = TableLife({NAME: None if until is None else at(until)}, (), ())
    definitions = HistoryDefinitions(dict)
    return DerivedRows.find(Lake(str(folder)).cascades("s"), life, definitions, RowChoice(tuple(keys)))


def ids(bronze: str) -> list[list[int]]:
    slices = derived_slices.read(bronze, ALL)
    parts = derived_slices.stored_changes(bronze, slices)
    return [[row["id"] for row in part.batch().column("after").to_pylist()] for part in parts]


def test_changes_of_the_keys_go_and_others_stay(tmp_path: Path) -> None:
    bronze = stored(tmp_path, part_of(at(100), 3), part_of(at(500), 1, 2, 3))
    stored(tmp_path, part_of(at(50, 2), 4))
    rows = found(tmp_path, "id=3", "id=1")
    assert sorted(change.order for change in rows.changes) == [(1, 1, 100, 0), (1, 1, 500, 0), (1, 1, 500, 2)]
    assert {(change.old, change.new) for change in rows.changes} == {("3", None), ("1", None)}
    positions = derived_slices.CascadesCommit.of_head(rows.head)
    rows.erase()
    assert ids(bronze) == [[2], [4]]
    after = found(tmp_path, "id=3", "id=1")
    assert (after.changes, after.files_that_hold()) == ((), [])
    newest = derived_slices.CascadesCommit.of_head(after.head)
    assert positions
    assert newest
    assert newest.positions == positions.positions
    # Of a slice that keeps others, changes and bytes say what it has now.
    snapshot = list(Path(tmp_path, "cascades", "s").glob("*.parquet"))
    assert len(snapshot) == 2, "the file with the keys is gone"


def test_older_files_with_the_keys_are_named(tmp_path: Path) -> None:
    stored(tmp_path, part_of(at(100), 3))
    before = {path.name: path.read_bytes() for path in Path(tmp_path, "cascades", "s").glob("*.parquet")}
    found(tmp_path, "id=3").erase()
    for name, content in before.items():
        Path(tmp_path, "cascades", "s", name).write_bytes(content)
    rows = found(tmp_path, "id=3")
    assert [file.name for file in rows.files_that_hold()] == [*before]
    assert found(tmp_path, "id=4").files_that_hold() == []
    vacuum.remove(rows.table.path, rows.files_that_hold())
    assert rows.files_that_hold() == []


def test_rows_that_a_name_had_before_another_table_got_it_are_not_meant(tmp_path: Path) -> None:
    stored(tmp_path, part_of(at(100), 3), part_of(at(500), 3))
    assert [change.order[2] for change in found(tmp_path, "id=3", until=300).changes] == [100]


def test_a_lake_without_derived_changes_has_none_to_erase(tmp_path: Path) -> None:
    rows = found(tmp_path, "id=3")
    rows.erase()
    assert (rows.head, rows.changes, rows.files_that_hold()) == (None, (), [])
