"""What a run says on standard error, from its first second on."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fix_cli import Stratalog


@pytest.mark.spark
def test_a_run_says_what_it_is_doing(
    spark: SparkSession, pipeline_file: Path, stratalog: Stratalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.runtime.spark_session.spark_session", lambda _: spark)
    monkeypatch.setattr("spark_jobs.cli.app._stop", lambda _: None)  # the session is that of all tests
    ran = stratalog("run", "-c", pipeline_file)
    assert ran.status == 0, ran.err
    lines = [line[9:] for line in ran.err.splitlines()]
    begins = [
        f"shop: reading {pipeline_file.parent / 'binlogs'}",
        "starting Spark",
        "shop: reading up to mysql-bin.000001:",
        "shop: compacting 1 table up to mysql-bin.000001:",
        "shop: published up to mysql-bin.000001:",
    ]
    logged = [line for line in lines if line.startswith(tuple(begins))]
    assert [line.startswith(begin) for line, begin in zip(logged, begins, strict=True)] == [True] * len(begins), lines
    assert all(len(line) <= 71 for line in lines if "/" not in line), "a terminal has 80 columns"
