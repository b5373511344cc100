"""Random streams of statements on several servers, and what to compare of the tables that they leave.

Put here: how. Not here: the tests.
"""

import os

import pytest
from _pytest.mark.structures import ParameterSet
from pyspark.sql import SparkSession

from spark_jobs.lake.table import Table

FIRST_SEED = int(os.environ.get("STRATALOG_SEED", "1"))


def twin_cases(runs: int) -> list[ParameterSet]:
    """Server, seed and steps of random streams: a short one, and long ones of so many seeds on each of two servers."""
    seeds = range(FIRST_SEED + 1, FIRST_SEED + 1 + int(os.environ.get("STRATALOG_RUNS", runs)))
    steps = int(os.environ.get("STRATALOG_STEPS", "40"))
    return [pytest.param("mysql-8.0", FIRST_SEED, 12, id="short")] + [
        pytest.param(server, seed, steps, id=f"{server}-{seed}", marks=pytest.mark.long)
        for server in ("mysql-8.0", "mariadb-11.4")
        for seed in seeds
    ]


def content(table: Table, spark: SparkSession) -> tuple[dict[str, str], list[str]]:
    """Columns and rows, sorted; of maps their entries."""
    if table.head() is None:
        return {}, []
    return table.columns(), sorted(repr(row.asDict(recursive=True)) for row in table.read(spark).collect())
