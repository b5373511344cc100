"""Where the fuzzer begins: small files of every kind of event and type, and JSON documents of every kind.

A fuzzing engine gets further from many small inputs than from a few large: recorded files are taken slice by slice.

Put here: bytes that are right. Not here: how they are damaged (mutations.py), or texts and files (corpus/).
"""

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_jobs.binlog.slices.slicer import Slicer
from tests.binlogs import segment_types as types
from tests.binlogs.segment_spec import (
    Change,
    Commit,
    Delete,
    Insert,
    Query,
    RawEvent,
    Rollback,
    Rows,
    SegmentSpec,
    Statement,
    Table,
    Update,
    varlen,
)
from tests.fuzz.mutations import HEADER, MAGIC, joined, split

ROW_EVENTS = (23, 24, 25, 30, 31, 32)
"""WRITE_ROWS, UPDATE_ROWS and DELETE_ROWS of both versions."""
RECORDED = sorted(Path(__file__).parents[1].joinpath("recorded").glob("*.000001"))
CORPUS = Path(__file__).parent / "corpus"
"""As OSS-Fuzz has it: a folder ``<target>_seed_corpus``, and where there are words ``<target>.dict``."""


def corpus(target: str) -> list[bytes]:
    """The files of a target's corpus: what a person wrote down, and what broke a judge once."""
    return [file.read_bytes() for file in sorted((CORPUS / f"{target}_seed_corpus").iterdir())]


DOCUMENTS = tuple(corpus("json"))

JSON = types.ColumnType(245, b"\4", lambda value: struct.pack("<I", len(value)) + value)
GEOMETRY = types.ColumnType(255, b"\4", JSON.encode)
VECTOR = types.ColumnType(242, b"\4", JSON.encode)
OLD_TIMESTAMP = types.ColumnType(7, b"", lambda value: struct.pack("<I", value))
OLD_TIME = types.ColumnType(11, b"", lambda value: value.to_bytes(3, "little"))
OLD_DATETIME = types.ColumnType(12, b"", lambda value: struct.pack("<q", value))

_FAMILIES: dict[str, dict[str, tuple[types.ColumnType, Any]]] = {
    "integers": {
        "a": (types.TINYINT, -1),
        "b": (types.SMALLINT.UNSIGNED, 65535),
        "c": (types.MEDIUMINT, -2),
        "d": (types.MEDIUMINT.UNSIGNED, 7),
        "e": (types.INT.UNSIGNED, 9),
        "f": (types.BIGINT.UNSIGNED, 2**64 - 1),
        "g": (types.YEAR, 2024),
    },
    "numbers": {
        "a": (types.FLOAT, 1.5),
        "b": (types.DOUBLE, -2.5),
        "c": (types.DECIMAL(10, 2), "-12.34"),
        "d": (types.DECIMAL(30, 10), "123456789.5"),
        "e": (types.DECIMAL(65, 30), "-1.25"),
        "f": (types.BIT(9), 300),
        "g": (types.BIT(64), 2**64 - 1),
    },
    "times": {
        "a": (types.DATE, "2024-02-29"),
        "b": (types.DATETIME(3), "2024-02-29 01:02:03.5"),
        "c": (types.TIMESTAMP(6), "2024-02-29 01:02:03.5"),
        "d": (types.TIME(2), "-838:59:59.25"),
        "e": (types.DATETIME(), "0000-00-00 00:00:00"),
        "f": (OLD_TIMESTAMP, 1_700_000_000),
        "g": (OLD_TIME, 123456),
        "h": (OLD_DATETIME, 20240229010203),
    },
    "texts": {
        "a": (types.VARCHAR(20), "häß".encode()),
        "b": (types.VARCHAR(300), b"x" * 40),
        "c": (types.CHAR(10, types.LATIN1, 1), b"\xe4\x81"),
        "d": (types.BINARY(9), b"123\0\0\0\0\0\0"),
        "e": (types.TINYTEXT, b"\xff"),
        "f": (types.MEDIUMTEXT, b"m"),
        "g": (types.LONGBLOB, b"long"),
    },
    "labels": {
        "a": (types.ENUM("a", "b,c", "ü"), 2),
        "b": (types.SET("x", "yy", "ü"), 5),
        "c": (types.ENUM(*(f"m{k}" for k in range(300))), 257),
    },
    "sets": {
        name: (types.VARCHAR(40, collation, 4), text.encode(codec))
        for name, collation, codec, text in (
            ("gbk", 28, "gbk", "中文"),
            ("big5", 1, "big5", "中文"),
            ("sjis", 13, "shift_jis", "日本"),
            ("ujis", 12, "euc_jp", "日本"),
            ("gb18030", 248, "gb18030", "中€"),
            ("utf16", 54, "utf-16-be", "a😀"),
            ("utf32", 60, "utf-32-be", "a😀"),
            ("koi8r", 7, "koi8-r", "жук"),
            ("euckr", 19, "euc_kr", "한국"),
        )
    },
    "nested": {
        "a": (JSON, (CORPUS / "json_seed_corpus" / "object").read_bytes()),
        "b": (JSON, b""),
        "c": (GEOMETRY, bytes(4) + bytes.fromhex("0101000000000000000000f03f0000000000000040")),
        "d": (VECTOR, struct.pack("<3f", 1.5, 2.5, -1)),
    },
}


