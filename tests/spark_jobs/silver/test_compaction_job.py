from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.config.filters import ColumnRule, TableFilters
from spark_jobs.config.table_patterns import Scope
from spark_jobs.errors import TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.retired_columns import RetiredColumn
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.binlogs.timelines import OLD


@pytest.mark.parametrize(
    "rule, has_partial, reason",
    [
        (
            ColumnRule("hide", Scope.parse(()), exclude=frozenset({"v"})),
            False,
            "columns.hide applies to it, and it has",
        ),
        (None, True, "it has retired columns (_v_until_1_4), and its row images omit columns"),
    ],
)
def test_what_kept_columns_do_not_go_with(
    rule: ColumnRule | None, has_partial: bool, reason: str, tmp_path: Path
) -> None:
    at = Position("b.000001", 4)
    table = Table(str(tmp_path), plain=False)
    window = Window(table, 0, (Range(at, at),))
    rows = DataRange(window.extent, TableState(OLD))
    work = CompactionJob("shop", OLD.name, window, (rows,), table, None, 0, TableFilters(columns=rule))
    with pytest.raises(TableStopped) as stopped:
        replace(work, has_partial=has_partial).columns_seen(OLD, (RetiredColumn("_v_until_1_4", "INT", "v", at),))
    assert reason in str(stopped.value)
