import json

import pytest
from pyspark.sql import SparkSession

from spark_jobs.checks.verify.deliveries import verify_delivery
from spark_jobs.config.table_patterns import Scope
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.verified import DIFFERS, EQUAL, NOT_COMPARED
from spark_jobs.runtime.lazy_session import lazy_session
from tests.lakes.delivered import Copy

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def test_a_delivery_is_compared_with_the_lake(copy: Copy) -> None:
    shop, schema = copy.shop, copy.schema
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20) CHARACTER SET latin1, at DATETIME(3), n DECIMAL(9,2))",
        "INSERT INTO t VALUES (1, 'ä', '2024-01-01', 1), (2, 'B', NULL, 2), (3, NULL, NULL, 3), (4, 'd', NULL, 4)",
        "CREATE TABLE bag (a INT)",
        "INSERT INTO bag VALUES (1), (1)",
    )
    pipeline = copy.pipeline()
    copy.run(pipeline)
    spark = shop.spark
    started = []

    def make() -> SparkSession:
        started.append(spark)
        return spark

    verdicts_of_all = verify_delivery(lazy_session(make), pipeline, "copy")
    counts = {verdict.table: (verdict.state, verdict.lake_rows) for verdict in verdicts_of_all}
    assert counts == {f"{schema}.t": (EQUAL, 4), f"{schema}.bag": (EQUAL, 2)}
    assert started == [], "where no row differs"

    # Somebody else writes into the target, in a column that only the target has too.
    shop.execute(
        f"ALTER TABLE `{schema}`.t ADD own INT",
        f"UPDATE `{schema}`.t SET name = 'b' WHERE id = 2",
        f"DELETE FROM `{schema}`.t WHERE id = 3",
        f"INSERT INTO `{schema}`.t VALUES (5, 'e', NULL, 5, 5)",
        f"DELETE FROM `{schema}`.bag LIMIT 1",
    )
    verdicts = {verdict.table: verdict for verdict in verify_delivery(spark, pipeline, "copy")}
    verdict = verdicts[f"{schema}.t"]
    assert (verdict.state, verdict.lake_rows, verdict.target_rows) == (DIFFERS, 4, 4)
    assert (verdict.missing, verdict.extra, verdict.different) == (1, 1, 1)
    assert sorted(verdict.lines(values=True)) == [
        f"{schema}.t different id=2: name is b and should be B",
        f"{schema}.t extra id=5",
        f"{schema}.t missing id=3",
    ]
    assert json.loads(json.dumps(verdict.to_json()))["missing"] == 1
    assert verdicts[f"{schema}.bag"].state == DIFFERS

    # What was published since is not delivered yet.
    shop.execute("INSERT INTO t VALUES (6, 'f', NULL, 6)")
    copy.run(copy.pipeline(tables=["nothing.*"]))
    [verdict] = verify_delivery(spark, copy.pipeline(), "copy", Scope.parse([f"{schema}.t"]))
    assert verdict.state == NOT_COMPARED
    assert verdict.reason == "the target does not have the published version: stratalog deliver writes it"


def test_tables_are_compared_at_the_version_that_was_delivered(copy: Copy) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "CREATE TABLE bag (a INT, n INT)")
    copy.shop.execute("INSERT INTO t VALUES (1, 1), (2, 2)", "INSERT INTO bag VALUES (1, 1), (1, 1)")
    pipeline = copy.pipeline()
    copy.run(pipeline)
    # A run is ahead with the tables, and has not published them yet.
    for table in ("bag", "t"):
        path = lake_of(pipeline).downstream(copy.schema, table).path
        copy.shop.spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN n")
        copy.shop.spark.sql(f"DELETE FROM delta.`{path}`")
    found = [
        (verdict.label.partition(".")[2], verdict.state, verdict.lake_rows, verdict.target_rows)
        for verdict in verify_delivery(copy.shop.spark, pipeline, "copy")
    ]
    assert found == [("bag", EQUAL, 2, 2), ("t", EQUAL, 2, 2)]
