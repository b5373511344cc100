"""Bronze as a source: places in what it holds, by position, GTID set or time.

Put here: asking bronze what a server or a directory is asked (source/). Not here: how a place is found
(source/start.py), or what is done with a range.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.binlog import FormatDescription
from spark_jobs.errors import LakeError
from spark_jobs.gtid import MysqlGtids
from spark_jobs.lake import Checkpoint, Lake, Table
from spark_jobs.place import parse_place
from spark_jobs.position import Position, Range
from spark_jobs.source import Log, LogFile, Part, Reading
from spark_jobs.source.start import find_place

log = logging.getLogger(__name__)


def range_in(spark: SparkSession, lake: Lake, source: str, start: str | None, stop: str | None) -> Range:
    """The part of bronze between two places, the oldest that it holds and its end where they are not named.

    Raises LakeError where bronze is empty or gc has removed what is named, SourceError where a place is not in it,
    ConfigError for what is none.
    """
    table = lake.bronze(source)
    head = table.head()
    if head is None or head.checkpoint is None:
        raise LakeError(f"{source}: bronze holds nothing yet")
    landed = Landed(spark, source, table, head.version, head.checkpoint)
    begin = landed.position(start) if start else bronze.oldest(head.checkpoint)
    removed = bronze.removed(head.checkpoint)
    if start:
        bronze.require_held(source, head.checkpoint, max(begin, bronze.begin(head.checkpoint)))
    elif removed:
        log.warning("%s: what lies before %s is left out: %s", source, removed.stop, bronze.gone(source, removed))
    return Range(begin, landed.position(stop) if stop else head.checkpoint.position)


class Landed:
    """A bronze table at one version, as a source. The files that it holds from their first byte on can be searched."""

    earlier = "name a position, which may lie in a file that bronze holds in part, or a place behind that"

    def __init__(self, spark: SparkSession, name: str, table: Table, version: int, checkpoint: Checkpoint) -> None:
        self.name = name
        self._spark, self._table, self._version = spark, table, version
        self._end = checkpoint.position
        self._heads: dict[str, bytes] = {}
        """The first slice of each file: its head, or more."""

    def position(self, place: str) -> Position:
        """Where a place lies. Raises SourceError, DecodeError, ConfigError."""
        parsed = parse_place(place)
        if isinstance(parsed, Position):
            return parsed
        return replace(find_place(self, self.log(), parsed), stretch=self._end.stretch)

    def log(self) -> Log:
        slices = bronze.read_all(self._spark, self._table, self._version).where(f"stretch = {self._end.stretch}")
        stops = slices.groupBy("number", "file").agg(F.max("stop").alias("stop"))
        heads = slices.where("start = 0").select("file", "payload")
        self._heads = {row["file"]: bytes(row["payload"]) for row in heads.collect()}
        files = [LogFile(row["file"], row["stop"]) for row in stops.orderBy("number").collect()]
        whole = tuple(file for file in files if file.name in self._heads)
        if not whole:
            raise LakeError(f"{self.name}: bronze holds no file from its first byte on; {self.earlier}")
        return Log(self.name, whole, replace(self._end, stretch=1))

    def reading(self) -> Reading:
        return self._read

    def _read(self, part: Part) -> tuple[FormatDescription | None, Iterator[bytes]]:
        assert not part.start, "files are searched from their first byte on"
        return None, self._chunks(part)

    def _chunks(self, part: Part) -> Iterator[bytes]:
        head = self._heads[part.file]
        yield head[: part.stop]
        within = (F.col("file") == part.file) & (F.col("start") >= len(head)) & (F.col("start") < part.stop)
        if part.stop > len(head):
            slices = bronze.read_all(self._spark, self._table, self._version).where(within).orderBy("start")
            for row in slices.select("start", "payload").toLocalIterator():
                yield bytes(row["payload"])[: part.stop - row["start"]]

    def now(self) -> None:
        """What bronze holds is over."""

    def purged(self) -> MysqlGtids:
        """What came before bronze, its files' heads say."""
        return MysqlGtids()
