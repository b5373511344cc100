"""Values of all types as the change feed writes them."""

import base64
import json
import struct
from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.binlog import TableDefinition
from spark_jobs.changes.feed import changes_of_files
from tests.binlogs import segment_types as t
from tests.binlogs.segment_spec import (
    Insert,
    Raw,
    Rows,
    SegmentSpec,
    Table,
)
from tests.spark_jobs.changes.feeds import ANY, changes_of


def after(kind: t.ColumnType, value: Any, *, metadata: bool = True) -> Any:
    """What one value becomes: the second column of an inserted row."""
    table = Table("s.t", ["id"], metadata, id=t.TINYINT, v=kind)
    (change,) = changes_of(SegmentSpec(tables=[table], changes=[Insert("s.t", (1, value))]))
    return change["after"]["v" if metadata else "@2"]


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        (t.TINYINT, -128, -128),
        (t.TINYINT.UNSIGNED, 255, 255),
        (t.SMALLINT, -32768, -32768),
        (t.MEDIUMINT.UNSIGNED, 16777215, 16777215),
        (t.INT.UNSIGNED, 4294967295, 4294967295),
        (t.BIGINT, -(2**63), -(2**63)),
        (t.BIGINT.UNSIGNED, 2**64 - 1, 2**64 - 1),
        (t.YEAR, 2026, 2026),
        (t.YEAR, 0, 0),
        (t.BIT(1), 1, 1),
        (t.BIT(64), 2**64 - 1, 2**64 - 1),
        (t.FLOAT, 0.1, 0.1),
        (t.FLOAT, struct.unpack("<f", struct.pack("<f", 16777217.0))[0], 16777216.0),
        (t.FLOAT, 3.4028234663852886e38, 3.4028235e38),
        (t.FLOAT, -1.17549435e-38, -1.1754944e-38),
        (t.DOUBLE, 0.1, 0.1),
        (t.DOUBLE, 1.7976931348623157e308, 1.7976931348623157e308),
        (t.DOUBLE, 5e-324, 5e-324),
        (t.DECIMAL(10, 2), "-0.37", "-0.37"),
        (t.DECIMAL(10, 2), "5", "5.00"),
        (t.DECIMAL(20, 0), "12345678901234567890", "12345678901234567890"),
        (t.DECIMAL(20, 10), "0", "0.0000000000"),
        (t.DECIMAL(30, 20), "0.00000000000000000001", "0.00000000000000000001"),
        (t.DECIMAL(65, 30), "1" * 35 + "." + "2" * 30, "1" * 35 + "." + "2" * 30),
        (t.DATE, "2024-02-29", "2024-02-29"),
        (t.DATE, "0099-01-02", "0099-01-02"),
        (t.DATE, "0000-00-00", "0000-00-00"),
        (t.DATE, "2024-00-28", "2024-00-28"),
        (t.DATE, "2024-02-31", "2024-02-31"),
        (t.DATETIME(), "2024-02-29 12:00:00", "2024-02-29 12:00:00"),
        (t.DATETIME(1), "2024-02-29 12:00:00.5", "2024-02-29 12:00:00.5"),
        (t.DATETIME(6), "0999-12-31 23:59:59.000001", "0999-12-31 23:59:59.000001"),
        (t.DATETIME(3), "1969-12-31 23:59:59.999", "1969-12-31 23:59:59.999"),
        (t.DATETIME(2), "0000-00-00 00:00:00.00", "0000-00-00 00:00:00.00"),
        (t.TIMESTAMP(), "2038-01-19 03:14:07", "2038-01-19T03:14:07Z"),
        (t.TIMESTAMP(4), "1970-01-01 00:00:01.1234", "1970-01-01T00:00:01.1234Z"),
        (t.TIMESTAMP(), "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        (t.TIME(), "-838:59:59", "-838:59:59"),
        (t.TIME(2), "-00:00:01.50", "-00:00:01.50"),
        (t.TIME(6), "00:00:00.000001", "00:00:00.000001"),
        (t.CHAR(10), "ä€😀", "ä€😀"),
        (t.CHAR(10, t.LATIN1, 1), "Größe €", "Größe €"),
        (t.VARCHAR(300), 'quoted "text"\n', 'quoted "text"\n'),
        (t.TEXT, "", ""),
        (t.LONGTEXT, "x" * 70000, "x" * 70000),
        (t.VARCHAR(10), Raw(b"\x02\xff\xfe"), {"base64": "//4="}),
        (t.TEXT, Raw(b"\x01\x00\xc3"), {"base64": "ww=="}),
        (t.BINARY(4), b"\x01\x00\x02\x00", {"base64": "AQACAA=="}),
        (t.VARBINARY(10), b"", {"base64": ""}),
        (t.BLOB, b"\x00\xff", {"base64": "AP8="}),
        (t.ENUM("a", "b,c"), "b,c", "b,c"),
        (t.ENUM("a", "b,c"), 0, ""),
        (t.SET("a", "b", "c"), "a,c", "a,c"),
        (t.SET("a", "b", "c"), "", ""),
        (t.JSON_DOCUMENT, {"a": [1.0, None], "é": "\n"}, '{"a": [1.0, null], "é": "\\n"}'),
        (t.JSON_DOCUMENT, b"", "null"),
        (t.GEOMETRY, (4326, b"\x01\x02"), {"srid": 4326, "wkb": "AQI="}),
        (t.GEOMETRY, Raw(b"\0\0\0\0"), {"base64": ""}),
        (t.VECTOR, [1.5, 0.1], [1.5, 0.1]),
        (t.OLD_TIME, -123456, "-12:34:56"),
        (t.OLD_DATETIME, 20240229121314, "2024-02-29 12:13:14"),
        (t.OLD_TIMESTAMP, 1, "1970-01-01T00:00:01Z"),
        (t.INT, None, None),
        (t.BLOB, None, None),
        (t.TIMESTAMP(6), None, None),
    ],
)  # fmt: skip
def test_values_are_written_as_the_contract_says(kind: t.ColumnType, value: Any, expected: Any) -> None:
    json_value = after(kind, value)
    assert json_value == expected
    assert type(json_value) is type(expected)


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        (t.ENUM("a", "b"), "b", 2),
        (t.SET("a", "b", "c"), "a,c", 5),
        (t.VARCHAR(10), "größe", "größe"),
        (t.VARCHAR(10), Raw(b"\x02\xff\xfe"), {"base64": "//4="}),
        (t.BLOB, b"\xff\x00", {"base64": "/wA="}),
        (t.DATE, "0000-00-00", "0000-00-00"),
    ],
)
def test_values_whose_meaning_the_log_leaves_out(kind: t.ColumnType, value: Any, expected: Any) -> None:
    """Without full metadata there are no names, no labels and no character sets."""
    table = Table("s.t", metadata=False, v=kind)
    (change,) = changes_of(SegmentSpec(tables=[table], changes=[Insert("s.t", (value,))]))
    assert change["after"] == {"@1": expected}


