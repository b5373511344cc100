"""Python API of a source's bronze: a log that is read by position and by GTID, in notebooks and programs.

    from pathlib import Path
    from stratalog import Store, load, spark_session

    pipeline = load(Path("pipeline.yaml"))
    store = Store(spark_session(pipeline.spark), pipeline, "shop")
    store.changes(start=store.first, tables=["shop.orders"]).where("op = 'delete'").show()

Put here: questions to a log that bronze holds. Not here: new ways to answer them; changes/bronze_feed.py,
retention/gc.py and bronze/prepared_xa.py do. What is appended comes from a source (bronze/extract.py), or from archived
files (pipeline/archive.py).

Every call reads bronze as it is then. Nothing is held open, so there is nothing to close.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.boundaries import split_transactions
from spark_jobs.bronze.prepared_xa import PreparedTransaction, prepared_transactions
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.changes.bronze_feed import changes_frame, transactions_of_bronze
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.retention.gc import Collected, gc_source
from spark_jobs.runtime.executors import checked
from spark_jobs.schema import history as schema_history
from spark_jobs.schema.facts import TableVersion

_MYSQL = re.compile(r"([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}):(\d+)")
_MARIADB = re.compile(r"(\d+)-(\d+)-(\d+)")
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Transaction:
    """Whole transactions of one file, or a part of a large one: the bytes [start, stop) as the server wrote them.

    ``gtid`` and ``committed_at`` are the last transaction's.
    """

    start: Position
    stop: Position
    gtid: str | None
    committed_at: datetime
    payload: bytes


class Store:
    """The log of one source, read from its bronze table. Methods raise LakeError where there is no bronze table."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, source: str) -> None:
        self.spark = spark
        self.pipeline = pipeline
        self.source = source

    @property
    def first(self) -> Position:
        """The position where the stored log begins: where extraction began, or up to where gc removed the log."""
        return self._snapshot().oldest

    @property
    def last(self) -> Position:
        """The position where the stored log ends; the next extraction appends there."""
        return self._snapshot().checkpoint.position

    @property
    def gc_position(self) -> Position | None:
        """The position up to which gc removed the log; None where it removed nothing."""
        removed = bronze.range_removed_by_gc(self._snapshot().checkpoint)
        return removed.stop if removed else None

    def get(self, at: Position | str) -> Transaction | None:
        """The transaction at a position, or with a GTID (text); None where there is none.

        It is read into memory as a whole. A GTID is searched in all of bronze. Raises LakeError for a position that gc
        removed.
        """
        position = at if isinstance(at, Position) else self._position_of(at)
        if position is None:
            return None
        after = Position(position.file, position.offset + 1, position.stretch)
        return _joined_transaction(list(self._read_transactions(position, after)))

    def pull(self, after: Position, until: Position | None = None) -> Iterator[Transaction]:
        """The log after a position, in order, in slices of about 1 MiB.

        Resume from the ``stop`` of the last slice. A slice may end inside a large transaction.
        """
        return self._read_transactions(after, until or self.last)

    def undecided(self) -> list[PreparedTransaction]:
        """In-doubt XA transactions: prepared, neither committed nor rolled back in the log; in log order."""
        return prepared_transactions(self._bronze_table, self._snapshot().version)

    def is_decided(self, below: Position) -> bool:
        """True if no XA transaction that begins below a position is in doubt."""
        return all(transaction.position >= below for transaction in self.undecided())

    def changes(
        self, start: Position | None = None, stop: Position | None = None, tables: Sequence[str] = ()
    ) -> DataFrame:
        """The row changes of a range of the log as a DataFrame; of all of the log by default.

        A row for each change, as ``stratalog changes`` writes it, with the stretch and number of the file. ``before``
        and ``after`` are JSON text, for ``from_json`` or ``get_json_object``. Rows are not sorted: log order is
        (stretch, number, offset, row).

        Args:
            start: The position of the first change.
            stop: The position after the last change.
            tables: Patterns such as ``shop.*``; all tables by default.
        """
        return changes_frame(
            self.spark, lake_of(self.pipeline), self.source, start, stop, is_wanted=wanted_tables(tables)
        )

    def schema(self, at: Position | None = None) -> dict[TableName, TableVersion]:
        """Table definitions by name at a position, by default the end of the log; dropped tables too.

        Raises LakeError where the schema history does not reach there.
        """
        return schema_history.read(lake_of(self.pipeline), self.source).at(at)

    def schema_history(self) -> DataFrame:
        """The whole schema history as a DataFrame: a row for each table and position with a definition."""
        return lake_of(self.pipeline).schema(self.source).read(self.spark)

    def gc(self, *, ignored: Collection[str] = (), dry_run: bool = False) -> Collected:
        """Remove what retention allows, as ``stratalog gc``."""
        return gc_source(self.spark, self.pipeline, self.source, ignored=ignored, dry_run=dry_run)

    @property
    def _bronze_table(self) -> Table:
        return lake_of(self.pipeline).bronze(self.source)

    def _snapshot(self) -> BronzeSnapshot:
        return BronzeSnapshot.of(lake_of(self.pipeline), self.source)

    def _read_transactions(self, start: Position, stop: Position) -> Iterator[Transaction]:
        lake = lake_of(self.pipeline)
        for stretch, part in transactions_of_bronze(self.spark, lake, self.source, start, stop):
            yield _transaction_of(stretch, part)

    def _position_of(self, gtid: str) -> Position | None:
        slices = bronze.read_all(self.spark, self._bronze_table, self._snapshot().version)
        likely = slices.where("kind != 'control'").where(_may_hold(gtid))
        matches = likely.mapInArrow(checked(_looking_for(gtid)), "stretch INT, file STRING, start BIGINT")
        row = matches.orderBy("stretch", "start").head()
        return Position(row["file"], row["start"], row["stretch"]) if row else None


