"""Search in bronze for a location: by position, GTID set or time.

Put here: asking bronze what a server or a directory is asked (source/). Not here: how a location is found
(source/seek.py), or what is done with a range.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from spark_jobs.binlog import FormatDescription
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.index import read_slices
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.bronze.time_seek import last_commit_before
from spark_jobs.errors import ConfigError, LakeError, SourceError
from spark_jobs.log.gtid import MysqlGtids
from spark_jobs.log.location import EARLIEST, LATEST, LogLocation, parse_location
from spark_jobs.log.position import FIRST_EVENT, Position, Range
from spark_jobs.source.protocol import ALONE, FilePart, Log, LogFile, PartReader
from spark_jobs.source.seek import Search, require_past, resolve_location

log = logging.getLogger(__name__)

LocationText = str | Position | None
"""A location as text, where a position without its stretch is known by its file's name; or a position as it is."""


def range_in(snapshot: BronzeSnapshot, start: LocationText, stop: LocationText) -> Range:
    """The part of bronze between two locations, the oldest that it holds and its end where they are not named.

    It is read at this version: of a newer one gc may have removed some. Raises LakeError where gc has removed what is
    named, SourceError where a location is not in it, ConfigError for what is none, and for a file's name that occurs in
    several stretches of the log.
    """
    source = snapshot.source
    seeker = LogSeeker(snapshot)
    begin = seeker.position(start) if start else snapshot.oldest
    # A start that gc removed is an error; a range without a start takes what is left, and says so.
    removed = bronze.range_removed_by_gc(snapshot.checkpoint)
    if start:
        bronze.require_held(source, snapshot.checkpoint, max(begin, snapshot.earliest))
    elif removed:
        log.warning(
            "%s: what lies before %s is missing: %s", source, removed.stop, bronze.removal_message(source, removed)
        )
    end = snapshot.end
    if stop is None and begin > end:
        raise ConfigError(
            f"{source}: {begin} is after the end of the log in bronze, {end}; write an earlier "
            "position, or execute stratalog run first"
        )
    return Range(begin, seeker.position(stop) if stop else end)


class LogSeeker:
    """Resolver of locations in a bronze table at one version, in whichever stretch of its log."""

    def __init__(self, snapshot: BronzeSnapshot) -> None:
        self.name = snapshot.source
        self._snapshot = snapshot
        self._stretches = stretches(snapshot.checkpoint)

    def position(self, location: str | Position) -> Position:
        """Position of a location, or of an end of bronze: ``earliest``, ``latest``.

        Raises SourceError, DecodeError, ConfigError, LakeError.
        """
        if isinstance(location, Position):
            return location
        if location in (EARLIEST, LATEST):
            return self._snapshot.oldest if location == EARLIEST else self._snapshot.end
        parsed = parse_location(location)
        if isinstance(parsed, Position):
            return self._in_stretch(parsed) if "/" in location.partition(":")[0] else self._with_stretch(parsed)
        return self._resolved(parsed)

    def _in_stretch(self, position: Position) -> Position:
        """A position with its stretch. Raises ConfigError for a stretch that there is not."""
        newest = self._stretches[-1].number
        if position.stretch > newest:
            raise ConfigError(
                f"{self.name}: {position} is in stretch {position.stretch} of the log, and the newest one in bronze is "
                f"{newest}; write the position of a stretch that there is, as stratalog status shows them"
            )
        return position

    def _with_stretch(self, position: Position) -> Position:
        """A position without its stretch. Raises ConfigError where its file's name occurs in several."""
        if len(self._stretches) == 1:
            return position
        files = bronze.files(self._snapshot.table, self._snapshot.version)
        numbers = [file.stretch for file in files if file.file == position.file]
        if len(numbers) > 1:
            listed = " or ".join(f"{number}/{position.file}:{position.offset}" for number in numbers)
            raise ConfigError(f"{self.name}: {position} may lie in several stretches of the log; write {listed}")
        return replace(position, stretch=numbers[0] if numbers else self._stretch_of_no_file(position))

    def _stretch_of_no_file(self, position: Position) -> int:
        """Stretch of a file that bronze lacks: the oldest where the file is older than bronze, else the newest."""
        oldest = self._snapshot.oldest
        is_before = (
            position.file.rpartition(".")[0] == oldest.file.rpartition(".")[0] and position.number < oldest.number
        )
        return oldest.stretch if is_before else self._stretches[-1].number

    def _resolved(self, location: LogLocation) -> Position:
        """A GTID set or a time, looked for in the newest stretch first. Raises what the newest one said."""
        if isinstance(location, datetime):
            return self._resolved_time(location)
        first_error: SourceError | LakeError | None = None
        for stretch in reversed(self._stretches):
            landed = BronzeLog(self._snapshot, stretch)
            try:
                return replace(resolve_location(landed, landed.log(), location), stretch=stretch.number)
            except (SourceError, LakeError) as error:
                first_error = first_error or error
        assert first_error
        raise first_error

    def _resolved_time(self, moment: datetime) -> Position:
        """The end of the last transaction before a time, in the newest stretch that has one.

        Raises SourceError, LakeError.
        """
        oldest = self._snapshot.oldest.stretch
        held_stretches = [stretch for stretch in self._stretches if stretch.number >= oldest]
        for stretch in reversed(held_stretches):
            position = BronzeLog(self._snapshot, stretch).end_before(moment)
            if position is not None:
                return position
        # Nothing that is held came before it: an error, but for a log that begins there.
        landed = BronzeLog(self._snapshot, held_stretches[0])
        return replace(resolve_location(landed, landed.log(), moment), stretch=oldest)


