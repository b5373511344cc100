"""Anchor of a load: its position in bronze's log, from whichever of the source's servers the rows are read.

Put here: which server bronze is on, the position that rows read there count from, and whether bronze has since taken in
all that they may show. Not here: reading and landing them (load.py), or moving between servers (bronze/resume.py).

Rows count from a position in the stretch that their server's log is, and before which all that bronze holds is
committed there. As long as bronze continues with that log, an offset says whether it has passed the end of the reading;
behind a move the transactions do, by GTID. GTID numbers that restart name other transactions, and end a load.
Why this is so: docs/adr/0011-initial-load.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.gtid_state import held_gtids, seen_gtids
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.errors import LakeError, SourceError
from spark_jobs.lake.commit import Checkpoint
from spark_jobs.lake.table import Table
from spark_jobs.log.gtid import DomainGtids, Gtids, MysqlGtids, parse_gtids
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.commit import LoadCommit
from spark_jobs.source.protocol import FilePart, Log
from spark_jobs.source.seek import has_no_transaction_before, resolve_location, transactions_before
from spark_jobs.source.server import Server


class Outrun(SourceError):
    """Rows that were read may show what bronze's log will never have: they are to be read again."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The server that tables are read from, and the stretch of bronze's log that is its own."""

    server: Server
    stretch: Stretch
    identity: tuple[str, str]
    """A variable of the server's, and its value, by which it is known again: its UUID, or (MariaDB) its id."""
    is_restarted: bool
    """True if the stretch is a log that the server restarted."""

    @classmethod
    def of(cls, server: Server, checkpoint: Checkpoint) -> "Anchor":
        """The anchor of loads from a server: its log, and where bronze ends in it.

        Raises SourceError if that is another log.
        """
        log, log_stretches = server.log(), stretches(checkpoint)
        last = log_stretches[-1]
        is_here = log.uuid == last.uuid if log.uuid and last.uuid else last.endpoint in {None, server.endpoint}
        if not is_here:
            raise SourceError(
                f"bronze ends in the log of {last.endpoint or last.uuid}, and tables were to be read from "
                f"{server.endpoint}, which is another server; load again once a run has gone on with it"
            )
        return cls(server, last, _server_identity(log), len(log_stretches) > 1 and _is_same_server(*log_stretches[-2:]))

    def resolve(self, position: Position) -> Position:
        """A position of the server's as one of bronze's."""
        return replace(position, stretch=self.stretch.number)

    def end(self) -> tuple[Position, Gtids | None]:
        """Position where the server's log ends now, and all transactions up to there.

        None where a load cannot move by them.

        Raises SourceError, also where another server answers by now.
        """
        log = self.server.log()
        if _server_identity(log) != self.identity:
            raise SourceError(
                f"another server answers at {self.server.endpoint} than when the load began "
                f"({self.identity[0]} is {_server_identity(log)[1]}, and was {self.identity[1]}); load again"
            )
        return self.resolve(log.end), self._covered(log)

    def _covered(self, log: Log) -> Gtids | None:
        switch = self.server.switch
        if not switch.has_several and switch.on_new_server != "continue":
            return None
        with self.server.connect() as connection:
            mode = self.server.variables(connection).get("gtid_mode", "ON")  # MariaDB always has them
        return transactions_before(self.server, log, log.end) if mode.upper() == "ON" else None

    def since(self, checkpoint: Checkpoint, bronze: Table, version: int, begin: Position) -> Position:
        """The position that rows read from now on count from; ``begin``: where the first extraction began.

        Raises SourceError where no position is known yet before which all is committed.
        """
        since = self.resolve(self.server.position_visible_to_readers())
        if self.stretch.number > 1:
            return self._since_later(since, checkpoint, bronze, version)
        if since < begin and has_no_transaction_before(self.server, begin):
            since = begin
        executed = self.server.committed() if since < begin else None
        if executed:
            since = resolve_location(self.server, self.server.log(), executed)
        if since < begin:
            raise SourceError(_too_early(f"bronze begins at {begin}"))
        return since

    def _since_later(self, visible: Position, checkpoint: Checkpoint, bronze: Table, version: int) -> Position:
        """Position in a stretch that was opened later: what bronze has of earlier ones has to be committed here."""
        first = max([self.stretch.begin, *map(self._part_end, self.stretch.passed_over)])
        if visible >= first and not (self.is_restarted and visible.number <= self.stretch.begin.number):
            return visible
        if not self.is_restarted:
            gtids = held_gtids(bronze, version, self.stretch)
            if isinstance(gtids, MysqlGtids) and gtids and self.server.has_committed(gtids):
                return checkpoint.position
        raise SourceError(_too_early(f"bronze has gone on with this log at {first}"))

    def _part_end(self, part: FilePart) -> Position:
        return Position(part.file, part.stop, self.stretch.number)


