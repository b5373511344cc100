"""A Trino server of this machine, with Delta's and Iceberg's connectors over a folder.

Put here: fetching, starting and ending it. Not here: queries (read.py).

The archive is Maven's ``io.trino:trino-server``, which ``mvn`` fetches and Ivy does not. 476 is the newest whose
archive is there. It needs Java 24: TRINO_JAVA names a JDK's folder.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import made_once
from tests.services.server_process import free_port
from tests.services.waiting import wait_for

VERSION = "476"
JAVA = 24
"""The oldest Java that this version runs on."""
_OPENED = (
    *("java.base/java.nio=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED"),
    "java.base/java.lang.invoke=ALL-UNNAMED",
)

_PROBLEM = re.compile(r"(?m)^\d+\) .*")
"""Lines of the log that say why a server ends as it starts."""


def installed() -> Path:
    """The folder of the server, which is fetched at first use: 820 MB. Raises ConfigError."""
    maven = shutil.which("mvn")

    def fetch(folder: Path) -> None:
        if maven is None:
            raise ConfigError("Trino's archive is fetched by mvn, which is not on the PATH")
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            artifact = f"-Dartifact=io.trino:trino-server:{VERSION}:tar.gz"
            command = [maven, "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={scratch}"]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                raise ConfigError(f"Trino was not fetched: {result.stdout.strip()[-300:]}")
            (archive,) = Path(scratch).glob("*.tar.gz")
            subprocess.run(["tar", "xzf", str(archive), "-C", str(folder), "--strip-components=1"], check=True)

    return made_once(f"trino-server-{VERSION}", fetch)


def java() -> str:
    """A Java that is new enough. Raises ConfigError."""
    candidates = [os.environ.get("TRINO_JAVA"), os.environ.get("JAVA_HOME"), *map(str, Path("/usr/lib/jvm").glob("*"))]
    for home in filter(None, candidates):
        program = Path(home, "bin", "java")
        release = Path(home, "release")
        if program.is_file() and release.is_file():
            text = release.read_text().partition('JAVA_VERSION="')[2].partition('"')[0]
            if int(text.partition(".")[0] or 0) >= JAVA:
                return str(program)
    raise ConfigError(f"Trino {VERSION} needs Java {JAVA}: name a JDK's folder by TRINO_JAVA")


class Trino:
    """A server until the ``with`` block ends. lake: the folder whose tables are registered by name."""

    def __init__(self, folder: Path, lake: Path) -> None:
        home, self.port = installed(), free_port()
        etc = folder / "etc"
        (etc / "catalog").mkdir(parents=True)
        settings = {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(self.port),
            "discovery.uri": f"http://127.0.0.1:{self.port}",
            "query.max-memory-per-node": "400MB",
            "memory.heap-headroom-per-node": "200MB",
        }
        # Iceberg's metadata has the locations of files, which Trino knows as local: alone in its own file system.
        delta = {
            "connector.name": "delta_lake",
            "delta.register-table-procedure.enabled": "true",
            "hive.metastore": "file",
            "hive.metastore.catalog.dir": "local:///metastore_delta",
            "fs.native-local.enabled": "true",
            "local.location": str(lake),
        }
        iceberg = {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "TESTING_FILE_METASTORE",
            "iceberg.register-table-procedure.enabled": "true",
            "hive.metastore.catalog.dir": f"file://{folder}/metastore",
            "fs.hadoop.enabled": "true",
        }
        for name, lines in {
            "config.properties": settings,
            "catalog/delta.properties": delta,
            "catalog/iceberg.properties": iceberg,
        }.items():
            (etc / name).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._log = (folder / "trino.log").open("w")
        options = [f"--add-opens={item}" for item in _OPENED]
        command = [java(), "-Xmx1500m", "-XX:+UseSerialGC", *options, "-Dnode.environment=test", "-Dnode.id=test"]
        command += ["-Dnode.bind-ip=127.0.0.1", "-Dnode.internal-address=127.0.0.1"]
        command += ["--add-modules=jdk.incubator.vector", "-Dfile.encoding=UTF-8"]
        command += ["-Djdk.attach.allowAttachSelf=true"]
        command += [
            f"-Dconfig={etc}/config.properties",
            f"-Dnode.data-dir={folder}/data",
            f"-Dplugin.dir={home}/plugin",
        ]
        command += [f"-Dcatalog.config-dir={etc}/catalog", "-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"]
        self._process = subprocess.Popen(command, cwd=folder, stdout=self._log, stderr=subprocess.STDOUT)
        self.log = folder / "trino.log"

    def wait(self, seconds: float = 300) -> None:
        """Waits until it is up. Raises RuntimeError where it ends before."""

        def is_up() -> bool:
            if self._process.poll() is not None:
                problems = _PROBLEM.findall(self.log.read_text())
                raise RuntimeError(f"Trino ended: {' '.join(problems)}")
            return "======== SERVER STARTED ========" in self.log.read_text()

        wait_for("Trino", is_up, seconds)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
