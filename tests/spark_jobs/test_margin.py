from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs.config import MySQL, Retention
from spark_jobs.demo.server import MySQLServer
from spark_jobs.margin import Margin, begun, margin
from spark_jobs.position import Position
from spark_jobs.source.files import Files
from spark_jobs.source.server import Server
from tests.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.segment_types import INT

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
    "held, size, hours",
    [
        ("b.000003:4", 0, 0.0),
        ("b.000003:100", 96, 0.0),
        ("b.000004:4", SIZE, 1.5),
        ("b.000005:100", 2 * SIZE + 96, 3.0),
    ],
)
def test_a_margin_is_what_the_source_has_before_a_position(source: Files, held: str, size: int, hours: float) -> None:
    assert margin(source, source.log(), Position.parse(held)) == Margin(size, hours, "b.000003")


@pytest.mark.mysql
def test_a_live_server_tells_when_its_files_werebegun(tmp_path: Path) -> None:
    with MySQLServer(tmp_path) as running, running.connect() as connection, connection.cursor() as cursor:
        given = {"host": running.host, "port": running.port, "user": running.user, "password": running.password}
        server = Server("shop", MySQL.model_validate(given))
        cursor.execute("FLUSH BINARY LOGS")
        oldest = server.log().end.file
        cursor.execute("DO SLEEP(1.1)")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute(f"PURGE BINARY LOGS TO '{oldest}'")
        listed = server.log()
        found = margin(server, listed, listed.end)
        times = [begun(server.reading(), one.name) for one in listed.files]
    assert (found.oldest, found.bytes) == (oldest, sum(one.size for one in listed.files) - 4)
    assert found.hours is not None
    assert 0 <= found.hours < 0.1
    assert 1 <= times[-1] - times[0] < 60
    assert found.shortage(Retention(margin=timedelta(hours=1))) is not None


def test_hours_are_unknown_where_a_file_is_gone_by_then(source: Files, caplog: pytest.LogCaptureFixture) -> None:
    listed = source.log()
    (source.directory / "b.000003").unlink()
    assert margin(source, listed, Position("b.000005", 4)) == Margin(2 * SIZE, None, "b.000003")
    assert "how old the log is stays unknown" in caplog.text


@pytest.mark.parametrize(
    "found, limits, said",
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
    found: Margin, limits: Retention, said: str | None
) -> None:
    shortage = found.shortage(limits)
    assert (shortage is None) == (said is None)
    assert said is None or said in str(shortage)
