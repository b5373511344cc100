"""Stratalog's commits of a Delta table, read without a JVM: the head, and those after a version.

Put here: what the log says of them. Not here: making commits (table.py), or what a commit says of itself (commit.py).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, takewhile
from typing import cast

import deltalake
from deltalake.exceptions import TableNotFoundError

from spark_jobs.delta import history
from spark_jobs.delta.history import CommitInfo
from spark_jobs.delta.kept import newest_commits
from spark_jobs.delta.log_files import UnsupportedTable, opened_by_deltalake
from spark_jobs.errors import LakeError, StratalogError, about
from spark_jobs.lake.commit import APPLICATION, Checkpoint, CommitKind, Head
from spark_jobs.runtime.engine_errors import delta_rs_message

_REARRANGING = ("OPTIMIZE", "REORG")
"""Operations of Delta that move rows between files, and let others commit meanwhile."""
_REARRANGED = 3
"""Commits that maintenance makes of one table in a row, at most."""
_LOOKED_AT = 2 + _REARRANGED
"""Commits that a head is looked for in, before the table is opened."""


def head_of(path: str) -> Head | None:
    """The newest version; None where there is no table. Raises LakeError."""
    # The newest commits say it: a table is opened, with all its files, only where others than ours hide them.
    newest = _newest(path, _LOOKED_AT)
    if newest == []:
        return None
    counter = next((commit.counters[APPLICATION] for commit in newest or () if APPLICATION in commit.counters), 0)
    entry = next(_checkpoints(path, newest or ()), None)
    if not (newest and counter and entry):
        return _head_by_whole_log(path)
    return Head(newest[0].version, counter, _finished(path, entry[1]))


def since(path: str, version: int) -> list[tuple[int, Checkpoint]]:
    """Our commits after a Delta version, newest first, without those in the middle of a statement. Raises LakeError."""
    newest = _newest(path, after=max(-1, version - _REARRANGED))
    if newest is None:
        table = deltalake_table(path)
        count = table.version() - version if table else 0
        newest = list(_history(path, table, count + _REARRANGED)) if table and count > 0 else []
    return [entry for entry in _checkpoints(path, newest) if entry[0] > version and not entry[1].is_unfinished]


def _finished(path: str, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint, if no earlier version of Stratalog ended in the middle of a statement. Raises LakeError."""
    if checkpoint.is_unfinished:
        raise LakeError(
            f"{path}: a run of an earlier version of Stratalog ended in the middle of a statement, and left the table "
            "between two sets of columns; run that version once more, which finishes it, and then this one"
        )
    return checkpoint


def deltalake_table(path: str) -> deltalake.DeltaTable | None:
    """The table as deltalake reads it; None where there is none. Raises LakeError."""
    with readable_table(path):
        try:
            return opened_by_deltalake(path)
        except TableNotFoundError:
            return None


@contextmanager
def readable_table(path: str) -> Iterator[None]:
    """Turn errors of deltalake inside the ``with`` block into LakeError: the table cannot be read."""
    try:
        yield
    except StratalogError:
        raise
    except Exception as error:  # deltalake raises bare exceptions for permissions and broken logs alike
        raise LakeError(f"{path}: cannot be read: {delta_rs_message(path, str(error))}") from error


def _newest(path: str, count: int | None = None, after: int = -1) -> list[CommitInfo] | None:
    """Newest commits, at most so many, of those after a version; none without a table.

    None where the log has to be read as a whole. Raises LakeError.
    """
    try:
        listing = newest_commits(path)
        backwards = history.newest_first(path, listing) if listing else ()
        newest = list(takewhile(lambda commit: commit.version > after, islice(backwards, count)))
    except UnsupportedTable:
        return None
    # Commits that a checkpoint covers are removed in time.
    is_whole = listing is None or count is not None or len(newest) == max(0, listing.version - after)
    return newest if is_whole else None


def _head_by_whole_log(path: str) -> Head | None:
    table = deltalake_table(path)
    if table is None:
        return None
    counter = table.transaction_version(APPLICATION) or 0
    entry = next(_checkpoints(path, _history(path, table)), None)
    if counter and not entry:
        raise LakeError(f"{path}: no commit in its history names a position; restore the table's _delta_log")
    return Head(table.version(), counter, _finished(path, entry[1]) if entry else None)


def _history(path: str, table: deltalake.DeltaTable, limit: int | None = None) -> Iterator[CommitInfo]:
    """Newest first; each entry is a file that is read. Raises LakeError."""
    with readable_table(path):
        commits = list(table.history(limit))
    for commit in commits:
        yield CommitInfo(cast(int, commit["version"]), commit.get("operation"), commit.get("userMetadata"), {})


def _checkpoints(path: str, commits: Iterable[CommitInfo]) -> Iterator[tuple[int, Checkpoint]]:
    """Our commits among some, newest first, each with its Delta version.

    One that moved rows between files says what the commit below it says, where that is among them: what it says itself
    was written before it began, and it may have come behind others. Raises LakeError.
    """
    moved: list[int] = []
    for commit in commits:
        with about(f"{path}: version {commit.version} of its log"):
            checkpoint = Checkpoint.from_json(commit.user_metadata)
        if checkpoint and commit.operation in _REARRANGING:
            moved.append(commit.version)
        elif checkpoint:
            kind = checkpoint.kind if checkpoint.is_unfinished else CommitKind.MAINTENANCE
            yield from ((version, replace(checkpoint, kind=kind)) for version in moved)
            moved.clear()
            yield commit.version, checkpoint
