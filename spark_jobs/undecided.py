"""XA transactions in bronze that are prepared, and that the log has not decided about.

Put here: finding them. Not here: what a slice says of one (binlog/xa.py), or what follows from it (retention.py).

Their rows take effect where a later XA COMMIT stands, perhaps files away, so the log from the oldest of them on is
still needed, whoever has read it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.binlog import xa_step
from spark_jobs.lake import Table
from spark_jobs.position import Position

_STEP = "step STRING, xid STRING, stretch INT, number BIGINT, start BIGINT, file STRING, begun BIGINT"
_SCHEMA = pa.schema(
    [
        *(("step", pa.string()), ("xid", pa.string()), ("stretch", pa.int32()), ("number", pa.int64())),
        *(("start", pa.int64()), ("file", pa.string()), ("begun", pa.int64())),
    ]
)
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Open:
    """A prepared transaction: its xid as the server writes it (``X'6131',X'',1``), and where its rows begin."""

    xid: str
    position: Position


def undecided(spark: SparkSession, table: Table, version: int) -> list[Open]:
    """The prepared transactions that no XA COMMIT or XA ROLLBACK follows, in the log's order. Raises DecodeError."""
    slices = bronze.read_all(spark, table, version)
    ends = slices.where("kind = 'statement' AND statement ILIKE 'XA %' AND transactions > 0")
    names = ("stretch", "number", "start", "file", "transaction_start", "context", "payload")
    steps = ends.select(*names).mapInArrow(_steps(), _STEP)
    last = steps.groupBy("xid").agg(F.max_by(F.struct("*"), F.struct("stretch", "number", "start")).alias("last"))
    open_ones = last.where("last.step = 'prepared'").select("last.*").orderBy("stretch", "number", "begun").collect()
    return [Open(row["xid"], Position(row["file"], row["begun"], row["stretch"])) for row in open_ones]


def _steps() -> Callable[[Batches], Batches]:
    """A mapInArrow function from slices that end an XA transaction, or decide about one, to what each does."""

    def run(slices: Batches) -> Batches:
        for batch in slices:
            told = [one for row in batch.to_pylist() if (one := _told(row))]
            yield pa.RecordBatch.from_pylist(told, schema=_SCHEMA)

    return run


def _told(row: dict[str, Any]) -> dict[str, Any] | None:
    begun, start = row["transaction_start"], row["start"]
    step = xa_step(row["file"], start, row["context"], row["payload"], begun, inside=begun != start)
    if step is None or step.xid is None:
        return None
    return {"step": step.kind, "xid": step.xid, "begun": begun} | {k: row[k] for k in _SCHEMA.names if k in row}
