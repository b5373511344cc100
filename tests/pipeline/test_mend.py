"""Whole mends: changes that a real server did not log, and the rows of every mode after a mend."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.checks.verify import verify_source
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.errors import ConfigError
from spark_jobs.lake.commit import CommitKind
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.mending import mend_source as mending
from spark_jobs.mending import mend_table
from spark_jobs.mending.mend_source import MendedTable, mend_source
from spark_jobs.operations.observation.alarms import alarms
from spark_jobs.operations.observation.status import status
from spark_jobs.operations.observation.verified import read as read_verified
from spark_jobs.operations.repair import plan_reset
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline.backfill.request import BackfillRequest
from spark_jobs.pipeline.backfill.run import backfill
from spark_jobs.pipeline.cascades import step
from spark_jobs.pipeline.cascades.unlogged_changes import cascades
from spark_jobs.pipeline.initial_load import landing, load
from spark_jobs.pipeline.initial_load.landing import LandedTable
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import compact_source, extract_source
from spark_jobs.silver.commit import SilverCommit
from tests.fix_mysql import database_of
from tests.fix_pipeline import SOURCE, Shop, killed_at, require_same
from tests.fix_servers import Servers
from tests.lakes.lake_tables import table_rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

MYSQL, MARIADB = "mysql-8.0", "mariadb-11.4"
on_both = pytest.mark.parametrize("shop", [MYSQL, pytest.param(MARIADB, marks=pytest.mark.long)], indirect=True)

LINES = (
    "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))",
    """CREATE TABLE order_lines (order_id INT, line INT, note VARCHAR(20), amount DECIMAL(10,2),
    PRIMARY KEY (order_id, line),
    CONSTRAINT fk_order FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE)""",
    "INSERT INTO orders VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    "INSERT INTO order_lines VALUES (1, 1, 'a', 1.5), (1, 2, 'b', 2.5), (2, 1, 'c', 3.5), (3, 1, 'd', NULL)",
)
"""A parent and a child that the server changes unlogged."""


class Killed(BaseException):
    """Ends a mend where nothing is prepared for it."""

    @staticmethod
    def die(*_: Any) -> None:
        raise Killed


@pytest.fixture
def shop(request: pytest.FixtureRequest, servers: Servers, spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    """A fresh schema in a server of either kind, and a pipeline whose source begins at the log's end."""
    server = getattr(request, "param", MYSQL)
    with database_of(servers.get(server)) as database:
        if server == MYSQL:  # it names no position of a snapshot, so that the table is locked while it is opened
            database.execute(f"GRANT LOCK TABLES ON {database.name}.* TO repl")
        yield Shop(spark, database, tmp_path, Shop.end(Shop(spark, database, tmp_path, Position("", 0))))


def unlogged(shop: Shop, *statements: str) -> None:
    """Statements that the server does not log."""
    shop.execute("SET sql_log_bin = 0", *statements, "SET sql_log_bin = 1")


def mended(
    shop: Shop, pipeline: Pipeline, *tables: str, is_applied: bool = True, **options: Any
) -> dict[str, MendedTable]:
    """What a mend did, by table."""
    names = [f"{shop.database.name}.{table}" for table in tables]
    result = mend_source(shop.spark, pipeline, SOURCE, tables=names, is_applied=is_applied, **options)
    return {table.table.table: table for table in result.tables}


def state(shop: Shop, pipeline: Pipeline, table: str) -> str:
    """What a comparison says of a table."""
    (verdict,) = verify_source(shop.spark, pipeline, SOURCE, lambda name: name.table == table)
    return verdict.state


def counts(table: MendedTable) -> tuple[int, int, int]:
    return table.counts.inserted, table.counts.updated, table.counts.deleted


