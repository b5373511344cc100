"""Net rows that lack columns, reduced in any grouping, against the plain net change of each key and window."""

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.errors import PartialWindow
from spark_jobs.silver.net_changes import SliceOrigin, net_rows, position_order
from spark_jobs.silver.partial_images import ImageContext, changes_and_absent_columns
from spark_jobs.silver.partial_reduction import needed_net_rows, one_row_per_key
from tests.binlogs.partial_changes import NAMES, ROW_CHANGES, SHAPE, TABLE, changes_of, texts_of
from tests.fix_hypothesis import examples
from tests.twins.plain_layers import Key, NetRow, RowChange, silver_rows

FIRST = 100
CONTEXT = ImageContext(TABLE, "b.000001", is_mariadb=False)


def net_of(changes: list[RowChange], window: int = 0, first: int = FIRST) -> pa.Table:
    """Every net row of some changes of a window."""
    completed_changes, absent = changes_and_absent_columns(changes_of(changes, first), CONTEXT)
    origin = SliceOrigin("b.000001", 1, 1, window)
    return pa.concat_tables(net_rows(completed_changes, origin, NAMES, SHAPE.key, absent))


def reduced(rows: pa.Table, chance: Random) -> pa.Table:
    """The rows in tasks of some rows each, that do not follow each other, reduced once or twice."""
    tasks = chance.randint(1, 3)
    homes = [chance.randrange(tasks) for _ in range(len(rows))]
    parts = []
    for task in range(tasks):
        part = rows.filter(pa.array([home == task for home in homes]))
        cut = chance.randint(0, len(part))
        pieces = [needed_net_rows(piece, SHAPE.key) for piece in (part.slice(0, cut), part.slice(cut)) if len(piece)]
        parts += [needed_net_rows(pa.concat_tables(pieces), SHAPE.key)] if chance.random() < 0.5 and pieces else pieces
    chance.shuffle(parts)
    return pa.concat_tables(parts)


def reduced_in_order(rows: pa.Table, chance: Random) -> pa.Table:
    """The rows in one task that has all of them, reduced as they come."""
    gathered = rows.slice(0, 0)
    while len(rows):
        count = chance.randint(1, len(rows))
        offsets = rows.column("_position").combine_chunks().field("offset")
        while 0 < count < len(rows) and offsets[count - 1] == offsets[count]:
            count += 1
        gathered, rows = pa.concat_tables([gathered, rows.slice(0, count)]), rows.slice(count)
        gathered = needed_net_rows(gathered, SHAPE.key, is_all=True) if chance.random() < 0.5 else gathered
    return gathered


def row_of(key: Key, row: NetRow, window: int) -> dict[str, Any]:
    """A net row as the engine has it."""
    absent = [name for name in NAMES if name not in row.values]
    return {
        **{name: row.values.get(name) for name in NAMES},
        "_window": window,
        "_existed": row.existed,
        "_exists": row.exists,
        "_absent": absent or None,
        "_moved_from": None if row.origin is None else [f"v{part}" for part in row.origin],
        "_position": {"stretch": 1, "number": 1, "offset": row.position, "row": 0},
        "_raw": texts_of(row.values),
        "_changes": row.changes,
    }


@examples(300)
@given(st.lists(ROW_CHANGES, min_size=1, max_size=14), st.integers(0, 14), st.integers(0, 1 << 30))
def test_rows_are_the_net_changes_in_any_grouping(changes: list[RowChange], cut: int, seed: int) -> None:
    windows = [
        (window, part, first) for window, part, first in ((0, changes[:cut], 0), (1, changes[cut:], cut)) if part
    ]
    expected = []
    rows = []
    for window, part, first in windows:
        net = silver_rows(enumerate(part, FIRST + first), SHAPE)
        expected += [row_of(key, row, window) for key, row in net.items()]
        rows.append(net_of(part, window, FIRST + first))
    all_rows, chance = pa.concat_tables(rows), Random(seed)
    is_moved = any(all_rows.column("_moved").to_pylist())
    if is_moved:
        with pytest.raises(PartialWindow):
            one_row_per_key(reduced(all_rows, chance), SHAPE.key)
        all_rows = all_rows.take(pa.array(position_order(all_rows)))
    reduced_rows = reduced_in_order(all_rows, chance) if is_moved else reduced(all_rows, chance)
    final_rows = one_row_per_key(reduced_rows, SHAPE.key, is_all=is_moved)
    final_rows = final_rows.drop_columns(["_committed_at", "_micros", "_moved"])
    assert final_rows.sort_by([("_window", "ascending"), ("id", "ascending")]).to_pylist() == sorted(
        expected, key=lambda row: (row["_window"], row["id"])
    )


def test_a_key_that_is_changed_often_leaves_few_rows() -> None:
    changes = [RowChange({"id": 1}, {"ab"[at % 2]: at}) for at in range(1000)]
    rows = needed_net_rows(net_of(changes), SHAPE.key)
    assert rows.column("_position").combine_chunks().field("offset").to_pylist() == [100, 1098, 1099]
    assert rows.column("_changes").to_pylist() == [0, 0, 1000]
    assert one_row_per_key(rows, SHAPE.key).select([*NAMES, "_absent"]).to_pylist() == [
        {"id": 1, "a": 998, "b": 999, "_absent": None}
    ]
