import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.delta.deletion_vectors import Descriptor
from spark_jobs.delta.log_files import UnsupportedTable
from spark_jobs.delta.snapshot import (
    DataFile,
    Metadata,
    Protocol,
    commit_info_of,
    legacy_features,
    new_table,
    snapshot_of,
    with_features,
)
from spark_jobs.errors import LakeError
from tests.spark_jobs.delta.tables import BRONZE, MAPPED, append, begin

SCHEMA = '{"type":"struct","fields":[{"name":"a","type":"integer","nullable":true,"metadata":{}}]}'
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
METADATA = {"metaData": {"id": "x", "schemaString": SCHEMA, "partitionColumns": [], "configuration": {"k": "v"}}}


def log(folder: Path, *versions: list[dict[str, Any]]) -> str:
    (folder / "_delta_log").mkdir(parents=True)
    for version, actions in enumerate(versions):
        text = "\n".join(map(json.dumps, actions))
        (folder / "_delta_log" / f"{version:020}.json").write_text(text)
    return str(folder)


def add(path: str, vector: str | None = None, **keys: Any) -> dict[str, Any]:
    action = {"path": path, "size": 1, "partitionValues": {}, "modificationTime": 1, "dataChange": True} | keys
    return {"add": action | ({"deletionVector": descriptor(vector)} if vector else {})}


def remove(path: str, vector: str | None = None) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True} | ({"deletionVector": descriptor(vector)} if vector else {})}


def descriptor(name: str) -> dict[str, Any]:
    return {"storageType": "u", "pathOrInlineDv": name, "offset": 1, "sizeInBytes": 36, "cardinality": 2}


FILES: list[tuple[list[list[dict[str, Any]]], list[tuple[str, str | None]]]] = [
    ([[]], []),
    ([[add("a"), add("b")]], [("a", None), ("b", None)]),
    ([[add("a")], [remove("a"), add("b")]], [("b", None)]),
    ([[add("a")], [remove("a"), add("a", "v")]], [("a", "uv@1")]),
    ([[add("a")], [add("a", "v"), remove("a")]], [("a", "uv@1")]),
    ([[add("a", "v")], [remove("a", "v"), add("a", "w")], [remove("a", "w")]], []),
    ([[add("a", "v")], [remove("a", "w")]], [("a", "uv@1")]),
    ([[add("a", size=1)], [add("a", size=2, dataChange=False)]], [("a", None)]),
]


@pytest.mark.parametrize("versions, files", FILES)
def test_files_stand_until_they_are_removed_with_their_vector(
    tmp_path: Path, versions: list[list[dict[str, Any]]], files: list[tuple[str, str | None]]
) -> None:
    path = log(tmp_path / "t", [PROTOCOL, METADATA, *versions[0]], *versions[1:])
    snapshot = snapshot_of(path)
    assert snapshot is not None
    assert [file.key for file in snapshot.files] == files
    assert snapshot.version == len(versions) - 1


def test_what_a_version_says(tmp_path: Path) -> None:
    path = log(
        tmp_path / "t",
        [{"commitInfo": {"timestamp": 5, "userMetadata": "m0"}}, PROTOCOL, METADATA],
        [
            {"commitInfo": {"userMetadata": "m1"}},
            {"txn": {"appId": "s", "version": 3}},
            {"txn": {"appId": "t", "version": 9}},
        ],
        [
            {"txn": {"appId": "s", "version": 4}},
            {"domainMetadata": {"domain": "d", "configuration": "", "removed": False}},
        ],
    )
    first, second, third = (snapshot_of(path, version) for version in range(3))
    assert first
    assert second
    assert third
    assert (first.user_metadata, first.timestamp, first.transactions) == ("m0", 5, {})
    assert (second.user_metadata, second.timestamp, second.transactions) == ("m1", None, {"s": 3, "t": 9})
    assert (third.user_metadata, third.transactions, third.domains) == (None, {"s": 4, "t": 9}, ("d",))
    assert third.configuration == {"k": "v"}
    assert third.schema.names == ["a"]
    assert snapshot_of(path, 3) is None
    assert snapshot_of(str(tmp_path / "none")) is None
    assert commit_info_of(path, 1) == {"userMetadata": "m1"}
    assert commit_info_of(path, 2) == {}
    assert commit_info_of(path, 3) is None