def _family(name: str, **settings: Any) -> bytes:
    columns = {key: kind for key, (kind, _) in _FAMILIES[name].items()}
    key = [next(iter(columns))]
    row = tuple(value for _, value in _FAMILIES[name].values())
    blank = tuple(None if offset % 2 else value for offset, value in enumerate(row))
    table = Table("s.t", key, metadata=True, **columns)
    changes: list[Change] = [Rows("s.t", Insert, [row, blank]), Update("s.t", row, blank), Delete("s.t", row), Commit()]
    return SegmentSpec([table], changes, rotate_to="", **settings).to_bytes()


def _partial() -> bytes:
    table = Table("s.t", key=["a"], a=types.INT, b=types.VARCHAR(20), c=types.INT, d=types.TEXT)
    changes: list[Change] = [
        Insert("s.t", (1, b"x", ..., ...)),
        Update("s.t", (1, ..., ..., ...), (..., b"y", None, ...)),
        Delete("s.t", (1, ..., ..., ...)),
        Commit(),
    ]
    return SegmentSpec([table], changes, rotate_to="").to_bytes()


def _around() -> bytes:
    """Events that stand around rows."""
    table, second_table = Table("s.t", a=types.INT), Table("s.u", metadata=False, a=types.INT, b=types.VARCHAR(9))
    tagged = [(0, varlen(1)), (1, b"".join(map(varlen, range(16)))), (2, varlen(2 * 9)), (3, varlen(2) + b"ab")]
    message = b"".join(varlen(number) + content for number, content in tagged)
    xid = struct.pack("<BIII", 0, 1, 1, 1) + b"ab"
    changes: list[Change] = [
        Statement("s", "CREATE TABLE t (a int)"),
        Rows("s.t", Insert, [(1,), (2,)], last=False),
        Insert("s.u", (3, b"abc")),
        Query("s", "SAVEPOINT `a`"),
        Query("s", "ROLLBACK TO `a`"),
        RawEvent(29, b"\5INSERT"),
        RawEvent(160, b"INSERT"),
        RawEvent(200, b"unknown", flags=0x80),
        Commit(),
        RawEvent(42, varlen(1) + varlen(len(message) + 3) + varlen(0) + message),
        Query("", "BEGIN"),
        RawEvent(16, struct.pack("<Q", 9)),
        RawEvent(162, struct.pack("<QIB", 7, 0, 1) + bytes(6)),
        Query("s", "DROP TABLE x"),
        Insert("s.t", (5,)),
        Rollback(),
        Statement("s", "XA START X'61',X'62',1"),
        Rows("s.t", Update, [((5,), (6,))]),
        Query("s", "XA END X'61',X'62',1"),
        RawEvent(38, xid, ends=True),
        Statement("s", "XA COMMIT X'61',X'62',1"),
        RawEvent(27, b"mysql-bin.000001"),
    ]
    return SegmentSpec([table, second_table], changes).to_bytes()


def _recorded(file: Path) -> Iterator[bytes]:
    """The file's slices, each behind the file's head: a file of its own."""
    slicer = Slicer(file.name, 0, None, target=1)
    batches = [*slicer.feed(file.read_bytes()), *slicer.finish()]
    for row in (row for batch in batches for row in batch.to_pylist() if row["kind"] != "control"):
        yield MAGIC + row["context"] + row["payload"]


def logs() -> list[bytes]:
    """Whole files, none of them large."""
    contents = [_family(name) for name in _FAMILIES]
    contents += [
        _family("texts", checksum=False, rows_version=1),
        _family("numbers", gtids=False),
        _partial(),
        _around(),
    ]
    contents += [log for file in RECORDED for log in _recorded(file)]
    return [log for log in contents if len(log) < 1 << 13]


def log_of(content: bytes) -> bytes:
    """A log with one row event between a family's first table map and its commit; the input has its type and body."""
    if len(content) < 2:
        return MAGIC
    events = split(_family(list(_FAMILIES)[content[0] % len(_FAMILIES)]))
    at = next(at for at, event in enumerate(events) if event[4] in ROW_EVENTS)
    kind = ROW_EVENTS[content[1] % len(ROW_EVENTS)] if content[1] not in ROW_EVENTS else content[1]
    row_event = events[at][:4] + bytes([kind]) + events[at][5:HEADER] + content[2:] + bytes(4)
    return joined([*events[:at], row_event, events[-1]])


def of(target: str) -> list[bytes]:
    """The seeds of a target: its corpus, and what is made of recordings."""
    return [*(logs() if target == "log" else []), *corpus(target)]


def write(target: str, folder: Path) -> None:
    """Puts the seeds into files named by their hashes, as fuzzing engines do."""
    folder.mkdir(parents=True, exist_ok=True)
    for content in of(target):
        folder.joinpath(hashlib.sha1(content, usedforsecurity=False).hexdigest()).write_bytes(content)
