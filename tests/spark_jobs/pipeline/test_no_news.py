"""A run without news reads Delta's logs and the source, and starts no Spark."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.downstream import publication
from spark_jobs.pipeline.run import run_source
from spark_jobs.runtime.lazy_session import lazy_session, session_if_started
from tests.logs import SOURCE, Logs
from tests.segment_spec import Commit, Insert, Statement
from tests.xa import prepared


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
