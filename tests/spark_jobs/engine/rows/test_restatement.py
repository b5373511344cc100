"""Windows done again, loads and new windows in any order: a target is what silver's newest row of each key says."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from spark_jobs.config.modes import Mode
from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.engine.rows.restatement import equal_rows_mask
from spark_jobs.lake.commit import APPLICATION
from spark_jobs.log.position import Range
from spark_jobs.silver.table import Op
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import Row, at, newest
from tests.spark_jobs.engine.silver_lakes import STEPS, Silver


@pytest.mark.parametrize("first", ["window", "load"])
@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE])
@pytest.mark.parametrize(
    "is_plain", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["deletion vectors", "plain"]
)
def test_a_target_is_what_all_of_silver_says(first: str, mode: Mode, is_plain: bool, tmp_path: Path) -> None:
    number = 0

    @examples(4)
    @given(st.lists(STEPS, min_size=4, max_size=9), st.sampled_from([6000, 32 << 20]), st.data())
    def check(steps: list[str], task_bytes: int, data: st.DataObject) -> None:
        nonlocal number
        number += 1
        lake = Silver(tmp_path / f"{first}-{number}", mode=mode, task_bytes=task_bytes, plain=is_plain)
        for step in [first, "window", "merge", *steps, "merge"]:
            if is_plain and step == "rename":
                continue
            replays = lake.take(step, data.draw)
            if step in ("merge", "again"):
                lake.merge(replays)
                assert lake.target_state == lake.expected

    check()


@pytest.fixture
def two(tmp_path: Path) -> Silver:
    """Two windows that the target has: key 1 of the first, keys 1 and 2 of the second."""
    lake = Silver(tmp_path)
    lake.window([Row((1,), 10, 1), Row((3,), 30, 2)])
    lake.window([Row((1,), 11, 1, Op.UPDATE), Row((2,), 20, 2)])
    lake.merge()
    return lake


def test_a_window_that_decodes_to_the_same_changes_no_row(two: Silver) -> None:
    two.redo(100, [Row((1,), 10, 1), Row((3,), 30, 2)], by_vector=False)
    files = newest(two.target.path).files
    merged = two.merge()
    assert merged is not None
    assert (merged.inserted, merged.updated, merged.deleted, merged.redone) == (0, 0, 0, 1)
    assert newest(two.target.path).files == files
    assert two.target_state == {1: (11, 201, False, ()), 2: (20, 202, False, ()), 3: (30, 102, False, ())}


def test_no_key_goes_back(two: Silver) -> None:
    """A later window has key 1 too: what the older one says of it now is no state of it."""
    two.redo(100, [Row((1,), 99, 1), Row((4,), 40, 2)], by_vector=False)
    merged = two.merge()
    assert merged is not None
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 0, 1)
    assert two.target_state == {1: (11, 201, False, ()), 2: (20, 202, False, ()), 4: (40, 102, False, ())}


def test_loaded_rows_fill_what_no_window_says(two: Silver) -> None:
    two.load([Row((1,), 9, 0), Row((5,), 50, 0)])
    merged = two.merge()
    assert merged is not None
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 0, 0)
    assert two.target_state == {
        1: (11, 201, False, ()),
        2: (20, 202, False, ()),
        3: (30, 102, False, ()),
        5: (50, 50, False, ()),
    }


def test_a_row_that_is_wrong_downstream_is_mended_by_merging_its_window_again(two: Silver) -> None:
    target = newest(two.target.path)
    (file,) = target.files
    (vector,) = deletion_vectors.write(target.path, [BitMap64([0])], target.configuration)
    head = two.target.head()
    assert head is not None
    assert head.checkpoint is not None
    commits.commit(
        target,
        dv_updates=[(file, vector)],
        transaction=(APPLICATION, head.counter + 1),
        user_metadata=head.checkpoint.to_json(),
    )
    assert len(two.target_state) == 2
    assert two.merge() is None
    two.merge((Range(at(100), at(200)), Range(at(200), at(300))))
    assert two.target_state == two.expected


def test_only_files_that_may_hold_the_keys_are_read(two: Silver, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in range(10, 60, 10):
        two.window([Row((start + key,), 0, key) for key in range(5)])
    two.merge()
    files_read: list[str] = []
    original = data_files.read_row_group

    def noted(opened: Any, *rest: Any) -> Any:
        files_read.append(str(opened.reader))
        return original(opened, *rest)

    two.redo(100, [Row((3,), 31, 2)], by_vector=False)
    monkeypatch.setattr(data_files, "read_row_group", noted)
    two.merge()
    assert two.target_state == two.expected
    assert len(files_read) < len(newest(two.table.path).files)


def test_values_are_compared_through_structures_and_maps() -> None:
    kind = pa.map_(pa.string(), pa.string())
    position = pa.struct([("a", pa.int32()), ("b", pa.int32())])

    def table(values: list[Any], maps: list[Any], positions: list[Any]) -> pa.Table:
        columns = [pa.array(values, pa.int32()), pa.array(maps, kind), pa.array(positions, position)]
        return pa.table(columns, names=["v", "m", "p"])

    entry = [("a", "b")]
    first = table([1, 2, None, 4, 5, 6], [None, entry, None, entry, None, None], [{"a": 1, "b": 2}] * 5 + [None])
    second = table(
        [1, 2, None, 4, None, 6],
        [None, entry, None, [("a", "c")], None, None],
        [{"a": 1, "b": 2}] * 2 + [{"a": 1, "b": 3}] + [{"a": 1, "b": 2}] * 2 + [{"a": None, "b": None}],
    )
    assert equal_rows_mask(first, second).tolist() == [True, True, False, False, False, False]
