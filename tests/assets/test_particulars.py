from pathlib import Path

from assets.particulars import particulars_of
from spark_jobs.binlog import TableName
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import quarantine
from spark_jobs.silver.quarantine import Skip
from spark_jobs.source.files import Files
from tests.binlogs.gtid_logs import gtids, land, write_log

ORDERS, LINES = TableName("shop", "orders"), TableName("shop", "lines")
FIRST = Range(Position("b.000001", 4), Position("b.000002", 4))
BEHIND = Range(Position("b.000003", 4), Position("b.000003", 9))


def pipeline_in(folder: Path) -> Pipeline:
    path = folder / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources: {shop: {files: ./log}}\n")
    return load(path)


def test_a_range_has_its_last_gtid_and_a_table_what_is_passed_over(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    write_log(tmp_path / "log", [("", ["a:1", "a:2"]), ("a:1-2", ["a:3"])], first=1)
    land(lake_of(pipeline).bronze("shop"), Files("shop", tmp_path / "log"), "earliest")
    over = [Skip("shop", "orders", location, "WRITE_ROWS") for location in ("b.000001:300", "b.000002:300")]
    quarantine.edit(lake_of(pipeline), "shop", lambda _: over)
    particulars = particulars_of(pipeline, "shop")
    assert particulars(ORDERS, FIRST) == {"binlog/gtid": str(gtids("a:2")), "tables/quarantined_events": 2}
    assert particulars(LINES, BEHIND) == {"tables/quarantined_events": 0}


def test_of_an_empty_lake_nothing_is_known(tmp_path: Path) -> None:
    assert particulars_of(pipeline_in(tmp_path), "shop")(ORDERS, FIRST) == {"tables/quarantined_events": 0}