@on_both
def test_rows_that_a_cascade_deleted_are_mended_by_their_keys(shop: Shop) -> None:
    pipeline = shop.pipeline(live=True, on_cascade="warn")
    shop.execute(*LINES)
    shop.run(pipeline)
    shop.execute("DELETE FROM orders WHERE id = 1")
    unlogged(
        shop,
        "INSERT INTO order_lines VALUES (2, 2, 'unlogged', 9)",
        "UPDATE order_lines SET note = 'é', amount = 4 WHERE order_id = 2 AND line = 1",
    )
    lake = lake_of(pipeline)
    # Without consent the lake is brought up to the log, and no row is mended.
    planned = mended(shop, pipeline, is_applied=False)["order_lines"]
    versions = lake.downstream(shop.database.name, "order_lines").head()
    assert (planned.reason, planned.state, counts(planned)) == (None, "mended", (1, 1, 2))
    assert sorted(planned.lines()) == [
        f"{shop.database.name}.order_lines {text}"
        for text in (
            "different order_id=2, line=1",
            "extra order_id=1, line=1",
            "extra order_id=1, line=2",
            "missing order_id=2, line=2",
        )
    ]
    assert len(shop.merged(pipeline, "order_lines")) == 4
    # What is known of the table is told until it is mended, and verified again.
    name = f"{shop.database.name}.order_lines"
    assert read_verified(lake, SOURCE)[name].differing == 4
    assert [alarm.kind for alarm in alarms(pipeline, status(pipeline, lake, SOURCE))] == ["differs"]

    result = mended(shop, pipeline)
    assert [*result] == ["order_lines"]
    assert counts(result["order_lines"]) == (1, 1, 2)
    assert require_same(shop, pipeline, "order_lines") == 3
    assert read_verified(lake, SOURCE)[name].state == "mended"
    assert state(shop, pipeline, "order_lines") == "equal"
    assert read_verified(lake, SOURCE)[name].state == "equal"
    assert alarms(pipeline, status(pipeline, lake, SOURCE)) == []
    # One commit of silver says what it was, one of downstream has its rows, and none of either is written again.
    head = lake.silver(SOURCE, shop.database.name, "order_lines").head()
    commit = SilverCommit.of_head(head)
    assert commit
    assert commit.kind == CommitKind.MEND
    assert commit.mended
    assert (commit.mended.inserted, commit.mended.updated, commit.mended.deleted) == (1, 1, 2)
    assert commit.mended.at == result["order_lines"].at
    target = lake.downstream(shop.database.name, "order_lines").head()
    assert target
    assert versions
    assert target.version == versions.version + 1
    merged = DownstreamCommit.of_head(target)
    assert merged
    assert head
    assert merged.silver_version == head.version
    # A second one finds nothing.
    assert mended(shop, pipeline) == {}
    assert mended(shop, pipeline, "order_lines")["order_lines"].state == "equal"


@pytest.mark.parametrize("then", [CommitKind.MAINTENANCE, CommitKind.LIVE])
def test_foreign_keys_change_mended_rows_that_were_not_merged_when_silver_went_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, then: CommitKind
) -> None:
    """The mirror has the rows before what their parent's DELETE does to them is derived from it."""
    pipeline = shop.pipeline(live=True, on_cascade="apply")
    shop.execute(*LINES)
    shop.run(pipeline)
    unlogged(shop, "INSERT INTO order_lines VALUES (1, 3, 'unlogged', 9)")
    with monkeypatch.context() as patched:
        patched.setattr(mending._Mending, "merged", Killed.die)
        with pytest.raises(Killed):
            mended(shop, pipeline, "order_lines")
    if then == CommitKind.MAINTENANCE:
        maintain_source(shop.spark, pipeline, SOURCE)
    else:
        shop.execute("UPDATE order_lines SET note = 'z' WHERE order_id = 3")
        extract_source(shop.spark, pipeline, SOURCE)
        compact_source(shop.spark, pipeline, SOURCE)
    silver = lake_of(pipeline).silver(SOURCE, shop.database.name, "order_lines")
    kinds = [checkpoint.kind for _, checkpoint in silver.since(-1)]
    assert kinds[:2] == [then, CommitKind.MEND]
    shop.execute("DELETE FROM orders WHERE id = 1")
    assert shop.run(pipeline)[1].stopped == {}
    assert require_same(shop, pipeline, "order_lines") == 2


