from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.delta.features import require_written, why_not
from spark_jobs.delta.schema import DeltaColumn, TableSchema
from spark_jobs.delta.snapshot import DataFile, Metadata, Protocol, Snapshot
from spark_jobs.errors import LakeError
from tests.spark_jobs.delta.tables import BRONZE, MAPPED, append, begin

UNKNOWN = [
    "rowTracking",
    "clustering",
    "icebergCompatV2",
    "v2Checkpoint",
    "variantType",
    "typeWidening-preview",
    "catalogManaged",
    "checkpointProtection",
]


def table(**changes: Any) -> Snapshot:
    metadata = Metadata("id", TableSchema((DeltaColumn("a", "integer"),)).to_json())
    return replace(Snapshot("/t", 3, Protocol(1, 2), metadata), **changes)


def features(*names: str) -> Snapshot:
    return table(protocol=Protocol(3, 7, frozenset(), frozenset({"appendOnly", "invariants", *names})))


def configured(**properties: str) -> Snapshot:
    return table(metadata=replace(table().metadata, configuration=properties))


def column(**metadata: Any) -> Snapshot:
    return columns(DeltaColumn("a", "integer"), DeltaColumn("b", "string", True, metadata))


def columns(*listed: DeltaColumn) -> Snapshot:
    return table(metadata=table().metadata.with_schema(TableSchema(listed)))


def files(**action: Any) -> Snapshot:
    log_action = {"path": "a.parquet", "size": 1, "modificationTime": 1, "stats": '{"numRecords":1}'}
    return table().with_files([DataFile(log_action), DataFile(log_action | action)])


@pytest.mark.parametrize("properties", [{}, BRONZE, MAPPED, MAPPED | {"delta.enableTypeWidening": "true", "mine": "x"}])
def test_tables_of_the_project_are_written(tmp_path: Path, properties: dict[str, str]) -> None:
    snapshot = begin(str(tmp_path / "t"), properties)
    assert why_not(snapshot) is None
    assert why_not(append(snapshot, range(3))) is None


@pytest.mark.parametrize(
    "snapshot",
    [
        table(protocol=Protocol(1, 1)),
        table(protocol=Protocol(2, 6)),
        features("changeDataFeed", "checkConstraints", "generatedColumns", "identityColumns", "allowColumnDefaults"),
        features("vacuumProtocolCheck", "domainMetadata", "inCommitTimestamp"),
        configured(**{"delta.appendOnly": "false", "delta.autoOptimize.optimizeWrite": "true", "other": "x"}),
        configured(**{"delta.feature.timestampNtz": "supported", "delta.checkpointPolicy": "classic"}),
        column(comment="a comment", **{"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}),
        configured(**{"delta.enableChangeDataFeed": "true"}),
        files(),
    ],
)
def test_what_asks_nothing_is_fine(snapshot: Snapshot) -> None:
    assert why_not(snapshot) is None


@pytest.mark.parametrize(
    "snapshot, reason",
    [
        (table(protocol=Protocol(4, 7)), "reader version 4 and writer version 7"),
        (table(protocol=Protocol(3, 8)), "reader version 3 and writer version 8"),
        (table(protocol=Protocol(1, 6)), "reader version 1 and writer version 6"),
        (table(protocol=Protocol(3, 7, frozenset({"new"}), frozenset({"new"}))), "the table feature new"),
        *((features(name), f"table feature {name}") for name in UNKNOWN),
        (configured(**{"delta.appendOnly": "true"}), "delta.appendOnly is true"),
        (configured(**{"delta.enableInCommitTimestamps": "true"}), "delta.enableInCommitTimestamps is true"),
        (configured(**{"delta.enableRowTracking": "true"}), "delta.enableRowTracking is true"),
        (configured(**{"delta.columnMapping.mode": "id"}), "delta.columnMapping.mode is id"),
        (configured(**{"delta.checkpoint.writeStatsAsJson": "false"}), "writeStatsAsJson is false"),
        (configured(**{"delta.constraints.positive": "a > 0"}), "the constraint positive"),
        (configured(**{"delta.universalFormat.enabledFormats": "iceberg"}), "universalFormat"),
        (configured(**{"delta.unheardOf": "x"}), "its property delta.unheardOf is x"),
        (table(metadata=replace(table().metadata, partition_columns=("a",))), "partitioned by a"),
        (table(domains=("delta.clustering",)), "the domain delta.clustering"),
        (column(**{"delta.generationExpression": "a + 1"}), "column b has a generation expression"),
        (column(**{"delta.identity.start": 1}), "column b is an identity"),
        (column(**{"delta.invariants": "{}"}), "column b has an invariant"),
        (column(CURRENT_DEFAULT="1"), "column b has a default"),
        (column(__CHAR_VARCHAR_TYPE_STRING="char(3)"), "column b has a CHAR's"),
        (columns(DeltaColumn("v", "variant")), "column v is of type VARIANT"),
        (columns(DeltaColumn("v", "long", False)), "column v is NOT NULL"),
        (files(path="file:/other/a.parquet"), "outside of its folder"),
        (files(stats=None), "a.parquet has no statistics"),
    ],
)
def test_what_is_refused_by_name(snapshot: Snapshot, reason: str) -> None:
    message = why_not(snapshot)
    assert message is not None
    assert message.startswith("/t: ")
    assert reason in message
    # A commit that adds files looks at no other.
    assert why_not(snapshot, appends=True) == (None if snapshot.files else message)


def test_a_table_with_a_feature_that_is_not_known_is_not_written() -> None:
    require_written(table())
    tracked = table(protocol=Protocol(3, 7, frozenset({"rowTracking"}), frozenset({"rowTracking"})))
    with pytest.raises(LakeError, match="rowTracking: Stratalog does not write such a table; take back"):
        require_written(tracked)
