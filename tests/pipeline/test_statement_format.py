"""Tables whose rows statements change: they stop by name, whatever else the log has of them, and no other one does."""

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.run import extract_source
from tests.fix_pipeline import SOURCE, Shop, require_same

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def test_a_table_that_statements_alone_fill_stops_by_name(shop: Shop) -> None:
    pipeline, schema = shop.pipeline(), shop.database.name
    shop.execute(
        "CREATE TABLE ok (id INT PRIMARY KEY)",
        "CREATE TABLE written (id INT PRIMARY KEY)",
        "CREATE TABLE never (id INT PRIMARY KEY)",
        "SET SESSION binlog_format = 'STATEMENT'",
        "INSERT IGNORE INTO written VALUES (1)",
        "CREATE TEMPORARY TABLE passing (id INT)",
        "INSERT INTO passing VALUES (1)",
        "DROP TEMPORARY TABLE passing",
        "SET SESSION binlog_format = 'ROW'",
        "INSERT INTO ok VALUES (1)",
    )
    name = TableName(schema, "written")
    for _ in range(2):
        _, outcome = shop.run(pipeline)
        assert outcome.stopped.keys() == {name}
        assert "changes rows in statement format" in outcome.stopped[name]
        assert f"stratalog skip --source {SOURCE} --at " in outcome.stopped[name]
        states = {entry.table: entry.state for entry in publication.read(lake_of(pipeline), SOURCE)}
        assert states == {"ok": "current", "written": "stopped"}
    require_same(shop, pipeline, "ok")


def test_definitions_and_statements_of_other_tables_keep_nothing_from_going_on(shop: Shop) -> None:
    nested = f"{'REPLACE(' * 60}a{',1,2)' * 60}"
    other_schema = f"{shop.database.name}_other"
    shop.execute(
        f"CREATE DATABASE {other_schema}",
        f"CREATE TABLE {other_schema}.deep (a VARCHAR(20), b VARCHAR(20) AS ({nested}))",
        f"CREATE TABLE {other_schema}.exact (rate DECIMAL(65,30) NOT NULL DEFAULT 1)",
        "CREATE TABLE t (id INT PRIMARY KEY, rate DECIMAL(65,30) NOT NULL DEFAULT 1)",
        "INSERT INTO t (id) VALUES (1)",
    )
    try:
        for live in (False, True):
            _, outcome = shop.run(shop.pipeline(live=live, lake=str(shop.folder / f"lake-{live}")))
            assert outcome.stopped == {}
            assert [job.name.table for job in outcome.compacted] == ["t"]
    finally:
        shop.execute(f"DROP DATABASE {other_schema}")


def test_the_log_is_in_bronze_whatever_the_servers_definitions_are_like(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = shop.pipeline(live=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")

    def unreadable(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr("spark_jobs.pipeline.run.reading_of", unreadable)
    with pytest.raises(ArithmeticError):
        extract_source(shop.spark, pipeline, SOURCE)
    head = lake_of(pipeline).bronze(SOURCE).head()
    assert head
    assert head.position == shop.end()
