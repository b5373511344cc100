from typing import Any

import pytest

from spark_jobs.binlog.types.charset_tables import CODECS, COLLATIONS, CORRECTIONS, SINGLE_BYTE
from spark_jobs.binlog.types.charsets import charset_of, finish_for, text_of, width_of
from spark_jobs.errors import Unsupported
from tests.one_value import decode
from tests.segment_spec import Insert, Raw, SegmentSpec, Table
from tests.segment_types import VARCHAR


def texts(collation: int, *stored: bytes | None) -> tuple[list[Any], list[Any]]:
    """The stored values as a column of a collation, and their exact texts."""
    table = Table("shop.t", value=VARCHAR(1000, collation, 1))
    rows = [
        Insert("shop.t", (None if value is None else Raw(len(value).to_bytes(2, "little") + value),))
        for value in stored
    ]
    changes = decode(SegmentSpec([table], rows).to_bytes())
    changes.after.validate(full=True)
    raw = [None] * len(stored) if changes.raw is None else [row and dict(row) for row in changes.raw.to_pylist()]
    return changes.after["value"].to_pylist(), raw


@pytest.mark.parametrize(
    "collation, charset",
    [
        (8, "latin1"),
        (33, "utf8mb3"),
        (45, "utf8mb4"),
        (63, "binary"),
        (255, "utf8mb4"),
        (309, "utf8mb4"),
        (323, "utf8mb4"),
        (1070, "utf8mb4"),
        (1216, "utf8mb3"),
        (2048, "utf8mb3"),
        (2304, "utf8mb4"),
        (250, "gb18030"),
        (608, "utf8mb4"),
    ],
)
def test_charset_of(collation: int, charset: str) -> None:
    assert charset_of(collation) == charset


@pytest.mark.parametrize("collation", [0, 17, 324, 1024, 9999])
def test_unknown_collation(collation: int) -> None:
    with pytest.raises(Unsupported, match=f"collation {collation} "):
        charset_of(collation)


def test_every_charset_is_read_or_refused_by_name() -> None:
    refused = [name for name in COLLATIONS if not _is_read(name)]
    assert refused == ["binary", "eucjpms"]
    assert width_of("utf8mb4") == 4
    assert width_of("latin1") == 1


def _is_read(name: str) -> bool:
    try:
        return finish_for(name) is not None
    except Unsupported:
        return False


def test_a_charset_that_is_not_read_is_named() -> None:
    with pytest.raises(Unsupported, match="character set eucjpms"):
        finish_for("eucjpms")


@pytest.mark.parametrize("charset", sorted({*SINGLE_BYTE, *CODECS}))
def test_text_of_every_charset_reads_back(charset: str) -> None:
    collation = COLLATIONS[charset][0].start
    letters = [letter for letter in SINGLE_BYTE.get(charset, "aZ09 ¥日本語中文한국Ωж") if letter != "\ufffd"]
    pieces = [(letter, _encoded(letter, charset)) for letter in letters]
    known = [(letter, stored) for letter, stored in pieces if stored is not None]
    assert len(known) > 4
    whole = "".join(letter for letter, _ in known), b"".join(stored for _, stored in known)
    values = [*known, ("", b""), whole]
    found, raw = texts(collation, *(stored for _, stored in values), None)
    assert found == [*(letter for letter, _ in values), None]
    assert raw == [None] * len(found)
    assert [text_of(stored, charset) for _, stored in values] == [letter for letter, _ in values]


def _encoded(letter: str, charset: str) -> bytes | None:
    if charset in SINGLE_BYTE:
        return bytes([SINGLE_BYTE[charset].index(letter)])
    try:
        stored = letter.encode(CODECS[charset])
    except UnicodeEncodeError:
        return None
    return stored if stored.decode(CODECS[charset]) == letter else None


@pytest.mark.parametrize(
    "collation, stored",
    [
        (255, b"\xff"), (255, b"\xc0\x80"), (255, b"\xed\xa0\x80"), (255, b"\xf4\x90\x80\x80"), (255, b"abcdefgh\xc3"),
        (255, b"\x80"), (33, b"\xe2\x98"), (11, b"\xc3\xa9"), (25, b"a\xff"), (28, b"\x81"),
        (28, b"ab\x81"), (35, b"\0"),
        (54, b"\xd8\0"), (60, b"\0\x11\0\0"), (13, b"\x81\x20"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_text_are_null_and_hex(collation: int, stored: bytes) -> None:
    good = "good".encode(CODECS.get(charset_of(collation), "ascii"))
    found, raw = texts(collation, good, stored, good, None, b"", stored)
    assert found == ["good", None, "good", None, "", None]
    assert raw == [None, {"value": stored.hex()}, None, None, None, {"value": stored.hex()}]


def test_a_character_cut_between_two_values_is_no_text() -> None:
    assert texts(255, b"\xc3", b"\xa9") == ([None, None], [{"value": "c3"}, {"value": "a9"}])
    assert texts(28, b"\x81", b"\x40") == ([None, "@"], [{"value": "81"}, None])


def test_separators_inside_values_do_no_harm() -> None:
    values = ["a\x1eb", "\x1f", "", "\x1d\x1c\x02\x03\x04\x05", "中"]
    assert texts(28, *(value.encode("gbk") for value in values))[0] == values


def test_corrections_are_the_servers() -> None:
    assert text_of(b"\x81\x5f", "sjis") == "\\"
    assert text_of(b"\xa8\xbc", "gb18030") == "ḿ"
    assert all(charset in CODECS for charset in CORRECTIONS)
