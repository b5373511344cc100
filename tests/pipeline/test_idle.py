"""Verbs that have nothing to do, over a lake that a run has left: no JVM is started."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.loader import load
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.run import run_source
from tests.fix_cli import Stratalog

VERBS = {
    ("run",): "shop: silver and downstream have nothing new",
    ("extract",): "nothing new",
    ("compact",): "shop: silver and downstream have nothing new",
    ("merge",): "shop: silver and downstream have nothing new",
    ("status",): "shop",
    ("gc",): "shop: nothing to remove",
    ("gc", "--dry-run"): "shop: nothing to remove",
}


@pytest.mark.spark
def test_a_verb_with_nothing_to_do_starts_no_spark(
    spark: SparkSession, pipeline_file: Path, stratalog: Stratalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_source(spark, load(pipeline_file), "shop")
    monkeypatch.setattr("spark_jobs.runtime.spark_session.spark_session", lambda _: pytest.fail("Spark is started"))
    for verb, output in VERBS.items():
        ran = stratalog(*verb, "-c", pipeline_file)
        assert (ran.status, output in ran.out) == (0, True), (verb, ran)
    (entry, *_) = publication.read(lake_of(load(pipeline_file)), "shop")
    about = ("reset", "-c", pipeline_file, "--source", "shop", "--table", ".".join(entry.name), "--yes")
    for words, state in ((about, "reset"), ((*about, "--undo"), "current")):
        assert stratalog(*words).status == 0
        states = {row.name: row.state for row in publication.read(lake_of(load(pipeline_file)), "shop")}
        assert states[entry.name] == state
