import random
from typing import Any

import pytest

from spark_jobs.binlog.types.charset_tables import CODECS, COLLATIONS, SINGLE_BYTE, UTF
from spark_jobs.binlog.types.charsets import charset_of, finish_for, has_escapes, statement_text, text_of, width_of
from spark_jobs.errors import Unsupported
from tests.binlogs.one_value import decode
from tests.binlogs.segment_spec import Insert, Raw, SegmentSpec, Table
from tests.binlogs.segment_types import VARCHAR


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


def test_every_charset_is_read() -> None:
    assert {name for name in COLLATIONS if name != "binary" and finish_for(name) is None} == set()
    assert width_of("utf8mb4") == 4
    assert width_of("latin1") == 1


PYTHONS = {**CODECS, "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}


@pytest.mark.parametrize("charset", sorted({*SINGLE_BYTE, *CODECS, *UTF}))
def test_text_of_every_charset_reads_back(charset: str) -> None:
    collation = COLLATIONS[charset][0].start
    letters = [letter for letter in SINGLE_BYTE.get(charset, "aZ09 ¥日本語中文한국Ωж") if letter != "\ufffd"]
    pieces = [(letter, _encoded(letter, charset)) for letter in letters]
    mapped = [(letter, stored) for letter, stored in pieces if stored is not None]
    assert len(mapped) > 4
    joined = "".join(letter for letter, _ in mapped), b"".join(stored for _, stored in mapped)
    values = [*mapped, ("", b""), joined]
    decoded, raw = texts(collation, *(stored for _, stored in values), None)
    assert decoded == [*(letter for letter, _ in values), None]
    assert raw == [None] * len(decoded)
    assert [text_of(stored, charset) for _, stored in values] == [letter for letter, _ in values]


def _encoded(letter: str, charset: str) -> bytes | None:
    if charset in SINGLE_BYTE:
        return bytes([SINGLE_BYTE[charset].index(letter)])
    try:
        stored = letter.encode(PYTHONS[charset])
    except UnicodeEncodeError:
        return None
    return stored if stored.decode(PYTHONS[charset]) == letter else None


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
    good = "good".encode(PYTHONS.get(charset_of(collation), "ascii"))
    decoded, raw = texts(collation, good, stored, good, None, b"", stored)
    assert decoded == ["good", None, "good", None, "", None]
    assert raw == [None, {"value": stored.hex()}, None, None, None, {"value": stored.hex()}]


def test_a_character_cut_between_two_values_is_no_text() -> None:
    assert texts(255, b"\xc3", b"\xa9") == ([None, None], [{"value": "c3"}, {"value": "a9"}])
    assert texts(28, b"\x81", b"\x40") == ([None, "@"], [{"value": "81"}, None])


@pytest.mark.parametrize(
    "charset, stored, text",
    [
        ("sjis", "815f", "\\"),
        ("ujis", "a1c0", "\\"),
        ("gb18030", "a8bc", "\u1e3f"),
        ("gb18030", "8135f437", "\ue7c7"),
        ("gb18030", "8431a437", "\ufffd"),
        ("gb18030", "8431a439", "\uffff"),
        ("gb18030", "90308130", "\U00010000"),
        ("gb18030", "e3329a35", "\U0010ffff"),
        ("gb18030", "81308130413f", "\x80A?"),
        ("big5", "f9d6", "碁"),
        ("eucjpms", "8ff3f3", "ⅰ"),
        ("eucjpms", "8ff4fe", "黑"),
        ("eucjpms", "ada1", "①"),
        ("eucjpms", "a1c1", "～"),
        ("eucjpms", "8fa2b7", "～"),
        ("eucjpms", "8ea6", "ｦ"),
        ("eucjpms", "f5a1fefe8ff5a18ffefe", "\ue000\ue3ab\ue3ac\ue757"),
        ("ujis", "f5a18ffefe", "\ue000\ue757"),
        ("ujis", "8fb0a1", "丂"),
        ("utf16", "d83dde00", "😀"),
        ("utf16le", "3dd800de", "😀"),
        ("utf32", "0001f600", "😀"),
        ("ucs2", "fffd", "\ufffd"),
    ],
)
def test_what_servers_have_otherwise_than_python(charset: str, stored: str, text: str) -> None:
    assert text_of(bytes.fromhex(stored), charset) == text


@pytest.mark.parametrize(
    "charset, stored",
    [
        ("big5", "a15a"), ("cp932", "80"), ("cp932", "a0"), ("cp932", "fd41"), ("sjis", "fc"), ("eucjpms", "8f"),
        ("eucjpms", "8fa1"), ("eucjpms", "41a1"), ("eucjpms", "80"), ("ujis", "8ff3f3"), ("gbk", "ff41"),
        ("gb18030", "8130"), ("gb18030", "813081"), ("gb18030", "8431a530"), ("gb18030", "e3329a36"),
        ("gb18030", "8130ff30"), ("gb18030", "ff308130"), ("tis620", "a0"), ("swe7", "7f"), ("ucs2", "d83dde00"),
        ("utf16", "d83d"), ("utf16", "de00d83d"), ("utf16", "d83d0041"), ("utf32", "00110000"), ("utf32", "0000d800"),
        ("utf32", "000000"), ("ascii", "80"),
    ],
)  # fmt: skip
def test_what_is_no_text_of_a_set(charset: str, stored: str) -> None:
    with pytest.raises(UnicodeDecodeError):
        text_of(bytes.fromhex(stored), charset)


@pytest.mark.parametrize("charset", sorted({*SINGLE_BYTE, *CODECS} - {"swe7"}))
def test_a_statement_is_text_of_its_set_or_has_escapes(charset: str) -> None:
    rng = random.Random(charset)
    for _ in range(300):
        wire = b"DROP TABLE `" + rng.randbytes(rng.randrange(1, 7)) + b"`"
        try:
            text = text_of(wire, charset)
        except UnicodeDecodeError:
            assert has_escapes(statement_text(wire, charset))
        else:
            assert statement_text(wire, charset) == text


@pytest.mark.parametrize(
    "charset, stored, text",
    [
        ("latin1", b"a\xe9\x80", "a\u00e9\u20ac"),
        ("cp1257", b"a\xa1", "a\\xa1"),
        ("cp932", "表".encode("cp932"), "表"),
        ("big5", b"\xa1\x5a\xa4\x40", "\\xa1Z\\xa4@"),  # Python has the first of them, servers do not
        ("gbk", b"\xff\x81\x5c", "\\xff乗"),
        ("utf8mb4", b"\xc3\xa9\xe9", "é\\xe9"),
        ("utf16", b"\xe9\x00", "\\xe9\x00"),
        ("binary", b"\xe9", "\\xe9"),
        (None, "é".encode(), "é"),
        ("swe7", b"`{`", "`{`"),
    ],
)
def test_statements_that_are_and_are_not_text_of_their_set(charset: str | None, stored: bytes, text: str) -> None:
    assert statement_text(stored, charset) == text


def test_ascii_is_passed_through_between_other_characters() -> None:
    text = "0123456789abcdef中0123456中01234567"
    assert texts(28, text.encode("gbk"), b"", text[1:].encode("gbk"))[0] == [text, "", text[1:]]
