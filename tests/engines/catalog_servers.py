"""Servers of Iceberg catalogs: the REST catalog of Iceberg's test fixtures, moto's Glue, and a Hive metastore.

Put here: fetching, starting and ending them. Not here: what is registered (test_catalogs.py).
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import java_program, made_once, spark_home
from tests.engines.matrix import environment
from tests.services.server_process import ServerProcess, free_port

_POM = Path(__file__).with_name("rest-catalog.xml")
_HIVE_SITE = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "NONE",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
    "hive.in.test": "true",
}


class CatalogServer(ServerProcess):
    """A server until the ``with`` block ends. properties: of the catalog, as pipeline.yaml has them."""

    def __init__(self, command: Sequence[str], port: int, properties: dict[str, str], **variables: str) -> None:
        super().__init__(port, tls=False)
        self.properties = properties
        self._command, self._variables = command, variables

    def __enter__(self) -> Self:
        self.launch(self._command, {**os.environ, **self._variables})
        return self


def rest(folder: Path) -> CatalogServer:
    """Iceberg's REST catalog, with its tables in SQLite. Raises ConfigError."""
    maven = shutil.which("mvn")

    def fetch(into: Path) -> None:
        if maven is None:
            raise ConfigError("the REST catalog's jars are fetched by mvn, which is not on the PATH")
        shutil.copy(_POM, into / "pom.xml")
        command = [maven, "-q", "-B", "-f", str(into / "pom.xml"), "dependency:copy-dependencies"]
        result = subprocess.run([*command, f"-DoutputDirectory={into}"], capture_output=True, text=True, check=False)
        if result.returncode:
            raise ConfigError(f"the REST catalog was not fetched: {result.stdout.strip()[-300:]}")

    # Hadoop's classes are those of Spark.
    jars = made_once(f"rest-catalog-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:16]}", fetch)
    port = free_port()
    hadoop = [str(jar) for jar in spark_home().glob("jars/hadoop-client-*.jar")]
    command = [java_program(), "-cp", ":".join([f"{jars}/*", *hadoop]), "org.apache.iceberg.rest.RESTCatalogServer"]
    variables = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": f"file://{folder}",
        "CATALOG_URI": f"jdbc:sqlite:file:{folder}/catalog.db",
    }
    return CatalogServer(command, port, {"type": "rest", "uri": f"http://127.0.0.1:{port}"}, **variables)


def glue(_: Path) -> CatalogServer:
    """AWS Glue as moto has it. Raises ConfigError."""
    port = free_port()
    command = [str(environment()), "-c", "from moto.server import main; main()", "-p", str(port)]
    properties = {"type": "glue", "glue.endpoint": f"http://127.0.0.1:{port}", "glue.region": "eu-west-1"}
    return CatalogServer(command, port, properties)


def hive(folder: Path) -> CatalogServer:
    """The Hive metastore of Spark's jars, over Derby in memory."""
    entries = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in _HIVE_SITE.items())
    (folder / "hive-site.xml").write_text(f"<configuration>{''.join(entries)}</configuration>")
    port = free_port()
    command = [
        java_program(),
        f"-Dderby.stream.error.file={folder}/derby.log",
        "-cp",
        f"{folder}:{spark_home()}/jars/*",
    ]
    command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    return CatalogServer(command, port, {"type": "hive", "uri": f"thrift://127.0.0.1:{port}"})
