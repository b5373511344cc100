"""Old windows folded: what they fold to, when that is done, and what is refused since.

Put here: random rows beside a plain twin, and described logs. Not here: a real server's tables
(tests/pipeline/test_fold.py).
"""

import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.export import export
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.downstream.multi_source import SharedPart
from spark_jobs.downstream.publication import consistent
from spark_jobs.lake.commit import Head, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.fold_windows import folded, why_not
from spark_jobs.operations.gc import gc_source
from spark_jobs.operations.maintenance import Upkeep, maintain_source
from spark_jobs.operations.mend import plan_reset, reset
from spark_jobs.pipeline.archive import read_archive
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.initial_load.commit import READING, LoadCommit
from spark_jobs.pipeline.run import compact_source, extract_source
from spark_jobs.silver import table as silver
from spark_jobs.text import sql
from tests.logs import SOURCE, Logs, day, file
from tests.segment_spec import Change, Commit, Delete, Insert, Update

pytestmark = pytest.mark.spark

KEYED = silver.Columns({"k": "INT", "a": "STRING", "b": "INT"}, ("k",))
PARTIAL = replace(KEYED, has_partial=True)
BAG = silver.Columns({"a": "STRING", "b": "INT"}, ())
Row = dict[str, Any]
_OLD = 4
"""Windows that are folded, of six."""


def random_rows(columns: silver.Columns, seed: int) -> list[Row]:
    """Rows of silver as compaction gives them: a window has a key once."""
    chance = Random(seed)
    rows_: list[Row] = []
    for window in range(6):
        start, stop = (1, 1, 100 * window), (1, 1, 100 * window + 100)
        for key in range(120):
            if chance.random() < 0.5:
                continue
            op = chance.choice(["insert", "update", "delete", "load" if window == 0 else "rename"])
            row: Row = {"k": key, "a": chance.choice("xyz"), "b": chance.randrange(3), "_op": op}
            row |= {"_existed": {"insert": False, "update": True, "delete": True}.get(op), "_committed_at": None}
            row |= {"_position": (1, 1, 100 * window + key % 90, key), "_window_start": start, "_window_stop": stop}
            row |= {"_raw": {"a": "0x00"} if chance.random() < 0.1 else None, silver.ABSENT: None}
            if columns.is_bag:
                row |= {"a": str(key % 20), silver.COPIES: chance.randrange(-2, 4), "_existed": None, "_raw": None}
            if columns.has_partial and op == "update":
                row[silver.ABSENT] = chance.sample(["a", "b"], chance.randrange(3)) or None
                row |= dict.fromkeys(row[silver.ABSENT] or (), None)
            rows_.append(row)
        marker = dict.fromkeys(rows_[0], None) | {"_op": "truncate", "_position": (1, 1, 100 * window, -1)}
        if window == 1 and seed % 2:
            rows_.append(marker | {"_window_start": start, "_window_stop": start})
    return rows_


def state(columns: silver.Columns, rows: list[Row]) -> dict[Any, Any]:
    """The plain twin: what rows make of each key, oldest first."""
    emptied: Any = max((row["_position"] for row in rows if row["_op"] == "truncate"), default=(0,))
    alive = [row for row in rows if row["_op"] != "truncate" and row["_position"] > emptied]
    by_image: dict[Any, Any] = defaultdict(dict)
    for row in sorted(alive, key=lambda row_: row_["_position"]):
        if columns.is_bag:
            image = tuple(row[name] for name in columns.types)
            by_image[image] = (by_image[image] or 0) + row[silver.COPIES]
        elif row["_op"] == "delete":
            by_image[row["k"]] = {}
        else:
            values = {name: row[name] for name in columns.types if name not in (row[silver.ABSENT] or ())}
            raw = (row["_raw"] or {}).get("a")
            texts = {"raw": raw if "a" in values else by_image[row["k"]].get("raw")}
            by_image[row["k"]] = by_image[row["k"]] | values | texts | {"at": row["_position"]}
    return {key: image_ for key, image_ in by_image.items() if image_}


