"""Types against a real server: what is decoded from its log, and what it prints of the same rows.

Put here: cases whose truth is the server. Not here: bytes by hand (the modules beside this one).
"""

import itertools
import json
import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.types.charset_tables import SINGLE_BYTE, UTF, WIDTHS
from spark_jobs.binlog.types.charsets import UTF8, _converted, _converter, charset_of
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import wanted_tables
from tests.fix_mysql import Database

pytestmark = pytest.mark.mysql

_ASKED_AT_ONCE = 1000


def test_every_collation_has_the_servers_character_set(database: Database) -> None:
    rows = database.execute("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS")
    assert len(rows) > 250
    names = {"utf8": "utf8mb3"}
    assert {number: names.get(name, name) for number, name in rows} == {
        number: charset_of(number) for number, _ in rows
    }


def sequences(charset: str) -> list[bytes]:
    """All of one and two bytes; all of three of EUC's second plane; a part of those of four."""
    rng = random.Random(charset)
    singles = [bytes([byte]) for byte in range(256)]
    two = [bytes(pair) for pair in itertools.product(range(256), repeat=2)]
    if charset in SINGLE_BYTE:
        return singles
    if charset in UTF:
        points = [rng.randrange(0x110000) for _ in range(2000)] + [0xFFFF, 0x10000, 0x10FFFF, 0x110000, 0xD7FF, 0xE000]
        units = [rng.choice((0xD83D, 0xDC00, 0x41)) << 16 | rng.randrange(0x10000) for _ in range(1000)]
        four = [number.to_bytes(4, "big") for number in points + units]
        return four if charset == "utf32" else two + four
    if charset == "eucjpms":  # MySQL 8.0.12 drops the beginning of a character at the end of a text
        singles, two = singles[:0x80], [pair for pair in two if pair[0] > 0x7F or pair[1] < 0x80]
    if charset in ("ujis", "eucjpms"):
        return singles + two + [bytes([0x8F, a, b]) for a in range(0x9F, 256) for b in range(0x9F, 256)]
    if charset == "gb18030":
        quads = itertools.product(range(0x81, 0x85), range(0x30, 0x3A), range(0x81, 0xFF), range(0x30, 0x3A))
        above = (bytes([0x90 + rng.randrange(0x54), 0x30, 0x81 + rng.randrange(126), 0x39]) for _ in range(1000))
        return [*singles, *two, *map(bytes, quads), *above]
    return singles + two


def as_the_server_has_them(database: Database, charset: str, stored: Sequence[bytes]) -> Iterator[bytes | None]:
    """The UTF-8 of each, None where the server refuses it or has no character for it."""
    for start in range(0, len(stored), _ASKED_AT_ONCE):
        part = stored[start : start + _ASKED_AT_ONCE]
        conversion = "CONVERT(X'%s' USING " + charset + ")"
        expressions = (
            f"HEX({conversion % stored.hex()}), HEX(CONVERT({conversion % stored.hex()} USING utf8mb4))"
            for stored in part
        )
        [row] = database.execute(f"SELECT {', '.join(expressions)}")
        for code, kept_hex, text in zip(part, row[::2], row[1::2], strict=True):
            yield _character(charset, code, kept_hex, text)


def _character(charset: str, stored: bytes, kept_hex: str | None, text: str | None) -> bytes | None:
    if kept_hex is None or text is None or bytes.fromhex(kept_hex) != stored:
        return None
    encoded = bytes.fromhex(text)
    marks = 1 if charset in UTF and len(stored) < 4 and sum(stored) == 0x3F else stored.count(b"?")
    if charset in UTF and len(stored) == 4:
        marks = encoded.count(b"?") if any(part in stored for part in (b"\0?", b"?\0")) else 0
    replaced = encoded.count(b"?") > marks or ("\ufffd" in encoded.decode() and not charset.startswith(("u", "gb1")))
    return None if replaced else encoded


CHARSETS = sorted(set(SINGLE_BYTE) | set(WIDTHS) - UTF8)


