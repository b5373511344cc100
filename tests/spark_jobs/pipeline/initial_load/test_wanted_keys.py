"""Keys as a user gives them."""

from decimal import Decimal

import pyarrow as pa
import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.pipeline.initial_load.key_ranges import Key
from spark_jobs.pipeline.initial_load.wanted_keys import keys_of_texts
from spark_jobs.silver.table import Columns

RAW = pa.field("_raw", pa.map_(pa.string(), pa.string()))


def test_the_server_is_asked_by_parameters_and_the_lake_by_values_of_its_types() -> None:
    columns = Columns({"id": "BIGINT", "p%": "DECIMAL(10,2)", "b": "BINARY", "v": "STRING"}, ("id", "p%", "b"))
    fields = pa.schema([("id", pa.int64()), ("p%", pa.decimal128(10, 2)), ("b", pa.binary()), ("v", pa.string()), RAW])
    keys = keys_of_texts(["b=0x00ff,p%=1.50,id=7"], columns, fields, "shop.t")
    (part,) = keys.parts
    condition = part.condition(Key("shop", "t", ()))
    assert condition == ("`id` = %s AND `p%%` = %s AND `b` = %s", ["7", "1.50", b"\x00\xff"])
    assert keys.lake_keys.to_pylist() == [{"id": 7, "p%": Decimal("1.50"), "b": b"\x00\xff", "_raw": None}]
    for key, message in (
        ("id=7", "--key 'id=7': the key of shop.t has 3 columns (id, p%, b), and this has 1 value; write"),
        ("id=x,p%=1,b=00", "'x' is no value of a column of type int64"),
        ("7,x,00", "p%: 'x' is no value of a column of type decimal128(10, 2)"),
        ("1,1,0xyz", "'0xyz' is no value of a column of type binary"),
    ):
        with pytest.raises(ConfigError) as refused:
            keys_of_texts([key], columns, fields, "shop.t")
        assert message in str(refused.value)


def test_of_several_keys_the_one_that_is_none_is_named() -> None:
    columns, fields = Columns({"id": "BIGINT"}, ("id",)), pa.schema([("id", pa.int64()), RAW])
    for key, message in (
        ("x", "--key: id: 'x' is no value of a column of type int64"),
        ("1,2", "--key '1,2': the key of shop.t has 1 column (id), and this has 2 values; write it like id=…"),
    ):
        with pytest.raises(ConfigError) as refused:
            keys_of_texts(["7", key], columns, fields, "shop.t")
        assert str(refused.value) == message
