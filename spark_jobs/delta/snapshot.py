"""A version of a Delta table: protocol, metadata, data files, transactions.

Put here: what the log says of a version. Not here: what it may not say for this package to write (features.py).

A version is the newest checkpoint up to it, and the commits after that. An ``add`` names a file with its deletion
vector, and stands until a ``remove`` of the same file with the same vector.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, takewhile
from typing import Any
from urllib.parse import unquote

from spark_jobs.delta import statistics
from spark_jobs.delta.actions import checkpoint_actions, commit_actions
from spark_jobs.delta.damage import decoding, decoding_commit
from spark_jobs.delta.deletion_vectors import Descriptor
from spark_jobs.delta.kept import KeptLog, commit_content, kept_log
from spark_jobs.delta.log_files import (
    LogListing,
    UnsupportedTable,
    directory,
    has_checkpoint,
    read_commit,
    read_log,
)
from spark_jobs.delta.schema import StructType, TableSchema, from_spark_types
from spark_jobs.delta.statistics import Bounds
from spark_jobs.errors import LakeError, about
from spark_jobs.storage.files import StoredPath

COLUMN_MAPPING = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
DELETION_VECTORS = "delta.enableDeletionVectors"
TYPE_WIDENING = "delta.enableTypeWidening"
CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
CHECKPOINT_INTERVAL = "delta.checkpointInterval"

READER_FEATURES = {"columnMapping", "deletionVectors", "timestampNtz", "typeWidening"}
"""Features that readers have to know too; those of this package."""
_TABLE_ACTIONS = ("txn", "metaData", "protocol", "sidecar", "domainMetadata")
"""Actions of a checkpoint that say what a table is; all others are files."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """Requirements on a reader and a writer of a table."""

    min_reader_version: int = 1
    min_writer_version: int = 2
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None

    @classmethod
    def from_json(cls, action: Mapping[str, Any]) -> "Protocol":
        reader, writer = action.get("readerFeatures"), action.get("writerFeatures")
        return cls(
            action["minReaderVersion"],
            action["minWriterVersion"],
            None if reader is None else frozenset(reader),
            None if writer is None else frozenset(writer),
        )

    def to_json(self) -> dict[str, Any]:
        action: dict[str, Any] = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
        }
        if self.reader_features is not None:
            action["readerFeatures"] = sorted(self.reader_features)
        if self.writer_features is not None:
            action["writerFeatures"] = sorted(self.writer_features)
        return action


@dataclass(frozen=True)
class Metadata:
    """The ``metaData`` action of a table."""

    id: str
    schema_string: str
    configuration: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    created_time: int | None = None
    rest: Mapping[str, Any] = field(default_factory=lambda: {"format": {"provider": "parquet", "options": {}}})
    """Other members of the action: name, description, format."""

    @cached_property
    def schema(self) -> TableSchema:
        return TableSchema.from_json(self.schema_string)

    @property
    def column_mapping(self) -> bool:
        return self.configuration.get(COLUMN_MAPPING, "none") != "none"

    def with_schema(self, schema: TableSchema, configuration: Mapping[str, str] | None = None) -> "Metadata":
        """The metadata with another schema, and another configuration if given."""
        configuration = self.configuration if configuration is None else configuration
        return replace(self, schema_string=schema.to_json(), configuration=configuration)

    @classmethod
    def from_json(cls, action: Mapping[str, Any]) -> "Metadata":
        names = {"id", "schemaString", "configuration", "partitionColumns", "createdTime"}
        return cls(
            action["id"],
            action["schemaString"],
            dict(action.get("configuration") or {}),
            tuple(action.get("partitionColumns") or ()),
            action.get("createdTime"),
            {key: value for key, value in action.items() if key not in names},
        )

    def to_json(self) -> dict[str, Any]:
        """The metaData action of a commit, as Delta's PROTOCOL.md names its fields."""
        action = (
            {"id": self.id}
            | dict(self.rest)
            | {
                "schemaString": self.schema_string,
                "partitionColumns": list(self.partition_columns),
                "configuration": dict(self.configuration),
            }
        )
        return action if self.created_time is None else action | {"createdTime": self.created_time}


