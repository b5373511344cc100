"""Ticks of ten tables with ten changed rows each, as users configure them, beside the plain tick; and their catch-up.

One real server writes each tick once; each case has a lake, and reads the tables of one schema. All cases take their
turns in one session that is warm, so a tick is what a run takes beyond its session; the session's start is measured by
itself. Whole processes scatter by more than a tick takes.

Put here: the cases and their ticks. Not here: catching up with logs of many rows (cliff_logs.py).
"""

import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pymysql.cursors import Cursor
from pyspark.sql import SparkSession

from benchmarks import cliff_logs, runs
from benchmarks.progress_lines import print_progress
from benchmarks.usage import Usage, forget_peaks, metered
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.operations import repair

SOURCE = "shop"
TABLES = 10
ROWS = 1_000
"""Of a table before its first tick."""
WARM = 2
"""Ticks that are not measured."""
PLAIN = "plain"
REBUILT = "reset"
_RULE = {"tables": ["*.*"]}
_CREATE = (
    "CREATE TABLE {table} (id BIGINT NOT NULL, quantity INT NOT NULL, price DECIMAL(12,2) NOT NULL, sku VARCHAR(32) "
    "NOT NULL, status VARCHAR(10) NOT NULL, note TEXT, updated_at TIMESTAMP(6) NOT NULL, {key} (id)) CHARSET utf8mb4"
)
_FILL = (
    "INSERT INTO {table} WITH RECURSIVE s (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last}) "
    "SELECT n, n % 50, n * 37 % 10000 / 100, CONCAT('SKU-', n * 31 % 9999), 'new', CONCAT('note of order ', n), NOW(6) "
    "FROM s"
)


