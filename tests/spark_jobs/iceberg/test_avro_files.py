from dataclasses import replace
from pathlib import Path

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile as ManifestRecord
from pyiceberg.manifest import read_manifest_list

from spark_jobs.iceberg.avro_files import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    File,
    ManifestEntry,
    ManifestFile,
    Metrics,
    entries_of,
    manifest,
    manifest_list,
    manifests_of,
)

SCHEMA = {"type": "struct", "schema-id": 3, "fields": [{"id": 1, "name": "ü", "required": False, "type": "long"}]}
METRICS = Metrics({1: 9}, {1: 0}, {1: b"\x01"}, {1: b"\xff" * 40})
DATA_FILE = File(DATA, "file:///t/a.parquet", "PARQUET", 9, 1 << 40, METRICS.encoded())
VECTOR = File(DELETES, "file:///t/d.puffin", "PUFFIN", 2, 99, referenced="file:///t/a.parquet", offset=4, length=50)
SNAPSHOT = {"snapshot-id": 12, "parent-snapshot-id": 11, "sequence-number": 5, "first-row-id": 100}


def listed(content: int, length: int, first_row_id: int | None) -> ManifestFile:
    return ManifestFile("file:///t/m.avro", length, content, 5, 4, 12, (1, 2, 3), (10, 20, 30), first_row_id)


def by_pyiceberg(folder: Path, items: list[ManifestFile]) -> list[ManifestRecord]:
    file = folder / "list.avro"
    file.write_bytes(manifest_list(items, SNAPSHOT))
    return list(read_manifest_list(PyArrowFileIO().new_input(str(file))))


def test_entries_are_read_back_with_what_they_inherit() -> None:
    entries = [
        ManifestEntry(EXISTING, 10, 4, 4, replace(DATA_FILE, first_row_id=7)),
        ManifestEntry(ADDED, None, None, None, DATA_FILE),
        ManifestEntry(ADDED, 12, None, None, replace(DATA_FILE, metrics=Metrics().encoded())),
        ManifestEntry(DELETED, 12, 3, 3, replace(DATA_FILE, first_row_id=0)),
    ]
    content = manifest(entries, DATA, SCHEMA)
    assert entries_of(content, listed(DATA, len(content), 100)) == [
        entries[0],
        ManifestEntry(ADDED, 12, 5, 5, replace(DATA_FILE, first_row_id=100)),
        ManifestEntry(ADDED, 12, 5, 5, replace(entries[2].file, first_row_id=109)),
        entries[3],
    ]


def test_vectors_have_no_row_ids() -> None:
    content = manifest([ManifestEntry(ADDED, 12, None, None, VECTOR)], DELETES, SCHEMA)
    (entry,) = entries_of(content, listed(DELETES, len(content), None))
    assert (entry.file, entry.file.data_file) == (VECTOR, "file:///t/a.parquet")


def test_a_list_is_read_back() -> None:
    items = [listed(DATA, 1234, 100), replace(listed(DELETES, 1, None), path="file:///t/ü.avro")]
    assert manifests_of(manifest_list(items, SNAPSHOT)) == items


def test_a_list_and_its_manifest_are_read_by_pyiceberg(tmp_path: Path) -> None:
    entries = [
        ManifestEntry(EXISTING, 10, 4, 4, replace(DATA_FILE, first_row_id=7)),
        ManifestEntry(ADDED, 12, None, None, DATA_FILE),
        ManifestEntry(DELETED, 12, 3, 3, replace(DATA_FILE, first_row_id=0)),
    ]
    content = manifest(entries, DATA, SCHEMA)
    (tmp_path / "m.avro").write_bytes(content)
    item = replace(listed(DATA, len(content), 100), path=str(tmp_path / "m.avro"))
    (record,) = by_pyiceberg(tmp_path, [item])
    assert (record.content, record.sequence_number, record.min_sequence_number) == (DATA, 5, 4)
    counts = record.added_files_count, record.existing_files_count, record.deleted_files_count
    assert counts == item.files
    assert (record.added_rows_count, record.existing_rows_count, record.deleted_rows_count) == item.rows
    entries_read = record.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)
    assert [(int(entry.status), entry.snapshot_id, entry.sequence_number) for entry in entries_read] == [
        (EXISTING, 10, 4),
        (ADDED, 12, 5),
        (DELETED, 12, 3),
    ]
    file = entries_read[1].data_file
    assert (file.file_path, file.record_count, file.file_size_in_bytes) == ("file:///t/a.parquet", 9, 1 << 40)
    assert (file.value_counts, file.lower_bounds, file.upper_bounds) == ({1: 9}, {1: b"\x01"}, {1: b"\xff" * 40})
    assert file.null_value_counts == {1: 0}
