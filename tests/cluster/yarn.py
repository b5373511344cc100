"""A YARN of this machine with two nodes, and HDFS: Hadoop's own ResourceManager, NodeManagers, NameNode and DataNode.

``python -m tests.cluster.yarn`` fetches their jars beforehand.

Put here: starting and ending them, and what runs in their containers. Not here: what a run makes of them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self
from xml.sax.saxutils import escape

from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import Artifact, jars, java_program
from tests.fix_cluster import HOME, Program, environment
from tests.services.server_process import free_port
from tests.services.waiting import wait_for

VERSION = "3.5.0"
HADOOP = (
    Artifact(
        "org.apache.hadoop",
        "hadoop-client-minicluster",
        VERSION,
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
    ),
    Artifact(
        "org.bouncycastle",
        "bcprov-jdk18on",
        "1.82",
        "14cde2fdfaa8890480a8e5b67aceef0c90f96682c1e23c133bafdc9e0b3255ce",
    ),
    Artifact(
        "org.bouncycastle",
        "bcpkix-jdk18on",
        "1.82",
        "bdc723e20834832ac6af136cb5b5ff05e43b71d4fa151cc6510d9212ee086e63",
    ),
    Artifact(
        "org.bouncycastle",
        "bcutil-jdk18on",
        "1.82",
        "4420691958ad1c0ba275a6d6d8a6317adbdbdc9277055b6a72aa89c88cda8c7d",
    ),
)
"""Hadoop's servers, of the version whose client pyspark has, and what the ResourceManager does not load without."""
NODES = ("127.0.0.2", "127.0.0.3")
"""Addresses of the loopback device, one a node."""
EXECUTOR, MASTER = b"YarnCoarseGrainedExecutorBackend", b"org.apache.spark.deploy.yarn.ExecutorLauncher"
"""Classes by which a container's process is known: an executor, the application's master."""
_YARN, _HDFS = "org.apache.hadoop.yarn.server", "org.apache.hadoop.hdfs.server"
_PATIENCE = 90


def hadoop_jars() -> list[Path]:
    """The jars of servers, fetched at first use. Raises ConfigError."""
    return jars(f"hadoop-servers-{VERSION}", "Hadoop's servers for the tests (66 MB)", HADOOP)


