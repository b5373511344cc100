"""Downstream modes beside a plain twin: live, by either way, after DDL, over replays, resets and other modes."""

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Row

from spark_jobs.config.model import Pipeline
from spark_jobs.engine.changes import change_job
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.operations.repair import plan_reset, reset
from spark_jobs.pipeline.backfill.request import DOWNSTREAM, BackfillOptions
from spark_jobs.pipeline.backfill.run import backfill_source
from tests.fix_pipeline import SOURCE, Shop
from tests.lakes.lake_tables import source_cells, table_rows
from tests.twins.mode_stream import (
    CREATE,
    KEYLESS,
    TABLE,
    WITH_BLOB,
    Stream,
    appended,
    soft_deleted,
    soft_deleted_rows,
    versions,
)

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

SEED = int(os.environ.get("STRATALOG_SEED", "25"))


def pipeline_of(shop: Shop, mode: str, **keys: Any) -> Pipeline:
    return shop.pipeline(downstream=[{"tables": f"{shop.database.name}.*", "mode": mode}], **keys)


def run(shop: Shop, pipeline: Pipeline) -> None:
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}


def replay(shop: Shop, pipeline: Pipeline, log_range: Range) -> None:
    """Both as a backfill does it, and merging windows again that are as they were."""
    for options in (BackfillOptions(), BackfillOptions(layers=(DOWNSTREAM,))):
        outcome = backfill_source(shop.spark, pipeline, SOURCE, log_range, lambda _: True, options=options)
        assert outcome.stopped == {}


def was_reset(shop: Shop, pipeline: Pipeline, table: str) -> None:
    planned = plan_reset(pipeline, SOURCE, f"{shop.database.name}.{table}")
    reset(pipeline, SOURCE, planned)


def downstream_rows(shop: Shop, pipeline: Pipeline) -> list[Row]:
    return table_rows(lake_of(pipeline).downstream(shop.database.name, TABLE))


def states(shop: Shop, pipeline: Pipeline) -> dict[Any, tuple[tuple[Any, ...], bool]]:
    """What a table with mode soft_delete has, as the twin has it."""
    rows = downstream_rows(shop, pipeline)
    assert all((row["_deleted_at"] is not None) == row["_deleted"] for row in rows)
    assert len({row["id"] for row in rows}) == len(rows), "a key has one row"
    return {row["id"]: (source_cells(row), row["_deleted"]) for row in rows}


def require_rows(shop: Shop, pipeline: Pipeline, stream: Stream) -> None:
    """A table without a key with mode soft_delete has the twin's rows; the others are what the server has."""
    rows = downstream_rows(shop, pipeline)
    assert Counter((source_cells(row), row["_deleted"]) for row in rows) == soft_deleted_rows(stream)
    assert sorted(map(repr, stream.rows.values())) == sorted(map(repr, shop.database.execute(f"SELECT * FROM {TABLE}")))


def changes_of(shop: Shop, pipeline: Pipeline) -> list[tuple[str, tuple[Any, ...] | None]]:
    """What a table with mode append has, as the twin has it."""
    rows = sorted(downstream_rows(shop, pipeline), key=lambda row: row["_position"])
    assert all(row["_committed_at"] and row["_gtid"] for row in rows), "a TRUNCATE has a GTID too"
    assert len({row["_position"] for row in rows}) == len(rows), "a change is one row"
    return [(row["_op"], None if row["_op"] == "truncate" else source_cells(row)) for row in rows]


def require_versions(shop: Shop, pipeline: Pipeline, stream: Stream) -> None:
    """A table with mode history has the twin's versions, from one change to another."""
    rows = sorted(downstream_rows(shop, pipeline), key=lambda row: (row["_position"], row["_op"] != "delete"))
    times: list[Any] = list({row["_position"]: row["_valid_from"] for row in rows}.values())
    assert len(times) == len(stream.events)
    assert all(times)
    expected = [
        (op, cells, times[start], None if stop is None else times[stop], stop is None)
        for op, cells, start, stop in versions(stream)
    ]
    lake_versions = [
        (
            row["_op"],
            None if row["_op"] == "truncate" else source_cells(row),
            row["_valid_from"],
            row["_valid_to"],
            row["_is_current"],
        )
        for row in rows
    ]
    assert lake_versions == expected


def require_states(shop: Shop, pipeline: Pipeline, stream: Stream) -> None:
    assert states(shop, pipeline) == soft_deleted(stream)
    assert sorted(row for row, is_deleted in soft_deleted(stream).values() if not is_deleted) == shop.truth(TABLE)


def require_changes(shop: Shop, pipeline: Pipeline, stream: Stream) -> None:
    assert changes_of(shop, pipeline) == appended(stream)


