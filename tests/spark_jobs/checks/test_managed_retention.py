"""Retention at managed services. RDS's table is made on a server of our own; variables of services are given."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.checks.managed_retention import AURORA, AZURE, CLOUD_SQL, RDS, Service, service_of, service_retention
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import SourceError
from tests.fix_servers import Servers
from tests.spark_jobs.checks.test_server import check

HOURS = "binlog retention hours"
RDS_CALL = f"CALL mysql.rds_set_configuration('{HOURS}', 72)"


def no_table(_: str) -> list[dict[str, Any]]:
    return []


@pytest.mark.parametrize(
    "variables, service",
    [
        ({"version": "8.0.12", "basedir": "/usr/", "version_comment": "MySQL Community Server - GPL"}, None),
        ({"version": "11.4.5-MariaDB", "basedir": "/usr"}, None),
        ({"version": "8.0.39", "basedir": "/rdsdbbin/mysql-8.0.39.R1/"}, RDS),
        ({"version": "10.11.8-MariaDB-log", "datadir": "/rdsdbdata/db/"}, RDS),
        ({"version": "8.0.39", "basedir": "/rdsdbbin/oscar-8.0.mysql_aurora.3.08.0/"}, AURORA),
        ({"version": "8.0.39", "aurora_version": "3.08.0", "basedir": "/usr"}, AURORA),
        ({"version": "8.0.37-azure", "version_comment": "MySQL Community Server (GPL)"}, AZURE),
        ({"version": "8.0.31-google", "version_comment": "(Google)"}, CLOUD_SQL),
    ],
)
def test_a_service_is_told_by_its_variables(variables: dict[str, str], service: Service | None) -> None:
    assert service_of(variables, no_table) == service


@pytest.mark.parametrize("service", [AZURE, CLOUD_SQL])
def test_without_a_limit_a_service_removes_files_at_once(service: Service) -> None:
    (result,) = service_retention(service, no_table, timedelta(hours=48), "binlog_expire_logs_seconds", None)
    assert result.status == "problem"
    assert "as soon as it can" in result.value
    assert "binlog_expire_logs_seconds" in result.remedy
    assert "172800" in result.remedy


def test_a_table_that_cannot_be_read_is_a_warning() -> None:
    def refused(_: str) -> list[dict[str, Any]]:
        raise SourceError("SELECT command denied")

    (result,) = service_retention(RDS, refused, None, "expire_logs_days", None)
    assert (result.status, result.value) == (
        "warning",
        "Amazon RDS; its setting cannot be read: SELECT command denied",
    )
    assert result.remedy == f"see it by CALL mysql.rds_show_configuration; set it by {RDS_CALL}"
    assert service_of({"version": "8.0.39"}, refused) is None


@pytest.fixture(params=["mysql-8.0", "mariadb-11.4"])
def server(request: pytest.FixtureRequest, servers: Servers) -> Iterator[MySQLServer]:
    """A server with the table that RDS has; its value is NULL until the procedure was called."""
    server = servers.get(request.param)
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE mysql.rds_configuration (name VARCHAR(100), value VARCHAR(100))")
        cursor.execute(f"INSERT INTO mysql.rds_configuration VALUES ('{HOURS}', NULL), ('target delay', '0')")
        try:
            yield server
        finally:
            cursor.execute("DROP TABLE mysql.rds_configuration")


@pytest.mark.mysql
@pytest.mark.parametrize(
    "hours, margin, status, value",
    [
        (None, None, "problem", f"Amazon RDS, {HOURS}: not set: the service removes log files as soon as it can"),
        ("72", None, "ok", f"Amazon RDS, {HOURS}: 72"),
        ("12", None, "warning", f"Amazon RDS, {HOURS}: 12"),
        ("24", "2d", "problem", f"Amazon RDS, {HOURS}: 24, less than retention.margin, 2 days"),
    ],
)
def test_what_rds_keeps_is_what_its_table_says(
    server: MySQLServer, tmp_path: Path, hours: str | None, margin: str | None, status: str, value: str
) -> None:
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE mysql.rds_configuration SET value = %s WHERE name = %s", (hours, HOURS))
    keys = {"retention": {"margin": margin}} if margin else {}
    result = check(tmp_path, server, **keys)["log retention"]
    assert result.status == status
    assert result.value.startswith(value)
    if status != "ok":
        assert f"CALL mysql.rds_set_configuration('{HOURS}', {48 if margin else 72})" in result.remedy
