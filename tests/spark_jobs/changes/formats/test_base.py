from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import Column
from spark_jobs.changes.formats.base import ColumnTexts, json_object, kind_of, padded_off, texts_of


@pytest.mark.parametrize(
    "code, fields, kind",
    [
        (3, {"unsigned": True}, "int"),
        (254, {"meta": 10, "charset": 63}, "binary"),
        (252, {"meta": 3, "charset": 63}, "mediumblob"),
        (246, {"meta": 8 << 8 | 2}, "decimal"),
        (247, {"meta": 1, "labels": ("a",)}, "enum"),
    ],
)
def test_kinds(code: int, fields: dict[str, Any], kind: str) -> None:
    assert kind_of(Column("c", code, **fields)) == kind


def test_texts_of_rows() -> None:
    columns = [ColumnTexts(name, Column(name, 3), "int", str, lambda text: f"exactly {text}") for name in ("a", "b")]
    image = pa.RecordBatch.from_pydict({"a": [1, None], "b": [2, 3]})
    raw = pa.array([None, [("a", "x")]], pa.map_(pa.string(), pa.string()))
    assert texts_of(columns, image, raw, None) == [{"a": "1", "b": "2"}, {"a": "exactly x", "b": "3"}]
    assert json_object({"a": "1", "b": None}) == '{"a":1,"b":null}'


def test_a_binary_is_without_its_padding() -> None:
    assert (padded_off(b"a\0b\0\0", "binary"), padded_off(b"a\0", "varbinary")) == (b"a\0b", b"a\0")
