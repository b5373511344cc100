"""The files of a table's ``_delta_log``: names, listing, exclusive creation.

Put here: which files make up a version. Not here: what the files say (snapshot.py, commits.py), or how files are
created on a file system and on an object store (spark_jobs/storage).
"""

import errno
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any

import deltalake

from spark_jobs.errors import LakeError
from spark_jobs.storage import files
from spark_jobs.storage.files import StoredPath, is_stored, reason, scheme_of, stored_path
from spark_jobs.storage.store_access import deltalake_options

RANDOM_PREFIXES = "delta.randomizeFilePrefixes"
_PREFIX_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_V2_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet)")
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_TRUST_HINT_SECONDS = 86_400
"""Greatest age of ``_last_checkpoint`` for the commits after it to be looked for by name.

Delta removes commits that a later checkpoint covers after a day at the earliest. Where that checkpoint was not recorded
in ``_last_checkpoint``, the commits after the recorded one have a gap, which only a listing shows."""


class UnsupportedTable(LakeError):
    """A table, or a change of one, of a kind that this package does not read or write."""


def other_checkpoints(path: str) -> UnsupportedTable:
    """The error of a table whose checkpoints another tool wrote in another form."""
    return UnsupportedTable(
        f"{path}: its checkpoints are of the kind v2Checkpoint, which is not read; take back what another tool changed "
        "(ALTER TABLE … DROP FEATURE v2Checkpoint)"
    )


@dataclass(frozen=True, slots=True)
class LogListing:
    """The files that make up one version: a checkpoint, or none, and the commits after it, oldest first."""

    checkpoint_version: int
    """-1 without a checkpoint."""
    checkpoint: tuple[StoredPath, ...]
    commits: tuple[tuple[int, bytes], ...]
    """Version and content."""

    @property
    def version(self) -> int:
        return self.commits[-1][0] if self.commits else self.checkpoint_version


def why_not_store(path: str) -> str | None:
    """Reason why a table at a path is not read or written; None where it is."""
    if is_stored(path):
        return None
    return (
        f"{path}: tables on {scheme_of(path)}: are not read or written; file systems, s3a://, abfss:// and gs:// are "
        "supported"
    )


def directory(path: str) -> StoredPath:
    """The folder of a table. Raises UnsupportedTable."""
    reason = why_not_store(path)
    if reason:
        raise UnsupportedTable(reason)
    return stored_path(path)


def log_directory(path: str) -> StoredPath:
    return directory(path) / "_delta_log"


def opened_by_deltalake(path: str, version: int | None = None) -> deltalake.DeltaTable:
    """A table as deltalake reads it, on any store. Raises what deltalake raises, and LakeError for empty commits."""
    if scheme_of(path) == "file":  # objects of a store appear as they are
        _require_no_empty_commit(path)
    address = re.sub(r"^s3[an]://", "s3://", path)
    return deltalake.DeltaTable(address, version=version, storage_options=deltalake_options(path))


def read_log(path: str, version: int | None = None) -> LogListing | None:
    """The files of the newest or the given version; None where there is no table, or not that version.

    Raises LakeError where files are missing, or are of a kind that this version does not read.
    """
    log = log_directory(path)
    try:
        hint = _hint(log)
        if hint is not None and (version is None or version >= hint[0]):
            start, parts = hint
            commits = tuple(_commits_after(path, log, start, version))
            if version is None or version - start == len(commits):
                return LogListing(start, parts, commits)
        return _log_listing(path, log, version)
    except OSError as error:
        raise _unreadable(path, error) from error


def read_commit(path: str, version: int) -> bytes | None:
    """The content of one commit; None where it is not there. Raises LakeError where it cannot be read."""
    try:
        return _commit_content(path, log_directory(path), version)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def commits_since(path: str, version: int) -> list[tuple[int, bytes]]:
    """The commits after a version, as far as they follow on each other. Raises LakeError where they cannot be read."""
    with _reading_log(path):
        return _commits_after(path, log_directory(path), version)


def commit_mark(path: str, version: int) -> object:
    """Mark of a commit's file, which another one under its name does not have; None where there is none.

    Raises LakeError.
    """
    with _reading_log(path):
        return files.mark(_commit_file(log_directory(path), version))


def has_checkpoint(path: str, listing: LogListing) -> bool:
    """True if the files of a listing's checkpoint are there still. Raises LakeError."""
    with _reading_log(path):
        return all(part.exists() for part in listing.checkpoint)


@contextmanager
def _reading_log(path: str) -> Iterator[None]:
    """Turn errors of reading a table's log inside the ``with`` block into LakeError."""
    try:
        yield
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> LakeError:
    return LakeError(f"{path}: cannot be read: {reason(error)}")


def create_commit(path: str, version: int, content: bytes) -> bool:
    """Create a version's commit file with its content, durably; False where another writer has created it.

    The file appears under its name complete or not at all. Raises UnsupportedTable, and LakeError where a later version
    is there: the log lacks this one, and what comes after it would count again.
    """
    log = log_directory(path)
    target = _commit_file(log, version)
    # A gap would be filled by rows that count before those of a later version.
    try:
        if _commit_file(log, version + 1).exists() and not target.exists():
            raise LakeError(
                f"{path}: version {version} is missing from its log, which has a later one; restore the table's "
                "_delta_log"
            )
        return files.create(target, content, is_first=version == 0)
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            raise UnsupportedTable(
                f"{path}: its file system has no hard links ({error.strerror}), by which a commit is made without "
                "overwriting another; put the lake on one that has them"
            ) from error
        raise LakeError(f"{path}: cannot be written: {reason(error)}") from error


