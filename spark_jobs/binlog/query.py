"""QUERY events: the default database and the text of a statement.

Source: MySQL manual, QUERY_EVENT; libs/mysql/binlog/event/statement_events.h; MariaDB sql/log_event.cc
(``query_event_uncompress``).

Put here: what a QUERY's bytes say. Not here: which statements mean what; the scan kernel knows those that begin or end
a transaction, and DDL is read where schemas are tracked.
"""

from spark_jobs.binlog import kernels
from spark_jobs.binlog.compression import inflated_record
from spark_jobs.binlog.event_types import EVENT_TYPES
from spark_jobs.binlog.format_description import HEADER
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
        raw = inflated_record(raw, f"{where}: Query_compressed event")
    return _text(body[database : text - 1]), _text(raw)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
