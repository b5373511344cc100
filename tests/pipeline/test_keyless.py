"""Tables without a key, from a server's log through the engine without Spark: each layer is what the server SELECTs.

Put here: random statements over columns of every kind, on real servers. Not here: the copies of a merge alone
(spark_jobs/engine/merge/test_keyless_merge.py), or faults (faults/).
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.lake.layout import lake_of
from tests.faults import runs
from tests.faults.changes import bronze_tables
from tests.faults.checking import rows_of_snapshot
from tests.fix_mysql import Database, database_of
from tests.fix_pipeline import SOURCE
from tests.fix_servers import Servers, telling

pytestmark = pytest.mark.mysql

MODES = ("append", "history")
VALUES = {
    "n INT": ["NULL", "0", "1"],
    "s VARCHAR(4) COLLATE utf8mb4_general_ci": ["NULL", "''", "'a'", "'A'", "'a '"],
    "f DOUBLE": ["NULL", "0", "-0e0", "2.5e-300"],
    "r FLOAT": ["NULL", "0.5", "-0e0"],
    "m DECIMAL(20,3)": ["NULL", "0", "-1.250"],
    "b VARBINARY(4)": ["NULL", "''", "X'00'", "X'0000'"],
    "d DATE": ["NULL", "'2024-02-29'", "'0000-00-00'", "'2024-00-10'"],
    "t DATETIME(3)": ["NULL", "'2024-01-01 10:00:00.5'"],
    "j JSON": ["NULL", "'[]'", "'{\"a\": 1}'"],
    "g POINT": ["NULL", "ST_GeomFromText('POINT(1 2)')"],
    "e ENUM('x','y')": ["NULL", "'x'", "'y'"],
}
NAMES = [column.partition(" ")[0] for column in VALUES]


@dataclass
class Statements:
    """Random statements about one table; its rows are few and repeat."""

    chance: Random
    values: dict[str, list[str]]
    has_ddl: bool
    added: list[str] = field(default_factory=list)
    count: int = 0

    def random(self, count: int) -> Iterator[str]:
        for _ in range(count):
            kind = self.chance.randrange(12)
            if kind < 5:
                yield self.insert()
            elif kind < 8:
                name, value = self._cell()
                yield f"UPDATE t SET {name} = {value} WHERE {self._condition()} LIMIT 3"
            elif kind < 10:
                yield f"DELETE FROM t WHERE {self._condition()} LIMIT 2"
            elif not self.has_ddl:
                yield self.insert()
            elif kind == 10 and self.chance.random() < 0.2:
                yield "TRUNCATE TABLE t"
            elif self.added and self.chance.random() < 0.3:
                yield f"ALTER TABLE t DROP COLUMN {self.added.pop()}"
            elif self.chance.random() < 0.4:
                self.count += 1
                self.added.append(f"x{self.count}")
                yield f"ALTER TABLE t ADD COLUMN x{self.count} INT NOT NULL DEFAULT 7"

    def insert(self) -> str:
        # Few columns differ from one row to the next, so that rows are equal by chance.
        cells = {column.partition(" ")[0]: values[0] for column, values in self.values.items()}
        for _ in range(self.chance.randrange(3)):
            name, value = self._cell()
            cells[name] = value
        values = ", ".join(cells.values())
        return f"INSERT INTO t ({', '.join(cells)}) VALUES " + ", ".join([f"({values})"] * self.chance.randrange(1, 4))

    def _cell(self) -> tuple[str, str]:
        column = self.chance.choice([*self.values])
        return column.partition(" ")[0], self.chance.choice(self.values[column])

    def _condition(self) -> str:
        name = self.chance.choice(NAMES[:3])
        return self.chance.choice([f"{name} IS NULL", f"{name} IS NOT NULL", "TRUE"])


def server_rows(database: Database, names: Sequence[str]) -> Counter[Any]:
    special = {"d": "CAST(d AS CHAR)", "g": "ST_AsText(g)", "t": "CAST(t AS CHAR)"}
    query = ", ".join(special.get(name, name) for name in names)
    return Counter(tuple(map(_comparable_value, names, row)) for row in database.execute(f"SELECT {query} FROM t"))


def lake_rows(pipeline: Pipeline, schema: str, names: Sequence[str]) -> Counter[Any]:
    snapshot = snapshot_of(lake_of(pipeline).downstream(schema, "t").path)
    assert snapshot is not None
    rows = rows_of_snapshot(snapshot)
    current = [row for row in rows if row.get("_is_current", True)]
    return Counter(tuple(_comparable_value(name, _stored(name, row)) for name in names) for row in current)


def _stored(name: str, row: dict[str, Any]) -> Any:
    value = dict(row["_raw"] or ()).get(name, row[name])
    if name == "t" and value is not None:
        return value.isoformat(" ", timespec="milliseconds")
    if name == "g" and value is not None:
        return "POINT(1 2)" if value["wkb"].hex() == POINT else value["wkb"].hex()
    return value


POINT = "0101000000000000000000f03f0000000000000040"


def _comparable_value(name: str, value: Any) -> Any:
    """As both sides have it: 0 and -0 are two numbers, documents are compared as such."""
    if isinstance(value, float):
        return value.hex()
    if name == "j" and value is not None:
        return json.dumps(json.loads(value), sort_keys=True)
    return str(value) if name in ("d", "m") and value is not None else value


@pytest.mark.parametrize("server", ["mysql-8.0", pytest.param("mariadb-11.4", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "has_ddl", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["dates that no column holds", "DDL"]
)
@pytest.mark.parametrize(
    "seed, count", [(1, 60), *(pytest.param(seed, 150, marks=pytest.mark.long) for seed in (1, 2, 3))]
)
def test_each_layer_is_what_the_server_selects(
    server: str, seed: int, count: int, has_ddl: bool, servers: Servers, tmp_path: Path
) -> None:
    # Exact texts and statements that change columns go by another way together.
    values = {
        column: [value for value in listed if not (has_ddl and "0-" in value)] for column, listed in VALUES.items()
    }
    running = servers.get(server)
    with telling(running, "FULL"), database_of(running) as database:
        database.execute("FLUSH BINARY LOGS")
        database.execute("SET SESSION sql_mode = ''")
        database.execute(f"CREATE TABLE t ({', '.join(VALUES)})")
        statements = Statements(Random(seed), values, has_ddl)
        for statement in statements.random(count):
            database.execute(statement)
        name = database.execute("SHOW MASTER STATUS")[0][0]
        content = (Path(running.data) / name).read_bytes()
        names = [*NAMES, *statements.added]
        expected = server_rows(database, names)
        schema = database.name
    pipeline = pipeline_of(tmp_path, schema)
    # Bronze grows in parts, with a run after each.
    with runs.without_spark():
        for number, (path, _) in enumerate(bronze_tables(content, tmp_path / "steps", 4)):
            link = tmp_path / "lake" / "bronze" / SOURCE
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(path)
            assert runs.run(pipeline, seed + number) == {}
    assert expected
    assert lake_rows(pipeline, schema, names) == expected
    assert lake_rows(pipeline, "history", names) == expected


def pipeline_of(folder: Path, schema: str) -> Pipeline:
    path = folder / "pipeline.yaml"
    described = {
        "lake": str(folder / "lake"),
        "sources": {SOURCE: {"files": str(folder)}},
        "tables": [f"{schema}.*"],
        "routes": [{"from": f"{schema}.*", "to": [f"{schema}.{{1}}", *(f"{mode}.{{1}}" for mode in MODES)]}],
        "downstream": [{"tables": f"{mode}.*", "mode": mode} for mode in MODES],
    }
    path.write_text(yaml.safe_dump(described), encoding="utf-8")
    return load(path, {})
