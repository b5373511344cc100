"""Downstream tables as Iceberg tables: what other readers see after runs, statements, a backfill and maintenance."""

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.model import Pipeline
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.errors import LakeError
from spark_jobs.iceberg import metadata_files
from spark_jobs.iceberg.table_view import FIRST_ID
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline import iceberg_tables
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.lakes.iceberg_readers import by_delta, by_duckdb, by_pyiceberg

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def path_of(shop: Shop, pipeline: Pipeline, table: str = "t") -> str:
    return lake_of(pipeline).downstream(shop.database.name, table).path


def require_shown(path: str) -> int:
    """The version of a table, which other readers read as Delta's do."""
    snapshot, metadata = snapshot_of(path), metadata_files.newest(path)
    assert snapshot
    assert metadata
    assert metadata.document["current-snapshot-id"] - FIRST_ID == snapshot.version
    expected = by_delta(path)
    assert by_pyiceberg(path) == expected
    assert by_duckdb(path) == expected
    return snapshot.version


def run(shop: Shop, pipeline: Pipeline) -> int:
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")
    return require_shown(path_of(shop, pipeline))


@pytest.mark.thorough
def test_other_readers_see_what_each_run_leaves(shop: Shop) -> None:
    pipeline = shop.pipeline(iceberg=True)
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), n INT, p BIT(9), at DATETIME(6), m DECIMAL(5,2))",
        "INSERT INTO t VALUES (1, 'a', 1, b'101', '1000-01-01 00:00:00', 1.25), (2, 'b', NULL, NULL, NULL, -0.01)",
    )
    first = run(shop, pipeline)
    shop.execute("UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t (id) VALUES (3)")
    run(shop, pipeline)
    shop.execute(
        "ALTER TABLE t RENAME COLUMN v TO w, DROP COLUMN p, ADD COLUMN extra DOUBLE, MODIFY n BIGINT",
        "INSERT INTO t VALUES (4, 'd', 1 << 40, '2024-02-29 12:00:00.5', 9.99, 0.5)",
    )
    run(shop, pipeline)
    assert [row["id"] for row in by_duckdb(path_of(shop, pipeline), first)] == [1, 2]
    # maintenance rewrites files, and the table stays readable at its published version
    before = by_delta(path_of(shop, pipeline))
    maintain_source(shop.spark, pipeline, SOURCE, purge=True)
    require_shown(path_of(shop, pipeline))
    assert by_delta(path_of(shop, pipeline)) == before


@pytest.mark.thorough
def test_a_run_without_news_shows_what_a_killed_one_did_not(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = shop.pipeline(iceberg=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(iceberg_tables, "show", killed)
        with pytest.raises(KeyboardInterrupt):
            shop.run(pipeline)
    assert not Path(path_of(shop, pipeline), "metadata").exists()
    assert iceberg_tables.is_pending(pipeline, SOURCE)
    run(shop, pipeline)
    assert not iceberg_tables.is_pending(pipeline, SOURCE)


@pytest.mark.thorough
def test_a_change_of_type_that_iceberg_has_not_stops_iceberg_alone(shop: Shop) -> None:
    pipeline = shop.pipeline(iceberg=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, n DECIMAL(5,2))", "INSERT INTO t VALUES (1, 2.25)")
    version = run(shop, pipeline)
    shop.execute("ALTER TABLE t MODIFY n DECIMAL(9,3)", "INSERT INTO t VALUES (2, 123456.789)")
    with pytest.raises(LakeError, match=r"column n was widened from decimal\(5,2\) to decimal\(9,3\)"):
        shop.run(pipeline)
    require_same(shop, pipeline, "t")
    assert by_duckdb(path_of(shop, pipeline)) == by_delta(path_of(shop, pipeline), version)
