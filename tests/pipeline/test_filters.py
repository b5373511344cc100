"""Rules over events, rows and columns: the pairs in tests/filters, on a real server, and rules that change.

All cases of all files are tables of one schema, under one configuration, in two runs.
"""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.silver.commit import SilverCommit
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop, rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.slow, pytest.mark.long]

FILES = sorted((Path(__file__).parents[1] / "filters").glob("*.yaml"))
CASES: list[dict[str, Any]] = [case for path in FILES for case in yaml.safe_load(path.read_text(encoding="utf-8"))]
KINDS = ("filters", "row_filters", "columns")


def table_of(case: dict[str, Any]) -> str:
    return str(case["log"].split()[2])


@dataclass(frozen=True)
class CaseRuns:
    shop: Shop
    pipeline: Pipeline
    first: Outcome
    second: Outcome
    """Of the statements that come then."""


def execute(shop: Shop, script: str) -> None:
    """Statements on a connection of their own, so that what they set of its session is theirs."""
    with shop.database.server.connect() as connection, connection.cursor() as cursor:
        connection.select_db(shop.database.name)
        for statement in filter(str.strip, script.split(";\n")):
            cursor.execute(statement)


def pipeline_of(shop: Shop, monkeypatch: pytest.MonkeyPatch, rules: dict[str, Any], lake: str = "lake") -> Pipeline:
    monkeypatch.setenv("SALT", "pepper")
    settings = yaml.safe_load(yaml.safe_dump(rules, sort_keys=False).replace("shop.", f"{shop.database.name}."))
    return shop.pipeline(lake=str(shop.folder / lake), **settings)


@pytest.fixture(scope="module")
def case_runs(spark: SparkSession, mysql: MySQLServer, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with mysql.connect() as connection, pytest.MonkeyPatch.context() as patched:
        database = Database("test_filters", mysql, connection)
        database.execute("CREATE DATABASE test_filters")
        shop = Shop(spark, database, tmp_path_factory.mktemp("filters"), position(database))
        rules: dict[str, Any] = {
            kind: {name: rule for case in CASES for name, rule in case["rules"].get(kind, {}).items()} for kind in KINDS
        }
        pipeline = pipeline_of(shop, patched, rules)
        outcomes: list[Outcome] = []
        for part in ("log", "then"):
            for case in CASES:
                execute(shop, case.get(part, ""))
            outcomes.append(shop.run(pipeline)[1])
        yield CaseRuns(shop, pipeline, outcomes[0], outcomes[1])
        database.execute("DROP DATABASE test_filters")


def position(database: Database) -> Any:
    return Shop.end(Shop(None, database, Path(), None))  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES, ids=table_of)
def test_case(case_runs: CaseRuns, case: dict[str, Any]) -> None:
    table = table_of(case)
    name = TableName(case_runs.shop.database.name, table)
    if "stopped" in case:
        assert case["stopped"] in case_runs.second.stopped[name]
        return
    assert name not in case_runs.second.stopped, case_runs.second.stopped[name]
    records = rows(lake_of(case_runs.pipeline).downstream(name.schema, table).read(case_runs.shop.spark))
    assert [[comparable(cell) for cell in row] for row in records] == [
        [comparable(cell) for cell in row] for row in case["rows"]
    ]
    assert counted(case_runs, name) == case.get("left_out", {})
    if "raw" in case:
        frame = lake_of(case_runs.pipeline).downstream(name.schema, table).read(case_runs.shop.spark).orderBy("id")
        assert [row["_raw"] for row in frame.collect()] == case["raw"]


def comparable(cell: Any) -> Any:
    return str(cell) if isinstance(cell, date) else cell


def counted(case_runs: CaseRuns, name: TableName) -> dict[str, int]:
    """What both runs left out, which the commits say too."""
    counts: dict[str, int] = {}
    for outcome in (case_runs.first, case_runs.second):
        for job in (job for job in outcome.compacted if job.name == name):
            counts = {rule: counts.get(rule, 0) + job.left_out.get(rule, 0) for rule in {*counts, *job.left_out}}
    noted: dict[str, int] = {}
    for _, commit in lake_of(case_runs.pipeline).silver(SOURCE, name.schema, name.table).since(-1):
        for rule, count in (SilverCommit.of(commit).filtered or {}).items():
            noted[rule] = noted.get(rule, 0) + count
    assert noted == counts
    return counts


