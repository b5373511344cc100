"""A table that stops holds all before what stops it: how its log is cut into runs decides nothing."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.boundaries import split_transactions
from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.repair import add, plan_skip
from spark_jobs.pipeline import planner
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import compact_source, extract_source, merge_source, publish
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.lakes.lake_tables import table_rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

PARTIAL = ("SET SESSION binlog_row_image = 'MINIMAL'", "SET SESSION binlog_row_image = 'FULL'")
OF_NEW_ROWS = {"update-new-value-expr": "v < 0"}
"""A row filter by a column that a partial image may lack; it stops the table where no log since the last statement has
it."""
AS_STATEMENT = ("SET SESSION binlog_format = 'STATEMENT'", "SET SESSION binlog_format = 'ROW'")


def run_up_to(shop: Shop, pipeline: Pipeline, until: Position | None = None) -> Outcome:
    extract_source(shop.spark, pipeline, SOURCE, until=until)
    outcome = merge_source(shop.spark, pipeline, SOURCE, compact_source(shop.spark, pipeline, SOURCE))
    publish(pipeline, SOURCE, outcome)
    return outcome


def entry(shop: Shop, pipeline: Pipeline, table: str) -> Entry:
    entries = publication.read(lake_of(pipeline), SOURCE)
    return next(entry for entry in entries if entry.name == (shop.database.name, table))


def layers(shop: Shop, pipeline: Pipeline, table: str) -> tuple[Table, Table]:
    lake, schema = lake_of(pipeline), shop.database.name
    return lake.silver(SOURCE, schema, table), lake.downstream(schema, table)


def versions(shop: Shop, pipeline: Pipeline, table: str) -> list[int | None]:
    return [head.version if (head := layer.head()) else None for layer in layers(shop, pipeline, table)]


def test_the_rows_before_a_statement_that_is_not_followed_are_in_the_lake(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, total BIGINT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    shop.run(pipeline)
    shop.execute("INSERT INTO t VALUES (3, 3)", "INSERT INTO t VALUES (10, 10), (11, 11)", "DELETE FROM t WHERE id = 1")
    position = shop.end()
    shop.execute("ALTER TABLE t MODIFY total INT", "INSERT INTO t VALUES (12, 12)")

    _, outcome = shop.run(pipeline)
    (reason,) = outcome.stopped.values()
    assert f"ALTER TABLE at {position} does not keep every value of column total" in reason
    assert shop.merged(pipeline, "t") == [(2, 2), (3, 3), (10, 10), (11, 11)]
    assert [head.position for layer in layers(shop, pipeline, "t") if (head := layer.head())] == [position, position]
    published = entry(shop, pipeline, "t")
    assert (published.state, published.reason, published.position, published.merged) == (
        "stopped",
        reason,
        str(position),
        str(position),
    )

    heads = versions(shop, pipeline, "t")
    assert [published.silver_version, published.downstream_version] == heads
    shop.execute("INSERT INTO t VALUES (13, 13)")
    _, repeated = shop.run(pipeline)
    assert (repeated.stopped, repeated.compacted, repeated.merged) == (outcome.stopped, [], [])
    assert versions(shop, pipeline, "t") == heads, "nothing is written for a table that stays where it is"
    after = entry(shop, pipeline, "t")
    assert replace(after, surveyed=None, published_at=None) == replace(published, surveyed=None, published_at=None)

    mended = shop.pipeline(on_incompatible="new_column")
    assert shop.run(mended)[1].stopped == {}
    assert [row[0] for row in shop.merged(mended, "t")] == [2, 3, 10, 11, 12, 13]


@pytest.mark.thorough
def test_the_transactions_before_a_row_that_cannot_be_taken_are_in_the_lake(shop: Shop) -> None:
    t = TableName(shop.database.name, "t")
    pipeline = shop.pipeline(row_filters={"negative": {"tables": [str(t)]} | OF_NEW_ROWS})
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "INSERT INTO u VALUES (1)",
        "ALTER TABLE t MODIFY v BIGINT",
    )
    position = shop.end()
    shop.execute(
        PARTIAL[0],
        "BEGIN",
        "INSERT INTO t VALUES (7, 7)",
        "UPDATE t SET id = 20 WHERE id = 2",
        "COMMIT",
        PARTIAL[1],
        "INSERT INTO t VALUES (3, 3)",
        PARTIAL[0],
        "UPDATE t SET id = 30 WHERE id = 1",
        PARTIAL[1],
        "INSERT INTO u VALUES (2)",
    )
    _, outcome = shop.run(pipeline)
    assert outcome.stopped.keys() == {t}
    assert require_same(shop, pipeline, "u") == 2
    assert shop.merged(pipeline, "t") == [(1, 1), (2, 2)], "and not the half of a transaction"
    assert entry(shop, pipeline, "t").position == str(position)
    heads = versions(shop, pipeline, "t")
    _, repeated = shop.run(pipeline)
    assert (repeated.stopped, versions(shop, pipeline, "t")) == (outcome.stopped, heads)

    for all_rows in ([(1, 1), (2, 2), (3, 3), (7, 7)], [(1, 1), (2, 2), (3, 3), (4, 4), (7, 7)]):
        (event,) = [word for word in outcome.stopped[t].split() if word.startswith(position.file)][:1]
        add(pipeline, SOURCE, plan_skip(pipeline, SOURCE, event.rstrip(":")))
        shop.execute(f"INSERT INTO t VALUES ({len(all_rows)}, {len(all_rows)})") if len(all_rows) == 4 else None
        _, outcome = shop.run(pipeline)
        assert shop.merged(pipeline, "t") == all_rows
    assert outcome.stopped == {}


@dataclass(frozen=True, slots=True)
class TableState:
    """What runs left of a table."""

    downstream: list[tuple[Any, ...]]
    silver: list[tuple[Any, ...]]
    state: str
    reason: str | None
    position: str | None
    merged: str | None


def state_of(shop: Shop, pipeline: Pipeline, table: str) -> TableState:
    silver, downstream = layers(shop, pipeline, table)
    rows = silver.read(shop.spark)
    names = [column for column in rows.columns if not column.startswith("_")]
    last = F.max_by(F.struct(*names, "_position", (F.col("_op") == "delete").alias("_gone")), "_position")
    net = rows.groupBy("id").agg(last.alias("last")).select("last.*").collect() if silver.head() else []
    published = entry(shop, pipeline, table)
    expected_rows = (
        [tuple(v for name, v in row.asDict().items() if name != "_raw") for row in table_rows(downstream)]
        if downstream.head()
        else []
    )
    rows_of_layers = sorted(map(repr, expected_rows)), sorted(map(repr, map(tuple, net)))
    return TableState(*rows_of_layers, published.state, published.reason, published.position, published.merged)  # type: ignore[arg-type]


FAULTS = {
    "narrower": ["ALTER TABLE narrower MODIFY v TINYINT"],
    "partial": [PARTIAL[0], "UPDATE partial SET id = id + 1000 ORDER BY id DESC LIMIT 1", PARTIAL[1]],
    "stated": [AS_STATEMENT[0], "UPDATE stated SET v = v + 1", AS_STATEMENT[1]],
    "mixed": [
        "SET SESSION binlog_format = 'MIXED'",
        "BEGIN",
        "INSERT INTO mixed SELECT 500, LENGTH(UUID()), NULL",
        "UPDATE mixed SET v = v + 1",
        "COMMIT",
        AS_STATEMENT[1],
    ],
    "asked": ["REPLACE INTO asked VALUES (500, 1, '0000-00-00')"],
    "hidden": [
        "SET sql_log_bin = 0",
        "ALTER TABLE hidden ADD more INT",
        "SET sql_log_bin = 1",
        "INSERT INTO hidden VALUES (500, 1, NULL, 1)",
    ],
    "fine": [],
}
"""By table what stops it."""


def statements(generator: random.Random, steps: int) -> list[str]:
    """Rows of all tables, and in each somewhere what stops it."""
    groups: list[list[str]] = []
    for _ in range(steps):
        table, key = generator.choice([*FAULTS]), generator.randrange(30)
        changes = [f"INSERT INTO {table} (id, v) VALUES ({key}, 0) ON DUPLICATE KEY UPDATE v = v + 1"]
        changes += [f"DELETE FROM {table} WHERE id = {key + 1}"] * (generator.random() < 0.3)
        groups.append(["BEGIN", *changes, "COMMIT"] if generator.random() < 0.5 else changes)
    for fault in FAULTS.values():
        groups.insert(generator.randrange(steps // 4, steps), fault)
    creates = [f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, d DATE)" for table in FAULTS]
    return [*creates, *(statement for group in groups for statement in group)]


def boundaries(shop: Shop, pipeline: Pipeline) -> list[Position]:
    """Positions where each transaction of the log ends, as bronze has it."""
    snapshot = bronze.BronzeSnapshot.of(lake_of(pipeline), SOURCE)
    slices = (
        bronze.read_all(shop.spark, snapshot.table, snapshot.version).where("kind <> 'control'").toArrow().to_batches()
    )
    slices_of_one = (
        piece
        for log_slice in slices
        for at in range(log_slice.num_rows)
        for piece in split_transactions(log_slice.slice(at, 1))
    )
    ends = (
        piece.select(["file", "stop"]).to_pylist()[0]
        for piece in slices_of_one
        if piece.column("transactions")[0].as_py()
    )
    return sorted(Position(end["file"], end["stop"]) for end in ends)


def cut_at(generator: random.Random, positions: Sequence[Position], runs: int) -> list[Position]:
    return sorted(generator.sample(positions[:-1], runs - 1))


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
def test_how_a_log_is_cut_into_runs_does_not_decide_what_is_in_the_lake(shop: Shop, seed: int) -> None:
    generator = random.Random(seed)
    shop.execute("SET SESSION sql_mode = ''", *statements(generator, 60))
    condition = {"tables": [f"{shop.database.name}.asked"], "insert-value-expr": "d = '2001-01-01'"}
    rules = {"r": condition, "n": {"tables": [f"{shop.database.name}.partial"]} | OF_NEW_ROWS}
    at_once = shop.pipeline(row_filters=rules)
    run_up_to(shop, at_once)
    positions = boundaries(shop, at_once)
    in_pieces = shop.pipeline(lake=str(shop.folder / "pieces"), row_filters=rules)
    for until in [*cut_at(generator, positions, 3), None]:
        run_up_to(shop, in_pieces, until)
    states = {table: state_of(shop, at_once, table) for table in FAULTS}
    assert [table for table, state in states.items() if state.state == "current"] == ["fine"]
    assert all(state.downstream for state in states.values()), "each stops inside its log"
    assert {table: state_of(shop, in_pieces, table) for table in FAULTS} == states
    assert shop.merged(at_once, "fine") == shop.truth("fine")


def test_a_range_up_to_where_a_table_stands_inside_a_slice_is_done_again(shop: Shop) -> None:
    """What comes after the stop, in the same slice, is of another definition and no part of the range."""
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.run(pipeline)
    start = shop.end()
    shop.execute("INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
    position = shop.end()
    shop.execute("SET SESSION sql_log_bin = 0", "ALTER TABLE t ADD w INT", "SET SESSION sql_log_bin = 1")
    shop.execute("INSERT INTO t VALUES (3, 3, 3)")
    _, outcome = shop.run(pipeline)
    assert len(outcome.stopped) == 1
    silver, _ = layers(shop, pipeline, "t")
    head = silver.head()
    assert head is not None
    assert head.position == position
    bronze = lake_of(pipeline).bronze(SOURCE)
    assert read_index(bronze, bronze.head().version).is_inside(position)  # type: ignore[union-attr]

    shop.spark.sql(f"UPDATE {silver.sql} SET v = 0 WHERE id = 2")
    replayed = backfill_source(shop.spark, pipeline, SOURCE, Range(start, position), lambda _: True)
    assert replayed.stopped == {}
    assert [job.rows for job in replayed.compacted] == [2]
    assert sorted((row["id"], row["v"]) for row in table_rows(silver)) == [(1, 1), (2, 2)]


def test_tables_that_stand_inside_slices_unpublished_are_planned_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a run leaves them that ends before it publishes: the log is looked at twice, however many they are."""
    pipeline, names = shop.pipeline(), [f"t{number}" for number in range(5)]
    shop.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in names))
    shop.run(pipeline)
    positions = {}
    for name in names:
        shop.execute(f"INSERT INTO {name} VALUES (1, 1)", f"INSERT INTO {name} VALUES (2, 2)")
        positions[name] = shop.end()
        shop.execute("SET SESSION sql_log_bin = 0", f"ALTER TABLE {name} ADD w INT", "SET SESSION sql_log_bin = 1")
        shop.execute(f"INSERT INTO {name} VALUES (3, 3, 3)")
    extract_source(shop.spark, pipeline, SOURCE)
    first = compact_source(shop.spark, pipeline, SOURCE)
    assert len(first.stopped) == 5
    looked: list[int] = []

    def counted(*arguments: Any) -> Any:
        looked.append(len(arguments[-1]))
        return scan_effective(*arguments)

    monkeypatch.setattr(planner, "scan_effective", counted)
    outcome = compact_source(shop.spark, pipeline, SOURCE)
    assert len(looked) == 2
    assert outcome.stopped == first.stopped
    assert {name: layers(shop, pipeline, name)[0].head().position for name in names} == positions  # type: ignore[union-attr]


def test_a_table_whose_log_downstream_is_damaged_stops_alone(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    shop.execute("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    shop.run(pipeline)
    base = shop.database.name
    _, table = layers(shop, pipeline, "u")
    newest = max(Path(table.path, "_delta_log").glob("*.json"))
    text = newest.read_text()
    newest.write_text(text[: len(text) // 2])
    shop.execute("INSERT INTO t VALUES (2)", "INSERT INTO u VALUES (2)")
    _, outcome = shop.run(pipeline)
    assert list(outcome.stopped) == [TableName(base, "u")]
    assert table.path in outcome.stopped[TableName(base, "u")]
    require_same(shop, pipeline, "t")
    newest.write_text(text)
    assert shop.run(pipeline)[1].stopped == {}
    require_same(shop, pipeline, "u")
