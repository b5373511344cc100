"""Job of a merge: the delta of silver for a downstream table; and its result.

Put here: the job of one table, what silver has committed since the last merge, the target's head and the commit.
Not here: the merge itself (engine/merge/downstream_job.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.binlog import TableName
from spark_jobs.config.modes import Mode
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.modes import MODE_COLUMNS
from spark_jobs.downstream.multi_source import is_own
from spark_jobs.errors import LostRace, TableStopped
from spark_jobs.lake.commit import Checkpoint, CommitKind, Head, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit

ADDED = {"_position": silver.CHANGE_POSITION_TYPE, "_committed_at": "TIMESTAMP", "_raw": "MAP<STRING, STRING>"}

_FROM_SERVER = {CommitKind.LOAD: (silver.Op.LOAD,), CommitKind.MEND: silver.MENDED}
"""Operations of the rows of commits whose rows were read from the server."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Result of one merge into a downstream table, in rows; ``range`` is what it took from silver."""

    source: str
    name: TableName
    target: str
    head: Head
    range: Range
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    redone: int = 0
    seconds: float = 0.0
    unseen: int = 0
    """Keys that the table lacks because no row image of theirs was whole."""
    into: str | None = None
    """The downstream table's name, where the source table goes to several."""
    mode: Mode = Mode.MIRROR


@dataclass(frozen=True, slots=True)
class MergeJob:
    """A silver table at a pinned head, and the downstream table that it is merged into."""

    source: str
    name: TableName
    columns: silver.Columns
    origin: Table
    pinned: Head
    target: Table
    replays: tuple[Range, ...] = ()
    """Windows whose keys are to be merged again although silver has not replaced them."""
    mode: Mode = Mode.MIRROR
    """Mode of the target."""
    has_feed: bool = False
    """True if Delta's change data feed is to be on in the target."""

    @property
    def stored(self) -> dict[str, str]:
        """Names and types of all columns of a target that is not of several."""
        return {**self.columns.types, **ADDED, **MODE_COLUMNS[self.mode]}

    def __str__(self) -> str:
        return f"{self.source}: {self.name}"

    @property
    def floor(self) -> Position | None:
        """Position where the last statement stands that emptied the table."""
        commit = SilverCommit.of_head(self.pinned)
        return commit.emptied_at if commit else None

    @property
    def lacks_older(self) -> bool:
        """True if it is a keyless table for want of names alone, and its log begins in the middle of what it had."""
        commit = SilverCommit.of_head(self.pinned)
        return commit is not None and commit.is_numbered and not commit.is_complete


def merged_range(work: MergeJob, head: Head, delta: "SilverDelta") -> Range | None:
    """Range that a merge takes from silver; None where it has nothing that the target has not."""
    start, stop = head.position or _first(work.origin), work.pinned.position
    has_old = bool(delta.redone) or bool(delta.from_server) or delta.is_renewed
    if stop is None or start is None or delta.waits or (start >= stop and not has_old):
        return None
    return Range(start, max(start, stop))


def commit_of(work: MergeJob, log_range: Range, keys_never_whole: int = 0) -> DownstreamCommit:
    """Commit of a merge."""
    pinned, is_part = SilverCommit.of_head(work.pinned), bool(work.target.provenance)
    return DownstreamCommit(
        log_range.stop,
        new_batch(),
        source=work.source,
        table=str(work.name),
        silver_version=work.pinned.version,
        silver_batch=work.pinned.checkpoint.batch if work.pinned.checkpoint else None,
        start=log_range.start,
        is_complete=bool(pinned and pinned.is_complete),
        is_numbered=silver.is_numbered(work.pinned),
        columns=work.columns.types if is_part else None,
        key=work.columns.key if is_part else None,
        keys_never_whole=keys_never_whole,
        mode=work.mode.value,
    )


def head_of(work: MergeJob) -> Head:
    """The head of a target that one table alone is merged into. Raises TableStopped where it is another's."""
    head = work.target.head() or work.target.unwritten_head(work.stored, silver.properties(work.target))
    merged = DownstreamCommit.of_head(head)
    if merged and not is_own(merged, work.source, work.name):
        owner = f"{merged.table or work.name} of source {merged.source or work.source}"
        owners = owner if merged.parts is None else "several source tables"
        raise TableStopped(
            f"{work.target.path} is merged from {owners}, and by routes: it is of one. Route this one to a table of "
            "its own, or several to that one by a pattern or by sources: "
            "(stratalog docs routes), and move the table away: "
            "the next run rebuilds it from silver"
        )
    return head


