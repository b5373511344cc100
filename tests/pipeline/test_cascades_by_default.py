"""Child rows without ``on_cascade``: derived in a new lake where all is known, and named in a warning elsewhere."""

from dataclasses import replace
from pathlib import Path
from threading import Lock

import pytest

from spark_jobs.bronze import extract
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.operations.repair import plan_reset, reset
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.cascades.unlogged_changes import cascades, unlogged_changes_of
from spark_jobs.pipeline.initial_load import load as initial_load
from spark_jobs.pipeline.initial_load.load import load_source
from spark_jobs.pipeline.initial_load.reading import read_table
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.pipeline.test_cascades_applied import FAMILY, TABLES, fill
from tests.soaks.cascade_campaign import run

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


@pytest.fixture
def family(shop: Shop, tasks_here: None) -> Shop:
    shop.execute(*TABLES)
    return shop


def test_a_new_lake_derives_and_one_without_cascades_has_no_table_for_it(family: Shop) -> None:
    fill(family)
    pipeline = family.pipeline()
    run(family, pipeline, FAMILY)
    lake = lake_of(pipeline)
    assert not Path(lake.cascades(SOURCE).path).exists()
    family.execute("DELETE FROM p WHERE id = 1")
    run(family, pipeline, FAMILY)
    assert cascades(pipeline, lake, SOURCE) == []
    # A rebuilt table has what was derived, and goes on deriving.
    reset(pipeline, SOURCE, plan_reset(pipeline, SOURCE, f"{family.database.name}.c"))
    run(family, pipeline, FAMILY)
    family.execute("UPDATE p SET id = 20 WHERE id = 2")
    run(family, pipeline, FAMILY)
    assert family.merged(pipeline, "c") == [(2, 20, 0), (3, 3, 0), (4, 4, 0), (5, 4, 0)]