class Yarn:
    """One ResourceManager, two NodeManagers, and HDFS with one DataNode. They end with the ``with`` block.

    Args:
        folder: a new one.
        settings: of yarn-site.xml, beside those that are here.
        variables: of the NodeManagers' environment.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.conf = folder, folder / "conf"
        self._programs = ExitStack()
        self.nodes: dict[str, Program] = {}
        self._settings, self._variables = dict(settings or {}), dict(variables or {})
        client = [jar for name in ("hadoop-client", "*slf4j*", "log4j") for jar in HOME.glob(f"jars/{name}-*.jar")]
        self._class_path = ":".join(map(str, [self.conf, *hadoop_jars(), *client]))
        java = shutil.which(java_program())
        assert java
        self.java_home = str(Path(java).resolve().parents[1])
        self.hdfs, self._web, self._hdfs_web = (f"127.0.0.1:{free_port()}" for _ in range(3))

    def __enter__(self) -> Self:
        self._configure()
        self.hadoop(f"{_HDFS}.namenode.NameNode", "-format", "-nonInteractive")
        try:
            self._start_program("namenode", f"{_HDFS}.namenode.NameNode")
            self._start_program("datanode", f"{_HDFS}.datanode.DataNode")
            self._start_program("resourcemanager", f"{_YARN}.resourcemanager.ResourceManager")
            for node in NODES:
                self.start_node(node)
            self.wait_until_whole()
        except BaseException:
            self._programs.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._programs.close()
        for pid in self.containers(b""):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def variables(self) -> dict[str, str]:
        """Of the environment of a run."""
        return {"HADOOP_CONF_DIR": str(self.conf)}

    def hadoop(self, program: str, *arguments: str) -> str:
        """What a program of Hadoop's prints."""
        command = self._command(program, *arguments, options=("-Dorg.apache.logging.log4j.level=ERROR",))
        ended = subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def dfs(self, *arguments: str) -> str:
        return self.hadoop("org.apache.hadoop.fs.FsShell", *arguments)

    def start_node(self, node: str) -> None:
        self.nodes[node] = self._start_program(node, f"{_YARN}.nodemanager.NodeManager", **self._variables)

    def wait_until_whole(self) -> None:
        """Until all nodes of YARN and HDFS are there."""
        not_yet = (OSError, LookupError, TypeError)  # nothing listens, there are no nodes
        wait_for("all nodes are there", self._is_whole, _PATIENCE, pause=0.1, retried=not_yet)

    def _is_whole(self) -> bool:
        nodes = self.ask("nodes?states=RUNNING")["nodes"]["node"]
        state = _json(f"http://{self._hdfs_web}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState")["beans"][0]
        return len(nodes) == len(NODES) and state["NumLiveDataNodes"] == 1

    def ask(self, path: str) -> Any:
        """The ResourceManager, by its web service."""
        return _json(f"http://{self._web}/ws/v1/cluster/{path}")

    def containers(self, kind: bytes, node: str = "") -> list[int]:
        """Processes in containers of a node, or of all, whose command line has some bytes."""
        return [pid for pid, _ in self._processes(kind, node)]

    def node_of(self, kind: bytes) -> str:
        """The node on which the first such process is."""
        folder = next(folder for _, folder in self._processes(kind, ""))
        return next(node for node in NODES if (self.folder / node) in folder.parents)

    def _processes(self, kind: bytes, node: str) -> Iterator[tuple[int, Path]]:
        """The id of each, and the folder of its container."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                folder = (process / "cwd").readlink()
                if (self.folder / node) in folder.parents and kind in (process / "cmdline").read_bytes():
                    yield int(process.name), folder

    def _start_program(self, name: str, program: str, **variables: str) -> Program:
        options = (f"-Dnode.host={name}", f"-Dnode.folder={self.folder / name}")
        command = self._command(program, options=options)
        return self._programs.enter_context(
            Program(command, self.folder / f"{name}.log", self._environment(**variables))
        )

    def _command(self, program: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        light = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return [f"{self.java_home}/bin/java", *light, *options, "-cp", self._class_path, program, *arguments]

    def _environment(self, **variables: str) -> dict[str, str]:
        return environment(HADOOP_CONF_DIR=str(self.conf), JAVA_HOME=self.java_home, **variables)

    def _configure(self) -> None:
        self.conf.mkdir(parents=True)
        folder, any_port = self.folder, "127.0.0.1:0"
        addresses = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
        sites = {
            "core-site": {"fs.defaultFS": f"hdfs://{self.hdfs}", "hadoop.tmp.dir": str(folder / "scratch")},
            "hdfs-site": {
                "dfs.namenode.name.dir": f"file://{folder}/namenode",
                "dfs.datanode.data.dir": f"file://{folder}/datanode",
                "dfs.namenode.http-address": self._hdfs_web,
                "dfs.datanode.address": any_port,
                "dfs.datanode.http.address": any_port,
                "dfs.datanode.ipc.address": any_port,
                "dfs.replication": "1",
            },
            "capacity-scheduler": {
                "yarn.scheduler.capacity.root.queues": "default,ingest",
                "yarn.scheduler.capacity.root.default.capacity": "50",
                "yarn.scheduler.capacity.root.ingest.capacity": "50",
                "yarn.scheduler.capacity.root.ingest.maximum-capacity": "100",
                "yarn.scheduler.capacity.root.ingest.user-limit-factor": "2",
                "yarn.scheduler.capacity.maximum-am-resource-percent": "0.5",
            },
            "yarn-site": {
                **{f"yarn.resourcemanager.{name}": f"127.0.0.1:{free_port()}" for name in addresses},
                "yarn.resourcemanager.webapp.address": self._web,
                "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
                "yarn.nm.liveness-monitor.expiry-interval-ms": "5000",
                "yarn.nodemanager.address": "${node.host}:0",
                "yarn.nodemanager.localizer.address": "${node.host}:0",
                "yarn.nodemanager.collector-service.address": "${node.host}:0",
                "yarn.nodemanager.webapp.address": "${node.host}:0",
                "yarn.nodemanager.local-dirs": "${node.folder}/local",
                "yarn.nodemanager.log-dirs": "${node.folder}/logs",
                "yarn.nodemanager.resource.memory-mb": "3072",
                "yarn.nodemanager.resource.cpu-vcores": "2",
                "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
                # Without it a NodeManager leaves limits of memory to control groups, which need root.
                "yarn.nodemanager.resource.memory.enforced": "false",
                "yarn.nodemanager.vmem-check-enabled": "false",  # a JVM takes 3 GB of addresses
                "yarn.nodemanager.container-monitor.interval-ms": "500",
                "yarn.scheduler.minimum-allocation-mb": "256",
                "yarn.scheduler.maximum-allocation-mb": "3072",
                **self._settings,
            },
        }
        for name, site in sites.items():
            (self.conf / f"{name}.xml").write_text(_xml(site), encoding="utf-8")


def _xml(site: Mapping[str, str]) -> str:
    properties = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in site.items()
    )
    return "\n".join(["<configuration>", *properties, "</configuration>\n"])


def _json(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 -- of this machine
        return json.load(answer)


if __name__ == "__main__":
    try:
        hadoop_jars()
    except ConfigError as error:
        sys.exit(str(error))
