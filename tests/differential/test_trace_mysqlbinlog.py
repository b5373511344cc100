"""The life of rows against the changes that mysqlbinlog -vv and mariadb-binlog -vv print of the same log."""

import base64
import json
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.row_history.trace import Selection, TableTrace
from spark_jobs.row_history.trace_lines import TraceView
from tests.fix_mysql import Database, database_of
from tests.fix_servers import Servers
from tests.pipeline.test_row_history import beginning_of, pipeline_of
from tests.services.servers import FOLDERS, SERVERS, tool_of

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

Row = dict[str, Any]
Change = tuple[str, Row | None, Row | None]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)")
SHORT = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0", b"b": b"\b", b"Z": b"\x1a"}
VALUE = re.compile(rb"###   @(\d+)=(.*) /\* \S.* meta=\d+ nullable=\d is_null=\d \*/", re.DOTALL)


def content(text: bytes) -> bytes:
    """The bytes of a quoted value: what is no printable ASCII may be written in hex."""
    assert text.startswith(b"'")
    assert text.endswith(b"'")
    return ESCAPE.sub(_character, text[1:-1])


def _character(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    return bytes.fromhex(escape[1:].decode()) if escape[1:] else SHORT.get(escape, escape)


def unsigned(text: bytes) -> int:
    """``-1 (255)`` is 255."""
    return int(text.partition(b"(")[2].rstrip(b")") or text)


def bytes_of(value: Any) -> bytes:
    return base64.b64decode(value["base64"])


def instant(text: str) -> Decimal:
    """Seconds since 1970 of an RFC 3339 time."""
    time = datetime.fromisoformat(text) - EPOCH
    return Decimal(time // timedelta(microseconds=1)) / 1_000_000


LABELS, MEMBERS = ("open", "paid", "ä"), ("x", "y", "z")


def number_of_label(value: int | str) -> int:
    """A label by its number, which is all that some servers log."""
    return value if isinstance(value, int) else LABELS.index(value) + 1


def number_of_members(value: int | str | list[str]) -> int:
    """A set by its bits."""
    members = value.split(",") if isinstance(value, str) else value
    return members if isinstance(members, int) else sum(1 << MEMBERS.index(member) for member in members if member)


@dataclass(frozen=True)
class Kind:
    """A column that is printed without loss: its type, values, and what both sides become to be compared."""

    sql: str
    values: tuple[str, ...]
    printed: Callable[[bytes], Any]
    traced: Callable[[Any], Any] = lambda value: value


KINDS = {
    "tiny": Kind("TINYINT UNSIGNED", ("0", "127", "128", "255"), unsigned),
    "medium": Kind("MEDIUMINT", ("-8388608", "-1", "77"), lambda text: int(text.split()[0])),
    "big": Kind("BIGINT UNSIGNED", ("18446744073709551615", "9223372036854775808", "1"), unsigned),
    "year_": Kind("YEAR", ("1901", "2155"), int),
    "number": Kind("DECIMAL(30,12)", ("-123456789012345678.000000000001", "0.5"), lambda text: Decimal(text.decode()),
                   Decimal),
    "d": Kind("DOUBLE", ("0.1", "-1.5e300", "1e-300"), float),
    "bits": Kind("BIT(9)", ("b'101'", "b'100000001'"), lambda text: int(content(text[1:]), 2)),
    "day": Kind("DATE", ("'2026-02-03'", "'1000-01-01'"), lambda text: content(text).decode().replace(":", "-")),
    "time_": Kind("TIME(2)", ("'-838:59:59.00'", "'12:00:00.25'", "'00:00:00'"), lambda text: content(text).decode()),
    "moment": Kind("DATETIME(3)", ("'2026-02-03 04:05:06.789'", "'1000-01-01 00:00:00'"),
                   lambda text: content(text).decode()),
    "at": Kind("TIMESTAMP(6) NULL", ("'2026-02-03 04:05:06.789012'", "'1970-01-02 00:00:00'"),
               lambda text: Decimal(text.decode()), instant),
    "word": Kind("VARCHAR(40) CHARACTER SET utf8mb4", ("'ä 😀'", "''", "'a''b'"), lambda text: content(text).decode()),
    "fixed": Kind("CHAR(200) CHARACTER SET utf8mb4", ("'x'", "REPEAT('ö', 200)"), lambda text: content(text).decode()),
    "note": Kind("MEDIUMTEXT CHARACTER SET utf8mb4", ("REPEAT('long ', 90)", "'one\\ntwo\\t\\\\'"),
                 lambda text: content(text).decode()),
    "raw_": Kind("VARBINARY(20)", ("x'00ff275c'", "''"), content, bytes_of),
    "blob_": Kind("BLOB", ("x'0a00'", "'abc'"), content, bytes_of),
    "state": Kind("ENUM('open','paid','ä')", ("'paid'", "'ä'"), int, number_of_label),
    "flags": Kind("SET('x','y','z')", ("'x,z'", "''"), lambda text: int(content(text[1:]), 2), number_of_members),
}  # fmt: skip
DOCUMENT = Kind("JSON", ("""'{"a": [1, 2.5, "ä"], "b": null}'""", "'[]'"), lambda text: json.loads(content(text)),
                lambda value: json.loads(value) if isinstance(value, str) else value)  # fmt: skip


def tool_for(server: str) -> list[str]:
    """The newest tool of a server's vendor. Skips where there is none."""
    vendor = server.partition("-")[0]
    for candidate in reversed(SERVERS):
        if candidate.startswith(vendor) and (tool := tool_of(candidate, f"{vendor}binlog", f"{vendor}-binlog")):
            return tool
    pytest.skip(f"{vendor}'s binlog tool is not here: name the folder of a server in {FOLDERS} (tests/README.md)")


def printed(tool: list[str], logs: list[Path], table: str, kinds: dict[str, Kind]) -> Iterator[Change]:
    """The changes of a table that the tool prints, in the log's order."""
    command = [*tool, "--no-defaults", "-vv", "--base64-output=DECODE-ROWS", *map(str, logs)]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    names = ["id", *kinds]
    op, images = "", list[Row]()
    for line in [*re.split(rb"\n(?=###|#|/|[A-Z])", output), b"### END `x`.`x`"]:
        if match := re.match(rb"### (INSERT INTO|UPDATE|DELETE FROM|END) `[^`]+`\.`([^`]+)`", line):
            if op:
                yield _change(op, images)
            op = {b"INSERT INTO": "insert", b"UPDATE": "update", b"DELETE FROM": "delete"}.get(match[1], "")
            op, images = (op if match[2].decode() == table else ""), []
        elif line.startswith((b"### WHERE", b"### SET")):
            images.append({})
        elif op and (match := VALUE.match(line)):
            name = names[int(match[1]) - 1]
            is_null = match[2].strip() == b"NULL"
            reads = kinds[name].printed if name in kinds else int
            images[-1][name] = None if is_null else reads(match[2].strip())


def _change(op: str, images: list[Row]) -> Change:
    return op, None if op == "insert" else images[0], None if op == "delete" else images[-1]


def lives(changes: list[Change]) -> dict[int, list[Change]]:
    """By key the changes of all rows that ever had it, in the log's order."""
    now, of_row, rows_of_key = dict[int, int](), dict[int, list[int]](), dict[int, set[int]]()
    for at, (op, before, after) in enumerate(changes):
        row = at if before is None else now.pop(before["id"])
        of_row.setdefault(row, []).append(at)
        for image in (before, after):
            if image:
                rows_of_key.setdefault(image["id"], set()).add(row)
        if after is not None and op != "delete":
            now[after["id"]] = row
    return {
        key: [changes[at] for at in sorted(at for row in rows for at in of_row[row])]
        for key, rows in rows_of_key.items()
    }


def traced(pipeline: Pipeline, name: TableName, key: int, kinds: dict[str, Kind]) -> list[Change]:
    view = TraceView("shop", is_whole=True)
    trace = TableTrace.of(pipeline, "shop", name, Selection(keys=(str(key),)))
    lines = [json.loads(view.line(entry)) for entry in trace.changes()]

    def row(image: Row | None) -> Row | None:
        return image and {
            column: value if value is None or column not in kinds else kinds[column].traced(value)
            for column, value in image.items()
        }

    return [(line["op"], row(line["before"]), row(line["after"])) for line in lines]


def differing(own_changes: list[Change], changes: list[Change]) -> Iterator[tuple[int, str, object, object]]:
    """What differs, as few values: change, column, value in the trace, value that the tool prints."""
    for at, pair in enumerate(zip(own_changes, changes, strict=True)):
        for own_row, row in zip(*(change[1:] for change in pair), strict=True):
            for name in (own_row or {}).keys() | (row or {}).keys():
                values = (own_row or {}).get(name, ...), (row or {}).get(name, ...)
                if values[0] != values[1]:
                    yield (at, name, *values)


def work(database: Database, kinds: dict[str, Kind], dice: random.Random, keys: int) -> None:
    """Random statements about a table, so that most keys have several changes."""
    columns = ", ".join(f"{name} {kind.sql}" for name, kind in kinds.items())
    database.execute("SET SESSION sql_mode = ''")
    database.execute("SET SESSION time_zone = '+00:00'")
    database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4")
    present = set[int]()

    def value(name: str) -> str:
        return dice.choice([*kinds[name].values, "NULL"])

    for _ in range(2 * keys):
        free = [key for key in dice.sample(range(keys), min(8, keys)) if key not in present]
        key = dice.choice(sorted(present) or [-1])
        match dice.choice(("insert", "insert", "insert", "update", "update", "several", "move", "delete")):
            case "insert" if free:
                rows = (f"({new}, {', '.join(map(value, kinds))})" for new in free)
                database.execute(f"INSERT INTO t VALUES {', '.join(rows)}")
                present |= {*free}
            case "update":
                names = dice.sample(list(kinds), 4)
                database.execute(
                    f"UPDATE t SET {', '.join(f'{name} = {value(name)}' for name in names)} WHERE id = {key}"
                )
            case "several":
                database.execute(f"UPDATE t SET word = '{dice.random()}' WHERE id BETWEEN {key} AND {key + 9}")
            case "move" if free and key >= 0:
                database.execute(f"UPDATE t SET id = {free[0]} WHERE id = {key}")
                present ^= {key, free[0]}
            case "delete":
                database.execute(f"DELETE FROM t WHERE id = {key}")
                present.discard(key)


def compare(server: str, running: MySQLServer, folder: Path, keys: int, seed: int) -> int:
    """Compares the lives of all keys; how many changes were compared."""
    tool = tool_for(server)
    kinds = KINDS if server.startswith("mariadb") else KINDS | {"document": DOCUMENT}
    with database_of(running) as database:
        start = beginning_of(database)
        work(database, kinds, random.Random(seed), keys)
        database.execute("FLUSH BINARY LOGS")
        files = [row[0] for row in database.execute("SHOW BINARY LOGS")]
        logs = [running.data / file for file in files if file >= start.partition(":")[0]][:-1]
        expected = lives(list(printed(tool, logs, "t", kinds)))
        pipeline, count = pipeline_of(database, folder, start), 0
        for key, changes in expected.items():
            own_changes = traced(pipeline, TableName(database.name, "t"), key, kinds)
            assert [change[0] for change in own_changes] == [change[0] for change in changes], (seed, key)
            assert list(differing(own_changes, changes)) == [], (seed, key)
            count += len(changes)
        return count


@pytest.mark.parametrize("server", ["mysql-8.0", "mariadb-11.4"])
def test_a_trace_has_the_changes_that_the_tool_prints(servers: Servers, tmp_path: Path, server: str) -> None:
    tool_for(server)
    assert compare(server, servers.get(server), tmp_path, 20, seed=1) > 50


@pytest.mark.long
@pytest.mark.parametrize("server", ["mysql-8.0", "mariadb-11.4"])
def test_traces_of_a_thousand_keys(servers: Servers, tmp_path: Path, server: str) -> None:
    assert compare(server, servers.get(server), tmp_path, 1000, seed=2) > 3000
