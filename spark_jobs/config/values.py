"""Validation of single values of pipeline.yaml, with messages for the user.

Put here: functions that pydantic calls with one value, and the types made of them; each raises ValueError. Not here:
the keys (model.py).
"""

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
)

from spark_jobs.config.table_patterns import Pattern
from spark_jobs.config.time_zones import zone_of
from spark_jobs.errors import ConfigError
from spark_jobs.expressions.computed import type_text
from spark_jobs.expressions.condition import Condition
from spark_jobs.log.location import parse_location, parse_start

VARIABLE = re.compile(r"\$\{(\w+)\}")
SOURCE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPARK_CONNECT = re.compile(
    r"sc://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]{1,5})?(/(;|(;[^\s=;/?#]+=[^\s=;/?#]*)+)?)?", re.ASCII
)
"""Addresses that PySpark reads as they are meant: it leaves out what comes after ? and #, and its errors about options
have them whole."""


def start_text(text: str) -> str:
    try:
        parse_start(text)
    except ConfigError as error:
        raise ValueError(f"{error}; or write earliest or latest") from error
    return text


def zone_text(text: str) -> str:
    if zone_of(text) is None:
        raise ValueError("is neither an offset (+02:00) nor a time zone that is known here (Europe/Berlin)")
    return text


def pattern_text(text: str) -> str:
    try:
        Pattern.parse(text.removeprefix("!"))
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return text


def table_pattern(text: str) -> str:
    if text.startswith("!"):
        raise ValueError("lists the tables that are real; leave others out of the list instead of excluding them")
    return pattern_text(text)


def mode_pattern(text: str) -> str:
    if text.startswith("!"):
        raise ValueError("lists the tables that the line is about; a later line decides about others")
    return pattern_text(text)


def listed(value: object) -> object:
    """A text as a list of it alone: patterns may be written either way."""
    return [value] if isinstance(value, str) else value


ONE, SEVERAL = "(one)", "(several)"
"""Value that may be one or a list of them; pydantic puts it into the path of what is wrong there."""


def form_of(value: object) -> str:
    return SEVERAL if isinstance(value, list | tuple) else ONE


def downstream_text(text: str) -> str:
    pattern_text(text)
    if set(text) & set("*?!"):
        raise ValueError(
            f"{text!r} must be one table, without * or ?; {{1}} is what the first of them in from stands for"
        )
    return text


def source_pattern(text: str) -> str:
    if not SOURCE_NAME.fullmatch(re.sub(r"[*?]", "x", text)):
        raise ValueError(f"{text!r} is no source's name, and no pattern of such with * or ?")
    return text


_OWNER = re.compile(r"team:[A-Za-z0-9_.-]+|[^@\s]+@[^@\s]+\.[^@\s]+")


def owner_text(text: str) -> str:
    if not _OWNER.fullmatch(text):
        raise ValueError(f"{text!r} must be an email address, or team:NAME")
    return text


_DURATION = re.compile(r"(\d+)([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_MOST_DAYS = 36500


def duration_of(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise ValueError("must be a number of days, hours or minutes, like 30d, 36h or 90m")
    days = timedelta(**{_UNITS[match[2]]: 1}) / timedelta(days=1)
    if len(match[1]) > len(str(_MOST_DAYS)) + 4 or int(match[1]) * days > _MOST_DAYS:
        raise ValueError(f"must be at most {_MOST_DAYS}d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def at_least_a_day(value: timedelta) -> timedelta:
    if value < timedelta(days=1):
        raise ValueError("must be at least 1d: runs that are still going need these files")
    return value


def at_least_a_minute(value: timedelta) -> timedelta:
    if value < timedelta(minutes=1):
        raise ValueError("must be a minute at least")
    return value


def at_least_a_second(value: timedelta) -> timedelta:
    if value < timedelta(seconds=1):
        raise ValueError("must be longer; remove the key where nothing is to stay")
    return value


def remote_text(text: str) -> str:
    """The address of a Spark Connect server, or none. Raises ValueError without the text, which may have a token."""
    if text and not _SPARK_CONNECT.fullmatch(text):
        raise ValueError(
            "must be like sc://host:15002, with options after /; as sc://host:15002/;token=…;use_ssl=true, where %2F "
            "stands for a / in a value, %3B for ; and %3D for = (stratalog docs clusters/connect)"
        )
    return text


_NO_PATH = re.compile(r"[\x00\ud800-\udfff]")


def local_path(value: object) -> object:
    """A path as text or Path; the empty text would be the configuration's own folder."""
    if isinstance(value, str):
        if not value.strip():
            raise ValueError("must be a path, and is empty")
        if _NO_PATH.search(value):
            raise ValueError("has characters that no path has")
    return value


LocalPath = Annotated[Path, BeforeValidator(local_path)]
Duration = Annotated[timedelta, BeforeValidator(duration_of)]


def dump_position(text: str) -> str:
    try:
        location = parse_location(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if isinstance(location, datetime):
        raise ValueError(  # noqa: TRY004 - what pydantic makes a line of its list of
            "must be a position or a GTID set: a time does not tell which statements come before it"
        )
    return text


def regex_text(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError) as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    except RecursionError:
        raise ValueError("nests too deep for a regular expression") from None
    return text


def condition_text(text: str) -> str:
    try:
        Condition.parse(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return text


def computed_type(text: str) -> str:
    try:
        return type_text(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def computed_name(text: str) -> str:
    if not text or text.startswith("_"):
        raise ValueError(f"{text!r} is no name of a computed column; names that begin with _ are the project's")
    return text


def folded_name(text: object) -> object:
    return " ".join(text.casefold().split()) if isinstance(text, str) else text


Patterns = Annotated[tuple[Annotated[str, AfterValidator(pattern_text)], ...], Field(min_length=1)]
Expression = Annotated[str, AfterValidator(condition_text)]
ColumnName = Annotated[str, BeforeValidator(folded_name), Field(min_length=1)]
