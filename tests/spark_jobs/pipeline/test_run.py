"""A run without news reads Delta's logs and the source, and starts no Spark; nor is a table without news opened.

Put here too: what is published after a run that was killed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.downstream import publication
from spark_jobs.lake import own_commits
from spark_jobs.pipeline.run import compact_source, extract_source, publish, run_source
from spark_jobs.runtime.lazy_session import lazy_session, session_if_started
from tests.binlogs.logs import SOURCE, Logs
from tests.binlogs.segment_spec import Commit, Insert, Statement
from tests.binlogs.xa import prepared

CREATE = "CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, note VARCHAR(40))"


@pytest.mark.spark
def test_a_run_without_news_starts_no_spark(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    stopping = Statement("shop", "ALTER TABLE lines MODIFY id SMALLINT NOT NULL")
    logs.write(1, Insert("shop.orders", (1, "a")), Insert("shop.lines", (1, "a")), Commit(), stopping)
    logs.write(2, Insert("shop.lines", (2, "b")), Commit(), *prepared(Insert("shop.later", (1, "a"))))
    first = logs.run()
    published, heads = publication.read(logs.lake, SOURCE), logs.lake.published().head()

    def refuse() -> SparkSession:
        raise AssertionError("Spark was started")

    unused = lazy_session(refuse)
    extracted, outcome = run_source(unused, logs.pipeline(), SOURCE)
    assert session_if_started(unused) is None
    assert not extracted.range
    assert (outcome.compacted, outcome.merged) == ([], [])
    assert [entry.position for entry in outcome.entries] == [entry.position for entry in first.entries]
    assert (publication.read(logs.lake, SOURCE), logs.lake.published().head()) == (published, heads)


@pytest.mark.spark
def test_a_table_without_news_is_not_opened_and_is_published_as_complete(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs(spark, tmp_path)
    logs.write(1, Insert("shop.orders", (1, "a")), Insert("shop.lines", (1, "a")), Commit())
    logs.run()
    opened: set[str] = set()

    def counted(function: Callable[[str], Any]) -> Callable[[str], Any]:
        def run(path: str) -> Any:
            opened.add(path.rpartition("/")[2])
            return function(path)

        return run

    for function in (own_commits.head_of, own_commits.deltalake_table):
        monkeypatch.setattr(own_commits, function.__name__, counted(function))
    for number in (2, 3):
        logs.write(number, Insert("shop.orders", (number, "b")), Commit())
        opened.clear()
        outcome = logs.run()
        assert {merge.name.table for merge in outcome.merged} == {"orders"}
        assert not opened & {"lines"}
        orders, lines = sorted(publication.read(logs.lake, SOURCE), key=lambda entry: entry.table, reverse=True)
        assert (orders.position, orders.merged) == (lines.position, lines.merged) == (str(outcome.position),) * 2
        assert (lines.silver_version, lines.downstream_version) == (0, 0)

    properties = "SET TBLPROPERTIES ('delta.checkpointInterval' = '11')"
    spark.sql(f"ALTER TABLE {logs.lake.downstream('shop', 'lines').sql} {properties}")
    logs.write(4, Insert("shop.orders", (4, "b")), Commit())
    logs.run()
    assert "lines" in opened
    (lines,) = (entry for entry in publication.read(logs.lake, SOURCE) if entry.table == "lines")
    newest = logs.lake.downstream("shop", "lines").head()
    assert newest
    assert (lines.downstream_version, lines.merged) == (newest.version, lines.position)


@pytest.mark.spark
def test_tables_that_a_killed_compaction_made_are_published_with_their_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path)
    logs.write(1, Statement("shop", CREATE), Insert("shop.orders", (1, "a")), Insert("shop.lines", (1, "a")), Commit())
    pipeline = logs.pipeline()
    extract_source(spark, pipeline, SOURCE)
    compact_source(spark, pipeline, SOURCE)  # it is killed before it publishes
    publish(pipeline, SOURCE, compact_source(spark, pipeline, SOURCE))
    entries = {entry.table: entry for entry in publication.read(logs.lake, SOURCE)}
    assert {name: (entry.silver_version, entry.complete) for name, entry in entries.items()} == {
        "orders": (0, True),
        "lines": (0, False),
    }
    assert {entry.position for entry in entries.values()} == {str(logs.bronze().position)}
