"""A planner of one source over a lake that nothing was written to.

Put here: what tests of planning share. Not here: what they plan.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream.publication import Entry
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.pipeline.planner import Planner

ORDERS, LINES, AUDIT = (TableName("shop", table) for table in ("orders", "lines", "audit"))
BEGIN, END = Position("b.000001", 4), Position("b.000003", 500)


def pipeline(folder: Path) -> Pipeline:
    path = folder / "pipeline.yaml"
    path.write_text(
        "lake: ./lake\nsources: {s: {files: ./logs}}\ntables: ['shop.*', '!shop.audit']\n", encoding="utf-8"
    )
    return load(path)


FIRST = BronzeCommit(END, "batch", begin=BEGIN)


def planner(folder: Path, tables: frozenset[TableName] | None = None, commit: BronzeCommit = FIRST) -> Planner:
    lake = lake_of(pipeline(folder))
    return Planner(pipeline(folder), lake, BronzeSnapshot("s", lake.bronze("s"), Head(7, 3, commit), commit), tables)


def entry(name: TableName, **values: Any) -> Entry:
    return replace(Entry("s", name.schema, name.table, "current"), **values)
