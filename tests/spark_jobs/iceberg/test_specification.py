"""What format version 3 of Iceberg's specification demands of a table's metadata, asked of every snapshot.

Put here: demands, by the tables of the specification that have them. Not here: rows that readers see
(test_table_view.py). pyiceberg's readers of Avro and Puffin read the files, by the names that are in them.
"""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap64

from spark_jobs.delta import data_files, deletion_vectors, schema_changes
from spark_jobs.delta.commits import commit
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.iceberg import expiry, metadata_files
from spark_jobs.iceberg.table_view import show
from tests.spark_jobs.delta.tables import MAPPED, append, begin, newest

Record = dict[str, Any]
EXISTING, ADDED, DELETED = 0, 1, 2
TYPES = {"key": "BIGINT", "text": "STRING", "f": "FLOAT", "_raw": "MAP<STRING, STRING>", "vector": "ARRAY<FLOAT>"}
ROWS = 7
"""Rows of a file."""
# Fields that the tables "Manifest Lists", "Manifest Entry Fields" and "Data File Fields" of version 3 require.
LISTED = {
    *("manifest_path", "manifest_length", "partition_spec_id", "content", "sequence_number", "min_sequence_number"),
    *("added_snapshot_id", "added_files_count", "existing_files_count", "deleted_files_count"),
    *("added_rows_count", "existing_rows_count", "deleted_rows_count"),
}
FILE = {"content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes"}
METADATA = {
    *("format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms", "last-column-id"),
    *("schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id", "sort-orders"),
    *("default-sort-order-id", "next-row-id"),
}
SNAPSHOT = {"snapshot-id", "sequence-number", "timestamp-ms", "manifest-list", "summary", "first-row-id", "added-rows"}


@dataclass
class Entry:
    """An entry of a manifest, with what it inherits."""

    status: int
    snapshot: int
    sequence: int
    file_sequence: int
    first_row_id: int | None
    file: Record


# Reading


def read_avro(location: str) -> tuple[list[Record], dict[str, str]]:
    """The records of a file by their names, and its own metadata."""
    with AvroFile[Any](PyArrowFileIO().new_input(location)) as opened:
        names = [field.name for field in opened.schema.fields]
        records = [by_name(record, opened.schema) for record in opened]
        assert len(set(names)) == len(names)
        return records, {key: str(value) for key, value in opened.header.meta.items()}


def by_name(record: Any, struct: Any) -> Record:
    found: Record = {}
    for at, field in enumerate(struct.fields):
        value = record[at]
        found[field.name] = by_name(value, field.field_type) if hasattr(field.field_type, "fields") else value
    return found


def entries_of(listed: Record) -> tuple[list[Entry], dict[str, str]]:
    """ "Sequence Number Inheritance" and "First Row ID Inheritance"."""
    records, meta = read_avro(listed["manifest_path"])
    entries, next_row = [], listed["first_row_id"]
    for record in records:
        file, status = record["data_file"], record["status"]
        numbers = record["sequence_number"], record["file_sequence_number"]
        if status != ADDED:
            assert None not in numbers, "only entries that are added inherit sequence numbers"
        row = file["first_row_id"]
        if listed["content"] == 0 and row is None:
            row, next_row = next_row, next_row + file["record_count"]
        sequence, file_sequence = (listed["sequence_number"] if number is None else number for number in numbers)
        snapshot = listed["added_snapshot_id"] if record["snapshot_id"] is None else record["snapshot_id"]
        entries.append(Entry(status, snapshot, sequence, file_sequence, row, file))
    return entries, meta


# Demands


def require_valid(path: str, history: dict[str, dict[str, Any]]) -> None:
    """Asks the newest metadata. history: what was seen of each data file, by location, in earlier metadata."""
    present = metadata_files.newest(path)
    assert present is not None
    document = present.document
    TableMetadataV3.model_validate(document)
    assert document.keys() >= METADATA
    assert document["format-version"] == 3
    assert document["location"] == f"file://{path}"
    require_schemas(document)
    # The only spec and the only order, which are what their numbers say.
    assert document["partition-specs"] == [{"spec-id": document["default-spec-id"], "fields": []}]
    assert document["sort-orders"] == [{"order-id": document["default-sort-order-id"], "fields": []}]
    require_logs(document)
    before: Record | None = None
    for snapshot in document["snapshots"]:
        require_snapshot(snapshot, before, document)
        require_files(snapshot, before, document, history)
        before = snapshot
    assert before is not None
    assert document["next-row-id"] == before["first-row-id"] + before["added-rows"]
    assert document["last-sequence-number"] == before["sequence-number"]


