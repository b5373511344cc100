"""The manifests in docs/examples/kubernetes on a node of Kubernetes, as docs/clusters/kubernetes.md has it.

STRATALOG_KUBERNETES names the kubeconfig of a node (node.py) that has the image. A source and a store of this machine
are ``db.internal`` and ``s3.internal`` there.

Put here: what Kubernetes makes of the manifests. Not here: what Spark's scheduler does by itself (test_kubernetes.py).
"""

import copy
import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from spark_jobs.demo.server import MySQLServer
from tests.cluster import node
from tests.docs.test_kubernetes import CONFIG, FOLDER, MANIFESTS, PIPELINE, POD_TEMPLATE, RUN
from tests.fix_store import require_gateway
from tests.services.gateway import ROOT_KEY, ROOT_SECRET, Gateway
from tests.services.proxy import Proxy
from tests.services.waiting import wait_for

KUBECONFIG = os.environ.get("STRATALOG_KUBERNETES")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.stores,
    pytest.mark.mysql,
    pytest.mark.long,
    pytest.mark.skipif(not KUBECONFIG, reason="STRATALOG_KUBERNETES names no node: python -m tests.cluster.node"),
]
BUCKET = "company-lake"
_PATIENCE = 600
_ROWS = 200_000
Value = TypeVar("Value")


class Cluster:
    """The namespace of the manifests."""

    secrets: tuple[str, ...] = ()

    def kubectl(self, *arguments: str, manifests: list[dict[str, Any]] | None = None) -> str:
        command = [str(node.built()), "kubectl", f"--kubeconfig={KUBECONFIG}", "--namespace=stratalog", *arguments]
        ended = subprocess.run(
            command, input=yaml.safe_dump_all(manifests or []), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"kubectl {' '.join(arguments)}: {ended.stderr}"
        return ended.stdout

    def apply(self, *manifests: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", manifests=list(manifests))

    def items(self, kind: str, *options: str) -> list[dict[str, Any]]:
        objects: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, "-o", "json", *options))["items"]
        return objects

    def executors(self) -> list[dict[str, Any]]:
        """Pods of executors that run now."""
        return [pod for pod in self.items("pods", "-l", "spark-role=executor") if pod["status"]["phase"] == "Running"]

    def start(self, job: str) -> None:
        """A run now, as the page says."""
        self.kubectl("create", "job", "--from=cronjob/stratalog", job)

    def ended(self, job: str) -> str:
        """Waits; Complete or Failed."""
        return until(lambda: self._condition(job), f"job {job} ends")

    def log(self, job: str) -> str:
        return self.kubectl("logs", f"job/{job}", "--tail=-1")

    def driver(self, job: str) -> str:
        """The name of a job's pod."""
        (pod,) = self.items("pods", "-l", f"job-name={job}")
        name: str = pod["metadata"]["name"]
        return name

    def environment_page(self, pod: str) -> str:
        """Settings that the UI of a driver shows."""
        address = json.loads(self.kubectl("get", "pod", pod, "-o", "json"))["status"]["podIP"]
        url = f"http://{address}:4040/api/v1/applications"
        (application,) = json.loads(content_of(url))
        return content_of(f"{url}/{application['id']}/environment")

    def kill(self, pod: str) -> None:
        self.kubectl("delete", "pod", pod, "--grace-period=0", "--force")

    def require_equal(self, job: str) -> None:
        """``verify`` in a pod as that of a run: every row is compared with the source."""
        template = copy.deepcopy(RUN)
        container = shrink(template["spec"])
        container["args"][1] = "verify"
        metadata = {"name": job, "namespace": "stratalog"}
        spec = {"backoffLimit": 0, "template": template}
        self.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
        assert self.ended(job) == "Complete", self.log(job)

    def _condition(self, job: str) -> str | None:
        status = json.loads(self.kubectl("get", "job", job, "-o", "json"))["status"]
        types = {condition["type"] for condition in status.get("conditions", ())}
        return next(iter(types & {"Complete", "Failed"}), None)


def content_of(url: str) -> str:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 -- http of a pod
        content: bytes = answer.read()
    return content.decode()


def until(current: Callable[[], Value | None], description: str) -> Value:
    return wait_for(description, current, _PATIENCE, pause=0.2)


def shrink(pod: dict[str, Any]) -> dict[str, Any]:
    """Requests less of the processor, which pods share here; returns the container."""
    container: dict[str, Any] = pod["containers"][0]
    container["resources"]["requests"]["cpu"] = "100m"
    return container


def config(spark: dict[str, Any]) -> dict[str, Any]:
    """The manifest of the ConfigMap; the store here has no certificate."""
    store = {"endpoint": "http://s3.internal:9000"}
    keys = PIPELINE | {"lake": f"s3a://{BUCKET}/stratalog", "store": store, "spark": spark}
    manifest = copy.deepcopy(next(manifest for manifest in MANIFESTS if manifest["kind"] == "ConfigMap"))
    manifest["data"] = CONFIG | {"pipeline.yaml": yaml.safe_dump(keys)}
    return manifest


def volume(folder: Path) -> list[dict[str, Any]]:
    """What a provisioner would make of the claim: a folder of this machine."""
    folder.mkdir(exist_ok=True)
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node"]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": str(folder)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return [{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "stratalog"}, "spec": spec}]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    require_gateway()
    with Gateway(tmp_path_factory.mktemp("gateway")) as gateway:
        gateway.make_bucket(BUCKET)
        with Proxy("127.0.0.1", gateway.port, address=(node.ADDRESS, 9000)):
            yield gateway


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySQLServer]:
    with MySQLServer(tmp_path_factory.mktemp("mysql")) as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            for name in TABLES:
                columns = "id INT AUTO_INCREMENT PRIMARY KEY, note TEXT, at DATETIME(6)"
                cursor.execute(f"CREATE TABLE shop.{name} ({columns})")
        with Proxy("127.0.0.1", server.port, address=(node.ADDRESS, 3306)):
            yield server


