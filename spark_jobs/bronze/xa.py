"""XA transactions of a log in bronze: what each does, and those that a part of the log commits.

Their rows are logged where they are prepared, and take effect where the log commits them, perhaps files later: both
places have the xid. So what a part of the log commits is looked up backwards, further and further, until every commit
has met its rows. Nothing is kept between runs: what a range comes to depends on the log alone.

Put here: finding them, and their slices as if these stood at the commit. Not here: what one slice says of a transaction
(binlog/events/xa.py), those that nothing has decided about (prepared_xa.py), or what follows for a table
(silver/table_timeline.py).
"""

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark_jobs.binlog import TableName, xa_step
from spark_jobs.bronze import table as bronze
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range

log = logging.getLogger(__name__)

OF_XA = "kind = 'statement' AND statement ILIKE 'XA %'"
"""SQL: slices that are, or decide about, an XA transaction."""
LOGGED = "logged"
"""Column of slices that are given another place: where their bytes stand, ``LOGGED_AT``; null in all others."""
LOGGED_AT = "STRUCT<stretch: INT, number: BIGINT, start: BIGINT, file: STRING>"
EFFECT = "effect"
"""Column of slices by their bytes: where they take effect, a struct of stretch, number, start and file; or null."""

_STEP = (
    "step STRING, xid STRING, said_in STRING, said STRING, stretch INT, number BIGINT, start BIGINT, stop BIGINT, "
    "file STRING, begun BIGINT, committed_at TIMESTAMP, tables ARRAY<STRUCT<schema: STRING, table: STRING>>"
)
_NAME = pa.struct([("schema", pa.string()), ("table", pa.string())])
_STEP_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("step", "xid", "said_in", "said")),
        *(("stretch", pa.int32()), ("number", pa.int64()), ("start", pa.int64()), ("stop", pa.int64())),
        *(("file", pa.string()), ("begun", pa.int64()), ("committed_at", pa.timestamp("us", "UTC"))),
        ("tables", pa.list_(_NAME)),
    ]
)
_PLACE = [("stretch", pa.int32()), ("number", pa.int64()), ("file", pa.string())]
HELD = pa.schema(
    [
        *(("schema", pa.string()), ("table", pa.string()), ("size", pa.int64())),
        *(("said_in", pa.string()), ("said", pa.string())),
        *_PLACE,
        ("begun", pa.int64()),
        *((f"at_{name}", kind) for name, kind in _PLACE),
        *(("at_start", pa.int64()), ("at_stop", pa.int64()), ("at_committed", pa.timestamp("us", "UTC"))),
    ]
)
"""A row a committed transaction and table of it: where its rows begin, and the commit that they take effect at.

size: bytes of the whole transaction. said: the first statement in it that is not about the transaction itself, said_in
its database. Of a transaction that names no table, schema and table are null."""
_NEAR = 64 << 20
"""Bytes of log to look back first: most transactions are prepared and committed within seconds."""
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Xa:
    """The XA transactions that a part of the log commits. unknown: commits whose rows bronze does not hold, by xid."""

    held: pa.Table = field(default_factory=HELD.empty_table)
    unknown: tuple[tuple[str, Position], ...] = ()

    def of(self, name: TableName, passed_over: Collection[Position] = ()) -> "Xa":
        """Those with rows of one table, but for those that are passed over for it, by where they begin or commit."""
        found = self.held.filter((pc.field("schema") == name.schema) & (pc.field("table") == name.table))
        for one in passed_over:
            for names in (("at_stretch", "at_file", "at_start"), ("stretch", "file", "begun")):
                pairs = zip(names, (one.stretch, one.file, one.offset), strict=True)
                found = found.filter(~reduce(and_, (pc.field(name) == value for name, value in pairs)))
        return Xa(found, tuple((xid, at) for xid, at in self.unknown if at not in passed_over))

    def spans(self) -> list[Range]:
        """From where its rows begin to where it is committed, of each transaction."""
        return [
            Range(
                Position(row["file"], row["begun"], row["stretch"]),
                Position(row["at_file"], row["at_start"], row["at_stretch"]),
            )
            for row in self.held.to_pylist()
        ]

    def commits(self) -> dict[TableName, tuple[Position, Position, int]]:
        """By table the first and the last commit of its rows, and the bytes of their transactions."""
        order = [(f"at_{name}", "ascending") for name in ("stretch", "number", "start")]
        rows = self.held.filter(pc.field("table").is_valid()).sort_by(order)
        place = ("at_file", "at_start", "at_stretch")
        asked = [("size", "sum"), *((name, end) for end in ("first", "last") for name in place)]
        found = rows.group_by(["schema", "table"], use_threads=False).aggregate(asked).to_pylist()
        return {
            TableName(row["schema"], row["table"]): (
                Position(*(row[f"{name}_first"] for name in place)),
                Position(*(row[f"{name}_last"] for name in place)),
                row["size_sum"],
            )
            for row in found
        }

    def also(self, new: TableName, old: TableName, since: Position) -> "Xa":
        """With one table's rows that were logged before a position and are committed behind it as another's too."""
        held = self.of(old).held
        spans = Xa(held).spans()
        held = held.filter(pa.array([span.start < since < span.stop for span in spans], pa.bool_()))
        for name, value in (("schema", new.schema), ("table", new.table)):
            constant = pa.repeat(pa.scalar(value, pa.string()), len(held))
            held = held.set_column(HELD.get_field_index(name), name, constant)
        return replace(self, held=pa.concat_tables([self.held, held]))

    def extent(self) -> Range | None:
        """From the first row to the last commit; None where nothing is committed."""
        if not len(self.held):
            return None
        first = self.held.sort_by([(name, "ascending") for name in ("stretch", "number", "begun")]).slice(0, 1)
        last = self.held.sort_by([(f"at_{name}", "descending") for name in ("stretch", "number", "start")]).slice(0, 1)
        (begin,), (end,) = first.to_pylist(), last.to_pylist()
        return Range(
            Position(begin["file"], begin["begun"], begin["stretch"]),
            Position(end["at_file"], end["at_start"], end["at_stretch"]),
        )

    def slices(self, every: DataFrame) -> DataFrame:
        """Their slices, of all of bronze's, as rows at the place of the commit; those of one in one task, in order.

        Their bytes' own place is in LOGGED. There has to be one transaction at least.
        """
        keys = ("stretch", "number", "begun")
        own = self.held.select([*keys, *(name for name in HELD.names if name.startswith("at_"))])
        own = own.group_by(own.column_names).aggregate([])  # a row a transaction, however many tables it has
        whole = self.extent()
        assert whole is not None
        last = replace(whole.stop, offset=whole.stop.offset + 1)  # one that commits itself has its last slice there
        joined = every.where(OF_XA).where(bronze.inside(Range(whole.start, last)))
        joined = joined.withColumn("begun", F.col("transaction_start"))
        joined = joined.join(F.broadcast(every.sparkSession.createDataFrame(own)), list(keys))
        given: dict[str, str | Column] = {
            "stretch": "at_stretch",
            "number": "at_number",
            "start": "at_start",
            "stop": F.expr("at_start + stop - start"),
            "file": "at_file",
            "kind": F.lit("rows"),
            "committed_at": "at_committed",
        }
        cells = [F.col(one) if isinstance(one, str) else one for one in given.values()]
        others = [F.col(name) for name in every.columns if name not in given]
        logged = F.struct("stretch", "number", "start", "file").cast(LOGGED_AT).alias(LOGGED)
        moved = joined.select(*(cell.alias(name) for name, cell in zip(given, cells, strict=True)), *others, logged)
        order = ("stretch", "number", "start")
        return moved.repartition(*order).sortWithinPartitions(*order, f"{LOGGED}.start")