def _checkpoint(head: Head) -> Checkpoint:
    assert head.checkpoint is not None
    return head.checkpoint


def _transaction_of(stretch: int, part: pa.RecordBatch) -> Transaction:
    names = ("file", "start", "stop", "gtid", "committed_at", "payload")
    file, start, stop, gtid, committed_at, payload = (part.column(name)[0].as_py() for name in names)
    return Transaction(Position(file, start, stretch), Position(file, stop, stretch), gtid, committed_at, payload)


def _joined_transaction(parts: list[Transaction]) -> Transaction | None:
    """One transaction out of its parts."""
    if not parts:
        return None
    last = parts[-1]
    return Transaction(
        parts[0].start, last.stop, last.gtid, last.committed_at, b"".join(part.payload for part in parts)
    )


def _may_hold(gtid: str) -> Column:
    """True if a slice's bytes may hold a GTID event of it, so that few slices have to be looked into.

    MySQL writes uuid and number one after the other (libs/mysql/binlog/event/control_events.h, Gtid_event), MariaDB
    number and domain (sql/log_event.h, Gtid_log_event), in little-endian order; GTIDs with tags are packed.
    """
    payload = F.col("payload")
    if match := _MYSQL.fullmatch(gtid):
        return F.contains(
            payload, F.lit(bytes.fromhex(match[1].replace("-", "")) + int(match[2]).to_bytes(8, "little"))
        )
    if match := _MARIADB.fullmatch(gtid):
        return F.contains(payload, F.lit(int(match[3]).to_bytes(8, "little") + int(match[1]).to_bytes(4, "little")))
    return F.lit(True)


def _looking_for(gtid: str) -> Callable[[Batches], Batches]:
    """A mapInArrow function from slices to where in them a transaction of a GTID begins."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for cells in (batch.slice(at, 1) for at in range(batch.num_rows)):
                file, stretch = (cells.column(name)[0].as_py() for name in ("file", "stretch"))
                matching = (part for part in split_transactions(cells) if part.column("gtid")[0].as_py() == gtid)
                starts = [part.column("transaction_start")[0].as_py() for part in matching]
                rows = [{"stretch": stretch, "file": file, "start": position} for position in starts[:1]]
                yield pa.RecordBatch.from_pylist(rows, schema=_POSITION_SCHEMA)

    return run


_POSITION_SCHEMA = pa.schema([("stretch", pa.int32()), ("file", pa.string()), ("start", pa.int64())])
