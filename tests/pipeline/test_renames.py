"""Tables that take other tables' names: downstream stays what the server has, at every pause."""

from dataclasses import replace

import pytest

from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.pipeline.backfill.run import backfill_source
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.soaks.online_ddl import Writers, gh_ost, pt_osc

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

T = "(id INT PRIMARY KEY, v INT NOT NULL, note VARCHAR(20))"
ALTER = (
    "ADD extra INT NOT NULL DEFAULT 7 AFTER id, MODIFY v SMALLINT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)"
)


@pytest.mark.long
@pytest.mark.parametrize(
    "tool, often",
    [
        ("gh-ost", False),
        ("gh-ost", True),
        ("pt-osc", False),
        ("pt-osc", True),
    ],
)
def test_online_schema_changes(shop: Shop, tool: str, often: bool) -> None:
    """Of a table that is narrowed, and whose primary key changes: an ALTER TABLE that did it would stop the table."""
    pipeline = shop.pipeline()
    shop.execute(f"CREATE TABLE t {T}")
    writers = Writers(shop.database.execute, seed=7)
    writers.begin(12)
    shop.run(pipeline)
    execute, name = shop.database.execute, shop.database.name
    steps = gh_ost(execute, name, ALTER, writers) if tool == "gh-ost" else pt_osc(execute, name, T, ALTER, writers)
    for step in steps:
        if often or step == "done":
            _, outcome = shop.run(pipeline)
            assert outcome.stopped == {}, step
            require_same(shop, pipeline, "t")
    lake = lake_of(pipeline)
    entries = {entry.table: entry for entry in publication.read(lake, SOURCE)}
    assert entries["t"].complete
    helpers = {"gh-ost": {"_t_gho", "_t_ghc"}, "pt-osc": {"_t_new"}}[tool]
    assert helpers < entries.keys()
    assert all(entry.state == ("current" if table == "t" else "ignored") for table, entry in entries.items())
    assert all(f"to change {name}.t" in str(entries[helper].reason) for helper in helpers)
    assert not any(
        lake.silver(SOURCE, name, helper).head() or lake.downstream(name, helper).head() for helper in helpers
    )
    log_range = Range(shop.start, shop.end())
    repeated = backfill_source(shop.spark, pipeline, SOURCE, log_range, lambda _: True)
    assert (repeated.stopped, repeated.compacted) == ({}, [])
    shop.spark.sql(f"UPDATE {lake.silver(SOURCE, name, 't').sql} SET note = 'damaged' WHERE _op = 'rename' AND id < 6")
    repeated = backfill_source(shop.spark, pipeline, SOURCE, log_range, lambda _: True)
    assert repeated.stopped == {}
    assert [(job.name.table, len(repeated.merged)) for job in repeated.compacted] == [("t", 1)]
    damaged = lake.silver(SOURCE, name, "t").read(shop.spark).where("note = 'damaged'")
    assert damaged.isEmpty()
    require_same(shop, pipeline, "t")


@pytest.mark.long
def test_a_cut_over_where_the_log_names_no_columns(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'", f"CREATE TABLE t {T}")
    try:
        writers = Writers(shop.database.execute, seed=8)
        writers.begin(9)
        shop.run(pipeline)
        alter = "ADD extra INT UNSIGNED NOT NULL DEFAULT 7 FIRST, CHANGE v v SMALLINT NOT NULL"
        list(gh_ost(shop.database.execute, shop.database.name, alter, writers))
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}
        require_same(shop, pipeline, "t")
    finally:
        shop.execute("SET GLOBAL binlog_row_metadata = 'FULL'")


def test_a_name_that_is_passed_on_in_the_run_that_gave_it(shop: Shop) -> None:
    """The name between has no row of its own, in silver or in the log."""
    shop.execute(f"CREATE TABLE first {T}", f"CREATE TABLE x {T}", "INSERT INTO first VALUES (1, 1, 'a'), (2, 2, NULL)")
    pipeline = shop.pipeline()
    shop.run(pipeline)
    shop.execute("RENAME TABLE first TO second", "RENAME TABLE second TO third, x TO second, third TO x")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    assert [require_same(shop, pipeline, table) for table in ("x", "second")] == [2, 0]
    shop.execute("RENAME TABLE x TO fourth", "RENAME TABLE fourth TO fifth", "DELETE FROM fifth WHERE id = 1")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    assert require_same(shop, pipeline, "fifth") == 1


