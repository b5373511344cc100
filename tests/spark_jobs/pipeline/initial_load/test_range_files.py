"""What tasks of a load write, without Spark and a server: rows that wait, and what they are in silver."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import Changes, Column, TableDefinition, TableName
from spark_jobs.config.filters import RowFilter, TableFilters
from spark_jobs.config.table_patterns import Scope
from spark_jobs.ddl.default_values import Fill
from spark_jobs.delta.data_files import read_columns
from spark_jobs.delta.snapshot import DataFile, new_table
from spark_jobs.engine.rows.row_projection import RowProjection
from spark_jobs.errors import LakeError, Unsupported
from spark_jobs.expressions.condition import Condition
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.initial_load import range_files
from spark_jobs.pipeline.initial_load.key_ranges import KeyRange
from spark_jobs.pipeline.initial_load.range_files import (
    FileTarget,
    LandingTask,
    RangeTask,
    files_of,
    land_files,
    read_ranges,
    with_raw,
)
from spark_jobs.pipeline.initial_load.row_rules import FilteredRows, RowRules
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.positions import LOADED_ROW
from spark_jobs.silver.projection import projection_of
from spark_jobs.silver.row_filters import ChangeFilters
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from tests.twins.slow_loader import decoded

DEFINITION = TableDefinition(TableName("shop", "t"), (Column("id", 3), Column("day", 10)), (0,))
ANY = Scope.parse(("shop.*",))
DAYS = (b"2024-02-29", None, b"0000-00-00")
POSITION = Position("b.000007", 400, 2)


@dataclass
class RowsByRange:
    """Stands for what a task reads with: so many rows from a number on."""

    source: str = "shop"
    definition: TableDefinition = DEFINITION

    def read(self, part: KeyRange) -> Iterator[Changes]:
        assert part.after
        first = int(part.after[0])
        rows = [(str(number).encode(), DAYS[number % 3]) for number in range(first, first + 3)]
        return decoded(DEFINITION, rows if first else [], "here")


def target(folder: Path, columns: dict[str, str]) -> FileTarget:
    folder.mkdir()
    return FileTarget.of(new_table(str(folder), columns, {}))


def rules_of(filters: TableFilters) -> RowRules:
    changes = ChangeFilters.of(filters, DEFINITION, frozenset())
    return RowRules(DEFINITION, filters, silver.columns(DEFINITION), masks_of(DEFINITION, None), changes)


RULES = rules_of(TableFilters())
UNCHANGED = RowProjection.of(projection_of(silver.columns(DEFINITION).types, []))


def waiting(tmp_path: Path, *firsts: int, rules: RowRules = RULES) -> tuple[FileTarget, RangeTask]:
    table = target(tmp_path / "waiting", RULES.columns.stored)
    parts = tuple(KeyRange((str(first),), None) for first in firsts)
    return table, RangeTask(RowsByRange(), parts, ("id",), POSITION, table, rules)  # type: ignore[arg-type]


def test_ranges_of_a_task_are_one_file(tmp_path: Path) -> None:
    table, task = waiting(tmp_path, 3, 6)
    (file,) = read_ranges(task)
    assert isinstance(file, DataFile)
    rows = read_columns(table.path, file, table.schema.names, table.schema)
    assert file.num_records == 6
    assert rows.column("id").to_pylist() == [3, 4, 5, 6, 7, 8]
    assert rows.column("_raw").to_pylist()[1:3] == [None, [("day", "0000-00-00")]]


def test_rows_that_a_rule_filters_are_counted_and_not_written(tmp_path: Path) -> None:
    even = RowFilter("even", ANY, insert=Condition.parse("id % 2 = 0"))
    table, task = waiting(tmp_path, 3, 6, rules=rules_of(TableFilters(rows=(even,))))
    file, filtered = read_ranges(task)
    assert isinstance(file, DataFile)
    assert read_columns(table.path, file, ["id"], table.schema).column("id").to_pylist() == [3, 5, 7]
    assert filtered == FilteredRows({"row_filters.even": 3})


def test_null_in_the_key_is_refused(tmp_path: Path) -> None:
    _, task = waiting(tmp_path, 3)
    with pytest.raises(Unsupported, match=r"shop: shop\.t: column day of the key is NULL in a row"):
        list(read_ranges(replace(task, key=("day",))))
    (file,) = read_ranges(replace(task, parts=(KeyRange(("5",), None),), key=("id",)))
    assert isinstance(file, DataFile)


def test_ranges_without_rows_are_no_file(tmp_path: Path) -> None:
    table, task = waiting(tmp_path, 0)
    assert list(read_ranges(task)) == []
    assert list(Path(table.path).iterdir()) == []


def test_many_rows_are_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_files, "_FILE_BYTES", 1)
    monkeypatch.setattr(range_files, "_GROUP_ROWS", 2)
    table = target(tmp_path / "waiting", RULES.staged)
    batches = [with_raw(rows, ("id",), RowsByRange()) for rows in RowsByRange().read(KeyRange(("3",), None))]  # type: ignore[arg-type]
    parts = [batch.slice(at, 1) for batch in batches for at in range(batch.num_rows)]
    files = list(files_of(table, iter(parts)))
    assert [file.num_records for file in files] == [2, 1]
    monkeypatch.undo()
    assert [file.num_records for file in files_of(table, iter(parts))] == [3]
    assert list(files_of(table, iter(()))) == []


def test_rows_are_older_than_the_log_from_their_place_on(tmp_path: Path) -> None:
    table, task = waiting(tmp_path, 3)
    retired = replace(
        task, target=target(tmp_path / "wider", silver.columns(DEFINITION).stored | {"retired": "STRING"})
    )
    (file,) = read_ranges(retired)
    assert isinstance(file, DataFile)
    require_loaded(retired.target, file, "retired")
    (file,) = read_ranges(task)
    assert isinstance(file, DataFile)
    require_loaded(table, file)


def require_loaded(table: FileTarget, file: DataFile, *absent: str) -> None:
    rows = read_columns(table.path, file, table.schema.names, table.schema)
    window = {"stretch": 2, "number": 7, "offset": 400}
    assert rows.column("_position").to_pylist() == [window | {"row": LOADED_ROW}] * 3
    assert rows.column("_window_start").to_pylist() == rows.column("_window_stop").to_pylist() == [window] * 3
    assert set(rows.column("_op").to_pylist()) == {"load"}
    assert rows.column("_raw").null_count == 2
    for name in (*absent, "_existed", "_committed_at"):
        assert rows.column(name).null_count == 3
    assert rows.column("id").to_pylist() == [3, 4, 5]
    bounds = file.bounds(table.schema, "id")
    assert (bounds.minimum, bounds.maximum, file.num_records) == (3, 5, 3)


def test_files_that_are_silvers_land_as_they_are(tmp_path: Path) -> None:
    table, task = waiting(tmp_path, 3)
    files = tuple(file for file in read_ranges(task) if isinstance(file, DataFile))
    into = replace(table, path=str(tmp_path / "silver"))
    for _ in range(2):  # again after a kill
        assert [*land_files(LandingTask(table, files, POSITION, into, None))] == [*files]
    assert Path(into.path, files[0].path).samefile(Path(table.path, files[0].path))
    Path(table.path, files[0].path).unlink()
    require_loaded(into, files[0])
    with pytest.raises(
        LakeError, match=r"silver: a loaded file cannot be put there: No such file or directory: .*waiting"
    ):
        list(land_files(LandingTask(table, files, POSITION, into, None)))


@pytest.mark.parametrize("of_before", [False, True])
def test_rows_that_wait_in_another_design_are_written_again(tmp_path: Path, of_before: bool) -> None:
    """of_before: in the columns of the table alone, as loads of earlier versions left them."""
    table, task = waiting(tmp_path, 3)
    if of_before:
        table = target(tmp_path / "before", RULES.staged)
    files = tuple(file for file in read_ranges(replace(task, target=table)) if isinstance(file, DataFile))
    into = target(tmp_path / "silver", silver.columns(DEFINITION).stored | {"retired": "STRING"})
    (file,) = land_files(LandingTask(table, files, POSITION, into, UNCHANGED))
    require_loaded(into, file, "retired")


def test_rows_land_with_the_columns_that_statements_left(tmp_path: Path) -> None:
    table, task = waiting(tmp_path, 3)
    files = tuple(file for file in read_ranges(task) if isinstance(file, DataFile))
    renamed = projection_of({"id": "INT", "day": "DATE"}, [_changed()])
    lead = RowProjection.of(renamed)
    lead = lead.valued({sql: pa.scalar(5, pa.int32()) for sql in lead.expressions()})
    into = target(tmp_path / "silver", silver.columns(_changed().state.definition or DEFINITION).stored)
    (file,) = land_files(LandingTask(table, files, Position("b.000007", 400), into, lead))
    rows = read_columns(into.path, file, into.schema.names, into.schema)
    assert rows.column("id").to_pylist() == [3, 4, 5]
    assert rows.column("n").to_pylist() == [5, 5, 5]
    assert rows.column("_raw").to_pylist() == [None, None, [("since", "0000-00-00")]]
    assert rows.column("since").null_count == 2


def _changed() -> SchemaChange:
    """The key gets wider, the day another name, and there is a new column."""
    table_definition = replace(DEFINITION, columns=(Column("id", 8), Column("since", 10), Column("n", 3)))
    origins = {"id": "id", "since": "day", "n": None}
    log_range = Range(Position("b.000007", 500), Position("b.000007", 600))
    return SchemaChange(log_range, TableState(table_definition), origins=origins, fills={"n": Fill("5")})
