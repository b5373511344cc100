"""Connections that are cut while a server is extracted: identical bytes, or an error and tables as they were."""

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.bronze.export import export
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import SourceError
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.run import extract_source
from spark_jobs.source import binlog_dump
from tests.services.proxy import Proxy

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.thorough]


def pipeline(folder: Path, server: MySQLServer, port: int) -> Pipeline:
    login = {"host": server.host, "port": port, "user": server.user, "password": server.password}
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"lake": "./lake", "sources": {"shop": {"mysql": login}}}))
    return load(path)


def write(server: MySQLServer, *statements: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def exported(spark: SparkSession, configured: Pipeline, folder: Path) -> dict[str, bytes]:
    """Bronze as files."""
    return {file.path.name: file.path.read_bytes() for file in export(spark, lake_of(configured), "shop", folder)}


def on_disk(server: MySQLServer) -> dict[str, bytes]:
    files = {}
    for path in sorted(server.data.glob("mysql-bin.0*")):
        content = bytearray(path.read_bytes())
        content[4 + 17] &= 0xFE  # a file's in-use flag
        files[path.name] = bytes(content)
    return files


@pytest.mark.usefixtures("tasks_here")
def test_bronze_is_the_servers_files_or_as_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binlog_dump, "BACK_OFF", 0.01)  # 31 seconds of waiting before a server is given up
    with MySQLServer(tmp_path / "server", {"ssl": "OFF"}) as server:  # a proxy sees where a dump begins
        write(server, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, note LONGTEXT)")
        write(server, *(f"INSERT INTO shop.t VALUES ({n}, REPEAT('x', {n} * 1000))" for n in range(1, 60)))
        write(server, "FLUSH BINARY LOGS", "UPDATE shop.t SET note = 'short'", "INSERT INTO shop.t VALUES (99, '')")
        # A source's first two dumps read heads of files alone and leave: whether they would be cut is a race.
        heads = [1 << 30, 1 << 30]
        with Proxy(server.host, server.port, [*heads, 500_000, 100, 200_000, 2_000]) as proxy:
            configured = pipeline(tmp_path, server, proxy.port)
            extract_source(spark, configured, "shop")
            assert proxy.cut == 4
        assert exported(spark, configured, tmp_path / "first") == on_disk(server)
        write(server, "DELETE FROM shop.t WHERE id > 30")
        before = lake_of(configured).bronze("shop").head()
        with Proxy(server.host, server.port, [300] * 100) as proxy:
            configured = pipeline(tmp_path, server, proxy.port)
            with pytest.raises(SourceError, match=r"^shop: mysql-bin\.000002:\d+: .*Lost connection.*; tried 6 times$"):
                extract_source(spark, configured, "shop")
        assert lake_of(configured).bronze("shop").head() == before
        configured = pipeline(tmp_path, server, server.port)
        extract_source(spark, configured, "shop")
        assert exported(spark, configured, tmp_path / "second") == on_disk(server)
