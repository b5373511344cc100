import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.binlog.events.table_map import Column
from spark_jobs.binlog.types.base import Filled
from spark_jobs.binlog.types.enum_set import _finish_enum
from spark_jobs.errors import DecodeError
from tests.binlogs.one_value import check, column_of, read
from tests.binlogs.segment_types import ENUM, SET, ColumnType

MANY = tuple(f"m{number}" for number in range(257))
FULL = MANY[:64]


@pytest.mark.parametrize(
    "kind, wire, value",
    [
        (ENUM("a,b", "c'd", "ü"), "01", "a,b"),
        (ENUM("a,b", "c'd", "ü"), "03", "ü"),
        (ENUM("a"), "00", ""),
        (ENUM(*MANY), "0101", "m256"),
        (ENUM(*MANY), "0100", "m0"),
        (SET("x", "y", "z"), "00", ""),
        (SET("x", "y", "z"), "05", "x,z"),
        (SET(*MANY[:18]), "050000", "m0,m2"),
        (SET(*FULL), "0000000000000080", "m63"),
        (SET(*MANY[:33]), "0100000000000080", "m0"),  # as MySQL 5.7 stores two members that the SET has not
        (SET(*FULL), "ffffffffffffffff", ",".join(FULL)),
    ],
)
def test_label(kind: ColumnType, wire: str, value: str) -> None:
    check(kind, wire, value)
    assert column_of(kind).arrow == pa.string()


@pytest.mark.parametrize("limit", [1, 31, 32, 33, 255])
def test_many_labels_of_many_rows(limit: int) -> None:
    generator = np.random.default_rng(limit)
    labels = tuple("x" * int(size) for size in generator.integers(1, limit + 1, 40))
    numbers = generator.integers(0, 41, 900, dtype=np.uint64)
    numbers[::7] = 0
    validity = pa.array(np.arange(900) % 7 != 0).buffers()[1]
    filled = Filled(900, pa.py_buffer(numbers), None, validity, -1, marked=False)
    array, _ = _finish_enum(labels)(filled)
    array.validate(full=True)
    all_labels = ["", *labels]
    assert array.to_pylist() == [
        None if row % 7 == 0 else all_labels[number] for row, number in enumerate(numbers.tolist())
    ]


@pytest.mark.parametrize(
    "kind, wire, message",
    [
        (ENUM("a", "b"), "03", "an ENUM value beyond its 2 labels"),
        (SET("a", "b"), "04", "a SET value beyond its 2 labels"),
    ],
)
def test_a_number_beyond_the_labels_stops(kind: ColumnType, wire: str, message: str) -> None:
    with pytest.raises(DecodeError, match=rf"log.000001:\d+: row 0: shop.t.value: {message}"):
        read(kind, bytes.fromhex(wire))


def test_sql_type_quotes_labels() -> None:
    assert Column("e", 247, 1, labels=("a,b", "c'd")).sql_type == "enum('a,b','c''d')"
    assert Column("e", 248, 1).sql_type == "set()"
