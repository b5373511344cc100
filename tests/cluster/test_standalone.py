"""A standalone cluster of a master and two workers. Put here: what executors of their own have. Not here: Connect."""

import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.runtime.spark_session import CLUSTER_JAVA_OPTIONS
from tests.cluster.deployments import LOCAL, Deployment, require_no_loss
from tests.fix_cluster import Cluster, DeploymentFactory
from tests.fix_spark import LIGHT

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def small() -> dict[str, str]:
    """Of Spark on a cluster here: small executors, and shuffles for two cores."""
    return {
        **LOCAL["conf"],
        "spark.driver.extraJavaOptions": CLUSTER_JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": LIGHT,
        "spark.executor.memory": "768m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.python.daemon.module": "spark_jobs.runtime.python_daemon",
    }


def settings(cluster: Cluster) -> dict[str, Any]:
    """``spark:`` of a pipeline on the cluster."""
    return {"master": cluster.url, "conf": small()}


@pytest.mark.long
def test_every_verb_does_what_it_does_in_this_process(
    cluster: Cluster,
    deployments: DeploymentFactory,
    local_verbs: tuple[dict[str, str], dict[str, Counter[str]]],
    tmp_path: Path,
) -> None:
    deployment = deployments(tmp_path / "verbs", settings(cluster))
    assert (deployment.every_verb(), deployment.tables()) == local_verbs


def kill(pids: list[int]) -> None:
    assert pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_worker_that_is_killed_amid_a_run_costs_no_row(
    deployments: DeploymentFactory, local_demo: Deployment, tmp_path: Path
) -> None:
    with Cluster(tmp_path) as cluster:
        deployment = deployments(tmp_path / "demo", settings(cluster), is_demo=True)

        def harm() -> None:
            executors = cluster.executors_of(cluster.workers[0])
            cluster.workers[0].kill()
            kill(executors)

        require_no_loss(deployment, local_demo, "bronze", harm)


@pytest.mark.long
def test_an_executor_that_is_lost_while_a_unit_is_written_costs_no_row(
    cluster: Cluster, deployments: DeploymentFactory, local_demo: Deployment, tmp_path: Path
) -> None:
    deployment = deployments(tmp_path / "demo", settings(cluster), is_demo=True)
    require_no_loss(deployment, local_demo, "silver", lambda: kill(cluster.executors()))
