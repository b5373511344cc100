"""A TiDB server as a target of deliveries: one process that keeps its rows in memory.

The program is found on the PATH (tidb-server), or by STRATALOG_TIDB; no registry has it (tests/README.md).

Put here: how it is found and started. Not here: MySQL and MariaDB (servers.py).
"""

import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest
from pymysql.cursors import Cursor

from spark_jobs.errors import ConfigError
from tests.services.server_process import ServerProcess, free_port

PROGRAM = "STRATALOG_TIDB"
_START_SECONDS = 60


def tidb_or_skip(directory: Path) -> "TiDBServer":
    """Skips the test where the program is not here."""
    try:
        return TiDBServer(directory)
    except ConfigError as error:
        pytest.skip(str(error))


class TiDBServer(ServerProcess):
    """TiDB over its embedded store. Raises ConfigError where the program is not here."""

    host = "127.0.0.1"

    def __init__(self, directory: Path) -> None:
        super().__init__(free_port(), tls=False)
        program = os.environ.get(PROGRAM) or shutil.which("tidb-server")
        if program is None:
            raise ConfigError(f"tidb is not here: name its program in {PROGRAM} (tests/README.md)")
        directory.mkdir(parents=True, exist_ok=True)
        folders = {"path": "store", "log-file": "tidb.log", "log-slow-query": "slow.log", "temp-dir": "temp"}
        listens = [f"--host={self.host}", f"-P={self.port}", "--socket=", "--report-status=false"]
        options = [f"--{option}={directory / name}" for option, name in folders.items()]
        self.launch([program, "--store=unistore", *options, *listens], os.environ)
        self._await_login()

    def connect(self) -> "pymysql.Connection[Cursor]":
        """A connection as root, autocommitting."""
        return pymysql.Connection(host=self.host, port=self.port, user="root", autocommit=True)

    def _await_login(self) -> None:
        """It listens before it lets anybody in."""
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            with suppress(pymysql.MySQLError, OSError), self.connect():
                return
            time.sleep(0.2)
        self.stop()
        raise TimeoutError("TiDB lets nobody in")

    def stop(self) -> None:
        try:
            super().stop()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
