"""States of a table that the lake still has before a position: versions of silver, and of downstream beside them.

Put here: which versions a table's rows may be taken from. Not here: what the log adds to them (replayed.py).

A version of silver is a state where its commit ends at or before the position, its rows were made by the rules that
the table has now, nothing replaced them since, and vacuum has kept its files. The newest one has the least log to
decode. Rows are read from the newest version of downstream that was merged from it or from one before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.config.filters import TableFilters
from spark_jobs.config.modes import Mode
from spark_jobs.delta.snapshot import Snapshot, snapshot_of
from spark_jobs.delta.version_copy import is_readable
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import CommitKind
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import TableState


@dataclass(frozen=True, slots=True)
class Base:
    """A version of a silver table, and what its commit says."""

    snapshot: Snapshot
    commit: SilverCommit

    @property
    def version(self) -> int:
        return self.snapshot.version


@dataclass(frozen=True, slots=True)
class SilverVersions:
    """Our commits of a silver table, newest first."""

    table: Table
    commits: Sequence[tuple[int, SilverCommit]]

    @classmethod
    def of(cls, table: Table) -> "SilverVersions":
        return cls(table, [(version, SilverCommit.of(checkpoint)) for version, checkpoint in table.since(-1)])

    @property
    def began_in_log(self) -> bool:
        """True if the log has the beginning of the table, whose first window so knows all of its rows."""
        return bool(self.commits) and TableState.of(self.commits[-1][1]).is_complete

    def base(self, at: Position, filters: TableFilters, held_from: Position, *, is_raw: bool) -> Base | None:
        """The newest version that a position's rows can be made from; None where none is left.

        Args:
            at: the position.
            filters: the rules about the table.
            held_from: where the log begins that bronze holds.
            is_raw: whether no rule may have been applied to the rows.
        """
        for version, commit in self._usable(filters, is_raw=is_raw):
            if commit.position <= at and (commit.position >= held_from or commit.position == at):
                snapshot = _readable(self.table, version)
                if snapshot is not None:
                    return Base(snapshot, commit)
        return None

    def oldest(self, filters: TableFilters, held_from: Position, *, is_raw: bool) -> Position | None:
        """The least position whose rows these versions tell, all rows of the table known; None where there is none."""
        oldest: Position | None = None
        for version, commit in self._usable(filters, is_raw=is_raw):
            is_whole = commit.position >= held_from and TableState.of(commit).is_complete
            if is_whole and _readable(self.table, version) is not None:
                oldest = commit.position
        return oldest

    def _usable(self, filters: TableFilters, *, is_raw: bool) -> Iterator[tuple[int, SilverCommit]]:
        """Commits whose rows nothing has replaced since, made by the rules that the table has."""
        redone: Position | None = None
        for version, commit in self.commits:
            is_current = commit.resets == self.commits[0][1].resets
            # Windows that were replayed differ from what versions before have of them.
            is_replaced = redone is not None and redone < commit.position
            if is_current and not is_replaced and _has_rules(commit, filters, is_raw=is_raw):
                yield version, commit
            if commit.kind == CommitKind.REDO:
                starts = [log_range.start for log_range in commit.ranges]
                redone = min(([redone] if redone else []) + starts, default=None)


def _has_rules(commit: SilverCommit, filters: TableFilters, *, is_raw: bool) -> bool:
    digests = commit.rule_digests or {}
    return not digests if is_raw else digests.get("columns") == filters.prints().get("columns")


def merged_version(table: Table, base: Base) -> Snapshot | None:
    """The newest version of a downstream table that has rows of one table as they were in silver, or before.

    None where there is none, and where it keeps more than current rows or is of several source tables.
    """
    for version, checkpoint in table.since(-1):
        commit = DownstreamCommit.of(checkpoint)
        if commit.parts is not None or commit.mode != Mode.MIRROR.value:
            return None
        if 0 <= commit.silver_version <= base.version and commit.position <= base.commit.position:
            return _readable(table, version)
    return None


def _readable(table: Table, version: int) -> Snapshot | None:
    """A version whose files are all there; None where they, or the log up to it, are not."""
    try:
        snapshot = snapshot_of(table.path, version)
    except LakeError:  # commits before it were removed
        return None
    return snapshot if snapshot is not None and is_readable(snapshot) else None
