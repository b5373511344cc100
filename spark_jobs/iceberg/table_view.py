"""Iceberg table on a Delta table: each of its versions is a snapshot of the same data files.

Put here: what a commit of Delta's log is to Iceberg, and the table metadata. Not here: which tables are shown
(pipeline/iceberg_tables.py), or what a file of metadata is called (metadata_files.py).

A snapshot's id is FIRST_ID and the number of its version. Everything comes from Delta's log: what is written is a copy,
made after the commit, and whoever finds it behind brings it up to date, one snapshot a commit. Where the log does not
lead from the newest snapshot to the newest version, the table is rebuilt, as one snapshot: at first, where commits
were removed meanwhile, after a table or a lake was restored, or moved.
"""

import hashlib
import json
import logging
import re
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from spark_jobs.delta import deletion_vectors
from spark_jobs.delta.actions import commit_actions
from spark_jobs.delta.deletion_vectors import Descriptor
from spark_jobs.delta.log_files import read_commit
from spark_jobs.delta.snapshot import MAX_COLUMN_ID, DataFile, Metadata, Snapshot, snapshot_of
from spark_jobs.errors import LakeError, LostRace
from spark_jobs.iceberg import metadata_files
from spark_jobs.iceberg.avro_files import DATA, DELETES, File, manifest_list, manifests_of
from spark_jobs.iceberg.bounds import metrics
from spark_jobs.iceberg.manifests import FileChanges, Folder, Manifests, NotAsLogged, Numbers
from spark_jobs.iceberg.metadata_files import MetadataFile
from spark_jobs.iceberg.puffin import puffin
from spark_jobs.iceberg.schema import NAME_MAPPING, Leaf, leaves, name_mapping, schema_of, why_not
from spark_jobs.storage import files
from spark_jobs.storage.files import reason

log = logging.getLogger(__name__)

_TRIES = 10
FIRST_ID = 1_000_000_000
"""The id of version 0's snapshot; readers take an id of 0 for none."""
_LOGGED_FILES = 100
"""Earlier files of metadata that are named."""
VERSION = "delta-version"
_COMMIT = "delta-commit"
"""Member of a snapshot's summary: the version, and what tells its commit from another of the same number."""
_EXACT_BOUNDS = "stratalog.exact-bounds"
"""Property of tables whose bounds of long decimals have all digits; without it they may have 28."""
_LONG_DECIMAL = re.compile(r'"decimal\((29|3[0-8]),')


class NotShown(LakeError):
    """A table that Iceberg cannot show as it is now."""


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table after it was brought up to date."""

    version: int
    """Delta's version, which is the current snapshot."""
    number: int
    """Number of the metadata file."""
    snapshots: int = 0
    """New ones."""


@dataclass
class _Commit:
    """A commit of Delta's log."""

    version: int
    identity: str
    timestamp: int | None = None
    metadata: Metadata | None = None
    added: dict[str, DataFile] = field(default_factory=dict)
    removed: dict[str, DataFile] = field(default_factory=dict)
    is_rearranged: bool = True
    """True if no file that it names changes rows."""


def show(path: str, *, is_anew: bool = False) -> ShownTable:
    """Update a table's metadata to its newest version; nothing is written if it is current.

    is_anew: whether its newest version is to be the only snapshot, in any case. The table stays the same one for its
    readers: its uuid stays, and numbers of files, of snapshots' order and of rows go on.

    Raises NotShown, LostRace, LakeError.
    """
    for _ in range(_TRIES):
        try:
            table = _try_to_show(path, is_anew=is_anew)
        except OSError as error:
            raise LakeError(f"{path}: its Iceberg metadata cannot be written: {reason(error)}") from error
        if table is not None:
            return table
    raise LostRace(f"{path}: other writers of its Iceberg metadata keep coming first; the next run tries again")


def shown_version(path: str) -> tuple[int, ...]:
    """The version of a table that its metadata shows, as the only item; none without metadata. Raises LakeError."""
    present = metadata_files.newest(path)
    return (_View(path, present).version,) if present else ()


