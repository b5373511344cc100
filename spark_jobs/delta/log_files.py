"""The files of a table's ``_delta_log`` on a local file system: names, listing, exclusive creation.

Put here: what differs between stores. Not here: what the files say (snapshot.py, commits.py).
"""

import errno
import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any, BinaryIO
from urllib.parse import unquote

from spark_jobs.errors import LakeError

RANDOM_PREFIXES = "delta.randomizeFilePrefixes"
_PREFIX_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/.*)")
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_V2_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet)")
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_NO_DIRECTORY_SYNC = {errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What file systems answer that sync no directories, and need it for none."""
_TRUST_HINT_SECONDS = 86_400
"""How old ``_last_checkpoint`` may be for the commits after it to be looked for by name.

Delta removes commits that a later checkpoint covers after a day at the earliest. Where that checkpoint was not recorded
in ``_last_checkpoint``, the commits after the recorded one have a gap, which only a listing shows."""


class SparkOnly(LakeError):
    """A table that Spark reads or writes and this package does not."""


@dataclass(frozen=True, slots=True)
class LogListing:
    """The files that make up one version: a checkpoint, or none, and the commits after it, oldest first."""

    checkpoint_version: int
    """-1 without a checkpoint."""
    checkpoint: tuple[Path, ...]
    commits: tuple[tuple[int, bytes], ...]
    """Version and content."""

    @property
    def version(self) -> int:
        return self.commits[-1][0] if self.commits else self.checkpoint_version


def why_not_store(path: str) -> str | None:
    """Why a table at a path is read and written by Spark alone; None where this package does it."""
    match = _SCHEME.fullmatch(path)
    if match and match[1].lower() != "file":
        return f"{path}: commits on {match[1]}: are made by Spark alone; file systems are supported"
    return None


def directory(path: str) -> Path:
    """The local directory of a table. Raises SparkOnly."""
    reason = why_not_store(path)
    if reason:
        raise SparkOnly(reason)
    match = _SCHEME.fullmatch(path)
    return Path(unquote(re.sub(r"^/+", "/", match[2]))) if match else Path(path)


def log_directory(path: str) -> Path:
    return directory(path) / "_delta_log"


def read_log(path: str, version: int | None = None) -> LogListing | None:
    """The files of the newest or the given version; None where there is no table, or not that version.

    Raises LakeError where files are missing, or are of a kind that this version does not read.
    """
    log = log_directory(path)
    hint = _hint(log) if version is None else None
    try:
        if hint is not None:
            start, parts = hint
            return LogListing(start, parts, tuple(_commits_after(log, start)))
        return _listed(path, log, version)
    except OSError as error:
        raise _unreadable(path, error) from error


def read_commit(path: str, version: int) -> bytes | None:
    """The content of one commit; None where it is not there. Raises LakeError where it cannot be read."""
    try:
        return _commit_file(log_directory(path), version).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> LakeError:
    return LakeError(f"{path}: cannot be read: {error.strerror}: {error.filename}")


def create_commit(path: str, version: int, content: bytes) -> bool:
    """Creates a version's commit file with its content, durably; False where the version exists.

    The file appears under its name complete or not at all. Raises SparkOnly, LakeError.
    """
    log = log_directory(path)
    target = _commit_file(log, version)
    part = log / f".{target.name}.{uuid.uuid4().hex}.tmp"
    try:
        make_directory(log)
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, target)
        except FileExistsError:
            # NFS sends a request again whose answer was lost: then the version is this commit's own.
            if not target.samefile(part):
                return False
        finally:
            part.unlink()
        sync_directory(log)
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            raise SparkOnly(
                f"{path}: its file system has no hard links ({error.strerror}), so commits are made by Spark alone"
            ) from error
        raise LakeError(f"{path}: cannot be written: {error.strerror}: {error.filename}") from error
    return True


def make_directory(folder: Path) -> None:
    """Makes a directory with those above it, durably."""
    absent = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in reversed(absent):
        sync_directory(one.parent)


@contextmanager
def durable(file: Path) -> Iterator[BinaryIO]:
    """A new file, whose content and names are durable behind the ``with`` block. Raises FileExistsError, OSError."""
    make_directory(file.parent)
    with file.open("xb") as sink:
        yield sink
        sink.flush()
        os.fsync(sink.fileno())
    sync_directory(file.parent)


def random_prefix(configuration: Mapping[str, str], *, is_always: bool = False) -> str:
    """A folder for a file of a table that asks for random ones, or has them always; empty for others."""
    if not (is_always or configuration.get(RANDOM_PREFIXES, "false").lower() == "true"):
        return ""
    return "".join(SystemRandom().choices(_PREFIX_LETTERS, k=int(configuration.get("delta.randomPrefixLength", "2"))))


def sync_file(file: Path) -> None:
    """Makes what a file holds durable."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def sync_directory(folder: Path) -> None:
    """Makes the names of a directory durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(handle)


def _commit_file(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"


def _hint(log: Path) -> tuple[int, tuple[Path, ...]] | None:
    """Version and files of the checkpoint that ``_last_checkpoint`` names; None where it cannot be relied on."""
    file = log / "_last_checkpoint"
    try:
        if time.time() - file.stat().st_mtime > _TRUST_HINT_SECONDS:
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
    files = tuple(log / name for name in names)
    return (version, files) if all(file.exists() for file in files) else None


def _commits_after(log: Path, version: int) -> list[tuple[int, bytes]]:
    commits: list[tuple[int, bytes]] = []
    while True:
        try:
            content = _commit_file(log, version + 1).read_bytes()
        except FileNotFoundError:
            return commits
        version += 1
        commits.append((version, content))


def _listed(path: str, log: Path, version: int | None) -> LogListing | None:
    try:
        names = [entry.name for entry in os.scandir(log)]
    except (FileNotFoundError, NotADirectoryError):
        return None
    commits = sorted(int(match[1]) for name in names if (match := _COMMIT.fullmatch(name)))
    checkpoints, unsupported = _checkpoints(log, names)
    newest = max([*commits, *checkpoints], default=-1)
    if newest < 0 or (version is not None and version not in commits and version not in checkpoints):
        return None
    until = newest if version is None else version
    start = max((number for number in checkpoints if number <= until), default=-1)
    wanted = [number for number in commits if start < number <= until]
    if wanted != list(range(start + 1, until + 1)):
        if any(start < number <= until for number in unsupported):
            raise SparkOnly(f"{path}: its checkpoints are of the kind v2Checkpoint, which Spark alone reads")
        raise LakeError(
            f"{path}: commits before version {until} are missing from its log; restore the table's _delta_log"
        )
    return LogListing(
        start,
        checkpoints.get(start, ()),
        tuple((number, _commit_file(log, number).read_bytes()) for number in wanted),
    )


def _checkpoints(log: Path, names: list[str]) -> tuple[dict[int, tuple[Path, ...]], set[int]]:
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
