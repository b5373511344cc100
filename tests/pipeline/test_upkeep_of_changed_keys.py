"""gc, folding and maintenance of tables whose keys ALTER changed. Not here: the changes alone (test_key_changes.py)."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.bronze import table as bronze
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.silver import table as silver
from tests.fix_pipeline import SOURCE, Shop, killed_at, require_same

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

TABLES = {
    "other": "id INT NOT NULL PRIMARY KEY, b INT NOT NULL, v INT",
    "bag": "id INT NOT NULL PRIMARY KEY, b INT NOT NULL, v INT",
    "keyed": "id INT NOT NULL, b INT NOT NULL, v INT",
}
CHANGES = (
    "ALTER TABLE other DROP PRIMARY KEY, CHANGE v w BIGINT, ADD PRIMARY KEY (b)",
    "ALTER TABLE bag DROP PRIMARY KEY",
    "ALTER TABLE keyed ADD c INT NOT NULL DEFAULT 7, ADD PRIMARY KEY (id)",
)
AND_BACK = (
    "ALTER TABLE other DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
    "DELETE FROM bag WHERE v = -1",
    "ALTER TABLE bag ADD PRIMARY KEY (id)",
    "ALTER TABLE keyed DROP PRIMARY KEY",
)
BRIEF = {"spark.driver.memory": "1g"}
KEEPING: dict[str, Any] = {"retention": {"bronze": "0m", "fold": True}, "spark": {"master": "local[2]", "conf": BRIEF}}


def write_rows(shop: Shop, run: int) -> None:
    """Rows come, change and go in every table; a file of the log ends behind it."""
    for name in TABLES:
        shop.execute(
            f"INSERT INTO {name} (id, b) VALUES ({10 * run}, {10 * run}), ({10 * run + 1}, {10 * run + 1})",
            f"UPDATE {name} SET b = b + 1000 WHERE id = {10 * run}",
            f"DELETE FROM {name} WHERE id = {10 * run - 9}",
        )
    shop.execute("INSERT INTO bag (id, b, v) VALUES (5, 5, -1), (5, 5, -1)" if run == 4 else "DO 0")
    shop.execute("FLUSH BINARY LOGS")


def require_all(shop: Shop, pipeline: Pipeline) -> None:
    assert shop.run(pipeline)[1].stopped == {}
    for name in TABLES:
        require_same(shop, pipeline, name)


def maintain(shop: Shop, pipeline: Pipeline) -> dict[str, tuple[int, int]]:
    """gc and maintenance; the rows of each table that was folded, before and after."""
    gc_source(shop.spark, pipeline, SOURCE)
    upkeep = maintain_source(shop.spark, pipeline, SOURCE)
    assert (upkeep.stopped, upkeep.unfolded) == ({}, {})
    folds = [table.folded for table in upkeep.tables if table.folded]
    return {fold.name.table: (fold.rows_before, fold.rows_after) for fold in folds}


def floors(shop: Shop, pipeline: Pipeline) -> dict[str, Position | None]:
    heads = {name: lake_of(pipeline).silver(SOURCE, shop.database.name, name).head() for name in TABLES}
    return {name: silver.fold_floor(head) for name, head in heads.items() if head}


def test_windows_before_and_behind_a_changed_key_are_folded(shop: Shop) -> None:
    pipeline = shop.pipeline(**KEEPING)
    lake, db = lake_of(pipeline), shop.database.name
    shop.execute(*(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()))
    for run in (1, 2, 3):
        write_rows(shop, run)
        require_all(shop, pipeline)
    assert maintain(shop, pipeline).keys() == set(TABLES), "by the keys of before"
    before = shop.end()
    shop.execute(*CHANGES)
    write_rows(shop, 4)
    require_all(shop, pipeline)
    maintain(shop, pipeline)
    for run in (5, 6):
        write_rows(shop, run)
        require_all(shop, pipeline)
    folded = maintain(shop, pipeline)
    assert folded.keys() == set(TABLES)
    assert all(after < before for before, after in folded.values()), folded
    assert all(floor and floor > before for floor in floors(shop, pipeline).values()), "the statements are below it"
    for name in TABLES:
        shutil.rmtree(lake.downstream(db, name).path)
    require_all(shop, pipeline)
    shop.execute(*AND_BACK)
    write_rows(shop, 7)
    require_all(shop, pipeline)
    write_rows(shop, 8)
    require_all(shop, pipeline)
    head = lake.bronze(SOURCE).head()
    assert head is not None
    assert head.checkpoint is not None
    log_range = Range(bronze.oldest(head.checkpoint), head.checkpoint.position)
    backfill_source(shop.spark, pipeline, SOURCE, log_range, lambda _: True)
    require_all(shop, pipeline)
    maintain(shop, pipeline)
    require_all(shop, pipeline)


def contents(shop: Shop, pipeline: Pipeline) -> dict[str, list[str]]:
    """Every row of silver and downstream, added columns and all."""
    lake, db = lake_of(pipeline), shop.database.name
    tables = {f"silver/{name}": lake.silver(SOURCE, db, name) for name in TABLES}
    tables |= {f"downstream/{name}": lake.downstream(db, name) for name in TABLES}
    return {name: sorted(map(repr, table.read(shop.spark).collect())) for name, table in tables.items()}


def test_killed_behind_every_commit_of_the_change_and_maintained_there_it_ends_as_undisturbed(
    shop: Shop, tmp_path: Path
) -> None:
    """Maintenance comes by wherever the run died: it must not take a table between two sets of columns for whole."""
    settings: dict[str, Any] = {"spark": KEEPING["spark"]}
    first = shop.pipeline(lake=str(tmp_path / "shaken"), **settings)
    shop.execute(*(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()))
    for run in (1, 2):
        write_rows(shop, run)
        require_all(shop, first)
    shutil.copytree(tmp_path / "shaken", tmp_path / "undisturbed")
    shop.execute(*CHANGES)
    write_rows(shop, 3)
    undisturbed = shop.pipeline(lake=str(tmp_path / "undisturbed"), **settings)
    require_all(shop, undisturbed)
    shaken = shop.pipeline(lake=str(tmp_path / "shaken"), **settings)
    died = 0
    while killed_at(shaken.path, f"{shop.database.name}/other", "after"):
        died += 1
        assert maintain_source(shop.spark, shaken, SOURCE).stopped == {}
    assert died >= 8, "columns and rows of silver, and the same downstream"
    assert contents(shop, shaken) == contents(shop, undisturbed)
    require_all(shop, shaken)


@pytest.mark.parametrize("verbs", [("maintain", "maintain"), ("gc", "maintain")], ids="-".join)
def test_two_that_keep_one_lake_at_the_same_moment_change_no_row(
    shop: Shop, tmp_path: Path, verbs: tuple[str, str]
) -> None:
    pipeline = shop.pipeline(**KEEPING)
    shop.execute(*(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()))
    for run in (1, 2):
        write_rows(shop, run)
        require_all(shop, pipeline)
    shop.execute(*CHANGES)
    for run in (3, 4):
        write_rows(shop, run)
        require_all(shop, pipeline)
    if "gc" not in verbs:
        gc_source(shop.spark, pipeline, SOURCE)
    for status, errors in at_once(tmp_path, pipeline.path, verbs):
        assert status == 0 or (status == 1 and "another writer" in errors), errors
        assert "Traceback" not in errors
    require_all(shop, pipeline)
    upkeep = maintain_source(shop.spark, pipeline, SOURCE)
    assert (upkeep.stopped, upkeep.unfolded) == ({}, {})
    assert all(floors(shop, pipeline).values())
    head = lake_of(pipeline).bronze(SOURCE).head()
    assert isinstance(head, Head)
    assert head.position == shop.end()
    write_rows(shop, 5)
    require_all(shop, pipeline)


def at_once(folder: Path, config: Path, verbs: tuple[str, ...]) -> list[tuple[int, str]]:
    """Exit status and standard error of each verb, all of them begun at one moment, each in its own process."""
    script = str(Path(__file__).with_name("at_once.py"))
    paths = [folder / f"{at}.err" for at in range(len(verbs))]
    with ExitStack() as stack:
        started = []
        for verb, path in zip(verbs, paths, strict=True):
            command = [sys.executable, script, str(folder), verb, "-c", str(config)]
            stderr = stack.enter_context(path.open("w"))
            popen = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=stderr, env=os.environ | {"PYTHONPATH": "."}
            )
            started.append(popen)
            stack.callback(popen.wait)
            stack.callback(popen.kill)
        while len(list(folder.glob("ready-*"))) < len(verbs):
            assert all(process.poll() is None for process in started), [path.read_text() for path in paths]
            time.sleep(0.05)
        (folder / "go").touch()
        ended = [process.wait() for process in started]
    return [(status, path.read_text()) for status, path in zip(ended, paths, strict=True)]
