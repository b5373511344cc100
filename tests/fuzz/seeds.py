"""Where the fuzzer begins: small files of every kind of event and type, and JSON documents of every kind.

A fuzzing engine gets further from many small inputs than from a few large: recorded files are taken slice by slice.

Put here: bytes that are right. Not here: how they are damaged (mutations.py).
"""

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_jobs.binlog.slices.slicer import Slicer
from tests import segment_types as types
from tests.segment_spec import (
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

MAGIC = b"\xfebin"
RECORDED = sorted(Path(__file__).parents[1].joinpath("recorded").glob("*.000001"))
FINDINGS = Path(__file__).parent / "findings"
"""Inputs that once broke a judge, by target: ``log-…`` and ``json-…``."""

DOCUMENTS = tuple(
    map(
        bytes.fromhex,
        (
            "0400",  # null
            "0401",  # true
            "050100",  # 1
            "0790eefeff",  # -70000
            "0a0000000000000080",  # 9223372036854775808
            "0b000000000000f83f",  # 1.5
            "0c0474657874",
            "0c0761225c0a01c3bc",  # to be escaped
            "0200000400",  # []
            "0000000400",  # {}
            "0202001b00050100020a0002001100050200020a0001000700050300",  # [1, [2, [3]]]
            (  # {"a": 1, "bb": [null, "x"], "ü": {"c": 2.5e300}}
                "0003003e00190001001a0002001c000200050100021e00002a00616262c3bc02000c000400000c0a000178010014000b"
                "0001000b0c0063039300aa4bdd4d7e"
            ),
            "0ff60404028c22",  # DECIMAL
            "0f0c080000000000bab219",  # DATETIME
            "0f0b08fbffff1188faffff",  # TIME
            (  # a blob
                "0f0f496279746573206f66206120626c6f622c206f66206d6f7265207468616e203537206f66207468656d20736f2074"
                "68617420626173653634206861732061207365636f6e64206c696e65"
            ),
            (  # {"k": [1, "xxx", {"n": null}]}, large
                "01010000004300000013000000010003140000006b030000002f00000005010000000c17000000011b00000003787878"
                "010000001400000013000000010004000000006e"
            ),
            "03020000001400000007701101000c120000000176",  # [70000, "v"], large
        ),
    )
)

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
        "a": (JSON, DOCUMENTS[11]),
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


def of(target: str) -> list[bytes]:
    """The seeds of a target, and what was found by it before."""
    seeds = logs() if target == "log" else list(DOCUMENTS)
    return seeds + [file.read_bytes() for file in sorted(FINDINGS.glob(f"{target}-*"))]


def write(target: str, folder: Path) -> None:
    """Puts the seeds into files named by their hashes, as fuzzing engines do."""
    folder.mkdir(parents=True, exist_ok=True)
    for content in of(target):
        folder.joinpath(hashlib.sha1(content, usedforsecurity=False).hexdigest()).write_bytes(content)
