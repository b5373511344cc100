"""What a task finds for a target, against a dictionary that takes silver's rows one after the other."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.delta import schema_changes
from spark_jobs.delta.snapshot import Snapshot, new_table
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.engine.merge import downstream_task
from spark_jobs.engine.merge.downstream_task import DownstreamUnit, merged, newest_rows_to_merge, work
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.engine.target.deleted_rows import Truncations
from spark_jobs.engine.target.target_unit import MergedFiles
from spark_jobs.silver.table import Columns, Op
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import MAPPED, Key, Row, alive, at, key_of, stored, table_of

WINDOW = 100
TYPES = {"id": "BIGINT", "code": "STRING", "day": "DATE"}
DAYS = [date(2026, 1, 1), date(2026, 1, 2), "!0000-00-00", "!2026-00-01"]
KEYS: dict[tuple[str, ...], st.SearchStrategy[Key]] = {
    ("id",): st.tuples(st.integers(-3, 8)),
    ("code",): st.tuples(st.text("aAb", max_size=2)),
    ("id", "code"): st.tuples(st.integers(0, 2), st.text("ab", max_size=1)),
    ("day",): st.tuples(st.sampled_from(DAYS)),
}
State = dict[Key, tuple[int | None, int]]
"""By key its value and position."""
numbers = itertools.count()


@dataclass(frozen=True)
class Case:
    """Rows that a target has, by file; those that a deletion vector marks; windows of silver's, by file."""

    contents: list[list[Row]]
    marked: dict[int, list[int]]
    windows: list[list[Row]]
    after: int | None
    floor: int | None
    empties: bool


@st.composite
def cases(draw: st.DrawFn, keys: st.SearchStrategy[Key]) -> Case:
    count = draw(st.integers(0, 4))
    positions = st.integers(0, WINDOW * (count + 1) - 1)
    contents: list[list[Row]] = []
    marked: dict[int, list[int]] = {}
    used_keys: set[Key] = set()
    for _ in range(draw(st.integers(0, 3))):
        file_keys = draw(st.lists(keys, unique=True, min_size=1, max_size=5))
        file_rows = [Row(key, draw(st.integers(0, 9)), draw(positions)) for key in file_keys]
        marks = [nth for nth, row in enumerate(file_rows) if row.key in used_keys or draw(st.integers(0, 4)) == 0]
        if len(marks) < len(file_rows):  # a file without a row left is in no version
            used_keys |= {row.key for nth, row in enumerate(file_rows) if nth not in marks}
            marked |= {len(contents): marks} if marks else {}
            contents.append(file_rows)
    windows: list[list[Row]] = []
    for nth in range(count):
        start = WINDOW * (nth + 1)
        rows = [
            Row(key, draw(st.integers(10, 99)), start + offset, draw(st.sampled_from([*Op][:3])), start)
            for offset, key in enumerate(draw(st.lists(keys, unique=True, max_size=6)))
        ]
        windows.append(rows)
    bounds = [None, *(WINDOW * nth for nth in range(1, count + 2))]
    floor = draw(st.sampled_from(bounds))
    return Case(
        contents, marked, windows, draw(st.sampled_from(bounds)), floor, floor is not None and draw(st.booleans())
    )


def unit_of(folder: Path, case: Case, key: tuple[str, ...]) -> DownstreamUnit:
    number = next(numbers)
    columns = Columns({name: TYPES[name] for name in key} | {"v": "INT"}, key)
    target = new_table(str(folder / f"target-{number}"), columns.types | ADDED, MAPPED)
    target = stored(target, [table_of(rows, key, target.schema) for rows in case.contents], case.marked)
    origin = new_table(str(folder / f"silver-{number}"), columns.stored, MAPPED)
    blank = Row(tuple(None for _ in key), None, 0, Op.TRUNCATE, 0)
    files = [table_of([blank, *rows], key, origin.schema) for rows in case.windows]
    origin = stored(origin, files)
    return unit_upon(origin, target, columns, case)


