from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_jobs.binlog.events.table_map import Column
from spark_jobs.binlog.rows.decoder import Decoder
from spark_jobs.binlog.types import EITHER_SIGN
from spark_jobs.errors import Unsupported
from tests.binlogs.one_value import FILE, check, column_of, definition_of
from tests.binlogs.segment_spec import Insert, Raw, SegmentSpec, Table
from tests.binlogs.segment_types import BIGINT, BIT, DOUBLE, FLOAT, INT, MEDIUMINT, SMALLINT, TINYINT, ColumnType


@pytest.mark.parametrize(
    "kind, sql, arrow, wire, value",
    [
        (TINYINT, "tinyint", pa.int8(), "80", -128),
        (TINYINT.UNSIGNED, "tinyint unsigned", pa.int16(), "80", 128),
        (TINYINT.UNSIGNED, "tinyint unsigned", pa.int16(), "ff", 255),
        (SMALLINT, "smallint", pa.int16(), "0080", -32768),
        (SMALLINT.UNSIGNED, "smallint unsigned", pa.int32(), "ffff", 65535),
        (MEDIUMINT, "mediumint", pa.int32(), "000080", -8388608),
        (MEDIUMINT, "mediumint", pa.int32(), "ffff7f", 8388607),
        (MEDIUMINT, "mediumint", pa.int32(), "ffffff", -1),
        (MEDIUMINT.UNSIGNED, "mediumint unsigned", pa.int32(), "ffffff", 16777215),
        (INT, "int", pa.int32(), "00000080", -(2**31)),
        (INT.UNSIGNED, "int unsigned", pa.int64(), "ffffffff", 2**32 - 1),
        (BIGINT, "bigint", pa.int64(), "0000000000000080", -(2**63)),
        (BIGINT.UNSIGNED, "bigint unsigned", pa.decimal128(20, 0), "ffffffffffffffff", Decimal(2**64 - 1)),
        (FLOAT, "float", pa.float32(), "0000c0bf", -1.5),
        (DOUBLE, "double", pa.float64(), "9a9999999999b93f", 0.1),
        (BIT(1), "bit(1)", pa.int64(), "01", 1),
        (BIT(3), "bit(3)", pa.int64(), "04", 4),
        (BIT(8), "bit(8)", pa.int64(), "20", 32),
        (BIT(17), "bit(17)", pa.int64(), "01ffff", 131071),
        (BIT(63), "bit(63)", pa.int64(), "7fffffffffffffff", 2**63 - 1),
        (BIT(64), "bit(64)", pa.decimal128(20, 0), "ffffffffffffffff", Decimal(2**64 - 1)),
    ],
)
def test_number(kind: ColumnType, sql: str, arrow: pa.DataType, wire: str, value: object) -> None:
    check(kind, wire, value)
    assert (column_of(kind).sql_type, column_of(kind).arrow) == (sql, arrow)


def test_an_integer_of_unknown_sign_is_refused() -> None:
    with pytest.raises(Unsupported, match="signed is unknown"):
        Column("id", 3, unsigned=None).reading()


@pytest.mark.parametrize(
    "kind, wire, value, raw",
    [
        (TINYINT, "7f", 127, None),
        (TINYINT, "80", None, "-128 or 128"),
        (TINYINT.UNSIGNED, "ff", None, "-1 or 255"),
        (SMALLINT, "ff7f", 32767, None),
        (SMALLINT, "0080", None, "-32768 or 32768"),
        (MEDIUMINT, "ffff7f", 8388607, None),
        (MEDIUMINT, "ffffff", None, "-1 or 16777215"),
        (INT, "00000000", 0, None),
        (INT, "00000080", None, "-2147483648 or 2147483648"),
        (BIGINT, "ffffffffffffff7f", 2**63 - 1, None),
        (BIGINT.UNSIGNED, "ffffffffffffffff", None, "-1 or 18446744073709551615"),
    ],
)
def test_an_integer_of_either_sign_has_both_numbers_where_they_differ(
    kind: ColumnType, wire: str, value: int | None, raw: str | None
) -> None:
    content = SegmentSpec(
        [Table("shop.t", value=kind)], [Insert("shop.t", (cell,)) for cell in (Raw(bytes.fromhex(wire)), None)]
    ).to_bytes()
    definition = definition_of(content)
    column = replace(definition.columns[0], unsigned=None, declared=EITHER_SIGN)
    blocks = list(Decoder(replace(definition, columns=(column,))).decode(FILE, 0, None, content))
    values = [number for changes in blocks for number in changes.after["value"].to_pylist()]
    texts = [
        dict(raw_cell or ()) for changes in blocks for raw_cell in (changes.raw.to_pylist() if changes.raw else [None])
    ]
    assert values == [value, None]
    assert texts[0].get("value") == raw
    assert column.sql_type.endswith(" of unknown sign")
