"""Child rows with ``on_cascade: apply``: silver and downstream are the server's, whatever foreign keys did."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from pyspark.sql import SparkSession

from spark_jobs.bronze.derived_slices import FIRST_DERIVED_ROW
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.operations.repair import plan_reset, reset
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.cascades.step import CascadeStep
from spark_jobs.pipeline.cascades.unlogged_changes import cascades, unlogged_changes_of
from spark_jobs.pipeline.run import compact_source, extract_source, run_source
from tests.fix_pipeline import SOURCE, Shop
from tests.fix_servers import build_or_skip
from tests.soaks.cascade_campaign import KINDS, LARGE, Case, KindsRunning, play, run
from tests.soaks.cascading import FEW
from tests.twins.twin_cases import FIRST_SEED

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY, note INT)",
    (
        "CREATE TABLE c (id INT PRIMARY KEY, pid INT, v INT, "
        "CONSTRAINT f FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE g (id INT PRIMARY KEY, cid INT, "
        "CONSTRAINT h FOREIGN KEY (cid) REFERENCES c (id) ON DELETE SET NULL ON UPDATE CASCADE)"
    ),
)


FAMILY = ("p", "c", "g")


@pytest.fixture
def family(shop: Shop, tasks_here: None) -> Shop:
    """Parents, children and theirs, without rows."""
    shop.execute(*TABLES)
    return shop


def silver_rows(pipeline: Pipeline, shop: Shop, table: str) -> list[str]:
    """The rows of silver, in no order, without those that say when they were written."""
    stored = lake_of(pipeline).silver(SOURCE, shop.database.name, table).rows()
    return sorted(str(sorted(row.items())) for row in stored)


def fill(shop: Shop) -> None:
    shop.execute(
        "INSERT INTO p VALUES (1, 0), (2, 0), (3, 0), (4, 0)",
        "INSERT INTO c VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0), (5, 4, 0)",
        "INSERT INTO g VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)",
    )


def test_children_are_the_servers_after_each_run(family: Shop) -> None:
    fill(family)
    family.execute("DELETE FROM p WHERE id = 1")
    pipeline = family.pipeline(on_cascade="apply")
    run(family, pipeline, FAMILY)
    # By rows that are in the lake, in a run without a logged row of a child.
    family.execute("UPDATE p SET id = 20 WHERE id = 2", "DELETE FROM p WHERE id = 3")
    run(family, pipeline, FAMILY)
    assert family.merged(pipeline, "c") == [(2, 20, 0), (4, 4, 0), (5, 4, 0)]
    # A derived change stands at its parent's event, behind its rows.
    rows = {
        row["id"]: row["_position"]["row"] for row in lake_of(pipeline).downstream(family.database.name, "c").rows()
    }
    assert {number: row >= FIRST_DERIVED_ROW for number, row in rows.items()} == {2: True, 4: False, 5: False}
    assert cascades(pipeline, lake_of(pipeline), SOURCE) == []


def test_changes_of_a_transaction_count_in_their_order(family: Shop) -> None:
    fill(family)
    pipeline = family.pipeline(on_cascade="apply")
    run(family, pipeline, FAMILY)
    family.execute(
        "BEGIN",
        "UPDATE c SET pid = 2 WHERE id = 1",  # it leaves its parent before that goes
        "INSERT INTO c VALUES (6, 1, 0)",
        "UPDATE p SET id = 10 WHERE id = 1",
        "UPDATE c SET v = 7 WHERE id = 6",
        "DELETE FROM p WHERE id = 10",
        "INSERT INTO p VALUES (1, 5)",
        "INSERT INTO c VALUES (6, 1, 9)",
        "COMMIT",
    )
    run(family, pipeline, FAMILY)
    assert (6, 1, 9) in family.merged(pipeline, "c")


def test_events_of_sessions_that_check_no_foreign_keys_derive_nothing(family: Shop) -> None:
    fill(family)
    pipeline = family.pipeline(on_cascade="apply")
    run(family, pipeline, FAMILY)
    family.execute("SET foreign_key_checks = 0", "DELETE FROM p WHERE id IN (1, 2)", "SET foreign_key_checks = 1")
    family.execute("DELETE FROM p WHERE id = 3")
    run(family, pipeline, FAMILY)
    assert [row[0] for row in family.merged(pipeline, "c")] == [1, 2, 4, 5]


def test_a_mirror_that_is_ahead_without_changes_by_foreign_keys_stops_its_group(family: Shop) -> None:
    fill(family)
    family.execute("DELETE FROM p WHERE id = 4")
    run(family, family.pipeline(on_cascade="apply"), FAMILY)
    family.execute("DELETE FROM p WHERE id = 1", "UPDATE c SET v = 1 WHERE id = 2")
    # A run that derives nothing, and does not know the children of the children.
    tables = [f"{family.database.name}.{table}" for table in ("p", "c")]
    run_source(family.spark, family.pipeline(on_cascade="warn", tables=tables), SOURCE)
    stopped = run_source(family.spark, family.pipeline(on_cascade="apply"), SOURCE)[1].stopped
    reason = "tables that foreign keys join it with are compacted up to"
    assert {name.table: reason in text for name, text in stopped.items()} == {"c": True, "g": True}


@pytest.mark.thorough
def test_statements_about_children_count_where_they_are(family: Shop) -> None:
    # In the log of one run.
    fill(family)
    family.execute(
        "ALTER TABLE c ADD COLUMN w INT NOT NULL DEFAULT 3",
        "DELETE FROM p WHERE id = 1",
        "ALTER TABLE c CHANGE pid parent INT",
        "UPDATE p SET id = 20 WHERE id = 2",
        "ALTER TABLE c DROP FOREIGN KEY f",
        "DELETE FROM p WHERE id = 3",
        "DELETE FROM c WHERE id = 3",
        "ALTER TABLE c ADD CONSTRAINT f2 FOREIGN KEY (parent) REFERENCES p (id) ON DELETE SET NULL",
        "DELETE FROM p WHERE id = 4",
    )
    pipeline = family.pipeline(on_cascade="apply")
    run(family, pipeline, FAMILY)
    assert family.merged(pipeline, "c") == [(2, 20, 0, 3), (4, None, 0, 3), (5, None, 0, 3)]
    # By rows that are in the lake.
    family.execute("INSERT INTO p VALUES (4, 0)", "UPDATE c SET parent = 4 WHERE id = 4")
    family.execute("ALTER TABLE c DROP COLUMN w", "DELETE FROM p WHERE id = 4", "TRUNCATE TABLE g")
    family.execute("INSERT INTO g VALUES (7, 4)", "DELETE FROM c WHERE id = 4")
    run(family, pipeline, FAMILY)
    assert family.merged(pipeline, "g") == [(7, None)]


@pytest.mark.parametrize("key", [" PRIMARY KEY", ""], ids=["keyed", "without a key"])
@pytest.mark.parametrize(
    "is_merged", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["in the log", "in the mirror"]
)
def test_rows_from_before_their_key_in_the_same_run(shop: Shop, tasks_here: None, key: str, *, is_merged: bool) -> None:
    names = ("p", "c", "g")
    shop.execute(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        *(f"CREATE TABLE {name} (id INT{key}, up INT, INDEX (id), INDEX (up))" for name in ("c", "g")),
        "INSERT INTO p VALUES (1), (2), (3)",
        "INSERT INTO c VALUES (1, 1), (2, 2), (3, 3), (4, 1)",
        "INSERT INTO g VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 1)",
    )
    pipeline = shop.pipeline(on_cascade="apply")
    if is_merged:
        run(shop, pipeline, names)
    shop.execute(
        # Rows leave and get parents, go, and come, before their keys are there.
        "UPDATE c SET up = 2 WHERE id = 4",
        "UPDATE c SET up = 1 WHERE id = 3",
        "INSERT INTO c VALUES (5, 1)",
        "DELETE FROM c WHERE id = 1",
        "DELETE FROM g WHERE id = 1",
        "UPDATE g SET up = 5 WHERE id = 5",
        "ALTER TABLE c ADD FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE",
        "UPDATE g SET up = 5 WHERE id = 4",
        "ALTER TABLE g ADD FOREIGN KEY (up) REFERENCES c (id) ON DELETE SET NULL",
        "DELETE FROM p WHERE id = 1",
    )
    run(shop, pipeline, names)
    assert shop.merged(pipeline, "c") == [(2, 2), (4, 2)]
    assert shop.merged(pipeline, "g") == [(2, 2), (3, None), (4, None), (5, None)]
    times = {name: lake_of(pipeline).downstream(shop.database.name, name).rows() for name in ("p", "g")}
    assert all(row["_committed_at"].year > 2000 for rows in times.values() for row in rows)


@pytest.mark.thorough
def test_runs_that_end_early_replays_and_rebuilds_come_to_the_same_rows(family: Shop) -> None:
    fill(family)
    pipeline = family.pipeline(on_cascade="apply")
    run(family, pipeline, FAMILY)
    family.execute("UPDATE p SET id = 20 WHERE id = 2", "DELETE FROM p WHERE id = 1")
    # It ends once the changes are derived, and another one once they are in silver.
    extract_source(family.spark, pipeline, SOURCE)
    lake = lake_of(pipeline)
    snapshot = BronzeSnapshot.find(lake, SOURCE)
    assert snapshot
    step = CascadeStep(
        pipeline, lake, snapshot, publication.read(lake, SOURCE), unlogged_changes_of(pipeline, lake, SOURCE)
    )
    step.run()
    family.execute("DELETE FROM p WHERE id = 3")
    extract_source(family.spark, pipeline, SOURCE)
    compact_source(family.spark, pipeline, SOURCE)
    family.execute("DELETE FROM p WHERE id = 4")
    run(family, pipeline, FAMILY)
    # From the log again: what was derived is there, though the children are not any more.
    before = {table: silver_rows(pipeline, family, table) for table in FAMILY}
    within = Range(family.start, family.end())
    replayed = backfill_source(family.spark, pipeline, SOURCE, within, lambda _: True)
    assert not replayed.stopped
    assert {table: silver_rows(pipeline, family, table) for table in FAMILY} == before
    for table in ("c", "g"):
        plan = plan_reset(pipeline, SOURCE, f"{family.database.name}.{table}")
        reset(pipeline, SOURCE, plan)
    run(family, pipeline, FAMILY)


def test_a_table_that_refers_to_itself(shop: Shop, tasks_here: None) -> None:
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, up INT, v INT, FOREIGN KEY (up) REFERENCES t (id) ON DELETE SET NULL)",
        "INSERT INTO t VALUES (1, NULL, 0), (2, 1, 0), (3, 2, 0), (4, 3, 0), (5, 1, 0)",
    )
    pipeline = shop.pipeline(on_cascade="apply")
    run(shop, pipeline, ["t"])
    # One event deletes a row, and one that its delete changed.
    shop.execute("DELETE FROM t WHERE id IN (1, 2)")
    run(shop, pipeline, ["t"])
    assert shop.merged(pipeline, "t") == [(3, None, 0), (4, 3, 0), (5, None, 0)]


def cases() -> list[ParameterSet]:
    """Short ones of two servers in CI, and at night long ones of every server."""
    seeds = range(FIRST_SEED + 1, FIRST_SEED + 1 + int(os.environ.get("STRATALOG_RUNS", "2")))
    short = [
        pytest.param(Case(kind, FIRST_SEED - 1, 4), id=f"{kind}-short", marks=pytest.mark.thorough)
        for kind in ("MySQL 8.0", "MariaDB 11.4")
    ]
    return short + [
        pytest.param(Case(kind, seed, runs, size, kills=True), id=f"{kind}-{seed}-{size}", marks=pytest.mark.long)
        for kind in KINDS
        for seed in seeds
        for runs, size in ((25, FEW), (8, LARGE))
    ]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KindsRunning]:
    with KindsRunning(tmp_path_factory.mktemp("kinds")) as running:
        yield running


@pytest.mark.parametrize("case", cases())
def test_random_children_are_the_servers_after_each_run(
    case: Case, spark: SparkSession, kinds: KindsRunning, tmp_path: Path, tasks_here: None, summary: list[str]
) -> None:
    build_or_skip(KINDS[case.kind].server)
    counted = play(case, spark, kinds.get(case.kind), tmp_path)
    summary.append(f"cascades applied, {case}: {dict(counted)}")
    assert bool(counted["derived"]) != KINDS[case.kind].logs_cascades, "keys that refuse most statements show nothing"
