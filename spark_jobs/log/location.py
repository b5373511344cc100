"""Locations in a log as users name them: ``start:``, and ``--from`` and ``--to``.

Put here: which kinds of locations there are, and their text. Not here: where one lies in a log (source/seek.py).
"""

import re
from datetime import datetime
from typing import Literal

from spark_jobs.errors import ConfigError
from spark_jobs.log.gtid import DomainGtids, Gtids, MysqlGtids, parse_gtids
from spark_jobs.log.position import Position, Range

LogLocation = Position | MysqlGtids | DomainGtids | datetime
"""A position; a GTID set: before the first transaction that is not in it; a time: where the last one before it ends."""

EARLIEST: Literal["earliest"] = "earliest"
LATEST: Literal["latest"] = "latest"
"""Ends of a log."""

Start = Literal["earliest", "latest"] | LogLocation

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d(?:\.\d{1,6})?)([Zz]|[+-]\d\d:\d\d)?")
_DATE = re.compile(r"(19|20)\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
"""Text that is a GTID of MariaDB by its form, and that its user means as a day."""
_POSITION = re.compile(r".*\.\d+:\d+")


def parse_location(text: str) -> LogLocation:
    """The location that a text names; its form decides which kind. Raises ConfigError."""
    text = text.strip()
    if _TIME.fullmatch(text) or _DATE.fullmatch(text):
        return parse_time(text)
    if _POSITION.fullmatch(text):
        return Position.parse(text)
    if re.fullmatch(r"[0-9A-Fa-f-]{32,36}\s*:.*|\d+-\d+-\d+\s*(,.*)?", text, re.DOTALL):
        return parse_gtids(text)
    raise ConfigError(
        f"{text!r} is not a position, GTID set or time; write a position like mysql-bin.000042:1337, a GTID set like "
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-100 or 0-1-100, or a time and its offset like 2026-11-21T08:00:00+01:00"
    )


def parse_start(text: str) -> Start:
    """The start that a text names: ``earliest``, ``latest`` or a location. Raises ConfigError."""
    match text:
        case "earliest" | "latest":
            return text
        case _:
            return parse_location(text)


def require_locations(start: str | None, stop: str | None) -> None:
    """Check two locations for errors that show without looking for them. Raises ConfigError."""
    problems: dict[str, str] = {}
    positions: list[Position] = []
    for key, text in (("from", start), ("to", stop)):
        try:
            location = parse_location(text) if text else None
        except ConfigError as error:
            problems[key] = str(error)
        else:
            positions += [location] if isinstance(location, Position) else []
    if problems:
        raise ConfigError(problems)
    # Without its stretch in front, a position is known by its file's name alone; bronze says of which stretch that is.
    if len(positions) == 2 and positions[0].file.rpartition(".")[0] == positions[1].file.rpartition(".")[0]:
        first, last = positions
        if (start or "").partition(":")[0].count("/") == (stop or "").partition(":")[0].count("/"):
            Range(first, last)


def parse_time(text: str) -> datetime:
    """A time of RFC 3339, to the microsecond. Raises ConfigError."""
    match = _TIME.fullmatch(text)
    if not match:
        raise ConfigError(f"{text!r} is not a time; write it like 2026-11-21T08:00:00+01:00")
    if not match[3]:
        raise ConfigError(f"{text!r} has no offset from UTC; write it like {text}Z or {text}+01:00")
    try:
        return datetime.fromisoformat(f"{match[1]}T{match[2]}{match[3].upper()}")
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a time: {error}") from error


__all__ = [
    "EARLIEST",
    "LATEST",
    "Gtids",
    "LogLocation",
    "Start",
    "parse_location",
    "parse_start",
    "parse_time",
    "require_locations",
]
