"""``verify`` of one table with its server, on the same cores: where all rows are equal, and where some cells differ.

The table is that of load.py, sixteen columns a row, loaded in the same session.

Put here: what is measured. Not here: how tables are compared (spark_jobs/checks/verify/).
"""

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.load import OPTIONS, SOURCE, TABLE, counted_costs, whole_load, write_table
from benchmarks.progress_lines import print_progress
from spark_jobs.checks.verify import Verdict, verify_source
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of

_DIFFERING = 10
"""Cells that are changed in the lake."""


def measure(spark: SparkSession, folder: Path, rows: int) -> None:
    """Prints a line for the equal table and one for the table with cells that differ."""
    with MySQLServer(folder / "server", OPTIONS) as server:
        print_progress(f"writing {rows:,} rows")
        write_table(server, rows)
        print_progress("loading them")
        whole_load(spark, server, folder, rows)
        pipeline = load(folder / "pipeline.yaml", {"BENCH_PASSWORD": server.password})
        print(
            f"| verify of {rows:,} rows | s | rows/s | processor s, but for the server's | the server's "
            "| MiB at most |\n| --- | --- | --- | --- | --- | --- |"
        )
        _verified(spark, pipeline, f"{TABLE.schema}.small")  # compiled code is loaded
        _print_verify(spark, pipeline, "equal", rows, 0)
        step = rows // _DIFFERING
        table = lake_of(pipeline).downstream(TABLE.schema, TABLE.table)
        spark.sql(f"UPDATE {table.sql} SET quantity = quantity + 1 WHERE id % {step} = 1")
        _print_verify(spark, pipeline, f"{_DIFFERING} cells differ", rows, _DIFFERING)


def _print_verify(spark: SparkSession, pipeline: Pipeline, label: str, rows: int, different: int) -> None:
    with counted_costs() as costs:
        verdict = _verified(spark, pipeline, str(TABLE))
    columns = {name for difference in verdict.differences for name in difference.columns}
    if (verdict.source_rows, verdict.different, columns) != (rows, different, {"quantity"} if different else set()):
        raise SystemExit(f"{verdict}")
    cost = costs[0]
    cells = (f"{cost.seconds:.1f}", f"{rows / cost.seconds:,.0f}", f"{cost.processor:.1f}", f"{cost.server:.1f}")
    print(f"| {label} | {' | '.join(cells)} | {cost.memory} |", flush=True)


def _verified(spark: SparkSession, pipeline: Pipeline, name: str) -> Verdict:
    (verdict,) = verify_source(spark, pipeline, SOURCE, lambda table: str(table) == name)
    return verdict
