"""Keys as lists of texts, and back."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.silver import moved_from_codec

RAW = pa.map_(pa.string(), pa.string())
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, -(1 << 63), (1 << 63) - 1]),
    (pa.uint8(), [0, 255]),
    (pa.string(), ["", "v", "x'\0é"]),
    (pa.binary(), [b"", b"\xff\0"]),
    (pa.decimal128(30, 4), [Decimal("-1.5000"), Decimal("12345678901234567890.0001")]),
    (pa.float32(), [0.1, 1e30]),
    (pa.float64(), [0.1, -2.5e-300]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    (pa.timestamp("us"), [datetime.fromisoformat(text) for text in ("1000-01-01", "2024-02-29 23:59:59.999999")]),
    (pa.timestamp("us", "UTC"), [datetime(2024, 2, 29, 23, 59, 59, 1, UTC)]),
    (pa.bool_(), [True, False]),
]


@pytest.mark.parametrize("kind, values", VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_a_key_is_the_same_after_it_was_written(kind: pa.DataType, values: list[Any]) -> None:
    cells = pa.array(values, kind)
    rows = pa.table({"id": cells, "l": cells, "_raw": pa.nulls(len(values), RAW)})
    texts = moved_from_codec.keys_to_texts(rows, ["id", "l"])
    keys, numbers = moved_from_codec.keys_from_texts(texts, ["id", "l"], rows.schema)
    assert keys.to_pylist() == rows.to_pylist()
    assert numbers.to_pylist() == [*range(len(values))]


def test_a_value_that_no_column_holds_has_its_exact_text() -> None:
    raw = pa.array([[("d", "0000-00-00"), ("other", "1")], None], RAW)
    rows = pa.table({"d": pa.array([None, date(2024, 1, 2)]), "_raw": raw})
    texts = moved_from_codec.keys_to_texts(rows, ["d"])
    assert texts.to_pylist() == [["x0000-00-00"], ["v2024-01-02"]]
    keys, _ = moved_from_codec.keys_from_texts(texts, ["d"], rows.schema)
    assert keys.to_pylist() == [{"d": None, "_raw": [("d", "0000-00-00")]}, {"d": date(2024, 1, 2), "_raw": None}]


def test_lists_of_another_key_are_left_out() -> None:
    schema = pa.schema([pa.field("id", pa.int64())])
    texts = pa.array([["v1", "v2"], None, ["v3"]], moved_from_codec.TEXTS)
    keys, numbers = moved_from_codec.keys_from_texts(texts, ["id"], schema)
    assert (keys.column("id").to_pylist(), numbers.to_pylist()) == ([3], [2])
    keys, numbers = moved_from_codec.keys_from_texts(pa.array([["va"]], moved_from_codec.TEXTS), ["id"], schema)
    assert (len(keys), len(numbers)) == (0, 0)
