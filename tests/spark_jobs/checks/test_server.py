from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_jobs.checks import Check
from spark_jobs.checks.server import check_server
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.source.open import open_sources
from spark_jobs.source.server import Server
from tests.fix_mysql import database_of
from tests.fix_servers import Servers

SERVERS = ["mysql-8.0", "mysql-5.7", "mariadb-11.4"]

pytestmark = pytest.mark.mysql


def pipeline_of(folder: Path, server: MySQLServer, server_settings: dict[str, Any], **keys: Any) -> Pipeline:
    settings = {
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "password": server.password,
    } | server_settings
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"lake": "x", "sources": {"shop": {"mysql": settings}}} | keys))
    return load(path)


def check(folder: Path, server: MySQLServer, user: dict[str, Any] | None = None, **keys: Any) -> dict[str, Check]:
    pipeline = pipeline_of(folder, server, user or {}, **keys)
    (source,) = open_sources("shop", pipeline.sources["shop"])
    assert isinstance(source, Server)
    return {result.name: result for result in check_server(pipeline, source)}


@contextmanager
def setting(server: MySQLServer, name: str, value: object) -> Iterator[None]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT @@GLOBAL.{name}")
        ((before,),) = cursor.fetchall()
        cursor.execute(f"SET GLOBAL {name} = {value!r}")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = {before!r}")


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_as_it_should_be_passes_every_check(tmp_path: Path, servers: Servers, name: str) -> None:
    server = servers.get(name)
    checks = check(tmp_path, server)
    assert {result.name: result for result in checks.values() if result.status != "ok"} == {}
    monitor = "BINLOG MONITOR" if "mariadb" in name else "REPLICATION CLIENT"
    assert {"connection", "server version", "log_bin", "binlog_format", "REPLICATION SLAVE", monitor} < set(checks)
    assert {"binlog_row_image", "binlog_row_metadata", "binlog_checksum", "GTID mode", "server_id"} < set(checks)
    assert {"SELECT", "log retention", "binlog filters", "log stream"} < set(checks)
    assert checks["connection"].value.startswith(f"127.0.0.1:{server.port} as {server.user}, ")
    assert checks["server version"].value.startswith("MariaDB 11.4" if "mariadb" in name else "MySQL ")


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    "variable, value, check_name, status",
    [
        ("binlog_format", "MIXED", "binlog_format", "problem"),
        ("binlog_format", "STATEMENT", "binlog_format", "problem"),
        ("binlog_row_image", "MINIMAL", "binlog_row_image", "warning"),
        ("binlog_checksum", "NONE", "binlog_checksum", "warning"),
    ],
)
def test_a_setting_names_what_to_type(
    tmp_path: Path, servers: Servers, name: str, variable: str, value: str, check_name: str, status: str
) -> None:
    server = servers.get(name)
    with setting(server, variable, value):
        result = check(tmp_path, server)[check_name]
    assert (result.status, result.value) == (status, value)
    assert f"SET GLOBAL {variable} = '" in result.remedy


@pytest.mark.parametrize("name", SERVERS)
def test_missing_privileges_are_named_by_the_statement_that_grants_them(
    tmp_path: Path, servers: Servers, name: str
) -> None:
    server = servers.get(name)
    keys = {"tables": ["shop.orders", "shop_2.*", "other.*"]}
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
        cursor.execute("CREATE USER few@'%' IDENTIFIED BY 'x'")
        try:
            cursor.execute("GRANT SELECT ON shop.orders TO few@'%'")
            cursor.execute("GRANT SELECT ON `shop\\_2`.* TO few@'%'")
            login = {"user": "few", "password": "x"}
            checks = check(tmp_path, server, login, **keys)
            grants = {result.name: result.remedy for result in checks.values() if result.status == "problem"}
            monitor = "BINLOG MONITOR" if "mariadb" in name else "REPLICATION CLIENT"
            assert grants == {
                "REPLICATION SLAVE": "GRANT REPLICATION SLAVE ON *.* TO 'few'@'%'",
                monitor: f"GRANT {monitor} ON *.* TO 'few'@'%'",
                "SELECT": "GRANT SELECT ON `other`.* TO 'few'@'%'",
            }
            for statement in grants.values():
                cursor.execute(statement)
            checks = check(tmp_path, server, login, **keys)
            assert [result for result in checks.values() if result.status == "problem"] == []
            assert (
                checks["SELECT"].value == "granted on other.*, shop_2.*, shop.orders" or checks["SELECT"].status == "ok"
            )
        finally:
            cursor.execute("DROP USER few@'%'")
            cursor.execute("DROP DATABASE shop")


