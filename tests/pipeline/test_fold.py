"""Old windows folded, of every kind of table that a server logs. Not here: one kind alone (spark_jobs/test_fold.py)."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs import silver
from spark_jobs.backfill import backfill_source
from spark_jobs.config import Pipeline
from spark_jobs.lake import Head
from spark_jobs.maintenance import maintain_source
from spark_jobs.pipeline import lake_of
from spark_jobs.position import Range
from spark_jobs.retention import gc_source
from tests.fix_pipeline import SOURCE, Shop, require_same, rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

TABLES = {
    "keyed": "id INT PRIMARY KEY, v INT, f FLOAT, d DATETIME",
    "bag": "v INT, t VARCHAR(9)",
    "lacking": "id INT PRIMARY KEY, a INT, b VARCHAR(9)",
    "prepared": "id INT PRIMARY KEY, v INT",
    "emptied": "id INT PRIMARY KEY, v INT",
    "moved": "id INT PRIMARY KEY, v INT",
    "part_1": "id INT PRIMARY KEY, v INT",
    "part_2": "id INT PRIMARY KEY, v INT",
}
ALONE = ("keyed", "bag", "lacking", "prepared", "emptied")


def changed(shop: Shop, run: int) -> None:
    """What happens between two runs; a file of the log ends with it."""
    shop.execute(f"UPDATE keyed SET v = v + {run}, f = -0.0 WHERE id % 3", f"DELETE FROM keyed WHERE id = {run}")
    shop.execute(f"INSERT INTO keyed VALUES ({100 + run}, {run}, 0.5, '2024-02-29')")
    shop.execute("INSERT INTO bag VALUES (1, 'one'), (1, 'one')", f"INSERT INTO bag VALUES ({run}, NULL)")
    shop.execute(*["DELETE FROM bag WHERE v = 1 LIMIT 1"] * 2)
    shop.execute(f"UPDATE lacking SET a = {run} WHERE id < 3", f"REPLACE INTO lacking VALUES (4, {run}, NULL)")
    shop.execute("DELETE FROM lacking WHERE id = 5", f"INSERT INTO lacking (id, a) VALUES (5, {run})")
    shop.execute(f"UPDATE lacking SET b = 'late {run}' WHERE id = 5")
    shop.execute(f"XA START 'x{run}'", f"INSERT INTO prepared VALUES ({run}, 0)", f"UPDATE prepared SET v = v + {run}")
    shop.execute(f"XA END 'x{run}'", f"XA PREPARE 'x{run}'", f"XA COMMIT 'x{run}'")
    shop.execute(*(["TRUNCATE emptied"] if run == 2 else []), f"INSERT INTO emptied VALUES ({run}, {run})")
    for part in (1, 2):
        shop.execute(
            f"INSERT INTO part_{part} VALUES ({run}, {part})", f"UPDATE part_{part} SET v = {run} WHERE id = 1"
        )
    named = "moved" if run < 2 else "named"
    shop.execute(*(["ALTER TABLE moved ADD COLUMN w INT DEFAULT 7", "RENAME TABLE moved TO named"] if run == 2 else []))
    shop.execute(f"INSERT INTO {named} (id, v) VALUES ({run}, {run})", f"UPDATE {named} SET v = 0 WHERE id = 1")
    shop.execute("FLUSH BINARY LOGS")


def require_all(shop: Shop, pipeline: Pipeline) -> None:
    for name in (*ALONE, "named"):
        require_same(shop, pipeline, name)
    both = rows(lake_of(pipeline).downstream(shop.database.name, "parts").read(shop.spark))
    assert both == sorted([*shop.truth("part_1"), *shop.truth("part_2")])


def test_every_kind_of_table_is_what_it_was_and_goes_on(shop: Shop) -> None:
    db = shop.database.name
    pipeline = shop.pipeline(
        routes=[{"from": f"{db}.part_*", "to": f"{db}.parts"}], retention={"bronze": "1d", "fold": True}
    )
    lake = lake_of(pipeline)
    for name, columns in TABLES.items():
        shop.execute(f"CREATE TABLE {name} ({columns})")
    shop.execute("INSERT INTO keyed VALUES " + ", ".join(f"({n}, 0, NULL, NULL)" for n in range(20)))
    shop.execute("INSERT INTO lacking VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 3, 'z'), (5, 5, 'w')")
    shop.execute("SET binlog_row_image = MINIMAL")
    for run in range(1, 5):
        changed(shop, run)
        assert shop.run(pipeline)[1].stopped == {}
    require_all(shop, pipeline)
    gc_source(shop.spark, pipeline, SOURCE, now=datetime.now(UTC) + timedelta(days=9))
    found = maintain_source(shop.spark, pipeline, SOURCE)
    folds = {one.folded.name.table: one.folded for one in found.done if one.folded}
    assert (found.stopped, found.unfolded) == ({}, {})
    assert folds.keys() >= {*ALONE, "named", "part_1", "part_2"}
    assert all(one.rows_after <= one.rows_before for one in folds.values()), folds
    assert folds["keyed"].rows_after < folds["keyed"].rows_before / 2
    require_all(shop, pipeline)

    for name in (*ALONE, "named", "parts"):
        shutil.rmtree(lake.downstream(db, name).path)
    assert shop.run(pipeline)[1].stopped == {}
    require_all(shop, pipeline)

    head = lake.bronze(SOURCE).head()
    assert isinstance(head, Head)
    assert head.position is not None
    changed(shop, 5)
    shop.execute("ALTER TABLE keyed ADD COLUMN n INT DEFAULT 3", "UPDATE keyed SET n = 4 WHERE id = 2")
    shop.execute(
        "DELETE FROM bag WHERE v = 2", "UPDATE named SET w = 8 WHERE id = 2", "DELETE FROM part_1 WHERE id = 2"
    )
    shop.execute("SET binlog_row_image = FULL")
    assert shop.run(pipeline)[1].stopped == {}
    require_all(shop, pipeline)
    end = lake.bronze(SOURCE).head()
    assert isinstance(end, Head)
    assert end.position is not None
    keyed = lake.silver(SOURCE, db, "keyed")
    assert silver.folded(keyed.head()) == folds["keyed"].floor, "it stands through an ALTER"
    for table in (keyed, lake.downstream(db, "keyed")):
        shop.spark.sql(f"UPDATE {table.sql} SET v = -1 WHERE _position >= {silver.at_sql(head.position)}")
    done = backfill_source(shop.spark, pipeline, SOURCE, Range(head.position, end.position), lambda _: True)
    assert done.stopped == {}
    require_all(shop, pipeline)
