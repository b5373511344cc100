"""What is put into blocks comes out of them: every row once, in its bucket, in its order."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.engine.jobs import key_hash, shuffle_blocks
from spark_jobs.silver.table import Columns

_RAW = pa.map_(pa.string(), pa.string())
_POSITION_TYPE = pa.struct({"number": pa.int64(), "offset": pa.int64()})
_ROWS = st.lists(
    st.tuples(
        st.integers(-9, 9),
        st.none() | st.text(max_size=5),
        st.none() | st.dictionaries(st.text(max_size=2), st.none() | st.text(max_size=3), max_size=2),
    ),
    max_size=40,
)


def table_of(rows: list[tuple[int, str | None, dict[str, str | None] | None]]) -> pa.Table:
    """Rows with their number, in two chunks."""
    table = pa.table(
        {
            "id": pa.array([row[0] for row in rows], pa.int32()),
            "text": pa.array([row[1] for row in rows], pa.string()),
            "_raw": pa.array([None if row[2] is None else list(row[2].items()) for row in rows], _RAW),
            "_position": pa.array([{"number": at, "offset": -at} for at in range(len(rows))], _POSITION_TYPE),
        }
    )
    half = len(rows) // 2
    return pa.concat_tables([table.slice(0, half), table.slice(half)])


@given(rows=_ROWS, buckets=st.integers(1, 7), piece=st.integers(1, 50))
def test_each_row_comes_out_of_its_bucket_once_and_in_order(
    rows: list[tuple[int, str | None, dict[str, str | None] | None]], buckets: int, piece: int
) -> None:
    table = table_of(rows)
    numbers = [bucket * 3 for bucket in range(buckets)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffle_blocks, "_PIECE_ROWS", piece)
        blocks = list(shuffle_blocks.blocks(5, numbers, 2, table, Columns({"id": "INT"}, ("id",))))
    assert {block.unit for block in blocks} <= {5}
    actual: dict[int, list[object]] = defaultdict(list)
    for block in blocks:
        window, batch = shuffle_blocks.rows_of(block)
        assert window == 2
        assert 0 < batch.num_rows <= piece
        actual[block.bucket] += batch.to_pylist()
    # By one row at a time.
    expected: dict[int, list[object]] = defaultdict(list)
    positions = (key_hash.hashes(table, ["id"]) % np.uint64(buckets)).tolist() if rows else []
    for position, row in zip(positions, table.to_pylist(), strict=True):
        expected[numbers[position]].append(row)
    assert actual == expected