def _try_to_show(path: str, *, is_anew: bool) -> ShownTable | None:
    """None where another writer was first."""
    # Commits are followed one by one, where the log leads on from what is shown.
    present = metadata_files.newest(path)
    view = _View(path, present)
    commits = view.commits_since() if present else None
    if is_anew:
        view.rebuild()
        view.drop_earlier_files()
    elif commits is None or view.is_elsewhere or view.has_rounded_bounds:
        view.rebuild()
    elif commits:
        try:
            for commit in commits:
                view.follow(commit)
        except (NotAsLogged, NotShown, ValueError, FileNotFoundError) as error:
            log.info("%s: its Iceberg metadata is rebuilt: %s", path, error)
            view = _View(path, present)
            view.rebuild()
    # A file that the hint does not name yet may be of a writer that was killed.
    if not view.new_snapshots:
        assert present is not None
        metadata_files.point_to(path, present.number)
        return ShownTable(view.version, present.number)
    return view.commit()


class _View:
    """Table metadata that grows by snapshots until it is committed."""

    def __init__(self, path: str, present: MetadataFile | None) -> None:
        self.path = path
        self.location = metadata_files.location(path)
        self.present = present
        self.document: dict[str, Any] = dict(present.document) if present else {}
        self.new_snapshots: list[dict[str, Any]] = []
        self._unwritten: dict[str, bytes] = {}
        self._folder = Folder(self._read_file, self._write_file, f"{self.location}/{metadata_files.FOLDER}")
        self._manifests: Manifests | None = None
        self._leaves: list[Leaf] | None = None
        self._names_earlier_files = True

    @property
    def version(self) -> int:
        """The version that is shown."""
        return int(self.document["current-snapshot-id"]) - FIRST_ID

    @property
    def is_elsewhere(self) -> bool:
        """True if the metadata is of a table at another place: paths in it are whole ones."""
        return bool(self.document["location"] != self.location)

    @property
    def has_rounded_bounds(self) -> bool:
        """True if bounds of a long decimal may be rounded, so that readers leave out files that have the row."""
        is_exact = _EXACT_BOUNDS in self.document["properties"]
        return not is_exact and bool(_LONG_DECIMAL.search(json.dumps(self.document["schemas"])))

    @property
    def current(self) -> dict[str, Any] | None:
        """The current snapshot; None where there is none."""
        snapshots: list[dict[str, Any]] = [*self.document.get("snapshots", ()), *self.new_snapshots]
        return snapshots[-1] if snapshots else None

    def commits_since(self) -> list[_Commit] | None:
        """The commits of Delta's log after the version that is shown; None where the log does not lead on from it."""
        current = self.current
        assert current is not None
        content = read_commit(self.path, self.version)
        if content is None or _content_identity(content) != current["summary"].get(_COMMIT):
            return None
        commits: list[_Commit] = []
        while (content := read_commit(self.path, self.version + len(commits) + 1)) is not None:
            commits.append(_commit_of(self.path, self.version + len(commits) + 1, content))
        return commits

    def rebuild(self) -> None:
        """The newest version as the only snapshot. Raises NotShown, LakeError."""
        snapshot = snapshot_of(self.path)
        if snapshot is None:
            raise LakeError(f"{self.path}: there is no table to be shown as Iceberg")
        self._require_shown(snapshot.metadata)
        # What numbers rows and snapshots continues; all else starts over.
        commit = _Commit(snapshot.version, "", snapshot.timestamp)
        content = read_commit(self.path, snapshot.version)
        commit.identity = _content_identity(content) if content else ""
        commit.added = {file.path: file for file in snapshot.files}
        commit.is_rearranged = False
        earlier = self.document
        self.document = {
            "format-version": 3,
            "table-uuid": earlier.get("table-uuid", str(uuid.uuid4())),
            "location": self.location,
            "last-sequence-number": earlier.get("last-sequence-number", 0),
            "last-updated-ms": earlier.get("last-updated-ms", 0),
            "last-column-id": 0,
            "current-schema-id": -1,
            "schemas": [],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {_EXACT_BOUNDS: "true"},
            "next-row-id": earlier.get("next-row-id", 0),
            "snapshots": [],
            "snapshot-log": [],
            "metadata-log": earlier.get("metadata-log", []),
        }
        # All files of the version are added by one snapshot.
        self._manifests = Manifests(self._folder)
        self._set_columns(snapshot)
        self._add_snapshot(commit)

    def drop_earlier_files(self) -> None:
        """Earlier files of metadata are not named: they are about to go."""
        self.document["metadata-log"] = []
        self._names_earlier_files = False

    def follow(self, commit: _Commit) -> None:
        """The next version as a snapshot. Raises NotShown, NotAsLogged, LakeError, OSError, ValueError."""
        if commit.metadata is not None:
            self._require_shown(commit.metadata)
            self._set_columns(commit)
        self._add_snapshot(commit)

    def commit(self) -> ShownTable | None:
        """The metadata as its next file; None where another writer has created that. Raises OSError."""
        number = self.present.number + 1 if self.present else 1
        document = self.document | {
            "snapshots": [*self.document["snapshots"], *self.new_snapshots],
            "refs": {"main": {"snapshot-id": self.document["current-snapshot-id"], "type": "branch"}},
        }
        if self.present and self._names_earlier_files:
            earlier = metadata_files.log_entry(self.path, self.present)
            document["metadata-log"] = [*document["metadata-log"], earlier][-_LOGGED_FILES:]
        # All that the file names is there before it.
        files.write_all(metadata_files.folder(self.path), self._unwritten)
        if not metadata_files.create(self.path, number, document):
            return None
        metadata_files.point_to(self.path, number)
        return ShownTable(self.version, number, len(self.new_snapshots))

    def _require_shown(self, metadata: Metadata) -> None:
        problem = why_not(metadata)
        if problem:
            raise NotShown(f"{self.path}: cannot be shown as Iceberg: {problem}")

    def _set_columns(self, source: Snapshot | _Commit) -> None:
        """The schema of a version, which is a new one where no earlier schema is the same."""
        assert source.metadata is not None
        schema = source.metadata.schema
        struct = schema_of(schema)
        numbers = [item["schema-id"] for item in self.document["schemas"] if item["fields"] == struct["fields"]]
        if not numbers:
            numbers = [max((item["schema-id"] for item in self.document["schemas"]), default=-1) + 1]
            self.document["schemas"] = [*self.document["schemas"], {**struct, "schema-id": numbers[0]}]
        mapping = json.dumps(name_mapping(schema), separators=(",", ":"), ensure_ascii=False)
        self.document |= {
            "current-schema-id": numbers[0],
            # Delta's number counts dropped columns too, whose ids files still have.
            "last-column-id": max(
                self.document["last-column-id"],
                schema.max_column_id,
                int(source.metadata.configuration.get(MAX_COLUMN_ID, "0")),
            ),
            "properties": {**self.document["properties"], NAME_MAPPING: mapping},
        }
        self._leaves = None

    @property
    def _schema(self) -> dict[str, Any]:
        number = self.document["current-schema-id"]
        return next(item for item in self.document["schemas"] if item["schema-id"] == number)

    def _columns(self) -> list[Leaf]:
        if self._leaves is None:
            mapping = json.loads(self.document["properties"][NAME_MAPPING])
            self._leaves = list(leaves(self._schema["fields"], mapping))
        return self._leaves

    def _read_manifests(self) -> Manifests:
        if self._manifests is None:
            assert self.current is not None
            name = self.current["manifest-list"].rpartition("/")[2]
            self._manifests = Manifests(self._folder, manifests_of(self._folder.load(name)))
        return self._manifests

    def _add_snapshot(self, commit: _Commit) -> None:
        """A snapshot of a commit: its vectors, its manifests, their list."""
        before, parent = self._read_manifests(), self.current
        sequence, first_row = self.document["last-sequence-number"] + 1, self.document["next-row-id"]
        numbers = Numbers(FIRST_ID + commit.version, sequence, first_row)
        # Vectors and manifests are written before the list that names them, and that before the snapshot.
        changes = self._changes(commit)
        after = before.after(changes, numbers, self._schema)
        (data_files, rows), (vectors, deleted) = after.total(DATA), after.total(DELETES)
        # Readers of Iceberg refuse times that decrease from snapshot to snapshot.
        timestamp = max(commit.timestamp or _now(), parent["timestamp-ms"] if parent else 0)
        # Its totals are those of the table after the commit.
        name = f"snap-{commit.version}-{uuid.uuid4()}.avro"
        snapshot: dict[str, Any] = {
            "snapshot-id": numbers.snapshot,
            "sequence-number": numbers.sequence,
            "timestamp-ms": timestamp,
            "manifest-list": f"{self._folder.location}/{name}",
            "schema-id": self.document["current-schema-id"],
            "first-row-id": numbers.first_row,
            "added-rows": after.added_rows,
            "summary": {
                "operation": _operation(commit, changes),
                VERSION: str(commit.version),
                _COMMIT: commit.identity,
                "total-data-files": str(data_files),
                "total-delete-files": str(vectors),
                "total-records": str(rows),
                "total-position-deletes": str(deleted),
            },
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent["snapshot-id"]
        # The document names the snapshot only once its files are written.
        self._write_file(name, manifest_list(after.listed, snapshot))
        self._manifests = after
        self.new_snapshots.append(snapshot)
        self.document |= {
            "current-snapshot-id": numbers.snapshot,
            "last-sequence-number": numbers.sequence,
            "last-updated-ms": max(timestamp, self.document["last-updated-ms"]),
            "next-row-id": numbers.first_row + after.added_rows,
            "snapshot-log": [
                *self.document["snapshot-log"],
                {"timestamp-ms": timestamp, "snapshot-id": numbers.snapshot},
            ],
        }

    def _changes(self, commit: _Commit) -> FileChanges:
        """Changes of a commit; its new deletion vectors are written. Raises LakeError, OSError."""
        changes = FileChanges()
        vectors: dict[str, Descriptor] = {}
        # A file that is removed and added again only gets another deletion vector.
        for path, file in commit.removed.items():
            if path not in commit.added:
                changes.removed.add(self._full_path(path))
            if file.deletion_vector:
                changes.vectors[self._full_path(path)] = None
        for path, file in commit.added.items():
            if path not in commit.removed:
                changes.added[self._full_path(path)] = self._data_file(file)
            if file.deletion_vector:
                vectors[self._full_path(path)] = file.deletion_vector
        if not vectors:
            return changes
        # The bytes of all vectors go into one file, and each entry says where its own are.
        bitmaps = deletion_vectors.stored_vectors(self.path, [*vectors.values()])
        name = f"deletion-vectors-{uuid.uuid4()}.puffin"
        counts = [vector.cardinality for vector in vectors.values()]
        content, blobs = puffin(list(zip(vectors, bitmaps, counts, strict=True)))
        self._write_file(name, content)
        full_path = f"{self._folder.location}/{name}"
        for data_file, blob, count in zip(vectors, blobs, counts, strict=True):
            changes.vectors[data_file] = File(
                DELETES,
                full_path,
                "PUFFIN",
                count,
                len(content),
                referenced=data_file,
                offset=blob.offset,
                length=blob.length,
            )
        return changes

    def _full_path(self, path: str) -> str:
        return f"{self.location}/{unquote(path)}"

    def _data_file(self, file: DataFile) -> File:
        if file.num_records is None:
            raise NotShown(
                f"{self.path}: cannot be shown as Iceberg: the log does not say how many rows {file.path} has"
            )
        encoded_metrics = metrics(file.stats, self._columns()).encoded()
        return File(DATA, self._full_path(file.path), "PARQUET", file.num_records, file.size, encoded_metrics)

    def _read_file(self, name: str) -> bytes:
        """A file, which may be one that is not written yet. Raises OSError."""
        unwritten = self._unwritten.get(name)
        return (metadata_files.folder(self.path) / name).read_bytes() if unwritten is None else unwritten

    def _write_file(self, name: str, content: bytes) -> None:
        """A new file, which is written with all others before metadata names it."""
        self._unwritten[name] = content


def _commit_of(path: str, version: int, content: bytes) -> _Commit:
    commit = _Commit(version, _content_identity(content))
    for action in commit_actions(path, version, content):
        for kind, value in action.items():
            match kind:
                case "commitInfo":
                    commit.timestamp = value.get("timestamp")
                case "metaData":
                    commit.metadata = Metadata.from_json(value)
                case "add" | "remove":
                    into = commit.added if kind == "add" else commit.removed
                    into[value["path"]] = DataFile(value, path)
                    commit.is_rearranged &= not value.get("dataChange", True)
    return commit


def _content_identity(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _now() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def _operation(commit: _Commit, changes: FileChanges) -> str:
    """Operation of a snapshot; readers of changes go by it."""
    if commit.is_rearranged:
        return "replace"
    if not changes.removed and not changes.vectors:
        return "append"
    return "overwrite" if changes.added or _has_restored_rows(commit) else "delete"


def _has_restored_rows(commit: _Commit) -> bool:
    """True if a file stays whose vector deletes no more rows than before: some of its rows are there again."""
    return any(
        _deleted_rows(commit.added[path]) <= _deleted_rows(file)
        for path, file in commit.removed.items()
        if path in commit.added
    )


def _deleted_rows(file: DataFile) -> int:
    return file.deletion_vector.cardinality if file.deletion_vector else 0
