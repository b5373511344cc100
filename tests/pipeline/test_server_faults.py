"""What befalls a server, and the lake's disk: bronze is the server's files all the same, and tables are its rows."""

import resource
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.bronze.export import export
from spark_jobs.bronze.extract import land, plan
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import LakeError, SourceError
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.archive import read_archive
from spark_jobs.pipeline.run import extract_source, run_source
from spark_jobs.runtime import jvm
from spark_jobs.source.open import open_source
from tests.fix_pipeline import rows

pytestmark = [pytest.mark.spark, pytest.mark.by_spark, pytest.mark.mysql, pytest.mark.thorough]

SOURCE = "shop"
ROOM = 1 << 20
"""Bytes that a file may have on a disk that is as good as full."""


def execute(server: MySQLServer, *statements: str) -> tuple[tuple[object, ...], ...]:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        records: tuple[tuple[object, ...], ...] = cursor.fetchall()
        return records


def configured(folder: Path, server: MySQLServer) -> Pipeline:
    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"lake": "./lake", "sources": {SOURCE: {"mysql": login}}, "tables": ["shop.*"]}))
    return load(path)


def keep(server: MySQLServer, folder: Path) -> None:
    """Copies the files that the server has now, but for the one that it is writing."""
    folder.mkdir(exist_ok=True)
    for file in sorted(server.data.glob("mysql-bin.0*"))[:-1]:
        shutil.copy(file, folder)


def below(pid: int) -> Iterator[int]:
    """A process and all that it started: Spark's Python workers write files too."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text(encoding="ascii").split():
            yield from below(int(child))


@contextmanager
def full_disk(spark: SparkSession) -> Iterator[None]:
    """Files that the session writes end at ``ROOM`` bytes with an error, as on a disk without room for more."""
    process = jvm.process()
    assert process
    limits = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in below(process.pid)}
    for pid, (_, hard) in limits.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (ROOM, hard))
    try:
        yield
    finally:
        for pid in {*limits} & {*below(process.pid)}:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits[pid])


def test_a_server_and_a_disk_through_their_faults(spark: SparkSession, tmp_path: Path) -> None:
    with MySQLServer(tmp_path / "server") as server:
        pipeline = configured(tmp_path, server)
        bronze = lake_of(pipeline).bronze(SOURCE)
        execute(
            server,
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id INT PRIMARY KEY, note LONGBLOB)",
            "INSERT INTO shop.t VALUES (1, 'one'), (2, 'two')",
        )
        extract_source(spark, pipeline, SOURCE)

        execute(server, "UPDATE shop.t SET note = 'before a restart' WHERE id = 1")
        server.restart()  # the file ends in STOP, and another begins
        execute(server, "INSERT INTO shop.t VALUES (3, 'after a restart')")
        extract_source(spark, pipeline, SOURCE)
        server.kill()  # no STOP, and the flag of a file in use stays
        server.start()
        execute(server, "INSERT INTO shop.t VALUES (4, 'after a crash')")
        extract_source(spark, pipeline, SOURCE)

        execute(  # the clock of the server is set back; the log's order is not that of its times
            server,
            "SET timestamp = UNIX_TIMESTAMP() - 86400",
            "UPDATE shop.t SET note = 'a day ago, and later' WHERE id = 2",
            "SET timestamp = UNIX_TIMESTAMP() - 172800",
            "UPDATE shop.t SET note = 'two days ago, and last' WHERE id = 2",
        )

        blob = secrets.token_bytes(3 * ROOM).hex()
        execute(server, f"INSERT INTO shop.t VALUES (5, x'{blob}')")
        before = bronze.head()
        with full_disk(spark), pytest.raises(LakeError, match="lake/bronze/shop"):
            extract_source(spark, pipeline, SOURCE)
        assert bronze.head() == before
        extract_source(spark, pipeline, SOURCE)

        execute(server, "UPDATE shop.t SET note = 'before a purge' WHERE id = 4", "FLUSH BINARY LOGS")
        execute(server, "INSERT INTO shop.t VALUES (6, 'behind it')", "FLUSH BINARY LOGS")
        execute(server, "INSERT INTO shop.t VALUES (7, 'still there')")
        keep(server, tmp_path / "kept")
        source = open_source(SOURCE, pipeline.sources[SOURCE])
        planned = plan(bronze, source, "earliest")
        last = execute(server, "SHOW MASTER STATUS")[0][0]
        execute(server, f"PURGE BINARY LOGS TO '{last}'")
        before = bronze.head()
        with pytest.raises(SourceError, match=r"^shop: mysql-bin\.\d+:\d+: .*Could not find first log file"):
            land(spark, bronze, planned, source.reading(), 0.0)
        with pytest.raises(SourceError, match=r"is gone from the source, whose oldest file is .*--archive DIR"):
            extract_source(spark, pipeline, SOURCE)
        assert bronze.head() == before
        read_archive(spark, pipeline, SOURCE, tmp_path / "kept")

        _, outcome = run_source(spark, pipeline, SOURCE)
        assert not outcome.stopped
        actual = [(number, bytes(note)) for number, note in rows(lake_of(pipeline).downstream("shop", "t"))]
        assert actual == sorted(execute(server, "SELECT id, note FROM shop.t"))
        keep(server, tmp_path / "kept")
        shutil.copy(server.data / str(last), tmp_path / "kept")
        archived = {file.name: _closed(file) for file in (tmp_path / "kept").iterdir()}
        files = list(export(spark, lake_of(pipeline), SOURCE, tmp_path / "out"))
        assert {file.path.name: file.path.read_bytes() for file in files} == archived


def _closed(file: Path) -> bytes:
    """With its flag for being in use cleared, as a dump clears it."""
    content = bytearray(file.read_bytes())
    content[4 + 17] &= 0xFE
    return bytes(content)
