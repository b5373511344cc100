"""A run by executors in YARN's containers, and what YARN refuses or ends. Put here: that. Not here: YARN (yarn.py)."""

import re
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.store import LakeStore
from spark_jobs.runtime.hadoop import store_jars
from spark_jobs.runtime.provision import delta_jars
from tests.cluster.deployments import Bucket, Deployment, open_run, require_no_loss, stratalog
from tests.cluster.test_standalone import kill, small
from tests.cluster.yarn import EXECUTOR, MASTER, NODES, Yarn
from tests.fix_cluster import HOME, KEYS, DeploymentFactory
from tests.services.server_process import free_port
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.cluster]
ROOT = Path(__file__).parents[2]


def settings(conf: Mapping[str, str] | None = None) -> dict[str, Any]:
    """``spark:`` of a pipeline: an executor of one core on each node."""
    common = {
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memoryOverhead": "1g",
        "spark.yarn.am.memory": "512m",
        "spark.yarn.queue": "ingest",
        "spark.yarn.jars": f"local:{HOME}/jars/*",
    }
    return {"master": "yarn", "conf": small() | common | dict(conf or {})}


def jars_of_nodes(folder: Path, store: LakeStore | None = None) -> dict[str, str]:
    """Settings by which nodes have jars on their own disk, as docs/clusters/README.md has them."""
    folder.mkdir()
    for jar in [*delta_jars(), *store_jars(store)]:
        (folder / jar.name).symlink_to(jar)
    names = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
    return {"spark.jars": ""} | dict.fromkeys(names, f"{folder}/*")


def refused(deployment: Deployment, variables: Mapping[str, str], status: int = 2) -> str:
    """The last message of a run that ends with the status, without a trace."""
    ran = stratalog("run", "-c", deployment.config, **variables)
    assert ran.status == status, ran.err
    assert "Traceback" not in ran.err, ran.err
    assert "\tat " not in ran.err, ran.err
    return ran.err.splitlines()[-1]


def test_a_run_by_executors_on_both_nodes(
    yarn: Yarn, deployments: DeploymentFactory, local_demo: Deployment, tmp_path: Path
) -> None:
    deployment = deployments(tmp_path / "demo", settings(), is_demo=True, variables=yarn.variables)
    with open_run(deployment) as run:
        wait_for(
            "both nodes have an executor", lambda: all(yarn.containers(EXECUTOR, node) for node in NODES), pause=0.1
        )
        ended = run.ended()
    assert (ended.status, deployment.tables()) == (0, local_demo.tables()), ended.err
    assert "[Stage" not in ended.err, "bars of tasks are for terminals"


def test_without_a_folder_of_settings_it_is_one_message(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path / "demo", settings(), is_demo=True)
    unset = {"HADOOP_CONF_DIR": "", "YARN_CONF_DIR": ""}
    assert refused(deployment, unset).startswith(
        "spark.master: yarn: the environment has no HADOOP_CONF_DIR; set it to"
    )
    message = refused(deployment, unset | {"YARN_CONF_DIR": "/nowhere"})
    assert message == "spark.master: yarn: YARN_CONF_DIR is /nowhere, and there is no such folder"


def test_a_resource_manager_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    port = free_port()
    address = f"<name>yarn.resourcemanager.address</name><value>127.0.0.1:{port}</value>"
    (tmp_path / "yarn-site.xml").write_text(f"<configuration><property>{address}</property></configuration>")
    deployment = Deployment(tmp_path / "demo", settings(), is_demo=True)
    assert refused(deployment, {"HADOOP_CONF_DIR": str(tmp_path)}) == (
        f"spark.master: yarn: the ResourceManager does not answer at localhost:{port} (Connection refused); see that "
        f"it runs, and that yarn-site.xml in {tmp_path} names it"
    )


@pytest.mark.long
def test_a_queue_that_is_not_there_is_one_message(yarn: Yarn, tmp_path: Path) -> None:
    deployment = Deployment(tmp_path / "demo", settings({"spark.yarn.queue": "nosuch"}), is_demo=True)
    message = refused(deployment, yarn.variables)
    assert message.startswith("Spark did not start on yarn: Failed to submit application_")
    assert message.endswith("to unknown queue: nosuch")