def test_privileges_of_a_role_count(tmp_path: Path, servers: Servers) -> None:
    server = servers.get("mysql-8.0")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE reader")
        cursor.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO reader")
        cursor.execute("CREATE USER few@'%' IDENTIFIED BY 'x' DEFAULT ROLE reader")
        try:
            checks = check(tmp_path, server, {"user": "few", "password": "x"})
            assert [result for result in checks.values() if result.status != "ok"] == []
        finally:
            cursor.execute("DROP USER few@'%'")
            cursor.execute("DROP ROLE reader")


def test_a_log_that_is_kept_for_less_than_the_margin_is_a_problem(tmp_path: Path, servers: Servers) -> None:
    server = servers.get("mysql-8.0")
    keys = {"retention": {"margin": "2d"}}
    with setting(server, "binlog_expire_logs_seconds", 7200):
        assert check(tmp_path, server)["log retention"].status == "warning"
        result = check(tmp_path, server, **keys)["log retention"]
    assert (result.status, result.value) == (
        "problem",
        "binlog_expire_logs_seconds: 2 hours, less than retention.margin, 2 days",
    )
    assert "SET GLOBAL binlog_expire_logs_seconds = 172800" in result.remedy
    server = servers.get("mysql-5.7")
    with setting(server, "expire_logs_days", 3):
        assert check(tmp_path, server, **keys)["log retention"].value == "expire_logs_days: 3 days"


def execute(server: MySQLServer, *statements: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "option, tables, status",
    [
        ("binlog-ignore-db", ["shop.*"], "problem"),
        ("binlog-ignore-db", ["other.*"], "warning"),
        ("binlog-do-db", ["shop.*"], "warning"),
        ("binlog-do-db", ["other.*"], "problem"),
    ],
)
def test_schemas_that_the_server_does_not_log_are_named(
    tmp_path: Path, option: str, tables: list[str], status: str
) -> None:
    with MySQLServer(tmp_path / "server", {option: "shop"}) as server:
        result = check(tmp_path, server, tables=tables)["binlog filters"]
        for schema in ("shop", "other"):
            execute(server, f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
        of_all = check(tmp_path, server, tables=["*.*"])["binlog filters"]
    assert (result.status, result.value) == (status, f"{option}=shop")
    missing = "shop.t" if option == "binlog-ignore-db" else "other.t"
    assert (of_all.status, of_all.remedy.startswith(f"changes in {missing} are not logged")) == ("problem", True)


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_a_foreign_key_that_cascades_is_named_with_what_a_mend_needs(
    tmp_path: Path, servers: Servers, name: str
) -> None:
    server = servers.get(name)
    with database_of(server) as database:
        database.execute("CREATE TABLE p (id INT PRIMARY KEY)")
        database.execute(
            "CREATE TABLE c (id INT PRIMARY KEY, CONSTRAINT f FOREIGN KEY (id) REFERENCES p (id) ON DELETE CASCADE)"
        )
        keys: dict[str, Any] = {"tables": [f"{database.name}.p", f"{database.name}.c"]}
        warned = check(tmp_path, server, on_cascade="warn", **keys)
        unlogged = warned["unlogged changes"]
        assert (unlogged.status, "warn: the table continues" in unlogged.value) == ("warning", True)
        assert "or have it derived (on_cascade: apply)" in str(unlogged.remedy)
        # MariaDB names the position of a snapshot, MySQL locks the table to have one.
        if name == "mariadb-11.4":
            assert "LOCK TABLES" not in warned
        else:
            grant = f"GRANT LOCK TABLES ON `{database.name}`.* TO '{server.user}'@'%'"
            assert warned["LOCK TABLES"].remedy == f"stratalog mend needs it: {grant}"
            database.execute(grant)
            assert check(tmp_path, server, on_cascade="warn", **keys)["LOCK TABLES"].status == "ok"
        choices: list[dict[str, Any]] = [{"on_cascade": "apply"}, {}]
        for choice in choices:
            derived = check(tmp_path, server, **choice, **keys)
            assert (derived["unlogged changes"].status, "LOCK TABLES" in derived) == ("ok", False)


def test_a_server_without_a_log_is_one_problem(tmp_path: Path) -> None:
    options: dict[str, object] = {"log_bin": None, "skip_log_bin": "ON", "gtid_mode": None}
    with MySQLServer(tmp_path / "server", options | {"enforce_gtid_consistency": None}) as server:
        checks = check(tmp_path, server)
    assert [result.name for result in checks.values() if result.status == "problem"] == ["log_bin"]
    assert checks["log_bin"].remedy == "the server writes no binary log; start it with log_bin"


def test_a_server_that_does_not_answer_is_one_problem(tmp_path: Path, servers: Servers) -> None:
    server = servers.get("mysql-8.0")
    (result,) = check(tmp_path, server, {"password": "geheim"}).values()
    assert (result.name, result.status) == ("connection", "problem")
    assert result.remedy == f"check the user or password of '{server.user}'"
    assert "geheim" not in result.value
