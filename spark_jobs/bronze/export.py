"""Export of bronze to binlog files, byte for byte what the server wrote, but for what was redacted.

Put here: putting slices together again, and proving that none is missing. Not here: reading files as a source.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog.events.scanner import TableMaps, open_slice
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.bronze.table import HeldFile
from spark_jobs.errors import DecodeError, LakeError, SourceError, about
from spark_jobs.lake.commit import Checkpoint
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.text.progress import doing

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Exported:
    """One file written. ``start`` is 0 for a whole file; a part is named after the offset that it begins at.

    partial: what bronze does not hold of the file, and why; None for all that its server wrote until it was read.
    redacted: what was blanked when it was extracted; None for nothing.
    """

    path: Path
    start: int
    size: int
    partial: str | None = None
    redacted: bronze.Redacted | None = None


def export(spark: SparkSession, lake: Lake, source: str, folder: Path) -> Iterator[Exported]:
    """Write every file that bronze holds into a folder.

    Raises LakeError on a hole or a damaged event, SourceError where files are in the way.
    """
    table = lake.bronze(source)
    head = table.head()
    if head is None or head.checkpoint is None:
        raise LakeError(f"{source}: bronze holds nothing to export")
    with about(source):
        _log_gone(source, head.checkpoint)
        _make(folder)
        index = {stretch.number: stretch for stretch in BronzeCommit.of(head.checkpoint).stretches}
        for binlog_file in bronze.files(table, head.version):
            yield from _write_file(
                spark, table, head.version, binlog_file, folder, stretch=index.get(binlog_file.stretch)
            )


def _log_gone(source: str, checkpoint: Checkpoint) -> None:
    removed = bronze.range_removed_by_gc(checkpoint)
    if removed:
        log.warning(
            "%s: the files before %s are missing: %s", source, removed.stop, bronze.removal_message(source, removed)
        )


def _write_file(
    spark: SparkSession, table: Table, version: int, binlog_file: HeldFile, folder: Path, *, stretch: Stretch | None
) -> Iterator[Exported]:
    """A file; where another log was taken up in it, each run of bytes that bronze holds of it."""
    runs = _runs(binlog_file, stretch)
    if sum(stop - start for start, stop in runs) != binlog_file.size:
        lies_in = f"[{binlog_file.start}, {binlog_file.stop})"
        raise LakeError(f"{binlog_file.file}: bronze holds {binlog_file.size} bytes of {lies_in}; it has a hole")
    name = binlog_file.file if binlog_file.stretch == 1 else f"{binlog_file.stretch}-{binlog_file.file}"
    slices = _slices_of_file(spark, table, version, binlog_file)
    # A file that is there is left alone; one that begins or ends inside the server's says so by its name.
    for start, stop in runs:
        is_whole = not start and (stretch is None or stretch.holds_whole(binlog_file.file))
        path = folder / (name if is_whole else f"{name}.from-{start}")
        if path.exists():
            raise SourceError(f"{path} is there already; export into an empty folder")
        log.info("%s: writing %s, %d bytes", binlog_file.file, path, stop - start)
        run_rows = slices.where(f"start >= {start} AND start < {stop}")
        with doing(f"writing {path}"):
            _write_log_file(run_rows, binlog_file.file, start, path)
        partial = None if is_whole else _partial(start, stop, binlog_file, stretch)
        yield Exported(path, start, stop - start, partial, bronze.redactions_in(run_rows))


def _runs(binlog_file: HeldFile, stretch: Stretch | None) -> list[tuple[int, int]]:
    """The spans [start, stop) of a file that bronze should hold.

    These are all but the transactions that an earlier stretch has.
    """
    gaps = [(gap.start, gap.stop) for gap in stretch.passed_over if gap.file == binlog_file.file] if stretch else []
    begins = [binlog_file.start, *(stop for _, stop in gaps)]
    ends = [*(start for start, _ in gaps), binlog_file.stop]
    return [(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]


def _partial(start: int, stop: int, binlog_file: HeldFile, stretch: Stretch | None) -> str:
    span = f"from byte {start} on" if stop == binlog_file.stop else f"bytes {start} to {stop}"
    if stretch and stretch.passed_over:
        return f"{span}: the rest of the file are transactions that an earlier stretch has, or came before it"
    return f"{span}: bronze does not hold its beginning"


def _slices_of_file(spark: SparkSession, table: Table, version: int, binlog_file: HeldFile) -> DataFrame:
    slices = bronze.read_all(spark, table, version)
    return slices.where((F.col("stretch") == binlog_file.stretch) & (F.col("number") == binlog_file.file_number[1]))


def _write_log_file(slices: DataFrame, file: str, start: int, path: Path) -> None:
    """Write a file under a temporary name, and rename it once all its events are whole and right.

    Raises SourceError, LakeError; no file is left then.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("wb") as out:
            _copy_slices(slices.select(*_COLUMNS).orderBy("start"), file, start, out)
        unfinished.rename(path)
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):  # a folder that cannot be written to, as the error says
            unfinished.unlink(missing_ok=True)


_COLUMNS = ("start", "stop", "payload", "context", "transaction_start")


def _copy_slices(slices: DataFrame, file: str, start: int, out: BinaryIO) -> None:
    at = start
    for row in slices.toLocalIterator(prefetchPartitions=True):
        if row["start"] != at or len(row["payload"]) != row["stop"] - row["start"]:
            raise LakeError(f"{file}:{at}: bronze goes on at {row['start']}; its slices do not touch")
        _require_right(file, row)
        out.write(row["payload"])
        at = row["stop"]


def _require_right(file: str, row: Row) -> None:
    """Check that a slice has whole events with right checksums. Raises LakeError, with file and offset."""
    payload, context = bytes(row["payload"]), row["context"] and bytes(row["context"])
    try:
        open_slice(file, row["start"], context, payload, TableMaps(), transaction_start=row["transaction_start"])
    except DecodeError as error:
        raise LakeError(
            f"{error}; bronze has been damaged since it was written, and the file was not exported: restore the lake "
            "from a backup, or take the file from the server or an archive"
        ) from error


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(f"{folder}: cannot be made: {error.strerror}") from error
