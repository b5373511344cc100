"""Rules about loaded rows, without a server. Whole loads under rules: tests/pipeline/test_load_rules.py."""

from collections.abc import Mapping

import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.config.filters import ColumnRule, EventFilter, Mask, RowFilter, TableFilters
from spark_jobs.config.table_patterns import Scope
from spark_jobs.errors import TableStopped
from spark_jobs.expressions.computed import Computed
from spark_jobs.expressions.condition import Condition
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.initial_load.row_rules import RowRules, summed
from spark_jobs.silver.column_masks import TEXTS
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.twins.slow_loader import decoded

DEFINITION = TableDefinition(
    TableName("shop", "t"), (Column("id", 3), Column("email", 15, 80, charset=255), Column("phone", 3)), (0,)
)
ROWS = pa.RecordBatch.from_pydict(
    {
        "id": pa.array([1, 2], pa.int32()),
        "email": ["a@x", None],
        "phone": pa.array([5, 6], pa.int32()),
        "_raw": pa.array([[("phone", "5")], None], pa.map_(pa.string(), pa.string())),
    }
)

(CHANGES,) = decoded(DEFINITION, [(b"1", b"a@x", b"5"), (b"2", None, b"6")], "here")


def rules(lake: Lake, filters: TableFilters) -> RowRules:
    log_range = Range(Position("b.000001", 4), Position("b.000001", 90))
    job = CompactionJob(
        "shop",
        DEFINITION.name,
        Window(lake.bronze("shop"), 0, (log_range,)),
        (DataRange(log_range, TableState(DEFINITION)),),
        lake.silver("shop", "shop", "t"),
        None,
        0,
        filters,
    )
    return RowRules.of(job, DEFINITION)


def masking_rule(masks: Mapping[str, Mask]) -> TableFilters:
    return TableFilters(columns=ColumnRule("c", Scope(), exclude=frozenset({"phone"}), masks=masks))


@pytest.fixture
def lake(tmp_path: object) -> Lake:
    return Lake(str(tmp_path))


def test_rows_without_rules_are_as_they_were_read(lake: Lake) -> None:
    plain = rules(lake, TableFilters())
    assert plain.judge().masked(ROWS) is ROWS
    assert plain.judge().remaining(CHANGES) is CHANGES
    assert (plain.digests, plain.hides_key, plain.filters_all) == (None, False, None)
    assert list(plain.staged) == ["id", "email", "phone", "_raw"]


def test_rows_are_masked_before_they_wait(lake: Lake) -> None:
    masked = rules(lake, masking_rule({"email": Mask("truncate", length=1)}))
    assert masked.judge().masked(ROWS).to_pydict() == {"id": [1, 2], "email": ["a", None], "_raw": [None, None]}
    assert masked.staged == {"id": "INT", "email": "STRING", "_raw": "MAP<STRING, STRING>"}
    assert masked.digests != rules(lake, masking_rule({"email": Mask("truncate", length=2)})).digests


@pytest.mark.parametrize("column, is_hidden", [("id", True), ("email", False)])
def test_a_masked_key_is_hidden(lake: Lake, column: str, is_hidden: bool) -> None:
    assert rules(lake, masking_rule({column: Mask("hash", salt="s")})).hides_key is is_hidden


@pytest.mark.parametrize("kind, remaining", [("insert", [1]), ("update_new", [1, 2]), ("delete", [1, 2])])
def test_a_loaded_row_is_judged_as_an_insert(lake: Lake, kind: str, remaining: list[int]) -> None:
    filters = TableFilters(rows=(RowFilter("r", Scope(), **{kind: Condition.parse("phone > 5")}),))
    assert rules(lake, filters).hides_key is (kind == "insert")
    loaded = rules(lake, filters).judge()
    assert loaded.remaining(CHANGES).after.column("id").to_pylist() == remaining
    assert [rows.counts for rows in loaded.filtered] == ([{"row_filters.r": 1}] if kind == "insert" else [])


def test_a_row_that_a_computed_column_filters_is_counted(lake: Lake) -> None:
    computed = (Computed.parse("double", "phone * 2", "BIGINT"),)
    filters = TableFilters(
        rows=(RowFilter("r", Scope(), insert=Condition.parse("double > 10")),),
        columns=ColumnRule("c", Scope(), exclude=frozenset({"phone"}), computed=computed),
    )
    loaded = rules(lake, filters).judge()
    changes = loaded.remaining(CHANGES)
    rows = pa.RecordBatch.from_arrays(
        [*changes.after.columns, pa.nulls(1, TEXTS)], [*changes.after.schema.names, "_raw"]
    )
    assert loaded.masked(rows).to_pylist() == [{"id": 1, "email": "a@x", "double": 10, "_raw": None}]
    assert [rows.counts for rows in loaded.filtered] == [{"row_filters.r": 1}]


@pytest.mark.parametrize("event, rule", [("insert", "filters.e"), ("update", None), ("truncate table", None)])
def test_a_filter_of_inserts_filters_every_loaded_row(lake: Lake, event: str, rule: str | None) -> None:
    filters = TableFilters(events=(EventFilter("e", Scope(), (event,), (), "ignore"),))
    assert rules(lake, filters).filters_all == rule


def test_a_rule_that_cannot_be_is_refused_before_a_row_is_read(lake: Lake) -> None:
    with pytest.raises(TableStopped, match=r"columns\.c\.mask\.id: truncate makes one key of several"):
        rules(lake, masking_rule({"id": Mask("truncate", length=1)}))
    with pytest.raises(TableStopped, match=r"row_filters\.r\.insert-value-expr names column gone"):
        rules(lake, TableFilters(rows=(RowFilter("r", Scope(), insert=Condition.parse("gone > 5")),)))


def test_counts_by_rule_add_up() -> None:
    assert summed(None, {}) is None
    assert summed({"a": 1}, {"a": 2, "b": 1}) == {"a": 3, "b": 1}
