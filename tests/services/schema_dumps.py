"""Schema dumps of running servers, by the servers' own tools where they are here.

Put here: making one. Not here: what is read out of it (spark_jobs/schema/mysqldump.py).
"""

import subprocess

from spark_jobs.demo.server import MySQLServer
from tests.services.servers import tool_of

_TOOLS = {"mysql-5.7": "mariadb-10.11", "mysql-8.0": "mysql-9.7", "mariadb-11.4": "mariadb-10.11"}
"""Whose mysqldump talks to a server that has none of its own here."""


def execute(server: MySQLServer, *statements: str) -> tuple[tuple[object, ...], ...]:
    """The rows of the last one."""
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return tuple(cursor.fetchall())


def dump_position(server: MySQLServer) -> str:
    """The end of the server's log, as a position."""
    try:
        ((file, offset, *_),) = execute(server, "SHOW MASTER STATUS")
    except Exception:  # noqa: BLE001 - MySQL from 8.4 on has another word for it
        ((file, offset, *_),) = execute(server, "SHOW BINARY LOG STATUS")
    return f"{file}:{offset}"


def schema_dump(name: str, server: MySQLServer, database: str, *options: str) -> tuple[str, str]:
    """The dump of a database of a running server with its position, and which program wrote it."""
    tool_name = _TOOLS.get(name, name)
    tool = tool_of(tool_name, "mysqldump", "mariadb-dump")
    if tool is None:
        return _dump_text(server, database), "SHOW CREATE TABLE"
    # A user of its own: what the server's other user may not do is tested on the same server.
    execute(
        server,
        "SET sql_log_bin = 0",
        f"CREATE USER IF NOT EXISTS dumper@'%' IDENTIFIED BY '{server.password}'",
        "GRANT ALL ON *.* TO dumper@'%'",
    )
    login = [f"--host={server.host}", f"--port={server.port}", "--user=dumper", f"--password={server.password}"]
    location = "--source-data=2" if tool_name.startswith("mysql") else "--master-data=2"
    arguments = ["--no-data", location, "--triggers", "--routines", *options, "--databases", database]
    process = subprocess.run([*tool, "--no-defaults", *login, *arguments], capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode()
    return process.stdout.decode(), f"mysqldump of {tool_name}"


def _dump_text(server: MySQLServer, database: str) -> str:
    """What mysqldump would write of its tables."""
    file, offset = dump_position(server).split(":")
    lines = [
        "-- MySQL dump 10.13  Distrib 5.7.22, for Linux (x86_64)",
        "/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;",
        f"-- CHANGE MASTER TO MASTER_LOG_FILE='{file}', MASTER_LOG_POS={offset};",
        f"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `{database}` /*!40100 DEFAULT CHARACTER SET latin1 */;",
        f"USE `{database}`;",
    ]
    for table, *_ in execute(server, f"SHOW FULL TABLES IN `{database}` WHERE Table_type = 'BASE TABLE'"):
        ((_, create),) = execute(server, f"SHOW CREATE TABLE `{database}`.`{table}`")
        lines += [f"DROP TABLE IF EXISTS `{table}`;", f"{create};"]
    return "\n".join([*lines, "-- Dump completed on 2026-11-22 12:00:00", ""])