def unit_upon(origin: Snapshot, target: Snapshot, columns: Columns, case: Case) -> DownstreamUnit:
    return DownstreamUnit(
        number=7,
        name="shop: t",
        columns=columns,
        origin=origin.path,
        origin_schema=origin.schema,
        pending=origin.files,
        after=None if case.after is None else at(case.after),
        windows=len(case.windows),
        target=target.path,
        schema=target.schema,
        configuration=target.configuration,
        files=target.files,
        rewrites=False,
        floor=None if case.floor is None else at(case.floor),
        empties=case.empties,
    )


def state_of(case: Case) -> State:
    return {
        row.key: (row.value, row.position)
        for file, rows in enumerate(case.contents)
        for nth, row in enumerate(rows)
        if nth not in case.marked.get(file, ())
    }


def expected(case: Case) -> tuple[State, tuple[int, int, int]]:
    """What the target is to be, and how many rows are inserted, updated and deleted."""
    before = state_of(case)
    kept_state = (
        before if not case.empties else {key: cell for key, cell in before.items() if cell[1] >= (case.floor or 0)}
    )
    state = dict(kept_state)
    for row in (row for window in case.windows for row in window):
        is_old = row.window < (case.after or 0) or row.position < (case.floor or 0)
        if is_old or (row.key in kept_state and kept_state[row.key][1] >= row.position):
            continue
        if row.op == Op.DELETE:
            state.pop(row.key, None)
        else:
            state[row.key] = (row.value, row.position)
    updated = sum(key in kept_state and kept_state[key] != cell for key, cell in state.items())
    deleted = len(before) - len(kept_state) + len(kept_state.keys() - state.keys())
    return state, (len(state.keys() - kept_state.keys()), updated, deleted)


def applied(unit: DownstreamUnit, results: list[MergedFiles]) -> State:
    """What the target has behind a commit of these results."""
    removed = {path for result in results for path in result.removed}
    state: State = {}
    for row in rows_behind(unit, results, removed):
        key = key_of(row, unit.columns.key)
        assert key not in state, f"{key} is there twice"
        state[key] = (row["v"], row["_position"]["offset"])
    return state


def rows_behind(unit: DownstreamUnit, results: list[MergedFiles], removed: set[str]) -> Iterator[dict[str, Any]]:
    for file in unit.files:
        if file.path not in removed:
            dead = [np.frombuffer(result.dead.get(file.path, b""), np.int64) for result in results]
            yield from alive(unit.target, file, unit.schema, np.concatenate(dead).tolist())
    for file in (file for result in results for file in result.added):
        yield from alive(unit.target, file, unit.schema)


def counts(results: list[MergedFiles]) -> tuple[int, int, int]:
    return (
        sum(result.inserted for result in results),
        sum(result.updated for result in results),
        sum(result.deleted for result in results),
    )


@pytest.mark.parametrize("key", KEYS, ids=["+".join(key) for key in KEYS])
def test_a_target_is_what_silver_s_rows_make_of_it(
    key: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @examples(25)
    @given(cases(KEYS[key]), st.integers(2, 4), st.integers(1, 9))
    def check(case: Case, parts: int, sampled: int) -> None:
        monkeypatch.setattr(downstream_task, "_SAMPLED", sampled)
        unit = unit_of(tmp_path, case, key)
        expected_state, numbers = expected(case)
        all_results = [merged(unit)]
        assert applied(unit, all_results) == expected_state
        assert counts(all_results) == numbers
        parted = [merged(replace(unit, part=part, parts=parts)) for part in range(parts)]
        assert applied(unit, parted) == expected_state, "parts give together the same as one"
        assert counts(parted) == numbers
        rewritten = [merged(replace(unit, rewrites=True))]
        assert rewritten[0].dead == {}
        assert set(rewritten[0].removed) == set(all_results[0].dead), "files without an old image stay"
        assert applied(unit, rewritten) == expected_state
        assert counts(rewritten) == numbers

    check()


@pytest.mark.parametrize("sampled, minimum, maximum", [(1 << 16, 2250, 2250), (1000, 2200, 2300), (90, 2000, 2500)])
def test_a_sample_of_keys_parts_the_rows_evenly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampled: int, minimum: int, maximum: int
) -> None:
    """Of three files one has keys close together, and the others have theirs among each other's."""
    monkeypatch.setattr(downstream_task, "_SAMPLED", sampled)
    keys = [[*range(3000)], [*range(10**6, 10**9, 333_000)], [*range(10**6 + 7, 10**9, 333_000)]]
    windows = [[Row((key,), 1, WINDOW * at + 1) for key in part] for at, part in enumerate(keys)]
    unit = unit_of(tmp_path, Case([], {}, windows, None, None, False), ("id",))
    counted = [len(newest_rows_to_merge(replace(unit, part=part, parts=4), Truncations())) for part in range(4)]
    assert sum(counted) == 9000
    assert all(minimum <= count <= maximum for count in counted), counted


