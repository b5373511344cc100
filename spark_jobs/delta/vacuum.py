"""Removal of unneeded files: data files that no version within reach names, and the log of old versions.

Put here: which these are, and removing them. Not here: how long versions are kept
(operations/retention/maintenance.py).

A file stays where the newest version names it, or one that somebody asks for; where a commit removed it since the time
up to which versions are kept; and where it was written since then, since a commit may be about to name it. Folders and
files that begin with an underscore or a dot, and Iceberg's metadata, are not the table's data, but files of changes,
which no version names, are kept as long as files that were removed. That is Delta's own rule for VACUUM.
"""

import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence

from spark_jobs.delta.change_data import FOLDER
from spark_jobs.delta.log_files import directory
from spark_jobs.delta.snapshot import DataFile, Snapshot, removed_files
from spark_jobs.errors import LakeError
from spark_jobs.storage.files import StoredPath, reason, walk

_FILE_RETENTION = "delta.deletedFileRetentionDuration", "interval 1 week"
_LOG_RETENTION = "delta.logRetentionDuration", "interval 30 days"
"""Properties, and what Delta takes where a table has none."""
_LOG_FILE = re.compile(r"_delta_log/(\d{20})\.[^/]+")
_CHECKPOINT = re.compile(r"_delta_log/(\d{20})\.checkpoint\.parquet")
_INTERVAL = re.compile(r"(?:interval\s+)?(\d+)\s+(week|day|hour|minute|second)s?", re.IGNORECASE)
_ICEBERG = "metadata/"
"""Folder of an Iceberg table's metadata (spark_jobs/iceberg)."""
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}


WrittenFile = tuple[str, float]
"""Name of a file within a table's folder, and when it was written."""


def list_files(snapshot: Snapshot) -> list[WrittenFile]:
    """The files in and below a table's folder, those of its log too. Raises LakeError."""
    try:
        return list(walk(directory(snapshot.path)))
    except OSError as error:
        raise LakeError(f"{snapshot.path}: cannot be read: {reason(error)}") from error


def unnamed_files(
    snapshot: Snapshot, files: Iterable[WrittenFile], hours: int, versions: Iterable[Snapshot] = ()
) -> list[StoredPath]:
    """The files of a table that no version within reach names.

    Args:
        snapshot: the newest version.
        files: those that the table has.
        hours: how long files are kept that it does not name.
        versions: older versions whose files are kept.

    Raises UnsupportedTable, LakeError.
    """
    since = time.time() - hours * 3_600
    removed = removed_files(snapshot.path, of_all_commits=hours * 3_600 > _seconds(snapshot, *_FILE_RETENTION))
    recent = (file for file in removed if file.action.get("deletionTimestamp", 0) >= since * 1000)
    kept_files = [*snapshot.files, *recent, *(file for version in versions for file in version.files)]
    live_paths = {str(path) for file in kept_files for path in _paths_of_file(snapshot.path, file)}
    folder = directory(snapshot.path)
    old = [folder / name for name, written_at in files if written_at < since and not _is_hidden(name)]
    return [file for file in old if str(file) not in live_paths]


def remove(path: str, files: Iterable[StoredPath]) -> None:
    """Remove files of a table. Raises LakeError."""
    try:
        for file in files:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise LakeError(f"{path}: an unreferenced file cannot be removed: {reason(error)}") from error


def unneeded_log(snapshot: Snapshot, files: Sequence[WrittenFile], pinned: Collection[int] = ()) -> list[StoredPath]:
    """The files of a table's log that no version needs but those which its log need not keep any longer.

    Args:
        snapshot: the newest version.
        files: those that the table has.
        pinned: older versions that are read.
    """
    folder, expired = directory(snapshot.path), _expired_log(snapshot, files, pinned)
    superseded = _superseded_checkpoints([file for file in files if file[0] not in expired])
    return [folder / name for name in (*expired, *superseded)]


def _expired_log(snapshot: Snapshot, files: Iterable[WrittenFile], pinned: Collection[int]) -> dict[str, None]:
    """All of the log before a checkpoint that is older than ``delta.logRetentionDuration``."""
    seconds = _seconds(snapshot, *_LOG_RETENTION)
    if not seconds:  # for ever, or as long as Spark alone understands
        return {}
    until, last = time.time() - seconds, min([snapshot.version, *pinned])
    log = {name: (int(match[1]), at) for name, at in files if (match := _LOG_FILE.fullmatch(name))}
    checkpoints = (version for name, (version, at) in log.items() if at < until and _CHECKPOINT.fullmatch(name))
    first = max((version for version in checkpoints if version <= last), default=0)
    return dict.fromkeys(name for name, (version, _) in log.items() if version < first)


def _superseded_checkpoints(files: Iterable[WrittenFile]) -> list[str]:
    """Checkpoints that others stand in for: of those that were written within one hour all but the newest.

    Every version stays readable, from an earlier checkpoint and more commits. A checkpoint names all files that were
    removed within ``delta.deletedFileRetentionDuration``, so that many commits leave many large ones. The oldest one
    stays, since the commits before it may be gone, and all of the last hour, which somebody may be reading.
    """
    hour = _SECONDS["hour"]
    # Names of files have their versions in front, with zeros, so that their order is that of the versions.
    checkpoints = sorted((name, at) for name, at in files if _CHECKPOINT.fullmatch(name))
    newest_by_hour = {at // hour: name for name, at in checkpoints}
    stays = {*newest_by_hour.values(), *(name for name, _ in checkpoints[:1] + checkpoints[-2:])}
    until = time.time() - hour
    return [name for name, at in checkpoints if name not in stays and at < until]


def _seconds(snapshot: Snapshot, key: str, default: str) -> int:
    """A property that is a time; 0 where that is not understood."""
    match = _INTERVAL.fullmatch(snapshot.configuration.get(key, default).strip())
    return int(match[1]) * _SECONDS[match[2].lower()] if match else 0


def _paths_of_file(path: str, file: DataFile) -> Iterator[StoredPath]:
    yield file.location(path)
    vector = file.deletion_vector
    if vector is not None and vector.storage_type != "i":
        yield vector.location(path)


def _is_hidden(name: str) -> bool:
    parts = name.removeprefix(f"{FOLDER}/").split("/")
    return name.startswith(_ICEBERG) or any(part.startswith(("_", ".")) for part in parts)
