import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.binlog.events.table_map import Column
from spark_jobs.binlog.types.base import Filled, Refused, as_is, fixed
from spark_jobs.errors import Unsupported


def filled(values: list[int], nulls: list[bool]) -> Filled:
    bitmap = np.packbits([not null for null in nulls], bitorder="little")
    slots = pa.py_buffer(np.array(values, np.int32))
    return Filled(len(values), slots, None, pa.py_buffer(bitmap) if any(nulls) else None, sum(nulls), marked=False)


@pytest.mark.parametrize("nulls", [[False] * 3, [True, False, True], [True] * 3])
def test_slots_become_an_array_with_its_nulls(nulls: list[bool]) -> None:
    block = filled([7, 8, 9], nulls)
    array, exact = as_is(pa.int32())(block)
    assert array.to_pylist() == [None if null else value for value, null in zip([7, 8, 9], nulls, strict=True)]
    assert exact is None
    assert block.is_null().tolist() == [int(null) for null in nulls]
    assert block.numbers("i4").tolist() == [7, 8, 9]


def test_texts_keep_the_column_s_nulls() -> None:
    block = filled([0, 0], [False, True])
    assert block.texts(np.array([0, 2, 2], np.int32), np.frombuffer(b"ab", np.uint8)).to_pylist() == ["ab", None]


def test_a_fixed_reading_has_the_width_of_its_array() -> None:
    assert fixed(1, 3, pa.int64()).width == 8
    assert not fixed(1, 3, pa.int64()).is_text


def test_a_refused_type_has_a_name_and_no_reading() -> None:
    kind = Refused("geometry", 1)
    column = Column("place", 255, 4)
    assert kind.sql(column) == "geometry"
    with pytest.raises(Unsupported, match="type geometry is not read in this version; leave the table out"):
        kind.reading(column)
