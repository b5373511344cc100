"""Commits of a table, one by one.

Put here: questions about commits between two versions. Not here: what a version consists of (snapshot.py).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.delta.actions import commit_actions
from spark_jobs.delta.damage import decoding_commit
from spark_jobs.delta.kept import commit_content
from spark_jobs.delta.log_files import LogListing
from spark_jobs.delta.snapshot import DataFile, apply_to_files


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Content of a commit. counters: by application, the version of its transaction; metrics: as it has them.

    Delta's writers have the metrics as a map of text, some as a document of it.
    """

    version: int
    operation: str | None
    user_metadata: str | None
    counters: dict[str, int]
    metrics: Mapping[str, Any] | str | None = None


def newest_first(path: str, listing: LogListing) -> Iterator[CommitInfo]:
    """Infos of commits, from a listing's version backwards to the oldest one that the log has.

    Raises LakeError.
    """
    contents = dict(listing.commits)
    for version in range(listing.version, -1, -1):
        content = contents.get(version) or commit_content(path, version)
        if content is None:
            return
        with decoding_commit(path, version):
            info = _info(version, content)
        yield info


def _info(version: int, content: bytes) -> CommitInfo:
    info: dict[str, Any] = {}
    counters: dict[str, int] = {}
    for line in content.splitlines():
        if line.startswith(b'{"commitInfo"'):
            info = json.loads(line)["commitInfo"]
        elif line.startswith(b'{"txn"'):
            transaction = json.loads(line)["txn"]
            counters[transaction["appId"]] = transaction["version"]
    return CommitInfo(version, info.get("operation"), info.get("userMetadata"), counters, info.get("operationMetrics"))


def added_since(path: str, after: int, until: int) -> tuple[DataFile, ...] | None:
    """The data files of a version (``until``) with rows that commits after another one (``after``) added.

    A commit that only moves rows between files adds none: its files count where it moved rows of files that count.
    Else whatever maintenance wrote together would be merged again, a table for a change. None where the log does not
    have all of these commits any more. Raises LakeError.
    """
    added: dict[tuple[str, str | None], DataFile] = {}
    for version in range(after + 1, until + 1):
        content = commit_content(path, version)
        if content is None:
            return None
        actions = [*commit_actions(path, version, content)]
        with decoding_commit(path, version):
            removed = {DataFile(action["remove"], path).key for action in actions if "remove" in action}
            if added.keys() & removed or not _only_moves(actions):
                apply_to_files(path, added, actions)
    return tuple(added.values())


def data_runs(path: str, after: int, until: int) -> list[tuple[int, int]] | None:
    """Versions behind one and up to another in which rows changed, as pairs: the version before a run, and its last.

    Commits that only moved rows between files (OPTIMIZE) are in no run, and end one. None where the log does not have
    all of these commits any more.
    """
    runs: list[tuple[int, int]] = []
    begin = after
    for version in range(after + 1, until + 1):
        content = commit_content(path, version)
        if content is None:
            return None
        with decoding_commit(path, version):
            is_move = _only_moves(commit_actions(path, version, content))
        if is_move:
            if begin < version - 1:
                runs.append((begin, version - 1))
            begin = version
    if begin < until:
        runs.append((begin, until))
    return runs


def _only_moves(actions: Iterable[Mapping[str, Any]]) -> bool:
    """True if the actions of a commit have files, and change no row by them."""
    of_files = (action[kind] for action in actions for kind in ("add", "remove") if kind in action)
    changes = [action.get("dataChange", True) for action in of_files]
    return bool(changes) and not any(changes)
