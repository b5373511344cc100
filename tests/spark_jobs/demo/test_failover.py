from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.bronze.commit import stretches
from spark_jobs.config.loader import load
from spark_jobs.demo.failover import run_failover
from spark_jobs.errors import ConfigError
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.status import status


@pytest.mark.mysql
@pytest.mark.spark
@pytest.mark.long
def test_a_replica_takes_the_address_over_and_nothing_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    report = run_failover(tmp_path / "demo", 1_000)
    assert report.equal, report.text()
    assert sum(comparison.rows for comparison in report.compared.values()) > 1_000
    assert (report.log.differences, "transactions in bronze" in report.log.text) == ((), True)
    # The log of both servers is in bronze, each in a stretch of its own.
    pipeline = load(tmp_path / "demo" / "pipeline.yaml")
    head = lake_of(pipeline).bronze("shop").head()
    assert head is not None
    assert head.checkpoint is not None
    files = [stretch.begin.file.partition(".")[0] for stretch in stretches(head.checkpoint)]
    assert files == ["mysql-bin", "green-bin"]
    # What is left behind works without servers.
    assert not (tmp_path / "demo" / "server").exists()
    source_status = status(pipeline, lake_of(pipeline), "shop")
    assert (source_status.backlog_bytes, source_status.error, source_status.stretch) == (0, None, 2)


def test_too_few_rows(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="10 are too few"):
        run_failover(tmp_path / "demo", 10)
    assert not (tmp_path / "demo").exists()
