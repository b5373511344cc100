"""Units of tables that are rebuilt, resumed or refused, and where a table stops."""

from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.delta import commits
from spark_jobs.engine.silver import silver_job, silver_plan
from spark_jobs.engine.silver.silver_task import WindowResult
from spark_jobs.errors import DecodeError, LakeError, TableStopped
from spark_jobs.lake.commit import CommitKind
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.binlogs.timelines import OLD, at, steps
from tests.spark_jobs.engine.lake_rows import newest
from tests.spark_jobs.engine.silver.test_silver_job import ADD, prepared, results_of, work_of


def test_a_rebuilt_table_has_the_new_rows_and_columns_alone(tmp_path: Path) -> None:
    first = prepared(tmp_path)
    silver_job.commit(first, results_of(first))
    old = newest(first.snapshot.path)
    work, index = work_of(tmp_path, steps((300, ADD)))
    rebuilt = replace(work, reset=1, steps=(DataRange(Range(at(10), at(1000)), work.steps[-1].state),))
    (unit,) = silver_plan.prepared([rebuilt], index).units
    compacted = silver_job.commit(unit, results_of(unit))
    new = newest(first.snapshot.path)
    assert (new.version, new.metadata.id, len(new.files)) == (old.version + 1, old.metadata.id, 1)
    assert {file.key for file in new.files}.isdisjoint(file.key for file in old.files)
    assert {column.id for column in new.schema.columns}.isdisjoint(column.id for column in old.schema.columns)
    commit = SilverCommit.of_head(compacted.head)
    assert commit is not None
    assert (commit.resets, commit.is_overwrite, "w" in new.schema.names) == (1, True, True)


def test_a_rebuilt_table_whose_log_has_no_rows_is_empty(tmp_path: Path) -> None:
    first = prepared(tmp_path)
    silver_job.commit(first, results_of(first))
    work, index = work_of(tmp_path, [])
    rebuilt = replace(work, reset=1, steps=(), state=TableState(OLD))
    (unit,) = silver_plan.prepared([rebuilt], index).units
    head = silver_job.commit(unit, []).head
    assert newest(first.snapshot.path).files == ()
    commit = SilverCommit.of_head(head)
    assert commit is not None
    assert (commit.kind, commit.is_overwrite, commit.position) == (CommitKind.RESET, True, at(1000))


def test_a_table_with_another_feature_is_refused(tmp_path: Path) -> None:
    first = prepared(tmp_path)
    head = silver_job.commit(first, results_of(first)).head
    stored = newest(first.snapshot.path)
    constrained = replace(stored.metadata, configuration=dict(stored.configuration) | {"delta.constraints.c": "id > 0"})
    commits.commit(stored, metadata=constrained)
    work, index = work_of(tmp_path, steps())
    preparation = silver_plan.prepared([replace(work, head=replace(head, version=1))], index)
    (error,) = preparation.errors.values()
    assert "it has the constraint c: Stratalog does not write such a table; take back" in str(error)
    assert str(error).startswith("shop: shop.t: ")


def test_a_table_stops_before_the_first_transaction_that_fails(tmp_path: Path) -> None:
    """Of several tasks that fail, the earliest transaction counts; statements after it are not done."""
    work, index = work_of(tmp_path, steps((300, ADD), (600, "ALTER TABLE t DROP v")))
    (unit,) = silver_plan.prepared([work], index).units
    failures = [WindowResult(0, 0, error=DecodeError(f"b.000001:{start}"), failing=at(start)) for start in (150, 120)]
    shortened = silver_plan.stopped_before_failures(unit, failures, index)
    assert [stage.step.range for stage in shortened.stages] == [Range(at(10), at(120))]
    assert shortened.ended is not None
    assert (shortened.ended.at, str(shortened.ended.error)) == (at(120), "b.000001:120")
    compacted = silver_job.commit(shortened, results_of(shortened))
    assert compacted.stopped == shortened.ended
    assert compacted.head.position == at(120)


def test_a_window_without_a_single_failing_transaction_stops_at_its_beginning(tmp_path: Path) -> None:
    work, index = work_of(tmp_path, steps())
    (unit,) = silver_plan.prepared([work], index).units
    with pytest.raises(TableStopped, match=r"^shop: shop\.t: all together$") as stopped:
        silver_plan.stopped_before_failures(unit, [WindowResult(0, 0, error=TableStopped("all together"))], index)
    assert stopped.value.at == at(10)


def test_an_error_that_is_not_about_the_log_is_raised(tmp_path: Path) -> None:
    work, index = work_of(tmp_path, steps())
    (unit,) = silver_plan.prepared([work], index).units
    assert silver_plan.stopped_before_failures(unit, [], index) is unit
    with pytest.raises(LakeError, match="disk full"):
        silver_plan.stopped_before_failures(unit, [WindowResult(0, 0, error=LakeError("disk full"))], index)


def test_a_statement_that_cannot_be_planned_stops_the_table_there(tmp_path: Path) -> None:
    """Columns that no statement of the log explains: what comes before them is kept."""
    work, index = work_of(tmp_path, steps((300, ADD)))
    first, wider = work.steps[0], DataRange(Range(at(300), at(1000)), work.steps[-1].state)
    (unit,) = silver_plan.prepared(
        [replace(work, steps=(replace(first, range=Range(at(10), at(300))), wider))], index
    ).units
    assert unit.ended is not None
    assert unit.ended.at == at(300)
    assert "and no statement of the log says why" in unit.ended.reason
    assert len(unit.stages) == 1
    errors = silver_plan.prepared(
        [replace(work, head=silver_job.commit(unit, results_of(unit)).head, steps=(wider,))], index
    ).errors
    (error,) = errors.values()
    assert isinstance(error, TableStopped)
    assert error.at == at(300)
