"""Columns that are restarted where Delta cannot express what a statement did: ``on_incompatible: new_column``.

Put here: the whole way, on a real server. Not here: which statements begin one anew
(tests/spark_jobs/silver/test_table_timeline.py).
"""

import logging
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import verify_source
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.initial_load.load import load_source
from spark_jobs.pipeline.outcome import Outcome
from tests.fix_pipeline import SOURCE, Shop

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

Row = dict[str, Any]
BEFORE = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT, d DECIMAL(10,4), e ENUM('a','b'), z DATE)",
    "INSERT INTO t VALUES (1,70000,1.2345,'a','2024-02-29'),(2,2,2.5,'b',NULL),(3,3,3,'a',NULL),(4,4,4,'b',NULL)",
)
CHANGES = (
    "SET SESSION sql_mode = ''",
    "UPDATE t SET z = '0000-00-00' WHERE id = 3",
    "ALTER TABLE t MODIFY v VARCHAR(9), MODIFY d DECIMAL(10,2), ADD w INT DEFAULT 7 AFTER id",
    "INSERT INTO t VALUES (5,5,'five',5.25,'a',NULL)",
    "UPDATE t SET v = 'two' WHERE id = 2",
    "ALTER TABLE t CHANGE z y VARCHAR(10), MODIFY e ENUM('b','c') FIRST",
    "DELETE FROM t WHERE id = 4",
    "UPDATE t SET v = '8' WHERE v = 'five'",
    "ALTER TABLE t MODIFY v BIGINT",
    "INSERT INTO t VALUES ('c',6,6,6,6.75,'day')",
    "ALTER TABLE t DROP COLUMN d, RENAME COLUMN y TO x",
)
AFTER = [
    {"e": None, "id": 1, "w": 7, "v": None, "x": None, "v1": 70000, "d1": Decimal("1.2345"), "z1": "2024-02-29"}
    | {"e1": "a", "v2": None},
    {"e": None, "id": 2, "w": 7, "v": None, "x": None, "v1": None, "d1": None, "z1": None, "e1": "b", "v2": "two"},
    {"e": None, "id": 3, "w": 7, "v": None, "x": None, "v1": 3, "d1": Decimal(3), "z1": "0000-00-00", "e1": "a"}
    | {"v2": None},
    {"e": "", "id": 5, "w": 5, "v": None, "x": None, "v1": None, "d1": None, "z1": None, "e1": None, "v2": "8"},
    {"e": "c", "id": 6, "w": 6, "v": 6, "x": "day", "v1": None, "d1": None, "z1": None, "e1": None, "v2": None},
]
"""What downstream has then; kept columns are numbered, by the column and in the order of the log."""


def pipeline_of(shop: Shop, lake: Path, **keys: Any) -> Pipeline:
    return shop.pipeline(lake=str(lake), on_incompatible="new_column", **keys)


def run_all(shop: Shop, pipeline: Pipeline) -> Outcome:
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    return outcome


def merged(shop: Shop, pipeline: Pipeline) -> list[Row]:
    """The rows downstream by column, exact texts in their positions, the columns in their order."""
    frame = lake_of(pipeline).downstream(shop.database.name, "t").read(shop.spark)
    retired = [name for name in frame.columns if "_until_" in name]
    short = dict[str, str]()
    for name in retired:
        of = name[1 : name.index("_until_")]
        short[name] = f"{of}{1 + sum(label.startswith(of) for label in short.values())}"
    lines = []
    for row in frame.orderBy("id").collect():
        cells, raw = row.asDict(), row["_raw"] or {}
        lines.append({short.get(n, n): raw.get(n, v) for n, v in cells.items() if n in short or not n.startswith("_")})
    return [{name: str(v) if name == "z1" and v is not None else v for name, v in row.items()} for row in lines]


def kept_at(shop: Shop, pipeline: Pipeline) -> str:
    """The end of the name of the first column that is kept of v."""
    names = lake_of(pipeline).downstream(shop.database.name, "t").columns()
    return next(name for name in names if name.startswith("_v_until_")).removeprefix("_v_until_")


def contents(shop: Shop, pipeline: Pipeline) -> tuple[list[Any], ...]:
    """All that both tables hold, whatever the order of columns and rows; texts, since maps do not compare."""
    lake = lake_of(pipeline)
    tables = lake.silver(SOURCE, shop.database.name, "t"), lake.downstream(shop.database.name, "t")
    rows = ([str(sorted(row.asDict().items())) for row in table.read(shop.spark).collect()] for table in tables)
    return tuple(sorted(row) for row in rows)