@dataclass(frozen=True, slots=True)
class Case:
    """Pipeline settings besides the tables, and how many plain ticks its tick may take."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    schema: str = "full"
    goal: float = 2


@dataclass(frozen=True, slots=True)
class Schema:
    """Ten tables on the server: the row image of the session that writes them, and how the index on id is declared."""

    name: str
    image: str = "FULL"
    key: str = "PRIMARY KEY"


SCHEMAS = Schema("full"), Schema("minimal", "MINIMAL"), Schema("noblob", "NOBLOB"), Schema("keyless", key="KEY")
ROW_FILTER = {
    "row_filters": {"few": _RULE | {"insert-value-expr": "quantity > 40", "update-new-value-expr": "quantity > 45"}}
}
_COMPUTED = {"total": {"sql": "price * 2", "type": "DECIMAL(21,2)"}}
CASES = (
    Case(PLAIN),
    Case("row filter", ROW_FILTER),
    Case("computed column", {"columns": {"all": _RULE | {"computed": _COMPUTED}}}),
    Case("mask", {"columns": {"all": _RULE | {"mask": {"sku": {"hash": "${BENCH_SALT}"}}}}}),
    Case("MINIMAL", schema="minimal"),
    Case("NOBLOB", schema="noblob"),
    Case("no key", schema="keyless"),
    Case("change data feed", {"downstream": [{"tables": "*.*", "change_data_feed": True}]}),
    Case("soft_delete", {"downstream": [{"tables": "*.*", "mode": "soft_delete"}]}),
    Case("append", {"downstream": [{"tables": "*.*", "mode": "append"}]}),
    Case("history", {"downstream": [{"tables": "*.*", "mode": "history"}]}),
    Case("history, row filter", ROW_FILTER | {"downstream": [{"tables": "*.*", "mode": "history"}]}),
    Case("ten shards into one", {"routes": [{"from": "full.t*", "to": "full.all"}]}),
    Case("compat: plain", {"compat": "plain"}, goal=3),
)


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """Cost of one run: its usage, the Spark jobs that it started, and the rows that it merged."""

    usage: Usage
    jobs: int
    rows: int


def measure(session: Callable[[], SparkSession], folder: Path, names: str, rounds: int, sizes: tuple[int, int]) -> None:
    """Prints the session's start, a line a case, and the catch-up with logs of ``sizes`` (rows, transactions).

    names: parts of the names of cases, separated by commas; without any, all. The plain ones always take part.
    """
    print_progress("starting Spark")
    with metered() as start:
        spark = session()
        spark.range(1).count()
    print(f"The session's start: {start.seconds:.1f} s, {start.processor:.1f} s of the processor.", flush=True)

    def is_chosen(name: str) -> bool:
        return not names or any(part in name for part in names.split(","))

    cases = [case for case in CASES if case.name == PLAIN or is_chosen(case.name)]
    if len(cases) > 1 or is_chosen(REBUILT):
        with MySQLServer(folder / "server") as server:
            _measure_ticks(spark, server, folder, cases, rounds, rebuilds=is_chosen(REBUILT))
    cliff_logs.measure(spark, folder, is_chosen, sizes, rounds)


def _measure_ticks(
    spark: SparkSession, server: MySQLServer, folder: Path, cases: Sequence[Case], rounds: int, *, rebuilds: bool
) -> None:
    print_progress("writing the tables")
    for schema in SCHEMAS:
        _write_statements(server, schema, _first)
    pipelines = {case.name: _case_pipeline(server, folder / f"{at}", case) for at, case in enumerate(cases)}
    for name, pipeline in pipelines.items():
        print_progress(f"{name}, first run")
        runs.run(spark, pipeline, SOURCE)
    measured_runs: dict[str, list[MeasuredRun]] = defaultdict(list)
    for tick in range(1, WARM + rounds + 1):
        print_progress(f"tick {tick}")
        for schema in SCHEMAS:
            _write_statements(server, schema, lambda table: _tick_changes(table, tick))  # noqa: B023 - it is called here
        for name, pipeline in pipelines.items():
            measured_runs[name].append(_measured_run(spark, pipeline))
    _print_ticks(cases, {name: all_runs[WARM:] for name, all_runs in measured_runs.items()})
    if rebuilds:
        _measure_rebuilds(spark, server, folder, pipelines[PLAIN], rounds)


def _print_ticks(cases: Sequence[Case], runs_by_case: Mapping[str, Sequence[MeasuredRun]]) -> None:
    print(
        f"\n| {TABLES} tables, ten changed rows each | median, s | least, s | times plain | goal "
        "| processor, s | times plain | Spark jobs | MiB of Python, JVM |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )

    plain = runs_by_case[PLAIN]
    for case in cases:
        measured_runs = runs_by_case[case.name]
        cells = (
            f"{_median(measured_runs, 'seconds'):.2f}",
            f"{min(run.usage.seconds for run in measured_runs):.2f}",
            f"{_median(measured_runs, 'seconds') / _median(plain, 'seconds'):.2f}",
            f"{case.goal}" if case.name != PLAIN else "-",
            f"{_median(measured_runs, 'processor'):.2f}",
            f"{_median(measured_runs, 'processor') / _median(plain, 'processor'):.2f}",
            f"{statistics.median(run.jobs for run in measured_runs):.0f}",
            f"{max(run.usage.python for run in measured_runs):,}, {max(run.usage.jvm for run in measured_runs):,}",
        )
        print(f"| {case.name} | {' | '.join(cells)} |", flush=True)


def _median(measured_runs: Sequence[MeasuredRun], figure: str) -> float:
    return float(statistics.median(getattr(run.usage, figure) for run in measured_runs))


def _measure_rebuilds(spark: SparkSession, server: MySQLServer, folder: Path, pipeline: Pipeline, rounds: int) -> None:
    """Ten tables that are reset and built again, in turns with lakes that begin with the same log."""
    runs_by_number: dict[str, list[MeasuredRun]] = defaultdict(list)
    requests: list[float] = []
    for nth in range(rounds):
        print_progress(f"reset, round {nth}")
        runs_by_number["first run of a new lake"].append(
            _measured_run(spark, _case_pipeline(server, folder / f"new-{nth}", Case(PLAIN)))
        )
        with metered() as usage:
            for at in range(TABLES):
                repair.reset(pipeline, SOURCE, repair.plan_reset(pipeline, SOURCE, f"full.t{at}"))
        requests.append(usage.seconds)
        runs_by_number[f"run after the reset of {TABLES} tables"].append(_measured_run(spark, pipeline))
    print("\n| run | median, s | processor, s | rows merged | rows/s | Spark jobs |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, measured_runs in runs_by_number.items():
        seconds, processor = (_median(measured_runs, figure) for figure in ("seconds", "processor"))
        rows, jobs = measured_runs[-1].rows, measured_runs[-1].jobs
        print(f"| {name} | {seconds:.2f} | {processor:.2f} | {rows:,} | {rows / seconds:,.0f} | {jobs} |", flush=True)
    print(f"\nThe {TABLES} requests to reset: {statistics.median(requests):.2f} s.", flush=True)


def _measured_run(spark: SparkSession, pipeline: Pipeline) -> MeasuredRun:
    """A run by itself: memory is the most since it began."""
    forget_peaks()
    before = _jobs(spark)
    with metered() as usage:
        outcome = runs.run(spark, pipeline, SOURCE)
    rows = sum(merged.inserted + merged.updated + merged.deleted for merged in outcome.merged)
    return MeasuredRun(usage, _jobs(spark) - before, rows)


def _jobs(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())  # noqa: SLF001 - the status tracker forgets old ones


def _case_pipeline(server: MySQLServer, folder: Path, case: Case) -> Pipeline:
    login = {"host": server.host, "port": server.port, "user": server.user, "password": "${BENCH_PASSWORD}"}
    document = {"lake": "./lake", "sources": {SOURCE: {"mysql": login}}, "tables": [f"{case.schema}.*"]}
    folder.mkdir()
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(document | dict(case.settings)), encoding="utf-8")
    return load(path, {**os.environ, "BENCH_PASSWORD": server.password, "BENCH_SALT": "the salt of this benchmark"})


def _write_statements(server: MySQLServer, schema: Schema, statements: Callable[[str], Iterator[str]]) -> None:
    """One transaction a table, in a session with the row image of the schema."""
    with server.connect(autocommit=False) as connection:
        cursor: Cursor = connection.cursor()
        cursor.execute(f"SET SESSION binlog_row_image = {schema.image}")
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {schema.name}")
        cursor.execute(f"USE {schema.name}")
        for at in range(TABLES):
            for statement in statements(f"t{at}"):
                cursor.execute(statement.replace("{key}", schema.key))
            connection.commit()


def _first(table: str) -> Iterator[str]:
    """The table with its rows."""
    yield _CREATE.replace("{table}", table)
    yield _inserted(table, 1, ROWS)


def _tick_changes(table: str, tick: int) -> Iterator[str]:
    """Six rows updated, two deleted, two inserted; no tick changes a row that another one did."""
    updated, deleted, inserted = ROWS - 6 * tick, 2 * tick, ROWS + 2 * tick
    yield (
        f"UPDATE {table} SET quantity = quantity + 1, status = 'paid' WHERE id BETWEEN {updated + 1} AND {updated + 6}"
    )
    yield f"DELETE FROM {table} WHERE id IN ({deleted}, {deleted + 1})"
    yield _inserted(table, inserted, inserted + 1)


def _inserted(table: str, first: int, last: int) -> str:
    return _FILL.replace("{table}", table).replace("{first}", str(first)).replace("{last}", str(last))