@pytest.mark.parametrize("columns", [KEYED, PARTIAL, BAG], ids=["keyed", "partial", "bag"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_fold_and_what_follows_it_make_of_every_key_what_all_windows_do(
    spark: SparkSession, columns: silver.Columns, seed: int
) -> None:
    rows: list[Row] = [{name: row.get(name) for name in columns.stored} for row in random_rows(columns, seed)]
    full: list[Row] = [row | {silver.ABSENT: row.get(silver.ABSENT)} for row in rows]
    old = [row for row in rows if row["_window_stop"] <= (1, 1, 100 * _OLD)]
    ddl = ", ".join(f"{name} {kind}" for name, kind in columns.stored.items())
    frame = spark.createDataFrame([tuple(row.values()) for row in old], ddl)
    emptied = "named_struct('stretch', 1, 'number', 1L, 'offset', 100L, 'row', -1)" if seed % 2 else None
    folded_rows = [row.asDict() for row in folded(frame, columns, emptied).collect()]
    own_rows = [
        row | {name: tuple(row[name]) for name in ("_position", "_window_start", "_window_stop")} for row in folded_rows
    ]
    rest = [row for row in full if row["_window_stop"] > (1, 1, 100 * _OLD)]
    assert state(columns, [row | {silver.ABSENT: row.get(silver.ABSENT)} for row in own_rows] + rest) == state(
        columns, full
    )
    assert {(row["_window_start"], row["_window_stop"]) for row in own_rows} == {((1, 1, 0), (1, 1, 100 * _OLD))}
    assert len({tuple(row[name] for name in columns.key or columns.types) for row in own_rows}) == len(own_rows)
    if not columns.is_bag:
        assert {(row["_op"], row["_existed"]) for row in own_rows} <= {("insert", False), ("update", True)}
    assert 0 < len(own_rows) < len(old)


NAMES = ["start", "STOP", "Left", "_first", "_CELL0", "_last", "_End", "last", "ends", "name", "pair"]
"""As the fold calls, or called, columns and variables of its own."""


@pytest.mark.parametrize("kind", ["keyed", "partial", "bag"])
def test_columns_may_have_any_name_that_a_silver_table_may_have(spark: SparkSession, kind: str) -> None:
    types = {"k": "INT"} | dict.fromkeys(NAMES, "STRING")
    columns = silver.Columns(types, () if kind == "bag" else ("k",), has_partial=kind == "partial")
    definition = TableDefinition(SHOP, tuple(Column(name, 3) for name in types), key=(0,))
    assert silver.refused_names(definition) == []
    rows = []
    for window, key, op, copies in (
        (0, 1, "insert", 1),
        (0, 2, "insert", 1),
        (1, 1, "update", 1),
        (1, 2, "delete", -1),
    ):
        values = "new" if kind == "bag" or not window else "newer"
        row: Row = {"k": key} | dict.fromkeys(NAMES, values) | {"_op": op, "_existed": window > 0}
        row |= {"_position": (1, 1, 100 * window + key, 0), silver.COPIES: copies}
        row |= {"_window_start": (1, 1, 100 * window), "_window_stop": (1, 1, 100 * window + 100)}
        row |= {silver.ABSENT: ["Left"], "Left": None} if kind == "partial" and op == "update" else {}
        rows.append([row.get(name) for name in columns.stored])
    (row_,) = folded(spark.createDataFrame(rows, sql.columns(columns.stored)), columns).collect()
    last = dict.fromkeys(NAMES, "new" if kind == "bag" else "newer") | ({"Left": "new"} if kind == "partial" else {})
    assert {name: row_[name] for name in types} == {"k": 1} | last
    assert (row_["_op"], tuple(row_["_window_start"]), tuple(row_["_window_stop"])) == (
        "insert",
        (1, 1, 0),
        (1, 1, 200),
    )
    assert kind != "bag" or row_[silver.COPIES] == 2


SHOP = TableName("shop", "orders")
NAME = ("shop", "orders")


def write_log(logs: Logs) -> None:
    """Files of days 1 to 6, by four runs: an order comes, lives, or goes, and comes back."""
    for number in range(1, 7):
        changes: list[Change] = [Insert("shop.orders", (number, "new"))]
        changes += [Update("shop.orders", (1, "new" if number == 2 else str(number - 1)), (1, str(number)))] * (
            number > 1
        )
        changes += [Delete("shop.orders", (2, "new"))] * (number == 3) + [Insert("shop.orders", (2, "back"))] * (
            number == 6
        )
        changes += [Delete("shop.orders", (3, "new"))] * (number == 5)
        logs.write(number, *changes, Commit())
        if number not in (1, 3):
            logs.run()


def oldest(logs: Logs) -> Position:
    bronze_head = head(logs.lake.bronze(SOURCE))
    assert bronze_head is not None
    assert bronze_head.checkpoint is not None
    return bronze.oldest(bronze_head.checkpoint)


def since(logs: Logs, number: int) -> Range:
    end = logs.bronze().position
    assert end is not None
    return Range(Position(file(number), 4), end)


TRUTH = [(1, "6"), (2, "back"), (4, "new"), (5, "new"), (6, "new")]


def keeping(logs: Logs, *, fold: bool = True) -> Pipeline:
    return logs.pipeline(retention={"bronze": "2d", "fold": fold})


def maintained(logs: Logs, *, fold: bool = True) -> Upkeep:
    upkeep = maintain_source(logs.spark, keeping(logs, fold=fold), SOURCE)
    assert upkeep.stopped == {}
    return upkeep


def folds(upkeep: Upkeep) -> dict[str, tuple[str, int, int]]:
    folded_ = [maintained_.folded for maintained_ in upkeep.tables if maintained_.folded]
    return {fold.name.table: (str(fold.floor), fold.rows_before, fold.rows_after) for fold in folded_}


def floor(logs: Logs) -> str:
    """Where the fourth run ended, behind which gc leaves two files."""
    return f"{file(4)}:{(logs.binlogs / file(4)).stat().st_size}"


def head(table: Table) -> Head:
    table_head = table.head()
    assert table_head is not None
    return table_head


def corrupted(logs: Logs, table: Table, condition: str) -> None:
    """As if a run had decoded these rows wrongly."""
    logs.spark.sql(f"UPDATE {table.sql} SET note = 'wrong' WHERE {condition}")


@pytest.mark.long
def test_windows_below_bronze_are_folded_and_the_rest_is_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    write_log(logs)
    archive = tmp_path / "archive"
    shutil.copytree(logs.binlogs, archive)
    table, target = logs.lake.silver(SOURCE, *NAME), logs.lake.downstream(*NAME)
    assert folds(maintained(logs)) == {}, "bronze has all of it"
    gc_source(spark, keeping(logs), SOURCE, now=day(6.9))
    assert folds(maintained(logs, fold=False)) == {}, "nobody asked for it"
    before = consistent(spark, logs.lake, SOURCE).tables["shop", "orders"].rows
    assert before is not None
    rows = table.read(spark).count()
    assert folds(maintained(logs)) == {"orders": (floor(logs), 6, 3)}
    assert table.read(spark).count() == rows - 3
    assert before.count() == len(TRUTH), "a reader of what was published before goes on"
    assert logs.rows("orders") == TRUTH
    (entry,) = (entry for entry in publication.read(logs.lake, SOURCE) if entry.table == "orders")
    assert entry.silver_version == head(table).version
    assert folds(maintained(logs)) == {}, "once"

    shutil.rmtree(target.path)
    assert logs.run().stopped == {}
    assert logs.rows("orders") == TRUTH, "written anew from what was folded"

    later = since(logs, 6)
    corrupted(logs, table, f"_window_stop > {silver.place_sql(later.start)} AND _op <> 'delete'")
    corrupted(logs, target, "id IN (1, 2, 6)")
    outcome = backfill_source(spark, keeping(logs), SOURCE, later, lambda name: name == SHOP)
    assert (outcome.stopped, logs.rows("orders")) == ({}, TRUTH)

    reason = f"its windows before {floor(logs)} are folded into one, and are not replayed, whatever bronze holds"
    outcome = backfill_source(spark, keeping(logs), SOURCE, since(logs, 1), lambda name: name == SHOP)
    assert reason in outcome.stopped[SHOP]
    assert oldest(logs) > since(logs, 1).start, "no file is brought for a table that has no use of it"
    read_archive(spark, keeping(logs), SOURCE, archive)
    assert len(list(export(spark, logs.lake, SOURCE, tmp_path / "out"))) == 6, "what was brought back is there"
    outcome = backfill_source(spark, keeping(logs), SOURCE, since(logs, 1), lambda _: True)
    assert set(outcome.stopped) == {SHOP}
    assert reason in outcome.stopped[SHOP]
    assert logs.rows("orders") == TRUTH

    reset(spark, keeping(logs), SOURCE, plan_reset(spark, keeping(logs), SOURCE, str(SHOP)))
    assert "it is reset" in maintained(logs).unfolded[SHOP]
    assert logs.run().stopped == {}
    assert (logs.rows("orders"), silver.folded(head(table))) == (TRUTH, None)
    outcome = backfill_source(spark, keeping(logs), SOURCE, since(logs, 1), lambda name: name == SHOP)
    assert (outcome.stopped, logs.rows("orders")) == ({}, TRUTH)


@pytest.mark.long
def test_a_table_waits_where_something_is_still_to_come_by(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs(spark, tmp_path)
    write_log(logs)
    gc_source(spark, keeping(logs), SOURCE, now=day(6.9))
    table, lake = logs.lake.silver(SOURCE, *NAME), logs.lake
    logs.write(7, Insert("shop.orders", (7, "new")), Commit())
    extract_source(spark, keeping(logs), SOURCE)
    compact_source(spark, keeping(logs), SOURCE)
    (entry,) = (entry for entry in publication.read(lake, SOURCE) if entry.table == "orders")
    assert why_not(lake, entry, head(table)) == "downstream has not got all of it yet"
    logs.run()
    (entry,) = (entry for entry in publication.read(lake, SOURCE) if entry.table == "orders")
    assert why_not(lake, entry, head(table)) is None
    assert why_not(lake, replace(entry, downstream=None), head(table)) == "downstream has not got all of it yet"
    with monkeypatch.context() as patched:
        patched.setattr("spark_jobs.operations.fold_windows.view", SharedPart)
        assert "keys in common with other sources" in str(why_not(lake, entry, head(table)))
    definition = TableDefinition(SHOP, (Column("id", 3),), key=(0,))
    at = Position(file(6), 4)
    with monkeypatch.context() as patched:
        loading = LoadCommit(at, "b", state=READING, read_from=at, definition=definition, chunk_rows=10)
        patched.setattr("spark_jobs.operations.fold_windows.progress", lambda *_: loading)
        assert why_not(lake, entry, head(table)) == "it is being loaded"

    right = Table.replace
    raced: list[str] = []

    def overtaken(self: Table, rows: Any, condition: str, upon: Head, commit: Any) -> Head:
        if self.path == table.path and not raced:
            raced.append(self.path)
            assert upon.checkpoint is not None
            self.append(self.read(spark).where("false"), upon, replace(upon.checkpoint, batch=new_batch()))
        return right(self, rows, condition, upon, commit)

    monkeypatch.setattr(Table, "replace", overtaken)
    upkeep = maintained(logs)
    assert (folds(upkeep), upkeep.unfolded) == ({}, {SHOP: "downstream has not got all of it yet"}), (
        "a window came first"
    )


def run_again(logs: Logs) -> None:
    logs.write(7, Insert("shop.orders", (7, "new")), Commit())
    assert logs.run(keeping(logs)).stopped == {}


def done_again(logs: Logs) -> None:
    """A window above the floor, of which silver and downstream had something else."""
    later = since(logs, 6)
    for table in (logs.lake.silver(SOURCE, *NAME), logs.lake.downstream(*NAME)):
        corrupted(logs, table, "id = 6")
    outcome = backfill_source(logs.spark, keeping(logs), SOURCE, later, lambda name: name == SHOP)
    assert (outcome.stopped, len(outcome.compacted)) == ({}, 1)


def between(patched: pytest.MonkeyPatch, table: Table, do: Callable[[], object]) -> list[str]:
    """Has something done just before the first commit of a kind to a table; gives the tables where it was."""
    paths: list[str] = []

    def patch(name: str, right: Callable[..., Head]) -> None:
        def overtaken(self: Table, *arguments: Any, **options: Any) -> Head:
            if self.path == table.path and not paths:
                paths.append(self.path)
                do()
            return right(self, *arguments, **options)

        patched.setattr(Table, name, overtaken)

    patch("replace", Table.replace)
    patch("replace_rows", Table.replace_rows)
    return paths


@pytest.mark.long
def test_maintenance_beside_a_run_a_backfill_and_other_maintenance(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer comes between what maintenance has planned and its commit, at the fold and where it publishes."""
    first = Logs(spark, tmp_path / "first")
    first.folder.mkdir()
    write_log(first)
    gc_source(spark, keeping(first), SOURCE, now=day(6.9))
    writers: list[Callable[[Logs], object]] = [maintained, run_again, done_again, done_again]
    for at, writer in enumerate(writers):
        logs = first.copied(tmp_path / str(at))
        table = logs.lake.published() if at == 3 else logs.lake.silver(SOURCE, *NAME)
        with monkeypatch.context() as patched:
            overtaken_paths = between(patched, table, partial(writer, logs))
            maintained(logs)
        assert overtaken_paths
        assert folds(maintained(logs)) == {}, "what lost was planned anew"
        assert logs.rows("orders") == TRUTH + ([(7, "new")] if writer is run_again else [])
        (entry,) = (entry for entry in publication.read(logs.lake, SOURCE) if entry.table == "orders")
        heads = head(logs.lake.silver(SOURCE, *NAME)), head(logs.lake.downstream(*NAME))
        assert silver.folded(heads[0]) is not None
        assert [entry.silver_version, entry.downstream_version] == [head.version for head in heads]
