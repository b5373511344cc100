from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.delivery.encode import OutputColumn, cuts, joined, key_literals, literals, tuples
from spark_jobs.delivery.target import Connection

LARGEST = 3.4028234663852886e38
"""Of a FLOAT. Its shortest text is a larger number, which a server refuses."""
GEOMETRY = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])


def literals_of(values: list[Any], kind: pa.DataType) -> list[str]:
    [array] = literals(pa.table({"c": pa.array(values, kind)}), [OutputColumn("c", "int")])
    return list(array.to_pylist())


@pytest.mark.parametrize(
    "kind, values, expected",
    [
        (pa.int16(), [0, -5, None], ["0", "-5", "NULL"]),
        (pa.string(), ["it's", "\\", "", "NULL", None], ["'it''s'", "'\\'", "''", "'NULL'", "NULL"]),
        (pa.binary(), [b"\x00'\xff", b"", None], ["x'0027ff'", "x''", "NULL"]),
        (pa.decimal128(20, 8), [Decimal("1.1"), Decimal("1E-8")], ["1.10000000", "CAST('1E-8' AS DECIMAL(20,8))"]),
        (pa.decimal128(20, 0), [Decimal(18446744073709551615)], ["18446744073709551615"]),
        (pa.float64(), [0.1, -0.0, 1e300, None], ["'0.1'", "'-0'", "'1e+300'", "NULL"]),
        (pa.float32(), [0.1, None], ["'0.1'", "NULL"]),
        (pa.float32(), [LARGEST, -LARGEST], ["'3.4028234663852886e+38'", "'-3.4028234663852886e+38'"]),
        (pa.date32(), [date(2024, 2, 29)], ["'2024-02-29'"]),
        (pa.timestamp("us"), [datetime.fromisoformat("0001-01-01T00:00:00.000005")], ["'0001-01-01 00:00:00.000005'"]),
        (pa.timestamp("us", "UTC"), [datetime(2024, 1, 1, tzinfo=UTC)], ["'2024-01-01 00:00:00.000000'"]),
        (GEOMETRY, [{"srid": 4326, "wkb": b"\x01"}, None], ["x'e610000001'", "NULL"]),
        (pa.list_(pa.float32()), [[1.0], None], ["x'0000803f'", "NULL"]),
    ],
    ids=str,
)
def test_literals(kind: pa.DataType, values: list[Any], expected: list[str]) -> None:
    assert literals_of(values, kind) == expected
    assert literals_of(["padding", *values][1:], kind) == expected
    [array] = literals(pa.table({"c": pa.array([None, *values], kind)}).slice(1), [OutputColumn("c", "int")])
    assert array.to_pylist() == expected, "of a slice"


def test_exact_texts_stand_in_for_what_a_typed_column_does_not_hold() -> None:
    raw = pa.array([None, [("d", "0000-00-00"), ("s", "FF00")]], pa.map_(pa.string(), pa.string()))
    rows = pa.table({"d": pa.array([None, None], pa.date32()), "s": ["a", None], "_raw": raw})
    arrays = literals(rows, [OutputColumn("d", "date"), OutputColumn("s", "varchar")])
    assert tuples(arrays).to_pylist() == ["NULL,'a'", "'0000-00-00',x'FF00'"]


def test_a_float_is_compared_as_the_number_that_it_is() -> None:
    rows = pa.table({"f": pa.array([0.1], pa.float32())})
    assert key_literals(rows, [OutputColumn("f", "float")])[0].to_pylist() == ["'0.10000000149011612'"]


def test_cuts() -> None:
    texts = pa.array(["a" * 10] * 5 + ["b" * 100])
    assert list(cuts(texts, 2, 1000)) == [(0, 2), (2, 4), (4, 6)]
    assert list(cuts(texts, 9, 40)) == [(0, 2), (2, 4), (4, 5), (5, 6)]
    assert joined(texts.slice(4, 2), "),(") == b"a" * 10 + b"),(" + b"b" * 100


@pytest.mark.mysql
def test_each_server_takes_the_largest_float(sessions: dict[str, Connection]) -> None:
    rows = pa.table({"f": pa.array([LARGEST, -LARGEST, 3.4028230607370965e38, 1e-45], pa.float32())})
    texts = ", ".join(f"({text})" for text in literals(rows, [OutputColumn("f", "float")])[0].to_pylist())
    for name, session in sessions.items():
        session.execute("DROP TABLE IF EXISTS pairs.t")
        session.execute("CREATE TABLE pairs.t (f FLOAT)")
        session.execute(f"INSERT INTO pairs.t VALUES {texts}")
        [row] = session.rows("SELECT GROUP_CONCAT(f + 0.0e0 ORDER BY f) f FROM pairs.t")
        stored = np.array(row["f"].split(","), np.float64).astype(np.float32)
        assert stored.tolist() == sorted(rows.column("f").to_pylist()), name
