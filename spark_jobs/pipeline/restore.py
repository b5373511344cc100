"""Restore of log from before bronze's oldest: the origins of its files, whether they join, and landing them.

Put here: what is brought from an archive of binlog files or from the source itself, for ``extract --archive`` and for
backfills that begin before bronze does. Not here: reading a source as it continues (bronze/extract.py), what is after
bronze's end (archive.py), or what is done with the range (backfill/).

Bronze is write-once: only what it lacks is read, up to its oldest byte and without a gap, and its position stays. What
is brought has to be the same log: where an origin has the file that bronze begins in, its bytes are bronze's own; where
it ends with the file before, GTIDs, or else the server's id and its clock, say that the one follows the other.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from spark_jobs.binlog import FileHead, read_head, same_but_redacted
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit, stretches
from spark_jobs.bronze.extract import LogParts, land_parts
from spark_jobs.bronze.log_index import Stretch, without_old_gtids
from spark_jobs.bronze.redaction import Redaction
from spark_jobs.bronze.seek import LogSeeker
from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import DecodeError, LakeError, SourceError, about
from spark_jobs.lake.commit import CommitKind, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.gtid import Gtids, MysqlGtids, union
from spark_jobs.log.location import LogLocation, parse_location
from spark_jobs.log.position import FIRST_EVENT, Position, Range, file_number
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.schema import history as schema_history
from spark_jobs.source.file_ends import require_joints
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import FilePart, Log, PartReader, Source
from spark_jobs.source.retention_margin import file_started_at
from spark_jobs.source.seek import Search, resolve_location, transactions_before

log = logging.getLogger(__name__)

_SEAM = 1 << 20
"""Bytes that are compared where an origin has the file that bronze begins in; about a slice."""
_FLAGS = FIRST_EVENT + 17
"""Offset of the first event's flags, whose lowest bit says whether the file is in use: copies differ in it."""
_SERVER_ID = slice(5, 9)


@dataclass(frozen=True, slots=True)
class LogOrigin:
    """Origin from which files of a source's log may be had. ``label``: as messages name it."""

    source: Source
    label: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """Log put before bronze's oldest: the part of the log, its files and bytes, and where they came from.

    One commit has files of one origin.
    """

    source: str
    range: Range
    files: int
    bytes: int
    origin: str

    def __str__(self) -> str:
        return f"{self.range}, files: {self.files}, {self.bytes} bytes, from {self.origin}"


def origins_of(pipeline: Pipeline, name: str, archive: Path | None = None) -> list[LogOrigin]:
    """An archive first, the given one or that of the configuration, then the source itself, each of its endpoints."""
    settings = pipeline.sources[name]
    folder = archive or settings.archive
    archives = [LogOrigin(Files(name, folder), f"the archive {folder}")] if folder else []
    sources = endpoints_of(pipeline, name).ordered()
    return archives + [
        LogOrigin(source, f"the server {source.endpoint}" if source.endpoint else str(settings.files))
        for source in sources
    ]


def fetch(spark: SparkSession, pipeline: Pipeline, name: str, back_to: Position, archive: Path | None) -> list[Fetched]:
    """Fetch missing log into bronze from a location on: one commit per origin of files; none if nothing is missing.

    Raises LakeError that names the files that nobody has, before anything is landed; LostRace.
    """
    snapshot = BronzeSnapshot.find(lake_of(pipeline), name)
    if snapshot is None or back_to >= snapshot.complete_from:
        return []
    with about(name):
        missing_log = MissingLog(snapshot, origins_of(pipeline, name, archive))
        brief = session_over(spark, 0)
        fetched = land(brief, snapshot, missing_log.back_to(back_to), Redaction.of(pipeline.sources[name].redact))
        schema_history.follow(lake_of(pipeline), name)
        return fetched


def resolve_range(
    pipeline: Pipeline,
    name: str,
    start: str | Position,
    stop: str | Position,
    *,
    archive: Path | None = None,
) -> Range:
    """The part of the log between two locations, of which the first, or both, may lie before what bronze holds.

    Raises LakeError where bronze is empty, SourceError where a location is found nowhere, ConfigError for what is none.
    """
    snapshot = BronzeSnapshot.of(lake_of(pipeline), name)
    seeker = LogSeeker(snapshot)

    def position(location: str | Position) -> Position:
        try:
            return seeker.position(location)
        except (SourceError, LakeError) as error:
            parsed = parse_location(str(location))
            if isinstance(parsed, Position):
                raise
            return MissingLog(snapshot, origins_of(pipeline, name, archive)).position(parsed, str(error))

    return Range(position(start), position(stop))


