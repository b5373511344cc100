"""The servers that tests know, as data. Put here: how each is found and started. Not here: fixtures (fix_servers.py).

Three are fetched like the demo's (spark_jobs/runtime/provision.py). The others are taken from folders that
STRATALOG_SERVERS names, each the root of an installed or merely unpacked server, and from the programs on the PATH. A
folder is run with its own shared libraries, the C library included where it has one.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spark_jobs.demo.server import MYSQL_8_0, Build
from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import MARIADB_11_4, MYSQL_5_7, made_once, server_dist

FOLDERS = "STRATALOG_SERVERS"
FETCHED = ("mysql-5.7", "mysql-8.0", "mariadb-11.4")
SERVERS = ("mysql-5.7", "mysql-8.0", "mysql-9.7", "mariadb-10.11", "mariadb-11.4", "mariadb-11.8")

_LOADER = "ld-linux-x86-64.so.2"
_NO_METADATA: dict[str, object] = {"binlog_row_metadata": None, "mysqlx": None}
_MARIADB: dict[str, object] = {
    "gtid_mode": None,
    "enforce_gtid_consistency": None,
    "gtid_strict_mode": "ON",
    "mysqlx": None,
    "secure_file_priv": None,
}
_MARIADB_TABLES = ("mariadb_system_tables.sql", "mariadb_system_tables_data.sql")
_MARIADB_TABLES_10 = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")


@dataclass(frozen=True, slots=True)
class Program:
    """A server program of some folder; and the loader to run it by with the folder of its libraries."""

    folder: Path
    program: Path
    loader: tuple[Path, Path] | None

    @property
    def words(self) -> tuple[str, ...]:
        if self.loader is None:
            return (str(self.program),)
        loader, libraries = self.loader
        return (str(loader), "--library-path", str(libraries), str(self.program))

    def version(self) -> str | None:
        """What it says of itself, as in ``mariadb-10.11.19``; None where it does not run here."""
        command = [*self.words, "--no-defaults", "--version"]
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        match = re.search(r"Ver (\d+\.\d+\.\d+)(-MariaDB)?", output)
        return f"{'mariadb' if match[2] else 'mysql'}-{match[1]}" if match else None


def build_of(server: str) -> Build:
    """How a server of SERVERS is started here. Raises ConfigError where it is not here."""
    match server:
        case "mysql-8.0":
            return MYSQL_8_0
        case "mysql-5.7":
            return Build(MYSQL_5_7.folder, lambda: server_dist(MYSQL_5_7), options=_NO_METADATA)
        case "mariadb-11.4":
            return Build(
                MARIADB_11_4.folder,
                lambda: server_dist(MARIADB_11_4),
                ("bin/mariadbd",),
                options=_MARIADB | _certificate_options(),
                initialise="--bootstrap",
                tables=_MARIADB_TABLES,
            )
    for version, program in _programs_by_version().items():
        if version.startswith(f"{server}."):
            return _build(version, program)
    raise ConfigError(f"{server} is not here: name its folder in {FOLDERS} (tests/README.md)")


def _certificate_options() -> dict[str, object]:
    """Options for a certificate that is made once: without one MariaDB makes itself a key of 4,096 bits at each start.

    That takes three to eight seconds of a processor, of four to nine in all that the server needs to start.
    """
    folder = made_once("mariadb-certificate", _make_certificate)
    return {"ssl_cert": folder / "server.pem", "ssl_key": folder / "server.key"}


def _make_certificate(folder: Path) -> None:
    files = ("-keyout", str(folder / "server.key"), "-out", str(folder / "server.pem"))
    subject = ("-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", "/CN=tests")
    subprocess.run(["openssl", "req", "-x509", *subject, *files], check=True, capture_output=True)


def tool_of(server: str, *names: str) -> list[str] | None:
    """The command of a tool that comes with the server, such as mysqlbinlog; None where it has none."""
    for version, program in _programs_by_version().items():
        for tool in (program.folder / "usr" / "bin" / name for name in names):
            if version.startswith(f"{server}.") and tool.is_file():
                return [*program.words[:-1], str(tool)]
    return None


@cache
def _programs_by_version() -> dict[str, Program]:
    programs = [program for folder in _folders() for program in _programs(folder)]
    return {version: program for program in reversed(programs) if (version := program.version())}


def _folders() -> Iterator[Path]:
    yield from (Path(folder) for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder)
    for name in ("mysqld", "mariadbd"):
        if executable := shutil.which(name, path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"):
            yield Path(executable).parents[2]


def _programs(folder: Path) -> Iterator[Program]:
    libraries = folder / "usr" / "lib" / "x86_64-linux-gnu"
    is_bundled = folder != Path("/") and libraries.is_dir()
    loader = next(
        (folder_path / _LOADER for folder_path in (libraries, Path("/lib64")) if (folder_path / _LOADER).is_file()),
        None,
    )
    for name in ("mysqld", "mariadbd"):
        for bin_folder in ("usr/sbin", "usr/bin", "sbin", "bin"):
            program = folder / bin_folder / name
            if program.is_file() and not program.is_symlink():
                yield Program(folder, program, (loader, libraries) if is_bundled and loader else None)


def _build(version: str, program: Program) -> Build:
    base = program.folder / "usr" if (program.folder / "usr").is_dir() else program.folder
    if version.startswith("mysql"):
        options = {"innodb_log_file_size": None, "innodb_redo_log_capacity": "64M"}
        return Build(version, lambda: base, program.words, "share/mysql", options)
    share = "share/mysql" if (base / "share" / "mysql").is_dir() else "share/mariadb"
    is_11 = (base / share / _MARIADB_TABLES[0]).is_file()
    names = _MARIADB_TABLES if is_11 else _MARIADB_TABLES_10
    mariadb_options = _MARIADB | (_certificate_options() if is_11 else {})
    return Build(version, lambda: base, program.words, share, mariadb_options, "--bootstrap", names)
