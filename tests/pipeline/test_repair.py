"""A table that has stopped: one event passed over, for good, in runs and in backfills."""

import re

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.status import status
from spark_jobs.operations.repair import add, plan_skip, plan_undo, remove
from spark_jobs.pipeline.backfill.request import BackfillRequest
from spark_jobs.pipeline.backfill.run import backfill
from spark_jobs.silver import quarantine
from tests.fix_pipeline import SOURCE, Shop, require_same

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

LEFT_OUT = ("SET SESSION binlog_row_image = 'MINIMAL'", "SET SESSION binlog_row_image = 'FULL'")
AS_STATEMENT = ("SET SESSION binlog_format = 'STATEMENT'", "SET SESSION binlog_format = 'ROW'")


def position_in(reason: str) -> str:
    """The position that a message names."""
    match = re.search(r"[\w-]+\.\d{6}:\d+", reason)
    assert match, reason
    return match[0]


def refused(pipeline: Pipeline, position: str, table: str | None = None) -> str:
    with pytest.raises(ConfigError) as info:
        plan_skip(pipeline, SOURCE, position, table)
    return str(info.value)


def skipped(shop: Shop, pipeline: Pipeline, position: str) -> None:
    add(pipeline, SOURCE, plan_skip(pipeline, SOURCE, position))


def test_events_that_stop_a_table_are_passed_over_one_by_one_and_for_good(shop: Shop) -> None:
    t, u = TableName(shop.database.name, "t"), TableName(shop.database.name, "u")
    pipeline = shop.pipeline(row_filters={"negative": {"tables": [str(t)], "update-new-value-expr": "v < 0"}})
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        LEFT_OUT[0],
        "UPDATE t SET id = 20 WHERE id = 2",
        LEFT_OUT[1],
        "INSERT INTO t VALUES (3, 3)",
        "INSERT INTO u VALUES (1)",
    )
    _, outcome = shop.run(pipeline)
    assert outcome.stopped.keys() == {t}
    require_same(shop, pipeline, "u")
    first = position_in(outcome.stopped[t])
    at = Position.parse(first)

    before, after = f"{at.file}:{at.offset - 1}", f"{at.file}:{at.offset + 1}"
    assert refused(pipeline, "here").startswith("--at: 'here' is not a position")
    near = re.search(rf"no event begins at {before}; nearest are .*{first} \(Update_rows\)", refused(pipeline, before))
    assert near
    commit = re.search(r"and (\S+) \(Xid\)", refused(pipeline, after))
    assert commit
    assert "is a Xid event, at which no table stops; nearest are" in refused(pipeline, commit[1])
    assert "lies in no file that bronze holds" in refused(pipeline, "other-bin.000001:4")
    assert f"is no table of {SOURCE} that a run has seen: {t}, {u}" in refused(pipeline, first, "shop.none")
    assert f"is not about it, but about {t}" in refused(pipeline, first, str(u))

    (planned,) = plan_skip(pipeline, SOURCE, first, str(t))
    assert (planned.name, planned.position, planned.event) == (t, first, "Update_rows event")
    assert planned.reason == outcome.stopped[t]
    assert quarantine.read(lake_of(pipeline), SOURCE) == []
    add(pipeline, SOURCE, [planned])
    assert "is quarantined already" in refused(pipeline, first)

    shop.execute(AS_STATEMENT[0], "INSERT INTO t VALUES (4, 4)", AS_STATEMENT[1], "INSERT INTO t VALUES (5, 5)")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped.keys() == {t}
    second = position_in(outcome.stopped[t])
    assert [compacted.left_out for compacted in outcome.compacted] == [{f"skip {first}": 1}]
    skipped(shop, pipeline, second)
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    assert [compacted.left_out for compacted in outcome.compacted] == [{f"skip {second}": 1}]
    expected_rows = [(1, 1), (2, 2), (3, 3), (5, 5)]
    assert shop.merged(pipeline, "t") == expected_rows
    tables_shown = status(pipeline, lake_of(pipeline), SOURCE).skips
    assert [(row["table"], row["position"], row["event"]) for row in tables_shown] == [
        (str(t), first, "Update_rows event"),
        (str(t), second, "INSERT INTO t VALUES (?, ?)"),
    ]

    silver = lake_of(pipeline).silver(SOURCE, t.schema, "t")
    head = silver.head()
    assert head
    request = BackfillRequest(SOURCE, str(shop.start), str(head.position), tables=(str(t),))
    assert backfill(shop.spark, pipeline, request).stopped == {}
    assert silver.head() == head, "a backfill passes over what the run has passed over"

    with pytest.raises(ConfigError, match="no event is quarantined at"):
        plan_undo(pipeline, SOURCE, before)
    messages = remove(pipeline, SOURCE, plan_undo(pipeline, SOURCE, first))
    advice = f"stratalog backfill --source {SOURCE} --from {first} --to {head.position} --table {t}"
    assert messages == [f"{t} is at {head.position} and has passed it; to take the event in: {advice}"]
    assert position_in(backfill(shop.spark, pipeline, request).stopped[t]) == first
    assert shop.merged(pipeline, "t") == expected_rows
