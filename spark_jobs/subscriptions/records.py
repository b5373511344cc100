"""The records of consumer groups: ``<lake>/subscriptions/<source>/<group>.<version>.json``.

Each version is a small file, created exclusively: whoever writes the next version of a group owns it, and all others
planned on an older one and lose. The newest version counts. So a group has one consumer, who renews a lease by writing;
one that was overtaken learns it with its next write, and no write of it counts.

Put here: reading, writing and listing records, and leases. Not here: what is delivered (subscription.py).
"""

import json
import os
import re
import socket
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from spark_jobs.errors import ConfigError, LakeError, LostRace
from spark_jobs.lake.layout import Lake
from spark_jobs.storage import files
from spark_jobs.storage.files import StoredPath, is_stored, reason, scheme_of, stored_path
from spark_jobs.subscriptions.cursor import Cursor

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_FILE = re.compile(r"(.+)\.(\d{20})\.json")
_KEPT = 4
"""Versions that stay: who has listed the files reads the newest of them a moment later."""
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Consumer:
    """Consumer of a group. lease: seconds after its last write until it counts as gone."""

    id: str
    name: str
    lease: float

    @classmethod
    def of_process(cls, lease: float) -> "Consumer":
        """Consumer of this process, as one of its own."""
        return cls(uuid.uuid4().hex, f"{socket.gethostname()}:{os.getpid()}", lease)


@dataclass(frozen=True, slots=True)
class Record:
    """Content of a group's newest file. version: 0 for a group that is not there yet; batch: the last acknowledged."""

    group: str
    version: int
    cursor: Cursor
    tables: tuple[str, ...] = ()
    batch: int = 0
    consumer: Consumer | None = None
    written_at: str = ""
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Value that differs between two writers of one version."""

    def to_bytes(self) -> bytes:
        members: dict[str, Any] = self.cursor.to_json() | {"batch": self.batch, "tables": list(self.tables)}
        members |= {"consumer": asdict(self.consumer) if self.consumer else None}
        members |= {"written_at": self.written_at, "nonce": self.nonce}
        return json.dumps(members, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def from_bytes(cls, group: str, version: int, content: bytes) -> "Record":
        members = json.loads(content)
        consumer = Consumer(**members["consumer"]) if members["consumer"] else None
        cursor, tables = Cursor.from_json(members), tuple(members["tables"])
        return cls(group, version, cursor, tables, members["batch"], consumer, members["written_at"], members["nonce"])


class Records:
    """The groups of one source. Methods raise LakeError where the lake cannot be read or next_record."""

    def __init__(self, lake: Lake, source: str) -> None:
        if not is_stored(lake.root):
            raise ConfigError(
                f"{lake.root}: subscriptions need a lake on a file system, s3a://, abfss:// or gs://; "
                f"{scheme_of(lake.root)}: is not written"
            )
        self.source = source
        self._folder: StoredPath = stored_path(lake.subscriptions(source))

    def groups(self) -> list[str]:
        """The names of all groups, in order."""
        return sorted(self._version_numbers())

    def read(self, group: str) -> Record | None:
        """The newest record of a group; None where there is no such group."""
        for _ in range(_TRIES):
            versions = self._version_numbers().get(group)
            if not versions:
                return None
            try:
                content = self._record_path(group, max(versions)).read_bytes()
            except FileNotFoundError:  # newer ones were written meanwhile
                continue
            except OSError as error:
                raise self._unreadable(error) from error
            try:
                return Record.from_bytes(group, max(versions), content)
            except (ValueError, KeyError, TypeError, ConfigError) as error:
                raise LakeError(
                    f"{self.source}: {self._record_path(group, max(versions))}: is no record of a group ({error}); "
                    "remove the group, and start it again at a position"
                ) from error
        raise LakeError(f"{self.source}: group {group}: its records change too fast to be read; try again")

    def age(self, record: Record) -> float:
        """Seconds since a record was written, by the clock of the store that holds it."""
        try:
            return files.age(self._record_path(record.group, record.version))
        except FileNotFoundError:
            return 0.0
        except OSError as error:
            raise self._unreadable(error) from error

    def write(self, record: Record) -> Record:
        """Write the version after a record's, with all else that the record says. Raises LostRace.

        The version counts where it is the newest, and the one before it is there still.
        """
        next_record = replace(record, version=record.version + 1, written_at=_now(), nonce=uuid.uuid4().hex)
        try:
            path = self._record_path(record.group, next_record.version)
            is_created = files.create(path, next_record.to_bytes(), is_first=not record.version)
        except OSError as error:
            raise LakeError(f"{self.source}: {self._folder}: cannot be written: {reason(error)}") from error
        versions = self._version_numbers().get(record.group, [])
        is_next = not record.version or record.version in versions
        if not is_created or max(versions, default=0) != next_record.version or not is_next:
            if is_created and not is_next:
                self._remove(record.group, [next_record.version])
            raise LostRace(f"{self.source}: group {record.group}: another consumer or command has changed it")
        self._remove(record.group, [version for version in versions if version <= next_record.version - _KEPT])
        return next_record

    def remove(self, group: str) -> None:
        """Remove a group, its newest record last: where that is cut short, the group stays where it was."""
        self._remove(group, sorted(self._version_numbers().get(group, [])))

    def _remove(self, group: str, versions: list[int]) -> None:
        try:
            for version in versions:
                self._record_path(group, version).unlink(missing_ok=True)
        except OSError as error:
            raise LakeError(f"{self.source}: {self._folder}: cannot be written: {reason(error)}") from error

    def _version_numbers(self) -> dict[str, list[int]]:
        versions: dict[str, list[int]] = {}
        for group, version in self._file_versions():
            versions.setdefault(group, []).append(version)
        return versions

    def _file_versions(self) -> Iterator[tuple[str, int]]:
        try:
            names = files.names(self._folder) or []
        except OSError as error:
            raise self._unreadable(error) from error
        for name in names:
            match = _FILE.fullmatch(name)
            if match and not name.startswith("."):
                yield match[1], int(match[2])

    def _record_path(self, group: str, version: int) -> StoredPath:
        return self._folder / f"{group}.{version:020}.json"

    def _unreadable(self, error: OSError) -> LakeError:
        return LakeError(f"{self.source}: {self._folder}: cannot be read: {reason(error)}")


def require_group_name(name: str) -> str:
    """The name of a group. Raises ConfigError for one that is none."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no name of a group; use up to 100 letters, digits, dots, dashes and underscores, not "
            "beginning with a dot or a dash"
        )
    return name


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