def random_prefix(configuration: Mapping[str, str]) -> str:
    """A folder for a file of a table that asks for random ones; empty for others.

    Spark also makes them for tables with column mapping, whose names of partitions they hide; no table here has any,
    and a folder costs two more waits for the disk a file.
    """
    if configuration.get(RANDOM_PREFIXES, "false").lower() != "true":
        return ""
    return "".join(SystemRandom().choices(_PREFIX_LETTERS, k=int(configuration.get("delta.randomPrefixLength", "2"))))


def _commit_file(log: StoredPath, version: int) -> StoredPath:
    return log / f"{version:020}.json"


def _commit_content(path: str, log: StoredPath, version: int) -> bytes:
    """The content of a commit's file, which has at least one action.

    Raises OSError, and LakeError for a file without any: a crash of the machine can leave it behind, and whoever took
    it for a commit without changes would lose those that it had.
    """
    content = _commit_file(log, version).read_bytes()
    if not content.strip():
        raise LakeError(f"{path}: version {version} of its log is empty; restore the table's _delta_log")
    return content


def _require_no_empty_commit(path: str) -> None:
    """Check that no commit after the newest checkpoint is an empty file, which deltalake accepts. Raises LakeError."""
    log = log_directory(path)
    assert isinstance(log, Path)
    try:
        names = files.names(log) or []
    except OSError:
        return  # deltalake says why
    newest = max((int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))), default=-1)
    # Those that a checkpoint covers are not read, and may be many: they are not even asked for their size.
    for version in sorted(int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))):
        if version > newest and _size_of(_commit_file(log, version)) == 0:
            raise LakeError(f"{path}: version {version} of its log is empty; restore the table's _delta_log")


def _size_of(file: StoredPath) -> int | None:
    """Bytes of a file; None where it cannot be told, as of one that goes meanwhile."""
    assert isinstance(file, Path)
    try:
        return file.stat().st_size
    except OSError:
        return None


def _hint(log: StoredPath) -> tuple[int, tuple[StoredPath, ...]] | None:
    """Version and files of the checkpoint that ``_last_checkpoint`` names; None where it cannot be relied on."""
    file = log / "_last_checkpoint"
    try:
        if files.age(file) > _TRUST_HINT_SECONDS:
            return None
        value: dict[str, Any] = json.loads(file.read_bytes())
        version, count = int(value["version"]), value.get("parts")
    except (OSError, ValueError, KeyError, TypeError):
        return None  # it may be missing or half written; the listing does not need it
    names = (
        [f"{version:020}.checkpoint.{part:010}.{count:010}.parquet" for part in range(1, count + 1)]
        if count
        else [f"{version:020}.checkpoint.parquet"]
    )
    parts = tuple(log / name for name in names)
    return (version, parts) if all(part.exists() for part in parts) else None


def _commits_after(path: str, log: StoredPath, version: int, until: int | None = None) -> list[tuple[int, bytes]]:
    """Commits by name, as far as they follow on each other; up to a version where one is given."""
    commits: list[tuple[int, bytes]] = []
    while version != until:
        try:
            content = _commit_content(path, log, version + 1)
        except FileNotFoundError:
            return commits
        version += 1
        commits.append((version, content))
    return commits


def _log_listing(path: str, log: StoredPath, version: int | None) -> LogListing | None:
    """Listing that a snapshot of ``version`` (None: the newest) is read from.

    None where the folder has no such version.
    """
    names = files.names(log)
    if names is None:
        return None
    commits = sorted(int(match[1]) for name in names if (match := _COMMIT.fullmatch(name)))
    checkpoints, unsupported = _checkpoints(log, names)
    # A version that is requested must have a commit or a checkpoint of its own.
    newest = max([*commits, *checkpoints], default=-1)
    if newest < 0 or (version is not None and version not in commits and version not in checkpoints):
        return None
    until = newest if version is None else version
    # The newest checkpoint that is not after it, and every commit after that: a gap would lose rows silently.
    start = max((number for number in checkpoints if number <= until), default=-1)
    numbers = [number for number in commits if start < number <= until]
    if numbers != list(range(start + 1, until + 1)):
        if any(start < number <= until for number in unsupported):
            raise other_checkpoints(path)
        raise LakeError(
            f"{path}: commits before version {until} are missing from its log; restore the table's _delta_log"
        )
    return LogListing(
        start,
        checkpoints.get(start, ()),
        tuple((number, _commit_content(path, log, number)) for number in numbers),
    )


def _checkpoints(log: StoredPath, names: list[str]) -> tuple[dict[int, tuple[StoredPath, ...]], set[int]]:
    """Files of each complete checkpoint by version, and versions of those of an unsupported kind."""
    parts: dict[tuple[int, int], list[str]] = {}
    unsupported = set()
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            parts.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
        elif match := _V2_CHECKPOINT.fullmatch(name):
            unsupported.add(int(match[1]))
    complete = {
        version: tuple(log / name for name in sorted(group))
        for (version, count), group in sorted(parts.items(), reverse=True)
        if len(group) == count
    }
    return complete, unsupported