@dataclass(frozen=True, slots=True)
class FileSequence:
    """Files of one origin that follow each other up to where bronze begins; ``first``: where it begins with them."""

    origin: LogOrigin
    parts: tuple[FilePart, ...]
    first: Position
    uuid: str | None = None
    before: Gtids | None = None
    """All transactions before ``first``, where the origin says that."""

    @property
    def bytes(self) -> int:
        return sum(part.stop - part.start for part in self.parts)


@dataclass(frozen=True, slots=True)
class _Seam:
    """Seam where the log begins that is there: a file, the byte from which on it is, and the bytes there."""

    file: str
    start: int
    content: bytes

    def head(self) -> FileHead:
        return read_head([self.content], self.file)


@dataclass
class MissingLog:
    """Content of bronze, and the origins of what it lacks before its oldest byte."""

    snapshot: BronzeSnapshot
    origins: Sequence[LogOrigin]
    _logs: dict[str, Log] = field(default_factory=dict)
    _reasons: dict[str, str] = field(default_factory=dict)
    """Reasons by origin why nothing comes from it."""

    @property
    def oldest(self) -> Position:
        return self.snapshot.oldest

    @property
    def stretch(self) -> Stretch:
        """The stretch of bronze's oldest byte."""
        return next(stretch for stretch in stretches(self.snapshot.checkpoint) if stretch.number == self.oldest.stretch)

    def back_to(self, position: Position) -> list[FileSequence]:
        """Log to land so that bronze holds the log from a position on. Raises LakeError where nobody has it."""
        lowest = self._lowest(position)
        sequences = list(self._sequences(lowest))
        reached = sequences[-1].first if sequences else self.oldest
        if lowest < reached:
            raise LakeError(self._lacking(position, lowest, reached))
        return sequences

    def all_there_is(self) -> list[FileSequence]:
        """Log of the origins that gc removed. Raises SourceError for files that are of another log."""
        begin = self.stretch.begin
        sequences = list(self._sequences(begin)) if begin < self.oldest else []
        if not sequences and self._reasons:
            raise SourceError("; ".join(self._reasons.values()))
        return sequences

    def position(self, location: LogLocation, reason: str) -> Position:
        """Position of a location by what origins have of the log; reason: what bronze says that it does not lie there.

        Raises SourceError.
        """
        lines, upper = [reason], self.oldest
        for sequence in self._sequences(self._earliest_position):
            try:
                return self._position_in(sequence, location, upper)
            except (SourceError, DecodeError) as error:
                lines.append(f"  {sequence.origin.label}: {self._error_text(error)}")
            upper = sequence.first
        lines += self._origin_texts() if upper == self.oldest else []
        raise SourceError("\n".join(lines))

    @property
    def _earliest_position(self) -> Position:
        """Earliest position of a log that bronze's oldest stretch is of."""
        begin = self.stretch.begin
        return begin if self.stretch.number > 1 else Position(self.stretch.file(1), FIRST_EVENT)

    def _position_in(self, sequence: FileSequence, location: LogLocation, upper: Position) -> Position:
        """Position of a location in a sequence, which ends at ``upper``. Raises SourceError, DecodeError.

        Where its origin has the file that bronze begins in, the location may lie after that too: bronze cannot search a
        file that it holds in part.
        """
        listed, source = self._logs[sequence.origin.label], sequence.origin.source
        if upper == self.oldest and upper.file in [file.name for file in listed.files]:
            here = listed.up_to(replace(self.snapshot.end, stretch=1)) if self._is_last_stretch else listed
            return replace(resolve_location(source, here, location), stretch=upper.stretch)
        first, last = (file_number(part.file) for part in (sequence.parts[0], sequence.parts[-1]))
        files = tuple(file for file in listed.files if first <= file_number(file.name) <= last)
        log = replace(listed, files=files, end=Position(sequence.parts[-1].file, sequence.parts[-1].stop))
        position = resolve_location(_OlderSource(source), log, location)
        return upper if position == log.end else replace(position, stretch=upper.stretch)

    @property
    def _is_last_stretch(self) -> bool:
        return self.oldest.stretch == self.snapshot.end.stretch

    def _lowest(self, position: Position) -> Position:
        """Position from which files are needed: whole ones, but for what a stretch never had and an earlier one has."""
        if position.stretch != self.oldest.stretch:
            raise LakeError(
                f"{position} lies in a stretch of the log of which bronze holds nothing any more; the oldest that it "
                f"holds is {self.oldest}, and files of stretches that gc removed whole go under another source name"
            )
        begin = self.stretch.begin
        first = Position(position.file, FIRST_EVENT, position.stretch)
        return first if position < begin and position.stretch == 1 else max(begin, first)

    def _sequences(self, lowest: Position) -> Iterator[FileSequence]:
        """Sequences of files, from bronze's oldest backwards, as many as the first origin with the next file has."""
        oldest, sequence = self.oldest, None
        while lowest < oldest:
            seam = _seam_of(sequence) if sequence else self._seam()
            sequences = (self._sequence(origin, lowest, oldest, seam) for origin in self.origins)
            sequence = next((sequence for sequence in sequences if sequence), None)
            if sequence is None:
                return
            yield sequence
            oldest = sequence.first

    def _sequence(self, origin: LogOrigin, lowest: Position, oldest: Position, seam: _Seam) -> FileSequence | None:
        listed = self._log(origin)
        if listed is None:
            return None
        parts = parts_before(listed, lowest, oldest, self.stretch)
        if not parts:
            return None
        try:
            if isinstance(origin.source, Files):
                _require_one_log(origin.source, listed, [part.file for part in parts], oldest)
            self._require_joins(origin, listed, parts, seam)
            first = Position(parts[0].file, max(parts[0].start, FIRST_EVENT), oldest.stretch)
            before = (
                transactions_before(origin.source, listed, replace(first, stretch=1))
                if first < self.stretch.begin
                else None
            )
        except (SourceError, DecodeError) as error:
            self._reasons[origin.label] = f"{origin.label} cannot be used: {self._error_text(error)}"
            return None  # the next origin is tried
        return FileSequence(origin, tuple(parts), first, listed.uuid, before)

    def _log(self, origin: LogOrigin) -> Log | None:
        """None where it cannot be asked; the reason is kept."""
        if origin.label in self._reasons:
            return None
        if origin.label not in self._logs:
            try:
                self._logs[origin.label] = origin.source.log()
            except (SourceError, DecodeError) as error:
                self._reasons[origin.label] = f"{origin.label} cannot be used: {self._error_text(error)}"
                return None
        return self._logs[origin.label]

    def _error_text(self, error: Exception) -> str:
        return str(error).removeprefix(f"{self.origins[0].source.name}: ")

    def _origin_texts(self) -> list[str]:
        """Texts on what each origin has, or why nothing comes from it."""
        lines = []
        for origin in self.origins:
            listed = self._log(origin)
            files = listed.files if listed else ()
            reason = self._reasons.get(origin.label, "")
            empty = "".join(f"; {file.name} is empty" for file in files if not file.has_events)
            lines.append(f"  {reason or f'{origin.label} holds {files[0].name} to {files[-1].name}{empty}'}")
        return lines

    def _lacking(self, position: Position, lowest: Position, reached: Position) -> str:
        positions = "\n".join(self._origin_texts())
        return (
            f"bronze begins at {self.oldest}, and the replay at {position}: it needs "
            f"{_files_between(lowest, reached)}, which no origin has\n{positions}\n"
            "Put copies of the files into a folder and name it: --archive DIR, or archive: under the source"
        )

    def _seam(self) -> _Seam:
        """Seam where bronze's own log begins; without content where it holds nothing yet."""
        oldest = self.oldest
        start = oldest.offset if oldest.offset > FIRST_EVENT else 0
        here = (pc.field("stretch") == oldest.stretch) & (pc.field("number") == oldest.number)
        batches = self.snapshot.table.scan(
            self.snapshot.version, ["payload"], here & (pc.field("start") == start), rows=1
        )
        payloads = [payload for batch in batches for payload in batch.column("payload").to_pylist()]
        return _Seam(oldest.file, start, payloads[0][:_SEAM] if payloads else b"")

    def _require_joins(self, origin: LogOrigin, listed: Log, parts: Sequence[FilePart], seam: _Seam) -> None:
        """Check that the files are those before the log that bronze has. Raises SourceError."""
        file = next((file for file in listed.files if file.name == seam.file), None)
        stop = seam.start + len(seam.content)
        if file is None:
            _require_follows(origin.source, listed, parts[-1].file, seam)
        elif not seam.content:
            self._require_same_file(origin, seam.file)
        elif file.size < stop or not _is_same(
            origin.source.reading(), FilePart(seam.file, seam.start, stop), seam.content
        ):
            raise SourceError(
                f"its {seam.file} is not the file that bronze begins in: the bytes from {seam.start} to {stop} differ, "
                "so it is another log"
            )

    def _require_same_file(self, origin: LogOrigin, file: str) -> None:
        """Require that the file of a bronze which holds only its position was begun when the origin's file was."""
        began = self.stretch.began
        file_start = file_started_at(origin.source.reading(), file)
        if began and file_start != began:
            raise SourceError(f"its {file} was not begun when the file was in which bronze begins: it is another log")


