"""Backfills that begin before bronze does: they bring what it lacks, and leave what one run over all of it would have.

The server keeps its log, so bronze is made to lack it: by a source that begins at the log's end, and by gc.
"""

from datetime import timedelta

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.checks.integrity import breaks
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.pipeline.backfill.request import BackfillOptions, BackfillRequest
from spark_jobs.pipeline.backfill.run import backfill, backfill_source
from spark_jobs.pipeline.restore import Fetched, fetch
from tests.fix_pipeline import SOURCE, Shop, require_same

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

READERS = frozenset({"silver"})


def head_of(pipeline: Pipeline) -> tuple[Head, Checkpoint]:
    head = lake_of(pipeline).bronze(SOURCE).head()
    assert head
    assert head.checkpoint
    return head, head.checkpoint


def oldest(pipeline: Pipeline) -> str:
    return str(bronze.oldest(head_of(pipeline)[1]))


def collected(shop: Shop, pipeline: Pipeline) -> None:
    """gc has removed all files but the last, whoever needs them."""
    retention = pipeline.retention.model_copy(update={"bronze": timedelta(microseconds=1)})
    names = [f"{shop.database.name}.{table}" for table in ("t", "bag", "emptied", "old")]
    configured = pipeline.model_copy(update={"retention": retention})
    gc_source(shop.spark, configured, SOURCE, ignored=frozenset(names) | READERS)


def test_the_log_before_the_first_run_becomes_windows_and_what_gc_removed_comes_back(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE bag (v INT)",
        "CREATE TABLE emptied (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE old (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES (1,1),(2,2),(3,3),(4,4)",
        "INSERT INTO bag VALUES (1),(1),(2)",
        "INSERT INTO emptied VALUES (1,1),(2,2)",
        "INSERT INTO old VALUES (1,1)",
    )
    ((moment,),) = shop.database.execute("SELECT UTC_TIMESTAMP(6)")
    shop.execute(
        "FLUSH BINARY LOGS",
        "TRUNCATE TABLE emptied",
        "DELETE FROM t WHERE id = 4",
        "ALTER TABLE t ADD COLUMN note VARCHAR(9) DEFAULT 'x'",
        "INSERT INTO emptied VALUES (2,22)",
        "UPDATE old SET v = 2",
    )
    begin = shop.end()  # inside a file
    shop.execute(
        "UPDATE t SET v = 11 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "DELETE FROM bag WHERE v = 2",
        "INSERT INTO bag VALUES (3)",
        "INSERT INTO emptied VALUES (3,3)",
    )
    pipeline = Shop(shop.spark, shop.database, shop.folder, begin).pipeline(live=True)
    _, outcome = shop.run(pipeline)
    assert TableName(shop.database.name, "bag") in outcome.stopped, "it has had copies that the lake never saw"
    assert [row[0] for row in shop.merged(pipeline, "t")] == [1]
    fetched: list[Fetched] = []
    options = BackfillOptions(on_fetched=fetched.append)
    log_range = Range(shop.start, begin)

    # Killed between bringing and redoing: the log is there, the tables are what they were.
    (first,) = fetch(shop.spark, pipeline, SOURCE, shop.start, None)
    assert first.range == Range(Position(shop.start.file, 4), begin)
    assert first.origin == f"the server {shop.database.server.host}:{shop.database.server.port}"
    assert shop.merged(pipeline, "t") == [(1, 11, "x")]
    head, checkpoint = head_of(pipeline)
    assert breaks(lake_of(pipeline).bronze(SOURCE), head) == []
    assert str(checkpoint.position) == str(shop.end())

    replayed = backfill_source(shop.spark, pipeline, SOURCE, log_range, lambda _: True, options=options)
    assert (replayed.stopped, fetched) == ({}, [])
    shop.run(pipeline)
    for table in ("t", "emptied", "old", "bag"):
        require_same(shop, pipeline, table)
    marks = [row for row in shop.silver(pipeline, "emptied") if row["_op"] == "truncate"]
    assert len(marks) == 1, "silver's history tells of the statement too"
    repeated = backfill_source(shop.spark, pipeline, SOURCE, log_range, lambda _: True, options=options)
    assert (repeated.compacted, repeated.merged, repeated.stopped) == ([], [], {})

    shop.execute("UPDATE t SET v = 12 WHERE id = 1", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (9,9,'n')")
    shop.run(pipeline)
    collected(shop, pipeline)
    assert oldest(pipeline) == f"{shop.end().file}:4"
    behind = Range(shop.start, Position(shop.end().file, 1 << 30))
    with pytest.raises(LakeError, match=r"the range ends at .*, and bronze at .*: a run reads later log"):
        backfill_source(shop.spark, pipeline, SOURCE, behind, lambda _: True)
    shop.spark.sql(f"UPDATE {lake_of(pipeline).silver(SOURCE, shop.database.name, 't').sql} SET v = 77 WHERE id = 3")
    request = BackfillRequest(SOURCE, f"{moment.isoformat()}Z", str(begin), (f"{shop.database.name}.t",))
    outcome = backfill(shop.spark, pipeline, request, on_fetched=fetched.append)
    assert not outcome.stopped
    assert [piece.files for piece in fetched] == [1, 1], (
        "the range begins in one file, and a window that it touches before"
    )
    assert [str(merge.name) for merge in outcome.merged] == [f"{shop.database.name}.t"]
    require_same(shop, pipeline, "t")
