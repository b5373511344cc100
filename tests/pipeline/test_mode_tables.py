"""Tables of every kind with every mode: no key, rules, targets of one table, loads, renames, XA, what is missing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row

from spark_jobs.binlog import TableName
from spark_jobs.checks.integrity import repeated_keys
from spark_jobs.checks.verify.tables import verify_source
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.operations.observation.status import status
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.pipeline.backfill.request import DOWNSTREAM, BackfillOptions
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.initial_load.load import load_source
from spark_jobs.pipeline.run import compact_source, extract_source, publish
from tests.fix_pipeline import SOURCE, Shop
from tests.lakes.lake_tables import source_cells, table_rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

MODES = ("soft_delete", "append", "history")


def into_each(shop: Shop, *tables: str, **keys: Any) -> Pipeline:
    """Each table in its own name, and in one of every mode."""
    name = shop.database.name
    routes = [
        {"from": f"{name}.{table}", "to": [f"{name}.{table}", *(f"{mode}.{table}" for mode in MODES)]}
        for table in tables
    ]
    modes = [{"tables": [f"{mode}.*"], "mode": mode} for mode in MODES]
    return shop.pipeline(routes=routes, downstream=modes, **keys)


def rows_of(pipeline: Pipeline, mode: str, table: str) -> list[Row]:
    """Rows in the order of the log."""
    return sorted(table_rows(lake_of(pipeline).downstream(mode, table)), key=lambda row: (row["_position"], row["_op"]))


def ops(pipeline: Pipeline, mode: str, table: str) -> list[tuple[Any, ...]]:
    """Operation and source's columns, in order."""
    return [(row["_op"], *source_cells(row)) for row in rows_of(pipeline, mode, table)]


def current(pipeline: Pipeline, table: str) -> list[tuple[Any, ...]]:
    return sorted(source_cells(row) for row in rows_of(pipeline, "history", table) if row["_is_current"])


def run(shop: Shop, pipeline: Pipeline) -> dict[str, str]:
    _, outcome = shop.run(pipeline)
    return {f"{name.table} {into[0]}": reason for (name, into), reason in outcome.stopped_into.items()}