def require_schemas(document: Record) -> None:
    """ "Schemas", "Default values", "Reserved Field IDs", "Name Mapping Serialization"."""
    numbers = [schema["schema-id"] for schema in document["schemas"]]
    assert len(set(numbers)) == len(numbers)
    mapping = parse_mapping_from_json(document["properties"]["schema.name-mapping.default"])
    for schema in document["schemas"]:
        ids = [number for field in schema["fields"] for number in ids_of(field)]
        assert len(set(ids)) == len(ids)
        assert max(ids) <= document["last-column-id"] < 2147483447
        for field in schema["fields"]:
            # A column that was added is NULL in older files, as in Delta, whose tables here have no defaults.
            assert {"initial-default", "write-default"}.isdisjoint(field)
            assert not (field["required"] and schema["schema-id"] > 0)
    current = next(schema for schema in document["schemas"] if schema["schema-id"] == document["current-schema-id"])
    mapped = [number for entry in mapping for number in mapped_ids(entry)]
    assert sorted(mapped) == sorted(number for field in current["fields"] for number in ids_of(field))


def ids_of(field: Record) -> Iterator[int]:
    yield field["id"]
    kind = field["type"]
    if isinstance(kind, dict):
        for part in ("element-id", "key-id", "value-id"):
            if part in kind:
                yield kind[part]
        for inner in kind.get("fields", ()):
            yield from ids_of(inner)


def mapped_ids(entry: Any) -> Iterator[int]:
    yield entry.field_id
    for inner in entry.fields:
        yield from mapped_ids(inner)


def require_logs(document: Record) -> None:
    """ "Table Metadata Fields": the logs, ``refs`` and ``current-snapshot-id``."""
    ids = [snapshot["snapshot-id"] for snapshot in document["snapshots"]]
    assert document["current-snapshot-id"] == ids[-1]
    assert document["refs"] == {"main": {"snapshot-id": ids[-1], "type": "branch"}}
    assert [entry["snapshot-id"] for entry in document["snapshot-log"]][-1] == ids[-1]
    assert {entry["snapshot-id"] for entry in document["snapshot-log"]} <= {*ids}
    for entries in (document["snapshot-log"], document["metadata-log"]):
        times = [entry["timestamp-ms"] for entry in entries]
        assert times == sorted(times)
        assert not times or times[-1] <= document["last-updated-ms"]
    # Metadata files that are named are there.
    for entry in document["metadata-log"]:
        assert Path(entry["metadata-file"].removeprefix("file://")).is_file()


def require_snapshot(snapshot: Record, before: Record | None, document: Record) -> None:
    """ "Snapshots" and "Snapshot Row IDs"."""
    assert snapshot.keys() >= SNAPSHOT
    assert snapshot["snapshot-id"] > 0
    assert snapshot["summary"]["operation"] in {"append", "replace", "overwrite", "delete"}
    assert all(isinstance(value, str) for value in snapshot["summary"].values())
    assert snapshot["schema-id"] in {schema["schema-id"] for schema in document["schemas"]}
    if before is not None:
        assert snapshot["parent-snapshot-id"] in {item["snapshot-id"] for item in document["snapshots"]}
        assert snapshot["timestamp-ms"] >= before["timestamp-ms"]
        assert snapshot["sequence-number"] > before["sequence-number"]
        assert snapshot["first-row-id"] >= before["first-row-id"] + before["added-rows"]
    else:
        assert "parent-snapshot-id" not in snapshot