@dataclass(frozen=True)
class DataFile:
    """A data file of a version with its deletion vector: an ``add`` action."""

    action: Mapping[str, Any]
    """The ``add`` action as it is in the log."""
    table: str = field(default="", compare=False)
    """The path of its table, where a log was read: for messages."""

    @property
    def path(self) -> str:
        """Path of the file as in the log: relative to the table, URL-encoded."""
        return str(self.action["path"])

    @property
    def size(self) -> int:
        return int(self.action["size"])

    @property
    def partition_values(self) -> dict[str, str | None]:
        return dict(self.action.get("partitionValues") or {})

    @cached_property
    def deletion_vector(self) -> Descriptor | None:
        value = self.action.get("deletionVector")
        return Descriptor.from_json(value) if value else None

    @cached_property
    def stats(self) -> dict[str, Any]:
        """Statistics by physical names; empty where the file has none. Raises LakeError."""
        with decoding(f"{self.table}: the statistics of {self.path} in its log"):
            return statistics.parse(self.action.get("stats"))

    @property
    def num_records(self) -> int | None:
        """Rows in the file, deleted ones among them; None where the log does not say."""
        return self.stats.get("numRecords")

    @property
    def num_rows(self) -> int | None:
        """Rows that are not deleted."""
        count = self.num_records
        vector = self.deletion_vector
        return count if count is None or vector is None else count - vector.cardinality

    @property
    def key(self) -> tuple[str, str | None]:
        """Identity of a file within a version."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    def bounds(self, schema: TableSchema, column: str) -> Bounds:
        """The bounds of a top-level column, by its logical name."""
        return statistics.bounds(self.stats, schema.column(column))

    def may_have_values(self, schema: TableSchema, column: str) -> bool:
        """False if statistics say that a top-level column is NULL in all rows, by its logical name."""
        nulls = self.stats.get("nullCount", {}).get(schema.column(column).physical_name)
        return nulls is None or bool(nulls != self.num_records)

    def field_bounds(self, schema: TableSchema, column: str, field: str) -> Bounds:
        """The bounds of a field of a top-level column that is a structure, by their logical names."""
        outer = schema.column(column)
        assert isinstance(outer.type, StructType)
        inner = next(part for part in outer.type.fields if part.name == field)
        kinds = ("minValues", "maxValues", "nullCount")
        return statistics.bounds({kind: self.stats.get(kind, {}).get(outer.physical_name, {}) for kind in kinds}, inner)

    def location(self, table_path: str) -> StoredPath:
        """The file. Raises UnsupportedTable."""
        name = unquote(self.path)
        if name.startswith("/") or ":" in name.split("/", 1)[0]:
            raise UnsupportedTable(f"{table_path}: has a data file outside of its folder, {name}, as clones do")
        return directory(table_path) / name


@dataclass(frozen=True)
class Snapshot:
    """A table at one version."""

    path: str
    version: int
    """-1 for a table that is not there yet."""
    protocol: Protocol
    metadata: Metadata
    list_files: Callable[[], tuple[DataFile, ...]] = field(default=tuple, compare=False)
    """Lists the version's data files when somebody asks: a commit that adds some asks for none of those that are there,
    and so costs the same however many they are."""
    transactions: Mapping[str, int] = field(default_factory=dict)
    """The version of each application's newest transaction (``txn``)."""
    commit_info: Mapping[str, Any] = field(default_factory=dict)
    """The ``commitInfo`` of the version's own commit; empty where its commit file is not there any more."""
    domains: tuple[str, ...] = ()
    """Names of domain metadata that features of Delta keep."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The data files of the version. Raises LakeError if the log cannot be read."""
        return self.list_files()

    def with_files(self, files: Iterable[DataFile]) -> "Snapshot":
        """The version as if it had these data files."""
        listed = tuple(files)
        return replace(self, list_files=lambda: listed)

    @property
    def schema(self) -> TableSchema:
        """The columns of the version. Raises LakeError."""
        with about(self.path):
            return self.metadata.schema

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.metadata.configuration

    @property
    def user_metadata(self) -> str | None:
        return self.commit_info.get("userMetadata")

    @property
    def timestamp(self) -> int | None:
        """Commit time of the version, in milliseconds since 1970, by its writer's clock."""
        return self.commit_info.get("timestamp")

    @property
    def has_deletion_vectors(self) -> bool:
        """True if rows may be deleted by vectors."""
        return self.configuration.get(DELETION_VECTORS, "false").lower() == "true"

    @property
    def has_change_data(self) -> bool:
        """True if commits that change rows say how (``_change_data``)."""
        return self.configuration.get(CHANGE_DATA_FEED, "false").lower() == "true"


