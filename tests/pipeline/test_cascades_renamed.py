"""Child rows with ``on_cascade: apply`` where tables that foreign keys join get other names."""

import re
from itertools import starmap

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import verify_source
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.mending.mend_source import STOPPED, mend_source
from spark_jobs.operations.observation.verified import EQUAL, NOT_COMPARED
from spark_jobs.operations.repair import plan_reset, reset
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.cascades.unlogged_changes import cascades
from spark_jobs.pipeline.initial_load.load import load_source
from tests.fix_pipeline import SOURCE, Shop
from tests.soaks.cascade_campaign import run

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY)",
    (
        "CREATE TABLE c (id INT PRIMARY KEY, up INT, "
        "FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    "CREATE TABLE g (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES c (id) ON DELETE SET NULL)",
    "CREATE TABLE t (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES t (id) ON DELETE CASCADE)",
    "INSERT INTO p VALUES (1), (2), (3), (4), (5)",
    "INSERT INTO c VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 5)",
    "INSERT INTO g VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)",
    "INSERT INTO t VALUES (1, NULL), (2, NULL), (3, NULL), (4, 1), (5, 2), (6, 3), (7, 4), (8, 5), (9, 6)",
)
"""Parents, children and theirs, and a table that refers to itself."""
BEFORE = ("DELETE FROM p WHERE id = 1", "DELETE FROM t WHERE id = 1", "UPDATE c SET up = 2 WHERE id = 6")
RENAMES = {
    "parent": (["RENAME TABLE p TO p2"], {"p": "p2"}),
    "child": (["ALTER TABLE c RENAME TO c2"], {"c": "c2"}),
    "all at once": (
        ["RENAME TABLE p TO p2, c TO c2, g TO g2, t TO t2"],
        {"p": "p2", "c": "c2", "g": "g2", "t": "t2"},
    ),
    "one by one": (
        ["RENAME TABLE g TO g2", "RENAME TABLE c TO c2", "RENAME TABLE t TO t2", "RENAME TABLE p TO p2"],
        {"p": "p2", "c": "c2", "g": "g2", "t": "t2"},
    ),
    "names that tables exchange": (
        ["RENAME TABLE c TO x, g TO c, x TO g, p TO y, t TO p, y TO t"],
        {"c": "g", "g": "c", "p": "t", "t": "p"},
    ),
}


def after(names: dict[str, str]) -> list[str]:
    """Changes of the tables by their new names."""
    p, c, t = (names.get(name, name) for name in "pct")
    return [
        f"INSERT INTO {c} VALUES (7, 2)",
        f"DELETE FROM {p} WHERE id = 2",
        f"UPDATE {p} SET id = 30 WHERE id = 3",
        f"DELETE FROM {t} WHERE id = 2",
        f"INSERT INTO {t} VALUES (10, 3)",
    ]


def final(names: dict[str, str]) -> list[str]:
    p, t = (names.get(name, name) for name in "pt")
    return [f"DELETE FROM {p} WHERE id = 30", f"DELETE FROM {t} WHERE id = 3"]


CASES = [
    *((kind, "inside a run") for kind in RENAMES),
    *(("all at once", moment) for moment in ("between runs", "in the first run")),
    ("names that tables exchange", "in the first run"),
]


REPLAYS = ("before the rename", "behind it", "all of the log")


@pytest.mark.parametrize(
    "kind, moment, replays",
    [
        # Each case with one of the ranges, so that all of them come; at night with all.
        *(
            pytest.param(
                *case,
                REPLAYS[at % 3 :][:1],
                id="-".join(case),
                marks=[] if case == ("child", "inside a run") else pytest.mark.thorough,
            )
            for at, case in enumerate(CASES)
        ),
        *(pytest.param(*case, REPLAYS, id="-".join((*case, "each range")), marks=pytest.mark.long) for case in CASES),
    ],
)
def test_tables_with_other_names_are_the_servers_after_each_run_and_replay(
    shop: Shop, tasks_here: None, kind: str, moment: str, replays: tuple[str, ...]
) -> None:
    renames, names = RENAMES[kind]
    tables = [names.get(name, name) for name in "pcgt"]
    pipeline = shop.pipeline(on_cascade="apply")
    shop.execute(*TABLES)
    if moment != "in the first run":
        run(shop, pipeline, "pcgt")
    shop.execute(*BEFORE)
    if moment == "between runs":
        run(shop, pipeline, "pcgt")
    renamed_at = shop.end()
    shop.execute(*renames, *after(names))
    run(shop, pipeline, tables)
    shop.execute(*final(names))
    run(shop, pipeline, tables)
    # A range before the rename has the rows of the earlier names.
    ends = [(shop.start, renamed_at), (renamed_at, shop.end()), (shop.start, shop.end())]
    ranges = dict(zip(REPLAYS, starmap(Range, ends), strict=True))
    for name in replays:
        replayed = backfill_source(shop.spark, pipeline, SOURCE, ranges[name], lambda _: True)
        assert not replayed.stopped, replayed.stopped
        run(shop, pipeline, tables)
    for table in tables:
        reset(pipeline, SOURCE, plan_reset(pipeline, SOURCE, f"{shop.database.name}.{table}"))
    run(shop, pipeline, tables)