def test_one_table_has_every_mode_beside_its_mirror_and_says_so(shop: Shop) -> None:
    pipeline = into_each(shop, "t", live=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    shop.execute("UPDATE t SET v = 9 WHERE id = 1", "UPDATE t SET id = 5 WHERE id = 2", "DELETE FROM t WHERE id = 3")
    assert run(shop, pipeline) == {}
    assert shop.merged(pipeline, "t") == [(1, 9), (5, 2)]
    inserts = [("insert", 1, 1), ("insert", 2, 2), ("insert", 3, 3)]
    assert ops(pipeline, "append", "t") == [*inserts, ("update", 1, 9), ("update", 5, 2), ("delete", 3, 3)]
    moved = [("delete", 2, 2), ("update", 5, 2)]
    assert ops(pipeline, "history", "t") == [*inserts, ("update", 1, 9), *moved, ("delete", 3, 3)]
    assert current(pipeline, "t") == [(1, 9), (5, 2)]
    soft = table_rows(lake_of(pipeline).downstream("soft_delete", "t"))
    rows = {(row["id"], row["v"], row["_deleted"]) for row in soft}
    assert rows == {(1, 9, False), (2, 2, True), (3, 3, True), (5, 2, False)}

    # What says so: published, status, checks, the comparison with the server.
    (entry,) = publication.read(lake_of(pipeline), SOURCE)
    assert entry.modes == ("mirror", *MODES)
    (table,) = status(pipeline, lake_of(pipeline), SOURCE).tables
    assert [target["mode"] for target in table.targets or ()] == ["mirror", *MODES]
    origin = TableName(shop.database.name, "t")
    targets = [(origin, (mode, "t")) for mode in MODES]
    assert repeated_keys(shop.spark, pipeline, SOURCE, targets) == dict.fromkeys(
        [(origin, ("soft_delete", "t")), (origin, ("history", "t"))], 0
    )
    verdicts = {verdict.into: verdict for verdict in verify_source(shop.spark, pipeline, SOURCE)}
    states = {str(into).split(".")[0]: verdict.state for into, verdict in verdicts.items()}
    assert states == {
        shop.database.name: "equal",
        "soft_delete": "equal",
        "append": "not compared",
        "history": "equal",
    }
    assert "mode: append" in str(verdicts["append.t"].reason)


@pytest.mark.long
def test_a_table_without_a_key_keeps_its_rows_and_has_versions_of_them(shop: Shop) -> None:
    pipeline = into_each(shop, "bag")
    shop.execute("CREATE TABLE bag (v INT, s VARCHAR(4))", "INSERT INTO bag VALUES (1, 'a'), (1, 'a'), (NULL, 'b')")
    assert run(shop, pipeline) == {}
    shop.execute("DELETE FROM bag WHERE v = 1 LIMIT 1", "UPDATE bag SET s = 'c' WHERE v IS NULL")
    assert run(shop, pipeline) == {}
    soft = table_rows(lake_of(pipeline).downstream("soft_delete", "bag"))
    texts = sorted(repr((row["v"], row["s"], row["_deleted"])) for row in soft)
    assert texts == ["(1, 'a', False)", "(None, 'b', True)", "(None, 'c', False)"]
    rows = [source_cells(row) for row in rows_of(pipeline, "history", "bag") if row["_is_current"]]
    assert sorted(map(repr, rows)) == ["(1, 'a')", "(None, 'c')"]
    assert [op for op, *_ in ops(pipeline, "append", "bag")] == ["insert"] * 3 + ["delete", "update"]
    assert [op for op, *_ in ops(pipeline, "history", "bag")] == ["insert"] * 3 + ["delete", "delete", "update"]


@pytest.mark.thorough
def test_rules_hold_for_every_change(shop: Shop) -> None:
    name = shop.database.name
    pipeline = into_each(
        shop,
        "t",
        row_filters={"odd": {"tables": [f"{name}.t"], "update-new-value-expr": "v = 7"}},
        columns={"hide": {"tables": [f"{name}.t"], "exclude": ["secret"], "mask": {"note": {"truncate": 1}}}},
    )
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT, secret INT, note VARCHAR(9))")
    shop.execute("INSERT INTO t VALUES (1, 1, 42, 'abc')", "UPDATE t SET v = 7", "UPDATE t SET v = 8, note = 'xyz'")
    assert run(shop, pipeline) == {}
    for mode in ("append", "history"):
        assert ops(pipeline, mode, "t") == [("insert", 1, 1, "a"), ("update", 1, 8, "x")]
    gtids = [row["_gtid"] for row in rows_of(pipeline, "append", "t")]
    assert len({*gtids}) == len(gtids)


@pytest.mark.long
def test_loaded_and_inherited_rows_are_versions(shop: Shop) -> None:
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    start = shop.end()
    shop.execute("UPDATE t SET v = 3 WHERE id = 2")
    pipeline = into_each(shop, "t", "other", live=True)
    pipeline = pipeline.model_copy(
        update={"sources": {SOURCE: pipeline.sources[SOURCE].model_copy(update={"start": str(start)})}}
    )
    assert run(shop, pipeline) == {}
    load_source(shop.spark, pipeline, SOURCE)
    assert run(shop, pipeline) == {}
    assert current(pipeline, "t") == shop.truth("t")
    loaded = [row for row in rows_of(pipeline, "history", "t") if row["_op"] == "load"]
    assert len(loaded) == 2
    assert all(row["_valid_from"] for row in loaded)
    assert [op for op, *_ in ops(pipeline, "append", "t")].count("load") == 2
    shop.execute("RENAME TABLE t TO other", "UPDATE other SET v = 5 WHERE id = 1")
    assert run(shop, pipeline) == {}
    assert current(pipeline, "other") == shop.truth("other")
    shop.execute("ALTER TABLE other DROP PRIMARY KEY, ADD PRIMARY KEY (v)", "DELETE FROM other WHERE v = 5")
    assert run(shop, pipeline) == {}
    assert current(pipeline, "other") == shop.truth("other")
    soft = table_rows(lake_of(pipeline).downstream("soft_delete", "other"))
    assert sorted((row["id"], row["v"]) for row in soft if not row["_deleted"]) == shop.truth("other")


@pytest.mark.thorough
def test_an_xa_transaction_is_where_it_is_committed(shop: Shop) -> None:
    pipeline = into_each(shop, "t")
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    shop.execute("XA START 'x'", "UPDATE t SET v = 2", "UPDATE t SET id = 7", "XA END 'x'", "XA PREPARE 'x'")
    assert run(shop, pipeline) == {}
    assert current(pipeline, "t") == [(1, 1)]
    shop.execute("XA COMMIT 'x'")
    assert run(shop, pipeline) == {}
    assert current(pipeline, "t") == [(7, 2)]
    assert [op for op, *_ in ops(pipeline, "append", "t")] == ["insert", "update", "update"]