NO_XA = Xa()


def effective(every: DataFrame, within: Range, xa: Xa) -> DataFrame:
    """Of all slices those that take effect in a range: its own, and those of the XA transactions that it commits."""
    own = every.where(bronze.inside(within))
    if xa is NO_XA:
        return own
    own = own.where(f"NOT ({OF_XA})").withColumn(LOGGED, F.lit(None).cast(LOGGED_AT))
    return own.unionByName(xa.slices(every)) if len(xa.held) else own


def by_bytes(slices: DataFrame) -> DataFrame:
    """Effective slices by the place of their bytes; of those that take effect elsewhere, EFFECT says where."""
    places = ("stretch", "number", "start", "file")
    own = (F.coalesce(f"{LOGGED}.{name}", name).alias(name) for name in places)
    others = (name for name in slices.columns if name not in (*places, LOGGED))
    return slices.select(*own, *others, F.when(F.col(LOGGED).isNotNull(), F.struct(*places)).alias(EFFECT))


def committed(spark: SparkSession, table: Table, version: int, within: Range, oldest: Position) -> Xa:
    """The XA transactions that a range commits; rows that bronze does not hold are warned of.

    oldest: where bronze begins. Raises DecodeError.
    """
    found, missing = pa.table({}), pa.table({})
    for start in _starts(within.start, oldest):
        each = steps(bronze.read(spark, table, version, Range(start, within.stop)))
        found = table.collect_arrow(_committed(each, within))
        missing = found.filter(pc.field("begun").is_null())
        if not len(missing):
            break
    unknown = [
        (row["xid"], Position(row["at_file"], row["at_start"], row["at_stretch"])) for row in missing.to_pylist()
    ]
    for xid, at in unknown:
        log.warning(
            "%s: the XA transaction %s is committed, but bronze, which begins at %s, does not hold its rows",
            at,
            xid,
            oldest,
        )
    known = found.filter(~pc.field("begun").is_null()).select(HELD.names).cast(HELD)
    return Xa(known, tuple(sorted(unknown, key=lambda one: one[1])))


