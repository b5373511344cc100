"""Old windows folded, of every kind of table that a server logs. Not here: one kind alone (test_fold_windows.py)."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.silver import table as silver
from tests.fix_pipeline import SOURCE, Shop, killed_at, require_same, rows

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
    all_rows = rows(lake_of(pipeline).downstream(shop.database.name, "parts").read(shop.spark))
    assert all_rows == sorted([*shop.truth("part_1"), *shop.truth("part_2")])


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
    upkeep = maintain_source(shop.spark, pipeline, SOURCE)
    folds = {table.folded.name.table: table.folded for table in upkeep.tables if table.folded}
    assert (upkeep.stopped, upkeep.unfolded) == ({}, {})
    assert folds.keys() >= {*ALONE, "named", "part_1", "part_2"}
    assert all(fold.rows_after <= fold.rows_before for fold in folds.values()), folds
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
    assert silver.fold_floor(keyed.head()) == folds["keyed"].floor, "it stands through an ALTER"
    for table in (keyed, lake.downstream(db, "keyed")):
        shop.spark.sql(f"UPDATE {table.sql} SET v = -1 WHERE _position >= {silver.before_sql(head.position)}")
    outcome = backfill_source(shop.spark, pipeline, SOURCE, Range(head.position, end.position), lambda _: True)
    assert outcome.stopped == {}
    require_all(shop, pipeline)


def contents(pipeline: Pipeline, shop: Shop) -> dict[str, list[str]]:
    """Every row of every layer, added columns and all."""
    lake, db = lake_of(pipeline), shop.database.name
    tables = {"bronze": lake.bronze(SOURCE)}
    for name in PLAIN:
        tables |= {f"silver/{name}": lake.silver(SOURCE, db, name), f"downstream/{name}": lake.downstream(db, name)}
    return {name: sorted(map(repr, table.read(shop.spark).collect())) for name, table in tables.items()}


def require_newest_published(pipeline: Pipeline, shop: Shop) -> None:
    """Readers are led to the tables as maintenance left them, so that what it replaced can go from the disk."""
    lake, db = lake_of(pipeline), shop.database.name
    for entry in publication.read(lake, SOURCE):
        heads = [lake.silver(SOURCE, db, entry.table).head(), lake.downstream(db, entry.table).head()]
        assert [entry.silver_version, entry.downstream_version] == [head.version for head in heads if head], entry.table


PLAIN = ("keyed", "tail")


def test_killed_at_every_commit_and_run_again_the_tables_are_those_of_an_undisturbed_fold(
    shop: Shop, tmp_path: Path
) -> None:
    """Copies of one lake: one folded undisturbed, one by maintenance that dies at the fold and where it publishes."""
    shop.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in PLAIN))
    brief = {"spark.driver.memory": "1g"}
    settings: dict[str, Any] = {
        "retention": {"bronze": "1d", "fold": True},
        "spark": {"master": "local[2]", "conf": brief},
    }
    first = shop.pipeline(lake=str(tmp_path / "shaken"), **settings)
    for run in range(1, 4):
        for name in PLAIN:
            shop.execute(
                f"REPLACE INTO {name} VALUES ({run}, {run}), (9, {run})", f"DELETE FROM {name} WHERE id < {run}"
            )
        shop.execute("FLUSH BINARY LOGS")
        shop.run(first)
    gc_source(shop.spark, first, SOURCE, now=datetime.now(UTC) + timedelta(days=9))
    shutil.copytree(tmp_path / "shaken", tmp_path / "undisturbed")
    undisturbed = shop.pipeline(lake=str(tmp_path / "undisturbed"), **settings)
    shop.run(undisturbed)  # the lake learns where it is
    folded = maintain_source(shop.spark, undisturbed, SOURCE)
    assert {table.folded.name.table for table in folded.tables if table.folded} == set(PLAIN)

    shaken = shop.pipeline(lake=str(tmp_path / "shaken"), **settings)
    table = f"silver/{SOURCE}/{shop.database.name}/{PLAIN[1]}"
    for layer, moment in ((table, "before"), (table, "after"), ("published", "before")):
        assert killed_at(shaken.path, layer, moment, "maintain")
        head = lake_of(shaken).silver(SOURCE, shop.database.name, PLAIN[1]).head()
        assert (silver.fold_floor(head) is None) == ((layer, moment) == (table, "before"))
    upkeep = maintain_source(shop.spark, shaken, SOURCE)
    assert (upkeep.stopped, [table for table in upkeep.tables if table.folded]) == ({}, [])
    assert contents(shaken, shop) == contents(undisturbed, shop)
    for pipeline in (shaken, undisturbed):
        require_newest_published(pipeline, shop)
        shop.execute("UPDATE tail SET v = v + 10 WHERE id = 9", "INSERT INTO keyed VALUES (50, 5)")
        assert shop.run(pipeline)[1].stopped == {}
        for name in PLAIN:
            require_same(shop, pipeline, name)
        shop.execute("DELETE FROM keyed WHERE id = 50")
