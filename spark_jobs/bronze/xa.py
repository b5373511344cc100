"""XA transactions of a log in bronze: what each does, and those that a part of the log commits.

Their rows are logged where they are prepared, and take effect where the log commits them, perhaps files later: both
places have the xid. So what a part of the log commits is looked up backwards, further and further, until every commit
has met its rows. Nothing is kept between runs: what a range comes to depends on the log alone.

Put here: finding them, and their slices as if these stood at the commit. Not here: what one slice says of a transaction
(binlog/events/xa.py), those that nothing has decided about (prepared_xa.py), or what follows for a table
(silver/table_timeline.py).
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.binlog import TableName, xa_step
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.index import SliceIndex, read_slices
from spark_jobs.log.position import Position, Range

log = logging.getLogger(__name__)

OF_XA = "kind = 'statement' AND statement ILIKE 'XA %'"
"""SQL: slices that are, or decide about, an XA transaction."""
LOGGED = "logged"
"""Column of slices that are given another place: where their bytes stand, ``LOGGED_AT``; null in all others."""
LOGGED_AT = "STRUCT<stretch: INT, number: BIGINT, start: BIGINT, file: STRING>"
EFFECT = "effect"
"""Column of slices by their bytes: where they take effect, a struct of stretch, number, start and file; or null."""

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

    def index(self, files: DataFiles) -> pa.Table:
        """Their slices, of all of bronze's, as rows of an index that take effect at the place of the commit."""
        whole = self.extent()
        assert whole is not None
        last = replace(whole.stop, offset=whole.stop.offset + 1)  # one that commits itself has its last slice there
        found = read_slices(files, Range(whole.start, last), "statement")
        slices = found.where(found.flags("is_xa")).slices
        names = ("stretch", "file", "number", "start", "committed")
        columns = (self.held.column(f"at_{name}").to_pylist() for name in names)
        at = dict(zip(_places(self.held, "begun"), zip(*columns, strict=True), strict=True))
        places = [at.get(place) for place in _places(slices, "transaction_start")]
        slices = slices.filter(pa.array([place is not None for place in places], pa.bool_()))
        given = list(zip(*filter(None, places), strict=True))
        moved: dict[str, Sequence[Any]] = {f"effect_{one}": cells for one, cells in zip(names[:4], given, strict=False)}
        moved |= {"committed_at": given[4], "kind": ["rows"] * len(slices)} if given else {}
        for name, cells in moved.items():
            field_ = slices.schema.field(name)
            slices = slices.set_column(slices.schema.get_field_index(name), field_, pa.array(cells, field_.type))
        return slices

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


def _places(rows: pa.Table, offset: str) -> Iterator[tuple[int, int, int]]:
    """Stretch, file number and an offset of each row."""
    return zip(*(rows.column(name).to_pylist() for name in ("stretch", "number", offset)), strict=True)


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


def taking_effect(own: SliceIndex, xa: Xa) -> SliceIndex:
    """Of a range's slices and of all others those that take effect in it: ``effective``, without a JVM."""
    rest = own.where(~own.flags("is_xa"))
    return rest.with_slices(xa.index(own.files)) if len(xa.held) else rest


def committed(files: DataFiles, within: Range, oldest: Position) -> Xa:
    """The XA transactions that a range commits; rows that bronze does not hold are warned of.

    oldest: where bronze begins. Raises DecodeError, LakeError.
    """
    each, transactions, end = list[Step](), list[Transaction](), within.stop
    for start in _starts(within.start, oldest):
        part = Range(start, end)
        each += steps(read_slices(files, part, "statement").within(part))
        end = start
        transactions = _committed(each, within)
        if all(one.rows and one.rows.is_whole for one in transactions):
            break
    unknown = sorted(((one.xid, one.end.place) for one in transactions if one.rows is None), key=lambda one: one[1])
    for xid, at in unknown:
        log.warning(
            "%s: the XA transaction %s is committed, but bronze, which begins at %s, does not hold its rows",
            at,
            xid,
            oldest,
        )
    held = [row for one in transactions for row in one.to_rows()]
    return Xa(pa.Table.from_pylist(held, HELD), tuple(unknown))


