"""Rules about columns that row images leave out: what is filtered, and the rows that are left, by a plain model."""

import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.repair import add, plan_skip
from spark_jobs.pipeline.as_of.tables_at import tables_at
from spark_jobs.pipeline.backfill.request import BackfillOptions
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.initial_load.load import load_source
from tests.fix_pipeline import SOURCE, Shop
from tests.lakes.lake_tables import table_rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

SEED = int(os.environ.get("STRATALOG_SEED", "1"))
STATEMENTS = int(os.environ.get("STRATALOG_STATEMENTS", "25"))
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, price INT NOT NULL DEFAULT 2, n INT, hidden INT, note TEXT)"
COLUMNS = ("id", "price", "n", "hidden", "note")
CONDITION = "note COLLATE utf8mb4_0900_bin = 'x' OR hidden > 5"
SEEN = ("id", "price", "n", "note", "total", "big")
SOURCES = {"total": {"price", "n"}, "big": {"n"}}
MODES = {"t": "mirror", "t_log": "append", "t_past": "history", "t_soft": "soft_delete"}
Row = dict[str, Any]


def is_filtered(row: Row) -> bool:
    return row["note"] == "x" or (row["hidden"] is not None and row["hidden"] > 5)


def computed(row: Row) -> Row:
    n = row["n"]
    return {"total": None if n is None else Decimal(row["price"] * n), "big": None if n is None else n > 3}


@dataclass
class Model:
    """The server's rows, and those of the lake with the columns that it knows; the changes that it has, in order."""

    server: dict[int, Row] = field(default_factory=dict)
    lake: dict[int, Row] = field(default_factory=dict)
    soft: dict[int, Row] = field(default_factory=dict)
    log: list[tuple[str, Row]] = field(default_factory=list)

    def insert(self, row: Row) -> None:
        self.server[row["id"]] = row
        if not is_filtered(row):
            self._keep("insert", row["id"], row | computed(row))

    def update(self, key: int, values: Row, image: str) -> None:
        before = self.server[key]
        row = before | values
        if row == before:
            return
        self.server[key] = row
        if is_filtered(row):
            return
        # What the image has: what was set, or under NOBLOB all but a text that was not.
        held = {*values} if image == "MINIMAL" else {*COLUMNS} - ({"note"} - {*values})
        cells = {name: row[name] for name in held}
        cells |= {name: value for name, value in computed(row).items() if SOURCES[name] & held}
        self._keep("update", key, self.lake.get(key, {"id": key}) | cells)

    def delete(self, key: int) -> None:
        row = self.server.pop(key)
        if is_filtered(row):
            return
        self.log.append(("delete", self.lake.get(key, {"id": key})))
        self.soft[key] = self.lake.pop(key, {"id": key}) | {"_deleted": True}

    def _keep(self, kind: str, key: int, row: Row) -> None:
        self.lake[key] = self.soft[key] = row
        self.log.append((kind, row))


def is_whole(row: Row) -> bool:
    return {*SEEN} <= {*row}


def seen(rows: Iterator[Row]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in SEEN) for row in rows if is_whole(row)), key=repr)


def statements(generator: random.Random, model: Model, image: str, count: int) -> Iterator[str]:
    """Random statements, each of one row, done by the model too."""
    for _ in range(count):
        key = generator.randrange(12)
        values: Row = {
            "price": generator.randrange(9),
            "n": generator.choice([None, 1, 4, 5]),
            "hidden": generator.choice([None, 1, 6, 9]),
            "note": generator.choice(["x", "y", "z"]),
        }
        chosen = {name: values[name] for name in generator.sample([*values], generator.choice([1, 1, 2]))}
        if key not in model.server:
            row = {"id": key, "price": 2, "n": None, "hidden": None, "note": None} | chosen
            model.insert(row)
            names = ["id", *chosen]
            yield f"INSERT INTO t ({', '.join(names)}) VALUES ({', '.join(sql(row[name]) for name in names)})"
        elif generator.random() < 0.2:
            model.delete(key)
            yield f"DELETE FROM t WHERE id = {key}"
        else:
            model.update(key, chosen, image)
            sets = ", ".join(f"{name} = {sql(value)}" for name, value in chosen.items())
            yield f"UPDATE t SET {sets} WHERE id = {key}"


def sql(value: Any) -> str:
    return "NULL" if value is None else repr(value)


def rules_of(shop: Shop) -> dict[str, Any]:
    name = f"{shop.database.name}.t"
    return {
        "row_filters": {
            "test": {
                "tables": [name],
                "insert-value-expr": CONDITION,
                "update-new-value-expr": CONDITION,
                "delete-value-expr": CONDITION,
            }
        },
        "columns": {
            "shape": {
                "tables": [name],
                "exclude": ["hidden"],
                "computed": {
                    "total": {"sql": "price * n", "type": "DECIMAL(21,0)"},
                    "big": {"sql": "n > 3", "type": "BOOLEAN"},
                },
            }
        },
    }