def later() -> datetime:
    return datetime.now(UTC) + timedelta(days=9)


def test_a_mode_that_needs_log_which_is_gone_leaves_the_table_as_it_is(shop: Shop) -> None:
    retention = {"bronze": "1d"}
    history = [{"tables": f"{shop.database.name}.*", "mode": "history"}]
    mirrors = shop.pipeline(retention=retention)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS")
    shop.execute("INSERT INTO t VALUES (2)")
    assert run(shop, mirrors) == {}
    assert gc_source(shop.spark, mirrors, SOURCE, now=later()).files
    (reason,) = run(shop, shop.pipeline(retention=retention, downstream=history)).values()
    assert "a table with mode: history is made of every change since" in reason
    assert f"stratalog extract --source {SOURCE} --archive DIR" in reason
    table = lake_of(mirrors).downstream(shop.database.name, "t")
    assert "_valid_from" not in table.columns()
    assert shop.merged(mirrors, "t") == [(1,), (2,)]
    shop.execute("INSERT INTO t VALUES (3)")
    assert run(shop, shop.pipeline(retention=retention)) == {}
    assert shop.merged(mirrors, "t") == [(1,), (2,), (3,)]


@pytest.mark.thorough
def test_gc_waits_for_a_table_that_is_made_of_every_change(shop: Shop) -> None:
    history = [{"tables": f"{shop.database.name}.*", "mode": "history"}]
    pipeline = shop.pipeline(retention={"bronze": "1d"}, downstream=history)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    assert run(shop, pipeline) == {}
    shop.execute("UPDATE t SET id = 2", "FLUSH BINARY LOGS", "UPDATE t SET id = 3")
    extract_source(shop.spark, pipeline, SOURCE)
    publish(pipeline, SOURCE, compact_source(shop.spark, pipeline, SOURCE))
    waiting = gc_source(shop.spark, pipeline, SOURCE, now=later()).kept_for
    assert "mode: history" in str(waiting)
    assert run(shop, pipeline) == {}
    assert gc_source(shop.spark, pipeline, SOURCE, now=later()).kept_for is None
    rows = rows_of(pipeline, shop.database.name, "t")
    versions = [(row["_op"], row["id"], row["_is_current"]) for row in rows]
    assert versions == [
        ("insert", 1, False),
        ("delete", 1, False),
        ("update", 2, False),
        ("delete", 2, False),
        ("update", 3, True),
    ]


@pytest.mark.thorough
def test_exact_texts_have_the_names_and_defaults_that_statements_give_them(shop: Shop) -> None:
    """Of rows that are there, of rows in the same merge, and of rows that a replay brings again."""
    name = shop.database.name
    routes = [{"from": f"{name}.t", "to": ["append.t", "history.t"]}]
    modes = [{"tables": f"{mode}.*", "mode": mode} for mode in ("append", "history")]
    pipeline = shop.pipeline(routes=routes, downstream=modes)
    shop.execute(
        "SET SESSION sql_mode = ''",
        "CREATE TABLE t (id INT PRIMARY KEY, a DATE, b DATE)",
        "INSERT INTO t VALUES (1, '0000-00-00', '2024-02-00')",
    )
    start = shop.start
    assert run(shop, pipeline) == {}
    shop.execute(
        "INSERT INTO t VALUES (2, NULL, '2023-00-00')",
        "ALTER TABLE t DROP a, CHANGE b c DATE",
        "ALTER TABLE t ADD e DATE DEFAULT '0000-00-00'",
        "INSERT INTO t VALUES (3, '2023-01-01', NULL)",
    )
    assert run(shop, pipeline) == {}
    zero = {"e": "0000-00-00"}
    expected = [(1, {"c": "2024-02-00"} | zero), (2, {"c": "2023-00-00"} | zero), (3, None)]
    for repeats in (False, True):
        if repeats:
            options = BackfillOptions(layers=(DOWNSTREAM,))
            backfill_source(shop.spark, pipeline, SOURCE, Range(start, shop.end()), lambda _: True, options=options)
        for mode in ("append", "history"):
            rows = rows_of(pipeline, mode, "t")
            assert [(row["id"], row["_raw"]) for row in rows] == expected
            assert "e" in rows[0].asDict()
