"""Rules about columns that row images leave out, of rows that came by a load: what is filtered, and what is left."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.request import BackfillOptions
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.initial_load.commit import READ, READING, LoadCommit
from spark_jobs.pipeline.initial_load.load import load_source
from tests.fix_pipeline import SOURCE, Shop
from tests.lakes.lake_tables import table_rows
from tests.pipeline.test_rules_and_row_images import (
    COLUMNS,
    CONDITION,
    MODES,
    SEED,
    SEEN,
    STATEMENTS,
    TABLE,
    Model,
    Row,
    computed,
    is_filtered,
    is_whole,
    pipeline_of,
    seen,
    sql,
    statements,
)

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


@dataclass
class LoadedModel(Model):
    """A model of a table that is loaded in between, under rules about updates and deletes alone."""

    is_loaded: bool = False
    """Whether the lake has whole rows; a load that comes before has the changes before it besides."""

    def insert(self, row: Row) -> None:
        self.server[row["id"]] = row
        self._keep("insert", row["id"], row | computed(row))

    def load(self) -> None:
        """The server's rows; the first load's with what changes say that the lake has already."""
        early = {} if self.is_loaded else self.lake
        loaded = {key: row | computed(row) | early.get(key, {}) for key, row in self.server.items()}
        self.lake, self.soft, self.is_loaded = self.lake | loaded, self.soft | loaded, True

    def truncate(self) -> None:
        self.server, self.lake, self.soft = {}, {}, {}

    def move(self, key: int, new_key: int, image: str) -> None:
        row = self.server.pop(key) | {"id": new_key}
        self.server[new_key] = row
        if is_filtered(row):
            return
        held = {"id"} if image == "MINIMAL" else {*COLUMNS} - {"note"}
        cells = {name: row[name] for name in held}
        if image != "MINIMAL":
            cells |= computed(row)
        before = self.lake.pop(key, {"id": key})
        self.soft[key] = before | {"_deleted": True}
        self._keep("update", new_key, before | cells)


def older_rows() -> list[Row]:
    return [
        {"id": key, "price": key % 4, "n": key % 7 or None, "hidden": key % 5, "note": "xyz"[key % 3]}
        for key in range(12)
    ]


def insertion(row: Row) -> str:
    return f"INSERT INTO t ({', '.join(row)}) VALUES ({', '.join(map(sql, row.values()))})"


def early_statements(generator: random.Random, model: Model, image: str, keys: Sequence[int]) -> Iterator[str]:
    """Changes of rows that are not loaded yet: they have what the rule asks for, and all or nothing of a sum."""
    for key in keys:
        values: Row = {"hidden": generator.choice([1, 2, 9]), "note": generator.choice(["x", "y", "z"])}
        if generator.random() < 0.5:
            values |= {"price": generator.randrange(9), "n": generator.choice([1, 4, 5])}
        if key not in model.server:
            row = {"id": key, "price": 2, "n": None} | values
            model.insert(row)
            yield insertion(row)
        else:
            model.update(key, values, image)
            sets = ", ".join(f"{name} = {sql(value)}" for name, value in values.items())
            yield f"UPDATE t SET {sets} WHERE id = {key}"


def late_statements(generator: random.Random, model: LoadedModel, image: str, count: int) -> Iterator[str]:
    """Any changes, and changes of keys among them."""
    for _ in range(count):
        new_key = generator.randrange(12, 18)
        if model.server and new_key not in model.server and generator.random() < 0.2:
            key = generator.choice([*model.server])
            model.move(key, new_key, image)
            yield f"UPDATE t SET id = {new_key} WHERE id = {key}"
        else:
            yield from statements(generator, model, image, 1)


def rules_of(shop: Shop) -> dict[str, Any]:
    """Rules that leave all columns in the lake."""
    name = f"{shop.database.name}.t"
    return {
        "row_filters": {"test": {"tables": [name], "update-new-value-expr": CONDITION, "delete-value-expr": CONDITION}},
        "columns": {
            "shape": {
                "tables": [name],
                "computed": {
                    "total": {"sql": "price * n", "type": "DECIMAL(21,0)"},
                    "big": {"sql": "n > 3", "type": "BOOLEAN"},
                },
            }
        },
    }


def require_model(shop: Shop, pipeline: Pipeline, model: Model, loaded_at: Position) -> None:
    """loaded_at: changes behind it are those of the model."""
    found = {}
    for name in MODES:
        table = lake_of(pipeline).downstream(shop.database.name, name)
        found[name] = [row.asDict(recursive=True) for row in table_rows(table)]
    assert seen(iter(found["t"])) == seen(iter(model.lake.values()))
    assert len(found["t"]) == sum(map(is_whole, model.lake.values()))
    assert seen(row for row in found["t_past"] if row["_is_current"]) == seen(iter(model.lake.values()))
    assert seen(row for row in found["t_soft"] if not row["_deleted"]) == seen(
        row for row in model.soft.values() if not row.get("_deleted")
    )
    logged = [
        (row["_op"], *(row[name] for name in SEEN))
        for row in found["t_log"]
        if row["_op"] not in ("load", "truncate")
        if tuple(row["_position"][name] for name in ("stretch", "number", "offset")) >= loaded_at.order
    ]
    expected = [(kind, *(row[name] for name in SEEN)) for kind, row in model.log if is_whole(row)]
    assert sorted(map(repr, logged)) == sorted(map(repr, expected))


@pytest.mark.parametrize(
    "image", [pytest.param("MINIMAL", marks=pytest.mark.thorough), pytest.param("NOBLOB", marks=pytest.mark.long)]
)
def test_a_loaded_row_tells_rules_what_images_leave_out(
    image: str, shop: Shop, spark: SparkSession, summary: list[str]
) -> None:
    model, generator = LoadedModel(), random.Random(SEED)
    shop.execute(TABLE, f"SET binlog_row_image = {image}")
    for row in older_rows():
        shop.execute(insertion(row))
        model.server[row["id"]] = row
    later = Shop(spark, shop.database, shop.folder, shop.end())
    pipeline = pipeline_of(later, live=True, **rules_of(later))
    # Rows change before the load, while it reads, and before its rows are in silver; keys 0 to 2 and 9 to 11 never do.
    later.execute(*early_statements(generator, model, image, [3, 4, 12]))
    keys = {READING: [5, 6, 13], READ: [7, 8, 14]}

    def on_progress(_: TableName, progress: LoadCommit) -> None:
        if progress.state == READ:
            model.load()
        later.execute(*early_statements(generator, model, image, keys.pop(progress.state, [])))

    loaded = load_source(spark, pipeline, SOURCE, on_progress=on_progress)
    assert (loaded.stopped, keys) == ({}, {})
    loaded_at, left_out = later.end(), 0
    model.log.clear()
    require_model(later, pipeline, model, loaded_at)
    for number in range(5):
        if number == 2:
            # Loaded again, it has what filtered changes set.
            model.load()
            assert load_source(spark, pipeline, SOURCE, tables=[f"{shop.database.name}.t"], is_again=True).stopped == {}
            loaded_at = later.end()
            model.log.clear()
        elif number == 4:
            model.truncate()
            later.execute("TRUNCATE t")
        later.execute(*late_statements(generator, model, image, STATEMENTS))
        _, outcome = later.run(pipeline)
        assert outcome.stopped == {}
        left_out += sum(sum(job.left_out.values()) for job in outcome.compacted)
        require_model(later, pipeline, model, loaded_at)
    assert model.server == {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in shop.truth("t")}
    assert left_out > 0
    for begin in (later.start, loaded_at):
        replayed = backfill_source(
            spark, pipeline, SOURCE, Range(begin, later.end()), lambda _: True, options=BackfillOptions()
        )
        assert replayed.stopped == {}
        require_model(later, pipeline, model, loaded_at)
    summary.append(f"loaded rows, rules and {image}: {left_out} changes filtered, {len(model.log)} kept, no difference")


def test_what_no_loaded_row_has_stops_the_table(shop: Shop) -> None:
    """A row that a rule filtered at the load, and one that changes before it is loaded."""
    rows = "VALUES (1, -1, 1), (2, 2, 2)"
    for table in "fs":
        shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, w INT)", f"INSERT INTO {table} {rows}")
    later = Shop(shop.spark, shop.database, shop.folder, shop.end())
    tables = [f"{shop.database.name}.{table}" for table in "fs"]
    rule = {"tables": tables, "insert-value-expr": "v < 0", "update-new-value-expr": "v < 0"}
    pipeline = later.pipeline(live=True, row_filters={"f": rule})
    later.execute("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE s SET w = 7 WHERE id = 2")
    loaded = load_source(later.spark, pipeline, SOURCE)
    assert {name.table for name in loaded.tables} == {"f"}
    later.execute("UPDATE f SET w = 7 WHERE id = 2", "UPDATE f SET v = -2 WHERE id = 2", "UPDATE f SET w = 8")
    _, outcome = later.run(pipeline)
    assert later.merged(pipeline, "f") == [(2, 2, 7)], "up to the change of both rows"
    for name, reason in (loaded.stopped | outcome.stopped).items():
        assert "column v out" in reason, name
        assert "nor its loaded row has it" in reason, name
    assert {name.table for name in outcome.stopped} == {"f", "s"}
    assert {name.table for name in loaded.stopped} == {"s"}
