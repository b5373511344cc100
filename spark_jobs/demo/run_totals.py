"""Runs of the pipeline in a demo, and their totals.

Put here: one run as `stratalog run` makes it, with a clock at every layer. Not here: what happens between runs.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.folder import SOURCE
from spark_jobs.log.position import Range
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import compact_source, extract_source, merge_source, publish

Result = TypeVar("Result")


@dataclass
class RunTotals:
    """Sums over runs. ``seconds`` by layer; ``changes`` decoded and ``net`` rows of silver by table."""

    runs: int = 0
    ranges: list[Range] = field(default_factory=list)
    bytes: int = 0
    transactions: int = 0
    changes: Counter[TableName] = field(default_factory=Counter)
    net: Counter[TableName] = field(default_factory=Counter)
    merged: int = 0
    seconds: Counter[str] = field(default_factory=Counter)
    stopped: dict[TableName, str] = field(default_factory=dict)

    def timed(self, layer: str, work: Callable[[], Result]) -> Result:
        began = time.monotonic()
        result = work()
        self.seconds[layer] += time.monotonic() - began  # type: ignore[assignment] # Counter adds floats as well
        return result


def run(spark: SparkSession, pipeline: Pipeline, totals: RunTotals) -> None:
    """Extracts, compacts, merges and publishes up to the log's end as it is now.

    Raises SourceError, DecodeError, LakeError.
    """
    extracted = totals.timed("bronze", lambda: extract_source(spark, pipeline, SOURCE))
    compacted = totals.timed("silver", lambda: compact_source(spark, pipeline, SOURCE))
    merged = totals.timed("downstream", lambda: merge_source(spark, pipeline, SOURCE, compacted))
    totals.timed("published", lambda: publish(pipeline, SOURCE, merged))
    totals.runs += 1
    totals.ranges.append(extracted.range)
    totals.bytes += extracted.bytes
    totals.transactions += extracted.transactions
    _add_outcome(totals, merged)


def _add_outcome(totals: RunTotals, outcome: Outcome) -> None:
    for table in outcome.compacted:
        totals.changes[table.name] += table.changes
        totals.net[table.name] += table.rows
    totals.merged += sum(merge.inserted + merge.updated + merge.deleted for merge in outcome.merged)
    totals.stopped = dict(outcome.stopped)