@pytest.mark.thorough
@pytest.mark.parametrize("charset", CHARSETS)
def test_every_character_is_the_servers(database: Database, charset: str) -> None:
    stored = sequences(charset)
    joined = np.frombuffer(b"".join(stored) + bytes(64), np.uint8)
    ends = np.cumsum([len(code) for code in stored])
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    offsets.setflags(write=False)  # as Arrow's
    new_offsets, out, bad = _converted(_converter(charset)[0], offsets, address_of(joined))
    text = bytes(out)
    decoded = [None if bad[k] else text[new_offsets[k] : new_offsets[k + 1]] for k in range(len(stored))]
    expected = list(as_the_server_has_them(database, charset, stored))
    wrong = [(code.hex(), a, b) for code, a, b in zip(stored, decoded, expected, strict=True) if a != b]
    assert not wrong, (len(wrong), wrong[:5])


DOCUMENTS = [
    *("'null'", "'true'", "'-32769'", "'65536'", "'18446744073709551615'", "'-9223372036854775808'", "'\"\"'", "'{}'"),
    "CAST(b'1010' AS JSON)",
    "CAST(x'00ff10' AS JSON)",
    "CAST(DATE'2024-02-29' AS JSON)",
    "CAST(TIMESTAMP'2024-02-29 01:02:03.5' AS JSON)",
    "CAST(TIME'87:31:46.654321' AS JSON)",
    "CAST(TIME'-12:31:46.654321' AS JSON)",
    "CAST(9.00 AS JSON)",
    "CAST(-123456789012345678901234567890.123456789 AS JSON)",
    "CAST(-0.5 AS JSON)",
    "CAST(CAST(REPEAT('9', 65) AS DECIMAL(65,0)) AS JSON)",
    "CAST(CAST(0 AS DECIMAL(65,30)) AS JSON)",
    "CAST(ST_GeomFromText('POINT(1 2)') AS JSON)",
    "JSON_ARRAY(x'00', UNHEX(REPEAT('ab', 56)))",
    "JSON_OBJECT('a', 1, 'bb', 2, 'ab', 3, '', 4, 'é', 5, '日本', 6)",
    "JSON_ARRAY(CHAR(0, 1, 8, 9, 10, 11, 12, 13, 31, 34, 92, 127 USING utf8mb4))",
    "CONCAT(REPEAT('[', 100), REPEAT(']', 100))",
    "CONCAT('[', REPEAT('{\"key\": [1.5, null, \"text\"]}, ', 5000), '0]')",
    "'[1e-15, 1.5e-16, 0.1, 1e22, 123456789012345680, 5e-324, -1.7976931348623157e308, 100.25, 1e14]'",
]


def test_json_is_what_the_server_prints(database: Database) -> None:
    database.execute("CREATE TABLE j (id INT PRIMARY KEY, j JSON)")
    database.execute("FLUSH BINARY LOGS")
    [[file, *_]] = database.execute("SHOW MASTER STATUS")
    for number, document in enumerate(DOCUMENTS):
        database.execute(f"INSERT INTO j VALUES ({number}, {document})")
    database.execute("UPDATE j SET j = JSON_SET(j, '$[0]', 'x') WHERE JSON_TYPE(j) = 'ARRAY'")
    database.execute("UPDATE j SET j = JSON_SET(j, '$.bb', '') WHERE JSON_TYPE(j) = 'OBJECT'")
    database.execute("FLUSH BINARY LOGS")
    content = (database.server.data / file).read_bytes()
    pieces = changes_of_files([(file, iter([content]))], wanted_tables([f"{database.name}.j"]))
    printed = {row["id"]: row["j"] for row in (json.loads(line)["after"] for line in "".join(pieces).splitlines())}
    assert printed == dict(database.execute("SELECT id, CAST(j AS CHAR) FROM j"))


def test_an_empty_json_value_is_null(database: Database) -> None:
    database.execute("CREATE TABLE j (id INT PRIMARY KEY, j JSON NOT NULL)")
    database.execute("INSERT INTO j VALUES (1, '1')")
    database.execute("FLUSH BINARY LOGS")
    [[file, *_]] = database.execute("SHOW MASTER STATUS")
    database.execute("UPDATE IGNORE j SET j = NULL")
    database.execute("FLUSH BINARY LOGS")
    content = (database.server.data / file).read_bytes()
    [line] = changes_of_files([(file, iter([content]))], wanted_tables([f"{database.name}.j"]))
    assert json.loads(line)["after"]["j"] == "null"
    assert database.execute("SELECT CAST(j AS CHAR) FROM j") == (("null",),)
