"""QUERY events: the default database, the text of a statement, and the session that it was said in.

Source: MySQL manual, QUERY_EVENT; libs/mysql/binlog/event/statement_events.h; MariaDB sql/log_event.cc
(``query_event_uncompress``).

Put here: what a QUERY's bytes say. Not here: which statements mean what; the scan kernel knows those that begin or end
a transaction, and DDL is read where schemas are tracked.
"""

from collections.abc import Callable
from dataclasses import dataclass

from spark_jobs.binlog import kernels
from spark_jobs.binlog.events.compression import inflated_record
from spark_jobs.binlog.events.format_description import HEADER, MAGIC
from spark_jobs.binlog.events.types import EVENT_TYPES
from spark_jobs.errors import DecodeError

_DATABASE_LENGTH = 8
_STATUS_LENGTH = 11


def read_query(event: bytes, footer: int, where: str) -> tuple[str, str]:
    """(default database, text) of a QUERY, EXECUTE_LOAD_QUERY or QUERY_COMPRESSED event. Raises DecodeError.

    Status variables are skipped. Bytes that are not UTF-8 (a client of another character set) are written as backslash
    escapes; the payload keeps them as they are.
    """
    meaning = EVENT_TYPES[event[4]].meaning
    body = event[HEADER : len(event) - footer]
    fixed = 26 if meaning == kernels.LOAD_QUERY else 13
    database = fixed + int.from_bytes(body[_STATUS_LENGTH : _STATUS_LENGTH + 2], "little")
    text = database + body[_DATABASE_LENGTH] + 1
    if text > len(body) or body[text - 1]:
        raise DecodeError(f"{where}: Query event: its default database does not end where it should")
    raw = body[text:]
    if meaning == kernels.QUERY_COMPRESSED:
        try:
            raw = inflated_record(raw)
        except DecodeError as error:
            raise DecodeError(f"{where}: Query_compressed event: {error}") from None
    return _text(body[database : text - 1]), _text(raw)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a statement was begun: what CURRENT_TIMESTAMP is in it.

    seconds: since 1970, UTC. micros: those of its second, which the log has where the statement asked for them. zone:
    its session's time_zone, as it was set, where the statement used it; SYSTEM is the server's own.
    """

    seconds: int
    micros: int | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """What decides how a statement reads and what it does. None: the log does not tell.

    sql_mode: bits as in sql/system_variables.h. collation: id of the client's, whose character set the text is in.
    explicit_timestamps: the server's explicit_defaults_for_timestamp. moment: when the statement was begun.
    """

    sql_mode: int | None = None
    collation: int | None = None
    explicit_timestamps: bool | None = None
    moment: Moment | None = None

    @property
    def is_strict(self) -> bool:
        """Whether a value that does not fit is an error and not changed."""
        return bool((self.sql_mode or 0) & (_STRICT_TRANS_TABLES | _STRICT_ALL_TABLES))

    @property
    def has_ansi_quotes(self) -> bool:
        """Whether double quotes stand around names and not around text."""
        return bool((self.sql_mode or 0) & _ANSI_QUOTES)

    @property
    def has_real_as_float(self) -> bool:
        """Whether REAL is FLOAT and not DOUBLE."""
        return bool((self.sql_mode or 0) & _REAL_AS_FLOAT)

    @property
    def has_backslashes(self) -> bool:
        """Whether a backslash escapes in a string."""
        return self.sql_mode is not None and not self.sql_mode & _NO_BACKSLASH_ESCAPES


_REAL_AS_FLOAT, _ANSI_QUOTES = 1 << 0, 1 << 2
_NO_BACKSLASH_ESCAPES, _STRICT_TRANS_TABLES, _STRICT_ALL_TABLES = 1 << 20, 1 << 21, 1 << 22
_SIZES = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1, 128: 3, 129: 8}
"""Bytes of status variables by code (statement_events.h, ``Query_event_status_vars``; MariaDB: sql/log_event.h)."""
_TEXTS = {5: 1, 6: 1, 11: 2}
"""Texts, each behind its length, of further ones: time zone, catalog, invoker."""
_COLLATIONS = 131
"""MariaDB's Q_CHARACTER_SET_COLLATIONS: a count, then pairs of ids; it comes before the character sets (11.3 on)."""
_TOO_MANY = 254
"""Stands for the number of databases where their names are left out."""
_SQL_MODE, _CHARSETS, _ZONE, _DATABASES, _EXPLICIT_TIMESTAMPS = 1, 4, 5, 12, 16
_MICROS, _MARIADB_MICROS = 13, 128


def read_session(slice_: bytes) -> Session:
    """The session of a slice's first QUERY event, as its status variables have it; they come in a fixed order."""
    seconds, found = _query_in(slice_)
    mode, sets, explicit = (found.get(code) for code in (_SQL_MODE, _CHARSETS, _EXPLICIT_TIMESTAMPS))
    return Session(
        None if mode is None else int.from_bytes(mode, "little"),
        None if sets is None else int.from_bytes(sets[:2], "little"),
        None if explicit is None else bool(explicit[0]),
        None if seconds is None else _moment(seconds, found),
    )


def _moment(seconds: int, found: dict[int, bytes]) -> Moment:
    micros, zone = found.get(_MICROS, found.get(_MARIADB_MICROS)), found.get(_ZONE)
    return Moment(
        seconds,
        None if micros is None else int.from_bytes(micros, "little"),
        None if zone is None else _text(zone[1:]),
    )