def pipeline_of(shop: Shop, *, live: bool = False, **rules: Any) -> Pipeline:
    """A table in all modes."""
    schema = shop.database.name
    return shop.pipeline(
        live=live,
        routes=[{"from": f"{schema}.t", "to": [f"{schema}.{name}" for name in MODES]}],
        downstream=[{"tables": f"{schema}.{name}", "mode": mode} for name, mode in MODES.items() if mode != "mirror"],
        **rules,
    )


def require_model(shop: Shop, pipeline: Pipeline, model: Model) -> None:
    found = {}
    for name in MODES:
        table = lake_of(pipeline).downstream(shop.database.name, name)
        found[name] = [row.asDict() for row in table_rows(table)]
    assert seen(iter(found["t"])) == seen(iter(model.lake.values()))
    assert len(found["t"]) == sum(map(is_whole, model.lake.values()))
    current = [row for row in found["t_past"] if row["_is_current"]]
    assert seen(iter(current)) == seen(iter(model.lake.values()))
    assert seen(row for row in found["t_soft"] if not row["_deleted"]) == seen(
        row for row in model.soft.values() if not row.get("_deleted")
    )
    logged = [(row["_op"], *(row[name] for name in SEEN)) for row in found["t_log"]]
    expected = [(kind, *(row[name] for name in SEEN)) for kind, row in model.log if is_whole(row)]
    assert sorted(map(repr, logged)) == sorted(map(repr, expected))


@pytest.mark.thorough
@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_rules_see_the_rows_of_the_server(image: str, shop: Shop, spark: SparkSession, summary: list[str]) -> None:
    pipeline, model, generator = pipeline_of(shop, **rules_of(shop)), Model(), random.Random(SEED)
    shop.execute(TABLE, f"SET binlog_row_image = {image}")
    left_out, moments = 0, list[tuple[Position, list[tuple[Any, ...]]]]()
    for _ in range(4):
        for _ in range(2):
            shop.execute(*statements(generator, model, image, STATEMENTS // 2))
            moments.append((shop.end(), seen(iter(model.lake.values()))))
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}
        left_out += sum(sum(job.left_out.values()) for job in outcome.compacted)
        require_model(shop, pipeline, model)
    assert model.server == {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in shop.truth("t")}
    assert left_out > 0
    for at, expected in moments:
        with tables_at(pipeline, SOURCE, [f"{shop.database.name}.t"], at) as source_at:
            (table,) = source_at.tables
            assert seen(iter(table.selection().table().to_pylist())) == expected, at
    # A part of the log that is decoded again is judged by what stands before it, too.
    replayed = backfill_source(
        spark, pipeline, SOURCE, Range(shop.start, shop.end()), lambda _: True, options=BackfillOptions()
    )
    assert replayed.stopped == {}
    require_model(shop, pipeline, model)
    summary.append(f"rules and {image}: {left_out} changes filtered, {len(model.log)} kept, no difference")


OLDER = ("CREATE TABLE o (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO o VALUES (1,1,1), (2,2,2), (3,3,3)")


def test_a_table_that_a_rule_stops_goes_on_as_the_message_says(shop: Shop) -> None:
    """The column is excluded from the lake, and rows are older than the log: nothing tells its value."""
    shop.execute(*OLDER)
    later = Shop(shop.spark, shop.database, shop.folder, shop.end())
    name = f"{shop.database.name}.o"
    row_filter = {"tables": [name], "update-new-value-expr": "v < 0"}
    pipeline = later.pipeline(
        live=True, row_filters={"f": row_filter}, columns={"c": {"tables": [name], "exclude": ["v"]}}
    )
    assert load_source(later.spark, pipeline, SOURCE, tables=(name,)).outcome.stopped == {}
    later.execute("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE o SET w = 7 WHERE id = 1")
    _, outcome = later.run(pipeline)
    (reason,) = outcome.stopped.values()
    remedy = (
        "SET GLOBAL binlog_row_image = 'FULL' and quarantine the change (stratalog skip), whose row stays as it was "
        "until its next change, or take the column out of the rule"
    )
    stop = re.search(rf"(\S+:\d+): row_filters\.f.*; {re.escape(remedy)}$", reason)
    assert stop, reason

    later.execute("SET SESSION binlog_row_image = 'FULL'", "UPDATE o SET w = 8 WHERE id = 2")
    add(pipeline, SOURCE, plan_skip(pipeline, SOURCE, stop[1]))
    _, outcome = later.run(pipeline)
    assert outcome.stopped == {}
    assert later.merged(pipeline, "o") == [(1, 1), (2, 8), (3, 3)]
    later.execute("UPDATE o SET w = w + 2 WHERE id <> 2")
    _, outcome = later.run(pipeline)
    assert outcome.stopped == {}
    assert later.merged(pipeline, "o") == [(key, w) for key, _, w in later.truth("o")] == [(1, 9), (2, 8), (3, 5)]