@pytest.mark.parametrize("passes", [mend_table._PASSES, pytest.param(1, marks=pytest.mark.long)])
def test_foreign_keys_changed_rows_that_were_read_and_not_in_silver_yet(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, passes: int
) -> None:
    """A run derives what a DELETE does to child rows while a mend has read one and not written it."""
    pipeline = shop.pipeline(live=True, on_cascade="apply")
    shop.execute(*LINES)
    shop.run(pipeline)
    unlogged(
        shop,
        "INSERT INTO order_lines VALUES (1, 3, 'unlogged', 9)",
        "UPDATE order_lines SET note = 'changed' WHERE order_id = 3",
    )
    catch_up = mending._Mending.catch_up

    def caught_up(work: mending._Mending, position: Position | None) -> Outcome:
        outcome = catch_up(work, position)
        # The first time after rows were read.
        if position and shop.database.execute("SELECT 1 FROM orders WHERE id = 1"):
            shop.execute("DELETE FROM orders WHERE id = 1")
            shop.run(pipeline)
        return outcome

    monkeypatch.setattr(mending._Mending, "catch_up", caught_up)
    monkeypatch.setattr(mend_table, "_PASSES", passes)
    result = mended(shop, pipeline, "order_lines")["order_lines"]
    if passes == 1:
        assert result.reason
        assert "foreign keys change its rows each time that they are mended; mend it again" in result.reason
        monkeypatch.undo()
        mended(shop, pipeline, "order_lines")
        assert require_same(shop, pipeline, "order_lines") == 2
        return
    assert result.reason is None
    assert counts(result) == (1, 1, 1)  # inserted as of before the DELETE, and deleted as of after it
    assert require_same(shop, pipeline, "order_lines") == 2


