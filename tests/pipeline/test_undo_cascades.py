"""What foreign keys did, in traces, and taken back on the server that did it."""

import json
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.errors import Unsupported
from spark_jobs.pipeline.run import extract_source
from spark_jobs.row_history.trace import Selection, TableTrace
from spark_jobs.row_history.trace_lines import TraceView
from spark_jobs.row_history.undo import Undo
from tests.fix_pipeline import SOURCE, Shop
from tests.pipeline.test_undo import executed, keys_of, predicted
from tests.soaks.cascade_campaign import run
from tests.soaks.cascading import RandomTables

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY, code INT UNIQUE)",
    (
        "CREATE TABLE c (id INT PRIMARY KEY, up INT, code INT, v INT, "
        "FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE, "
        "FOREIGN KEY (code) REFERENCES p (code) ON DELETE SET NULL ON UPDATE SET NULL)"
    ),
    (
        "CREATE TABLE g (id INT PRIMARY KEY, up INT, "
        "FOREIGN KEY (up) REFERENCES c (id) ON DELETE SET NULL ON UPDATE CASCADE)"
    ),
    "CREATE TABLE n (up INT, v INT, FOREIGN KEY (up) REFERENCES c (id) ON DELETE CASCADE)",
    "CREATE TABLE t (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES t (id) ON DELETE CASCADE)",
    "INSERT INTO p VALUES (1, 10), (2, 20), (3, 30), (4, NULL)",
    "INSERT INTO c VALUES (1, 1, NULL, 0), (2, 1, 20, 0), (3, 2, 30, 0), (4, 3, 10, 0), (5, 4, NULL, 0)",
    "INSERT INTO g VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 1)",
    "INSERT INTO n VALUES (1, 7), (1, 7), (2, 8), (4, 9)",
    "INSERT INTO t VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, NULL), (6, 5)",
)
NAMES = ("p", "c", "g", "n", "t")
CASES: dict[str, list[str]] = {
    "children deleted": ["DELETE FROM p WHERE id = 1"],
    "children emptied": ["DELETE FROM p WHERE id = 3"],
    "several rows": ["DELETE FROM p WHERE id IN (2, 3, 4)"],
    "a key moved": ["UPDATE p SET id = 100 WHERE id = 1"],
    "a key moved that empties": ["UPDATE p SET code = 99 WHERE id = 2"],
    "one after the other": [
        "BEGIN",
        "UPDATE p SET id = 100 WHERE id = 1",
        "INSERT INTO c VALUES (9, 100, 30, 1)",
        "DELETE FROM p WHERE id = 3",
        "UPDATE c SET v = 5 WHERE id = 9",
        "DELETE FROM p WHERE id = 100",
        "COMMIT",
    ],
    "a table that refers to itself": ["DELETE FROM t WHERE id = 1"],
}


def undo_of(shop: Shop, pipeline: Any, tables: Sequence[str], **choice: Any) -> Undo:
    names = [TableName(shop.database.name, table) for table in tables]
    return Undo.of(pipeline, SOURCE, names, Selection(**choice), keys_of(pipeline))


@pytest.fixture
def filled(shop: Shop, tasks_here: None) -> tuple[Shop, Any]:
    shop.execute(*TABLES)
    pipeline = shop.pipeline()
    run(shop, pipeline, NAMES)
    return shop, pipeline


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case == "a key moved" else pytest.mark.thorough) for case in CASES]
)
def test_children_are_on_the_server_as_before(filled: tuple[Shop, Any], case: str) -> None:
    shop, pipeline = filled
    before, start = {name: shop.truth(name) for name in NAMES}, shop.end()
    shop.execute(*CASES[case])
    assert {name: shop.truth(name) for name in NAMES} != before
    run(shop, pipeline, NAMES)
    undo = undo_of(shop, pipeline, ["p", "c", "t"], start=str(start))
    assert predicted(shop.database, undo) == []
    assert executed(shop.database, undo) == []
    assert {name: shop.truth(name) for name in NAMES} == before
    # The lake comes to the same.
    run(shop, pipeline, NAMES)
    assert {name: shop.merged(pipeline, name) for name in NAMES} == before