def read_session_variables(slice_: bytes) -> dict[str, str]:
    """The same: all that the event has, by the variable's name, as mysqlbinlog prints it.

    Character sets and collations are ids; sql_mode has names, and a number for bits that the servers do not share.
    """
    found: dict[str, str] = {}
    for code, value in _query_in(slice_)[1].items():
        found |= _PRINTED[code](value) if code in _PRINTED else {}
    return found


def _query_in(slice_: bytes) -> tuple[int | None, dict[int, bytes]]:
    """A slice's first QUERY event: its second, and its status variables by code, up to one that is not known or cut."""
    at = len(MAGIC) if slice_.startswith(MAGIC) else 0
    while len(slice_) >= at + HEADER:
        meaning = EVENT_TYPES[slice_[at + 4]].meaning if slice_[at + 4] in EVENT_TYPES else None
        length = int.from_bytes(slice_[at + 9 : at + 13], "little")
        if meaning in (kernels.QUERY, kernels.QUERY_COMPRESSED, kernels.LOAD_QUERY):
            fixed = HEADER + (26 if meaning == kernels.LOAD_QUERY else 13)
            size = int.from_bytes(slice_[at + HEADER + _STATUS_LENGTH :][:2], "little")
            return int.from_bytes(slice_[at : at + 4], "little"), _by_code(slice_[at + fixed : at + fixed + size])
        at += max(length, HEADER)
    return None, {}


def _by_code(variables: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at < len(variables):
        code = variables[at]
        size = _size(code, variables[at + 1 :])
        if size is None:
            break
        found[code] = variables[at + 1 : at + 1 + size]
        at += 1 + size
    return found


_SQL_MODES = {
    0: "REAL_AS_FLOAT",
    1: "PIPES_AS_CONCAT",
    2: "ANSI_QUOTES",
    3: "IGNORE_SPACE",
    5: "ONLY_FULL_GROUP_BY",
    6: "NO_UNSIGNED_SUBTRACTION",
    7: "NO_DIR_IN_CREATE",
    18: "ANSI",
    19: "NO_AUTO_VALUE_ON_ZERO",
    20: "NO_BACKSLASH_ESCAPES",
    21: "STRICT_TRANS_TABLES",
    22: "STRICT_ALL_TABLES",
    23: "NO_ZERO_IN_DATE",
    24: "NO_ZERO_DATE",
    25: "ALLOW_INVALID_DATES",
    26: "ERROR_FOR_DIVISION_BY_ZERO",
    27: "TRADITIONAL",
    28: "NO_AUTO_CREATE_USER",
    29: "HIGH_NOT_PRECEDENCE",
    30: "NO_ENGINE_SUBSTITUTION",
    31: "PAD_CHAR_TO_FULL_LENGTH",
}
"""Bits that MySQL and MariaDB have in common (sql/system_variables.h, sql/sql_class.h); the others are no names."""
_FLAGS = {
    "sql_auto_is_null": (14, "1", "0"),
    "autocommit": (19, "0", "1"),
    "foreign_key_checks": (26, "0", "1"),
    "unique_checks": (27, "0", "1"),
}
"""Bits of Q_FLAGS2 (sql/query_options.h): where they are set, and where not."""


def _sql_mode(value: bytes) -> dict[str, str]:
    bits = int.from_bytes(value, "little")
    named = [name for bit, name in _SQL_MODES.items() if bits >> bit & 1]
    rest = bits & ~sum(1 << bit for bit in _SQL_MODES)
    return {"sql_mode": ",".join([*named, *([str(rest)] if rest else [])])}


def _number(value: bytes) -> str:
    return str(int.from_bytes(value, "little"))


def _charsets(value: bytes) -> dict[str, str]:
    names = ("character_set_client", "collation_connection", "collation_server")
    return {name: _number(value[at : at + 2]) for name, at in zip(names, (0, 2, 4), strict=True)}


def _flags(value: bytes) -> dict[str, str]:
    bits = int.from_bytes(value, "little")
    return {name: true if bits >> bit & 1 else false for name, (bit, true, false) in _FLAGS.items()}


_PRINTED: dict[int, Callable[[bytes], dict[str, str]]] = {
    0: _flags,
    _SQL_MODE: _sql_mode,
    3: lambda value: {
        "auto_increment_increment": _number(value[:2]),
        "auto_increment_offset": _number(value[2:]),
    },
    _CHARSETS: _charsets,
    _ZONE: lambda value: {"time_zone": _text(value[1:])},
    8: lambda value: {"collation_database": _number(value)},
    _EXPLICIT_TIMESTAMPS: lambda value: {"explicit_defaults_for_timestamp": _number(value)},
    18: lambda value: {"default_collation_for_utf8mb4": _number(value)},
    19: lambda value: {"sql_require_primary_key": _number(value)},
    20: lambda value: {"default_table_encryption": _number(value)},
}


def _size(code: int, rest: bytes) -> int | None:
    """Bytes of a status variable's value, with which ``rest`` begins; None where it is not known, or cut."""
    if code == _DATABASES:
        names = rest[0] if rest and rest[0] < _TOO_MANY else 0
        ends = [at for at, byte in enumerate(rest[1:], 2) if not byte][:names]
        return (ends[-1] if ends else 1) if len(ends) == names else None
    if code == _COLLATIONS:
        return 1 + 4 * rest[0] if rest and 4 * rest[0] < len(rest) else None
    size = 0
    for _ in range(_TEXTS.get(code, 0)):
        size += 1 + rest[size] if size < len(rest) else len(rest) + 1
    size = size or _SIZES.get(code, len(rest) + 1)
    return size if size <= len(rest) else None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
