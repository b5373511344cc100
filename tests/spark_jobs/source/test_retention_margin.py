import time
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from pymysql.cursors import Cursor

from spark_jobs.bronze.extract import plan
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline, Retention
from spark_jobs.config.servers import MySQL
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import ConfigError, SourceError
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.status import require_readable, status
from spark_jobs.source.files import Files
from spark_jobs.source.open import open_sources
from spark_jobs.source.retention_margin import Margin, file_started_at, margin
from spark_jobs.source.server import Server
from tests.binlogs.gtid_logs import land
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT
from tests.services.servers import build_of

SPEC = SegmentSpec([Table("shop.t", key=["id"], id=INT.NOT_NULL)], [Insert("shop.t", (1,)), Commit()])
SIZE = len(SPEC.to_bytes())


@pytest.fixture
def source(tmp_path: Path) -> Files:
    """Three files, begun 90 minutes apart."""
    for number in (3, 4, 5):
        SPEC.second = 1_700_000_000 + number * 5400
        (tmp_path / f"b.{number:06d}").write_bytes(SPEC.to_bytes())
    return Files("shop", tmp_path)


@pytest.mark.parametrize(
    "checkpoint, size, hours",
    [
        ("b.000002:900", 0, 0.0),  # the file is purged, and bronze has all of it
        ("b.000003:4", 0, 0.0),
        ("b.000003:100", 96, 0.0),
        ("b.000004:4", SIZE, 1.5),
        ("b.000005:100", 2 * SIZE + 96, 3.0),
    ],
)
def test_a_margin_is_what_the_source_has_before_a_position(
    source: Files, checkpoint: str, size: int, hours: float
) -> None:
    assert margin(source, source.log(), Position.parse(checkpoint)) == Margin(size, hours, "b.000003")


@pytest.mark.mysql
def test_a_live_server_tells_when_its_files_werebegun(tmp_path: Path) -> None:
    with MySQLServer(tmp_path) as running, running.connect() as connection, connection.cursor() as cursor:
        settings = {"host": running.host, "port": running.port, "user": running.user, "password": running.password}
        server = Server("shop", MySQL.model_validate(settings))
        cursor.execute("FLUSH BINARY LOGS")
        oldest = server.log().end.file
        cursor.execute("DO SLEEP(1.1)")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute(f"PURGE BINARY LOGS TO '{oldest}'")
        listed = server.log()
        retention_margin = margin(server, listed, listed.end)
        times = [file_started_at(server.reading(), file.name) for file in listed.files]
    assert (retention_margin.oldest, retention_margin.bytes) == (oldest, sum(file.size for file in listed.files) - 4)
    assert retention_margin.hours is not None
    assert 0 <= retention_margin.hours < 0.1
    assert 1 <= times[-1] - times[0] < 60
    assert retention_margin.shortage(Retention(margin=timedelta(hours=1))) is not None


def test_hours_are_unknown_where_a_file_is_gone_by_then(source: Files, caplog: pytest.LogCaptureFixture) -> None:
    listed = source.log()
    (source.directory / "b.000003").unlink()
    assert margin(source, listed, Position("b.000005", 4)) == Margin(2 * SIZE, None, "b.000003")
    assert "how old the log is stays unknown" in caplog.text


@pytest.mark.parametrize(
    "retention_margin, limits, message",
    [
        (Margin(500, 3.0, "b.000009"), Retention(), None),
        (Margin(500, 3.0, "b.000009"), Retention(margin=timedelta(hours=3), margin_bytes=500), None),
        (
            Margin(500, 2.5, "b.000009"),
            Retention(margin=timedelta(hours=3)),
            "only 2.5 hours of log before what is yet to be read (b.000009 is its oldest file), less than retention",
        ),
        (Margin(500, 3.0, "b.000009"), Retention(margin_bytes=501), "only 500 bytes of log before"),
        (Margin(500, None, "b.000009"), Retention(margin=timedelta(hours=3)), None),
        (Margin(0, 0.0, "b.000001"), Retention(margin=timedelta(hours=3), margin_bytes=9), None),
    ],
)
def test_a_shortage_is_below_a_limit_of_a_log_that_was_purged(
    retention_margin: Margin, limits: Retention, message: str | None
) -> None:
    shortage = retention_margin.shortage(limits)
    assert (shortage is None) == (message is None)
    assert message is None or message in str(shortage)