def test_what_was_derived_without_mended_rows_is_derived_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mend commits right before a run that has looked at silver commits what it derived."""
    pipeline = shop.pipeline(live=True, on_cascade="apply")
    shop.execute(*LINES)
    shop.run(pipeline)
    unlogged(shop, "INSERT INTO order_lines VALUES (1, 3, 'unlogged', 9)")
    catch_up, require_still_merged = mending._Mending.catch_up, step._require_still_merged
    is_read, has_looked = Event(), Event()

    def caught_up(work: mending._Mending, position: Position | None) -> Outcome:
        outcome = catch_up(work, position)
        if position and not is_read.is_set():
            shop.execute("DELETE FROM orders WHERE id = 1")
            is_read.set()
            assert has_looked.wait(60)
        return outcome

    def looked(*arguments: Any) -> None:
        require_still_merged(*arguments)
        if is_read.is_set() and not has_looked.is_set():
            has_looked.set()
            with pytest.raises(Killed):
                mend.result(60)

    monkeypatch.setattr(mending._Mending, "catch_up", caught_up)
    monkeypatch.setattr(mending._Mending, "merged", Killed.die)
    monkeypatch.setattr(step, "_require_still_merged", looked)
    with ThreadPoolExecutor(1) as pool:
        mend = pool.submit(mended, shop, pipeline, "order_lines")
        assert is_read.wait(60)
        shop.run(pipeline)
    assert has_looked.is_set()
    assert require_same(shop, pipeline, "order_lines") == 2


@pytest.mark.long
def test_an_event_after_the_snapshot_wins_and_a_second_mend_at_one_position_is_newer(shop: Shop) -> None:
    pipeline = shop.pipeline(live=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
    shop.run(pipeline)
    unlogged(shop, "UPDATE t SET v = 10 * v", "DELETE FROM t WHERE id = 4")
    first = mended(shop, pipeline, "t")["t"]
    assert counts(first) == (0, 3, 1)
    unlogged(shop, "UPDATE t SET v = 100 WHERE id = 1", "INSERT INTO t VALUES (4, 44)", "DELETE FROM t WHERE id = 2")
    second = mended(shop, pipeline, "t")["t"]
    assert counts(second) == (1, 1, 1)
    assert second.at == first.at  # the log has not grown
    assert require_same(shop, pipeline, "t") == 3
    # The log from there on is newer than both.
    shop.execute("UPDATE t SET v = v + 1 WHERE id = 1", "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (2, 22)")
    shop.run(pipeline)
    assert require_same(shop, pipeline, "t") == 3
    # Log from before, decoded again, does not bring back what was wrong; nor does a rebuild of downstream.
    lake = lake_of(pipeline)
    request = BackfillRequest(SOURCE, str(shop.start), str(shop.end()))
    assert not backfill(shop.spark, pipeline, request).stopped
    assert require_same(shop, pipeline, "t") == 3
    shutil.rmtree(lake.downstream(shop.database.name, "t").path)
    shop.run(pipeline)
    assert require_same(shop, pipeline, "t") == 3
    # Bronze does not have the mended rows: a rebuild says so.
    with pytest.raises(ConfigError, match="7 of its rows in silver were mended, and bronze does not have them"):
        plan_reset(pipeline, SOURCE, f"{shop.database.name}.t")
    planned = plan_reset(pipeline, SOURCE, f"{shop.database.name}.t", drops_older=True)
    assert "were mended" in str(planned.lost_rows)


def test_keys_that_are_given_are_mended_and_masked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "pepper")
    masks = {
        "hidden": {"tables": ["*.people"], "exclude": ["age"], "mask": {"email": {"hash": "${SALT}"}}},
        "key": {"tables": ["*.secret"], "mask": {"name": {"hash": "${SALT}"}}},
    }
    filters = {"kept": {"tables": ["*.kept"], "events": ["delete"]}}
    pipeline = shop.pipeline(live=True, columns=masks, filters=filters)
    shop.execute(
        "CREATE TABLE people (id INT, name VARCHAR(20) COLLATE utf8mb4_general_ci, email VARCHAR(50), age INT, "
        "PRIMARY KEY (id, name))",
        "INSERT INTO people VALUES (1, 'a', 'alan@x', 30), (2, 'b', 'bob@x', 40), (3, 'c,d=e', 'carl@x', 50)",
        "CREATE TABLE secret LIKE people",
        "INSERT INTO secret SELECT * FROM people",
        "CREATE TABLE kept LIKE people",
        "INSERT INTO kept SELECT * FROM people",
    )
    shop.run(pipeline)
    unlogged(
        shop,
        "UPDATE people SET email = 'newest@x' WHERE id = 1",
        "DELETE FROM people WHERE id = 2",
        "UPDATE people SET age = 3 WHERE id = 3",
        "INSERT INTO people VALUES (4, 'd', 'latest@x', 20)",
    )
    refused = mended(shop, pipeline, "people")["people"]
    assert refused.state == "stopped"
    assert "name its keys" in str(refused.reason)
    keys = [f"id={at},name={name}" for at, name in ((1, "a"), (2, "b"), (3, "c,d=e"), (4, "d"), (5, "none"))]
    planned = mended(shop, pipeline, "people", keys=keys, is_applied=False)["people"]
    assert counts(planned) == (1, 1, 1)
    assert counts(mended(shop, pipeline, "people", keys=keys)["people"]) == (1, 1, 1)
    assert shop.merged(pipeline, "people") == [
        (at, name, sha256(f"pepper{email}".encode()).hexdigest())
        for at, name, email in ((1, "a", "newest@x"), (3, "c,d=e", "carl@x"), (4, "d", "latest@x"))
    ]
    silver = lake_of(pipeline).silver(SOURCE, shop.database.name, "people")
    assert "newest" not in str(table_rows(silver))
    second = mended(shop, pipeline, "people", keys=keys)["people"]
    assert (second.state, second.counts.equal) == ("equal", 5)
    with pytest.raises(ConfigError, match=r"the key of .*people has 2 columns \(id, name\)"):
        mended(shop, pipeline, "people", keys=["id=1"])
    with pytest.raises(ConfigError, match="'x' is no value of a column of type int32"):
        mended(shop, pipeline, "people", keys=["id=x,name=a"])
    # Rules that decide about changes, or hide a key, leave nothing that could be compared.
    for name, reason in (("secret", "a rule masks name of its key"), ("kept", "filters.kept decides about changes")):
        refused = mended(shop, pipeline, name, keys=["id=1,name=a"])[name]
        assert (refused.state, reason in str(refused.reason)) == ("stopped", True)


@pytest.mark.long
def test_tables_of_one_target_are_mended_each_in_its_part(shop: Shop) -> None:
    pipeline = shop.pipeline(
        live=True, routes=[{"from": f"{shop.database.name}.t_*", "to": f"{shop.database.name}.all"}]
    )
    for name in ("t_1", "t_2"):
        shop.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    shop.run(pipeline)
    unlogged(shop, "UPDATE t_1 SET v = 10 WHERE id = 1", "DELETE FROM t_2 WHERE id = 2")
    tables = mended(shop, pipeline)
    assert {name: counts(table) for name, table in tables.items()} == {"t_1": (0, 1, 0), "t_2": (0, 0, 1)}
    assert shop.merged(pipeline, "all") == sorted([*shop.truth("t_1"), *shop.truth("t_2")])


@pytest.mark.thorough
@on_both
def test_deleted_rows_stay_where_they_are_kept_and_versions_end_and_begin(shop: Shop) -> None:
    pipeline = shop.pipeline(
        live=True,
        downstream=[
            {"tables": "*.kept", "mode": "soft_delete"},
            {"tables": "*.versions", "mode": "history"},
            {"tables": "*.changes", "mode": "append"},
        ],
    )
    names = ("kept", "versions", "changes")
    for name in names:
        shop.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    shop.run(pipeline)
    for name in names:
        unlogged(shop, f"UPDATE {name} SET v = 10 WHERE id = 1", f"DELETE FROM {name} WHERE id = 2")
        unlogged(shop, f"INSERT INTO {name} VALUES (3, 30)")
    tables = mended(shop, pipeline)
    assert {name: counts(table) for name, table in tables.items()} == {"kept": (1, 1, 1), "versions": (1, 1, 1)}
    keys = ["id=1", "2", "3"]
    assert counts(mended(shop, pipeline, "changes", keys=keys)["changes"]) == (1, 1, 1)

    def cells(table: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = table_rows(lake_of(pipeline).downstream(shop.database.name, table))
        return sorted((tuple(row[name] for name in columns) for row in rows), key=repr)

    assert cells("kept", "id", "v", "_deleted") == [(1, 10, False), (2, 2, True), (3, 30, False)]
    assert all((at is not None) == is_deleted for is_deleted, at in cells("kept", "_deleted", "_deleted_at"))
    versions = [
        (1, 1, "insert", False), (1, 10, "mend", True), (2, 2, "insert", False), (2, 2, "mend_delete", False),
        (3, 30, "mend", True),
    ]  # fmt: skip
    assert cells("versions", "id", "v", "_op", "_is_current") == sorted(versions, key=repr)
    assert state(shop, pipeline, "versions") == "equal"
    changes = [(at, v, op) for at, v, op, _ in versions]
    assert cells("changes", "id", "v", "_op") == sorted(changes, key=repr)
    # The log goes on from the mended rows, and what is rebuilt has them too.
    for name in names:
        shop.execute(f"UPDATE {name} SET v = v + 1 WHERE id IN (1, 3)")
    shop.run(pipeline)
    before = {name: cells(name, "id", "v", "_position") for name in names}
    assert [row[:2] for row in before["versions"]] == sorted(
        [(1, 1), (1, 10), (1, 11), (2, 2), (2, 2), (3, 30), (3, 31)], key=repr
    )
    assert state(shop, pipeline, "versions") == state(shop, pipeline, "kept") == "equal"
    for name in names:
        shutil.rmtree(lake_of(pipeline).downstream(shop.database.name, name).path)
    shop.run(pipeline)
    assert {name: cells(name, "id", "v", "_position") for name in names} == before


@pytest.mark.thorough
@on_both
@pytest.mark.by_spark
def test_a_table_without_a_key_is_read_again_as_a_whole(shop: Shop) -> None:
    pipeline = shop.pipeline(live=True)
    shop.execute("CREATE TABLE bag (a INT, b VARCHAR(9))", "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, 'y')")
    shop.run(pipeline)
    unlogged(shop, "DELETE FROM bag WHERE a = 1 LIMIT 1", "INSERT INTO bag VALUES (3, 'z'), (4, 'z')")
    planned = mended(shop, pipeline, is_applied=False)["bag"]
    assert (planned.state, planned.rows, planned.at) == ("whole", 4, None)
    assert len(shop.merged(pipeline, "bag")) == 3
    assert mended(shop, pipeline)["bag"].state == "whole"
    assert require_same(shop, pipeline, "bag") == 4
    # As many rows, but others: only who names the table has them mended.
    unlogged(shop, "UPDATE bag SET b = 'other' WHERE a = 2")
    assert mended(shop, pipeline) == {}
    assert mended(shop, pipeline, "bag")["bag"].state == "whole"
    shop.execute("DELETE FROM bag WHERE a = 4")
    shop.run(pipeline)
    assert require_same(shop, pipeline, "bag") == 3


@pytest.mark.parametrize("is_cascade", [True, False])
def test_a_table_without_a_key_is_named_where_its_rows_changed_by_a_foreign_key_while_they_were_read_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, is_cascade: bool
) -> None:
    pipeline = shop.pipeline(live=True)
    shop.execute(
        *LINES,
        """CREATE TABLE bag (order_id INT, b VARCHAR(9),
        FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE)""",
        "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, 'y')",
    )
    shop.run(pipeline)
    # The log of a parent without children is read for them too.
    shop.execute("DELETE FROM orders WHERE id = 3")
    shop.run(pipeline)
    unlogged(shop, "INSERT INTO bag VALUES (1, 'z')")
    land = landing.land

    def landed(*arguments: Any) -> LandedTable:
        shop.execute("DELETE FROM orders WHERE id = 1" if is_cascade else "UPDATE orders SET name = 'new' WHERE id = 1")
        shop.run(pipeline)
        return land(*arguments)

    monkeypatch.setattr(load, "land", landed)
    assert mended(shop, pipeline, "bag")["bag"].state == "whole"
    named = {cascade.table.table: cascade.refusal or "" for cascade in cascades(pipeline, lake_of(pipeline), SOURCE)}
    if is_cascade:
        assert [*named] == ["bag"]
        assert "its rows were read at the same time" in named["bag"]
    else:
        assert named == {}
        assert require_same(shop, pipeline, "bag") == 4


@pytest.mark.long
@pytest.mark.parametrize("layer, moment", [("silver", "before"), ("silver", "after"), ("downstream", "before")])
def test_a_mend_that_is_killed_leaves_equal_rows_to_the_next(shop: Shop, layer: str, moment: str) -> None:
    pipeline = shop.pipeline(live=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    shop.run(pipeline)
    unlogged(shop, "UPDATE t SET v = 10 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 3)")
    os.environ["SHOP_PASSWORD"] = shop.database.server.password
    assert killed_at(shop.folder / "pipeline.yaml", layer, moment, "mend")
    # A run carries on what silver has; a mend does the rest, and neither does anything twice.
    shop.run(pipeline)
    assert shop.merged(pipeline, "t") == (
        [(1, 1), (2, 2)] if moment == "before" and layer == "silver" else shop.truth("t")
    )
    mended(shop, pipeline)
    assert require_same(shop, pipeline, "t") == 2
    assert mended(shop, pipeline, "t")["t"].state == "equal"
