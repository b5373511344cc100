"""Generated code against the row kernel, which does all that it does: the same changes, and the same errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import kernels
from spark_jobs.binlog.events.table_map import TableDefinition
from spark_jobs.binlog.rows import blocks, codegen
from spark_jobs.binlog.rows.decoder import Decoder
from spark_jobs.errors import DecodeError
from tests import segment_types as types
from tests.fix_hypothesis import examples
from tests.segment_spec import Delete, Insert, Rows, SegmentSpec, Table, Update
from tests.spark_jobs.binlog.test_same_as_slow import (
    RECORDED,
    comparable,
    contents,
    definition_of,
    definitions_of,
    listed,
)

pytestmark = pytest.mark.skipif(kernels.CHECKED, reason="nothing is generated where kernels run as plain Python")


@contextmanager
def worth_code(minimum: int) -> Iterator[None]:
    usual, blocks.WORTH_CODE = blocks.WORTH_CODE, minimum
    try:
        yield
    finally:
        blocks.WORTH_CODE = usual


def decoded(content: bytes, definition: TableDefinition, limit: int, before: Any) -> tuple[list[Any], str]:
    """Rows and how it ended."""
    decoder = Decoder(definition, before=before, rows=limit, gtids=True, partial=True)
    all_rows: list[Any] = []
    try:
        for changes in decoder.decode("log.000001", 0, None, content):
            all_rows += comparable(listed(changes)) if before == "all" else changes.after.to_pylist()
    except DecodeError as error:
        return all_rows, f"{type(error).__name__}: {error}"
    return all_rows, ""


def both_decoders(content: bytes, limit: int, before: Any = "all", table: str = "shop.random") -> list[Any]:
    decoded_lists = []
    for minimum in (1 << 60, 0):
        with worth_code(minimum):
            decoded_lists.append(decoded(content, definition_of(content, table), limit, before))
    return decoded_lists


@pytest.mark.slow
@examples(10)
@given(contents, st.sampled_from([1, 2, 3, 16384]), st.sampled_from(["key", "all"]))
def test_random_rows(content: bytes, limit: int, before: str) -> None:
    usual, code = both_decoders(content, limit, before)
    assert repr(code) == repr(usual)  # a NaN is not equal to itself


ONE_OF_EACH: list[tuple[types.ColumnType, Any]] = [
    (types.TINYINT.NOT_NULL, 1),
    (types.TINYINT.UNSIGNED, 200),
    (types.SMALLINT.UNSIGNED, 5),
    (types.MEDIUMINT, -2),
    (types.MEDIUMINT.UNSIGNED, 7),
    (types.INT.UNSIGNED, 9),
    (types.BIGINT.UNSIGNED, 2**64 - 1),
    (types.DECIMAL(10, 2), "-12.34"),
    (types.DECIMAL(30, 5), "123456789012.00001"),
    (types.DECIMAL(65, 30), "1.5"),
    (types.BIT(9), 257),
    (types.BIT(64), 1),
    (types.DATE, "2024-02-29"),
    (types.DATETIME(3), "2024-02-29 23:59:59.999"),
    (types.TIMESTAMP(2), "1970-01-01 00:00:01.00"),
    (types.TIME(6), "-00:00:01.500000"),
    (types.YEAR, 2024),
    (types.VARCHAR(20), b"twenty"),
    (types.VARCHAR(300), b"three hundred"),
    (types.BINARY(9), b"nine bytes"[:9]),
    (types.MEDIUMBLOB, b"sixteen million"),
    (types.LONGBLOB, b"four billion"),
    (types.ENUM("a", "b,c"), 2),
]


@pytest.mark.slow
@pytest.mark.parametrize("column", ONE_OF_EACH, ids=[f"{kind.code}-{value!r}" for kind, value in ONE_OF_EACH])
def test_damaged_rows(column: tuple[types.ColumnType, Any]) -> None:
    """Each byte of a row, one after the other, is something else. Without checksums, so that it reaches the decoder."""
    kind, value = column
    table = Table("shop.random", key=["id"], id=types.TINYINT, value=kind, note=types.VARCHAR(20))
    pairs = [((1, value, "n"), (2, value, "note"))]
    spec = SegmentSpec([table], [Rows("shop.random", Update, pairs)], checksum=False)
    content = spec.to_bytes()
    [event] = [offset for offset in spec.offsets()[:-1] if content[offset + 4] in range(23, 33)]
    length = int.from_bytes(content[event + 9 : event + 13], "little")
    for offset in range(event + 29, event + min(length, 75)):
        for byte in (0x00, 0x80, 0xFF):
            damaged = content[:offset] + bytes([byte]) + content[offset + 1 :]
            usual, code = both_decoders(damaged, 16384)
            assert code == usual


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_recorded_rows(file: Path) -> None:
    content = file.read_bytes()
    for definition in definitions_of(content):
        usual, code = both_decoders(content, 2, table=str(definition.name))
        assert code == usual
        assert code[0]


TABLE = Table("shop.random", id=types.INT.NOT_NULL, day=types.DATE, price=types.DECIMAL(10, 2), note=types.VARCHAR(9))
USUAL = [(k, "2024-02-29", f"{k}.50", "x" * (k % 9)) for k in range(50)]


@pytest.mark.parametrize(
    "changes, count",
    [
        ([Rows("shop.random", Insert, USUAL)], 50),
        ([Rows("shop.random", Delete, USUAL)], 50),
        ([Rows("shop.random", Update, list(zip(USUAL, reversed(USUAL), strict=True)))], 50),
        ([Rows("shop.random", Insert, [*USUAL[:20], (7, "0000-00-00", None, None), *USUAL[20:]])], 50),
        ([Rows("shop.random", Insert, [(k, None, None, None) for k in range(50)])], 50),
    ],
)
def test_usual_rows_are_taken_by_the_code(changes: list[Any], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the one of a day that no calendar has."""
    counted: list[int] = []
    kernel = kernels.decode_rows

    def counting(*arguments: Any) -> Any:
        reason = kernel(*arguments)
        state = arguments[3]
        counted.append(int(state[kernels.R_USUAL]))
        return reason

    monkeypatch.setattr(kernels, "decode_rows", counting)
    usual, code = both_decoders(SegmentSpec([TABLE], changes).to_bytes(), 16384)
    assert code == usual
    assert counted == [0, 0, 0, count]  # either way it asks for a block first


def test_code_is_made_once_for_a_layout() -> None:
    content = SegmentSpec([TABLE], [Rows("shop.random", Insert, USUAL)]).to_bytes()
    codegen.code_of.cache_clear()
    blocks.plan_of.cache_clear()
    for _ in range(3):
        both_decoders(content, 16384)
    assert codegen.code_of.cache_info().misses == 1


def test_code_waits_until_rows_are_many() -> None:
    content = SegmentSpec([TABLE], [Rows("shop.random", Insert, USUAL)]).to_bytes()
    codegen.code_of.cache_clear()
    blocks._statistics.clear()
    blocks.plan_of.cache_clear()
    with worth_code(120):
        for expected in (0, 0, 0, 1, 1):
            decoded(content, definition_of(content, "shop.random"), 16384, "all")
            assert codegen.code_of.cache_info().misses == expected
