"""Comparison of the transactions in bronze with those that a server has executed.

Put here: whether each GTID is in bronze, and once. Not here: which transactions a log has (bronze/gtid_state.py).
"""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from spark_jobs.bronze import table as bronze_slices
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.gtid_state import held_gtids
from spark_jobs.demo.folder import SOURCE
from spark_jobs.errors import LakeError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.gtid import MysqlGtids


@dataclass(frozen=True, slots=True)
class BronzeGtids:
    """Counts of transactions, at the server and in bronze (landed), and how their sets of GTIDs differ.

    mismatch: both sets, as part of a message; None where they are equal.
    """

    transactions: int
    landed: int
    mismatch: str | None = None

    @property
    def text(self) -> str:
        """Summary of the comparison."""
        return f"{self.landed:,} transactions in bronze, by GTID"

    @property
    def differences(self) -> tuple[str, ...]:
        """Differences: missing, extra or double GTIDs; none where each GTID is in bronze once."""
        surplus = self.landed - self.transactions
        found = (self.mismatch, f"{surplus:+,} transactions" if surplus else None)
        return tuple(difference for difference in found if difference)


def gtid_check(spark: SparkSession, lake: Lake, executed: str) -> BronzeGtids:
    """Compare bronze with a server's ``gtid_executed``. Raises LakeError, SourceError."""
    table = lake.bronze(SOURCE)
    head = table.head()
    if head is None or head.checkpoint is None:
        raise LakeError(f"{table.path}: holds no log")
    # The set says that none is missing, the count that none came twice.
    bronze = held_gtids(table, head.version, stretches(head.checkpoint)[-1])
    server = MysqlGtids.parse(executed)
    counted = bronze_slices.read_all(spark, table, head.version).selectExpr("sum(transactions)").head()
    landed = int(counted[0] or 0) if counted else 0
    transactions = sum(stop - start for intervals in server.intervals.values() for start, stop in intervals)
    return BronzeGtids(transactions, landed, None if bronze == server else f"{bronze} is not {server}")
