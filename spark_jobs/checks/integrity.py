"""Integrity checks of the lake: bronze without gap or overlap, downstream with every key once.

Put here: checks that ask the lake alone. Not here: comparing rows with the source's (verify/), or how far a source is
ahead (operations/observation/status.py).
"""

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.files import BinlogFile
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.downstream.modes import CURRENT_ROWS
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import FIRST_EVENT
from spark_jobs.pipeline.destinations import TableInto, destinations_of, downstream_of
from spark_jobs.silver import table as silver
from spark_jobs.source.protocol import FilePart

_ROWS = 1 << 16
_AT_ONCE = 20
"""Tables whose keys are counted by one Spark job."""
_POSITION_COLUMNS = ["stretch", "number", "start", "stop", "file"]


def breaks(table: Table, head: Head) -> list[str]:
    """Gaps and overlaps of bronze's slices, each as a sentence; none in a table that is right.

    Reads the columns that place a slice, no payload, without a JVM. What an earlier stretch has and a later one passed
    over is no gap.
    """
    assert head.checkpoint is not None
    batches = list(table.scan(head.version, _POSITION_COLUMNS, pc.field("stretch") >= 0, rows=_ROWS))
    slices = pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in _POSITION_COLUMNS})
    return list(_breaks(slices.sort_by([(name, "ascending") for name in _POSITION_COLUMNS[:3]]), head.checkpoint))


def _breaks(slices: pa.Table, at: Checkpoint) -> Iterator[str]:
    """Faults between slices, which are in the log's order."""
    # Slices as arrays: the comparison of neighbours is one operation for all of them.
    stretch, number, start, stop = (slices[name].to_numpy() for name in _POSITION_COLUMNS[:4])
    if not len(stretch):
        if bronze.oldest(at) < at.position:
            yield f"bronze holds no slice, and its position says [{bronze.oldest(at)}, {at.position})"
        return
    by_number = {stretch.number: stretch for stretch in stretches(at)}
    files = slices["file"]

    def file(row: int) -> BinlogFile:
        return BinlogFile(files[row].as_py(), int(stretch[row]))

    # The first slice begins where bronze does.
    oldest = bronze.oldest(at)
    begin = 0 if oldest.offset == FIRST_EVENT else oldest.offset
    if file(0) == BinlogFile.of(oldest) and start[0] != begin:
        yield f"{file(0)} begins at {start[0]}, and bronze at {oldest}"
    # Within a file a slice begins where the one before it ends, or where bytes were skipped on purpose.
    is_same_stretch = stretch[1:] == stretch[:-1]
    is_same_file = is_same_stretch & (number[1:] == number[:-1])
    for row in np.flatnonzero(is_same_file & (start[1:] != stop[:-1])).tolist():
        here, before, after = file(row), int(stop[row]), int(start[row + 1])
        if not _was_passed_over(by_number.get(here.stretch), FilePart(here.name, before, after)):
            yield f"{here}: {'gap' if before < after else 'overlap'} between {before} and {after}"
    # Between files: the end of one and the beginning of the next.
    for row in np.flatnonzero(is_same_stretch & ~is_same_file).tolist():
        yield from _gap_between(file(row), file(row + 1), int(start[row + 1]), by_number.get(int(stretch[row])))
    # The last slice ends at the position.
    end = at.position
    if file(-1) == BinlogFile.of(end) and stop[-1] != end.offset:
        yield f"{file(-1)} is held up to {stop[-1]}, and the position is {end}"


def _gap_between(earlier: BinlogFile, later: BinlogFile, start: int, stretch: Stretch | None) -> Iterator[str]:
    """Gap between the last slice of one file and the first one of the next."""
    over = {part.file for part in stretch.passed_over} if stretch else set()
    missing = range(earlier.file_number[1] + 1, later.file_number[1])
    if stretch and any(stretch.file(number) not in over for number in missing):
        yield f"between {earlier} and {later} bronze lacks {len(missing)} file{'s' * (len(missing) > 1)}"
    if start and not _was_passed_over(stretch, FilePart(later.name, 0, start)):
        yield f"{later} is held from {start} on only"


def _was_passed_over(stretch: Stretch | None, gap: FilePart) -> bool:
    """True if a later stretch left a part out; its first one counts from the file's first event."""
    starts = {gap.start, FIRST_EVENT if gap.start == 0 else gap.start}
    return stretch is not None and any(
        part.file == gap.file and part.start in starts and part.stop == gap.stop for part in stretch.passed_over
    )


def repeated_keys(
    spark: SparkSession, pipeline: Pipeline, source: str, names: Sequence[TableInto]
) -> dict[TableInto, int]:
    """The number of keys in several rows, by downstream table; tables without a key or without a row are omitted.

    names: each a source table, and the downstream table that is meant. Reads the columns of keys alone, some tables a
    Spark job.
    """
    counted: dict[TableInto, int] = {}
    frames = [(name, frame) for name in names if (frame := _repeated(spark, pipeline, source, name)) is not None]
    for at in range(0, len(frames), _AT_ONCE):
        batch = frames[at : at + _AT_ONCE]
        counts = [frame.select(F.lit(nth).alias("nth"), "keys") for nth, (_, frame) in enumerate(batch)]
        repeated = {row["nth"]: row["keys"] for row in reduce(DataFrame.union, counts).collect()}
        counted |= {name: repeated[nth] for nth, (name, _) in enumerate(batch)}
    return counted


NEVER_WHOLE = "no row image of them was complete (binlog_row_image); load them by stratalog load"
"""Reason why downstream lacks keys that silver has."""

REPEATED = "another writer changed the table; rebuild it by stratalog reset"
"""Reason why a key is in several rows of downstream."""


def keys_never_whole(pipeline: Pipeline, source: str) -> dict[TableInto, int]:
    """The keys that downstream tables lack for want of a whole row image, as the last run left them; without a JVM.

    Tables that lack none are omitted.
    """
    entries = publication.read(lake_of(pipeline), source)
    return {
        (TableName(*entry.name), target.name): target.keys_never_whole
        for entry in entries
        for target in entry.into
        if target.keys_never_whole
    }


def _repeated(spark: SparkSession, pipeline: Pipeline, source: str, target: TableInto) -> DataFrame | None:
    lake, (name, into) = lake_of(pipeline), target
    origin = lake.silver(source, name.schema, name.table)
    (destination,) = (to for to in destinations_of(pipeline, source, name) if to.name == into)
    merged = downstream_of(lake, source, name, destination)
    pinned, head = origin.head(), merged.head()
    if pinned is None or pinned.checkpoint is None or head is None:
        return None
    columns = silver.stored_columns(origin, pinned)
    if destination.mode not in CURRENT_ROWS:  # a key has as many rows as changes
        return None
    if (
        columns.is_keyless or not set(columns.key) <= merged.columns().keys()
    ):  # in the middle of an ALTER, checked later
        return None
    key = [F.expr(cell).alias(f"k{at}") for at, cell in enumerate(columns.identity())]
    current = merged.read(spark, head.version).where(CURRENT_ROWS[destination.mode])
    rows = current.groupBy(*key).count()
    return rows.where("count > 1").agg(F.count("*").alias("keys"))