@pytest.mark.thorough
def test_log_from_before_the_lake_is_not_replayed_under_an_earlier_name(shop: Shop, tasks_here: None) -> None:
    shop.execute(*TABLES, *BEFORE, "RENAME TABLE p TO p2, c TO c2")
    later = Shop(shop.spark, shop.database, shop.folder, shop.end())
    pipeline = later.pipeline(live=True)
    later.execute("INSERT INTO p2 VALUES (9)", "INSERT INTO c2 VALUES (9, 9)")
    assert not load_source(later.spark, pipeline, SOURCE).stopped
    run(later, pipeline, ["p2", "c2", "g"])
    outcome = backfill_source(later.spark, pipeline, SOURCE, Range(shop.start, later.end()), lambda _: True)
    assert {"c2", "g"} <= {name.table for name in outcome.stopped}
    assert f"DELETE of {shop.database.name}.p at" in outcome.stopped[TableName(shop.database.name, "c2")]
    run(later, pipeline, ["p2", "c2", "g"])


def test_what_was_not_derived_is_told_of_a_table_under_its_next_name(shop: Shop, tasks_here: None) -> None:
    shop.execute(
        "CREATE TABLE days (day DATE PRIMARY KEY)",
        "CREATE TABLE d (id INT PRIMARY KEY, day DATE, FOREIGN KEY (day) REFERENCES days (day) ON DELETE CASCADE)",
        "INSERT INTO days VALUES ('2026-01-01')",
        "INSERT INTO d VALUES (1, '2026-01-01')",
        "DELETE FROM days",
        "RENAME TABLE d TO e",
    )
    pipeline = shop.pipeline()
    shop.run(pipeline)
    (cascade,) = cascades(pipeline, lake_of(pipeline), SOURCE)
    assert cascade.table.table == "e"
    assert "dates and times are not compared" in (cascade.refusal or "")


def test_a_child_that_waits_for_a_stopped_one_is_not_compared_and_not_mended(shop: Shop) -> None:
    """It is behind the log: what the log tells later is no difference."""
    key = "FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE"
    shop.execute("CREATE TABLE p (id INT PRIMARY KEY)", "INSERT INTO p VALUES (1), (2), (3)")
    for child in ("a", "b"):
        shop.execute(f"CREATE TABLE {child} (id INT PRIMARY KEY, up INT, {key})", f"INSERT INTO {child} VALUES (1, 1)")
    pipeline = shop.pipeline(live=True, on_cascade="apply")
    shop.run(pipeline)
    shop.database.execute(f"GRANT LOCK TABLES ON {shop.database.name}.* TO repl")
    shop.execute("ALTER TABLE a MODIFY id VARCHAR(20)", "INSERT INTO a VALUES ('x', 3)")
    shop.execute("RENAME TABLE b TO b2", "INSERT INTO b2 VALUES (3, 3)", "DELETE FROM p WHERE id = 1")
    states = {verdict.table.table: verdict for verdict in verify_source(shop.spark, pipeline, SOURCE)}
    assert (states["p"].state, states["a"].state, states["b2"].state) == (EQUAL, NOT_COMPARED, NOT_COMPARED)
    text = "it waits at .* for a table that foreign keys join it with, which has stopped"
    assert re.search(text, states["b2"].reason or "")
    names = [f"{shop.database.name}.b2"]
    mended = mend_source(shop.spark, pipeline, SOURCE, tables=names, keys=["3"], is_applied=True)
    (table,) = mended.tables
    assert table.state == STOPPED
    assert re.search(text, table.reason or "")