CASES: dict[str, Callable[[Shop, Pipeline, Stream], None]] = {
    "soft_delete": require_states,
    "soft_delete of MINIMAL images": require_states,
    "soft_delete without a key": require_rows,
    "append": require_changes,
    "append of MINIMAL images": require_changes,
    "append of NOBLOB images": require_changes,
    "history": require_versions,
    "history of MINIMAL images": require_versions,
    "history of NOBLOB images": require_versions,
    "history in buckets": require_versions,
}
_LONG = ("history in buckets", "append of NOBLOB images", "history of MINIMAL images")


def _marks(case: str) -> list[pytest.MarkDecorator]:
    if case in _LONG:
        return [pytest.mark.long]
    by_spark = [pytest.mark.by_spark] if case == "append" else []
    return by_spark + ([] if case == "soft_delete" else [pytest.mark.thorough])


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=_marks(case)) for case in CASES],
)
def test_a_table_has_what_its_twin_has_whatever_the_windows_are(
    shop: Shop, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode, _, variant = case.partition(" ")
    image, is_keyless = variant.removeprefix("of ").removesuffix(" images"), variant == "without a key"
    is_partial = image in ("MINIMAL", "NOBLOB")
    if variant == "in buckets":  # versions are several tasks', however few there are
        monkeypatch.setattr(change_job, "_VERSIONS_BYTES", 300)
    require, choose = CASES[case], random.Random(SEED)
    stream = Stream(shop.execute, choose, moves=image != "MINIMAL", sets_some=is_partial)
    pipeline = pipeline_of(shop, mode)
    if is_partial:
        shop.execute(f"SET SESSION binlog_row_image = '{image}'")
    stream.begin(KEYLESS if is_keyless else WITH_BLOB if image == "NOBLOB" else CREATE)
    positions = [shop.end()]
    for nth in range(6):
        for _ in range(choose.randrange(2, 9)):
            stream.step()
        if nth == 2:
            stream.add_column()
            stream.step()
        if nth == 4:
            stream.truncate()
            stream.step()
        run(shop, pipeline)
        positions.append(shop.end())
        require(shop, pipeline, stream)
    for start, stop in ((0, 2), (3, 6), (1, 5)):
        replay(shop, pipeline, Range(positions[start], positions[stop]))
        require(shop, pipeline, stream)
    was_reset(shop, pipeline, TABLE)
    run(shop, pipeline)
    require(shop, pipeline, stream)


def test_another_mode_rebuilds_the_table(shop: Shop) -> None:
    stream = Stream(shop.execute, random.Random(2))
    stream.begin()
    pipeline = shop.pipeline()
    for _ in range(2):
        for _ in range(9):
            stream.step()
        run(shop, pipeline)
    expected = soft_deleted(stream)
    assert any(is_deleted for _, is_deleted in expected.values())
    assert shop.merged(pipeline, TABLE) == sorted(row for row, is_deleted in expected.values() if not is_deleted)
    soft_pipeline = pipeline_of(shop, "soft_delete")
    run(shop, soft_pipeline)
    assert states(shop, soft_pipeline) == expected
    run(shop, pipeline)
    assert shop.merged(pipeline, TABLE) == shop.truth(TABLE)
    assert "_deleted" not in lake_of(pipeline).downstream(shop.database.name, TABLE).columns()


@pytest.mark.thorough
def test_a_table_goes_through_all_modes_with_and_without_new_changes(shop: Shop) -> None:
    """Each time all of the table is made from bronze again, with the changes from before the mode."""
    requires = {"soft_delete": require_states, "append": require_changes, "history": require_versions}
    stream = Stream(shop.execute, random.Random(4))
    stream.begin()
    choose = random.Random(SEED)
    previous = None
    for nth in range(9):
        mode = choose.choice([mode for mode in ("mirror", *requires) if mode != previous])
        previous = mode
        for _ in range(0 if nth % 2 else 8):
            stream.step()
        if nth == 4:
            stream.add_column()
            stream.step()
        pipeline = pipeline_of(shop, mode)
        run(shop, pipeline)
        if mode in requires:
            requires[mode](shop, pipeline, stream)
        else:
            assert shop.merged(pipeline, TABLE) == shop.truth(TABLE)


def test_what_a_mode_cannot_be_is_one_message_and_other_tables_go_on(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE collides (id INT PRIMARY KEY, _Deleted INT)",
        "CREATE TABLE plain (id INT PRIMARY KEY)",
    )
    shop.execute("INSERT INTO collides VALUES (1, 2)", "INSERT INTO plain VALUES (1)")
    pipeline = pipeline_of(shop, "soft_delete")
    _, outcome = shop.run(pipeline)
    reasons = {name.table: reason for name, reason in outcome.stopped.items()}
    assert set(reasons) == {"collides"}
    assert "its column _Deleted has the name of one that mode: soft_delete adds" in reasons["collides"]
    assert shop.merged(pipeline, "plain") == [(1,)]