def position_covering_load(source: str, load: LoadCommit, bronze: Table, reached: Position) -> Position:
    """A position of bronze's log before which is all that the rows of a load may show.

    ``reached``: up to where silver is.

    Raises Outrun where that will never be, LakeError where it is not so yet.
    """
    assert load.read_to is not None
    log_stretches, version = _at(source, bronze, reached)
    # In the log that was read from, the position itself decides.
    if log_stretches[-1].number == load.read_to.stretch:
        if reached < load.read_to:
            raise LakeError(
                f"was read up to {load.read_to}, and bronze ends at {reached}: the server's log is shorter than it "
                "was, or another one"
            )
        return load.read_to
    # Bronze moved to another server's log: GTIDs tell whether that has every transaction that was read.
    later = log_stretches[load.read_to.stretch - 1 :]
    before, now = (stretch.endpoint or stretch.uuid or f"stretch {stretch.number}" for stretch in (later[0], later[-1]))
    if any(_is_same_server(*pair) for pair in pairwise(later)):
        raise Outrun(f"was read from {before}, and a log of the source was restarted since; load it again")
    if load.gtids is None:
        raise Outrun(
            f"was read from {before}, and bronze has gone on with the log of {now}: without GTIDs nobody can tell "
            "whether that has all that was read; load it again"
        )
    missing = _missing(parse_gtids(load.gtids), bronze, version, log_stretches, load.since)
    if missing:
        raise Outrun(
            f"was read from {before}, which had {missing}, and bronze has gone on with the log of {now} without that; "
            "load it again"
        )
    return reached


def _missing(executed: Gtids, bronze: Table, version: int, log_stretches: Sequence[Stretch], since: Position) -> Gtids:
    """Transactions that rows may show and bronze lacks; ``since``: what came before, it has.

    Of MariaDB's, the last of each domain is looked for itself: its number may have been given again by another server.
    """
    held_set = held_gtids(bronze, version, log_stretches[-1])
    if isinstance(executed, MysqlGtids):
        return executed - held_set if isinstance(held_set, MysqlGtids) else executed
    if not isinstance(held_set, DomainGtids):
        return executed
    unlike = DomainGtids({domain: last for domain, last in executed.last.items() if held_set.last.get(domain) != last})
    gtids = seen_gtids(bronze, version, log_stretches, since, unlike) if unlike else unlike
    return DomainGtids({domain: last for domain, last in unlike.last.items() if domain not in gtids.last})


def _at(source: str, bronze: Table, position: Position) -> tuple[Sequence[Stretch], int]:
    """The stretches, and the version, of bronze as it ended at a position; it may have gone on since."""
    commit = next(
        ((version, checkpoint) for version, checkpoint in bronze.since(-1) if checkpoint.position == position), None
    )
    if commit is None:
        raise LakeError(f"{source}: no commit of bronze's that ended at {position} is there any more; load again")
    return stretches(commit[1]), commit[0]


def _is_same_server(first: Stretch, second: Stretch) -> bool:
    """True if two stretches, one after the other, are logs of one server: then it restarted."""
    if first.uuid and second.uuid:
        return first.uuid == second.uuid
    return first.endpoint == second.endpoint


def _server_identity(log: Log) -> tuple[str, str]:
    return ("server_uuid", log.uuid) if log.uuid else ("server_id", log.server_id or "")


def _too_early(begins: str) -> str:
    return (
        f"{begins}, in the file that the server still writes, and only of files before that is it sure that all in "
        "them is committed; load once the server has begun its next file (FLUSH BINARY LOGS begins one), and a run "
        "has read it"
    )