@pytest.mark.thorough
@pytest.mark.mysql
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_a_server_whose_purge_comes_near_is_warned_of_and_what_it_purged_has_two_ways_on(
    tmp_path: Path, name: str
) -> None:
    """As a user meets it: in ``status``, in ``check --connect``, and in the run."""
    try:
        build = build_of(name)
    except ConfigError as config_error:
        pytest.skip(str(config_error))
    with (
        MySQLServer(tmp_path / "server", {}, build) as server,
        server.connect() as connection,
        connection.cursor() as cursor,
    ):
        pipeline = _pipeline(tmp_path, server, "earliest")
        lake, (source,) = lake_of(pipeline), open_sources("shop", pipeline.sources["shop"])
        for statement in ("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)", "FLUSH BINARY LOGS"):
            cursor.execute(statement)
        land(lake.bronze("shop"), source)
        first, oldest = source.log().files[0].name, source.log().end.file
        assert _messages(pipeline) == (None, None), "it still has all of its log"

        _purge(cursor, oldest)
        cursor.execute("DO SLEEP(2.1)")  # two seconds are the least that is not 0.000 hours
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("INSERT INTO shop.t VALUES (1)")
        land(lake.bronze("shop"), source)
        warning, error = _messages(pipeline)
        assert error is None
        assert "hours of log before what is yet to be read" in str(warning)
        assert f"({oldest} is its oldest file), less than retention.margin, 1 hours" in str(warning)
        source_status = status(pipeline, lake, "shop")
        assert (source_status.retention_margin_bytes or 0) > 100
        assert 0 < (source_status.retention_margin_hours or 0) < 0.1
        with pytest.raises(SourceError, match=r"less than retention\.margin"):
            require_readable(pipeline, lake, "shop")

        file = source.log().end.file
        for statement in ("FLUSH BINARY LOGS", "INSERT INTO shop.t VALUES (2)", "FLUSH BINARY LOGS"):
            cursor.execute(statement)
        now = source.log().end.file
        _purge(cursor, now)
        remedies = (
            f"is gone from the source, whose oldest file is {now}; either have archived copies read into the same "
            "bronze (stratalog extract --source shop --archive DIR), or start under another source name with "
            "start: "
        )
        assert f"{file} {remedies}" in str(_messages(pipeline)[1])
        with pytest.raises(SourceError) as refused:
            plan(lake.bronze("shop"), source, "earliest")
        assert f"{file} {remedies}earliest" in str(refused.value)
        with pytest.raises(SourceError) as refused:  # a source that begins there
            plan(Lake(str(tmp_path / "other")).bronze("shop"), source, f"{first}:4")
        assert f"{first} {remedies}earliest" in str(refused.value)


def _purge(cursor: Cursor, file: str) -> None:
    """MariaDB keeps a file until it has noted, a moment after the next began, that no recovery needs it."""
    for _ in range(100):
        cursor.execute(f"PURGE BINARY LOGS TO '{file}'")
        cursor.execute("SHOW BINARY LOGS")
        if cursor.fetchall()[0][0] == file:
            return
        time.sleep(0.1)
    raise AssertionError(f"the server keeps files before {file}")


def _pipeline(folder: Path, server: MySQLServer, start: str) -> Pipeline:
    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    document = {
        "lake": "./lake",
        "sources": {"shop": {"mysql": login, "start": start}},
        "tables": ["shop.*"],
        "retention": {"margin": "1h"},
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(folder / "pipeline.yaml")


def _messages(pipeline: Pipeline) -> tuple[str | None, str | None]:
    source_status = status(pipeline, lake_of(pipeline), "shop")
    return source_status.warning, source_status.error