def snapshot_of(path: str, version: int | None = None) -> Snapshot | None:
    """The newest or the given version; None where there is no table, or not that version.

    Raises UnsupportedTable where the log is of a kind that is not read, LakeError where it cannot be read.
    """
    with kept_log(path) as log:
        if log is not None:
            if version != log.version or not log.is_same():
                log.look()
            if version is None or version == log.version:
                # Where the whole log is read for it, it can have a commit more by now: that is another version.
                snapshot = _kept_snapshot(log)
                if version is None or (snapshot is not None and snapshot.version == version):
                    return snapshot
    listing = read_log(path, version)
    return None if listing is None or listing.version < 0 else _LogState.of(path, listing).snapshot()


def _kept_snapshot(log: KeptLog) -> Snapshot | None:
    """The newest version of a kept log."""
    state = log.parsed if isinstance(log.parsed, _LogState) and log.parsed.is_continued() else None
    news = log.since(state.version) if state else None
    if state is None or news is None:
        listing = log.listing()
        if listing is None or listing.version < 0:
            return None
        state, news = _LogState.of(log.path, listing), []
    log.parsed = state = state.after(news)
    return state.snapshot()


def apply_to_files(
    path: str, files: dict[tuple[str, str | None], DataFile], actions: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, str | None], DataFile]:
    """A table's files by their identity, after actions, oldest first; only those on files count."""
    for action in actions:
        if "add" in action:
            files[_file_identity(action["add"])] = DataFile(action["add"], path)
        elif "remove" in action:
            files.pop(_file_identity(action["remove"]), None)
    return files


def removed_files(path: str, *, of_all_commits: bool = False) -> list[DataFile]:
    """The files that the log says were removed: ``remove`` actions of its newest checkpoint, and of commits after it.

    of_all_commits: of those before the checkpoint too that are still there. It keeps removed files for
    ``delta.deletedFileRetentionDuration`` alone. Raises UnsupportedTable, LakeError.
    """
    listing = read_log(path)
    if listing is None:
        return []
    earlier = range(listing.checkpoint_version, -1, -1) if of_all_commits else ()
    contents = chain(listing.commits, takewhile(lambda item: item[1], ((at, read_commit(path, at)) for at in earlier)))
    commits = (commit_actions(path, number, content) for number, content in contents if content)
    actions = chain(checkpoint_actions(path, listing, ("remove",)), *commits)
    return [DataFile(action["remove"], path) for action in actions if "remove" in action]


def commit_info_of(path: str, version: int) -> dict[str, Any] | None:
    """The ``commitInfo`` of one version; None where its commit file is not there any more."""
    content = commit_content(path, version)
    if content is None:
        return None
    return next((a["commitInfo"] for a in commit_actions(path, version, content) if "commitInfo" in a), {})


def new_table(path: str, spark_types: Mapping[str, str], properties: Mapping[str, str]) -> Snapshot:
    """A table that is not there yet, at version -1; its first commit makes it. Nothing is written.

    Args:
        path: where it is to be.
        spark_types: Spark's DDL types by column name.
        properties: those of Delta, as in ``TBLPROPERTIES``.

    Raises LakeError for a type or a property that this package does not write.
    """
    metadata, protocol = table_design(spark_types, properties)
    return Snapshot(path, -1, protocol, metadata)


def table_design(spark_types: Mapping[str, str], properties: Mapping[str, str]) -> tuple[Metadata, Protocol]:
    """Metadata and protocol of a table with these columns, as Spark makes them."""
    configuration = dict(properties)
    mode = configuration.get(COLUMN_MAPPING, "none")
    if mode not in ("none", "name"):
        raise LakeError(f"{COLUMN_MAPPING} = {mode} is not supported; use name or none")
    schema = from_spark_types(spark_types, column_mapping=mode == "name")
    if mode == "name":
        configuration[MAX_COLUMN_ID] = str(schema.max_column_id)
    features = required_features(schema, configuration)
    metadata = Metadata(str(uuid.uuid4()), schema.to_json(), configuration, (), int(time.time() * 1000))
    return metadata, with_features(Protocol(), features)


