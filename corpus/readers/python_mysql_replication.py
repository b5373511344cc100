"""Prints what python-mysql-replication reads of the files of the corpus, in the reader's form (corpus/README.md).

It reads from a server only. So a server of the version that wrote the files is given them as its own log, and sends
them as it would to a replica. Damaged files are no server's log: it refuses them itself, so they are left out.

Put here: the server with such a log, the library's values. Not here: whether they are right (corpus/judge.py).
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.constants import FIELD_TYPE, NONE_SOURCE
from pymysqlreplication.event import QueryEvent, RotateEvent
from pymysqlreplication.json_binary import JsonDiff
from pymysqlreplication.row_event import DeleteRowsEvent, RowsEvent, UpdateRowsEvent, WriteRowsEvent

from spark_jobs.demo.server import Build, MySQLServer
from spark_jobs.errors import ConfigError
from tests.services.servers import build_of

_ASKED = ("binlog_checksum", "binlog_row_metadata")
_OUT_OF_RANGE = (NONE_SOURCE.OUT_OF_DATE_RANGE, NONE_SOURCE.OUT_OF_DATETIME_RANGE, NONE_SOURCE.OUT_OF_DATETIME2_RANGE)


def write(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")


def main(files: Sequence[str]) -> None:
    by_server = sorted(map(Path, files), key=server_of)
    for name, paths in groupby(by_server, key=server_of):
        try:
            build = build_of(name)
        except ConfigError as error:
            sys.exit(str(error))
        serve(build, list(paths))


def server_of(path: Path) -> str:
    return "-".join(path.name.split("-", 2)[:2])


def serve(build: Build, paths: Sequence[Path]) -> None:
    """Starts a server whose log are the files, and reads each."""
    options: dict[str, object] = {"log_bin": "log-bin", "server_id": 8}
    if server_of(paths[0]).startswith("mysql"):
        options["gtid_mode"] = "ON_PERMISSIVE"  # logs with GTIDs and without
    with tempfile.TemporaryDirectory() as folder:
        server = MySQLServer(Path(folder) / "server", options, build)
        with server:
            pass
        for old in server.data.glob("log-bin.*"):
            old.unlink()
        names = [f"log-bin.{number:06}" for number in range(1, len(paths) + 1)]
        for path, log in zip(paths, names, strict=True):
            (server.data / log).write_bytes(path.read_bytes())
        (server.data / "log-bin.index").write_text("".join(f"./{log}\n" for log in names), encoding="ascii")
        with server:
            for path, log in zip(paths, names, strict=True):
                write({"file": path.name})
                try:
                    with settings_of(server, path):
                        for line in read(server, log):
                            write(line)
                except Exception as error:  # noqa: BLE001 - whatever the library raises is its refusal
                    write({"error": f"{type(error).__name__}: {error}"})
                else:
                    write({"end": True})


@contextmanager
def settings_of(server: MySQLServer, path: Path) -> Iterator[None]:
    """The server with the variables that the library asks for, as they were when the file was written."""
    case = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    asked = {name: case["settings"][name] for name in _ASKED if name in case["settings"]}
    with server.connect() as connection, connection.cursor() as cursor:
        before: dict[str, Any] = {}
        for name, value in asked.items():
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            before[name] = (cursor.fetchone() or ())[0]
            cursor.execute(f"SET GLOBAL {name} = %s", (value,))
        try:
            yield
        finally:
            for name, value in before.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))


def read(server: MySQLServer, log: str) -> Iterator[dict[str, Any]]:
    """Lines of one file, up to the event that ends it."""
    stream = BinLogStreamReader(
        connection_settings={"host": server.host, "port": server.port, "user": server.user, "passwd": server.password},
        server_id=4_000_000_000,
        log_file=log,
        log_pos=4,
        resume_stream=True,
        enable_logging=False,
    )
    rotations = 0
    try:
        for event in stream:
            if isinstance(event, RotateEvent):
                rotations += 1
                if rotations == 2:  # the first says where the server begins
                    return
            elif isinstance(event, QueryEvent):
                yield {"statement": event.query if isinstance(event.query, str) else event.query.decode()}
            elif isinstance(event, RowsEvent):
                yield from rows(event)
    finally:
        stream.close()


def rows(event: RowsEvent) -> Iterator[dict[str, Any]]:
    table = f"{event.schema}.{event.table}"
    for row in event.rows:
        if isinstance(event, UpdateRowsEvent):
            before = image(event, row["before_values"], row["before_none_sources"])
            yield {
                "table": table,
                "op": "update",
                "before": before,
                "after": image(event, row["after_values"], row["after_none_sources"]),
            }
        elif isinstance(event, WriteRowsEvent | DeleteRowsEvent):
            values = image(event, row["values"], row["none_sources"])
            is_insert = isinstance(event, WriteRowsEvent)
            yield {
                "table": table,
                "op": "insert" if is_insert else "delete",
                "before": None if is_insert else values,
                "after": values if is_insert else None,
            }


def image(event: RowsEvent, values: Mapping[str, Any], sources: Mapping[str, str]) -> list[Any]:
    """A cell for each column; the library tells by a source why there is no value."""
    return [
        cell(column.type, value, sources.get(name))
        for column, (name, value) in zip(event.columns, values.items(), strict=True)
    ]


def cell(kind: int, value: Any, source: str | None) -> Any:  # noqa: C901, PLR0911 - one a type
    if value is None:
        if source == NONE_SOURCE.COLS_BITMAP:
            return {"absent": True}
        if source == NONE_SOURCE.EMPTY_SET:
            return ""
        if source == NONE_SOURCE.JSON_PARTIAL_UPDATE:
            return {"difference": source}
        return {"marked": True} if source in _OUT_OF_RANGE else None
    differences = value if isinstance(value, list) else [value]
    if any(isinstance(difference, JsonDiff) for difference in differences):
        return {"difference": "; ".join(repr(vars(difference)) for difference in differences)}
    if kind == FIELD_TYPE.BIT:  # a text of binary digits
        return str(int(value, 2))
    if kind == FIELD_TYPE.JSON:
        return json.dumps(document(value))
    match value:
        case bytes():
            return {"hex": value.hex()}
        case set() | frozenset():
            return sorted(value)
        case timedelta():
            return duration(value)
        case datetime() | date() | Decimal():
            return str(value)
        case float():
            return repr(value)
    return value


def duration(value: timedelta) -> str:
    size = abs(value) // timedelta(microseconds=1)
    seconds, fraction = divmod(size, 1_000_000)
    sign = "-" if value < timedelta() else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def document(value: Any) -> Any:  # noqa: PLR0911 - one a type
    """A document's value as JSON has it; the library gives text as bytes."""
    match value:
        case bytes():
            return value.decode()
        case dict():
            return {document(key): document(inner) for key, inner in value.items()}
        case list() | tuple():
            return [document(inner) for inner in value]
        case datetime() | date() | time():
            return str(value)
        case timedelta():
            return duration(value)
        case Decimal():
            return float(value)
    return value


if __name__ == "__main__":
    main(sys.argv[1:])