@pytest.mark.long
def test_an_application_master_that_cannot_start_is_one_message(yarn: Yarn, tmp_path: Path) -> None:
    deployment = Deployment(
        tmp_path / "demo", settings({"spark.yarn.appMasterEnv.JAVA_HOME": "/nowhere"}), is_demo=True
    )
    message = refused(deployment, yarn.variables)
    assert message == "Spark did not start on yarn: /bin/bash: line 1: /nowhere/bin/java: No such file or directory"


@pytest.mark.long
@pytest.mark.parametrize("kind", [EXECUTOR, MASTER], ids=["an executor", "the application master"])
def test_a_container_that_is_killed_costs_no_row(
    kind: bytes, yarn: Yarn, deployments: DeploymentFactory, local_demo: Deployment, tmp_path: Path
) -> None:
    deployment = deployments(tmp_path / "demo", settings(), is_demo=True, variables=yarn.variables)
    require_no_loss(deployment, local_demo, "bronze", lambda: kill(yarn.containers(kind, yarn.node_of(kind))))


@pytest.mark.long
@pytest.mark.parametrize("has_master", [False, True], ids=["an executor", "the application master"])
def test_a_node_that_is_lost_costs_no_row(
    has_master: bool, yarn: Yarn, deployments: DeploymentFactory, local_demo: Deployment, tmp_path: Path
) -> None:
    deployment = deployments(tmp_path / "demo", settings(), is_demo=True, variables=yarn.variables)
    dead_nodes: list[str] = []

    def harm() -> None:
        node = next(node for node in NODES if (node == yarn.node_of(MASTER)) == has_master)
        dead_nodes.append(node)
        yarn.nodes[node].kill()
        kill(yarn.containers(b"", node))

    try:
        require_no_loss(deployment, local_demo, "bronze", harm)
    finally:
        for node in dead_nodes:
            yarn.start_node(node)
        yarn.wait_until_whole()


@pytest.mark.long
def test_containers_that_are_too_large_are_one_message(
    yarn: Yarn, deployments: DeploymentFactory, local_demo: Deployment, tmp_path: Path
) -> None:
    size = {
        "spark.executor.memory": "512m",
        "spark.executor.memoryOverhead": "0",
        "spark.executor.maxNumFailures": "99",
    }
    deployment = deployments(tmp_path / "demo", settings(size), is_demo=True, variables=yarn.variables)
    message = refused(deployment, yarn.variables)
    assert re.fullmatch(
        r"executor 127\.0\.0\.[23]: YARN ended its container, with \d\S* MB of 512 MB physical memory used; raise "
        r"spark\.executor\.memoryOverhead in spark\.conf, or lower spark\.task_bytes",
        message,
    )
    deployment.config.write_text(deployment.config.read_text().replace("memoryOverhead: '0'", "memoryOverhead: 1g"))
    deployment.run("run")
    assert deployment.tables() == local_demo.tables()


@pytest.mark.long
def test_an_application_that_yarn_has_ended_is_one_message(yarn: Yarn, tmp_path: Path) -> None:
    conf = {"spark.executorEnv.JAVA_HOME": "/nowhere", "spark.executor.maxNumFailures": "1"}
    conf["spark.scheduler.minRegisteredResourcesRatio"] = "0"  # the work begins, and does not wait for executors
    deployment = Deployment(tmp_path / "demo", settings(conf), is_demo=True)
    ran = stratalog("run", "-c", deployment.config, **yarn.variables)
    lines = ran.err.splitlines()
    assert (ran.status, "Traceback" in ran.err) == (1, False), ran.err
    assert any("for reason Container from a bad node: container_" in line for line in lines), ran.err
    assert re.search(
        r"shop: spark\.master: yarn: YARN has ended (application_\w+) in the middle of the work: Max number of "
        r"executor failures \(1\) reached; .*, and yarn logs -applicationId \1 prints their output\. Every table "
        r"is at its last commit; run it again",
        ran.err,
    ), ran.err


