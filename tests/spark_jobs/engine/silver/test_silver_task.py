"""What tasks make of slices of random changes, against the plain net change of each key and window."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.bronze.index import OF_TABLE
from spark_jobs.config.filters import EventFilter, TableFilters
from spark_jobs.config.table_patterns import Scope
from spark_jobs.engine.jobs.spark_job import Capacity, ShuffleBlock
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.engine.silver import silver_job
from spark_jobs.engine.silver.silver_plan import PreparedCompaction, stopped_before_failures
from spark_jobs.engine.silver.silver_task import REFILLED, Refill, WindowResult, finish, work
from spark_jobs.errors import DecodeError, LakeError, PartialImage
from tests.binlogs.partial_changes import SHAPE
from tests.binlogs.segment_spec import Delete, Insert, Update
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine import partial_logs
from tests.spark_jobs.engine.lake_rows import alive
from tests.spark_jobs.engine.logs_of_rows import (
    NAMES,
    Net,
    carried_out,
    carried_out_undivided,
    keyless_log_of,
    log_of,
    units_of,
    works_of,
)
from tests.twins.plain_layers import NetRow, RowChange, silver_rows

numbers = count()


@pytest.fixture(params=["one task", pytest.param("several tasks", marks=pytest.mark.thorough)])
def capacity(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Capacity:
    if request.param == "several tasks":
        monkeypatch.setattr(silver_job, "_LEAST_TASK_BYTES", 1)
        return Capacity(3, 1000)
    return Capacity(1)


def net(unit: PreparedCompaction, window: int, results: Sequence[WindowResult]) -> Net:
    """What the files of a window say; every key stands in one of them alone."""
    net_changes: Net = {}
    schema = unit.unit.windows[window].schema
    for result in results:
        if result.window == window and result.file:
            for row in alive(unit.unit.path, result.file, schema):
                assert row["id"] not in net_changes
                net_changes[row["id"]] = (row["_op"], None if row["_op"] == "delete" else row["v"])
                (part,) = unit.unit.windows[window].ranges
                bounds = [row[name]["offset"] for name in ("_window_start", "_window_stop")]
                assert bounds == [part.start.offset, part.stop.offset]
                assert part.start.offset <= row["_position"]["offset"] < part.stop.offset
    return net_changes


def test_files_are_the_net_changes(capacity: Capacity, tmp_path: Path) -> None:
    @examples(30)
    @given(
        st.integers(0, 1 << 30),
        st.sets(st.integers(1, 11), max_size=2),
        st.sampled_from([1, 200, 600, 1 << 20]),
        st.sets(st.sampled_from([Insert, Update, Delete]), max_size=2),
    )
    def check(seed: int, cuts: set[int], target: int, ignored: set[type]) -> None:
        log = log_of(Random(seed))
        works, index = works_of(log, tmp_path / str(next(numbers)), sorted(cuts), target)
        events = tuple(kind.__name__.casefold() for kind in ignored)
        filters = TableFilters((EventFilter("some", Scope.parse(("shop.*",)), events, (), "ignore"),))
        units = units_of([replace(work, filters=filters) for work in works], index)
        results, _ = carried_out(works[0].window.table.path, units, capacity)
        bounds = [0, *sorted(cuts), len(log.ends)]
        for unit in units:
            unit_results, name = results[unit.unit.number], unit.work.name
            assert all(result.error is None for result in unit_results)
            for window, (first, stop) in enumerate(pairwise(bounds)):
                expected = log.net(name, first, stop, ignored)
                assert net(unit, window, unit_results) == expected
                here = [result for result in unit_results if result.window == window]
                kinds = Counter(type(change) in ignored for change in log.changes(name, first, stop))
                assert sum(result.changes for result in here) == kinds[False]
                assert sum(result.filtered.get("filters.some", 0) for result in here) == kinds[True]
                ops = [op for op, _ in expected.values()]
                assert [sum(getattr(result, f"{op}s") for result in here) for op in ("insert", "update", "delete")] == [
                    ops.count(op) for op in ("insert", "update", "delete")
                ]

    check()


def test_files_of_a_table_without_a_key_are_the_net_copies_of_rows(capacity: Capacity, tmp_path: Path) -> None:
    @examples(20)
    @given(st.integers(0, 1 << 30), st.sets(st.integers(1, 11), max_size=2), st.sampled_from([1, 200, 600, 1 << 20]))
    def check(seed: int, cuts: set[int], target: int) -> None:
        log = keyless_log_of(Random(seed))
        works, index = works_of(log, tmp_path / str(next(numbers)), sorted(cuts), target, is_keyless=True)
        units = units_of(works, index)
        results, _ = carried_out(works[0].window.table.path, units, capacity)
        bounds = [0, *sorted(cuts), len(log.ends)]
        for unit in units:
            for window, (first, stop) in enumerate(pairwise(bounds)):
                here = [result for result in results[unit.unit.number] if result.window == window]
                assert copies(unit, window, here) == dict(log.copies(unit.work.name, first, stop))
                assert sum(result.changes for result in here) == len([*log.changes(unit.work.name, first, stop)])

    check()


def copies(unit: PreparedCompaction, window: int, results: Sequence[WindowResult]) -> dict[tuple[int, int | None], int]:
    """What the files of a window say; every row stands in one of them alone."""
    by_row: dict[tuple[int, int | None], int] = {}
    files = [result.file for result in results if result.file]
    for row in (row for file in files for row in alive(unit.unit.path, file, unit.unit.windows[window].schema)):
        cells, row_count = (row["id"], row["v"]), row["_copies"]
        assert cells not in by_row
        assert row["_op"] == ("insert" if row_count > 0 else "delete" if row_count < 0 else "update")
        assert row["_existed"] is None
        by_row[cells] = row_count
    return by_row


def test_several_tasks_send_pieces_and_slices_are_cut(capacity: Capacity, tmp_path: Path) -> None:
    """What the property above is about is there: cut slices, and units that several tasks have a part of."""
    works, index = works_of(log_of(Random(3)), tmp_path, [5], 1 << 20)
    units = units_of(works, index)
    assert any(offset for unit in units for table in unit.slices for offset in table["offset"].to_pylist())
    works, index = works_of(log_of(Random(3)), tmp_path / "small", [5], 200)
    _, tasks = carried_out(works[0].window.table.path, units_of(works, index), capacity)
    assert (tasks > 1) == (capacity.slots > 1)


def test_a_decode_error_is_its_unit_s_alone(capacity: Capacity, tmp_path: Path) -> None:
    log = log_of(Random(5), broken="shop.u")
    works, index = works_of(log, tmp_path, [])
    units = units_of(works, index)
    results, _ = carried_out(works[0].window.table.path, units, capacity)
    intact, broken = (results[unit.unit.number] for unit in units)
    assert [result.error for result in intact if result.error] == []
    assert net(units[0], 0, intact) == log.net(NAMES[0], 0, len(log.ends))
    (failed,) = (result for result in broken if result.error)
    assert isinstance(failed.error, DecodeError)
    assert "b.000001:" in str(failed.error)
    # The table keeps what comes before the transaction that failed, and stops there.
    shortened = stopped_before_failures(units[1], broken, index)
    assert shortened.ended is not None
    assert shortened.ended.at == failed.failing
    before, _ = carried_out(works[0].window.table.path, [shortened], capacity)
    assert [result.error for result in before[shortened.unit.number] if result.error] == []
    first = next(at for at, end in enumerate(log.ends) if end > failed.failing.offset)
    assert net(shortened, 0, before[shortened.unit.number]) == log.net(NAMES[1], 0, first)


def test_bronze_that_is_gone_is_an_error_of_the_unit(capacity: Capacity, tmp_path: Path) -> None:
    works, index = works_of(log_of(Random(5)), tmp_path, [])
    units = units_of(works, index)
    (file,) = (tmp_path / "bronze").glob("*.parquet")
    file.unlink()
    results, _ = carried_out(works[0].window.table.path, units, capacity)
    errors = {result.error for unit_results in results.values() for result in unit_results}
    assert all(
        isinstance(error, LakeError) and str(error).startswith(f"{file}: a data file of bronze cannot be read: ")
        for error in errors
    )


def unwritable(unit: PreparedCompaction, folder: Path) -> PreparedCompaction:
    """The unit with a silver table in the place of a file."""
    (folder / "file").touch()
    return replace(unit, unit=replace(unit.unit, path=str(folder / "file")))


def test_what_cannot_be_written_is_an_error_of_the_unit(capacity: Capacity, tmp_path: Path) -> None:
    works, index = works_of(log_of(Random(5)), tmp_path, [])
    first, second = units_of(works, index)
    results, _ = carried_out(works[0].window.table.path, [unwritable(first, tmp_path), second], capacity)
    errors = [result.error for result in results[first.unit.number]]
    assert all(isinstance(error, LakeError) and "cannot be written" in str(error) for error in errors)
    assert [result.error for result in results[second.unit.number] if result.error] == []


def test_a_bucket_without_pieces_writes_nothing() -> None:
    pieces: list[ShuffleBlock] = []
    assert [*finish({})(pieces)] == []


def test_a_refill_that_fails_is_an_error_of_its_unit(tmp_path: Path) -> None:
    works, index = works_of(log_of(Random(5)), tmp_path, [])
    unit = units_of(works, index)[0]
    results, _ = carried_out(works[0].window.table.path, [unit], Capacity(1))
    files = tuple(result.file for result in results[unit.unit.number] if result.file)
    window = unit.unit.windows[0]
    column = replace(window.schema.column("v"), name="w", metadata={})
    refill = Refill(
        unit.unit.number,
        unit.unit.path,
        files,
        window.schema,
        window.configuration,
        (ColumnFill(column, "7", pa.scalar(7)),),
    )
    (result,) = work(refill)
    assert isinstance(result, WindowResult)
    assert (result.window, result.error) == (REFILLED, None)
    files[0].location(unit.unit.path).unlink()
    (failed,) = work(refill)
    assert isinstance(failed, WindowResult)
    assert isinstance(failed.error, LakeError)


def test_slices_of_no_rows_write_nothing(tmp_path: Path) -> None:
    works, index = works_of(log_of(Random(5)), tmp_path, [])
    unit = units_of(works, index)[0]
    empty = replace(unit, slices=(OF_TABLE.empty_table(),))
    results, _ = carried_out(works[0].window.table.path, [empty], Capacity(1))
    assert [result for result in results[unit.unit.number] if result.file] == []


def partial_net(unit: PreparedCompaction, window: int, results: Sequence[WindowResult]) -> dict[Any, NetRow]:
    """What the files of a window say of rows that lack columns; positions and changes are not compared."""
    net_rows: dict[Any, NetRow] = {}
    for result in (result for result in results if result.window == window and result.file):
        assert result.file is not None
        for row in alive(unit.unit.path, result.file, unit.unit.windows[window].schema):
            exists = row["_op"] != "delete"
            values = {name: row[name] for name in SHAPE.columns if name not in (row["_absent"] or ())}
            assert row["id"] not in net_rows
            moved = row["_moved_from"]
            origin = None if moved is None else tuple(int(text.removeprefix("v")) for text in moved)
            net_rows[row["id"],] = NetRow(row["_existed"], exists, values, 0, 0, origin=origin)
    return net_rows


def test_files_are_the_net_changes_of_images_without_all_columns(capacity: Capacity, tmp_path: Path) -> None:
    @examples(30)
    @given(st.integers(0, 1 << 30), st.sets(st.integers(1, 11), max_size=2), st.sampled_from([1, 200, 600, 1 << 20]))
    def check(seed: int, cuts: set[int], target: int) -> None:
        chance = Random(seed)
        changes = [*partial_logs.random_changes(chance, 60, lost=0.2)][:40]
        transactions = [changes[at : at + 3] for at in range(0, len(changes), 3)]
        log = partial_logs.log_of(transactions)
        compaction_job, index = partial_logs.work_of(log, tmp_path / str(next(numbers)), sorted(cuts), target)
        (unit,) = units_of([replace(compaction_job, has_partial=True)], index)
        unit, results = carried_out_undivided(compaction_job.window.table.path, unit, index, capacity)
        assert [result.error for result in results if result.error] == []
        for window, (first, stop) in enumerate(pairwise([0, *sorted(cuts), len(transactions)])):
            window_changes = [change for transaction in transactions[first:stop] for change in transaction]
            expected = {
                key: replace(row, position=0, changes=0, is_ended=False)
                for key, row in silver_rows(enumerate(window_changes), SHAPE).items()
            }
            assert partial_net(unit, window, results) == expected
            assert sum(result.changes for result in results if result.window == window) == len(window_changes)

    check()


def test_a_table_without_a_column_for_absent_ones_says_that_it_needs_one(capacity: Capacity, tmp_path: Path) -> None:
    log = partial_logs.log_of([[RowChange(None, {"id": 1, "a": 1, "b": 1})], [RowChange({"id": 1}, {"a": 2})]])
    compaction_job, index = partial_logs.work_of(log, tmp_path, [], 1)
    (unit,) = units_of([compaction_job], index)
    results = carried_out(compaction_job.window.table.path, [unit], capacity)[0][0]
    (failed,) = (result for result in results if result.error)
    assert isinstance(failed.error, PartialImage)
    assert "b.000001:" in str(failed.error)