@pytest.mark.parametrize(
    "actions, match",
    [([PROTOCOL], "no metadata"), ([METADATA], "no protocol"), ([], "version 0 of its log is empty")],
)
def test_a_log_that_lacks_its_beginning(tmp_path: Path, actions: list[dict[str, Any]], match: str) -> None:
    with pytest.raises(LakeError, match=match):
        snapshot_of(log(tmp_path / "t", actions))


def test_a_commit_that_is_cut(tmp_path: Path) -> None:
    path = log(tmp_path / "t", [PROTOCOL, METADATA])
    Path(path, "_delta_log", f"{1:020}.json").write_text('{"add":{"pa')
    with pytest.raises(LakeError, match=r"t: version 1 of its log cannot be read: .*; restore"):
        snapshot_of(path)


def test_a_checkpoint_that_is_cut(tmp_path: Path) -> None:
    path = log(tmp_path / "t", [PROTOCOL, METADATA])
    Path(path, "_delta_log", f"{0:020}.checkpoint.parquet").write_bytes(b"PAR1")
    with pytest.raises(LakeError, match=r"checkpoint\.parquet cannot be read: .*; restore the table's _delta_log"):
        snapshot_of(path)


@pytest.mark.parametrize(
    "action",
    [
        {"txn": {"appId": "s"}},
        {"txn": {"appId": "s", "version": "?"}},
        {"protocol": {"minReaderVersion": 1}},
        {"metaData": "?"},
        {"add": {"psth": "x"}},
        {"add": {"path": "x", "deletionVector": {"storageType": "u"}}},
    ],
    ids=str,
)
def test_a_commit_with_other_members_than_actions_have_is_damaged(tmp_path: Path, action: dict[str, Any]) -> None:
    path = log(tmp_path / "t", [PROTOCOL, METADATA], [action])
    with pytest.raises(LakeError, match=r"/t: .* cannot be read: .*; restore the table's _delta_log"):
        _ = snapshot_of(path).files  # type: ignore[union-attr]


def test_statistics_and_a_schema_that_are_no_json_are_told(tmp_path: Path) -> None:
    path = log(tmp_path / "t", [PROTOCOL, METADATA], [{"add": {"path": "x", "stats": '{"numRecords:1}'}}])
    snapshot = snapshot_of(path)
    assert snapshot
    with pytest.raises(LakeError, match=r"t: the statistics of x in its log cannot be read: .*; restore"):
        _ = snapshot.files[0].stats
    broken = replace(snapshot, metadata=replace(snapshot.metadata, schema_string="{"))
    with pytest.raises(LakeError, match=r"/t: the schema in the table's log cannot be read: .*; restore"):
        _ = broken.schema


def test_a_checkpoint_says_what_the_commits_said(tmp_path: Path) -> None:
    snapshot = begin(str(tmp_path / "t"))
    for at in range(13):
        snapshot = append(snapshot, [at], transaction=("s", at), user_metadata=f"m{at}")
        if snapshot.version == 10:
            assert snapshot.user_metadata == "m10"
    log_folder = tmp_path / "t" / "_delta_log"
    assert (log_folder / f"{10:020}.checkpoint.parquet").exists()
    for version in range(10):
        (log_folder / f"{version:020}.json").unlink()
    reread = snapshot_of(snapshot.path)
    assert reread is not None
    assert reread == snapshot
    assert [file.action for file in reread.files] == [file.action for file in snapshot.files]
    assert len(reread.files) == 13
    assert snapshot_of(snapshot.path, 9) is None


@pytest.mark.parametrize(
    "types, properties, reader, writer",
    [
        ({"a": "INT"}, {}, None, None),
        ({"a": "INT"}, BRONZE, None, None),
        ({"a": "TIMESTAMP_NTZ"}, {}, {"timestampNtz"}, {"timestampNtz"}),
        ({"a": "ARRAY<STRUCT<x: TIMESTAMP_NTZ>>"}, {}, {"timestampNtz"}, {"timestampNtz"}),
        ({"a": "INT"}, MAPPED, {"columnMapping", "deletionVectors"}, {"columnMapping", "deletionVectors"}),
        ({"a": "INT"}, {"delta.enableTypeWidening": "true"}, {"typeWidening"}, {"typeWidening"}),
    ],
)
def test_the_protocol_of_a_new_table(
    types: dict[str, str], properties: dict[str, str], reader: set[str] | None, writer: set[str] | None
) -> None:
    protocol = new_table("/t", types, properties).protocol
    if reader is None:
        assert protocol == Protocol(1, 2)
    else:
        assert writer is not None
        assert protocol == Protocol(3, 7, frozenset(reader), frozenset(writer | {"invariants", "appendOnly"}))


