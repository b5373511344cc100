from datetime import datetime

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.log.gtid import DomainGtids, MysqlGtids
from spark_jobs.log.location import parse_location, parse_start, parse_time
from spark_jobs.log.position import Position

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    "text, kind, expected",
    [
        ("mysql-bin.000042:1337", Position, "mysql-bin.000042:1337"),
        ("2/mysql-bin.000042:4", Position, "2/mysql-bin.000042:4"),
        (f"{UUID}:1-5:blue:7", MysqlGtids, f"{UUID}:1-5:blue:7"),
        (f" {UUID.upper()}:1-5,\n{UUID}:6", MysqlGtids, f"{UUID}:1-6"),
        (UUID.replace("-", "") + ":1", MysqlGtids, f"{UUID}:1"),
        ("0-1-100", DomainGtids, "0-1-100"),
        ("0-1-100, 1-2-3", DomainGtids, "0-1-100,1-2-3"),
        ("2026-1-31", DomainGtids, "2026-1-31"),
        ("2026-13-21", DomainGtids, "2026-13-21"),
        ("2026-11-21,0-1-100", DomainGtids, "0-1-100,2026-11-21"),
        ("2026-11-21T08:00:00Z", datetime, "2026-11-21 08:00:00+00:00"),
        ("2026-11-21t08:00:00.5+01:00", datetime, "2026-11-21 08:00:00.500000+01:00"),
        ("2026-11-21 08:00:00.123456-00:30", datetime, "2026-11-21 08:00:00.123456-00:30"),
    ],
)
def test_a_place_is_told_by_its_form(text: str, kind: type, expected: str) -> None:
    location = parse_location(text)
    assert isinstance(location, kind)
    assert str(location) == expected
    assert parse_start(text) == location


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "is not a position, GTID set or time"),
        ("yesterday", "is not a position, GTID set or time"),
        ("earliest", "is not a position, GTID set or time"),
        ("mysql-bin.000042", "is not a position, GTID set or time"),
        ("2026-11-21", "'2026-11-21' is not a time; write it like 2026-11-21T08:00:00"),
        ("2026-11", "is not a position, GTID set or time"),
        ("2026-11-21T08:00:00", "has no offset from UTC; write it like 2026-11-21T08:00:00Z or"),
        ("2026-13-21T08:00:00Z", "is not a time: month must be in 1..12"),
        ("2026-11-21T08:00:00.1234567Z", "is not a position, GTID set or time"),
        (f"{UUID}:5-1", "is not a GTID set: '5-1': numbers go upward"),
        ("0-1-100,0-2-5", "is not a GTID set: domain 0 is there twice"),
    ],
)
def test_what_is_no_place_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_location(text)


def test_names_are_starts() -> None:
    assert (parse_start("earliest"), parse_start("latest")) == ("earliest", "latest")


def test_a_time_by_itself() -> None:
    assert parse_time("2026-11-21T08:00:00+01:00") == datetime.fromisoformat("2026-11-21T07:00:00+00:00")
    with pytest.raises(ConfigError, match="is not a time; write it like"):
        parse_time("noon")