def test_columns_begin_anew_and_a_range_done_again_leaves_them_so(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin = shop.end()
    pausing = pipeline_of(shop, tmp_path / "pausing")
    shop.execute(*BEFORE)
    run_all(shop, pausing)
    caplog.set_level(logging.WARNING)
    for statement in CHANGES:
        shop.execute(statement)
        if statement.startswith("DELETE"):
            run_all(shop, pausing)
    run_all(shop, pausing)
    assert merged(shop, pausing) == AFTER
    assert list(merged(shop, pausing)[0]) == ["e", "id", "w", "v", "x", "v1", "d1", "e1", "z1", "v2"]
    listed = "id int, v int, d decimal(10,4), e enum('a','b'), z date"
    assert any(f"it was ({listed}) and is (id int, w int, v varchar(9)" in text for text in caplog.messages)

    log_range, before = Range(begin, shop.end()), contents(shop, pausing)
    outcome = backfill_source(shop.spark, pausing, SOURCE, log_range, lambda _: True)
    assert (outcome.stopped, outcome.compacted) == ({}, [])
    origin = lake_of(pausing).silver(SOURCE, shop.database.name, "t")
    shop.spark.sql(f"UPDATE {origin.sql} SET v = 100, _v_until_{kept_at(shop, pausing)} = -1")
    assert backfill_source(shop.spark, pausing, SOURCE, log_range, lambda _: True).stopped == {}
    assert contents(shop, pausing) == before


class Killed(BaseException):
    """Ends a run where nothing is prepared for it."""


def killed_behind_each(monkeypatch: pytest.MonkeyPatch, part: str, do: Callable[[], object]) -> int:
    """Does something again and again, killed behind the first commit of tables with this in their paths; how often."""
    land, times = Table.land, 0

    def fatal(self: Table, upon: Snapshot, head: Head, checkpoint: Checkpoint, **changes: Any) -> Head:
        landed = land(self, upon, head, checkpoint, **changes)
        if part in self.path:
            raise Killed
        return landed

    while True:
        with monkeypatch.context() as patched:
            patched.setattr(Table, "land", fatal)
            try:
                do()
            except Killed:
                times += 1
            else:
                return times


def test_killed_behind_every_commit_of_the_change_the_tables_are_those_of_an_undisturbed_run(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines = [pipeline_of(shop, tmp_path / name) for name in ("undisturbed", "shaken")]
    shop.execute(*BEFORE)
    for pipeline in pipelines:
        run_all(shop, pipeline)
    shop.execute("ALTER TABLE t MODIFY v VARCHAR(9)", "UPDATE t SET v = 'two' WHERE id = 2")
    undisturbed, shaken = pipelines
    run_all(shop, undisturbed)
    times = killed_behind_each(monkeypatch, f"/{shop.database.name}/t", lambda: shop.run(shaken))
    assert times == len(("silver, the statement", "silver, the window", "downstream"))
    run_all(shop, shaken)
    assert contents(shop, shaken) == contents(shop, undisturbed)


def test_verify_passes_over_what_is_not_known_until_the_table_is_loaded_again(shop: Shop, tmp_path: Path) -> None:
    pipeline, name = pipeline_of(shop, tmp_path / "lake", live=True), TableName(shop.database.name, "t")
    shop.execute(*BEFORE)
    run_all(shop, pipeline)
    shop.execute("ALTER TABLE t MODIFY v VARCHAR(9)", "UPDATE t SET v = 'two' WHERE id = 2")
    (verdict,) = verify_source(shop.spark, pipeline, SOURCE)
    assert (verdict.state, verdict.unknown) == ("equal", {"v": 3})
    assert re.search(r"t: column v is not compared: .* 3 rows are from before", " ".join(verdict.remarks()))
    shop.execute("FLUSH BINARY LOGS")
    loaded = load_source(shop.spark, pipeline, SOURCE, tables=[str(name)])
    assert loaded.stopped == {}
    (verdict,) = verify_source(shop.spark, pipeline, SOURCE)
    assert (verdict.state, verdict.unknown, tuple(verdict.remarks())) == ("equal", {}, ())
    target = lake_of(pipeline).downstream(shop.database.name, "t").read(shop.spark)
    assert {row["v"] for row in target.collect()} == {"70000", "two", "3", "4"}
