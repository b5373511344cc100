"""Table features that this package supports; it writes no table with others.

Put here: the list of what is supported. Not here: the writing.

Everything that a protocol or a configuration may ask of a writer is refused unless it is listed here. A feature that is
only in the protocol, as Spark lists some that no column and no property uses, is fine where it asks nothing then.
"""

from collections.abc import Callable, Iterator

from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import CHANGE_DATA_FEED, COLUMN_MAPPING, Snapshot, legacy_features
from spark_jobs.errors import LakeError

READERS = {1, 2, 3}
WRITERS = {1, 2, 3, 4, 5, 6, 7}
FEATURES = {
    "appendOnly": "asks something where delta.appendOnly is true",
    "invariants": "asks something where a column has an invariant or is NOT NULL",
    "checkConstraints": "asks something where there is a constraint",
    "changeDataFeed": "files of changes are written (change_data.py)",
    "generatedColumns": "asks something where a column is generated",
    "identityColumns": "asks something where a column is an identity",
    "allowColumnDefaults": "asks something where a column has a default",
    "inCommitTimestamp": "asks something where delta.enableInCommitTimestamps is true",
    "domainMetadata": "asks something where there is metadata of a domain",
    "columnMapping": "physical names and field ids are written",
    "deletionVectors": "vectors are read and written",
    "timestampNtz": "the type is written",
    "typeWidening": "older types are read",
    "vacuumProtocolCheck": "asks something of VACUUM alone",
}
"""The features of tables that are written, and why that is right."""
PROPERTIES = {
    "delta.checkpoint.writeStatsAsStruct",
    "delta.checkpointInterval",
    "delta.checkpointRetentionDuration",
    "delta.columnMapping.maxColumnId",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.deletedFileRetentionDuration",
    "delta.enableDeletionVectors",
    "delta.enableExpiredLogCleanup",
    "delta.enableFullRetentionRollback",
    "delta.enableTypeWidening",
    "delta.isolationLevel",
    "delta.logRetentionDuration",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.randomizeFilePrefixes",
    "delta.randomPrefixLength",
    "delta.sampleRetentionDuration",
    "delta.setTransactionRetentionDuration",
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
}
"""Properties that are kept to, or that ask nothing of a writer, whatever their value."""
_PREFIXES = ("delta.autoOptimize.", "delta.feature.")
_VALUES = {
    COLUMN_MAPPING: {"none", "name"},
    "delta.appendOnly": {"false"},
    "delta.checkpoint.writeStatsAsJson": {"true"},
    "delta.checkpointPolicy": {"classic"},
    "delta.compatibility.symlinkFormatManifest.enabled": {"false"},
    CHANGE_DATA_FEED: {"false", "true"},
    "delta.enableInCommitTimestamps": {"false"},
    "delta.enableRowTracking": {"false"},
}
"""Properties and their values that are fine."""
_COLUMN_METADATA = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generation expression",
    "CURRENT_DEFAULT": "a default",
    "__CHAR_VARCHAR_TYPE_STRING": "a CHAR's or VARCHAR's length, which writers check",
}
_IDENTITY = "delta.identity."


def require_written(snapshot: Snapshot, *, appends: bool = False) -> None:
    """Check that a table has nothing that this package does not write; ``appends`` as in ``why_not``.

    Raises LakeError.
    """
    reason = why_not(snapshot, appends=appends)
    if reason:
        raise LakeError(
            f"{reason}: Stratalog does not write such a table; take back what another tool changed (ALTER TABLE … "
            "UNSET TBLPROPERTIES, DROP FEATURE or DROP CONSTRAINT)"
        )


def why_not(snapshot: Snapshot, *, appends: bool = False) -> str | None:
    """Reason why a table is not written, in words for a message; None where this package writes it.

    appends: whether files are added and nothing else. Those that are there already may be anything, and are not listed.
    """
    for check in _CHECKS if appends else (*_CHECKS, _unreadable_files):
        reason = next(check(snapshot), None)
        if reason:
            return f"{snapshot.path}: {reason}"
    return None


def _protocol(snapshot: Snapshot) -> Iterator[str]:
    protocol = snapshot.protocol
    versions = f"reader version {protocol.min_reader_version} and writer version {protocol.min_writer_version}"
    if protocol.min_reader_version not in READERS or protocol.min_writer_version not in WRITERS:
        yield f"its protocol has {versions}, which are not known"
    features = protocol.writer_features
    if protocol.min_writer_version < 7:
        legacy = legacy_features(protocol)
        if legacy is None:
            yield f"its protocol has {versions}, which are not known"
            return
        features = frozenset(legacy)
    for name in sorted((features or frozenset()) | (protocol.reader_features or frozenset())):
        if name not in FEATURES:
            yield f"its protocol has the table feature {name}"


def _configuration(snapshot: Snapshot) -> Iterator[str]:
    for key, value in sorted(snapshot.configuration.items()):
        if not key.startswith("delta.") or key in PROPERTIES or key.startswith(_PREFIXES):
            continue
        if key.startswith("delta.constraints."):
            yield f"it has the constraint {key.removeprefix('delta.constraints.')}"
        elif value.lower() not in _VALUES.get(key, ()):
            yield f"its property {key} is {value}"


def _partitions(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.metadata.partition_columns:
        yield f"it is partitioned by {', '.join(snapshot.metadata.partition_columns)}"


def _domains(snapshot: Snapshot) -> Iterator[str]:
    for name in snapshot.domains:
        yield f"it has metadata of the domain {name}"


def _columns(snapshot: Snapshot) -> Iterator[str]:
    schema = snapshot.schema
    yield from _unreadable(schema)
    for column in schema.all_columns():
        if not column.nullable:
            yield f"its column {column.name} is NOT NULL"
        for key in column.metadata:
            if key.startswith(_IDENTITY):
                yield f"its column {column.name} is an identity"
            elif key in _COLUMN_METADATA:
                yield f"its column {column.name} has {_COLUMN_METADATA[key]}"


def _unreadable(schema: TableSchema) -> Iterator[str]:
    for column in schema.columns:
        try:
            column.arrow(physical=True)
        except LakeError:
            yield f"its column {column.name} is of type {column.ddl}"


def _unreadable_files(snapshot: Snapshot) -> Iterator[str]:
    for file in snapshot.files:
        if "numRecords" not in (file.action.get("stats") or ""):
            yield f"its file {file.path} has no statistics"
        try:
            file.location(snapshot.path)
        except LakeError as error:
            yield str(error).removeprefix(f"{snapshot.path}: ")


_CHECKS: tuple[Callable[[Snapshot], Iterator[str]], ...] = (
    _protocol,
    _configuration,
    _partitions,
    _domains,
    _columns,
)
