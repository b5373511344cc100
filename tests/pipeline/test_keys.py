"""What tells rows apart: keys of every kind, and tables without one. Downstream is what the server SELECTs."""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs import compact
from spark_jobs.backfill import backfill_source
from spark_jobs.binlog import TableName
from spark_jobs.config import Pipeline
from spark_jobs.pipeline import lake_of
from spark_jobs.position import Position, Range
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.fix_servers import Servers

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

FIRST_SEED = int(os.environ.get("STRATALOG_SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("STRATALOG_RUNS", "1")))

NO_KEY = "bag"
TABLES = {
    "one": "CREATE TABLE one (v INT, a INT NOT NULL, b INT NOT NULL, UNIQUE second (b), UNIQUE (a), KEY (v))",
    "pair": "CREATE TABLE pair (v INT, s VARCHAR(9) COLLATE utf8mb4_bin NOT NULL, n TINYINT NOT NULL, UNIQUE u (s, n))",
    "ci": "CREATE TABLE ci (v INT, s VARCHAR(9) COLLATE utf8mb4_general_ci NOT NULL UNIQUE)",
    "fixed": "CREATE TABLE fixed (v INT, s CHAR(4) NOT NULL, b VARBINARY(4) NOT NULL, UNIQUE (s, b)) CHARSET latin1",
    "number": "CREATE TABLE number (v INT, f DOUBLE PRIMARY KEY)",
    "day": "CREATE TABLE day (v INT, d DATE NOT NULL, t DATETIME(1) NOT NULL, UNIQUE (d, t))",
    NO_KEY: "CREATE TABLE bag (v INT, s VARCHAR(4), f FLOAT, d DATE, j JSON, UNIQUE (v, s, f))",
}
VALUES = {
    "one": ["1", "2", "3", "4", "5", "6"],
    "pair": ["'a', 1", "'A', 1", "'a ', 1", "'', 1", "'a', 2", "'ab', 1"],
    "ci": ["'a'", "'A'", "'b'", "'B'", "'c'", "'ç'"],
    "fixed": ["'a', 'a'", "'a ', 'a '", "'ä', X'00'", "'', X'0000'", "'A', ''"],
    "number": ["0", "-0e0", "1.5", "-1e300", "2.5e-300"],
    "day": ["'0000-00-00', '0000-00-00'", "'2024-00-00', '2024-01-01'", "'2024-01-00', '2024-01-01'"]
    + ["'2024-01-01', '2024-01-00'", "'2024-01-01', '2024-01-01'"],
    NO_KEY: ["'a', 0, NULL, NULL", "'a', -0e0, NULL, NULL", "'A', 0, '0000-00-00', NULL", "NULL, NULL, NULL, '[]'"]
    + ["'a', 0, NULL, '{\"a\": 1}'", "NULL, 1.5, '2024-00-00', NULL"],
}
COLUMNS = {"one": "a", "pair": "s, n", "ci": "s", "fixed": "s, b", "number": "f", "day": "d, t", NO_KEY: "s, f, d, j"}


def statements(some: random.Random, count: int) -> list[str]:
    """Random statements about all tables; keys change, swap and come again, and a bag's rows repeat."""
    found = []
    for _ in range(count):
        table = some.choice(list(TABLES))
        names, value = COLUMNS[table], some.choice(VALUES[table])
        other = "b, " if table == "one" else ""
        cells = f"{some.randrange(3)}, {value}" if table == NO_KEY else f"{some.randrange(99)}, {value}"
        if other:
            cells = f"{some.randrange(99)}, {some.randrange(1000, 9999)}, {value}"
        where = f"v % 3 = {some.randrange(3)}"
        first, *_ = names.split(", ")
        into = some.choice(VALUES[table]).split(", ")[0]
        found.append(
            some.choice(
                [
                    f"INSERT IGNORE INTO {table} (v, {other}{names}) VALUES ({cells})",
                    f"REPLACE INTO {table} (v, {other}{names}) VALUES ({cells})",
                    f"UPDATE IGNORE {table} SET {first} = {into} WHERE {where} LIMIT 2",
                    f"UPDATE IGNORE {table} SET v = v + 1 WHERE {where} LIMIT 3",
                    f"DELETE FROM {table} WHERE {where} LIMIT 1",
                ]
            )
        )
    return found


def require_equal(shop: Shop, pipeline: Pipeline, table: str) -> None:
    """Columns and rows of a downstream table are the server's; dates that no column holds by their exact texts."""
    listed = shop.database.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
        "ORDER BY ordinal_position",
        (shop.database.name, table),
    )
    asked = ", ".join(
        f"CAST(`{name}` AS CHAR)" if kind in ("date", "datetime", "json", "double", "float") else f"`{name}`"
        for name, kind in listed
    )
    truth = Counter(shop.database.execute(f"SELECT {asked} FROM `{table}`"))
    target = lake_of(pipeline).downstream(shop.database.name, table)
    if target.head() is None:
        assert not truth
        return
    frame = target.read(shop.spark)
    assert frame.columns[: len(listed)] == [name for name, _ in listed]
    found = Counter(_told(row.asDict(), listed) for row in frame.collect())
    assert found == truth, table


def _told(row: dict[str, Any], listed: Any) -> tuple[Any, ...]:
    return tuple(_cell(row[name], kind, (row["_raw"] or {}).get(name)) for name, kind in listed)


def _cell(value: Any, kind: str, exact: str | None) -> Any:
    if exact is not None:
        return exact
    if kind == "datetime" and value is not None:
        return value.isoformat(" ", timespec="milliseconds")[:-2]
    if kind in ("double", "float") and value is not None:
        return {"0.0": "0", "-0.0": "-0", "-1e+300": "-1e300", "2.5e-300": "2.5e-300"}.get(repr(value), repr(value))
    if isinstance(value, bytearray):
        return bytes(value)
    return str(value) if kind == "date" and value is not None else value


@pytest.mark.parametrize("seed", SEEDS)
def test_random_statements_about_tables_with_keys_of_every_kind_and_without_any(
    shop: Shop, seed: int, summary: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    some = random.Random(seed)
    pipeline = shop.pipeline()
    shop.execute("SET SESSION sql_mode = ''", *TABLES.values())
    runs, places = 4, [shop.start]
    for nth in range(runs):
        monkeypatch.setattr(compact, "_ONE_TASK", some.choice([1 << 20, -1]))
        shop.execute(*statements(some, 150))
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}, f"seed {seed}, run {nth}"
        for table in TABLES:
            require_equal(shop, pipeline, table)
        places.append(shop.end())
    before = heads(shop, pipeline)
    wanted = Range(*sorted(some.sample(places, 2)))
    outcome = backfill_source(shop.spark, pipeline, SOURCE, wanted, lambda _: True)
    assert outcome.stopped == {}
    assert heads(shop, pipeline) == before, "done again, nothing differs"
    summary.append(f"seed {seed}: {150 * runs} statements of {len(TABLES)} tables, {runs} runs, no difference")


def heads(shop: Shop, pipeline: Pipeline) -> list[Any]:
    lake = lake_of(pipeline)
    names = [TableName(shop.database.name, table) for table in TABLES]
    return [one for name in names for one in (lake.silver(SOURCE, *_pair(name)).head(), lake.downstream(*_pair(name)).head())]


def _pair(name: TableName) -> tuple[str, str]:
    return name.schema, name.table
