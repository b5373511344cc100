"""Tables whose columns nothing names: they stop, or are read by number, as the configuration says."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import verify_source
from spark_jobs.cli.group import cli
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.downstream import merge_job, publication
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.observation.status import status
from spark_jobs.operations.repair import plan_reset, reset
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.initial_load.load import load_source
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.fix_servers import build_or_skip
from tests.pipeline.test_schema_dump import begin_log, copied
from tests.services.schema_dumps import execute, schema_dump

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

MADE = (
    "CREATE DATABASE shop DEFAULT CHARACTER SET latin1",
    "USE shop",
    """CREATE TABLE t (id INT PRIMARY KEY, tiny TINYINT, medium MEDIUMINT UNSIGNED, big BIGINT UNSIGNED,
        name VARCHAR(9) CHARACTER SET utf8mb4, old VARCHAR(9), e ENUM('x','y'), s SET('a','b'), d DECIMAL(7,2),
        at DATETIME, b VARBINARY(5))""",
    """INSERT INTO t VALUES (1, -1, 16777215, 18446744073709551615, '\u20ac', 'caf\u00e9', 'y', 'a,b', 1.25,
        '2024-02-29 12:00:00', x'01ff'), (2, 7, 7, 7, 'two', 'two', 'x', '', -1, '0000-00-00', 'x'),
        (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""",
    "CREATE TABLE grown (id INT PRIMARY KEY, v INT)",
    "INSERT INTO grown VALUES (1, 1), (2, 2)",
    "CREATE TABLE anew (id INT PRIMARY KEY, v INT)",
    "INSERT INTO anew VALUES (1, 1)",
    "CREATE TABLE late (id INT PRIMARY KEY, v INT)",
)
WRITTEN = (
    "UPDATE t SET id = id + 10",
    "UPDATE t SET d = 2.5 WHERE id = 11",
    "DELETE FROM t WHERE id = 12",
    "INSERT INTO t (id, tiny, name) VALUES (4, -128, 'four')",
    "UPDATE grown SET v = v + 1",
    "INSERT INTO late VALUES (1, 1), (2, 2)",
    "UPDATE anew SET v = 2",
    "CREATE TABLE named (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1)",
    "INSERT INTO named VALUES (1, 'x')",
)
BEHIND = (
    "ALTER TABLE t DROP COLUMN name",
    "INSERT INTO t (id) VALUES (5)",
    "ALTER TABLE grown ADD INDEX (v), ADD w VARCHAR(5) CHARACTER SET utf8mb4 DEFAULT 'w'",
    "INSERT INTO grown VALUES (3, 3, 'x')",
    "INSERT INTO grown VALUES (4, -4, 'y')",
    "DELETE FROM grown WHERE id = 3",
    "INSERT INTO named VALUES (2, 'y')",
)


@dataclass(frozen=True)
class Log:
    shop: Shop
    server: MySQLServer
    build: str
    files: Path

    def execute(self, *statements: str) -> None:
        execute(self.server, "USE shop", *statements)

    def pipeline(self, **keys: Any) -> Pipeline:
        """Of the files alone, as far as they are written now."""
        dump = keys.pop("schema_dump", None)
        source = {"files": str(copied(self.server, self.files))} | ({"schema_dump": dump} if dump else {})
        return self.shop.pipeline(sources={SOURCE: source}, tables=["shop.*"], **keys)

    def run(self, pipeline: Pipeline) -> dict[str, str]:
        """Reasons why tables stopped."""
        _, outcome = self.shop.run(pipeline)
        return {name.table: reason for name, reason in outcome.stopped.items()}

    def selected(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        return list(self.shop.database.execute(f"SELECT {columns} FROM {table}"))


@pytest.fixture(params=["mysql-5.7", pytest.param("mysql-8.0", marks=pytest.mark.long)])
def log(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Log]:
    """A log that names no columns and begins behind the CREATE TABLEs."""
    build = build_or_skip(request.param)
    options = {"binlog_row_metadata": None, "sql_mode": "NO_ENGINE_SUBSTITUTION"}
    with MySQLServer(tmp_path / "server", options, build) as server, server.connect(database=None) as connection:
        execute(server, *MADE)
        begin_log(server)
        execute(server, "USE shop", *WRITTEN)
        connection.select_db("shop")
        shop = Shop(spark, Database("shop", server, connection), tmp_path, Position("mysql-bin.000001", 4))
        yield Log(shop, server, request.param, tmp_path / "log")


def by_position(log: Log, pipeline: Pipeline, table: str) -> list[tuple[Any, ...]]:
    """The downstream rows, what only ``_raw`` tells in its place."""
    frame = lake_of(pipeline).downstream("shop", table).read(log.shop.spark)
    names = [name for name in frame.columns if name not in merge_job.ADDED]
    cells = frame.select(*(f"`{name}`" for name in names), "_raw").collect()
    return [
        tuple(_exact(cell, (raw or {}).get(name)) for name, cell in zip(names, row, strict=True)) for *row, raw in cells
    ]


def _exact(cell: Any, exact: str | None) -> Any:
    return exact if cell is None else bytes(cell) if isinstance(cell, bytearray) else cell


def texts(rows: list[tuple[Any, ...]]) -> list[tuple[str | None, ...]]:
    """Rows by their texts, sorted."""
    return sorted((tuple(None if cell is None else str(cell) for cell in row) for row in rows), key=repr)


def sign_unknown(number: int | None, bits: int) -> int | str | None:
    """A number as the lake has it where its sign is not told; ``number``: as it would be signed."""
    signed = number if number is None or number < 1 << (bits - 1) else number - (1 << bits)
    return f"{signed} or {signed + (1 << bits)}" if signed is not None and signed < 0 else number


def expected(log: Log) -> list[tuple[Any, ...]]:
    """The rows of ``t`` as they are to be by place: numbers of labels, and what the log tells of signs and texts."""
    rows = log.selected("t", "id, tiny, medium, big, name, HEX(old), e + 0, s + 0, d, CAST(at AS CHAR), HEX(b)")
    return [_expected(row, has_signedness=log.build != "mysql-5.7") for row in rows]


def _expected(row: tuple[Any, ...], *, has_signedness: bool) -> tuple[Any, ...]:
    *numbers, name, old, e, s, d, at, b = row
    labels = [None if label is None else int(label) for label in (e, s)]
    if has_signedness:
        texts = [old and bytes.fromhex(old).decode("latin1"), b and bytes.fromhex(b)]
    else:
        numbers = [sign_unknown(number, bits) for number, bits in zip(numbers, (32, 8, 24, 64), strict=True)]
        texts = [text and _utf8_or_hex(bytes.fromhex(text)) for text in (old, b)]
    return *numbers, name, texts[0], *labels, d, at, texts[1]


def _utf8_or_hex(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.hex()


def versions(pipeline: Pipeline) -> dict[str, tuple[int, int]]:
    entries = publication.read(lake_of(pipeline), SOURCE)
    return {entry.table: (entry.silver_version or 0, entry.downstream_version or 0) for entry in entries}


@pytest.mark.thorough
def test_columns_that_nothing_names_are_read_by_number_where_that_is_chosen(log: Log, summary: list[str]) -> None:
    truth = texts(expected(log))
    log.execute(*BEHIND)
    pipeline = log.pipeline()
    stopped = log.run(pipeline)
    assert stopped.keys() == {"t", "grown", "anew", "late"}
    assert all("the log does not name its columns" in reason for reason in stopped.values())
    require_same(log.shop, pipeline, "named")

    pipeline = log.pipeline(on_unnamed="number")
    stopped = log.run(pipeline)
    assert stopped.keys() == {"t"}
    assert "nothing names the columns that the table had before it" in stopped["t"]
    assert "ALTER TABLE t DROP COLUMN name" in stopped["t"]
    assert texts(by_position(log, pipeline, "t")) == truth
    grown_rows = texts(by_position(log, pipeline, "grown"))
    negative = "-4" if log.build == "mysql-8.0" else "-4 or 4294967292"
    assert grown_rows == texts([(1, 2, "w"), (2, 3, "w"), (4, negative, "y")])
    assert lake_of(pipeline).downstream("shop", "grown").read(log.shop.spark).columns[:3] == ["@1", "@2", "w"]
    require_same(log.shop, pipeline, "named")
    states = {table.table: table for table in status(pipeline, lake_of(pipeline), SOURCE).tables}
    assert {name for name, status in states.items() if status.numbered} == {
        f"shop.{name}" for name in ("t", "grown", "anew", "late")
    }
    assert (states["shop.t"].state, states["shop.grown"].state) == ("stopped", "current")
    assert states["shop.t"].silver == states["shop.t"].downstream
    path = str(log.shop.folder / "pipeline.yaml")
    assert "shop.grown has numbers for columns" in CliRunner().invoke(cli, ["status", "-c", path]).stderr

    before = versions(pipeline)
    assert log.run(pipeline).keys() == {"t"}
    assert versions(pipeline) == before, "nothing is done twice"
    head = lake_of(pipeline).bronze(SOURCE).head()
    assert head is not None
    assert head.position is not None
    log_range = Range(Position("mysql-bin.000001", 4), head.position)
    outcome = backfill_source(log.shop.spark, pipeline, SOURCE, log_range, lambda name: name.table in ("t", "grown"))
    assert outcome.stopped == {}
    assert texts(by_position(log, pipeline, "t")) == truth
    assert texts(by_position(log, pipeline, "grown")) == grown_rows
    summary.append(f"{log.build}: {len(truth)} rows by number, as they were before DROP COLUMN")


@pytest.mark.long
def test_a_numbered_table_gets_its_names_where_it_is_made_anew_or_begun_anew(log: Log) -> None:
    """CREATE gives them by itself; a dump that comes later, behind reset."""
    pipeline = log.pipeline(on_unnamed="number")
    assert log.run(pipeline) == {}
    log.execute(
        "DROP TABLE anew", "CREATE TABLE anew (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO anew VALUES (1, -1, 2)"
    )
    log.execute("INSERT INTO late VALUES (3, -3)")
    pipeline = log.pipeline(on_unnamed="number")
    assert log.run(pipeline) == {}
    require_same(log.shop, pipeline, "anew")
    assert len(by_position(log, pipeline, "late")) == 3
    entries = {entry.table: entry.numbered for entry in publication.read(lake_of(pipeline), SOURCE)}
    assert entries == {"anew": None, "grown": True, "late": True, "named": None, "t": True}

    (log.shop.folder / "schema.sql").write_text(schema_dump(log.build, log.server, "shop")[0], encoding="utf-8")
    log.execute("INSERT INTO late VALUES (4, 4)")
    pipeline = log.pipeline(on_unnamed="number", schema_dump="schema.sql")
    stopped = log.run(pipeline)
    assert "late" in stopped
    assert "names them now; rebuild it with the names (stratalog reset" in stopped["late"]
    reset(pipeline, SOURCE, plan_reset(pipeline, SOURCE, "shop.late"))
    assert "late" not in log.run(pipeline)
    require_same(log.shop, pipeline, "late")


def test_what_goes_by_names_is_refused_of_a_numbered_table(shop: Shop) -> None:
    """A live server, whose definition of the log's end cannot be led back over DROP COLUMN."""
    shop.execute("CREATE TABLE part_1 (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO part_1 VALUES (1, 1, 1)")
    shop.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    shop, db = replace(shop, start=shop.end()), shop.database.name
    try:
        shop.execute("UPDATE part_1 SET b = -5", "INSERT INTO part_1 VALUES (3, 3, 3), (4, 4, 4)")
        expected = shop.truth("part_1")
        shop.execute("ALTER TABLE part_1 DROP COLUMN a", "DELETE FROM part_1 WHERE id = 3")
        routes = [{"from": f"{db}.part_*", "to": f"{db}.parts"}]
        _, outcome = shop.run(shop.pipeline(live=True, on_unnamed="number", routes=routes))
        (reason,) = outcome.stopped.values()
        assert "route it to a table of its own" in reason

        pipeline = shop.pipeline(live=True, on_unnamed="number")
        shop.run(pipeline)
        assert shop.merged(pipeline, "part_1") == expected
        (verdict,) = verify_source(shop.spark, pipeline, SOURCE)
        assert (verdict.state, verdict.is_right) == ("not compared", False)
        assert "its columns have no names" in str(verdict.reason)
        loaded = load_source(shop.spark, pipeline, SOURCE, tables=[f"{db}.part_1"])
        assert "cannot be loaded: its columns have no names" in loaded.stopped[TableName(db, "part_1")]
        assert shop.merged(pipeline, "part_1") == expected
    finally:
        shop.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