def test_a_trace_has_what_foreign_keys_did_behind_its_parent_s_row(filled: tuple[Shop, Any]) -> None:
    shop, pipeline = filled
    start = shop.end()
    shop.execute(
        "UPDATE p SET id = 100 WHERE id = 1", "UPDATE c SET v = 1 WHERE id = 2", "DELETE FROM p WHERE id = 100"
    )
    run(shop, pipeline, NAMES)
    view = TraceView(SOURCE, is_whole=False, has_literals=True)

    def lines(table: str, **choice: Any) -> list[dict[str, Any]]:
        trace = TableTrace.of(
            pipeline, SOURCE, TableName(shop.database.name, table), Selection(start=str(start), **choice)
        )
        return [json.loads(view.line(entry)) for entry in trace.entries()]

    listed = lines("c", keys=("2",))
    assert [(line["op"], line.get("derived"), line["before"], line["after"]) for line in listed] == [
        ("update", True, {"up": 1}, {"up": 100}),
        ("update", None, {"v": 0}, {"v": 1}),
        ("delete", True, {"id": 2, "up": 100, "code": 20, "v": 1}, None),
    ]
    parents = lines("p")
    assert [listed[at]["offset"] for at in (0, 2)] == [line["offset"] for line in parents]
    for name in ("transaction", "server_id", "committed_at"):
        assert [listed[at][name] for at in (0, 2)] == [line[name] for line in parents]
    assert [line["derived"] for line in lines("g")] == [True] * 3


def test_what_cannot_be_decided_is_refused_by_name(filled: tuple[Shop, Any]) -> None:
    shop, pipeline = filled
    name = shop.database.name
    start = shop.end()
    shop.execute("DELETE FROM p WHERE id IN (1, 2)")
    run(shop, pipeline, NAMES)
    with pytest.raises(Unsupported, match=rf"changed rows of {name}\.c, .* name it too \({name}\.p\)"):
        undo_of(shop, pipeline, ["c"], start=str(start))
    with pytest.raises(Unsupported, match="choose all of its rows"):
        undo_of(shop, pipeline, ["p"], start=str(start), keys=("1",))
    # A key that is gone would not cascade again.
    start = shop.end()
    shop.execute("UPDATE p SET id = 300 WHERE id = 3")
    (key,) = [row[0] for row in shop.database.execute(
        "SELECT constraint_name FROM information_schema.key_column_usage WHERE table_schema = %s AND table_name = 'c' "
        "AND referenced_column_name = 'id'", (name,)
    )]  # fmt: skip
    shop.execute(f"ALTER TABLE c DROP FOREIGN KEY {key}")
    run(shop, pipeline, NAMES)
    with pytest.raises(Unsupported, match=r"ON UPDATE CASCADE changed up .* not there any more"):
        undo_of(shop, pipeline, ["p"], start=str(start))
    # What no run has derived yet.
    start = shop.end()
    shop.execute("UPDATE p SET code = 31 WHERE id = 300")
    extract_source(shop.spark, pipeline, SOURCE)
    with pytest.raises(Unsupported, match="is not derived yet; execute stratalog run first"):
        undo_of(shop, pipeline, ["p"], start=str(start))


@pytest.mark.thorough
def test_an_xa_transaction_is_taken_back_where_foreign_keys_changed_nothing_by_it(filled: tuple[Shop, Any]) -> None:
    shop, pipeline = filled
    start, before = shop.end(), shop.truth("c")

    def xa(name: str, *statements: str) -> None:
        shop.execute(
            f"XA START '{name}'", *statements, *(f"XA {verb} '{name}'" for verb in ("END", "PREPARE", "COMMIT"))
        )

    xa("alone", "UPDATE c SET v = 9 WHERE id = 3", "DELETE FROM p WHERE id = 9")
    run(shop, pipeline, NAMES)
    assert executed(shop.database, undo_of(shop, pipeline, ["p", "c"], start=str(start))) == []
    assert shop.truth("c") == before
    # Whether children were changed before or after another row of the transaction is not stored.
    start = shop.end()
    xa("with children", "DELETE FROM p WHERE id = 1", "UPDATE c SET v = 9 WHERE id = 3")
    run(shop, pipeline, NAMES)
    with pytest.raises(Unsupported, match="foreign keys changed rows in an XA transaction, in an order that is not"):
        undo_of(shop, pipeline, ["p", "c"], start=str(start))


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(8, marks=pytest.mark.thorough),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(9, 19)),
    ],
)
def test_random_transactions_are_taken_back_with_their_children_or_refused(
    shop: Shop, tasks_here: None, seed: int, summary: list[str]
) -> None:
    shop.execute("SET NAMES utf8mb4")
    text = "VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
    tables = RandomTables(shop.database, Random(seed), text, 3)
    tables.create()
    pipeline, counted = shop.pipeline(on_cascade="apply"), Counter[str]()
    run(shop, pipeline, tables.columns)
    for _ in range(8):
        start, before = shop.end(), tables.after().rows
        tables.transaction()
        run(shop, pipeline, tables.columns)
        try:
            undo = undo_of(shop, pipeline, [*tables.columns], start=str(start))
        except Unsupported:
            counted["refused"] += 1
            continue
        assert executed(shop.database, undo) == []
        assert tables.after().rows == before
        counted["taken back"] += 1
        counted["rows of children"] += sum(step.traced.change.is_derived for step in undo.steps)
    summary.append(f"undo of cascades, seed {seed}: {dict(counted)}")
    assert counted["taken back"]
    assert counted["rows of children"] or seed != 8