def defined(
    metadata: Metadata, protocol: Protocol, schema: TableSchema, configuration: Mapping[str, str]
) -> tuple[Metadata, Protocol]:
    """A table's metadata with another schema and configuration, and its protocol with the features that they need."""
    features = required_features(schema, configuration)
    return metadata.with_schema(schema, configuration), with_features(protocol, features)


def required_features(schema: TableSchema, configuration: Mapping[str, str]) -> set[str]:
    """The table features that a schema and a configuration need."""
    features = set()
    if configuration.get(COLUMN_MAPPING, "none") != "none":
        features.add("columnMapping")
    if configuration.get(DELETION_VECTORS, "false").lower() == "true":
        features.add("deletionVectors")
    if configuration.get(TYPE_WIDENING, "false").lower() == "true":
        features.add("typeWidening")
    if configuration.get(CHANGE_DATA_FEED, "false").lower() == "true":
        features.add("changeDataFeed")
    if any("timestamp_ntz" in _primitives(column.type) for column in schema.all_columns()):
        features.add("timestampNtz")
    return features


def with_features(protocol: Protocol, features: set[str]) -> Protocol:
    """The protocol with these features, in the oldest form that has them and no others, as Spark writes it."""
    present = protocol.writer_features
    if present is None:
        present = frozenset(_LEGACY[protocol.min_reader_version, protocol.min_writer_version])
        if features <= present:
            return protocol
    writer = present | features
    reader = (protocol.reader_features or frozenset()) | (writer & READER_FEATURES)
    legacy = next((versions for versions, names in _LEGACY.items() if writer == names), None)
    if legacy:
        return Protocol(*legacy)
    if reader <= _LEGACY_READER_FEATURES:
        return Protocol(2 if reader else 1, 7, None, writer)
    return Protocol(3, 7, reader, writer)


_V2 = {"invariants", "appendOnly"}
_V4 = {*_V2, "checkConstraints", "changeDataFeed", "generatedColumns"}
_LEGACY: Mapping[tuple[int, int], set[str]] = {
    (1, 1): set(),
    (1, 2): _V2,
    (1, 3): {*_V2, "checkConstraints"},
    (1, 4): _V4,
    (2, 5): {*_V4, "columnMapping"},
    (2, 6): {*_V4, "columnMapping", "identityColumns"},
}
"""Features that versions of the protocol stand for, reader's and writer's, where features are not listed."""


_LEGACY_READER_FEATURES = {"columnMapping"}
"""Features that readers of version 2 know."""


def legacy_features(protocol: Protocol) -> set[str] | None:
    """The features that a protocol without a list of features stands for; None for one that is not known."""
    return _LEGACY.get((protocol.min_reader_version, protocol.min_writer_version))


def _primitives(kind: Any) -> set[str]:
    """Primitive types in a type, those in structs left out, whose fields are columns of their own."""
    if isinstance(kind, str):
        return {kind}
    parts = (getattr(kind, name, None) for name in ("element", "key", "value"))
    return {name for part in parts if part is not None for name in _primitives(part)}


_FileActions = Sequence[Mapping[str, Any]]
_KEPT_COMMITS, _KEPT_ACTIONS = 20, 1_000
"""Commits, and their actions on files, that wait for somebody who asks for the files."""
_FILE_BYTES = 3_000
"""Approximate bytes of a data file in memory: most of it are its statistics."""


