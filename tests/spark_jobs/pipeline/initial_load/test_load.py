"""What needs no Spark of a load. Whole loads: tests/pipeline/test_load.py."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import Changes, Column, TableDefinition, TableName
from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.config.loader import load
from spark_jobs.ddl.classify import judge
from spark_jobs.errors import ConfigError, Unsupported
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.initial_load.key_ranges import KeyRange
from spark_jobs.pipeline.initial_load.load import _changes, reading_task, require_server
from spark_jobs.pipeline.initial_load.row_encoder import decoded
from spark_jobs.silver.table_timeline import SchemaChange, TableState

NAME = TableName("shop", "t")
KEYED_BY_DAY = TableDefinition(NAME, (Column("day", 10), Column("v", 3)), (0,))


class Given:
    """Stands for what a task reads with."""

    source = "shop"
    definition = KEYED_BY_DAY

    def __init__(self, *rows: tuple[bytes | None, ...]) -> None:
        self.rows = rows

    def read(self, part: KeyRange) -> Iterator[Changes]:
        assert part == KeyRange(("1",), None)
        return decoded(KEYED_BY_DAY, self.rows, "here")


def read(*rows: tuple[bytes | None, ...]) -> pa.Table:
    ids = pa.RecordBatch.from_pydict({"id": [1]})
    task = reading_task(Given(*rows), [KeyRange(None, ("1",)), KeyRange(("1",), None)], ["day"])  # type: ignore[arg-type]
    return pa.Table.from_batches(task(iter([ids])))


def test_a_task_gives_a_ranges_rows_with_their_exact_texts() -> None:
    found = read((b"2024-02-29", b"1"), (b"2024-03-01", None))
    assert found.column_names == ["day", "v", "_raw"]
    assert found.column("v").to_pylist() == [1, None]
    assert found.column("_raw").null_count == 2


def test_a_key_that_its_column_cannot_hold_has_its_text_and_null_is_refused() -> None:
    found = read((b"2024-02-29", b"1"), (b"0000-00-00", b"2"))
    assert found.column("day").null_count == 1
    assert found.column("_raw").to_pylist()[1] == [("day", "0000-00-00")]
    with pytest.raises(Unsupported, match=r"shop: shop\.t: column day of the key is NULL in a row"):
        read((None, b"2"))


@pytest.mark.parametrize(
    "statement, after, changes",
    [
        ("TRUNCATE t", KEYED_BY_DAY, False),
        ("ALTER TABLE t ADD INDEX (v)", KEYED_BY_DAY, False),
        ("ALTER TABLE t ADD w INT", TableDefinition(NAME, (*KEYED_BY_DAY.columns, Column("w", 3)), (0,)), True),
        ("DROP TABLE t", None, True),
    ],
)
def test_what_a_statement_means_to_rows_that_were_read(
    statement: str, after: TableDefinition | None, changes: bool
) -> None:
    place = Range(Position("b.000001", 5), Position("b.000001", 9))
    said = LoggedStatement(place.start, judge(statement, "shop"), place.stop)
    assert _changes(SchemaChange(place, TableState(after), said), KEYED_BY_DAY) is changes


def test_a_source_of_files_has_no_tables_to_load(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources:\n  archive: {files: ./binlogs}\n")
    with pytest.raises(ConfigError, match=r"sources\.archive: is read from binlog files"):
        require_server(load(path), "archive")
