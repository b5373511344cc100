from datetime import UTC, datetime

import pytest

from spark_jobs.binlog import Moment
from spark_jobs.ddl import session_time
from spark_jobs.errors import Unsupported

AT = datetime(2030, 3, 17, 17, 46, 40, tzinfo=UTC)


@pytest.mark.parametrize(
    "digits, micros, expected",
    [(0, None, 0), (0, 999_999, 0), (1, 999_999, 900_000), (3, 123_999, 123_000), (6, 1, 1)],
)
def test_a_fraction_is_cut_off(digits: int, micros: int | None, expected: int) -> None:
    assert session_time.now(Moment(1_900_000_000, micros), digits) == AT.replace(microsecond=expected)


@pytest.mark.parametrize(
    "zone, expected",
    [
        ("+00:00", "2030-03-17 17:46:40"),
        ("-03:30", "2030-03-17 14:16:40"),
        ("+14:00", "2030-03-18 07:46:40"),
        ("UTC", "2030-03-17 17:46:40"),
        ("Europe/Berlin", "2030-03-17 18:46:40"),
        ("America/New_York", "2030-03-17 13:46:40"),
    ],
)
def test_what_clocks_show_is_an_instant_again(zone: str, expected: str) -> None:
    assert session_time.local(AT, zone) == datetime.fromisoformat(expected)
    assert session_time.instant(datetime.fromisoformat(expected), zone) == AT


@pytest.mark.parametrize("expected", ["2026-03-29 02:30:00", "2026-10-25 02:30:00"])
def test_an_hour_that_comes_twice_or_never_is_refused(expected: str) -> None:
    with pytest.raises(Unsupported, match="comes twice, or never, in the time zone Europe/Berlin"):
        session_time.instant(datetime.fromisoformat(expected), "Europe/Berlin")


@pytest.mark.parametrize("zone", [None, "SYSTEM", "system", "../../etc/passwd", "Europe/Atlantis", ""])
def test_a_zone_that_is_not_known_is_refused(zone: str | None) -> None:
    with pytest.raises(Unsupported, match="time zone"):
        session_time.local(AT, zone)


@pytest.mark.parametrize(
    "logged, system, zone",
    [
        ("SYSTEM", "Europe/Berlin", "Europe/Berlin"),
        ("system", "+02:00", "+02:00"),
        ("SYSTEM", None, "SYSTEM"),
        ("+00:00", "Europe/Berlin", "+00:00"),
        (None, "Europe/Berlin", None),
    ],
)
def test_the_configured_zone_stands_for_the_server_s_own_alone(
    logged: str | None, system: str | None, zone: str | None
) -> None:
    assert session_time.with_zone(Moment(1, 2, logged), system) == Moment(1, 2, zone)
    assert session_time.with_zone(None, system) is None