def parts_before(listed: Log, lowest: Position, oldest: Position, stretch: Stretch) -> list[FilePart]:
    """The files of a log that follow each other up to bronze's oldest byte, from ``lowest`` on as far as they do.

    Without what was skipped when the stretch was taken up: an earlier stretch has it.
    """
    base = _base(oldest.file)
    by_number = {file_number(file.name): file for file in listed.files if _base(file.name) == base}
    is_inside = oldest.offset > FIRST_EVENT
    parts: list[FilePart] = []
    for number in range(oldest.number if is_inside else oldest.number - 1, lowest.number - 1, -1):
        file = by_number.get(number)
        stop = oldest.offset if number == oldest.number else file.size if file else 0
        if file is None or not file.has_events or file.size < stop:
            break
        start = lowest.offset if file.name == lowest.file and lowest.offset > FIRST_EVENT else 0
        parts = [*_but(FilePart(file.name, start, stop), stretch.passed_over), *parts]
    return parts


def land(
    spark: SparkSession, snapshot: BronzeSnapshot, sequences: Sequence[FileSequence], redact: Redaction | None = None
) -> list[Fetched]:
    """Lands sequences, each in one commit under the position that bronze has. Raises LostRace."""
    fetched, head = [], snapshot.head
    for sequence in sequences:
        assert head.checkpoint is not None
        name, oldest = sequence.origin.source.name, bronze.oldest(head.checkpoint)
        summary = (sequence.parts[0].file, sequence.parts[-1].file, sequence.bytes, sequence.origin.label)
        log.info("%s: putting back %s to %s, %d bytes, from %s", name, *summary)
        reading = sequence.origin.source.reading()
        parts = LogParts(name, oldest.stretch, tuple(sequence.parts), reading, sequence.uuid, redact)
        commit = BronzeCommit.of(head.checkpoint)
        commit = replace(commit, oldest=sequence.first, stretches=_index(commit, sequence))
        commit = replace(commit, batch=new_batch(), kind=CommitKind.RESTORED)
        head = land_parts(spark, snapshot.table, head, parts, commit).head
        files = len({part.file for part in sequence.parts})
        fetched.append(Fetched(name, Range(sequence.first, oldest), files, sequence.bytes, sequence.origin.label))
    return fetched


