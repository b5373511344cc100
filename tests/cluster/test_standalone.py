"""A standalone cluster of a master and two workers. Put here: what executors of their own have. Not here: Connect."""

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.ways import LOCAL, Way
from tests.fix_cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def settings(cluster: Cluster) -> dict[str, Any]:
    """Of a pipeline on the cluster: small executors, and shuffles for two cores."""
    conf = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "768m",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.python.daemon.module": "spark_jobs.runtime.python_daemon",
    }
    return {"master": cluster.url, "conf": conf}


def test_a_run_leaves_the_tables_that_one_in_this_process_leaves(cluster: Cluster, tmp_path: Path) -> None:
    ways = Way(tmp_path / "local", LOCAL, is_demo=True), Way(tmp_path / "cluster", settings(cluster), is_demo=True)
    for way in ways:
        way.run("run")
    assert ways[1].tables() == ways[0].tables()
