"""Spark as processes of its own. Put here: starting them from pyspark's own jars, and ending them. Not here: tests."""

import os
import re
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyspark
import pytest

from spark_jobs.config.store import LakeStore
from spark_jobs.runtime.provision import class_archive, delta_jars
from spark_jobs.runtime.server_conf import server_confs
from spark_jobs.runtime.spark_session import SILENT_CLASSES
from spark_jobs.storage import store_access
from tests.cluster.deployments import LOCAL, Bucket, Deployment, stratalog
from tests.fix_spark import LIGHT
from tests.fix_store import KIND
from tests.fix_store import Server as StoreServer
from tests.services.azurite import ACCOUNT_KEY, KEY
from tests.services.gateway import ACCESS, ROOT_KEY, ROOT_SECRET, SECRET

HOME = Path(pyspark.__file__).parent
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_PATIENCE = 120
KEYS = {KEY: ACCOUNT_KEY} if KIND == "azure" else {ACCESS: ROOT_KEY, SECRET: ROOT_SECRET}
"""Of the store that is tested, for the environment of processes."""


def environment(python: str = sys.executable, **variables: str) -> dict[str, str]:
    """Of a process of Spark's on this machine, whose tasks run in the Python of these tests."""
    return os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python} | variables


@dataclass
class Program:
    """A process of Spark's, whose output is kept in a file. It ends with the ``with`` block."""

    command: list[str]
    log: Path
    environment: dict[str, str] = field(default_factory=environment)
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=self.environment
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait_for(self, pattern: str) -> str:
        """The first group of a pattern in what it has printed, once it is there."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            text = self.log.read_text(encoding="utf-8", errors="replace")
            if match := re.search(pattern, text):
                return match[1]
            assert self._process is not None
            assert self._process.poll() is None, f"{self.command[0]} ended:\n{text[-3000:]}"
            time.sleep(0.1)
        raise AssertionError(f"{self.log} has no {pattern} after {_PATIENCE} s")


@dataclass
class Server:
    """A Spark Connect server."""

    program: Program

    @property
    def remote(self) -> str:
        port = self.program.wait_for(r"Spark Connect server started at: \S*?:(\d+)")
        return f"sc://127.0.0.1:{port}"


def connect_server(
    log: Path,
    master: str = "local[2]",
    *,
    confs: dict[str, str] | None = None,
    python: str = sys.executable,
    **variables: str,
) -> Server:
    """A Connect server with Delta, on a free port. The caller enters its program. variables: of its environment."""
    archive = class_archive()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": str(log.parent / "warehouse"),
        "spark.jars": ",".join(map(str, delta_jars())),
        # A server loads the classes of a session; kept ones halve the processor time of its start.
        "spark.driver.extraJavaOptions": f"-XX:SharedArchiveFile={archive} {SILENT_CLASSES}" if archive else "",
        **DELTA,
    }
    settings = {key: value for key, value in (settings | (confs or {})).items() if value}
    command = [
        *(str(HOME / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", master, *(f"--conf={key}={value}" for key, value in settings.items()), "spark-internal"),
    ]
    return Server(Program(command, log, environment(python, SPARK_CONNECT_MODE="0", **variables)))


class Cluster:
    """A standalone master with two workers of one core each, each with its own folder. It ends with the block."""

    def __init__(self, folder: Path, python: str = sys.executable, **variables: str) -> None:
        self._folder = folder
        self._environment = environment(python, SPARK_DAEMON_JAVA_OPTS=LIGHT, SPARK_DAEMON_MEMORY="256m", **variables)
        self._programs = ExitStack()
        self.workers: list[Program] = []
        self.url = ""

    def __enter__(self) -> Self:
        master = self._start_program("Master", "master", "--port", "0", "--webui-port", "0")
        self.url = master.wait_for(r"Starting Spark master at (spark://\S+)")
        for _ in range(2):
            self.add_worker()
        return self

    def __exit__(self, *_: object) -> None:
        self._programs.close()

    def add_worker(self) -> Program:
        name = f"worker-{len(self.workers)}"
        options = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self._folder / name))
        worker = self._start_program("Worker", name, *options, self.url)
        worker.wait_for(r"(Successfully registered) with master")
        self.workers.append(worker)
        return worker

    def executors(self) -> list[int]:
        """Processes of executors that run now."""
        return [pid for worker in self.workers for pid in self.executors_of(worker)]

    def executors_of(self, worker: Program) -> list[int]:
        """Those of them that a worker has started."""
        executors = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
                if parent == str(worker.pid) and b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                    executors.append(int(folder.name))
        return executors

    def _start_program(self, kind: str, name: str, *options: str) -> Program:
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        command += ["--host", "127.0.0.1", *options]
        return self._programs.enter_context(Program(command, self._folder / f"{name}.log", self._environment))


DeploymentFactory = Callable[..., Deployment]


@pytest.fixture(scope="session")
def deployments() -> Iterator[DeploymentFactory]:
    """Makes pipelines over recorded logs (cluster/ways.py), whose processes end with the run."""
    with ExitStack() as stack:

        def make(*arguments: Any, **options: Any) -> Deployment:
            deployment = Deployment(*arguments, **options)
            stack.callback(deployment.close)
            return deployment

        yield make


@pytest.fixture(scope="session")
def local_demo(deployments: DeploymentFactory, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """The recorded demo, taken in by a session of the process itself."""
    deployment = deployments(tmp_path_factory.mktemp("local") / "demo", LOCAL, is_demo=True)
    deployment.run("run")
    return deployment


@pytest.fixture(scope="session")
def local_verbs(
    deployments: DeploymentFactory, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], dict[str, Counter[str]]]:
    """What every verb left and printed by a session of the process itself."""
    deployment = deployments(tmp_path_factory.mktemp("local") / "verbs", LOCAL)
    return deployment.every_verb(), deployment.tables()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The run's only standalone cluster; a test that ends a part of it makes its own."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The run's only Connect server, whose workers start warm as those of a local session do."""
    log = tmp_path_factory.mktemp("connect") / "server.log"
    server = connect_server(log, confs={"spark.python.daemon.module": "spark_jobs.runtime.python_daemon"})
    with server.program:
        yield server


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``stratalog package`` writes of the environment of the tests."""
    path = tmp_path_factory.mktemp("archive") / "stratalog.tar.gz"
    ran = stratalog("package", "--to", path)
    assert ran.status == 0, ran.err
    assert ran.out.startswith(f"{path}: stratalog 0.1.0 (code ")
    return path


@pytest.fixture(scope="session")
def shared_bucket(store_server: StoreServer) -> LakeStore:
    """One bucket of all tests: a server is started with the settings of its bucket."""
    name = f"b-{uuid.uuid4().hex[:12]}"
    store_server.make_bucket(name)
    return store_server.store(name)


@pytest.fixture
def stored_lake(store_server: StoreServer, shared_bucket: LakeStore, store_keys: None) -> Bucket:
    """A lake of the test's own in the shared bucket, which the test's process reaches, too."""
    store_access.register_store(shared_bucket)
    keys = {"lake": f"{shared_bucket.root}/lake-{uuid.uuid4().hex[:12]}", "store": store_server.keys()}
    return Bucket(keys, KEYS)


@pytest.fixture(scope="session")
def keyed_server(shared_bucket: LakeStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Connect server as the page has it: with the settings that runtime/server_conf.py gives, and keys in its
    environment.
    """
    log = tmp_path_factory.mktemp("connect") / "server.log"
    server = connect_server(log, confs=server_confs(shared_bucket), **KEYS)
    with server.program:
        yield server


@pytest.fixture(scope="session")
def keyed_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose workers have the store's keys in their environment."""
    with Cluster(tmp_path_factory.mktemp("cluster"), **KEYS) as cluster:
        yield cluster
