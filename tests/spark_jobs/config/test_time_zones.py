from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.config.time_zones import zone_of

WINTER = datetime(2030, 1, 17, tzinfo=UTC)


@pytest.mark.parametrize(
    "name, minutes",
    [
        ("+00:00", 0),
        ("-03:30", -210),
        ("+5:30", 330),
        ("+14:00", 840),
        ("UTC", 0),
        ("Europe/Berlin", 60),
        ("America/St_Johns", -210),
    ],
)
def test_offsets_and_names_are_zones(name: str, minutes: int) -> None:
    zone = zone_of(name)
    assert zone is not None
    assert WINTER.astimezone(zone).utcoffset() == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    "name", ["SYSTEM", "", "02:00", "+2", "+02:60", "+24:00", "Europe/Atlantis", "../etc/passwd", "/etc"]
)
def test_anything_else_is_none(name: str) -> None:
    assert zone_of(name) is None
