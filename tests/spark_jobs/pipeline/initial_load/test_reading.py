"""What needs no Spark of a load. Whole loads: tests/pipeline/test_load.py."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from spark_jobs.binlog import Changes, Column, TableDefinition, TableName
from spark_jobs.config.filters import TableFilters
from spark_jobs.errors import Unsupported
from spark_jobs.pipeline.initial_load.key_ranges import KeyRange
from spark_jobs.pipeline.initial_load.reading import ReadingRules, reading_task
from spark_jobs.pipeline.initial_load.row_rules import COUNTED, RowRules
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.row_filters import ChangeFilters
from tests.slow_loader import decoded

NAME = TableName("shop", "t")
KEYED_BY_DAY = TableDefinition(NAME, (Column("day", 10), Column("v", 3)), (0,))


class SelectingRows:
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
    changes = ChangeFilters.of(TableFilters(), KEYED_BY_DAY, frozenset())
    columns, masks = silver.columns(KEYED_BY_DAY), masks_of(KEYED_BY_DAY, None)
    rules = RowRules(KEYED_BY_DAY, TableFilters(), columns, masks, changes)
    reading = ReadingRules(SelectingRows(*rows), rules)  # type: ignore[arg-type]
    task = reading_task(reading, [KeyRange(None, ("1",)), KeyRange(("1",), None)])
    return pa.Table.from_batches(task(iter([ids])))


def test_a_task_gives_a_ranges_rows_with_their_exact_texts() -> None:
    rows = read((b"2024-02-29", b"1"), (b"2024-03-01", None))
    assert rows.column_names == ["day", "v", "_raw", *COUNTED]
    assert rows.column("v").to_pylist() == [1, None]
    assert rows.column("_raw").null_count == 2


def test_a_key_that_its_column_cannot_hold_has_its_text_and_null_is_refused() -> None:
    rows = read((b"2024-02-29", b"1"), (b"0000-00-00", b"2"))
    assert rows.column("day").null_count == 1
    assert rows.column("_raw").to_pylist()[1] == [("day", "0000-00-00")]
    with pytest.raises(Unsupported, match=r"shop: shop\.t: column day of the key is NULL in a row"):
        read((None, b"2"))
