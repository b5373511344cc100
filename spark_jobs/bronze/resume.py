"""Resumption of a source's log after bronze: in the same stretch, or in a new one.

As long as the same server answers with the same log, file and offset say where. Another of the source's endpoints, or
another server under its name, is taken up by GTID; numbers that began again are a new log that nothing is known of.

Put here: telling these cases apart, and what is to be read in each. Not here: which transactions are held
(gtid_state.py), how another log is taken up (source/failover.py), reading it (extract.py).
"""

import enum
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.gtid_state import ends_file, held_gtids
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.errors import AnotherLog, SourceError, about
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.gtid import Gtids
from spark_jobs.log.location import parse_start
from spark_jobs.log.position import Position, Range, file_number
from spark_jobs.source.failover import Takeover, all_but, take_over
from spark_jobs.source.file_ends import require_ends
from spark_jobs.source.protocol import FilePart, Log, Source, require_boundary
from spark_jobs.source.retention_margin import file_started_at
from spark_jobs.source.seek import Search, find_start, transactions_before


class Relation(enum.Enum):
    """Relation of a source's log to the one that bronze ends in."""

    SAME = "the same"
    ENDPOINT = "that of another endpoint, with the same transactions"
    ANOTHER = "that of another server under the same name"
    RESTARTED = "of the same server, whose numbers began again"


@dataclass(frozen=True, slots=True)
class NextLog:
    """Log of a source to read next, and the log index once that has landed."""

    log: Log
    range: Range
    parts: tuple[FilePart, ...]
    stretches: tuple[Stretch, ...]
    relation: Relation = Relation.SAME

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(part.stop - part.start for part in self.parts)

    @property
    def opens(self) -> bool:
        """True if it opens a stretch."""
        return self.relation is not Relation.SAME


def first_log(source: Source, start: str, until: Position | None = None) -> NextLog:
    """First log to read of a source, ``until`` a position if one is given.

    Raises SourceError, DecodeError.
    """
    log = source.log().up_to(until)
    location = parse_start(start)
    first = find_start(source, log, location)
    parts = log.parts_from(first)
    require_ends(source, log, first)
    if isinstance(location, Position):
        require_boundary(source, first)
    # What tells the server and its files again, at the next run.
    begun_at = file_started_at(source.reading(), log.end.file)
    opened = Stretch(
        number=1,
        begin=first,
        endpoint=source.endpoint,
        uuid=log.uuid,
        began=begun_at,
        gtids=transactions_before(source, log, first),
        server_id=log.server_id,
    )
    return NextLog(log, Range(first, max(first, log.end)), tuple(parts), (opened,))


def next_log(source: Source, bronze: Table, head: Head, until: Position | None = None) -> NextLog:
    """Log after the end of bronze, ``until`` a position in the same stretch if one is given.

    Raises SourceError, AnotherLog for what only the user may decide, DecodeError.
    """
    assert head.checkpoint is not None
    with about(source.name):
        return _Following(source, bronze, head, head.checkpoint, until).next_log()


def current_log_in_stretch(source: Source, head: Head | None) -> Log:
    """The log now, its end in the stretch that it would be read in; what of it is new is not looked at."""
    if head is None or head.checkpoint is None:
        return source.log()
    log = source.log(head.checkpoint.position)
    log_stretches = stretches(head.checkpoint)
    relation = _relation(source, log, log_stretches, head.checkpoint.position)
    return log.within(log_stretches[-1].number + (relation is not Relation.SAME))


