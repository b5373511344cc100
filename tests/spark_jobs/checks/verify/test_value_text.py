"""What a value's text means. That both sides make the same of a value is tested with a server, in test_tables.py."""

import pytest
from pyspark.sql import SparkSession

from spark_jobs.checks.verify.value_text import form_of
from spark_jobs.errors import Unsupported


def column(kind: str, declared: str = "", charset: str = "utf8mb4", fraction: int = 0) -> dict[str, object]:
    return {"kind": kind, "declared": declared or kind, "charset": charset, "fraction": fraction}


@pytest.mark.parametrize(
    "facts, text, literal, expected",
    [
        (column("int"), b"-5", "-5", "-5"),
        (column("decimal"), b"-0.10", "-0.10", "-0.10"),
        (column("date"), b"0000-00-00", "'0000-00-00'", "0000-00-00"),
        (column("time"), b"-00:00:01.50", "'-00:00:01.50'", "-00:00:01.50"),
        (column("double"), b"3FB999999999999A", "0.1", "0.1"),
        (column("double"), b"7FEFFFFFFFFFFFFF", "1.7976931348623157e+308", "1.7976931348623157e+308"),
        (column("float"), b"3FB99999A0000000", "0.10000000149011612", "0.1"),
        (column("varchar"), "é'".encode(), "_utf8mb4 x'c3a927'", "é'"),
        (column("varchar", charset="latin1"), "é".encode(), "CONVERT(_utf8mb4 x'c3a9' USING latin1)", "é"),
        (column("varchar", charset="gbk"), b"\xff\x81", "_gbk x'81'", "bytes 81"),
        (column("enum", charset="latin1"), b"a", "CONVERT(_utf8mb4 x'61' USING latin1)", "a"),
        (column("binary"), b"\0\xff", "x'00ff'", "0x00ff"),
        (column("varbinary"), b"", "x''", "0x"),
        (column("point"), b"\0\0\x10\xe6\x01", "", "srid 4326 wkb 0x01"),
        (column("vector"), bytes.fromhex("400000003f800000"), "", "[1.0, 2.0]"),
    ],
)
def test_a_text_as_a_literal_and_for_people(facts: dict[str, object], text: bytes, literal: str, expected: str) -> None:
    form = form_of(facts)
    assert form.display(text) == expected
    assert not literal or form.literal(text) == literal


@pytest.mark.parametrize(
    "facts, first, second, extra_value, is_same",
    [
        (column("double"), b"8000000000000000", b"0000000000000000", None, True),
        (column("double"), b"3FB999999999999A", b"3FB999999999999B", None, False),
        (column("json"), b'{"a": 1e20, "b": [true]}', b'{"b": [true], "a": 100000000000000000000.0}', None, True),
        (column("json"), b'{"a": true}', b'{"a": 1}', None, False),
        (column("json"), b'{"a": "x"}', b'{"a": "X"}', None, False),
        (column("json"), b'"base64:type253:AAAA\\nBBBB"', b'"base64:type253:AAAABBBB"', None, True),
        (column("json"), b'{"a"', b'{"a"', None, False),
        (column("text", charset="cp932"), b"\xff\x87\x90?", "≒?".encode(), "≒?".encode(), True),
        (column("text", charset="cp1250"), b"\xff\x81", b"?", b"?", False),
        (column("text", charset="cp1250"), b"\xff\x81", b"\xff\x83", b"?", False),
        (column("varchar"), b"a", b"A", None, False),
        (column("int"), b"1", b"01", None, False),
    ],
)
def test_texts_that_differ_may_be_one_value(
    facts: dict[str, object], first: bytes, second: bytes, extra_value: bytes | None, is_same: bool
) -> None:
    assert form_of(facts).is_equal(first, second, extra_value) == is_same


def test_zerofill_is_no_part_of_a_number() -> None:
    assert form_of(column("int", "int(5) unsigned zerofill")).server == "{c} + 0"
    assert form_of(column("int")).server == "{c}"


def test_a_type_that_nobody_knows_is_refused() -> None:
    with pytest.raises(Unsupported, match="values of type xmltype are not compared"):
        form_of(column("xmltype"))


def test_base64_is_equal_whatever_its_line_ends_are_written_like() -> None:
    is_same = form_of(column("json")).is_equal
    printed, escaped = b'{"b": "base64:type15:YWJj\nZGVm"}', b'{"b": "base64:type15:YWJj\\nZGVm"}'
    assert is_same(printed, escaped, None)
    assert not is_same(printed, b'{"b": "base64:type15:YWJjZGVn"}', None)
    assert not is_same(b'{"b": "a\nb"}', b'{"b": "ab"}', None)


@pytest.mark.spark
def test_a_time_that_no_column_holds_is_printed_with_the_digits_of_its_column(spark: SparkSession) -> None:
    """Rows of before a statement that gives a DATETIME more digits have its earlier ones."""
    texts = "'0000-00-00 00:00:00'", "'2024-00-00 00:00:00.5'", "'2024-00-00 00:00:00.500000'", "NULL"
    rows = ", ".join(f"(TIMESTAMP_NTZ'2024-01-02 03:04:05.25', {text})" for text in texts)
    for digits, zeros in ((6, "000000"), (0, "")):
        sql = form_of(column("datetime", fraction=digits)).lake.format(c="c", raw="raw")
        printed = [row[0] for row in spark.sql(f"SELECT {sql} FROM VALUES {rows} AS t (c, raw)").collect()]
        assert printed[0] == "0000-00-00 00:00:00" + ("." + zeros if zeros else "")
        if digits:
            assert printed[1:] == [*["2024-00-00 00:00:00.500000"] * 2, "2024-01-02 03:04:05.250000"]
