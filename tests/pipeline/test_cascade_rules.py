"""Child rows with ``on_cascade: apply`` where the child is no mirror by itself: modes, routes, keys, and deliveries."""

import json
from typing import Any

import pytest

from spark_jobs.changes.bronze_feed import changes_of_bronze
from spark_jobs.changes.lines import Output, wanted_tables
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.cascades.unlogged_changes import cascades
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.lakes.delivered import Copy
from tests.lakes.lake_tables import table_rows
from tests.pipeline.test_cascades_applied import TABLES, fill

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

RULES = "REFERENCES p (id) ON DELETE SET NULL ON UPDATE CASCADE"


def lake_rows(shop: Shop, pipeline: Pipeline, table: str, *names: str) -> list[tuple[Any, ...]]:
    rows = table_rows(lake_of(pipeline).downstream(shop.database.name, table))
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


def run(shop: Shop, pipeline: Pipeline) -> None:
    _, outcome = shop.run(pipeline)
    assert not outcome.stopped


def test_modes_tell_what_foreign_keys_did(shop: Shop, tasks_here: None) -> None:
    shop.execute(*TABLES)
    fill(shop)
    name = shop.database.name
    modes = {"c": "soft_delete", "c_log": "append", "g": "history"}
    pipeline = shop.pipeline(
        on_cascade="apply",
        routes=[{"from": f"{name}.c", "to": [f"{name}.c_log", f"{name}.c"]}],
        downstream=[{"tables": f"{name}.{table}", "mode": mode} for table, mode in modes.items()],
    )
    assert cascades(pipeline, lake_of(pipeline), SOURCE) == []
    run(shop, pipeline)
    # A child that is deleted twice, so that its old rows are among those that are read.
    shop.execute("DELETE FROM p WHERE id = 1", "UPDATE p SET id = 20 WHERE id = 2")
    run(shop, pipeline)
    shop.execute("INSERT INTO p VALUES (1, 0)", "INSERT INTO c VALUES (1, 1, 5)", "UPDATE g SET cid = 1 WHERE id = 1")
    run(shop, pipeline)
    shop.execute("DELETE FROM p WHERE id IN (1, 20)")
    run(shop, pipeline)
    assert lake_rows(shop, pipeline, "c", "id", "pid", "v", "_deleted") == [
        (1, 1, 5, True), (2, 20, 0, True), (3, 3, 0, False), (4, 4, 0, False), (5, 4, 0, False)
    ]  # fmt: skip
    assert lake_rows(shop, pipeline, "c_log", "id", "pid", "_op")[:6] == [
        (1, 1, "cascade_delete"), (1, 1, "cascade_delete"), (1, 1, "insert"), (1, 1, "insert"),
        (2, 2, "insert"), (2, 20, "cascade_delete"),
    ]  # fmt: skip
    # Each has the GTID of its parent's transaction: the INSERTs of the children had others.
    gtids = lake_rows(shop, pipeline, "c_log", "_op", "_gtid")
    of_cascades = [gtid for op, gtid in gtids if op == "cascade_delete"]
    assert None not in of_cascades
    assert len({*of_cascades}) == 2
    assert not {*of_cascades} & {gtid for op, gtid in gtids if op == "insert"}
    versions = lake_rows(shop, pipeline, "g", "id", "cid", "_op", "_is_current")
    assert [version for version in versions if version[0] == 1] == [
        (1, 1, "insert", False), (1, 1, "update", False), (1, None, "cascade_update", False),
        (1, None, "cascade_update", True),
    ]  # fmt: skip
    assert [version[:2] for version in versions if version[3]] == shop.truth("g")
    assert shop.truth("c") == [(3, 3, 0), (4, 4, 0), (5, 4, 0)]


@pytest.mark.thorough
def test_children_without_a_key_of_several_tables_in_one_and_by_xa_transactions(shop: Shop, tasks_here: None) -> None:
    name = shop.database.name
    shop.execute(
        "CREATE TABLE p (id INT PRIMARY KEY, note INT)",
        f"CREATE TABLE k (pid INT, v INT, KEY (pid), FOREIGN KEY (pid) {RULES})",
        *(f"CREATE TABLE s_{n} (id INT PRIMARY KEY, pid INT, v INT, FOREIGN KEY (pid) {RULES})" for n in (1, 2)),
        "INSERT INTO p VALUES (1, 0), (2, 0), (3, 0), (4, 0)",
        "INSERT INTO k VALUES (1, 7), (1, 7), (1, 8), (2, 7), (3, 7), (NULL, 7)",
        *(f"INSERT INTO s_{n} VALUES (1, 1, {n}), (2, 2, {n}), (3, 3, {n})" for n in (1, 2)),
    )
    pipeline = shop.pipeline(
        on_cascade="apply",
        routes=[{"from": f"{name}.s_*", "to": f"{name}.s"}],
        columns={"more": {"tables": [f"{name}.s_*"], "computed": {"w": {"sql": "v + 10", "type": "DECIMAL(11,0)"}}}},
    )

    def require_servers() -> None:
        run(shop, pipeline)
        require_same(shop, pipeline, "k")
        shards = [(f"s_{n}", *row, row[2] + 10) for n in (1, 2) for row in shop.truth(f"s_{n}")]
        assert lake_rows(shop, pipeline, "s", "_table", "id", "pid", "v", "w") == sorted(shards, key=repr)

    require_servers()
    # By rows that are in the lake, and others of the same transaction.
    shop.execute(
        "BEGIN", "DELETE FROM k WHERE v = 7 LIMIT 1", "INSERT INTO k VALUES (1, 8)",
        "UPDATE p SET id = 10 WHERE id = 1", "COMMIT", "DELETE FROM p WHERE id = 2",
    )  # fmt: skip
    require_servers()
    # What is prepared has its effect where it is committed.
    shop.execute(
        "XA START 'x'", "UPDATE s_1 SET pid = 4 WHERE id = 2", "DELETE FROM p WHERE id = 10",
        "UPDATE s_2 SET v = 9 WHERE id = 1", "UPDATE p SET id = 40 WHERE id = 4", "DELETE FROM s_1 WHERE id = 1",
        "XA END 'x'", "XA PREPARE 'x'",
    )  # fmt: skip
    run(shop, pipeline)
    assert (1, 10, 1) in [row[1:4] for row in lake_rows(shop, pipeline, "s", "_table", "id", "pid", "v")]
    shop.execute("XA COMMIT 'x'")
    require_servers()
    assert (2, 40, 1) in shop.truth("s_1")