def require_files(
    snapshot: Record, before: Record | None, document: Record, history: dict[str, dict[str, Any]]
) -> None:
    """ "Manifest Lists", "Manifests", "Deletion Vectors"."""
    manifests, _ = read_avro(snapshot["manifest-list"])
    next_row, live, vectors = snapshot["first-row-id"], dict[str, Entry](), dict[str, Entry]()
    changes: list[tuple[int, Entry]] = []
    for listed in manifests:
        entries = require_manifest(listed, snapshot, document)
        is_new = listed["added_snapshot_id"] == snapshot["snapshot-id"]
        if listed["content"] == 1:
            assert listed["first_row_id"] is None
        elif is_new:
            # "First Row ID Assignment": each after the rows of the one before that inherit their ids.
            assert listed["first_row_id"] >= next_row
            inheriting = [entry for entry in entries if entry.status == ADDED]
            next_row = listed["first_row_id"] + sum(entry.file["record_count"] for entry in inheriting)
        for entry in entries:
            if is_new and entry.status != EXISTING:
                changes.append((listed["content"], entry))
            if entry.status == DELETED:
                continue
            into, key = (vectors, entry.file["referenced_data_file"]) if listed["content"] else (live, location(entry))
            assert key not in into, "a file, and a vector of a data file, is in a snapshot once"
            into[key] = entry
    assert next_row <= snapshot["first-row-id"] + snapshot["added-rows"]
    require_row_ids(snapshot, live, history)
    # A vector's data file is there, and no younger than it.
    for data_file, vector in vectors.items():
        assert live[data_file].sequence <= vector.sequence
        require_vector(vector.file, data_file)
    totals = snapshot["summary"]
    assert int(totals["total-data-files"]) == len(live)
    assert int(totals["total-delete-files"]) == len(vectors)
    assert int(totals["total-records"]) == sum(entry.file["record_count"] for entry in live.values())
    assert int(totals["total-position-deletes"]) == sum(entry.file["record_count"] for entry in vectors.values())
    require_operation(snapshot["summary"]["operation"], changes, is_first=before is None)


def location(entry: Entry) -> str:
    return str(entry.file["file_path"])


def require_manifest(listed: Record, snapshot: Record, document: Record) -> list[Entry]:
    assert {key for key in LISTED if listed[key] is not None} == LISTED
    assert listed["partition_spec_id"] == document["default-spec-id"]
    assert Path(listed["manifest_path"].removeprefix("file://")).stat().st_size == listed["manifest_length"]
    entries, meta = entries_of(listed)
    assert meta["format-version"] == "3"
    assert meta["content"] == ("deletes" if listed["content"] else "data")
    assert (meta["partition-spec"], meta["partition-spec-id"]) == ("[]", str(document["default-spec-id"]))
    assert str(json.loads(meta["schema"])["schema-id"]) == meta["schema-id"]
    for status, name in ((ADDED, "added"), (EXISTING, "existing"), (DELETED, "deleted")):
        of_status = [entry for entry in entries if entry.status == status]
        assert listed[f"{name}_files_count"] == len(of_status)
        assert listed[f"{name}_rows_count"] == sum(entry.file["record_count"] for entry in of_status)
    living = [entry.sequence for entry in entries if entry.status != DELETED]
    assert listed["min_sequence_number"] == min(living, default=listed["sequence_number"])
    assert listed["sequence_number"] <= snapshot["sequence-number"]
    for entry in entries:
        assert {key for key in FILE if entry.file[key] is not None} == FILE
        # "Manifest Entry Fields": an entry has the snapshot that added its file, or that deleted it.
        if entry.status != EXISTING:
            assert entry.snapshot == listed["added_snapshot_id"]
        assert entry.file["content"] == listed["content"]
        path = Path(entry.file["file_path"].removeprefix("file://"))
        assert entry.file["file_path"].startswith("file:///")
        if entry.status != DELETED:
            assert path.stat().st_size == entry.file["file_size_in_bytes"]
    return entries


