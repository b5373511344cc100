"""What is done with derived changes and indexes of children besides runs: gc, maintenance, forgetting."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze import derived_slices
from spark_jobs.cascades import child_index
from spark_jobs.config.model import Pipeline
from spark_jobs.delta import index_files
from spark_jobs.errors import TableStopped
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.operations.forgetting.forget import forget
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline.as_of.tables_at import NotKnown, tables_at
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.run import extract_source
from spark_jobs.row_history.trace import Selection, TableTrace
from tests.fix_pipeline import SOURCE, Shop
from tests.pipeline.test_cascades_applied import FAMILY, TABLES, fill
from tests.soaks.cascade_campaign import run

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

WORD = "Person-4711-hush"


def derived(shop: Shop, pipeline: Pipeline) -> list[tuple[str, str]]:
    """Table and file of each derived slice."""
    slices = derived_slices.read(lake_of(pipeline).bronze(SOURCE).path, Range(shop.start, shop.end()))
    return [(row["table"], row["file"]) for row in slices.to_pylist()]


@pytest.mark.thorough
def test_derived_changes_go_with_their_log_and_it_is_not_replayed_without_them(shop: Shop, tasks_here: None) -> None:
    shop.execute(*TABLES)
    fill(shop)
    shop.execute("DELETE FROM p WHERE id = 1")
    pipeline = shop.pipeline(on_cascade="apply", retention={"bronze": "1d"})
    run(shop, pipeline, FAMILY)
    old = shop.end()
    shop.execute("FLUSH BINARY LOGS", "DELETE FROM p WHERE id = 2")
    run(shop, pipeline, FAMILY)
    assert derived(shop, pipeline) == [("c", old.file), ("g", old.file), ("c", shop.end().file), ("g", shop.end().file)]
    gc_source(shop.spark, pipeline, SOURCE, now=datetime.now(UTC) + timedelta(days=2))
    assert {file for _, file in derived(shop, pipeline)} == {shop.end().file}
    # Small files become one, and what is derived goes on.
    shop.execute("DELETE FROM p WHERE id = 3")
    run(shop, pipeline, FAMILY)
    upkeep = maintain_source(shop.spark, pipeline, SOURCE)
    assert upkeep.stopped == {}
    (kept,) = (table for table in upkeep.tables if table.path == lake_of(pipeline).cascades(SOURCE).path)
    assert (kept.files_before, kept.files_after) == (2, 1)
    shop.execute("DELETE FROM p WHERE id = 4")
    run(shop, pipeline, FAMILY)
    # The source still has the older log, and a backfill brings it: of the children not all of it.
    replayed = backfill_source(shop.spark, pipeline, SOURCE, Range(shop.start, old), lambda _: True)
    assert {name.table for name in replayed.stopped} == {"c", "g"}
    assert all("changes that foreign keys made to its rows before" in text for text in replayed.stopped.values())
    run(shop, pipeline, FAMILY)


@pytest.mark.thorough
def test_children_are_found_by_an_index_once_their_files_are_large(
    shop: Shop, tasks_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_index, "_INDEXED_ROWS", 1)
    monkeypatch.setattr(child_index, "_ROWS_A_WEIGHT", 1)
    shop.execute(*TABLES)
    fill(shop)
    pipeline = shop.pipeline(on_cascade="apply")
    run(shop, pipeline, FAMILY)
    mirror = lake_of(pipeline).downstream(shop.database.name, "c")
    assert [*index_files.index_files(mirror.path)] == [], "no cascade has touched the table"
    shop.execute("DELETE FROM p WHERE id = 1")
    run(shop, pipeline, FAMILY)
    (index,) = index_files.index_files(mirror.path)
    written = index.stat().st_mtime_ns
    shop.execute("UPDATE p SET id = 20 WHERE id = 2")
    run(shop, pipeline, FAMILY)
    assert index.stat().st_mtime_ns == written
    assert shop.merged(pipeline, "c") == [(2, 20, 0), (3, 3, 0), (4, 4, 0), (5, 4, 0)]
    # Rows moved into another file, which has no index yet.
    maintain_source(shop.spark, pipeline, SOURCE, purge=True)
    shop.execute("DELETE FROM p WHERE id = 4", "ALTER TABLE c MODIFY pid INT NULL COMMENT 'parent'")
    run(shop, pipeline, FAMILY)
    assert shop.merged(pipeline, "c") == [(2, 20, 0), (3, 3, 0)]


@pytest.mark.thorough
def test_a_row_that_a_foreign_key_deleted_is_forgotten(shop: Shop, tasks_here: None) -> None:
    shop.execute(
        TABLES[0],
        "CREATE TABLE w (id INT PRIMARY KEY, pid INT, name VARCHAR(40), "
        "FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
        "INSERT INTO p VALUES (1, 0), (2, 0)",
        f"INSERT INTO w VALUES (1, 1, '{WORD}'), (2, 1, 'another'), (3, 2, 'third')",
        "UPDATE p SET id = 10 WHERE id = 1",
    )
    pipeline = shop.pipeline(on_cascade="apply")
    run(shop, pipeline, ["p", "w"])
    name = TableName(shop.database.name, "w")
    with pytest.raises(TableStopped, match="rows of these keys are not deleted"):
        forget(shop.spark, pipeline, SOURCE, name, ["id=1"], is_applied=True)
    shop.execute("DELETE FROM p WHERE id = 10")
    run(shop, pipeline, ["p", "w"])
    folder = Path(lake_of(pipeline).cascades(SOURCE).path)
    assert WORD in texts_in(folder)
    preview = forget(shop.spark, pipeline, SOURCE, name, ["id=1"])
    assert {Path(holder.path).parent.name: holder.rows for holder in preview.tables}["cascades"] == 2
    forget(shop.spark, pipeline, SOURCE, name, ["id=1"], is_applied=True)
    assert WORD not in texts_in(folder)
    assert "another" in texts_in(folder), "other rows stay"
    after = forget(shop.spark, pipeline, SOURCE, name, ["id=1"])
    assert all(holder.is_empty for holder in after.tables)
    # The log again, and what is derived of it, lead to the same rows.
    replayed = backfill_source(shop.spark, pipeline, SOURCE, Range(shop.start, shop.end()), lambda _: True)
    assert not replayed.stopped
    run(shop, pipeline, ["p", "w"])


def test_rows_at_a_position_and_traces_have_what_foreign_keys_did(shop: Shop, tasks_here: None) -> None:
    shop.execute(*TABLES)
    fill(shop)
    pipeline = shop.pipeline(on_cascade="apply")
    run(shop, pipeline, FAMILY)
    before = shop.end()
    shop.execute("DELETE FROM p WHERE id = 1")
    between = shop.end()
    shop.execute("UPDATE p SET id = 20 WHERE id = 2")
    run(shop, pipeline, FAMILY)
    child = TableName(shop.database.name, "c")
    for at, ids in ((before, [1, 2, 3, 4, 4]), (between, [2, 3, 4, 4]), (shop.end(), [3, 4, 4, 20])):
        with tables_at(pipeline, SOURCE, [str(child)], at) as found:
            (table,) = found.tables
            assert sorted(table.selection().table().column("pid").to_pylist()) == ids
    trace = TableTrace.of(pipeline, SOURCE, child, Selection())
    assert [traced.change.is_derived for traced in trace.changes()] == [False] * 5 + [True] * 2
    # What no run has derived yet is not known, and is not guessed.
    shop.execute("DELETE FROM p WHERE id = 3")
    extract_source(shop.spark, pipeline, SOURCE)
    with (
        pytest.raises(NotKnown, match=r"derived up to .*; execute stratalog run first"),
        tables_at(pipeline, SOURCE, [str(child)], shop.end()),
    ):
        pass


def texts_in(folder: Path) -> str:
    """All that the files of derived changes say of rows, those of older versions too."""
    payloads = [
        payload for file in folder.rglob("*.parquet") for payload in pq.read_table(file).column("payload").to_pylist()
    ]
    return str([pa.ipc.open_stream(payload).read_all().to_pylist() for payload in payloads])
