"""Archived copies of binlog files into bronze: what gc has removed, and what the source purged before it was read.

Put here: which files of a folder bronze lacks, and landing them where they belong. Not here: reading a source as it
goes on (extract.py).

Bronze is write-once: only what it lacks is read. Older files go before its oldest one without a gap, and its position
stays; what lies behind its end is extracted as from any source, once the file that bronze ends in has shown the same
bytes up to there.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze
from spark_jobs.config import Pipeline
from spark_jobs.errors import SourceError, about
from spark_jobs.extract import Extracted, extract, slicing_task
from spark_jobs.lake import Checkpoint, Head, Lake, Table, new_batch
from spark_jobs.pipeline import lake_of
from spark_jobs.position import FIRST_EVENT, Position, Range, file_number
from spark_jobs.schema_history import follow
from spark_jobs.session import session_over
from spark_jobs.source import Log, Part
from spark_jobs.source.files import Files
from spark_jobs.stretches import stretches

log = logging.getLogger(__name__)

RESTORED = "restored"
"""Kind of a bronze commit that put removed files back."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Files that were put back before bronze's oldest, and what was read behind its end; None for none of either."""

    source: str
    range: Range | None
    bytes: int
    extracted: Extracted | None


def read_archive(spark: SparkSession, pipeline: Pipeline, name: str, folder: Path) -> Restored:
    """Reads from a folder of binlog files what bronze lacks. Raises SourceError, DecodeError, LakeError, LostRace."""
    lake, files = lake_of(pipeline), Files(name, folder)
    brief = session_over(spark, 0)
    head = lake.bronze(name).head()
    if head is None or head.checkpoint is None:
        found = Restored(name, None, 0, extract(brief, lake, files, pipeline.sources[name].start))
    else:
        with about(name):
            found = _into(brief, lake, files, head, head.checkpoint, pipeline.sources[name].start)
    follow(brief, lake, name)
    return found


def _into(spark: SparkSession, lake: Lake, files: Files, head: Head, checkpoint: Checkpoint, start: str) -> Restored:
    listed = files.log()
    table, name = lake.bronze(files.name), files.name
    older = _older(listed, checkpoint)
    goes_on = checkpoint.position.file in [file.name for file in listed.files] and listed.end > checkpoint.position
    if not older and not goes_on:
        held = Range(bronze.oldest(checkpoint), checkpoint.position)
        raise SourceError(
            f"{files.directory} holds {listed.files[0].name} to {listed.files[-1].name}, and bronze {held}: no file "
            "in it continues bronze at either end"
        )
    restored = _put_back(spark, table, files, head, older) if older else None
    if goes_on:
        _require_same_log(spark, table, head, files, checkpoint.position)
    extracted = extract(spark, lake, files, start) if goes_on else None
    return Restored(name, restored, sum(part.stop - part.start for part in older), extracted)


def _older(listed: Log, checkpoint: Checkpoint) -> list[Part]:
    """The files that gc removed, as far back as they follow each other up to bronze's oldest one."""
    removed = bronze.removed(checkpoint)
    if not removed:
        return []
    begin, oldest = removed.start, removed.stop
    by_number = {file_number(file.name): file for file in listed.files if _base(file.name) == _base(oldest.file)}
    # What the source did not give of a stretch does not come from copies either: an earlier stretch has it.
    stretch = next((one for one in stretches(checkpoint) if one.number == oldest.stretch), None)
    begin = stretch.begin if stretch else begin
    lowest = begin.number if begin.stretch == oldest.stretch else 1
    parts: list[Part] = []
    for number in range(oldest.number - 1, lowest - 1, -1):
        if number not in by_number:
            break
        file = by_number[number]
        from_inside = file.name == begin.file and begin.stretch == oldest.stretch and begin.offset > FIRST_EVENT
        whole = Part(file.name, begin.offset if from_inside else 0, file.size)
        parts = [*_but(whole, stretch.passed_over if stretch else ()), *parts]
    return parts


def _but(part: Part, passed_over: Sequence[Part]) -> list[Part]:
    """A part without what was passed over of its file."""
    gaps = [(gap.start, gap.stop) for gap in passed_over if gap.file == part.file]
    begins, ends = [part.start, *(stop for _, stop in gaps)], [*(start for start, _ in gaps), part.stop]
    return [Part(part.file, begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]


def _base(file: str) -> str:
    return file.rpartition(".")[0]


def _put_back(spark: SparkSession, table: Table, files: Files, head: Head, parts: list[Part]) -> Range:
    """Lands older files in one commit, under the position that bronze has. Raises LostRace."""
    assert head.checkpoint is not None
    oldest = bronze.oldest(head.checkpoint)
    first = Position(parts[0].file, max(parts[0].start, FIRST_EVENT), oldest.stretch)
    for part in parts:
        files.require_closed(part.file)
    log.info("%s: putting back %s to %s", files.name, parts[0].file, parts[-1].file)
    task = slicing_task(files.name, oldest.stretch, tuple(parts), None, files.reading())
    slices = spark.range(0, len(parts), 1, len(parts)).mapInArrow(task, bronze.DDL)
    notes = head.checkpoint.notes | {"oldest": str(first)}
    table.append(slices, head, Checkpoint(head.checkpoint.position, new_batch(), RESTORED, notes))
    return Range(first, oldest)


def _require_same_log(spark: SparkSession, table: Table, head: Head, files: Files, end: Position) -> None:
    """Raises SourceError where the file that bronze ends in is not the folder's, up to there."""
    slices = bronze.read_all(spark, table, head.version)
    # The head of a file is passed over: its flag for being in use may differ. A CRC32 would not do: events end with
    # theirs, and the CRC32 of what ends with its own depends on its length alone.
    mine = slices.where(f"stretch = {end.stretch} AND number = {end.number} AND start > 0")
    for held in mine.select("start", "stop", F.sha2("payload", 256).alias("digest")).orderBy("start").collect():
        _, chunks = files.reading()(Part(end.file, held["start"], held["stop"]))
        if sha256(b"".join(chunks)).hexdigest() != held["digest"]:
            raise SourceError(
                f"{files.directory / end.file}: is not the file that bronze holds up to {end}: its bytes from "
                f"{held['start']} to {held['stop']} differ"
            )