def require_row_ids(snapshot: Record, live: dict[str, Entry], history: dict[str, dict[str, Any]]) -> None:
    """ "Row Lineage": ids of a file's rows and its sequence numbers stay, and no two rows have the same id."""
    ranges = []
    for path, entry in live.items():
        assert entry.first_row_id is not None
        ranges.append((entry.first_row_id, entry.first_row_id + entry.file["record_count"]))
        now = {"row": entry.first_row_id, "sequence": entry.sequence, "file sequence": entry.file_sequence}
        assert history.setdefault(path, now) == now
    ranges.sort()
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
    assert ranges[-1][1] <= snapshot["first-row-id"] + snapshot["added-rows"]


def require_vector(file: Record, data_file: str) -> None:
    """ "Data File Fields" of a vector, and ``deletion-vector-v1`` of the specification of Puffin files."""
    assert (file["content"], file["file_format"].lower(), file["first_row_id"]) == (1, "puffin", None)
    content = Path(file["file_path"].removeprefix("file://")).read_bytes()
    assert content[:4] == content[-4:] == b"PFA1"
    blobs = [blob for blob in PuffinFile(content).footer.blobs if blob.properties["referenced-data-file"] == data_file]
    (blob,) = blobs
    assert (blob.offset, blob.length) == (file["content_offset"], file["content_size_in_bytes"])
    assert (blob.type, blob.snapshot_id, blob.sequence_number) == ("deletion-vector-v1", -1, -1)
    assert blob.compression_codec is None
    assert blob.properties["cardinality"] == str(file["record_count"])
    stored = content[blob.offset : blob.offset + blob.length]
    assert stored[4:8] == bytes.fromhex("d1d33964")
    assert len(BitMap64.deserialize(stored[8:-4])) == file["record_count"]


def require_operation(operation: str, changes: list[tuple[int, Entry]], *, is_first: bool) -> None:
    """The operation is the one that the table under "Snapshots" has for these changes."""
    added, deleted = ({c for c, entry in changes if entry.status == status} for status in (ADDED, DELETED))
    if operation == "append":
        assert (added, deleted) == ({0}, set())
    elif operation == "delete":
        assert 0 not in added
        # Vectors grow, or go with their files: no row is there again.
        rows_of = {
            status: {
                entry.file["referenced_data_file"]: entry.file["record_count"]
                for content, entry in changes
                if content and entry.status == status
            }
            for status in (ADDED, DELETED)
        }
        gone = {location(entry) for content, entry in changes if not content and entry.status == DELETED}
        for path, count in rows_of[DELETED].items():
            assert path in gone or rows_of[ADDED].get(path, 0) > count
    elif operation == "overwrite":
        assert is_first or added


# Histories


def deleted(snapshot: Snapshot, at: int, numbers: set[int]) -> Snapshot:
    """The snapshot after one commit that leaves these rows of a file deleted."""
    [vector] = deletion_vectors.write(snapshot.path, [BitMap64(sorted(numbers))])
    return newest(snapshot.path, commit(snapshot, dv_updates=[(snapshot.files[at], vector)]))


def altered(snapshot: Snapshot, *statements: str) -> Snapshot:
    changed = schema_changes.apply(snapshot, statements)
    return newest(snapshot.path, commit(snapshot, metadata=changed.metadata, protocol=changed.protocol))


def step(snapshot: Snapshot, rng: random.Random, at: int) -> Snapshot:  # noqa: PLR0911 -- one a kind of commit
    """One more commit, of any kind."""
    number = rng.randrange(len(snapshot.files))
    file = snapshot.files[number]
    now = {*deletion_vectors.row_numbers(snapshot.path, file.deletion_vector).tolist()}
    free = [row for row in range(ROWS) if row not in now]
    kind = rng.choice(["append", "delete", "delete", "restore", "replace", "remove", "compact", "columns"])
    if kind == "delete" and len(free) > 1:
        return deleted(snapshot, number, now | {*rng.sample(free, rng.randint(1, len(free) - 1))})
    if kind == "restore" and len(now) > 1:  # no verb does that here, and other programs restore versions
        return deleted(snapshot, number, {*rng.sample(sorted(now), rng.randint(1, len(now) - 1))})
    if kind in ("replace", "compact"):
        adds, removes = [written(snapshot, at)], [file]
        version = commit(snapshot, adds=adds, removes=removes, changes_rows=kind == "replace")
        return newest(snapshot.path, version)
    if kind == "remove" and len(snapshot.files) > 1:
        return newest(snapshot.path, commit(snapshot, removes=[file]))
    extra = [name for name in snapshot.schema.names if name.startswith("c")]
    if kind == "columns" and extra and rng.random() < 0.5:
        return altered(snapshot, f"DROP COLUMN {rng.choice(extra)}")
    if kind == "columns":
        return altered(snapshot, f"ADD COLUMN (c{at} {rng.choice(['INT', 'MAP<STRING, STRING>'])})")
    return newest(snapshot.path, commit(snapshot, adds=[written(snapshot, at)]))


