"""Bronze -> binlog files, byte for byte what the server wrote.

Put here: putting slices together again, and proving that none is missing. Not here: reading files as a source.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.bronze import HeldFile
from spark_jobs.errors import LakeError, SourceError, about
from spark_jobs.lake import Checkpoint, Lake, Table

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Exported:
    """One file written. ``start`` is 0 for a whole file; a part is named after the offset that it begins at."""

    path: Path
    start: int
    size: int


def export(spark: SparkSession, lake: Lake, source: str, folder: Path) -> Iterator[Exported]:
    """Writes every file that bronze holds into a folder.

    Raises LakeError on a hole, SourceError where files are in the way.
    """
    table = lake.bronze(source)
    head = table.head()
    if head is None or head.checkpoint is None:
        raise LakeError(f"{source}: bronze holds nothing to export")
    with about(source):
        _say_gone(source, head.checkpoint)
        _make(folder)
        for held in bronze.files(spark, table, head.version):
            yield _written(spark, table, head.version, held, folder)


def _say_gone(source: str, checkpoint: Checkpoint) -> None:
    removed = bronze.removed(checkpoint)
    if removed:
        log.warning("%s: the files before %s are left out: %s", source, removed.stop, bronze.gone(source, removed))


def _written(spark: SparkSession, table: Table, version: int, held: HeldFile, folder: Path) -> Exported:
    if held.size != held.stop - held.start:
        raise LakeError(f"{held.file}: bronze holds {held.size} bytes of [{held.start}, {held.stop}); it has a hole")
    name = held.file if held.stretch == 1 else f"{held.stretch}-{held.file}"
    path = folder / (name if not held.start else f"{name}.from-{held.start}")
    log.info("%s: writing %s, %d bytes", held.file, path, held.size)
    try:
        with path.open("xb") as out:
            _copy(_slices(spark, table, version, held), held, out)
    except FileExistsError as error:
        raise SourceError(f"{path} is there already; export into an empty folder") from error
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror}") from error
    return Exported(path, held.start, held.size)


def _slices(spark: SparkSession, table: Table, version: int, held: HeldFile) -> DataFrame:
    slices = bronze.read_all(spark, table, version)
    mine = slices.where((F.col("stretch") == held.stretch) & (F.col("number") == held.place[1]))
    return mine.select("start", "stop", "payload").orderBy("start")


def _copy(slices: DataFrame, held: HeldFile, out: BinaryIO) -> None:
    at = held.start
    for row in slices.toLocalIterator(prefetchPartitions=True):
        if row["start"] != at or len(row["payload"]) != row["stop"] - row["start"]:
            raise LakeError(f"{held.file}:{at}: bronze goes on at {row['start']}; its slices do not touch")
        out.write(row["payload"])
        at = row["stop"]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(f"{folder}: cannot be made: {error.strerror}") from error