def _index(commit: BronzeCommit, sequence: FileSequence) -> tuple[Stretch, ...]:
    """The log index with a sequence, with which the first stretch may begin earlier than it ever did."""
    first, *later = commit.log_index
    if first.number != sequence.first.stretch or first.begin <= sequence.first:
        return commit.stretches
    return without_old_gtids([replace(first, begin=sequence.first, gtids=sequence.before or first.gtids), *later])


def _seam_of(sequence: FileSequence) -> _Seam:
    part = sequence.parts[0]
    content = _part_bytes(sequence.origin.source.reading(), replace(part, stop=min(part.stop, part.start + _SEAM)))
    return _Seam(part.file, part.start, content)


def _require_one_log(source: Files, listed: Log, names: Sequence[str], oldest: Position) -> None:
    """Check that a folder's files follow each other, and none was copied while in use. Raises SourceError."""
    search = Search(source, listed)
    heads = [search.head(file) for file in listed.files if file.name in names]
    for name in names:
        if name != oldest.file:
            source.require_closed(name)
    numbers = range(file_number(names[0]), oldest.number + 1)
    require_joints(source, listed, [file for file in listed.files if file_number(file.name) in numbers])
    for (before, after), name in zip(pairwise(heads), names[1:], strict=False):
        if before.created > after.created or not _is_within(before.previous, after.previous):
            raise SourceError(f"its {name} does not go on where the file before it ends: they are of several logs")