def _starts(start: Position, oldest: Position) -> Iterator[Position]:
    """Places to look from, each further back than the one before, the last where bronze begins."""
    base, files = start.file.rpartition(".")[0], 0
    places = [start, replace(start, offset=max(start.offset - _NEAR, 0))]
    while start.number > files:
        places.append(Position(f"{base}.{start.number - files:06d}", 0, start.stretch))
        files = 2 * files + 1
    further = [place for place in places if place > oldest]
    yield from dict.fromkeys([*further, min(start, oldest)])


def steps(slices: DataFrame) -> DataFrame:
    """What each slice of XA transactions does, ``step`` as XaStep has it; with its place, and where it has begun.

    Raises DecodeError, in the query.
    """
    names = ("stretch", "number", "start", "stop", "file", "transaction_start", "committed_at", "tables")
    return slices.where(OF_XA).select(*names, "context", "payload").mapInArrow(_steps(), _STEP)


def _steps() -> Callable[[Batches], Batches]:
    """A mapInArrow function from slices to steps."""

    def run(slices: Batches) -> Batches:
        for batch in slices:
            told = [one for row in batch.to_pylist() if (one := _told(row))]
            yield pa.RecordBatch.from_pylist(told, schema=_STEP_SCHEMA)

    return run


def _told(row: dict[str, Any]) -> dict[str, Any] | None:
    begun, start = row["transaction_start"], row["start"]
    step = xa_step(row["file"], start, row["context"], row["payload"], begun, inside=begun != start)
    if step is None:
        return None
    said_in, said = step.said or (None, None)
    own = {"step": step.kind, "xid": step.xid, "said_in": said_in, "said": said, "begun": begun}
    return own | {name: row[name] for name in _STEP_SCHEMA.names if name in row}


def _committed(each: DataFrame, within: Range) -> DataFrame:
    """HELD and ``xid``, of the transactions that a range commits; ``begun`` is null where their rows are not there."""
    last = F.max_by(F.struct("step", "xid", "start", "stop", "committed_at"), "start").alias("last")
    said = F.min_by(F.struct("said_in", "said"), F.when(F.col("said").isNotNull(), F.col("start"))).alias("inside")
    named = F.array_distinct(F.flatten(F.collect_list("tables"))).alias("tables")
    size = F.sum(F.expr("stop - start")).alias("size")
    whole = each.groupBy("stretch", "number", "file", "begun").agg(last, said, named, size)
    whole = whole.select("stretch", "number", "file", "begun", "last.*", "inside.*", "tables", "size")
    rows = F.struct("step", "stretch", "number", "file", "begun", "tables", "size", "said_in", "said")
    before = F.lag(rows).over(Window.partitionBy("xid").orderBy("stretch", "number", "start"))
    ends = whole.withColumn("before", F.when(F.col("step") == "at once", rows).otherwise(before))
    ends = ends.where(bronze.inside(within)).where(
        "step = 'at once' OR (step = 'committed' AND (before IS NULL OR before.step = 'prepared'))"
    )
    place = {"stretch": "stretch", "number": "number", "file": "file", "start": "start", "stop": "stop"}
    at = [F.col(name).alias(f"at_{to}") for name, to in place.items()]
    of = [f"before.{name}" for name in ("stretch", "number", "file", "begun", "size", "said_in", "said")]
    told = ends.select("xid", *at, F.col("committed_at").alias("at_committed"), *of, F.explode_outer("before.tables"))
    return told.select(*(name for name in told.columns if name != "col"), "col.schema", "col.table")
