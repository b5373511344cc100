"""XA transactions in bronze: the rows of each, and those that a range of the log commits.

Their rows are logged where they are prepared, and take effect where the log commits them, perhaps files later: both
positions have the xid. So what a part of the log commits is looked up backwards, further and further, until every
commit has met its rows. Nothing is kept between runs: what a range comes to depends on the log alone.

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
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableName, xa_step
from spark_jobs.bronze import derived_slices
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.index import SliceIndex, read_index, read_slices
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

log = logging.getLogger(__name__)

OF_XA = "kind = 'statement' AND statement ILIKE 'XA %'"
"""SQL: slices that are, or decide about, an XA transaction."""
LOGGED = "logged"
"""Column of slices that are given another place: where their bytes stand, ``LOGGED_AT``; null in all others."""
LOGGED_AT = "STRUCT<stretch: INT, number: BIGINT, start: BIGINT, file: STRING>"
EFFECT = "effect"
"""Column of slices by their bytes: where they take effect, a struct of stretch, number, start and file; or null."""

_POSITION_FIELDS = [("stretch", pa.int32()), ("number", pa.int64()), ("file", pa.string())]
HELD = pa.schema(
    [
        *(("schema", pa.string()), ("table", pa.string()), ("size", pa.int64())),
        *(("said_in", pa.string()), ("said", pa.string())),
        *_POSITION_FIELDS,
        ("begun", pa.int64()),
        *((f"at_{name}", kind) for name, kind in _POSITION_FIELDS),
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

    rows: pa.Table = field(default_factory=HELD.empty_table)
    unknown: tuple[tuple[str, Position], ...] = ()

    def of(self, name: TableName, passed_over: Collection[Position] = ()) -> "Xa":
        """The XA transactions with rows of a table, by begin or commit, without those that are quarantined for it."""
        rows = self.rows.filter((pc.field("schema") == name.schema) & (pc.field("table") == name.table))
        for position in passed_over:
            for names in (("at_stretch", "at_file", "at_start"), ("stretch", "file", "begun")):
                pairs = zip(names, (position.stretch, position.file, position.offset), strict=True)
                rows = rows.filter(~reduce(and_, (pc.field(name) == value for name, value in pairs)))
        return Xa(rows, tuple((xid, at) for xid, at in self.unknown if at not in passed_over))

    def row_ranges(self) -> list[Range]:
        """Range of each transaction, from where its rows begin to where it is committed."""
        return [
            Range(
                Position(row["file"], row["begun"], row["stretch"]),
                Position(row["at_file"], row["at_start"], row["at_stretch"]),
            )
            for row in self.rows.to_pylist()
        ]

    def commits(self) -> dict[TableName, tuple[Position, Position, int]]:
        """First and last commit of each table's rows, and the bytes of their transactions."""
        order = [(f"at_{name}", "ascending") for name in ("stretch", "number", "start")]
        rows = self.rows.filter(pc.field("table").is_valid()).sort_by(order)
        position = ("at_file", "at_start", "at_stretch")
        aggregates = [("size", "sum"), *((name, end) for end in ("first", "last") for name in position)]
        grouped = rows.group_by(["schema", "table"], use_threads=False).aggregate(aggregates).to_pylist()
        return {
            TableName(row["schema"], row["table"]): (
                Position(*(row[f"{name}_first"] for name in position)),
                Position(*(row[f"{name}_last"] for name in position)),
                row["size_sum"],
            )
            for row in grouped
        }

    def also(self, new: TableName, old: TableName, since: Position) -> "Xa":
        """Transactions with a table's rows, logged before a position and committed after it, as another's too."""
        table_rows = self.of(old).rows
        spans = Xa(table_rows).row_ranges()
        table_rows = table_rows.filter(pa.array([span.start < since < span.stop for span in spans], pa.bool_()))
        for name, value in (("schema", new.schema), ("table", new.table)):
            constant = pa.repeat(pa.scalar(value, pa.string()), len(table_rows))
            table_rows = table_rows.set_column(HELD.get_field_index(name), name, constant)
        return replace(self, rows=pa.concat_tables([self.rows, table_rows]))

    def extent(self) -> Range | None:
        """Range from the first row to the last commit; None where nothing is committed."""
        if not len(self.rows):
            return None
        first = self.rows.sort_by([(name, "ascending") for name in ("stretch", "number", "begun")]).slice(0, 1)
        last = self.rows.sort_by([(f"at_{name}", "descending") for name in ("stretch", "number", "start")]).slice(0, 1)
        (begin,), (end,) = first.to_pylist(), last.to_pylist()
        return Range(
            Position(begin["file"], begin["begun"], begin["stretch"]),
            Position(end["at_file"], end["at_start"], end["at_stretch"]),
        )

    def index(self, files: DataFiles) -> pa.Table:
        """Slices of the transactions as rows of an index, which take effect at the position of the commit."""
        log_range = self.extent()
        assert log_range is not None
        last = replace(
            log_range.stop, offset=log_range.stop.offset + 1
        )  # one that commits itself has its last slice there
        statements = read_slices(files, Range(log_range.start, last), "statement")
        slices = statements.where(statements.flags("is_xa")).slices
        names = ("stretch", "file", "number", "start", "committed")
        columns = (self.rows.column(f"at_{name}").to_pylist() for name in names)
        at = dict(zip(_row_offsets(self.rows, "begun"), zip(*columns, strict=True), strict=True))
        positions = [at.get(position) for position in _row_offsets(slices, "transaction_start")]
        slices = slices.filter(pa.array([position is not None for position in positions], pa.bool_()))
        table_columns = list(zip(*filter(None, positions), strict=True))
        moved: dict[str, Sequence[Any]] = {
            f"effect_{column}": cells for column, cells in zip(names[:4], table_columns, strict=False)
        }
        moved |= {"committed_at": table_columns[4], "kind": ["rows"] * len(slices)} if table_columns else {}
        for name, cells in moved.items():
            cell_field = slices.schema.field(name)
            slices = slices.set_column(
                slices.schema.get_field_index(name), cell_field, pa.array(cells, cell_field.type)
            )
        return slices

    def slices(self, all_slices: "DataFrame") -> "DataFrame":
        """Slices of the transactions as rows at the commit's position; those of one transaction in one task, in order.

        Their bytes' own position is in LOGGED. There has to be one transaction at least.
        """
        from pyspark.sql import functions as F

        keys = ("stretch", "number", "begun")
        own_rows = self.rows.select([*keys, *(name for name in HELD.names if name.startswith("at_"))])
        # A row a transaction, however many tables it has.
        own_rows = own_rows.group_by(own_rows.column_names).aggregate([])
        log_range = self.extent()
        assert log_range is not None
        last = replace(
            log_range.stop, offset=log_range.stop.offset + 1
        )  # one that commits itself has its last slice there
        joined = all_slices.where(OF_XA).where(bronze.inside(Range(log_range.start, last)))
        joined = joined.withColumn("begun", F.col("transaction_start"))
        joined = joined.join(F.broadcast(all_slices.sparkSession.createDataFrame(own_rows)), list(keys))
        cells_by_name: dict[str, str | Column] = {
            "stretch": "at_stretch",
            "number": "at_number",
            "start": "at_start",
            "stop": F.expr("at_start + stop - start"),
            "file": "at_file",
            "kind": F.lit("rows"),
            "committed_at": "at_committed",
        }
        cells = [F.col(cell) if isinstance(cell, str) else cell for cell in cells_by_name.values()]
        columns = [F.col(name) for name in all_slices.columns if name not in cells_by_name]
        logged = F.struct("stretch", "number", "start", "file").cast(LOGGED_AT).alias(LOGGED)
        moved = joined.select(
            *(cell.alias(name) for name, cell in zip(cells_by_name, cells, strict=True)), *columns, logged
        )
        order = ("stretch", "number", "start")
        return moved.repartition(*order).sortWithinPartitions(*order, f"{LOGGED}.start")


