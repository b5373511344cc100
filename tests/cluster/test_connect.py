"""Spark Connect: each verb against a real server. Put here: what Connect alone has. Not here: a master's address."""

import shutil
import signal
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.deployments import Deployment, open_run, stratalog
from tests.command_result import CommandResult
from tests.fix_cluster import DELTA, DeploymentFactory, Server, connect_server

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def test_a_run_leaves_the_tables_that_one_in_this_process_leaves(
    connect: Server, deployments: DeploymentFactory, local_demo: Deployment, tmp_path: Path
) -> None:
    deployment = deployments(tmp_path / "demo", {"remote": connect.remote}, is_demo=True)
    ran = deployment.run("run")
    assert "Warning" not in ran.err
    assert deployment.tables() == local_demo.tables()
    assert sum(map(len, deployment.tables().values())) > 1_500


@pytest.mark.long
def test_every_verb_does_what_it_does_in_this_process(
    connect: Server,
    deployments: DeploymentFactory,
    local_verbs: tuple[dict[str, str], dict[str, Counter[str]]],
    tmp_path: Path,
) -> None:
    deployment = deployments(tmp_path / "verbs", {"remote": connect.remote})
    assert (deployment.every_verb(), deployment.tables()) == local_verbs


def refused(server: Server, folder: Path) -> CommandResult:
    """A run on a server that cannot be used."""
    with server.program:
        deployment = Deployment(folder / "demo", {"remote": server.remote}, is_demo=True)
        ran = stratalog("run", "-c", deployment.config)
    assert "Traceback" not in ran.err, ran.err
    assert not (deployment.folder / "lake").exists()
    return ran


@pytest.mark.parametrize(
    "confs",
    [
        pytest.param(dict.fromkeys((*DELTA, "spark.jars"), ""), id="nothing of Delta"),
        pytest.param({"spark.jars": ""}, id="no jars", marks=pytest.mark.long),
        pytest.param(dict.fromkeys(DELTA, ""), id="jars alone", marks=pytest.mark.long),
    ],
)
def test_a_server_without_delta_is_one_message(tmp_path: Path, confs: dict[str, str]) -> None:
    server = connect_server(tmp_path / "server.log", confs=confs)
    ran = refused(server, tmp_path)
    assert ran.status == 2
    assert f"spark.remote: {server.remote}: the server does not have Delta Lake; start it with" in ran.err


def test_a_server_whose_python_lacks_packages_is_one_message(tmp_path: Path) -> None:
    """It has the Python that this virtual environment was made from."""
    bare = Path(sys.base_prefix, "bin", f"python{sysconfig.get_python_version()}")
    ran = refused(connect_server(tmp_path / "server.log", python=str(bare)), tmp_path)
    assert ran.status == 2
    assert "lacks the Python package" in ran.err
    assert "stratalog package" in ran.err


@pytest.mark.long
def test_a_server_without_a_python_is_one_message(tmp_path: Path) -> None:
    ran = refused(connect_server(tmp_path / "server.log", python="/nowhere/python"), tmp_path)
    assert ran.status == 2
    assert "cannot start Python by /nowhere/python (No such file or directory)" in ran.err


def test_a_token_that_is_not_the_server_s_is_one_message_without_it(tmp_path: Path) -> None:
    server = connect_server(tmp_path / "server.log", confs={"spark.connect.authenticate.token": "0pen"})
    with server.program:
        address = server.remote.replace("127.0.0.1", "localhost")
        deployment = Deployment(tmp_path / "demo", {"remote": f"{address}/;token=${{TOKEN}}"}, is_demo=True)
        wrong, right = (stratalog("extract", "-c", deployment.config, TOKEN=token) for token in ("s3cret", "0pen"))
    assert (wrong.status, right.status) == (2, 0), (wrong.err, right.err)
    assert f"spark.remote: {address}: " in wrong.err
    assert "Traceback" not in wrong.err
    assert "s3cret" not in wrong.err


def test_an_interrupt_ends_the_jobs_and_the_next_run_goes_on(
    connect: Server, deployments: DeploymentFactory, local_demo: Deployment, tmp_path: Path
) -> None:
    deployment = deployments(tmp_path / "demo", {"remote": connect.remote}, is_demo=True)
    with open_run(deployment) as run:
        run.wait_for_files("bronze")
        run.process.send_signal(signal.SIGINT)
        ended = run.ended()
    assert (ended.status, ended.err.splitlines()[-1]) == (130, "interrupted"), ended.err
    assert "Traceback" not in ended.err
    deployment.run("run")
    assert deployment.tables() == local_demo.tables()


def test_a_server_that_dies_is_one_message_and_the_next_run_goes_on(
    connect: Server, deployments: DeploymentFactory, local_demo: Deployment, tmp_path: Path
) -> None:
    mortal = connect_server(tmp_path / "server.log")
    with mortal.program:
        dying = Deployment(tmp_path / "dying", {"remote": mortal.remote}, is_demo=True)
        with open_run(dying) as run:
            run.wait_for_files("bronze")
            mortal.program.kill()
            ended = run.ended()
    assert "Traceback" not in ended.err
    assert ended.status == 1
    assert f"spark.remote: {mortal.remote}: the server is gone in the middle of the work" in ended.err
    deployment = deployments(tmp_path / "demo", {"remote": connect.remote}, is_demo=True)
    shutil.move(dying.folder / "lake", deployment.folder / "lake")
    deployment.run("run")
    assert deployment.tables() == local_demo.tables()
