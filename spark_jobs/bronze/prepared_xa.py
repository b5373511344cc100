"""XA transactions in bronze that are prepared, and that the log has not decided about.

Put here: finding them. Not here: what their slices say (xa.py), or what follows from it (operations/gc.py).

Their rows take effect where a later XA COMMIT stands, perhaps files away, so the log from the oldest of them on is
still needed, whoever has read it; and as long as who reads the log has not reached that XA COMMIT.
"""

from dataclasses import dataclass

from pyspark.sql import Column, Row, SparkSession, Window
from pyspark.sql import functions as F

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.xa import steps
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position


@dataclass(frozen=True, slots=True)
class Open:
    """A prepared transaction: its xid as the server writes it (``X'6131',X'',1``), and where its rows begin.

    committed: where the log commits it, behind the position that was asked about.
    """

    xid: str
    position: Position
    committed: Position | None = None


def undecided(spark: SparkSession, table: Table, version: int, at: Position | None = None) -> list[Open]:
    """The prepared transactions that no XA COMMIT or XA ROLLBACK follows, in the log's order. Raises DecodeError.

    at: as seen from a position: with those that are prepared before it, and that the log commits there or behind it.
    """
    ends = steps(bronze.read_all(spark, table, version).where("transactions > 0")).where("xid IS NOT NULL")
    step = F.struct("step", "stretch", "number", "start", "file")
    after = F.lead(step).over(Window.partitionBy("xid").orderBy("stretch", "number", "start"))
    prepared = ends.withColumn("after", after).where("step = 'prepared'")
    is_open = F.col("after").isNull()
    if at:
        place = _place(*map(F.lit, at.order))
        behind = _place(*(F.col(f"after.{name}") for name in ("stretch", "number", "start"))) >= place
        begun = _place(*map(F.col, ("stretch", "number", "begun"))) < place
        is_open |= (F.col("after.step") == "committed") & behind & begun
    found = prepared.where(is_open).orderBy("stretch", "number", "begun")
    rows = table.collect(found.select("xid", "stretch", "file", "begun", "after"))
    return [_open(row, row["after"]) for row in rows]


def _place(*order: Column) -> Column:
    names = ("stretch", "number", "offset")
    return F.struct(*(one.cast("bigint").alias(name) for one, name in zip(order, names, strict=True)))


def _open(row: Row, after: Row | None) -> Open:
    committed = Position(after["file"], after["start"], after["stretch"]) if after else None
    return Open(row["xid"], Position(row["file"], row["begun"], row["stretch"]), committed)