def test_deliveries_in_order_have_them_once_and_in_their_parent_s_transaction(copy: Copy, tasks_here: None) -> None:
    shop = copy.shop
    shop.execute(*TABLES)
    fill(shop)
    pipeline = copy.pipeline(apply="ordered", on_cascade="apply")
    copy.run(pipeline)
    copy.require_same("p", "c", "g")
    # The target has the keys as well, and notes each change of its rows with the transaction.
    target = copy.schema
    noted = "INSERT INTO {target}.noted (tx, what) SELECT trx_id, '{what}' FROM information_schema.innodb_trx WHERE "
    noted += "trx_mysql_thread_id = CONNECTION_ID()"
    copy.execute(
        f"USE {target}",
        "CREATE TABLE noted (n INT AUTO_INCREMENT PRIMARY KEY, tx BIGINT, what VARCHAR(20))",
        "ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE",
        "ALTER TABLE g ADD CONSTRAINT h FOREIGN KEY (cid) REFERENCES c (id) ON DELETE SET NULL ON UPDATE CASCADE",
        *(
            f"CREATE TRIGGER {verb}_{table} AFTER {verb} ON {table} FOR EACH ROW "
            + noted.format(target=target, what=f"{verb} {table}")
            for verb in ("UPDATE", "DELETE")
            for table in ("p", "c", "g")
        ),
    )
    shop.execute(
        "BEGIN", "DELETE FROM p WHERE id = 1", "INSERT INTO c VALUES (1, 3, 9)", "COMMIT",
        "DELETE FROM p WHERE id = 4", "UPDATE p SET note = 1",
    )  # fmt: skip
    outcome = copy.run(pipeline)
    assert not outcome.stopped
    copy.require_same("p", "c", "g")
    by_transaction: dict[int, list[str]] = {}
    for number, text in copy.execute(f"SELECT tx, what FROM {target}.noted ORDER BY n"):
        by_transaction.setdefault(number, []).append(text)
    texts = [text for part in by_transaction.values() for text in part]
    assert {text: texts.count(text) for text in sorted(set(texts))} == {
        "DELETE c": 3, "DELETE p": 2, "UPDATE g": 3, "UPDATE p": 2
    }  # fmt: skip
    # All of a parent's transaction is of one at the target.
    assert all(("DELETE p" in part) == ("DELETE c" in part) == ("UPDATE g" in part) for part in by_transaction.values())


def test_changes_show_them_where_they_are_asked_for(shop: Shop, tasks_here: None) -> None:
    shop.execute(*TABLES)
    fill(shop)
    pipeline = shop.pipeline(on_cascade="apply")
    shop.execute("BEGIN", "DELETE FROM p WHERE id = 4", "UPDATE c SET v = 1 WHERE id = 3", "COMMIT")
    run(shop, pipeline)

    def listed(*tables: str, cascades: bool = True) -> list[tuple[str, str, object]]:
        output = Output.of("stratalog", cascades=cascades)
        is_wanted = wanted_tables([f"{shop.database.name}.{table}" for table in tables])
        text = "".join(changes_of_bronze(lake_of(pipeline), SOURCE, None, None, is_wanted=is_wanted, output=output))
        lines = [json.loads(line) for line in text.splitlines()]
        gtids = {line["gtid"] for line in lines if line["op"] != "insert"}
        assert len(gtids) == 1, "one transaction"
        assert None not in gtids
        return [(line["table"], line["op"], line.get("derived")) for line in lines if line["op"] != "insert"]

    derived = [("c", "delete", True), ("g", "update", True)] * 2
    assert listed() == [("p", "delete", None), *derived, ("c", "update", None)]
    assert listed("g") == [("g", "update", True)] * 2
    assert listed(cascades=False) == [("p", "delete", None), ("c", "update", None)]