def written(snapshot: Snapshot, at: int) -> Any:
    """A new data file."""
    arrow = snapshot.schema.arrow(physical=False)
    columns = [pa.array(range(at * 100, at * 100 + ROWS)), *(pa.nulls(ROWS, field.type) for field in list(arrow)[1:])]
    return data_files.write(
        snapshot.path, pa.Table.from_arrays(columns, schema=arrow), snapshot.schema, snapshot.configuration
    )


@pytest.mark.parametrize(
    "seed",
    [
        0,
        *(pytest.param(at, marks=pytest.mark.thorough) for at in range(1, 4)),
        *(pytest.param(at, marks=pytest.mark.long) for at in range(4, 60)),
    ],
)
def test_metadata_of_any_history_is_as_the_specification_has_it(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = str(tmp_path / "t")
    snapshot = append(begin(path, MAPPED, TYPES), range(ROWS))
    history: dict[str, dict[str, Any]] = {}
    for at in range(1, 25):
        snapshot = step(snapshot, rng, at)
        # Several commits may be shown at once, and old snapshots expire between.
        if rng.random() < 0.7:
            show(path)
            require_valid(path, history)
        if rng.random() < 0.1 and metadata_files.newest(path):
            with pytest.MonkeyPatch.context() as context:
                context.setattr(expiry, "_AHEAD_SECONDS", 2 * 3600)
                expiry.expire_snapshots(path, 1)
                expiry.remove_unneeded(path, 1)
            show(path)
            require_valid(path, history)


def test_ids_of_columns_that_were_dropped_before_are_counted(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = append(begin(path, MAPPED, TYPES), range(3))
    last_id = snapshot.schema.max_column_id
    altered(snapshot, "DROP COLUMN vector")
    show(path)
    assert document_of(path)["last-column-id"] == last_id
    require_valid(path, {})


def test_rows_that_are_there_again_are_no_deletion(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = deleted(append(begin(path, MAPPED, TYPES), range(ROWS)), 0, {1, 2, 3})
    show(path)
    deleted(snapshot, 0, {1})
    show(path)
    assert document_of(path)["snapshots"][-1]["summary"]["operation"] == "overwrite"
    require_valid(path, {})


def test_metadata_without_its_old_snapshots_names_the_file_before_it(tmp_path: Path) -> None:
    path, now = str(tmp_path / "t"), time.time()
    snapshot = begin(path, MAPPED, TYPES)
    for hours in (5, 4, 0):
        with pytest.MonkeyPatch.context() as context:
            context.setattr(time, "time", lambda before=hours: now - before * 3600)
            snapshot = append(snapshot, range(ROWS))
        show(path)
    # The clock of the machine that maintains is ahead by an hour.
    with pytest.MonkeyPatch.context() as context:
        context.setattr(time, "time", lambda: now + 3600)
        expiry.expire_snapshots(path, 3)
    document = document_of(path)
    assert len(document["snapshots"]) == 2
    assert document["metadata-log"][-1]["metadata-file"].endswith("/metadata/v3.metadata.json")
    assert document["last-updated-ms"] == int((now + 3600) * 1000)
    require_valid(path, {})
    # Snapshots that follow are not dated by it.
    append(snapshot, range(ROWS))
    show(path)
    assert document_of(path)["snapshots"][-1]["timestamp-ms"] < document["last-updated-ms"]
    require_valid(path, {})


def document_of(path: str) -> Record:
    present = metadata_files.newest(path)
    assert present is not None
    return present.document