BEFORE: dict[str, Any] = {
    "filters": {
        "deletes": {"tables": ["shop.a"], "events": ["delete"]},
        "kept": {"tables": ["shop.c"], "events": ["truncate table"]},
    },
    "row_filters": {"all": {"tables": ["shop.a"], "insert-value-expr": "v IS NOT NULL"}},
    "columns": {"b": {"tables": ["shop.b"], "exclude": ["w"], "mask": {"id": {"hash": "${SALT}"}}}},
}
AFTER: dict[str, Any] = {
    "filters": {"inserts": {"tables": ["shop.bag"], "events": ["update"]}},
    "row_filters": {"some": {"tables": ["shop.a"], "insert-value-expr": "v = 20", "delete-value-expr": "v > 10"}},
    "columns": {
        "b": {"tables": ["shop.b"], "mask": {"v": {"truncate": 1}}},
        "bag": {"tables": ["shop.bag"], "exclude": ["w"]},
    },
}


def test_rules_that_change_and_a_backfill_give_what_a_fresh_run_does(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ("a", "b", "c", "bag")
    execute(
        shop,
        "CREATE TABLE a (id INT PRIMARY KEY, v INT);\nINSERT INTO a VALUES (1, 10), (2, 20), (3, 30);\n"
        "CREATE TABLE b (id INT PRIMARY KEY, v TEXT, w INT);\nINSERT INTO b VALUES (1, 'ten', 1), (2, 'two', 2);\n"
        "CREATE TABLE c (id INT PRIMARY KEY, v INT);\nINSERT INTO c VALUES (1, 10), (2, 20);\nTRUNCATE TABLE c;\n"
        "INSERT INTO c VALUES (2, 21);\n"
        "CREATE TABLE bag (v INT, w INT);\nINSERT INTO bag VALUES (1, 1), (1, 2), (3, 3)",
    )
    before = pipeline_of(shop, monkeypatch, BEFORE)
    extracted, outcome = shop.run(before)
    assert not outcome.stopped
    assert shop.merged(before, "a") == []
    execute(
        shop,
        "UPDATE a SET v = 11 WHERE id = 1;\nDELETE FROM a WHERE id = 3;\nALTER TABLE b ADD COLUMN x INT;\n"
        "DELETE FROM b WHERE id = 2;\nINSERT INTO c VALUES (3, 30);\nUPDATE bag SET v = 4 WHERE v = 3",
    )
    shop.run(before)
    assert shop.merged(before, "c") == [(1, 10), (2, 21), (3, 30)]

    after = pipeline_of(shop, monkeypatch, AFTER)
    execute(shop, "INSERT INTO b VALUES (3, 'thirty', 3, 30)")
    extracted, outcome = shop.run(after)
    assert [str(name) for name in outcome.stopped] == [f"{shop.database.name}.b"]
    assert "the rules about its columns are not those" in next(iter(outcome.stopped.values()))
    assert f"--from {shop.start} --to {extracted.head.position}" in next(iter(outcome.stopped.values()))
    assert extracted.head.position is not None
    log_range = Range(shop.start, extracted.head.position)
    repeated = backfill_source(shop.spark, after, SOURCE, log_range, lambda name: name.schema == shop.database.name)
    assert not repeated.stopped
    shop.run(after)

    fresh = pipeline_of(shop, monkeypatch, AFTER, "fresh")
    _, outcome = shop.run(fresh)
    assert not outcome.stopped
    for table in tables:
        assert shop.merged(after, table) == shop.merged(fresh, table), table
        frames = [
            lake_of(pipeline).downstream(shop.database.name, table).read(shop.spark) for pipeline in (after, fresh)
        ]
        assert frames[0].columns == frames[1].columns
    assert shop.merged(fresh, "a") == [(1, 11), (3, 30)]
    assert shop.merged(fresh, "b") == [(1, "t", 1, None), (3, "t", 3, 30)]
    assert shop.merged(fresh, "c") == [(2, 21), (3, 30)]
    assert shop.merged(fresh, "bag") == [(1,), (1,), (3,)]