class _FileList:
    """The data files of a version, listed when somebody asks: those of an earlier one, and what commits did since."""

    def __init__(self, path: str, base: "LogListing | _FileList", actions: _FileActions) -> None:
        """base: its checkpoint, or a list that is there; actions: of later commits, oldest first."""
        self._path = path
        self._source: tuple[LogListing | _FileList, _FileActions] | None = base, actions
        self._listed: dict[tuple[str, str | None], DataFile] | None = None

    def __call__(self) -> tuple[DataFile, ...]:
        """The listed data files, in the order of the log. Raises LakeError."""
        return tuple(self.by_identity().values())

    def after(self, actions: _FileActions) -> "_FileList":
        """The files after some more commits."""
        source = self._source
        if source is None or (isinstance(source[0], _FileList) and len(source[1]) > _KEPT_ACTIONS):
            self.by_identity()
            return _FileList(self._path, self, actions)
        base, before = source
        return _FileList(self._path, base, [*before, *actions])

    @property
    def is_read(self) -> bool:
        """False where a checkpoint is still to be read."""
        return self._source is None or isinstance(self._source[0], _FileList)

    @property
    def weight(self) -> int:
        """Bytes in memory, roughly."""
        return _FILE_BYTES * (len(self._listed) if self._listed is not None else len((self._source or ((), ()))[1]))

    def by_identity(self) -> dict[tuple[str, str | None], DataFile]:
        """The data files by path and deletion vector, listed at the first call. Raises LakeError."""
        # Another thread may list them meanwhile: the source goes after the list is there.
        source = self._source
        if self._listed is not None or source is None:
            assert self._listed is not None
            return self._listed
        base, actions = source
        with decoding(f"{self._path}: data files in its log"):
            if isinstance(base, _FileList):
                listed = apply_to_files(self._path, {**base.by_identity()}, actions)
            else:
                listed = apply_to_files(self._path, {}, chain(checkpoint_actions(self._path, base, ("add",)), actions))
        self._listed, self._source = listed, None
        return listed


class _LogState:
    """State of a log up to a version."""

    def __init__(self, path: str, listing: LogListing) -> None:
        """listing: its checkpoint counts."""
        self.path = path
        self.version = listing.checkpoint_version
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.transactions: dict[str, int] = {}
        self.domains: dict[str, bool] = {}
        self.commit_info: dict[str, Any] = {}
        self.files = _FileList(path, replace(listing, commits=()), [])
        self._listing = listing

    @classmethod
    def of(cls, path: str, listing: LogListing) -> "_LogState":
        """The state of a table after all that a listing of its log names. Raises LakeError."""
        state = cls(path, listing)
        for action in checkpoint_actions(path, listing, _TABLE_ACTIONS):
            state.apply(action, [])
        if listing.commits:
            return state.after(listing.commits)
        state.commit_info = commit_info_of(path, listing.version) or {}
        return state

    def after(self, commits: Iterable[tuple[int, bytes]]) -> "_LogState":
        """The state after some more commits, version and content of each. Raises LakeError."""
        state, file_actions = copy(self), list[Mapping[str, Any]]()
        state.transactions, state.domains = {**self.transactions}, {**self.domains}
        for number, content in commits:
            state.version, state.commit_info = number, {}
            for action in commit_actions(self.path, number, content):
                with decoding_commit(self.path, number):
                    state.apply(action, file_actions)
        state.files = self.files.after(file_actions) if file_actions else self.files
        return state

    def is_continued(self) -> bool:
        """False where the log is rather read again: a checkpoint that is not read yet is old, or gone."""
        if self.files.is_read:
            return True
        return self.version - self._listing.version <= _KEPT_COMMITS and has_checkpoint(self.path, self._listing)

    @property
    def weight(self) -> int:
        """Bytes in memory, roughly."""
        return self.files.weight

    def apply(self, action: Mapping[str, Any], file_actions: list[Mapping[str, Any]]) -> None:
        """Apply an action. Commits come in order: the last one about a file, an id or a domain holds."""
        for kind, value in action.items():
            match kind:
                case "add" | "remove":
                    file_actions.append({kind: value})
                case "metaData":
                    self.metadata = Metadata.from_json(value)
                case "protocol":
                    self.protocol = Protocol.from_json(value)
                case "txn":
                    self.transactions[value["appId"]] = int(value["version"])
                case "commitInfo":
                    self.commit_info = value
                case "domainMetadata":
                    self.domains[value["domain"]] = not value.get("removed", False)

    def snapshot(self) -> Snapshot:
        """The version. Raises LakeError."""
        if self.protocol is None or self.metadata is None:
            raise LakeError(f"{self.path}: its log has no protocol or no metadata; restore the table's _delta_log")
        domains = tuple(sorted(name for name, present in self.domains.items() if present))
        table = self.protocol, self.metadata
        return Snapshot(self.path, self.version, *table, self.files, self.transactions, self.commit_info, domains)


def _file_identity(action: Mapping[str, Any]) -> tuple[str, str | None]:
    vector = action.get("deletionVector")
    return action["path"], Descriptor.from_json(vector).unique_id if vector else None
