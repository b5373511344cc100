"""A lake on a store, of the kind that is tested, by Spark in this process, by Connect and on a cluster.

Put here: that. Not here: the store.
"""

from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.deployments import Bucket, Deployment
from tests.cluster.test_standalone import settings
from tests.fix_cluster import KEYS, Cluster, DeploymentFactory, Server
from tests.fix_store import KIND

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.stores]


def require_no_secret(deployment: Deployment, *logs: Path) -> None:
    """No key is in what programs printed, or in the configuration."""
    for file in (deployment.config, *logs):
        text = file.read_text(encoding="utf-8", errors="replace")
        assert not any(key in text for key in KEYS.values()), file


def test_a_run_by_connect(
    keyed_server: Server,
    deployments: DeploymentFactory,
    stored_lake: Bucket,
    local_demo: Deployment,
    tmp_path: Path,
    summary: list[str],
) -> None:
    deployment = deployments(tmp_path / "demo", {"remote": keyed_server.remote}, is_demo=True, bucket=stored_lake)
    deployment.run("run")
    assert deployment.tables() == local_demo.tables()
    require_no_secret(deployment, keyed_server.program.log)
    summary.append(of_tables("run", "Connect", deployment))


@pytest.mark.long
def test_a_run_on_a_cluster(
    keyed_cluster: Cluster,
    deployments: DeploymentFactory,
    stored_lake: Bucket,
    local_demo: Deployment,
    tmp_path: Path,
    summary: list[str],
) -> None:
    deployment = deployments(tmp_path / "demo", settings(keyed_cluster), is_demo=True, bucket=stored_lake)
    deployment.run("run")
    assert deployment.tables() == local_demo.tables()
    require_no_secret(deployment, *(worker.log for worker in keyed_cluster.workers))
    summary.append(of_tables("run", "a standalone cluster", deployment))


def of_tables(verbs: str, spark: str, deployment: Deployment) -> str:
    tables = deployment.tables()
    rows = sum(map(Counter.total, tables.values()))
    return (
        f"{verbs} by {spark} on a store ({KIND}): {rows:,} rows in {len(tables)} tables, as by this process in a folder"
    )


def test_an_executor_without_keys_is_one_message(
    cluster: Cluster, deployments: DeploymentFactory, stored_lake: Bucket, tmp_path: Path
) -> None:
    deployment = deployments(tmp_path / "demo", settings(cluster), is_demo=True, bucket=stored_lake)
    ran = deployment.run("run", status=2)
    assert f"has no variable {next(iter(KEYS))}; set it for the process, and on a cluster for executors" in ran.err
