"""Import of archived binlog files into bronze: those that gc has removed, or the source purged before they were read.

Put here: reading a folder at both of bronze's ends. Not here: what lies before bronze's oldest byte, and whether it
joins (restore.py), or reading a source as it continues (bronze/extract.py).

Bronze is write-once: only what it lacks is read. What lies behind its end is extracted as from any source, once the
file that bronze ends in has shown the same bytes up to there.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import FormatDescription, same_but_redacted
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.extract import Extracted, extract
from spark_jobs.bronze.redaction import Redaction
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import SourceError, about
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.restore import LogOrigin, MissingLog, land
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.schema.history import follow
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import FilePart


@dataclass(frozen=True, slots=True)
class Restored:
    """Files that were put back before bronze's oldest, and what was read behind its end; None for none of either."""

    source: str
    range: Range | None
    bytes: int
    extracted: Extracted | None


def read_archive(spark: SparkSession, pipeline: Pipeline, name: str, folder: Path) -> Restored:
    """Read from a folder of binlog files what bronze lacks. Raises SourceError, DecodeError, LakeError, LostRace."""
    lake, files, start = lake_of(pipeline), Files(name, folder), pipeline.sources[name].start
    redact = Redaction.of(pipeline.sources[name].redact)
    brief = session_over(spark, 0)
    snapshot = BronzeSnapshot.find(lake, name)
    if snapshot is None:
        restored = Restored(name, None, 0, extract(brief, lake, files, start, redact=redact))
    else:
        with about(name):
            restored = _into(brief, lake, files, snapshot, start, redact=redact)
    follow(lake, name)
    return restored


def _into(
    spark: SparkSession, lake: Lake, files: Files, snapshot: BronzeSnapshot, start: str, *, redact: Redaction | None
) -> Restored:
    # A folder counts no stretches: its files continue the newest one.
    end = snapshot.end
    listed = files.log().within(end.stretch)
    goes_on = end.file in [file.name for file in listed.files] and listed.end > end
    sequences = MissingLog(snapshot, [LogOrigin(files, str(files.directory))]).all_there_is()
    if not sequences and not goes_on:
        covered = Range(snapshot.oldest, end)
        raise SourceError(
            f"{files.directory} holds {listed.files[0].name} to {listed.files[-1].name}, and bronze {covered}: no file "
            "in it continues bronze at either end"
        )
    restored = land(spark, snapshot, sequences, redact)
    if goes_on:
        _require_same_log(spark, snapshot, files, end)
    extracted = extract(spark, lake, files, start, redact=redact) if goes_on else None
    size = sum(fetched.bytes for fetched in restored)
    return Restored(files.name, restored[0].range if restored else None, size, extracted)


def _require_same_log(spark: SparkSession, snapshot: BronzeSnapshot, files: Files, end: Position) -> None:
    """Check that the folder has bronze's last file, and with the same events up to bronze's end. Raises SourceError."""
    slices = bronze.read_all(spark, snapshot.table, snapshot.version)
    # The head of a file is skipped: its flag for being in use may differ. A CRC32 would not do: events end with
    # theirs, and the CRC32 of what ends with its own depends on its length alone.
    own_slices = slices.where(f"stretch = {end.stretch} AND number = {end.number} AND start > 0")
    for row in own_slices.select("start", "stop", F.sha2("payload", 256).alias("digest")).orderBy("start").collect():
        description, chunks = files.reading()(FilePart(end.file, row["start"], row["stop"]))
        content = b"".join(chunks)
        is_same = sha256(content).hexdigest() == row["digest"]
        if not is_same and not _is_redacted(own_slices, row["start"], content, description):
            raise SourceError(
                f"{files.directory / end.file}: is not the file that bronze holds up to {end}: its bytes from "
                f"{row['start']} to {row['stop']} differ"
            )


def _is_redacted(slices: DataFrame, start: int, content: bytes, description: FormatDescription | None) -> bool:
    """True if a slice of bronze is what the folder has there, but for events that were redacted."""
    assert description is not None, "slices at the beginning of a file are not asked for"
    (row,) = slices.where(f"start = {start}").select("payload").collect()
    return same_but_redacted(bytes(row["payload"]), content, description.footer)
