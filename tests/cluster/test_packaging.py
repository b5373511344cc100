"""Executors without an environment of their own get it by an archive. Put here: that. Not here: what is in it."""

from pathlib import Path

import pytest

from tests.cluster.deployments import Deployment
from tests.cluster.test_standalone import settings
from tests.fix_cluster import Cluster, DeploymentFactory, connect_server

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long]
NOWHERE = "/nowhere/python"


def test_a_cluster_runs_by_the_archive(
    deployments: DeploymentFactory, local_demo: Deployment, archive: Path, tmp_path: Path
) -> None:
    with Cluster(tmp_path, NOWHERE) as cluster:
        deployment = deployments(tmp_path / "demo", settings(cluster) | {"archive": str(archive)}, is_demo=True)
        deployment.run("run")
    assert deployment.tables() == local_demo.tables()


def test_a_connect_server_runs_by_the_archive(
    deployments: DeploymentFactory, local_demo: Deployment, archive: Path, tmp_path: Path
) -> None:
    server = connect_server(tmp_path / "server.log", python=NOWHERE)
    with server.program:
        deployment = deployments(tmp_path / "demo", {"remote": server.remote, "archive": str(archive)}, is_demo=True)
        deployment.run("run")
    assert deployment.tables() == local_demo.tables()


def test_an_archive_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path / "demo", {"remote": "sc://127.0.0.1:1", "archive": "gone.tar.gz"}, is_demo=True)
    ran = deployment.run("run", status=2)
    assert ran.err.splitlines()[-1].startswith(
        f"spark.archive: {deployment.folder}/gone.tar.gz: there is no such file; strat"
    )
    deployment.close()
