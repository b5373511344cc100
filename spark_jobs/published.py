"""The lake's ``published`` table: which Delta version of which table holds which position.

Put here: its rows and how a source's are written. Not here: who decides what has happened to a table.

One commit a run and source. A reader opens a consistent set of tables by it, and a run learns from it up to where it
has looked at bronze already: every table that bronze has shown before ``surveyed`` has a row here, in scope or not.
"""

from dataclasses import asdict, dataclass, fields
from datetime import datetime

import deltalake
import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.errors import LostRace
from spark_jobs.lake import Checkpoint, Lake, new_batch
from spark_jobs.position import Position

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """One source table. ``position`` is up to where it is compacted, ``merged`` up to where it is merged downstream."""

    source: str
    schema: str
    table: str
    state: str
    """``current``, ``stopped`` or ``ignored`` (out of scope)."""
    reason: str | None = None
    position: str | None = None
    silver_version: int | None = None
    merged: str | None = None
    downstream: str | None = None
    downstream_version: int | None = None
    committed_at: datetime | None = None
    """Commit time of the newest change that was compacted."""
    surveyed: str | None = None
    """Up to where the source's bronze was looked at by the run that wrote the row."""
    published_at: datetime | None = None

    @property
    def name(self) -> tuple[str, str]:
        return self.schema, self.table

    @property
    def checkpoint(self) -> Position | None:
        return Position.parse(self.position) if self.position else None


_SPARK: dict[object, str] = {int | None: "BIGINT", datetime | None: "TIMESTAMP"}
_ARROW: dict[object, pa.DataType] = {int | None: pa.int64(), datetime | None: pa.timestamp("us", "UTC")}
COLUMNS = {field.name: _SPARK.get(field.type, "STRING") for field in fields(Entry)}
_SCHEMA = pa.schema([(field.name, _ARROW.get(field.type, pa.string())) for field in fields(Entry)])


def read(lake: Lake, source: str) -> list[Entry]:
    """The source's rows, without a JVM; none where nothing was published yet."""
    table = lake.published()
    if table.head() is None:
        return []
    stored = deltalake.DeltaTable(table.path).to_pyarrow_table(filters=[("source", "=", source)])
    return [Entry(**row) for row in stored.to_pylist()]


def surveyed(entries: list[Entry]) -> Position | None:
    """Up to where the source's bronze has been looked at."""
    found = [Position.parse(entry.surveyed) for entry in entries if entry.surveyed]
    return max(found) if found else None


def write(spark: SparkSession, lake: Lake, source: str, entries: list[Entry], position: Position) -> None:
    """Replaces the source's rows in one commit. Raises LostRace where other sources keep winning."""
    table = lake.published()
    rows = spark.createDataFrame(pa.Table.from_pylist([asdict(entry) for entry in entries], schema=_SCHEMA)).coalesce(1)
    for tries_left in reversed(range(_TRIES)):
        head = table.head() or table.create(spark, COLUMNS, {})
        try:
            table.replace(
                rows, f"source = '{source}'", head, Checkpoint(position, new_batch(), notes={"source": source})
            )
        except LostRace:  # another source published meanwhile; its rows are not ours
            if not tries_left:
                raise
        else:
            return
