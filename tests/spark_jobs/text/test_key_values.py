from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.text.key_values import key_values, require_one_value, typed_value


@pytest.mark.parametrize(
    "text, columns, expected",
    [
        ("id=1", "id", ["1"]),
        (" id=1", "id", ["1"]),
        ("line=1,order_id=100", "order_id line", ["100", "1"]),
        ("name=a,b,line=1", "line name", ["1", "a,b"]),
        ("name=a=b", "name", ["a=b"]),
        ("id=3,name=c,d=e", "id name", ["3", "c,d=e"]),
        ("name=", "name", [""]),
        ("", "name", [""]),
        ("1", "id", ["1"]),
        ("eu,7", "region id", ["eu", "7"]),
        ('"e,u", 7', "region id", ["e,u", "7"]),
        # What does not name the key's columns is a value.
        ("id=7", "name", ["id=7"]),
        ("a,b", "name", ["a,b"]),
    ],
)
def test_the_values_of_a_key(text: str, columns: str, expected: list[str]) -> None:
    assert key_values(text, columns.split(), "shop.t") == expected


@pytest.mark.parametrize(
    "text, count", [("eu", "1 value"), ("eu,7,8", "3 values"), ("region=eu", "1 value"), ("", "0 values")]
)
def test_too_few_or_too_many_values_are_refused(text: str, count: str) -> None:
    with pytest.raises(ConfigError) as refused:
        key_values(text, ["region", "id"], "shop.t")
    assert str(refused.value) == (
        f"--key {text!r}: the key of shop.t has 2 columns (region, id), and this has {count}; write it like "
        "region=…,id=…"
    )


def test_several_values_for_a_key_of_one_column_are_refused_by_their_number() -> None:
    with pytest.raises(ConfigError) as refused:
        require_one_value("1,2", ["id"], "shop.t")
    assert str(refused.value) == (
        "--key '1,2': the key of shop.t has 1 column (id), and this has 2 values; write it like id=…"
    )
    require_one_value("x", ["id"], "shop.t")
    require_one_value("x,y", ["region", "id"], "shop.t")


@pytest.mark.parametrize(
    "text, kind, expected",
    [
        ("7", pa.int32(), 7),
        ("1.50", pa.decimal128(10, 2), Decimal("1.50")),
        ("0x00ff", pa.binary(), b"\x00\xff"),
        ("00FF", pa.binary(), b"\x00\xff"),
        ("2026-02-03", pa.date32(), date(2026, 2, 3)),
        ("7", pa.string(), "7"),
    ],
)
def test_a_value_of_a_type(text: str, kind: pa.DataType, expected: Any) -> None:
    value = typed_value(text, kind)
    assert (value.as_py(), value.type) == (expected, kind)


@pytest.mark.parametrize(
    "text, kind",
    [("x", pa.int32()), ("4294967296", pa.int32()), ("0xyz", pa.binary()), ("1.555", pa.decimal128(3, 2)),
     ("0000-00-00", pa.date32())],
)  # fmt: skip
def test_what_is_no_value_of_a_type(text: str, kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match=r".+"):
        typed_value(text, kind)