@dataclass(frozen=True, slots=True)
class _Following:
    source: Source
    bronze: Table
    head: Head
    checkpoint: Checkpoint
    until: Position | None

    @property
    def position(self) -> Position:
        return self.checkpoint.position

    def next_log(self) -> NextLog:
        log, log_stretches = self.source.log(self.position), stretches(self.checkpoint)
        relation = _relation(self.source, log, log_stretches, self.position)
        if relation is Relation.SAME:
            return self._continued(log, log_stretches)
        if relation is not Relation.ENDPOINT:
            self._require_chosen(log, log_stretches, relation)
        takeover = (
            self._restarted(log, log_stretches) if relation is Relation.RESTARTED else self._moved(log, log_stretches)
        )
        return self._opened(log, log_stretches, relation, *takeover)

    def _continued(self, log: Log, log_stretches: tuple[Stretch, ...]) -> NextLog:
        log = log.within(self.position.stretch).up_to(self.until, self.position)
        start = log.first if self._is_done_before(log) else self.position
        parts = log.parts_from(start)
        require_ends(self.source, log, start)
        # The index says when the newest file was begun, and what was not known of the server before.
        same_file = log.end.file == self.position.file and log_stretches[-1].began
        began = log_stretches[-1].began if same_file else file_started_at(self.source.reading(), log.end.file)
        last = log_stretches[-1]
        last = replace(
            last,
            endpoint=self.source.endpoint or last.endpoint,
            uuid=log.uuid or last.uuid,
            began=began or last.began,
            server_id=log.server_id or last.server_id,
        )
        return NextLog(
            log, Range(self.position, max(self.position, log.end)), tuple(parts), (*log_stretches[:-1], last)
        )

    def _is_done_before(self, log: Log) -> bool:
        """True if bronze has all of the file before the source's oldest one: copies of files were read last."""
        oldest = log.files[0].name
        if (
            self.position.number + 1 != file_number(oldest)
            or self.position.file.rpartition(".")[0] != oldest.rpartition(".")[0]
        ):
            return False
        return ends_file(self.bronze, self.head.version, self.position)

    def _moved(self, log: Log, log_stretches: tuple[Stretch, ...]) -> tuple[Takeover, Gtids]:
        executed = held_gtids(self.bronze, self.head.version, log_stretches[-1])
        return take_over(self.source, log, executed), executed

    def _restarted(self, log: Log, log_stretches: tuple[Stretch, ...]) -> tuple[Takeover, Gtids | None]:
        """All of the new log. Its server gives its own numbers again; those of other servers are what they were."""
        first = log.files[0]
        previous = Search(self.source, log).head(first).previous
        if file_number(first.name) != 1 and (previous is None or previous):
            raise SourceError(
                f"the numbers of its files began again, and files before {first.name}, its oldest one, are gone "
                f"already; {self.source.earlier}"
            )
        server_id = log.uuid or log.server_id
        try:
            executed = (
                held_gtids(self.bronze, self.head.version, log_stretches[-1]).without(server_id) if server_id else None
            )
        except SourceError:  # no GTIDs: then none of its transactions can be one of those
            executed = None
        if not executed:
            parts = log.parts_from(log.first)
            return Takeover(log.first, tuple(parts), ()), executed
        return all_but(self.source, log, executed), executed

    def _opened(
        self,
        log: Log,
        log_stretches: tuple[Stretch, ...],
        relation: Relation,
        takeover: Takeover,
        executed: Gtids | None,
    ) -> NextLog:
        require_ends(self.source, log, takeover.begin)
        number = log_stretches[-1].number + 1
        log = log.within(number)
        opened = Stretch(
            number=number,
            begin=replace(takeover.begin, stretch=number),
            endpoint=self.source.endpoint,
            uuid=log.uuid,
            began=file_started_at(self.source.reading(), log.end.file),
            gtids=executed,
            passed_over=takeover.passed_over,
            server_id=log.server_id,
        )
        return NextLog(log, Range(self.position, log.end), takeover.parts, (*log_stretches, opened), relation)

    def _require_chosen(self, log: Log, log_stretches: tuple[Stretch, ...], relation: Relation) -> None:
        """Check that on_new_server allows another log.

        Raises AnotherLog, or SourceError if another endpoint may be read.

        Others of the endpoints may be read instead of one that is not in use.
        """
        if self.source.switch.on_new_server == "continue":
            return
        message = (
            self._other_server(log, log_stretches) if relation is Relation.ANOTHER else self._reset(log, log_stretches)
        )
        in_use = not self.source.switch.has_several or self.source.endpoint == log_stretches[-1].endpoint
        raise (AnotherLog if in_use else SourceError)(message)

    def _other_server(self, log: Log, log_stretches: tuple[Stretch, ...]) -> str:
        last = _last_stretch_of_endpoint(self.source, log_stretches) or log_stretches[-1]
        before, now = last.uuid or last.endpoint, log.uuid or self.source.endpoint or "there"
        if not (last.uuid and log.uuid) and _has_other_id(log, last):
            before, now = f"server id {last.server_id}", f"server id {log.server_id}"
        return (
            f"the server is another one: bronze holds the log of {before}, the server there now is {now}; point the "
            "source at the first server, or give the new one a source name of its own. Where "
            "it has the same transactions, say on_new_server: continue, and the source goes on by GTID"
        )

    def _reset(self, log: Log, log_stretches: tuple[Stretch, ...]) -> str:
        """The message for a log whose numbering began again: what bronze ends in, and what the source has."""
        # The same name with another beginning, or no such name.
        files = [file.name for file in log.files]
        if self.position.file in files:
            then, now = (
                _second(at)
                for at in (log_stretches[-1].began, file_started_at(self.source.reading(), self.position.file))
            )
            cause = f"bronze ends in a {self.position.file} begun at {then}, and the one there now was begun at {now}"
        else:
            cause = (
                f"the source has no file {self.position.file}, which bronze ends in; it holds {files[0]} to {files[-1]}"
            )
        return (
            f"the log is another one: {cause}. Its numbers began again (RESET BINARY LOGS, RESET MASTER, another "
            "log_bin, a server restored from a backup), and what was logged between bronze's end and that is lost, if "
            "anything was. Bring the old files "
            f"(stratalog extract --source {self.source.name} --archive DIR) if there are copies; then say "
            "on_new_server: continue to go on with the new log, or give it a source name of its own"
        )


