"""Metadata of a table's materialization besides what its commit does.

That is the last GTID, events that are quarantined, foreign keys that change its rows unlogged, and its last comparison.

Put here: what is read from the lake for that. Not here: the metadata's keys (checkpoint.py).
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from assets import checkpoint
from assets.checkpoint import Metadata
from spark_jobs.config.model import Pipeline
from spark_jobs.log.position import Range

if TYPE_CHECKING:  # imports pyspark
    from spark_jobs.binlog import TableName

Particulars = Callable[["TableName", Range], Metadata]
"""Metadata of a table's materialization, by the table and a range of its source's log."""


def particulars_of(pipeline: Pipeline, source: str) -> Particulars:
    """The particulars of a source's tables as the lake is now. Bronze is read once per range, without a JVM."""
    from spark_jobs.bronze import table as bronze
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.observation import verified
    from spark_jobs.pipeline.cascades.unlogged_changes import cascades
    from spark_jobs.silver import quarantine

    # Read once for all tables of a run.
    lake = lake_of(pipeline)
    snapshot = bronze.BronzeSnapshot.find(lake, source)
    passed_over = Counter(skip.name for skip in quarantine.read(lake, source))

    compared = verified.read(lake, source)

    @cache
    def last_gtid(log_range: Range) -> str | None:
        return bronze.last_gtid(snapshot, log_range) if snapshot else None

    @cache
    def keys() -> dict["TableName", list[str]]:
        by_table: dict[TableName, list[str]] = {}
        for cascade in cascades(pipeline, lake, source):
            by_table.setdefault(cascade.table, []).append(
                f"{cascade.key.name} -> {cascade.key.parent} {cascade.key.rules}"
            )
        return by_table

    def of(name: "TableName", log_range: Range) -> Metadata:
        metadata = checkpoint.gtid_metadata(last_gtid(log_range)) | checkpoint.quarantine_metadata(passed_over[name])
        metadata |= checkpoint.verification_metadata(compared.get(str(name)))
        return metadata | checkpoint.cascade_metadata(keys().get(name, []))

    return of
