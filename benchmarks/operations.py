"""Single-row autocommit operations over ten tables of sixteen columns: two inserts, six updates and two deletes of ten.

The load that vendors of change data capture publish figures of: nothing is grouped, each operation is a transaction,
and each row is as wide as those of an application. The tables have rows before the log begins, so that updates and
deletes of the first operations find some.

Put here: the load, and how it is read. Not here: logs of other shapes (logs.py).
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from pymysql.cursors import Cursor
from pyspark.sql import SparkSession

from benchmarks import runs
from benchmarks.progress_lines import print_progress
from benchmarks.usage import metered
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer

TABLES = 10
WRITERS = 2
SCHEMA = "bench"
SOURCE = "log"
OPTIONS: dict[str, object] = {
    "max_binlog_size": 1 << 30,
    "innodb_flush_log_at_trx_commit": 0,
    "innodb_buffer_pool_size": "1G",
    "innodb_log_file_size": "256M",
}
_COLUMNS = (
    ("customer_id", "INT NOT NULL", "{n} * 7919 % 100003"),
    ("sku", "VARCHAR(32) NOT NULL", "CONCAT('SKU-', {n} * 31 % 9999)"),
    ("quantity", "SMALLINT NOT NULL", "{n} % 50"),
    ("price", "DECIMAL(12,2) NOT NULL", "({n} * 37 % 100000) / 100"),
    ("discount", "DOUBLE", "IF({n} % 3, {n} / 7, NULL)"),
    ("status", "VARCHAR(10) NOT NULL", "ELT(1 + {n} % 3, 'new', 'paid', 'shipped')"),
    ("note", "VARCHAR(255)", "IF({n} % 5, CONCAT('note for order ', {n}), NULL)"),
    ("is_paid", "TINYINT NOT NULL", "{n} % 2"),
    ("created_at", "DATETIME(3) NOT NULL", "'2024-01-01' + INTERVAL {n} % 10000000 SECOND"),
    ("updated_at", "TIMESTAMP(6) NOT NULL", "NOW(6)"),
    ("shipped_on", "DATE", "IF({n} % 4, '2024-01-01' + INTERVAL {n} % 365 DAY, NULL)"),
    ("warehouse", "INT", "{n} % 17"),
    ("weight", "FLOAT", "{n} % 1000 / 8"),
    ("tax", "DECIMAL(10,4)", "{n} % 10000 / 10000"),
    ("reference", "BIGINT", "{n} * 104729"),
)


def measure(spark: SparkSession, folder: Path, count: int) -> None:
    """Prints a line: how long ``count`` operations take through all layers, in a warm session."""
    with MySQLServer(folder / "server", OPTIONS) as server:
        print_progress(f"writing {count:,} operations")
        files = write_log(server, count)
    size = sum(file.stat().st_size for file in files)
    _run_operations(spark, folder / "warm", files[:1])
    print_progress("reading")
    print("| operations | MB of log | all layers, s | operations/s | processor s a million | MiB of Python, JVM |")
    print("| --- | --- | --- | --- | --- | --- |")
    with metered() as usage:
        changes = _run_operations(spark, folder / "measured", files)
    if changes != count:
        raise SystemExit(f"{changes:,} changes were read, {count:,} were written")
    cells = (
        f"{count:,}",
        f"{size / 1e6:,.0f}",
        f"{usage.seconds:.1f}",
        f"{count / usage.seconds:,.0f}",
        f"{usage.processor / count * 1e6:.1f}",
        f"{usage.python:,}, {usage.jvm:,}",
    )
    print(f"| {' | '.join(cells)} |", flush=True)


def _run_operations(spark: SparkSession, folder: Path, files: list[Path]) -> int:
    """Takes files of the log into a lake of their own. Returns the changes that silver counts."""
    log = folder / "binlogs"
    log.mkdir(parents=True)
    for file in files:
        (log / file.name).hardlink_to(file)
    return sum(table.changes for table in runs.run(spark, pipeline_of(folder), SOURCE).compacted)


def pipeline_of(folder: Path, **keys: object) -> Pipeline:
    """A pipeline over the files in ``folder / "binlogs"``, with further keys of pipeline.yaml."""
    document = {"lake": "./lake", "sources": {SOURCE: {"files": "./binlogs"}}, "tables": [f"{SCHEMA}.*"], **keys}
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(folder / "pipeline.yaml")


def write_log(server: MySQLServer, count: int) -> list[Path]:
    """Fills the tables, then logs so many operations. Returns the files that these alone are in."""
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {SCHEMA}")
        cursor.execute(f"USE {SCHEMA}")
        cursor.execute("SET cte_max_recursion_depth = 100000000")
        for nth in range(TABLES):
            for statement in statements(nth, count // TABLES):
                cursor.execute(statement)
        for writer in range(WRITERS):
            cursor.execute(_procedure(writer))
        cursor.execute("FLUSH BINARY LOGS")
        before = set(_server_files(server))
        first = max(before)
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(lambda writer: _operate(server, writer, count // TABLES), range(WRITERS)))
        cursor.execute("FLUSH BINARY LOGS")
    last = max(_server_files(server))
    log_files = sorted({first, *_server_files(server)} - (before - {first}) - {last})
    folder = server.data.parent / "written"
    folder.mkdir()
    return [Path(shutil.copy2(file, folder)) for file in log_files]


def _operate(server: MySQLServer, writer: int, rounds: int) -> None:
    with server.connect(autocommit=True, database=SCHEMA, read_timeout=None) as connection:
        cursor: Cursor = connection.cursor()
        cursor.execute(f"CALL operate_{writer}({rounds})")


def _server_files(server: MySQLServer) -> list[Path]:
    return list(server.data.glob("mysql-bin.[0-9]*[0-9]"))


def statements(nth: int, rows: int) -> Iterator[str]:
    """The table, with as many rows as operations will change or delete."""
    columns = ", ".join(f"{name} {kind}" for name, kind, _ in _COLUMNS)
    yield f"CREATE TABLE t{nth} (id BIGINT NOT NULL PRIMARY KEY, {columns}) CHARSET utf8mb4"
    yield (
        f"INSERT INTO t{nth} WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) "
        f"SELECT n, {_values('n')} FROM s"
    )


def _values(number: str) -> str:
    """Values of a row besides its id, by an expression of its number."""
    return ", ".join(expression.replace("{n}", number) for _, _, expression in _COLUMNS)


def _procedure(writer: int) -> str:
    """Each round does one operation on each table of a writer; ten rounds have two inserts, six updates, two deletes.

    Inserts take new ids at the end, deletes the least ids; updates go to any row between, in no order.
    """
    tables = range(writer, TABLES, WRITERS)
    inserts = "".join(f"INSERT INTO t{nth} SELECT at, {_values('at')}; " for nth in tables)
    updates = "".join(
        f"UPDATE t{nth} SET quantity = quantity + 1, status = 'paid', updated_at = NOW(6) WHERE id = at; "
        for nth in tables
    )
    deletes = "".join(f"DELETE FROM t{nth} WHERE id = low; " for nth in tables)
    return f"""
    CREATE PROCEDURE operate_{writer} (rounds BIGINT) BEGIN
      DECLARE i BIGINT DEFAULT 0; DECLARE low BIGINT DEFAULT 1; DECLARE high BIGINT DEFAULT rounds; DECLARE at BIGINT;
      WHILE i < rounds DO
        IF i % 5 = 0 THEN SET high = high + 1, at = high; {inserts}
        ELSEIF i % 5 = 4 THEN {deletes} SET low = low + 1;
        ELSE SET at = low + 1 + i * 7919 % (high - low - 1); {updates}
        END IF;
        SET i = i + 1;
      END WHILE;
    END"""