def _starts(start: Position, oldest: Position) -> Iterator[Position]:
    """Places to look from, each further back than the one before, the last where bronze begins."""
    base, files = start.file.rpartition(".")[0], 0
    places = [start, replace(start, offset=max(start.offset - _NEAR, 0))]
    while start.number > files:
        places.append(Position(f"{base}.{start.number - files:06d}", 0, start.stretch))
        files = 2 * files + 1
    further = [place for place in places if place > oldest]
    yield from dict.fromkeys([*further, min(start, oldest)])


@dataclass(frozen=True, slots=True)
class Step:
    """What a slice of an XA transaction does, and where it stands. begun: the offset where the transaction begins."""

    kind: str
    """As XaStep has it."""
    xid: str | None
    said: tuple[str, str] | None
    place: Position
    stop: int
    begun: int
    committed_at: datetime
    tables: tuple[TableName, ...]

    @property
    def begin(self) -> Position:
        """Where the transaction begins."""
        return replace(self.place, offset=self.begun)


def steps(slices: SliceIndex) -> Iterator[Step]:
    """What each slice of XA transactions does, in order. Raises DecodeError, LakeError."""
    rows = np.flatnonzero(slices.flags("is_xa")).tolist()
    for row, cells in zip(rows, slices.cells(rows), strict=True):
        start, begun = cells["start"], cells["transaction_start"]
        found = xa_step(cells["file"], start, cells["context"], cells["payload"], begun, inside=begun != start)
        if found is None:
            continue
        committed_at, tables = (slices.slices.column(name)[row].as_py() for name in ("committed_at", "tables"))
        names = tuple(TableName(one["schema"], one["table"]) for one in tables or ())
        place = Position(cells["file"], start, cells["stretch"])
        yield Step(found.kind, found.xid, found.said, place, cells["stop"], begun, committed_at, names)


@dataclass(slots=True)
class Logged:
    """The slices of one XA transaction, as far as they were read: its end, and what all of them say."""

    last: Step
    is_whole: bool
    """Whether its first slice was read."""
    size: int = 0
    said: tuple[str, str] | None = None
    tables: dict[TableName, None] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        """The next slice of it."""
        self.last = step
        self.size += step.stop - step.place.offset
        self.said = self.said or step.said
        self.tables |= dict.fromkeys(step.tables)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that is committed: its end, and its rows, None where they were not read."""

    xid: str
    end: Step
    rows: Logged | None

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """Rows of HELD; none where the transaction's own are not known."""
        if self.rows is None:
            return
        begin, said = self.rows.last.begin, self.rows.said or (None, None)
        given: dict[str, Any] = {"size": self.rows.size, "said_in": said[0], "said": said[1], "begun": begin.offset}
        given |= {"at_start": self.end.place.offset, "at_stop": self.end.stop, "at_committed": self.end.committed_at}
        for prefix, place in (("", begin), ("at_", self.end.place)):
            given |= {f"{prefix}stretch": place.stretch, f"{prefix}number": place.number, f"{prefix}file": place.file}
        for name in self.rows.tables or (None,):
            yield given | {"schema": name and name.schema, "table": name and name.table}


def transactions_of(each: Iterable[Step]) -> list[Logged]:
    """The XA transactions of slices, in the log's order, by where they end."""
    found: dict[Position, Logged] = {}
    for step in sorted(each, key=lambda one: one.place.order):
        logged = found.setdefault(step.begin, Logged(step, step.begin == step.place))
        logged.add(step)
    return sorted(found.values(), key=lambda one: one.last.place.order)


def _committed(each: Iterable[Step], within: Range) -> list[Transaction]:
    """The transactions that a range commits, with what was read of their rows."""
    found: list[Transaction] = []
    before: dict[str | None, Logged] = {}
    for one in transactions_of(each):
        last = one.last
        prepared, before[last.xid] = before.get(last.xid), one
        if not within.start <= last.place < within.stop:
            continue
        if last.kind == "at once":
            found.append(Transaction(str(last.xid), last, one))
        elif last.kind == "committed" and (prepared is None or prepared.last.kind == "prepared"):
            found.append(Transaction(str(last.xid), last, prepared))
    return found
