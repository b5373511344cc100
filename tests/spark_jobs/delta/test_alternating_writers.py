"""Spark and the package write a table in turns; Spark, deltalake and the package read the same rows after each."""

import random
import shutil
from pathlib import Path

import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from spark_jobs.delta import deletion_vectors
from spark_jobs.delta.commits import CommitConflict, commit
from spark_jobs.runtime.spark_session import own_session
from spark_jobs.text import sql
from tests.spark_jobs.delta.alternating_writers import AlternatingWriters, alternating_writers, forget
from tests.spark_jobs.delta.tables import MAPPED

pytestmark = pytest.mark.spark

VACUUM = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


@pytest.mark.thorough
def test_spark_and_we_write_in_turns(spark: SparkSession, tmp_path: Path) -> None:
    table = alternating_writers(spark, tmp_path)
    table.merge(range(200))
    table.upsert(range(50, 250, 3), deletes=range(0, 50, 5))  # vectors where there were none
    table.merge(range(51, 90), deletes=[4, 6])  # Spark's vectors over ours
    table.upsert(range(52, 250, 5), deletes=[7, 8, 249])  # and ours over Spark's
    table.run("DELETE FROM {} WHERE key < 0")
    table.run("OPTIMIZE {}")
    table.upsert([1, 2, 3, 1000])
    table.alter("ADD COLUMN (`more` DECIMAL(12,2) FIRST)")
    table.upsert([2, 3, 1001], deletes=[1])
    table.alter("SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    table.alter("ALTER COLUMN `key` TYPE BIGINT")
    table.upsert([3, 1002, 1 << 40], deletes=[2])
    table.merge([3, 1 << 41], deletes=[1001])
    table.alter("RENAME COLUMN `local` TO `elsewhere`")
    table.run("REORG TABLE {} APPLY (PURGE)")
    table.upsert(range(1003, 1010))
    table.run("OPTIMIZE {} ZORDER BY (key)")
    table.run("VACUUM {} RETAIN 0 HOURS", **VACUUM)
    table.upsert([5, 9], deletes=range(1003, 1010))
    table.merge([5, 10])
    versions = sorted(int(file.name[:20]) for file in (tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    assert versions == list(range(10, table.snapshot.version + 1, 10))
    assert len(versions) >= 2


@pytest.mark.long
def test_a_random_stream_in_turns(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(7)
    table = alternating_writers(spark, tmp_path)
    for _ in range(14):
        keys = rng.sample(range(120), rng.randint(1, 40))
        deletes = [key for key in rng.sample(range(120), rng.randint(0, 20)) if key not in keys]
        rng.choices([table.upsert, table.merge], [3, 1])[0](keys, deletes)
        if rng.random() < 0.2:
            table.run(rng.choice(["OPTIMIZE {}", "REORG TABLE {} APPLY (PURGE)"]))


def test_a_file_whose_rows_all_go_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    table = alternating_writers(spark, tmp_path)
    table.upsert(range(10))
    table.upsert([], deletes=range(3))
    table.upsert([], deletes=range(3, 10))
    assert table.snapshot.files == ()
    table.merge(range(3))
    table.run("DELETE FROM {} WHERE key < 0")


@pytest.mark.thorough
@pytest.mark.parametrize("properties", [MAPPED, {}])
def test_vacuum_keeps_what_is_committed_alone(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    table = alternating_writers(spark, tmp_path, properties)
    table.upsert(range(20))
    if properties:
        table.upsert(range(5))
    snapshot = table.snapshot
    orphan = table._file(snapshot, {1: "x"})
    (vector,) = deletion_vectors.write(table.path, [BitMap64([1])], snapshot.configuration)
    table.run("VACUUM {} RETAIN 0 HOURS", **VACUUM)
    assert not orphan.location(table.path).exists()
    assert not vector.location(table.path).exists()
    assert {file.location(table.path).exists() for file in snapshot.files} == {True}
    table.upsert([25])


# Checkpoints


@pytest.mark.thorough
@pytest.mark.parametrize("properties", [MAPPED, {}])
def test_readers_begin_at_our_checkpoint(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    """Deletion vectors, widened types, times without zone, transactions: all from the checkpoint alone."""
    table = alternating_writers(spark, tmp_path / "t", properties)
    table.upsert(range(50))
    if properties:
        table.alter("SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        table.alter("ALTER COLUMN `key` TYPE BIGINT")
        table.upsert(range(0, 50, 2))
        table.upsert([1 << 40], deletes=[3])
    while table.snapshot.version % 10:
        table.upsert([table.snapshot.version + 100], is_compared=False)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "t", copy)
    forget(copy, 10)
    copied = AlternatingWriters(spark, str(copy))
    copied.rows, copied.counter, copied.commits = dict(table.rows), table.counter, table.commits
    copied.check()
    assert copied.snapshot.files == table.snapshot.files or {f.key for f in copied.snapshot.files} == {
        f.key for f in table.snapshot.files
    }
    assert copied.snapshot.metadata == table.snapshot.metadata
    assert copied.snapshot.protocol == table.snapshot.protocol
    copied.merge([1, 2])
    if properties:
        copied.upsert([2, 3])


@pytest.mark.thorough
def test_we_begin_at_sparks_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    """In one part and in several."""
    for parts in ("", "2"):
        path = tmp_path / f"parts{parts}"
        table = alternating_writers(spark, path, MAPPED | {"delta.checkpointInterval": "3"})
        confs = {"spark.databricks.delta.checkpoint.partSize": "1"} if parts else {}
        table.upsert(range(10))
        table.upsert(range(3))
        shutil.rmtree(path / "_delta_log" / "_staged_commits", ignore_errors=True)
        before = table.snapshot.version
        session = own_session(spark, confs)
        session.sql(f"DELETE FROM {sql.delta(str(path))} WHERE key = 4").collect()
        del table.rows[4]
        assert before + 1 == table.snapshot.version == 3
        names = [file.name for file in path.glob("_delta_log/*.checkpoint*.parquet")]
        assert names
        forget(path, 3)
        table.upsert([1, 50])


# Fences


def test_a_commit_of_spark_in_between_wins(spark: SparkSession, tmp_path: Path) -> None:
    table = alternating_writers(spark, tmp_path)
    table.upsert(range(10))
    planned = table.snapshot
    table.merge([3])
    with pytest.raises(CommitConflict):
        commit(planned, adds=[table._file(planned, {99: "x"})])
    table.check()


def test_spark_skips_a_transaction_that_we_have_committed(spark: SparkSession, tmp_path: Path) -> None:
    table = alternating_writers(spark, tmp_path)
    table.upsert(range(10))
    frame = spark.read.format("delta").load(table.path).limit(1)
    frame.write.format("delta").mode("append").options(txnAppId="stratalog", txnVersion="1").save(table.path)
    table.check()
    history = spark.sql(f"DESCRIBE HISTORY {sql.delta(table.path)}").orderBy("version").collect()
    assert [(row["operation"], row["userMetadata"]) for row in history] == [("WRITE", None), ("MERGE", "commit 1")]
