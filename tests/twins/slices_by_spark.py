"""What planning asks of bronze, as Spark queries: the twin of the slice index. Put here: the queries alone.

They are what planning asked until the index was there, and say in a few lines each what the index has to find.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.binlog import TableName, xa_step
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.boundaries import parts_of
from spark_jobs.bronze.xa import HELD, LOGGED, LOGGED_AT, OF_XA, Xa, by_bytes
from spark_jobs.log.position import Position, Range
from spark_jobs.text import sql

_STEP = (
    "step STRING, xid STRING, said_in STRING, said STRING, stretch INT, number BIGINT, start BIGINT, stop BIGINT, "
    "file STRING, begun BIGINT, committed_at TIMESTAMP, tables ARRAY<STRUCT<schema: STRING, table: STRING>>"
)
_STEP_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("step", "xid", "said_in", "said")),
        *(("stretch", pa.int32()), ("number", pa.int64()), ("start", pa.int64()), ("stop", pa.int64())),
        *(("file", pa.string()), ("begun", pa.int64()), ("committed_at", pa.timestamp("us", "UTC"))),
        ("tables", pa.list_(pa.struct([("schema", pa.string()), ("table", pa.string())]))),
    ]
)
Batches = Iterator[pa.RecordBatch]


def extent_by_table(slices: DataFrame) -> dict[TableName, tuple[Position, Position, int]]:
    """Position where tables have rows, but for XA transactions."""
    position = F.struct("stretch", "number", "start", "file").alias("place")
    tables = F.explode_outer(F.expr(f"IF({OF_XA}, NULL, tables)")).alias("name")
    rows = slices.select(tables, position, F.expr("stop - start").alias("size")).where("name IS NOT NULL")
    grouped = rows.groupBy("name").agg(F.min("place").alias("first"), F.max("place").alias("last"), F.sum("size"))
    return {
        TableName(*row["name"]): (_stored_position(row["first"]), _stored_position(row["last"]), row["sum(size)"])
        for row in grouped.collect()
    }


def statements_and_table_maps(slices: DataFrame) -> list[dict[str, Any]]:
    """Statements, and slices in which the log describes a table, in order; those of XA transactions too."""
    head = F.coalesce("context", F.when(F.size("maps") > 0, F.substring("payload", 5, 512))).alias("context")
    begin = F.when(F.col("kind") == "statement", F.substring("payload", 1, 4096)).alias("begin")
    columns = (
        *("stretch", "number", "file", "start", "stop", "transaction_start", "kind", "committed_at", "gtid"),
        *("database", "statement", "maps", head, begin),
    )
    rows = slices.where((F.col("kind") == "statement") | (F.size("maps") > 0)).select(*columns)
    return sorted(rows.toArrow().to_pylist(), key=lambda row: (row["stretch"], row["number"], row["start"]))


def cut(slices: DataFrame, positions: Collection[Position]) -> DataFrame:
    """All slices; one that holds some of the positions inside comes as its parts between them."""
    parts: list[dict[str, Any]] = []
    for row in slices.toArrow().to_pylist():
        here = (at for at in positions if (at.stretch, at.number) == (row["stretch"], row["number"]))
        inside = sorted(at.offset for at in here if row["start"] < at.offset < row["stop"])
        cells = pa.RecordBatch.from_pylist([row], schema=bronze.ARROW)
        parts += parts_of(cells, inside) if inside else [row]
    return slices.sparkSession.createDataFrame(pa.Table.from_pylist(parts, bronze.ARROW), sql.columns(bronze.COLUMNS))


def effective(slices: DataFrame, within: Range, xa: Xa) -> DataFrame:
    """Of all slices those that take effect in a range: its own, and those of the XA transactions that it commits."""
    nowhere = F.lit(None).cast(LOGGED_AT)
    rows = slices.where(bronze.inside(within)).where(f"NOT ({OF_XA})").withColumn(LOGGED, nowhere)
    return rows.unionByName(xa.slices(slices)) if len(xa.rows) else rows


def _in_ranges(slices: DataFrame, name: TableName, ranges: Sequence[Range]) -> DataFrame:
    """The slices that may have rows of a table, with the ordinal of the range that they begin in as ``window``."""
    of_table = F.exists("tables", lambda of: (of["schema"] == name.schema) & (of["table"] == name.table))
    ordinal = F.lit(None).cast("int")
    for nth, part in enumerate(ranges):
        ordinal = F.when(bronze.inside(part), nth).otherwise(ordinal)
    rows = slices.where((F.col("kind") == "rows") & (F.col("tables").isNull() | of_table))
    return rows.withColumn("window", ordinal).where("window IS NOT NULL")


def of_table(slices: DataFrame, name: TableName, ranges: Sequence[Range]) -> DataFrame:
    """The effective slices of a table in some ranges, by where their bytes stand."""
    return by_bytes(_in_ranges(slices, name, ranges))


def first_slices(slices: DataFrame, name: TableName, ranges: Sequence[Range]) -> dict[int, dict[str, Any]]:
    """Of each range, by its ordinal, the first effective slice that has rows of a table; nothing of one without any."""
    names = ("stretch", "file", "start", "context", "payload", LOGGED)
    first = F.min_by(F.struct(*names), F.struct("stretch", "number", "start", f"{LOGGED}.start")).alias("slice")
    firsts = _in_ranges(slices, name, ranges).groupBy("window").agg(first).toArrow().to_pylist()
    return {row["window"]: row["slice"] for row in firsts}


def committed(all_slices: DataFrame, within: Range) -> pa.Table:
    """HELD and ``xid``, of the XA transactions that a range commits; ``begun`` is null where rows are not there."""
    names = ("stretch", "number", "start", "stop", "file", "transaction_start", "committed_at", "tables")
    xa_steps = all_slices.where(OF_XA).select(*names, "context", "payload").mapInArrow(_steps, _STEP)
    last = F.max_by(F.struct("step", "xid", "start", "stop", "committed_at"), "start").alias("last")
    statement = F.min_by(F.struct("said_in", "said"), F.when(F.col("said").isNotNull(), F.col("start"))).alias("inside")
    table_names = F.array_distinct(F.flatten(F.collect_list("tables"))).alias("tables")
    size = F.sum(F.expr("stop - start")).alias("size")
    transactions = xa_steps.groupBy("stretch", "number", "file", "begun").agg(last, statement, table_names, size)
    transactions = transactions.select("stretch", "number", "file", "begun", "last.*", "inside.*", "tables", "size")
    rows = F.struct("step", "stretch", "number", "file", "begun", "tables", "size", "said_in", "said")
    before = F.lag(rows).over(Window.partitionBy("xid").orderBy("stretch", "number", "start"))
    ends = transactions.withColumn("before", F.when(F.col("step") == "at once", rows).otherwise(before))
    ends = ends.where(bronze.inside(within)).where(
        "step = 'at once' OR (step = 'committed' AND (before IS NULL OR before.step = 'prepared'))"
    )
    at = [F.col(name).alias(f"at_{name}") for name in ("stretch", "number", "file", "start", "stop")]
    of = [f"before.{name}" for name in ("stretch", "number", "file", "begun", "size", "said_in", "said")]
    decided = ends.select(
        "xid", *at, F.col("committed_at").alias("at_committed"), *of, F.explode_outer("before.tables")
    )
    decided_rows = decided.select(
        *(name for name in decided.columns if name != "col"), "col.schema", "col.table"
    ).toArrow()
    return decided_rows.select(["xid", *HELD.names]).cast(pa.schema([("xid", pa.string()), *HELD]))


def _steps(slices: Batches) -> Batches:
    for batch in slices:
        xa_steps = [slice_step for row in batch.to_pylist() if (slice_step := _step_of(row))]
        yield pa.RecordBatch.from_pylist(xa_steps, schema=_STEP_SCHEMA)


def _step_of(row: dict[str, Any]) -> dict[str, Any] | None:
    transaction_start, start = row["transaction_start"], row["start"]
    step = xa_step(
        row["file"], start, row["context"], row["payload"], transaction_start, inside=transaction_start != start
    )
    if step is None:
        return None
    stated_in, statement = step.statement or (None, None)
    own_cells = {
        "step": step.kind,
        "xid": step.xid,
        "said_in": stated_in,
        "said": statement,
        "begun": transaction_start,
    }
    return own_cells | {name: row[name] for name in _STEP_SCHEMA.names if name in row}


def _stored_position(position: Any) -> Position:
    return Position(position["file"], position["start"], position["stretch"])