class BronzeLog:
    """One stretch of a bronze table at one version, as a source; the last one where none is named.

    The files that it holds from their first byte on can be searched, those that follow the last one of which it holds a
    part alone: a search takes each file for the next one. A time is looked for in the others, too.
    """

    earlier = "name a position, which may be in a file that bronze has in part, or a later position"
    endpoint: str | None = None
    switch = ALONE

    def __init__(self, snapshot: BronzeSnapshot, stretch: Stretch | None = None) -> None:
        self.name = snapshot.source
        self._files = DataFiles(snapshot.table, snapshot.version)
        self._held_files = bronze.files(snapshot.table, snapshot.version)
        self._oldest, self._end = snapshot.oldest, snapshot.end
        self._stretch = stretch or stretches(snapshot.checkpoint)[-1]

    def log(self, held: Position | None = None) -> Log:  # noqa: ARG002 - bronze knows its end
        """The log that bronze holds, as a source would list it."""
        listed = self._listed()
        if not listed.files:
            raise LakeError(f"{self.name}: bronze holds no file from its first byte on; {self.earlier}")
        return listed

    def _listed(self) -> Log:
        """The files that can be searched, if there are any, and the end of the stretch as it is now."""
        files, end = list[LogFile](), self._stretch.begin
        for file in self._held_files:
            if file.stretch != self._stretch.number:
                continue
            end = file.end
            if file.start or not self._stretch.holds_whole(file.file):
                files = []
            else:
                files.append(LogFile(file.file, file.stop))
        end = self._end if self._stretch.number == self._end.stretch else end
        return Log(self.name, tuple(files), replace(end, stretch=1))

    def end_before(self, moment: datetime) -> Position | None:
        """The end of the stretch's last transaction that committed before a time; None where none did.

        Raises SourceError where all of them did and others may come, LakeError, DecodeError.
        """
        listed, number = self._listed(), self._stretch.number
        search = Search(self, listed)
        second = moment.timestamp()
        if listed.files and search.head(listed.files[0]).created + 1 <= second:
            return replace(resolve_location(self, listed, moment), stretch=number)
        # In what was logged before the first file that was begun later, of which bronze may hold a part.
        later = next((file for file in listed.files if search.head(file).created >= second), None)
        end = Position(later.name, FIRST_EVENT, number) if later else replace(listed.end, stretch=number)
        begin = max(self._stretch.begin, self._oldest)
        if end <= begin:
            return None
        part = Range(begin, replace(end, offset=0) if later else end)
        last = last_commit_before(self._files, part, moment)
        if last is None:
            return None
        if not last.is_end:
            return last.stop
        if not later:
            require_past(self, listed, moment, last.latest)
        return end

    def reading(self) -> PartReader:
        return self._read_head

    def _read_head(self, part: FilePart) -> tuple[FormatDescription | None, Iterator[bytes]]:
        assert not part.start, "files are searched from their first byte on"
        return None, self._chunks(part)

    def _chunks(self, part: FilePart) -> Iterator[bytes]:
        number = self._stretch.number
        index = read_slices(self._files, Range(Position(part.file, 0, number), Position(part.file, part.stop, number)))
        for row in range(len(index)):
            (cells,) = index.cells([row])
            yield bytes(cells["payload"])[: part.stop - cells["start"]]

    def now(self) -> datetime | None:
        """End of the stretch as of now: of a stretch that is over it is final; of the last one nobody knows."""
        return None if self._stretch.number == self._end.stretch else datetime.max.replace(tzinfo=UTC)

    def purged(self) -> MysqlGtids:
        """Log before bronze, as the heads of its files have it."""
        return MysqlGtids()
