"""The tables of servers."""

from pathlib import Path

import pytest

from spark_jobs.config.loader import from_keys
from spark_jobs.operations.observation.discovery import tables_in_scope
from tests.fix_mysql import Database


@pytest.mark.mysql
def test_tables_in_scope_of_servers_that_answer(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
    database.execute("CREATE TABLE audit (id INT PRIMARY KEY)")
    database.execute("CREATE VIEW latest AS SELECT * FROM orders")
    server = database.server
    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    sources = {"shop": {"mysql": login}, "gone": {"mysql": login | {"port": 1}}, "archive": {"files": "."}}
    tables = [f"{database.name}.*", "!*.audit"]
    pipeline = from_keys({"lake": "./lake", "sources": sources, "tables": tables}, tmp_path / "pipeline.yaml")
    assert tables_in_scope(pipeline) == {("shop", database.name, "orders")}
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("gone: ")
    assert warning.endswith("the graph shows the tables that runs have seen")