def _is_within(earlier: Gtids | None, later: Gtids | None) -> bool:
    """True if the transactions before one file are among those before another, as far as the files tell."""
    if not earlier or not later:
        return True
    return type(earlier) is type(later) and union(earlier, later) == later


def _require_follows(source: Source, listed: Log, name: str, seam: _Seam) -> None:
    """Check that the seam's file is the one after an origin's last file. Raises SourceError."""
    last = next(file for file in listed.files if file.name == name)
    before, after = Search(source, listed).head(last), seam.head()
    if before.created > after.created:
        raise SourceError(f"its {last.name} was begun after {seam.file}, which bronze begins in: it is another log")
    if after.previous:  # GTIDs decide where files name them, otherwise the server's id
        previous = transactions_before(source, listed, Position(last.name, last.size))
        if previous != after.previous:
            raise SourceError(
                f"its {last.name} is not the file before {seam.file}: with it the transactions are "
                f"{previous or 'unknown'}, and {seam.file}, which bronze begins in, names {after.previous} before it"
            )
    elif before.format.event[_SERVER_ID] != after.format.event[_SERVER_ID]:
        raise SourceError(
            f"its {last.name} is of another server id than {seam.file}, which bronze begins in; where it is of the "
            f"same server, put a copy of {seam.file} beside it, so that bytes can be compared"
        )


def _part_bytes(reading: PartReader, part: FilePart) -> bytes:
    """A part's bytes, the flag for being in use cleared."""
    return _plain_bytes(b"".join(map(bytes, reading(part)[1])), part.start)


def _is_same(reading: PartReader, part: FilePart, content: bytes) -> bool:
    """True if a part is this content, but for events that were redacted."""
    original, content = _part_bytes(reading, part), _plain_bytes(content, part.start)
    if original == content:
        return True
    description = reading(part)[0] or read_head([original], part.file).format
    return same_but_redacted(original, content, description.footer)


def _plain_bytes(content: bytes, start: int) -> bytes:
    if start or len(content) <= _FLAGS:
        return content
    return content[:_FLAGS] + bytes([content[_FLAGS] & 0xFE]) + content[_FLAGS + 1 :]


def _but(part: FilePart, passed_over: Sequence[FilePart]) -> list[FilePart]:
    """A part without what was skipped of its file."""
    gaps = [(gap.start, gap.stop) for gap in passed_over if gap.file == part.file]
    begins, ends = [part.start, *(stop for _, stop in gaps)], [*(start for start, _ in gaps), part.stop]
    return [FilePart(part.file, begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]


def _base(file: str) -> str:
    return file.rpartition(".")[0]


def _files_between(start: Position, stop: Position) -> str:
    """The names of the files from a position to another one."""
    base, _, digits = stop.file.rpartition(".")
    last = stop.number if stop.offset > FIRST_EVENT else stop.number - 1
    names = [f"{base}.{number:0{len(digits)}d}" for number in (start.number, last)]
    return names[0] if names[0] == names[1] else f"{names[0]} to {names[1]}"


class _OlderSource:
    """An origin whose log ends where bronze begins, so that no commit before that is still to come."""

    earlier = "name a later place, or bring the files before it"
    endpoint: str | None = None

    def __init__(self, source: Source) -> None:
        self.name, self.switch = source.name, source.switch
        self._source = source

    def log(self, held: Position | None = None) -> Log:
        return self._source.log(held)

    def reading(self) -> PartReader:
        return self._source.reading()

    def now(self) -> datetime:
        return datetime.max.replace(tzinfo=UTC)

    def purged(self) -> MysqlGtids:
        return self._source.purged()
