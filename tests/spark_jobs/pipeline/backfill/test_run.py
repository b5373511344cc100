from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.downstream import publication
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill import run as backfill_run
from spark_jobs.pipeline.backfill.request import LAYERS, SILVER, BackfillOptions, Layer
from spark_jobs.pipeline.backfill.run import _are_folded, _require_end, backfill_source
from tests.binlogs.logs import SOURCE, Logs, file
from tests.binlogs.segment_spec import Commit, Insert
from tests.binlogs.timelines import at

BEGIN = Position(file(2), 4)
"""Where the lake began: the file before has a table that no later one has."""


@pytest.fixture
def logs(spark: SparkSession, tmp_path: Path) -> Logs:
    """Log of which a run has published all but the first file."""
    logs = Logs(spark, tmp_path)
    for number, name in ((1, "lines"), (2, "orders")):
        logs.write(number, Insert(f"shop.{name}", (number, "a")), Commit())
    logs.run(logs.pipeline(sources={SOURCE: {"files": "./binlogs", "start": str(BEGIN)}}))
    return logs


def overtaking(logs: Logs, table: str, step: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The step, and after its first call a run that publishes further log, of a table."""
    result = step(*arguments, **named)
    if not (logs.binlogs / file(3)).exists():
        logs.write(3, Insert(f"shop.{table}", (3, "c")), Commit())
        assert logs.run().stopped == {}
    return result


def test_a_range_ends_where_bronze_does_or_before(tmp_path: Path) -> None:
    commit = BronzeCommit(at(500), "batch", begin=at(4))
    bronze = BronzeSnapshot("shop", Lake(str(tmp_path)).bronze("shop"), Head(7, 3, commit), commit)
    _require_end(bronze, Range(at(10), at(500)))
    with pytest.raises(LakeError, match=r"ends at b\.000001:501, and bronze at b\.000001:500: a run reads later"):
        _require_end(bronze, Range(at(10), at(501)))


@pytest.mark.parametrize("names", [[], [TableName("shop", "t")]])
def test_older_log_is_of_use_unless_all_tables_are_folded(tmp_path: Path, names: list[TableName]) -> None:
    assert not _are_folded(Lake(str(tmp_path)), "shop", names, Range(at(10), at(500)))


@pytest.mark.spark
@pytest.mark.parametrize("table", ["orders", "lines"])
@pytest.mark.parametrize(
    "step, layers", [("merge_source", LAYERS), ("compact_source", (SILVER,))], ids=["all layers", "silver alone"]
)
def test_a_backfill_that_a_run_overtakes_publishes_the_tables_that_it_sees_first(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, step: str, layers: tuple[Layer, ...], table: str
) -> None:
    monkeypatch.setattr(backfill_run, "CONFLICT_WAIT", 0.0)
    monkeypatch.setattr(backfill_run, step, partial(overtaking, logs, table, getattr(backfill_run, step)))
    options = BackfillOptions(layers=layers)
    log_range = Range(Position(file(1), 4), BEGIN)
    outcome = backfill_source(logs.spark, logs.pipeline(), SOURCE, log_range, lambda _: True, options=options)
    assert outcome.stopped == {}
    assert [compacted.name.table for compacted in outcome.compacted] == ["lines"]
    entries = {entry.table: entry for entry in publication.read(logs.lake, SOURCE)}
    end = logs.bronze().position
    assert {name: entry.checkpoint for name, entry in entries.items()} == {"lines": end, "orders": end}
    is_merged = layers == LAYERS or table == "lines"
    assert {name: entry.holds(str(end)) for name, entry in entries.items()} == {"lines": is_merged, "orders": True}
    logs.run()
    rows = {"lines": [(1, "a")], "orders": [(2, "a")]}
    rows[table].append((3, "c"))
    assert {name: logs.rows(name) for name in rows} == rows
    assert all(entry.holds(str(end)) for entry in publication.read(logs.lake, SOURCE))