@pytest.mark.long
def test_a_python_that_is_not_there_is_one_message(yarn: Yarn, tmp_path: Path) -> None:
    deployment = Deployment(tmp_path / "demo", settings(), is_demo=True)
    message = refused(deployment, yarn.variables | {"PYSPARK_PYTHON": "/nowhere/python"})
    assert "cannot start Python by /nowhere/python (No such file or directory); give executors this" in message


@pytest.mark.long
def test_an_archive_of_other_code_is_one_message(yarn: Yarn, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "spark_jobs", tree / "code" / "spark_jobs", ignore=shutil.ignore_patterns("__pycache__"))
    with (tree / "code" / "spark_jobs" / "errors.py").open("a") as changed:
        changed.write("# newer\n")
    start = tree / "bin" / "python"
    start.parent.mkdir()
    start.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PWD/stratalog/code:$PYTHONPATH" exec {HOME.parents[3]}/bin/python "$@"\n'
    )
    start.chmod(0o755)
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add(tree, ".")
    deployment = Deployment(tmp_path / "demo", settings() | {"archive": str(tmp_path / "other.tar.gz")}, is_demo=True)
    message = refused(deployment, yarn.variables)
    assert message.startswith("executor ")
    assert " has stratalog 0.1.0 (code " in message
    assert "), and this is 0.1.0 (code " in message


@pytest.mark.long
def test_a_run_by_archives_on_hdfs(
    yarn: Yarn, deployments: DeploymentFactory, local_demo: Deployment, archive: Path, tmp_path: Path
) -> None:
    """As the page has it: Spark's and Delta's jars, and Python with Stratalog, are put there once."""
    jars = tmp_path / "jars"
    conf = jars_of_nodes(jars)
    for jar in (HOME / "jars").glob("*.jar"):
        (jars / jar.name).symlink_to(jar)
    packed = shutil.make_archive(str(tmp_path / "spark"), "zip", jars)
    yarn.dfs("-mkdir", "-p", "/apps/stratalog")
    yarn.dfs("-put", packed, str(archive), "/apps/stratalog/")
    Path(packed).unlink()
    conf = {key: value for key, value in conf.items() if key != "spark.executor.extraClassPath"}
    spark = settings(conf | {"spark.yarn.archive": "hdfs:///apps/stratalog/spark.zip"})
    del spark["conf"]["spark.yarn.jars"]
    spark["archive"] = f"hdfs:///apps/stratalog/{archive.name}"
    variables = yarn.variables | {"PYSPARK_PYTHON": "/nowhere/python"}
    deployment = deployments(tmp_path / "demo", spark, is_demo=True, variables=variables)
    deployment.run("run")
    assert deployment.tables() == local_demo.tables()
    assert yarn.dfs("-ls", "/user/*/.sparkStaging") == "", "what a run uploads is gone after it"


@pytest.mark.long
@pytest.mark.stores
def test_a_lake_on_a_store_by_keys_of_the_nodes(
    yarn: Yarn,
    deployments: DeploymentFactory,
    shared_bucket: LakeStore,
    stored_lake: Bucket,
    local_demo: Deployment,
    tmp_path: Path,
) -> None:
    """The keys are in no settings, logs or files that YARN keeps, but in the script by which it starts a container."""
    keyed = Bucket(stored_lake.keys, stored_lake.variables | yarn.variables)
    conf = jars_of_nodes(tmp_path / "jars", shared_bucket)
    deployment = deployments(tmp_path / "demo", settings(conf), is_demo=True, bucket=keyed)
    with open_run(deployment) as run:
        run.wait_for_files("bronze")
        names = {file.name for file in with_keys(yarn)}
        ended = run.ended()
    assert (ended.status, deployment.tables()) == (0, local_demo.tables()), ended.err
    assert names == {"launch_container.sh"}
    wait_for("no file has a key any more", lambda: not list(with_keys(yarn)), pause=0.1)


def with_keys(yarn: Yarn) -> Iterator[Path]:
    """Files of the cluster that a key of the store is in."""
    for file in yarn.folder.rglob("*"):
        with suppress(OSError):  # a folder, or it is gone by now
            content = file.read_bytes()
            if any(key.encode() in content for key in KEYS.values()):
                yield file