@pytest.mark.long
def test_plain_renames(shop: Shop) -> None:
    name, other_schema = shop.database.name, f"{shop.database.name}_other"
    shop.execute(f"DROP DATABASE IF EXISTS {other_schema}")
    shop.execute("CREATE TABLE old (id INT PRIMARY KEY, v INT)", "INSERT INTO old VALUES (1,1),(2,2)")
    shop = replace(shop, start=shop.end())
    pipeline = shop.pipeline(tables=[f"{name}.*", f"!{name}.hidden*", f"{other_schema}.*"])
    shop.execute(
        f"CREATE DATABASE {other_schema}",
        *(f"CREATE TABLE {name} {T}" for name in ("a", "x", "log", "hidden", "hidden_twin", "e", "back", "two")),
        *(
            f"INSERT INTO {name} VALUES (1,1,'{name}'),(2,2,NULL)"
            for name in ("a", "x", "log", "hidden", "e", "back", "two")
        ),
        "CREATE TABLE y (code VARCHAR(9), v INT, w DATE, PRIMARY KEY (code))",
        "INSERT INTO y VALUES ('k', 1, '2024-02-29'), ('l', 2, NULL)",
        "CREATE TABLE bag (v INT)",
        "INSERT INTO bag VALUES (1),(1),(2)",
        "INSERT INTO old VALUES (3,3)",
    )
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    shop.execute(
        "UPDATE a SET v = 10 WHERE id = 1",
        "INSERT INTO a VALUES (3,3,'a')",
        "RENAME TABLE a TO b",
        "DELETE FROM b WHERE id = 2",
        "INSERT INTO x VALUES (7,7,'x')",
        "RENAME TABLE x TO tmp, y TO x, tmp TO y",
        "INSERT INTO x VALUES ('m', 3, NULL)",
        "INSERT INTO y VALUES (8,8,'y')",
        "CREATE TABLE log_new LIKE log",
        "RENAME TABLE log TO log_1, log_new TO log",
        "INSERT INTO log VALUES (5,5,'new')",
        "INSERT INTO hidden VALUES (3,3,'h')",
        "RENAME TABLE hidden TO shown, hidden_twin TO shown_twin",
        "INSERT INTO shown_twin VALUES (1,1,'twin')",
        "INSERT INTO bag VALUES (1),(3)",
        "DELETE FROM bag WHERE v = 2",
        f"ALTER TABLE bag RENAME TO {other_schema}.sack",
        f"INSERT INTO {other_schema}.sack VALUES (1),(4)",
        "ALTER TABLE e RENAME AS f, ADD c INT NOT NULL DEFAULT 3 FIRST, CHANGE v w BIGINT",
        "UPDATE f SET w = 9 WHERE id = 2",
        "CREATE TABLE _back_new LIKE back",
        "INSERT INTO _back_new VALUES (9,9,'new')",
        "RENAME TABLE back TO _back_old, _back_new TO back",
        "INSERT INTO back VALUES (10,10,'new')",
        "RENAME TABLE back TO _back_new, _back_old TO back",
        "UPDATE back SET v = 11 WHERE id = 1",
        "CREATE TABLE _two_gho LIKE two",
        "ALTER TABLE _two_gho DROP note, ADD n INT",
        "INSERT INTO _two_gho VALUES (1,1,5),(2,2,NULL)",
        "ALTER TABLE two RENAME _two_del",
        "ALTER TABLE _two_gho RENAME two",
        "DELETE FROM two WHERE id = 2",
        "INSERT INTO old VALUES (4,4)",
        "RENAME TABLE old TO older",
        "UPDATE older SET v = 20 WHERE id = 2",
    )
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}

    def require_all(*tables: str) -> None:
        for table in tables:
            require_same(shop, pipeline, table)
        sack = replace(shop, database=replace(shop.database, name=other_schema))
        assert sack.merged(pipeline, "sack") == [(1,), (1,), (1,), (1,), (3,), (4,)]

    require_all("b", "x", "y", "log", "log_1", "shown", "shown_twin", "f", "back", "two")
    assert shop.merged(pipeline, "a") == [(1, 10, "a"), (2, 2, None), (3, 3, "a")]
    assert shop.merged(pipeline, "older") == [(2, 20), (3, 3), (4, 4)]
    complete = {
        entry.table: entry.complete
        for entry in publication.read(lake_of(pipeline), SOURCE)
        if entry.complete is not None
    }
    assert [table for table, is_complete in complete.items() if not is_complete] == ["old", "older"]
    repeated = backfill_source(shop.spark, pipeline, SOURCE, Range(shop.start, shop.end()), lambda _: True)
    ((refused, reason),) = repeated.stopped.items()
    assert refused.table == "older"
    assert "come from that table's silver as it was then; begin the range there or later" in reason
    assert repeated.compacted == []
    require_all("b", "x", "y", "log", "log_1", "shown", "shown_twin", "f", "back", "two")