@pytest.mark.parametrize("properties", [{"delta.columnMapping.mode": "id"}])
def test_a_new_table_that_is_not_made(properties: dict[str, str]) -> None:
    with pytest.raises(LakeError, match=r"delta\.columnMapping\.mode = id is not supported"):
        new_table("/t", {"a": "INT"}, properties)


@pytest.mark.parametrize(
    "before, features, after",
    [
        (Protocol(1, 2), set(), Protocol(1, 2)),
        (
            Protocol(1, 2),
            {"columnMapping"},
            Protocol(2, 7, None, frozenset({"invariants", "appendOnly", "columnMapping"})),
        ),
        (
            Protocol(2, 7, None, frozenset({"invariants", "appendOnly", "columnMapping"})),
            {"deletionVectors"},
            Protocol(
                3,
                7,
                frozenset({"columnMapping", "deletionVectors"}),
                frozenset({"invariants", "appendOnly", "columnMapping", "deletionVectors"}),
            ),
        ),
        (Protocol(1, 7, None, frozenset({"invariants"})), {"appendOnly"}, Protocol(1, 2)),
        (Protocol(1, 2), {"checkConstraints"}, Protocol(1, 3)),
        (Protocol(2, 5), {"columnMapping"}, Protocol(2, 5)),
        (
            Protocol(2, 5),
            {"timestampNtz"},
            Protocol(
                3,
                7,
                frozenset({"columnMapping", "timestampNtz"}),
                frozenset(
                    {"invariants", "appendOnly", "checkConstraints", "changeDataFeed", "generatedColumns"}
                    | {"columnMapping", "timestampNtz"}
                ),
            ),
        ),
        (
            Protocol(3, 7, frozenset({"x"}), frozenset({"x", "y"})),
            {"typeWidening"},
            Protocol(3, 7, frozenset({"x", "typeWidening"}), frozenset({"x", "y", "typeWidening"})),
        ),
    ],
)
def test_features_are_added_to_a_protocol(before: Protocol, features: set[str], after: Protocol) -> None:
    assert with_features(before, features) == after


@pytest.mark.parametrize("versions, is_known", [((1, 2), True), ((2, 6), True), ((2, 7), False), ((9, 9), False)])
def test_versions_that_stand_for_features(versions: tuple[int, int], is_known: bool) -> None:
    assert (legacy_features(Protocol(*versions)) is not None) is is_known


@pytest.mark.parametrize(
    "action",
    [
        {"minReaderVersion": 1, "minWriterVersion": 2},
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["a"], "writerFeatures": ["a", "b"]},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": []},
    ],
)
def test_a_protocol_comes_back(action: dict[str, Any]) -> None:
    assert Protocol.from_json(action).to_json() == action


def test_metadata_comes_back() -> None:
    action = {
        "id": "i",
        "name": "n",
        "description": "d",
        "format": {"provider": "parquet", "options": {"o": "p"}},
        "schemaString": SCHEMA,
        "partitionColumns": ["a"],
        "configuration": {"k": "v"},
        "createdTime": 5,
    }
    assert Metadata.from_json(action).to_json() == action


@pytest.mark.parametrize(
    "path, name",
    [("a.parquet", "a.parquet"), ("xY/part-0%20%25.parquet", "xY/part-0 %.parquet"), ("a/b:c", "a/b:c")],
)
def test_where_a_file_lies(path: str, name: str) -> None:
    assert DataFile(add(path)["add"]).location("/t") == Path("/t", name)


@pytest.mark.parametrize("path", ["/a/b.parquet", "file:/a/b.parquet", "s3://b/a.parquet"])
def test_a_file_outside_of_the_table(path: str) -> None:
    with pytest.raises(UnsupportedTable, match="outside of its folder"):
        DataFile(add(path)["add"]).location("/t")


def test_counts_of_a_file() -> None:
    plain = DataFile(add("a", stats='{"numRecords":5}')["add"])
    marked = DataFile(add("a", "v", stats='{"numRecords":5}')["add"])
    unknown = DataFile(add("a", "v")["add"])
    assert (plain.num_records, plain.num_rows, plain.deletion_vector) == (5, 5, None)
    assert (marked.num_records, marked.num_rows) == (5, 3)
    assert marked.deletion_vector == Descriptor("u", "v", 1, 36, 2)
    assert (unknown.num_records, unknown.num_rows) == (None, None)
