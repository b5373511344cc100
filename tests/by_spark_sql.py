"""Tables by Spark SQL that the engine would take, and what to compare. Put here: how. Not here: the tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from spark_jobs.engine import routing
from spark_jobs.lake.table import Table


@contextmanager
def by_spark_sql() -> Iterator[None]:
    """Every table goes by Spark SQL."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("why_silver_by_sql", "why_not_merged"):
            patched.setattr(routing, name, lambda *_: "a test")
        yield


def content(table: Table, spark: SparkSession) -> tuple[dict[str, str], list[str]]:
    """Columns and rows, sorted; of maps their entries."""
    if table.head() is None:
        return {}, []
    return table.columns(), sorted(repr(row.asDict(recursive=True)) for row in table.read(spark).collect())