@pytest.mark.thorough
def test_a_lake_that_an_earlier_version_began_only_warns_until_it_is_told_otherwise(
    family: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = extract.ExtractionPlan.commit
    fill(family)
    pipeline = family.pipeline()
    with monkeypatch.context() as earlier:
        earlier.setattr(
            extract.ExtractionPlan, "commit", lambda planned: replace(made(planned), derives_cascades=False)
        )
        run(family, pipeline, FAMILY)
    family.execute("DELETE FROM p WHERE id = 1")
    _, outcome = family.run(pipeline)
    assert not outcome.stopped
    assert len(family.merged(pipeline, "c")) == 5
    named = cascades(pipeline, lake_of(pipeline), SOURCE)
    assert [(cascade.table.table, cascade.action, cascade.refusal) for cascade in named] == [
        ("c", "warn", None),
        ("g", "warn", None),
    ]
    family.execute("SET foreign_key_checks = 0", "INSERT INTO c VALUES (1, 1, 0)", "DELETE FROM c WHERE id = 1")
    family.execute("UPDATE g SET cid = 9 WHERE id = 1", "UPDATE g SET cid = NULL WHERE id = 1")
    family.execute("SET foreign_key_checks = 1")
    run(family, pipeline, FAMILY)
    chosen = family.pipeline(on_cascade="apply")
    family.execute("DELETE FROM p WHERE id = 2")
    run(family, chosen, FAMILY)
    assert cascades(chosen, lake_of(chosen), SOURCE) == []


def test_what_is_not_known_goes_on_with_a_warning_and_the_rest_is_derived(shop: Shop, tasks_here: None) -> None:
    shop.execute(
        *TABLES,
        "CREATE TABLE days (day DATE PRIMARY KEY)",
        "CREATE TABLE d (id INT PRIMARY KEY, day DATE, FOREIGN KEY (day) REFERENCES days (day) ON DELETE CASCADE)",
        "CREATE TABLE q (id INT PRIMARY KEY)",
        "CREATE TABLE m (id INT PRIMARY KEY, qid INT, x INT, FOREIGN KEY (qid) REFERENCES q (id) ON DELETE CASCADE)",
        "INSERT INTO days VALUES ('2026-01-01'), ('2026-01-02')",
        "INSERT INTO d VALUES (1, '2026-01-01'), (2, '2026-01-02')",
        "INSERT INTO q VALUES (1)",
        "INSERT INTO m VALUES (1, 1, 5)",
    )
    fill(shop)
    rule = {"few": {"tables": [f"{shop.database.name}.m"], "exclude": ["x"]}}
    pipeline = shop.pipeline(columns=rule)
    run(shop, pipeline, FAMILY)
    shop.execute("DELETE FROM p WHERE id = 1", "DELETE FROM days WHERE day = '2026-01-01'", "DELETE FROM q")
    for _ in range(2):
        run(shop, pipeline, FAMILY)
    assert [row[0] for row in shop.merged(pipeline, "d")] == [1, 2]
    lake = lake_of(pipeline)
    named = {cascade.table.table: cascade.refusal or "" for cascade in cascades(pipeline, lake, SOURCE)}
    assert "dates and times are not compared" in named.pop("d")
    assert "a rule about its columns" in named.pop("m")
    assert named == {}
    version = lake.cascades(SOURCE).head()
    shop.execute("INSERT INTO q VALUES (2)")
    run(shop, pipeline, FAMILY)
    assert lake.cascades(SOURCE).head() == version, "nothing is written where no parent changed"


@pytest.mark.thorough
def test_loaded_children_are_derived_from_where_they_were_read(family: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(family)
    later = Shop(family.spark, family.database, family.folder, family.end())
    pipeline = later.pipeline(live=True)
    later.execute("DELETE FROM p WHERE id = 1")
    _, outcome = later.run(pipeline)
    assert not outcome.stopped
    lake = lake_of(pipeline)
    # A child that the lake has no row of lacks none.
    assert cascades(pipeline, lake, SOURCE) == []

    # It ends once its rows are in silver, and not in the mirrors.
    class Ended(Exception):
        pass

    def end(*_: object, **__: object) -> None:
        raise Ended

    with monkeypatch.context() as ended:
        ended.setattr(initial_load, "_merged_forward", end)
        with pytest.raises(Ended):
            load_source(later.spark, pipeline, SOURCE)
    later.execute("DELETE FROM p WHERE id = 3")
    run(later, pipeline, FAMILY)
    later.execute("DELETE FROM p WHERE id = 2")
    run(later, pipeline, FAMILY)
    assert cascades(pipeline, lake, SOURCE) == []
    assert later.merged(pipeline, "c") == [(4, 4, 0), (5, 4, 0)]


def test_what_cascades_before_a_child_with_rows_is_loaded_is_told(family: Shop) -> None:
    fill(family)
    later = Shop(family.spark, family.database, family.folder, family.end())
    pipeline = later.pipeline(live=True)
    later.execute("INSERT INTO c VALUES (6, 2, 0)", "DELETE FROM p WHERE id = 2")
    _, outcome = later.run(pipeline)
    assert not outcome.stopped
    # A load adds and replaces rows, and takes none away that the log has.
    loaded = load_source(later.spark, pipeline, SOURCE)
    assert not loaded.stopped
    assert (6, 2, 0) in later.merged(pipeline, "c")
    named = {cascade.table.table: cascade.refusal or "" for cascade in cascades(pipeline, lake_of(pipeline), SOURCE)}
    assert "the lake has not all of its rows" in named["c"]


@pytest.mark.thorough
def test_what_cascades_while_a_child_is_loaded_is_told(family: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(family)
    later = Shop(family.spark, family.database, family.folder, family.end())
    pipeline = later.pipeline(live=True)

    lock, tables = Lock(), set[str]()

    def read_and_cascade(*arguments: object) -> object:
        table = read_table(*arguments)  # type: ignore[arg-type]
        with lock:
            tables.add(table.name.table)
            if tables == {*FAMILY}:  # the rows of all of them are read, and none is in silver
                later.execute("DELETE FROM p WHERE id = 4")
        return table

    monkeypatch.setattr(initial_load, "read_table", read_and_cascade)
    later.execute("UPDATE p SET note = 1")
    loaded = load_source(later.spark, pipeline, SOURCE)
    assert not loaded.stopped
    assert len(later.merged(pipeline, "c")) == 5
    named = {cascade.table.table: cascade.refusal or "" for cascade in cascades(pipeline, lake_of(pipeline), SOURCE)}
    assert named.keys() == {"c", "g"}
    assert all("not derived from" in reason for reason in named.values())
    later.execute("DELETE FROM p WHERE id = 3")
    _, outcome = later.run(pipeline)
    assert not outcome.stopped
    assert [row[0] for row in later.merged(pipeline, "c")] == [1, 2, 4, 5], "it is derived from there on"


def test_bronze_says_how_a_lake_began(family: Shop) -> None:
    pipeline = family.pipeline()
    run(family, pipeline, ["p"])
    family.execute("INSERT INTO p VALUES (1, 1)")
    run(family, pipeline, ["p"])
    commit = BronzeCommit.of_head(lake_of(pipeline).bronze(SOURCE).head())
    assert commit
    assert commit.derives_cascades
    assert unlogged_changes_of(pipeline, lake_of(pipeline), SOURCE).actions.default == "apply_known"
    require_same(family, pipeline, "p")


def test_log_from_before_the_lake_is_not_replayed_where_a_parent_changed_in_it(family: Shop) -> None:
    family.execute("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    fill(family)
    family.execute("DELETE FROM p WHERE id = 1")
    later = Shop(family.spark, family.database, family.folder, family.end())
    pipeline = later.pipeline(live=True)
    later.execute("UPDATE p SET note = 1", "UPDATE c SET v = 1", "INSERT INTO other VALUES (2)")
    assert not load_source(later.spark, pipeline, SOURCE).stopped
    run(later, pipeline, FAMILY)
    # The earlier log has the INSERT of a row that the server deleted, and nothing of its end.
    earlier = Range(family.start, later.end())
    outcome = backfill_source(later.spark, pipeline, SOURCE, earlier, lambda _: True)
    assert {name.table for name in outcome.stopped} == {"c", "g"}
    assert all(f"DELETE of {family.database.name}.p at" in text for text in outcome.stopped.values())
    run(later, pipeline, [*FAMILY, "other"])