def _first(origin: Table) -> Position | None:
    """Position where silver's first window starts: its oldest checkpoint says it."""
    commits = origin.since(-1)
    return SilverCommit.of(commits[-1][1]).start if commits else None


@dataclass(frozen=True, slots=True)
class SilverDelta:
    """Commits of silver since the version that was merged last."""

    windows: int
    """Windows appended."""
    steps: list[str]
    """Changes of its columns that are still to be made downstream."""
    redone: list[Range]
    """Windows replaced, or to be merged again."""
    size: int
    """Bytes of log that all of them were decoded from."""
    from_server: tuple[silver.Op, ...] = ()
    """Operations of rows that were read from the server since something was merged: loaded, or mended."""
    is_renewed: bool = False
    """True if all rows and the columns were replaced, silver was restored to a state before what was merged, or the
    target is to have another mode."""
    replaced_from: Position | None = None
    """Position from which on silver has other rows than those that were merged; None where it has these and more."""
    waits: bool = False
    """True if silver is rebuilt and is not yet where the target is: the target keeps what it has until then."""

    def restates(self, head: Head) -> bool:
        """True if keys are merged by all of silver, since it got more than windows. head: the target's."""
        return bool(self.redone) or (bool(self.from_server) and not head.design)


def _is_other_silver(work: MergeJob, last: DownstreamCommit | None, listed: Sequence[tuple[int, Checkpoint]]) -> bool:
    """True if silver was restored to a state before the version that was merged, whatever it has under its number now.

    listed: silver's commits from that version on, as far as its log still has them.
    """
    if last is None or last.silver_version < 0:
        return False
    if not listed:
        return work.pinned.version < last.silver_version
    commit = dict(listed).get(last.silver_version)
    return commit is not None and last.silver_batch is not None and commit.batch != last.silver_batch


def _begins(commit: SilverCommit) -> Iterator[Position]:
    """Positions from which on silver has other rows by a commit: of windows again, and of rows from the server."""
    yield from (log_range.start for log_range in commit.ranges)
    if commit.kind == CommitKind.LOAD and commit.loaded:
        yield commit.loaded.read_from
    if commit.kind == CommitKind.MEND and commit.mended:
        yield commit.mended.at


def silver_delta(work: MergeJob, head: Head) -> SilverDelta:
    """Delta between silver's pinned head and the target's own.

    Raises LostRace where windows are to be merged again by a head of silver that is older than what the target has.
    """
    # Silver's commits since the version that was merged last, without those of maintenance.
    last = DownstreamCommit.of_head(head)
    merged = last.silver_version if last else -1
    listed = work.origin.since(max(-1, merged - 1))
    new = [(version, checkpoint) for version, checkpoint in listed if merged < version <= work.pinned.version]
    commits = [SilverCommit.of(checkpoint) for _, checkpoint in new if checkpoint.kind != CommitKind.MAINTENANCE]
    # A new table has silver's columns.
    changes = [commit for commit in reversed(commits) if last is not None and commit.kind == CommitKind.CHANGE]
    redone = [] if merged < 0 else [windows for commit in commits for windows in commit.ranges]
    begins = [] if merged < 0 else [position for commit in commits for position in _begins(commit)]
    replayed = () if merged < 0 else work.replays
    # All rows are replaced where single commits do not tell the difference any more.
    here, silver_end, floor = head.position, work.pinned.position, silver.fold_floor(work.pinned)
    is_folded_since = here is not None and floor is not None and here < floor  # while no route led there
    is_other_mode = last is not None and last.mode != work.mode
    is_renewed = merged >= 0 and (
        is_folded_since
        or is_other_mode
        or any(commit.is_overwrite for commit in commits)
        or _is_other_silver(work, last, listed)
    )
    # By an older head the keys of these windows would lose what a run has merged since.
    if replayed and not is_renewed and work.pinned.version < merged:
        raise LostRace(f"{work}: another run has merged more of silver; planned again")
    return SilverDelta(
        windows=sum(commit.kind != CommitKind.CHANGE or commit.inherited_from is not None for commit in commits),
        steps=[step for change in changes for step in change.steps or ()],
        redone=[*redone, *replayed],
        size=sum(commit.log_bytes or 0 for commit in commits),
        from_server=tuple(
            operation
            for kind, operations in _FROM_SERVER.items()
            if any(commit.kind == kind for commit in commits)
            for operation in operations
        ),
        is_renewed=is_renewed,
        replaced_from=min(begins, default=None),
        waits=is_renewed and here is not None and silver_end is not None and silver_end < here,
    )
