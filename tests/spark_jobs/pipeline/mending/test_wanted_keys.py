"""Keys as a user gives them."""

from decimal import Decimal

import pyarrow as pa
import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.pipeline.initial_load.key_ranges import Key
from spark_jobs.pipeline.mending.wanted_keys import keys_of_texts, parsed
from spark_jobs.silver.table import Columns

RAW = pa.field("_raw", pa.map_(pa.string(), pa.string()))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("id=1", {"id": "1"}),
        ("order_id=100,line=1", {"order_id": "100", "line": "1"}),
        ("name=a,b,code=c=d", {"name": "a,b", "code": "c=d"}),
        (" id = 1", {"id": " 1"}),
        ("id=", {"id": ""}),
    ],
)
def test_values_may_have_commas_and_equals_signs(text: str, expected: dict[str, str]) -> None:
    assert parsed(text) == expected


@pytest.mark.parametrize("text", ["", "id", "=1", "id=1,"])
def test_what_is_no_key_is_refused(text: str) -> None:
    if text == "id=1,":
        assert parsed(text) == {"id": "1,"}  # the value ends with a comma
        return
    with pytest.raises(ConfigError, match="is no COLUMN=VALUE, such as id=1"):
        parsed(text)


def test_the_server_is_asked_by_parameters_and_the_lake_by_values_of_its_types() -> None:
    columns = Columns({"id": "BIGINT", "p%": "DECIMAL(10,2)", "b": "BINARY", "v": "STRING"}, ("id", "p%", "b"))
    fields = pa.schema([("id", pa.int64()), ("p%", pa.decimal128(10, 2)), ("b", pa.binary()), ("v", pa.string()), RAW])
    keys = keys_of_texts([{"b": "0x00ff", "p%": "1.50", "id": "7"}], columns, fields)
    (part,) = keys.parts
    condition = part.condition(Key("shop", "t", ()))
    assert condition == ("`id` = %s AND `p%%` = %s AND `b` = %s", ["7", "1.50", b"\x00\xff"])
    assert keys.lake_keys.to_pylist() == [{"id": 7, "p%": Decimal("1.50"), "b": b"\x00\xff", "_raw": None}]
    for key, message in (
        ({"id": "7"}, "the key has the columns id, p%, b, and id given"),
        ({"id": "x", "p%": "1", "b": "00"}, "'x' is no value of a column of type int64"),
        ({"id": "1", "p%": "1", "b": "0xyz"}, "'0xyz' is no value of a column of type binary"),
    ):
        with pytest.raises(ConfigError) as refused:
            keys_of_texts([key], columns, fields)
        assert message in str(refused.value)