def _row_offsets(rows: pa.Table, offset: str) -> Iterator[tuple[int, int, int]]:
    """Stretch, file number and an offset of each row."""
    return zip(*(rows.column(name).to_pylist() for name in ("stretch", "number", offset)), strict=True)


NO_XA = Xa()


def by_bytes(slices: "DataFrame") -> "DataFrame":
    """Effective slices by the place of their bytes; of those that take effect elsewhere, EFFECT says where."""
    from pyspark.sql import functions as F

    positions = ("stretch", "number", "start", "file")
    position_columns = (F.coalesce(f"{LOGGED}.{name}", name).alias(name) for name in positions)
    rest = (name for name in slices.columns if name not in (*positions, LOGGED))
    return slices.select(
        *position_columns, *rest, F.when(F.col(LOGGED).isNotNull(), F.struct(*positions)).alias(EFFECT)
    )


def taking_effect(index: SliceIndex, xa: Xa) -> SliceIndex:
    """The slices that take effect in a range, among its own and all others."""
    rest = index.where(~index.flags("is_xa"))
    return rest.with_slices(xa.index(index.files)) if len(xa.rows) else rest


def read_effective(
    table: Table, version: int, within: Range, oldest: Position, cuts: Collection[Position] = ()
) -> SliceIndex:
    """The slices that take effect in a range, without what they say of tables; as ``scan.scan_effective``.

    Raises DecodeError, LakeError.
    """
    inside = [cut for cut in cuts if within.start <= cut <= within.stop]
    index = read_index(table, version, within).cut(inside).within(within)
    index = derived_slices.with_derived(index, table.path, within)
    return taking_effect(index, committed(index.files, within, oldest)) if index.flags("is_xa").any() else index