CASE = Case([[Row((1,), 5, 50), Row((2,), 6, 60)]], {}, [[Row((1,), 10, 100, "update", 100)]], None, None, False)


def test_a_unit_without_new_files_changes_nothing(tmp_path: Path) -> None:
    unit = replace(unit_of(tmp_path, CASE, ("id",)), pending=())
    assert newest_rows_to_merge(unit, Truncations()).column_names == ["id", "v", *ADDED, "_op"]
    assert merged(unit) == MergedFiles(7, {})
    emptied = merged(replace(unit, floor=at(55), empties=True))
    assert (emptied.deleted, emptied.added) == (1, ())


def test_columns_that_a_statement_added_are_filled_in_old_rows(tmp_path: Path) -> None:
    """The file without old images is written again too; new rows have their own value, or none."""
    case = replace(CASE, contents=[*CASE.contents, [Row((3,), 7, 70)]])
    old = unit_of(tmp_path, case, ("id",))
    types = {"id": "BIGINT", "v": "INT", "w": "INT"}
    target = new_table(old.target, {"id": "BIGINT", "v": "INT"} | ADDED, MAPPED)
    target = replace(target, metadata=target.metadata.with_schema(old.schema))
    behind = schema_changes.apply(target, ["ADD COLUMN (`w` INT AFTER `v`)"])
    fill = ColumnFill(behind.schema.column("w"), "CAST(4 AS INT)", pa.scalar(4, pa.int32()))
    unit = replace(
        old,
        columns=Columns(types, ("id",)),
        schema=behind.schema,
        configuration=behind.configuration,
        rewrites=True,
        fills=(fill,),
        origin_schema=new_table("silver", Columns(types, ("id",)).stored, {}).schema,
    )
    origin = new_table(str(tmp_path / "silver"), unit.columns.stored, {})
    origin = stored(origin, [table_of(case.windows[0], ("id",), origin.schema)])
    result = merged(replace(unit, origin=origin.path, origin_schema=origin.schema, pending=origin.files))
    assert {*result.removed} == {file.path for file in unit.files}
    rows = rows_behind(unit, [result], {*result.removed})
    assert sorted((row["id"], row["v"], row["w"]) for row in rows) == [(1, 10, None), (2, 6, 4), (3, 7, 4)]


def test_loaded_rows_are_taken_by_a_first_merge_alone(tmp_path: Path) -> None:
    load = Row((4,), 44, 10, Op.LOAD, 500)
    unit = unit_of(tmp_path, replace(CASE, contents=[], windows=[[load]]), ("id",))
    assert merged(unit).inserted == 1
    assert merged(replace(unit, after=at(400))).inserted == 0


@pytest.mark.parametrize("layer", ["silver", "downstream"])
def test_a_missing_file_is_an_error_of_its_unit_alone(layer: str, tmp_path: Path) -> None:
    broken, intact = (replace(unit_of(tmp_path, CASE, ("id",)), number=number) for number in (1, 2))
    of_silver, of_target = broken.pending[0].location(broken.origin), broken.files[0].location(broken.target)
    missing = of_silver if layer == "silver" else of_target
    missing.unlink()
    first, second = work([broken, intact])
    assert first.error is not None
    assert first.error.startswith(f"LakeError: {missing}: a data file cannot be read: ")
    assert (second.unit, second.error, second.updated) == (2, None, 1)
