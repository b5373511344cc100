"""Labels of ENUM and SET on MySQL before 8.0.17, whose log does not name their character set."""

import json
import logging
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.changes.bronze_feed import changes_of_bronze
from spark_jobs.checks.verify import verify_source
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl import definitions
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.silver.timeline import definitions as row_definitions
from tests.fix_pipeline import SOURCE, Shop, require_same

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

MADE = (
    """CREATE TABLE t (id INT PRIMARY KEY, e ENUM('grün', 'rot', 'd''q"{source}${x}', '2') CHARACTER SET latin1,
        s SET('ä', 'u|', '日本') NOT NULL, w ENUM('潮', '[') CHARACTER SET ucs2, p ENUM('on', 'no')
    ) CHARACTER SET utf8mb4""",
    """INSERT INTO t VALUES (1, 'grün', 'ä,日本', '潮', 'on'), (2, 'rot', 'u|', '[', 'no'),
        (3, 'd''q"{source}${x}', '', NULL, NULL), (4, '2', 'ä,u|', '潮', 'on')""",
    """CREATE TABLE ascii_alike (id INT PRIMARY KEY, w ENUM('潮', '浮') CHARACTER SET ucs2)""",
    "INSERT INTO ascii_alike VALUES (1, '潮'), (2, '浮')",
    "SET sql_log_bin = 0",
    "CREATE TABLE copied LIKE t",
    "SET sql_log_bin = 1",
    "INSERT INTO copied SELECT * FROM t",
)
LATER = (
    "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7",
    "UPDATE t SET e = 'rot' WHERE id = 1",
    "ALTER TABLE t MODIFY e ENUM('grün', 'rot', 'd''q\"{source}${x}', '2', 'wägen')",
    "INSERT INTO t VALUES (5, 'wägen', 'ä', '[', 'no', 1)",
    "INSERT INTO ascii_alike VALUES (3, '潮')",
    "INSERT INTO copied VALUES (9, 'grün', '日本', NULL, 'no')",
)
TABLES = ("t", "ascii_alike", "copied")


def states(shop: Shop, pipeline: Any) -> dict[str, tuple[str, str | None]]:
    return {
        verdict.table.table: (verdict.state, verdict.reason) for verdict in verify_source(shop.spark, pipeline, SOURCE)
    }


@pytest.mark.thorough
@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_labels_whose_character_set_is_not_logged_are_text(
    shop: Shop, request: pytest.FixtureRequest, metadata: str
) -> None:
    shop.execute(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    request.addfinalizer(lambda: shop.execute("SET GLOBAL binlog_row_metadata = 'FULL'"))
    pipeline = shop.pipeline(live=True)
    shop.execute(*MADE)
    assert shop.run(pipeline)[1].stopped == {}
    for table in TABLES:
        require_same(shop, pipeline, table)
    shop.execute(*LATER)
    assert shop.run(pipeline)[1].stopped == {}
    for table in TABLES:
        require_same(shop, pipeline, table)
    assert states(shop, pipeline) == dict.fromkeys(TABLES, ("equal", None))
    logged = labels_in_changes(shop, pipeline)
    assert logged[:4] == [
        ("grün", "ä,日本", "潮"),
        ("rot", "u|", "["),
        ("d'q\"{source}${x}", "", None),
        ("2", "ä,u|", "潮"),
    ]
    assert logged[-1] == ("wägen", "ä", "[")


def labels_in_changes(shop: Shop, pipeline: Pipeline) -> list[tuple[str, str, str | None]]:
    """Labels of the rows that were inserted into t, as the change feed of the lake has them."""
    pieces = changes_of_bronze(
        lake_of(pipeline), SOURCE, None, None, is_wanted=lambda name: name == TableName(shop.database.name, "t")
    )
    changes = [json.loads(line) for line in "".join(pieces).splitlines()]
    rows = [change["after"] for change in changes if change["op"] == "insert"]
    return [(row["e"], row["s"], row["w"]) for row in rows]


@pytest.mark.long
def test_numbers_of_labels_in_an_older_lake_differ_and_a_backfill_corrects_them(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = shop.pipeline(live=True)
    shop.execute(*MADE)
    with monkeypatch.context() as older:
        older.setattr(row_definitions, "with_labels", lambda logged, _: logged)
        older.setattr(definitions, "with_labels", lambda logged, _: logged)
        older.setattr(row_definitions, "_labelled", lambda _timeline, named, _: named)
        shop.run(pipeline)
    assert [row[1] for row in shop.merged(pipeline, "t")] == ["1", "2", "3", "4"]
    assert states(shop, pipeline)["t"][0] == "differs"

    shop.execute(*LATER)
    with caplog.at_level(logging.WARNING):
        assert shop.run(pipeline)[1].stopped == {}
    assert "t: column e has labels from here on" in caplog.text
    log_range = Range(shop.start, shop.end())
    outcome = backfill_source(shop.spark, pipeline, SOURCE, log_range, lambda _: True)
    assert outcome.stopped == {}
    for table in TABLES:
        require_same(shop, pipeline, table)
    assert states(shop, pipeline) == dict.fromkeys(TABLES, ("equal", None))


def test_labels_that_nothing_tells_stop_their_table_unless_the_column_is_left_out(shop: Shop) -> None:
    shop.execute(*MADE[:2])
    shop.execute("FLUSH BINARY LOGS")
    shop.execute("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    shop.execute("UPDATE t SET id = id + 10")
    begin = shop.database.execute("SHOW MASTER STATUS")[0][0]
    pipeline = shop.pipeline()
    late = pipeline.model_copy(
        update={"sources": {SOURCE: pipeline.sources[SOURCE].model_copy(update={"start": f"{begin}:4"})}}
    )
    stopped = shop.run(late)[1].stopped
    assert [name.table for name in stopped] == ["t"]
    (reason,) = stopped.values()
    assert "t: column e: the log has its labels without a character set that is known" in reason
    assert lake_of(late).downstream(shop.database.name, "t").head() is None