TABLES = ("orders", "customers", "products", "carts")


def write(server: MySQLServer) -> None:
    """Inserts rows into all tables, and updates and deletes some."""
    with server.connect(database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("SET cte_max_recursion_depth = 1000000")
        for name in TABLES:
            cursor.execute(
                f"INSERT INTO {name} (note, at) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                "WHERE i < %s) SELECT CONCAT(SHA2(i, 256), SHA2(RAND(), 256)), NOW(6) FROM n",
                (_ROWS,),
            )
            cursor.execute(f"UPDATE {name} SET note = CONCAT('of ', note) WHERE id % 7 = 0")
            cursor.execute(f"DELETE FROM {name} WHERE id % 11 = 0")


@pytest.fixture(scope="module")
def cluster(source: MySQLServer, store: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The page's steps up to the first run; executors ask for less of the processor. No run starts by itself."""
    namespace = Cluster()
    namespace.secrets = (source.password, ROOT_SECRET)
    namespace.kubectl("apply", "-f", str(FOLDER / "access.yaml"))
    folder = tmp_path_factory.mktemp("cluster")
    secret = {"SHOP_PASSWORD": source.password, "AWS_ACCESS_KEY_ID": ROOT_KEY, "AWS_SECRET_ACCESS_KEY": ROOT_SECRET}
    variables = folder / "stratalog.env"
    variables.write_text("".join(f"{name}={value}\n" for name, value in secret.items()))
    namespace.kubectl("create", "secret", "generic", "stratalog", f"--from-env-file={variables}")
    conf = PIPELINE["spark"]["conf"] | {"spark.kubernetes.executor.request.cores": "100m"}
    (claim,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "PersistentVolumeClaim")
    namespace.apply(*volume(folder / "state"), claim, config(PIPELINE["spark"] | {"conf": conf}))
    (cron,) = (copy.deepcopy(manifest) for manifest in MANIFESTS if manifest["kind"] == "CronJob")
    shrink(cron["spec"]["jobTemplate"]["spec"]["template"]["spec"])
    namespace.apply(cron | {"spec": cron["spec"] | {"suspend": True}})
    yield namespace
    namespace.kubectl("delete", "namespace", "stratalog")
    namespace.kubectl("delete", "persistentvolume", "stratalog")


def test_a_run_by_two_executors(cluster: Cluster, source: MySQLServer) -> None:
    write(source)
    cluster.start("first")
    executors = until(lambda: pods if len(pods := cluster.executors()) == 2 else None, "two executors run")
    driver = cluster.driver("first")
    texts = cluster.kubectl("get", "pods,configmaps,jobs", "-o", "yaml") + cluster.environment_page(driver)
    assert "spark.kubernetes.executor.secretKeyRef" in texts
    assert cluster.ended("first") == "Complete", cluster.log("first")
    texts += cluster.log("first")
    for pod in executors:
        assert pod["metadata"]["ownerReferences"][0]["name"] == driver
        assert POD_TEMPLATE["spec"]["securityContext"].items() <= pod["spec"]["securityContext"].items()
    assert not any(secret in texts for secret in cluster.secrets)
    assert not re.search(r"\[Stage|SQLConf", texts)
    until(lambda: not cluster.executors(), "executors end with the run")
    cluster.require_equal("verify-first")


def test_an_executor_that_is_killed_costs_no_row(cluster: Cluster, source: MySQLServer, store: Gateway) -> None:
    start_until_silver(cluster, source, store, "second")
    cluster.kill(cluster.executors()[0]["metadata"]["name"])
    assert cluster.ended("second") == "Complete", cluster.log("second")
    cluster.require_equal("verify-second")


def test_a_driver_that_is_killed_costs_no_row(cluster: Cluster, source: MySQLServer, store: Gateway) -> None:
    start_until_silver(cluster, source, store, "third")
    cluster.kill(cluster.driver("third"))
    assert cluster.ended("third") == "Failed"
    until(lambda: not cluster.items("pods", "-l", "spark-role=executor"), "Kubernetes removes its executors")
    cluster.start("fourth")
    assert cluster.ended("fourth") == "Complete", cluster.log("fourth")
    cluster.require_equal("verify-fourth")


def test_a_run_by_a_connect_server(cluster: Cluster, source: MySQLServer) -> None:
    cluster.apply(config({"remote": "sc://stratalog-connect:15002"}))
    manifests = list(yaml.safe_load_all((FOLDER / "connect.yaml").read_text(encoding="utf-8")))
    shrink(manifests[0]["spec"]["template"]["spec"])
    cluster.apply(*manifests)
    cluster.kubectl("rollout", "status", "deployment/stratalog-connect", f"--timeout={_PATIENCE}s")
    write(source)
    cluster.start("fifth")
    assert cluster.ended("fifth") == "Complete", cluster.log("fifth")
    assert cluster.items("pods", "-l", "spark-role=executor") == []
    cluster.require_equal("verify-fifth")


def start_until_silver(cluster: Cluster, source: MySQLServer, store: Gateway, job: str) -> None:
    """Starts a run over new rows, and waits until silver has a data file of it."""
    write(source)
    before = silver_files(store)
    cluster.start(job)
    until(lambda: silver_files(store) - before, "silver has a new data file")


def silver_files(store: Gateway) -> set[str]:
    with suppress(FileNotFoundError):
        return {name for name in store.names(BUCKET, "stratalog/silver") if name.endswith(".parquet")}
    return set()