@pytest.mark.parametrize(
    "code, declared, wire, expected",
    [
        (7, "timestamp(1)", "0000000105", "1970-01-01T00:00:01.5Z"),
        (12, "datetime(6)", "01027abd25e0db10", "2024-02-29 12:13:14.250000"),
        (7, "timestamp", "01000000", "1970-01-01T00:00:01Z"),
    ],
)
def test_an_old_temporal_type_has_the_digits_of_its_definition(
    code: int, declared: str, wire: str, expected: str
) -> None:
    def complete(logged: TableDefinition, *_: object) -> TableDefinition:
        return replace(logged, columns=(replace(logged.columns[0], declared=declared),))

    table = Table("s.t", v=t.ColumnType(code, b"", bytes))
    content = SegmentSpec(tables=[table], changes=[Insert("s.t", (Raw(bytes.fromhex(wire)),))]).to_bytes()
    (line,) = changes_of_files([("mysql-bin.000001", iter([content]))], ANY, complete)
    assert json.loads(line)["after"] == {"v": expected}


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        (t.LONGTEXT, 'ä"\\\n€😀\x01' * 40_000, 'ä"\\\n€😀\x01' * 40_000),
        (t.LONGBLOB, bytes(range(256)) * 1000, {"base64": base64.b64encode(bytes(range(256)) * 1000).decode()}),
        (
            t.LONGTEXT,
            Raw(struct.pack("<I", 200_000) + b"\xff" * 200_000),
            {"base64": base64.b64encode(b"\xff" * 200_000).decode()},
        ),
    ],
)
def test_long_values_are_written_in_pieces(kind: t.ColumnType, value: Any, expected: Any) -> None:
    table = Table("s.t", ["id"], id=t.INT, v=kind, behind=t.VARCHAR(9))
    spec = SegmentSpec(tables=[table], changes=[Insert("s.t", (1, value, "é"))])
    pieces = list(changes_of_files([("b.000001", iter([spec.to_bytes()]))], ANY))
    assert json.loads("".join(pieces))["after"] == {"id": 1, "v": expected, "behind": "é"}
    assert max(map(len, pieces)) < 1 << 19 or isinstance(value, Raw)


def test_bytes_are_base64_that_reads_back() -> None:
    value = bytes(range(256))
    assert base64.b64decode(after(t.BLOB, value)["base64"]) == value


@pytest.mark.parametrize("notes", [(None, "a", "b"), ("a", None, "b"), ("a", "b", None), (None, None, None)])
def test_nulls_anywhere_in_an_event(notes: tuple[str | None, ...]) -> None:
    table = Table("s.t", note=t.VARCHAR(9))
    changes = [Rows("s.t", Insert, [(note,) for note in notes])]
    assert (
        tuple(change["after"]["note"] for change in changes_of(SegmentSpec(tables=[table], changes=changes))) == notes
    )
