"""The manifests of a snapshot: what it adds to those of the snapshot before, and which of them it rewrites.

Put here: buckets, entries, row ids. Not here: bytes of Avro (avro_files.py), or table metadata (table_view.py).

A data file is in the bucket that its name says, and its deletion vector in the bucket of the same number. A bucket is
at most one manifest of data files and one of vectors, whose names say which bucket they are of how many. So a snapshot
reads and rewrites the buckets of the files that it changes, and no others, and nothing has to be searched. The number
of buckets doubles with the files, so that each has some dozens.
"""

import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark_jobs.errors import LakeError
from spark_jobs.iceberg.avro_files import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    File,
    ManifestEntry,
    ManifestFile,
    entries_of,
    manifest,
)

_PER_BUCKET = 64
_MOST_BUCKETS = 1024
_NAME = re.compile(r"(?:data|deletes)-(\d+)-of-(\d+)-[0-9a-f-]{36}\.avro")


class NotAsLogged(LakeError):
    """Manifests say another thing of a file than Delta's log; they are rebuilt from all of the log."""


@dataclass(slots=True)
class FileChanges:
    """Changes of a commit, by location of the data file."""

    added: dict[str, File] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    vectors: dict[str, File | None] = field(default_factory=dict)
    """New deletion vectors, and None for files that lose theirs."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a snapshot that its manifests have."""

    snapshot: int
    sequence: int
    first_row: int


@dataclass(frozen=True, slots=True)
class Folder:
    """Folder of manifests: reading and writing files by name, and their locations."""

    load: Callable[[str], bytes]
    write: Callable[[str, bytes], None]
    location: str
    """Location of the folder, without a slash at its end."""


@dataclass
class Manifests:
    """The manifests of one snapshot, and what was read of them."""

    folder: Folder
    listed: list[ManifestFile] = field(default_factory=list)
    """The manifests as the snapshot's list has them."""
    added_rows: int = 0
    """Rows that got ids by this snapshot."""
    _live: dict[str, list[ManifestEntry]] = field(default_factory=dict)
    """Live entries of manifests, by location."""

    def total(self, content: int) -> tuple[int, int]:
        """Data files, or deletion vectors, and their rows."""
        items = [item for item in self.listed if item.content == content]
        return sum(item.live_files for item in items), sum(item.live_rows for item in items)

    def after(self, changes: FileChanges, numbers: Numbers, schema: Mapping[str, Any]) -> "Manifests":
        """The manifests of the next snapshot; changed ones are written. Raises NotAsLogged, OSError, ValueError."""
        # A manifest whose entries all went told that in the snapshot in which they did.
        live_items = [item for item in self.listed if item.live_files]
        now = next((_bucket_of(item)[1] for item in live_items), 1)
        count = _buckets_for(self.total(DATA)[0] + len(changes.added) - len(changes.removed), now)
        entries: dict[tuple[int, int], list[ManifestEntry]] = {bucket: [] for bucket in _touched(changes, count)}
        unchanged = []
        for item in live_items:
            if count == now and (item.content, _bucket_of(item)[0]) not in entries:
                unchanged.append(item)
                continue
            for entry in self._live_entries(item):
                entries.setdefault((item.content, _bucket(entry.file.data_file, count)), []).append(entry)
        new = Manifests(self.folder, unchanged, 0, self._live)
        for (content, number), before in sorted(entries.items()):
            changed = list(_changed_entries(before, content, (number, count), changes, numbers))
            if changed:
                new._write_manifest(content, (number, count), changed, numbers, schema)
        return new

    def _live_entries(self, item: ManifestFile) -> list[ManifestEntry]:
        """A manifest's live entries. Raises OSError, ValueError."""
        if item.path not in self._live:
            entries = entries_of(self.folder.load(item.path.rpartition("/")[2]), item)
            self._live[item.path] = [entry for entry in entries if entry.is_live]
        return self._live[item.path]

    def _write_manifest(
        self,
        content: int,
        bucket: tuple[int, int],
        entries: list[ManifestEntry],
        numbers: Numbers,
        schema: Mapping[str, Any],
    ) -> None:
        kind = "deletes" if content == DELETES else "data"
        name = f"{kind}-{bucket[0]}-of-{bucket[1]}-{uuid.uuid4()}.avro"
        data = manifest(entries, content, schema)
        self.folder.write(name, data)
        files, rows = [0, 0, 0], [0, 0, 0]
        for entry in entries:
            at = (ADDED, EXISTING, DELETED).index(entry.status)
            files[at] += 1
            rows[at] += entry.file.records
        item = ManifestFile(
            path=f"{self.folder.location}/{name}",
            length=len(data),
            content=content,
            sequence=numbers.sequence,
            min_sequence=min((entry.sequence or numbers.sequence for entry in entries if entry.is_live), default=0)
            or numbers.sequence,
            snapshot=numbers.snapshot,
            files=(files[0], files[1], files[2]),
            rows=(rows[0], rows[1], rows[2]),
            first_row_id=None if content == DELETES else numbers.first_row + self.added_rows,
        )
        if content == DATA:  # the rows of the others have their ids
            self.added_rows += rows[0]
        self.listed.append(item)


def _changed_entries(
    entries: Iterable[ManifestEntry], content: int, bucket: tuple[int, int], changes: FileChanges, numbers: Numbers
) -> Iterator[ManifestEntry]:
    """The entries of a bucket, by its number and how many there are, after changes. Raises NotAsLogged."""
    number, count = bucket
    removed_paths: set[str] = changes.removed
    new: Mapping[str, File | None] = changes.added
    if content == DELETES:
        removed_paths, new = removed_paths | changes.vectors.keys(), changes.vectors
    present = set()
    for entry in entries:
        path = entry.file.data_file
        present.add(path)
        if path in removed_paths:
            yield replace(entry, status=DELETED, snapshot=numbers.snapshot)
        else:
            yield replace(entry, status=EXISTING)
    if content == DATA:
        missing = [path for path in removed_paths if path not in present and _bucket(path, count) == number]
        if missing:
            raise NotAsLogged(f"{missing[0]}: was removed, and no manifest has it")
    for path, file in new.items():
        if file is None or _bucket(path, count) != number or path in present - removed_paths:
            continue  # a file that is named again has other statistics, and is the same
        yield ManifestEntry(ADDED, numbers.snapshot, None, None, file)


def _touched(changes: FileChanges, count: int) -> set[tuple[int, int]]:
    """The buckets that changes are in."""
    data = {(DATA, _bucket(path, count)) for path in (*changes.added, *changes.removed)}
    return data | {(DELETES, _bucket(path, count)) for path in changes.vectors}


def _bucket(path: str, count: int) -> int:
    """The bucket of a data file."""
    return zlib.crc32(path.rpartition("/")[2].encode()) % count


def _buckets_for(files: int, now: int) -> int:
    """Number of buckets of so many files: another number only where they are far too many, or too few, for it."""
    if now * _PER_BUCKET // 4 <= files <= now * _PER_BUCKET * 2 or (now == 1 and files <= _PER_BUCKET * 2):
        return now
    count = 1
    while count < _MOST_BUCKETS and count * _PER_BUCKET < files:
        count *= 2
    return count


def _bucket_of(item: ManifestFile) -> tuple[int, int]:
    """Bucket of a manifest, and the number of buckets. Raises NotAsLogged."""
    match = _NAME.fullmatch(item.path.rpartition("/")[2])
    if match is None:
        raise NotAsLogged(f"{item.path}: is not named as manifests are that are written here")
    return int(match[1]), int(match[2])
