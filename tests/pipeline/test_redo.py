"""A range done again: a mended decoder takes effect, an unchanged range changes nothing, nothing goes back."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.model import Pipeline
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.silver import silver_task
from spark_jobs.errors import LakeError
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import run_source
from spark_jobs.silver import decode_task
from spark_jobs.silver import table as silver
from spark_jobs.silver.slice_runs import Batches, Runs
from tests.faults.runs import Scheduler
from tests.fix_pipeline import SOURCE, Shop

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def any_table(_: object) -> bool:
    return True


def replay(shop: Shop, pipeline: Pipeline, start: Position, stop: Position) -> Outcome:
    return backfill_source(shop.spark, pipeline, SOURCE, Range(start, stop), any_table)


def wrong_task(definition: TableDefinition, columns: silver.Columns, **options: Any) -> Callable[[Runs], Batches]:
    """A decoder with a bug: every v is one too high, the change of key 2 is lost, and a row 99 is made up."""
    right = _right(definition, columns, **options)

    def run(slices: Runs) -> Batches:
        for batch in right(slices):
            rows = pa.Table.from_batches([batch])
            v = rows.schema.get_field_index("v")
            rows = rows.set_column(v, "v", pc.add(rows.column("v"), pa.scalar(1, pa.int32())))
            ghost = rows.slice(0, 1).set_column(0, "id", pa.array([99], pa.int32()))
            wrong = pa.concat_tables([rows.filter(pc.not_equal(rows.column("id"), 2)), ghost])
            yield from wrong.combine_chunks().to_batches()

    return run


_right = decode_task.decoding_task


def run_with_a_bug(shop: Shop, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks run in this process, where they can be wrong."""
    with monkeypatch.context() as patched:
        patched.setattr(spark_job, "run", Scheduler(1).run)
        patched.setattr(silver_task, "decoding_task", wrong_task)
        run_source(shop.spark, pipeline, SOURCE)


def versions(shop: Shop, pipeline: Pipeline) -> list[Any]:
    lake = lake_of(pipeline)
    return [lake.silver(SOURCE, shop.database.name, "t").head(), lake.downstream(shop.database.name, "t").head()]


@pytest.mark.by_spark
def test_a_range_done_again_unchanged_changes_nothing(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2)")
    shop.run(pipeline)
    middle = shop.end()
    shop.execute("UPDATE t SET id = 3 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    shop.run(pipeline)
    before = versions(shop, pipeline)
    for start, stop in ((shop.start, shop.end()), (shop.start, middle), (middle, shop.end())):
        outcome = replay(shop, pipeline, start, stop)
        assert (outcome.compacted, outcome.merged, outcome.stopped) == ([], [], {})
    assert versions(shop, pipeline) == before


@pytest.mark.thorough
def test_a_mended_decoder_takes_effect_on_the_whole_range(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2),(3,3)")
    run_with_a_bug(shop, pipeline, monkeypatch)
    assert shop.merged(pipeline, "t") == [(1, 2), (3, 4), (99, 2)]
    outcome = replay(shop, pipeline, shop.start, shop.end())
    assert shop.merged(pipeline, "t") == shop.truth("t") == [(1, 1), (2, 2), (3, 3)]
    assert [(job.changes, job.inserts) for job in outcome.compacted] == [(3, 3)]
    (merged,) = outcome.merged
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 2, 1)


@pytest.mark.long
def test_windows_with_different_columns_are_mended_together(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2),(3,3)")
    run_with_a_bug(shop, pipeline, monkeypatch)
    shop.execute("ALTER TABLE t ADD n INT NOT NULL DEFAULT 7", "UPDATE t SET v = 10 WHERE id = 1")
    run_with_a_bug(shop, pipeline, monkeypatch)
    outcome = replay(shop, pipeline, shop.start, shop.end())
    assert [(job.changes, job.inserts, job.updates) for job in outcome.compacted] == [(4, 3, 1)]
    assert shop.merged(pipeline, "t") == shop.truth("t") == [(1, 10, 7), (2, 2, 7), (3, 3, 7)]


def test_an_old_range_done_again_takes_no_key_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2),(3,3),(4,4)")
    run_with_a_bug(shop, pipeline, monkeypatch)
    middle = shop.end()
    shop.execute("UPDATE t SET v = 10 WHERE id = 1", "DELETE FROM t WHERE id = 3", "UPDATE t SET id = 5 WHERE id = 4")
    shop.run(pipeline)
    replay(shop, pipeline, shop.start, middle)
    assert shop.merged(pipeline, "t") == shop.truth("t") == [(1, 10), (2, 2), (5, 4)]


@pytest.mark.long
def test_windows_replaced_by_a_run_that_died_before_the_merge_are_merged_by_the_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2),(3,3)")
    run_with_a_bug(shop, pipeline, monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr("spark_jobs.pipeline.backfill.run.merge_source", lambda *_, **__: Outcome([], None))
        replay(shop, pipeline, shop.start, shop.end())
    assert (99, 2) in shop.merged(pipeline, "t")
    shop.execute("INSERT INTO t VALUES (7,7)")
    shop.run(pipeline)
    assert shop.merged(pipeline, "t") == shop.truth("t")


def test_a_range_that_ends_behind_bronze_is_refused(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1)")
    shop.run(pipeline)
    end = shop.end()
    with pytest.raises(LakeError, match=r"the range ends at .*, and bronze at .*: a run reads later log"):
        replay(shop, pipeline, shop.start, Position(end.file, end.offset + 1))


@pytest.mark.long
def test_a_range_from_before_other_columns_is_led_on_to_them(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2),(3,3)")
    run_with_a_bug(shop, pipeline, monkeypatch)
    middle = shop.end()
    shop.execute(
        "ALTER TABLE t ADD n INT NOT NULL DEFAULT 7 FIRST, CHANGE v w BIGINT, RENAME COLUMN id TO k",
        "UPDATE t SET w = 10 WHERE k = 1",
        "ALTER TABLE t ADD late CHAR(3) DEFAULT 'abc'",
    )
    shop.run(pipeline)
    outcome = replay(shop, pipeline, shop.start, middle)
    assert outcome.stopped == {}
    assert shop.merged(pipeline, "t") == shop.truth("t")
    before = versions(shop, pipeline)
    replay(shop, pipeline, shop.start, shop.end())
    assert versions(shop, pipeline) == before, "all of it done again changes nothing"


@pytest.mark.long
def test_a_range_from_before_a_truncate_brings_nothing_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2),(3,3)")
    run_with_a_bug(shop, pipeline, monkeypatch)
    middle = shop.end()
    shop.execute("TRUNCATE t", "INSERT INTO t VALUES (3,30)")
    shop.run(pipeline)
    assert shop.merged(pipeline, "t") == shop.truth("t")
    outcome = replay(shop, pipeline, shop.start, middle)
    assert outcome.stopped == {}
    assert len(outcome.compacted) == 1
    assert shop.merged(pipeline, "t") == shop.truth("t") == [(3, 30)]
