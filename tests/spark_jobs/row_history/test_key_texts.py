import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.errors import ConfigError
from spark_jobs.row_history.key_texts import key_columns, key_text

NAME = TableName("shop", "t")
UTF8, BINARY = 255, 63


def table(*columns: Column, key: tuple[int, ...] | None = None) -> TableDefinition:
    return TableDefinition(NAME, columns, tuple(range(len(columns))) if key is None else key)


@pytest.mark.parametrize(
    "column, value, text",
    [
        (Column("id", 3), "42", "42"),
        (Column("id", 3), "0042", "42"),
        (Column("id", 8, unsigned=True), "18446744073709551615", "18446744073709551615"),
        (Column("id", 246, (10 << 8) | 2), "1.5", '"1.50"'),
        (Column("name", 15, 80, charset=UTF8), 'a,"b', '"a,\\"b"'),
        (Column("name", 254, 80, charset=BINARY), "0x00ff", '{"base64": "AP8="}'),
        (Column("day", 10), "2026-02-03", '"2026-02-03"'),
        (Column("day", 10), "0000-00-00", '"0000-00-00"'),
        (Column("at", 18, 3), "2026-02-03 04:05:06.7", '"2026-02-03 04:05:06.700"'),
        (Column("kind", 247, 1, charset=UTF8, labels=("open", "paid")), "paid", '"paid"'),
    ],
)
def test_a_key_is_written_as_changes_have_it(column: Column, value: str, text: str) -> None:
    assert key_text(table(column), value) == text


def test_a_key_of_several_columns_has_commas() -> None:
    of_two = table(Column("region", 15, 80, charset=UTF8), Column("id", 3))
    assert key_columns(of_two) == ["region", "id"]
    assert key_text(of_two, "eu,7") == '"eu", 7'
    assert key_text(of_two, '"e,u", 7') == '"e,u", 7'
    assert key_text(of_two, "id=7,region=e,u") == '"e,u", 7'
    assert key_text(table(Column("id", 3)), "id=7") == "7"
    # What does not name the key's columns is a value.
    assert key_text(table(Column("name", 15, 80, charset=UTF8)), "id=7") == '"id=7"'
    with pytest.raises(
        ConfigError,
        match=r"the key of shop\.t has 2 columns \(region, id\), and this has 1 value; write it like region",
    ):
        key_text(of_two, "eu")


@pytest.mark.parametrize(
    "definition, text, message",
    [
        (table(Column("id", 3)), "x", r"--key 'x': id of shop\.t is int, and this is no value of it"),
        (table(Column("id", 3)), "1,2", r"--key '1,2': the key of shop\.t has 1 column \(id\), and this has 2 values"),
        (table(Column("day", 10)), "2026-02-03,1", r"has 1 column \(day\), and this has 2 values"),
        (table(Column("id", 3)), "4294967296", r"id of shop\.t is int"),
        (table(Column("b", 254, 80, charset=BINARY)), "xyz", "bytes are written in hex"),
        (TableDefinition(NAME, (Column("id", 3),), ()), "1", r"shop\.t has no key; choose rows by --where"),
        (TableDefinition(NAME, (Column("id", 3),)), "1", r"the key of shop\.t is not known"),
    ],
)
def test_what_is_no_key_is_refused(definition: TableDefinition, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        key_text(definition, text)


def test_the_type_of_the_text_is_the_keys_own() -> None:
    assert pa.types.is_string(pa.scalar(key_text(table(Column("id", 1)), "-3")).type)