def committed(files: DataFiles, within: Range, oldest: Position) -> Xa:
    """The XA transactions that a range commits; rows that bronze does not hold are warned of.

    oldest: where bronze begins. Raises DecodeError, LakeError.
    """
    # Rows lie before their commit, at most at bronze's oldest byte: the range is widened until all of them are found.
    all_steps, transactions, end = list[XaSlice](), list[XaTransaction](), within.stop
    for start in _starts(within.start, oldest):
        part = Range(start, end)
        all_steps += steps(read_slices(files, part, "statement").within(part))
        end = start
        transactions = _committed(all_steps, within)
        if all(transaction.rows and transaction.rows.is_whole for transaction in transactions):
            break
    # Rows that are nowhere in bronze cannot be read any more; the commit names them.
    unknown = sorted(
        ((transaction.xid, transaction.end.position) for transaction in transactions if transaction.rows is None),
        key=lambda transaction: transaction[1],
    )
    for xid, at in unknown:
        log.warning(
            "%s: the XA transaction %s is committed, but bronze, which begins at %s, does not hold its rows",
            at,
            xid,
            oldest,
        )
    all_rows = [row for transaction in transactions for row in transaction.to_rows()]
    return Xa(pa.Table.from_pylist(all_rows, HELD), tuple(unknown))


def _starts(start: Position, oldest: Position) -> Iterator[Position]:
    """Positions to look from, each further back than the one before, the last where bronze begins."""
    base, files = start.file.rpartition(".")[0], 0
    positions = [start, replace(start, offset=max(start.offset - _NEAR, 0))]
    while start.number > files:
        positions.append(Position(f"{base}.{start.number - files:06d}", 0, start.stretch))
        files = 2 * files + 1
    further = [position for position in positions if position > oldest]
    yield from dict.fromkeys([*further, min(start, oldest)])


@dataclass(frozen=True, slots=True)
class XaSlice:
    """Action of a slice of an XA transaction, and its position.

    transaction_start: the offset where the transaction begins.
    """

    kind: str
    """Action of the slice on the transaction, as ``XaStep.kind``."""
    xid: str | None
    statement: tuple[str, str] | None
    position: Position
    stop: int
    transaction_start: int
    committed_at: datetime
    tables: tuple[TableName, ...]

    @property
    def begin(self) -> Position:
        """Position where the transaction begins."""
        return replace(self.position, offset=self.transaction_start)


