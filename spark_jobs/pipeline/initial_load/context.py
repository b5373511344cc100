"""Context that all steps of one load share.

Put here: values that no step changes. Not here: what is known of one table (staging.py).
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import Lake
from spark_jobs.pipeline.initial_load.anchor import Anchor
from spark_jobs.pipeline.initial_load.commit import LoadCommit
from spark_jobs.pipeline.initial_load.throttle import Throttle
from spark_jobs.source.server import Server

OnProgress = Callable[[TableName, LoadCommit], None]
"""Callback after each commit, with how far a table is."""


@dataclass(frozen=True, slots=True)
class LoadContext:
    """One load of a source: the session, the server's position that rows count from, how much is read at once."""

    spark: SparkSession
    pipeline: Pipeline
    lake: Lake
    source: str
    anchor: Anchor
    chunk_rows: int
    on_progress: OnProgress
    throttle: Throttle

    @property
    def server(self) -> Server:
        return self.anchor.server