def _relation(source: Source, log: Log, log_stretches: tuple[Stretch, ...], position: Position) -> Relation:
    last = log_stretches[-1]
    is_same = _is_same_server(source, log, last, position)
    if is_same is None and (
        source.endpoint is None
        or source.endpoint == last.endpoint
        or (last.endpoint is None and not source.switch.has_several)
    ):
        is_same = True
    if is_same:
        return Relation.RESTARTED if _is_again(source, log, last, position) else Relation.SAME
    if is_same is None and not source.switch.has_several and not log.uuid:  # another address, perhaps of this server
        return Relation.ANOTHER if last.began is None or _is_again(source, log, last, position) else Relation.SAME
    before = _last_stretch_of_endpoint(source, log_stretches)
    is_changed = before is not None and (before.uuid != log.uuid or _has_other_id(log, before))
    return Relation.ENDPOINT if source.switch.has_several and not is_changed else Relation.ANOTHER


def _is_same_server(source: Source, log: Log, last: Stretch, position: Position) -> bool | None:
    """True if the server is the one of a stretch; None where no identity says so.

    MySQL has a UUID. MariaDB has a server id, which may be changed: its log continues in the same file.
    """
    if log.uuid and last.uuid:
        return log.uuid == last.uuid
    if source.endpoint is None or last.endpoint is None:
        return None
    if last.uuid or (log.uuid and last.server_id):
        return False
    if _has_other_id(log, last):
        files = [file.name for file in log.files]
        return position.file in files and file_started_at(source.reading(), position.file) == last.began
    return None


def _has_other_id(log: Log, stretch: Stretch) -> bool:
    return bool(log.server_id and stretch.server_id) and log.server_id != stretch.server_id


def _last_stretch_of_endpoint(source: Source, log_stretches: tuple[Stretch, ...]) -> Stretch | None:
    """The last stretch that an endpoint gave."""
    return next((stretch for stretch in reversed(log_stretches) if stretch.endpoint == source.endpoint), None)


def _is_again(source: Source, log: Log, last: Stretch, position: Position) -> bool:
    """True if the file that bronze ends in is not the source's any more, though none after it was purged."""
    if position.file in [file.name for file in log.files]:
        began = file_started_at(source.reading(), position.file) if last.began else 0
        return bool(began) and began != last.began
    base = position.file.rpartition(".")[0]
    newest = log.files[-1].name
    return newest.rpartition(".")[0] != base or file_number(newest) < position.number


def _second(began: int | None) -> str:
    return datetime.fromtimestamp(began, UTC).isoformat() if began else "an unknown time"