def steps(slices: SliceIndex) -> Iterator[XaSlice]:
    """Actions of each slice of XA transactions, in order. Raises DecodeError, LakeError."""
    rows = np.flatnonzero(slices.flags("is_xa")).tolist()
    for row, cells in zip(rows, slices.cells(rows), strict=True):
        start, transaction_start = cells["start"], cells["transaction_start"]
        step = xa_step(
            cells["file"],
            start,
            cells["context"],
            cells["payload"],
            transaction_start,
            inside=transaction_start != start,
        )
        if step is None:
            continue
        committed_at, tables = (slices.slices.column(name)[row].as_py() for name in ("committed_at", "tables"))
        names = tuple(TableName(table["schema"], table["table"]) for table in tables or ())
        position = Position(cells["file"], start, cells["stretch"])
        yield XaSlice(
            step.kind, step.xid, step.statement, position, cells["stop"], transaction_start, committed_at, names
        )


@dataclass(slots=True)
class LoggedTransaction:
    """The slices of one XA transaction, as far as they were read: its end, and what all of them say."""

    last: XaSlice
    is_whole: bool
    """True if its first slice was read."""
    size: int = 0
    statement: tuple[str, str] | None = None
    tables: dict[TableName, None] = field(default_factory=dict)

    def add(self, step: XaSlice) -> None:
        """The next slice of it."""
        self.last = step
        self.size += step.stop - step.position.offset
        self.statement = self.statement or step.statement
        self.tables |= dict.fromkeys(step.tables)


@dataclass(frozen=True, slots=True)
class XaTransaction:
    """A transaction that is committed: its end, and its rows, None where they were not read."""

    xid: str
    end: XaSlice
    rows: LoggedTransaction | None

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """Rows of HELD; none where the transaction's own are not known."""
        if self.rows is None:
            return
        begin, statement = self.rows.last.begin, self.rows.statement or (None, None)
        fields: dict[str, Any] = {
            "size": self.rows.size,
            "said_in": statement[0],
            "said": statement[1],
            "begun": begin.offset,
        }
        fields |= {
            "at_start": self.end.position.offset,
            "at_stop": self.end.stop,
            "at_committed": self.end.committed_at,
        }
        # The position of the transaction's begin, and that of its end.
        for prefix, position in (("", begin), ("at_", self.end.position)):
            fields |= {
                f"{prefix}stretch": position.stretch,
                f"{prefix}number": position.number,
                f"{prefix}file": position.file,
            }
        for name in self.rows.tables or (None,):
            yield fields | {"schema": name and name.schema, "table": name and name.table}


def transactions_of(all_steps: Iterable[XaSlice]) -> list[LoggedTransaction]:
    """The XA transactions of slices, in the log's order, by where they end."""
    by_begin: dict[Position, LoggedTransaction] = {}
    for step in sorted(all_steps, key=lambda step: step.position.order):
        logged = by_begin.setdefault(step.begin, LoggedTransaction(step, step.begin == step.position))
        logged.add(step)
    return sorted(by_begin.values(), key=lambda entry: entry.last.position.order)


def _committed(all_steps: Iterable[XaSlice], within: Range) -> list[XaTransaction]:
    """The transactions that a range commits, with what was read of their rows."""
    transactions: list[XaTransaction] = []
    before: dict[str | None, LoggedTransaction] = {}
    for logged_transaction in transactions_of(all_steps):
        last = logged_transaction.last
        prepared, before[last.xid] = before.get(last.xid), logged_transaction
        if not within.start <= last.position < within.stop:
            continue
        if last.kind == "at once":
            transactions.append(XaTransaction(str(last.xid), last, logged_transaction))
        elif last.kind == "committed" and (prepared is None or prepared.last.kind == "prepared"):
            transactions.append(XaTransaction(str(last.xid), last, prepared))
    return transactions
