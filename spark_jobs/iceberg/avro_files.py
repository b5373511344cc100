"""Manifests and lists of manifests as Avro files, with the field ids by which readers know their columns.

Put here: the records and schemas of these files. Not here: Avro itself (avro.py), or which files a manifest names
(manifests.py).

Fields are those of the specification's tables "Manifest ManifestEntry Fields", "Data File Fields" and "Manifest Lists".
Optional ones of which nothing is ever known here are left out, as readers by field id allow.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from spark_jobs.iceberg import avro
from spark_jobs.iceberg.avro import AvroReader

EXISTING, ADDED, DELETED = 0, 1, 2
"""Status of a manifest's entry."""
DATA, DELETES = 0, 1
"""Content of a manifest, and of the files that it names."""

_Value = TypeVar("_Value", int, bytes)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of a data file's columns, by field id; None where nothing is known."""

    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None

    def encoded(self) -> bytes:
        """Four optional maps, one after another."""
        counts = (_map_of(item, avro.long) for item in (self.value_counts, self.null_value_counts))
        bounds = (_map_of(item, avro.binary) for item in (self.lower_bounds, self.upper_bounds))
        return b"".join((*counts, *bounds))


def _map_of(values: Mapping[int, _Value] | None, encoded: Callable[[_Value], bytes]) -> bytes:
    """A map with keys that are no text: an array of pairs."""
    if values is None:
        return avro.optional(None)
    return avro.optional(avro.array([avro.long(key) + encoded(value) for key, value in values.items()]))


NO_METRICS = Metrics().encoded()


@dataclass(frozen=True, slots=True)
class File:
    """A data file, or a deletion vector in a Puffin file: the record ``data_file``."""

    content: int
    path: str
    format: str
    records: int
    """Rows, or of a vector those that it deletes."""
    size: int
    metrics: bytes = NO_METRICS
    """``Metrics`` of the file, encoded; they are copied, and never looked at again."""
    first_row_id: int | None = None
    referenced: str | None = None
    """Location of the data file whose rows a deletion vector deletes; None of data files."""
    offset: int | None = None
    length: int | None = None

    @property
    def data_file(self) -> str:
        """The location of the data file that it is, or is about."""
        return self.path if self.referenced is None else self.referenced

    def encoded(self) -> bytes:
        """The record in Avro; of the partition, which has no fields, there is nothing."""
        return b"".join(
            (
                avro.long(self.content),
                avro.text(self.path),
                avro.text(self.format),
                avro.long(self.records),
                avro.long(self.size),
                self.metrics,
                avro.optional_long(self.first_row_id),
                avro.optional(None if self.referenced is None else avro.text(self.referenced)),
                avro.optional_long(self.offset),
                avro.optional_long(self.length),
            )
        )


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """An entry of a manifest. Numbers that are None are the manifest's own."""

    status: int
    snapshot: int | None
    sequence: int | None
    file_sequence: int | None
    file: File

    @property
    def is_live(self) -> bool:
        return self.status != DELETED

    def encoded(self) -> bytes:
        """The record in Avro."""
        numbers = (self.snapshot, self.sequence, self.file_sequence)
        return avro.long(self.status) + b"".join(map(avro.optional_long, numbers)) + self.file.encoded()


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest in a snapshot's list: the record ``manifest_file``."""

    path: str
    length: int
    content: int
    sequence: int
    min_sequence: int
    snapshot: int
    """Snapshot that added it."""
    files: tuple[int, int, int]
    """Entries that were added, are there, and were deleted."""
    rows: tuple[int, int, int]
    """Rows of the files that were added, are there, and were deleted."""
    first_row_id: int | None = None

    @property
    def live_files(self) -> int:
        return self.files[0] + self.files[1]

    @property
    def live_rows(self) -> int:
        """Rows of the files that are there; of vectors, rows that they delete."""
        return self.rows[0] + self.rows[1]

    def encoded(self) -> bytes:
        """The record in Avro; of the only partition spec, and without summaries of partitions."""
        numbers = (self.length, 0, self.content, self.sequence, self.min_sequence, self.snapshot)
        counts = b"".join(map(avro.long, (*numbers, *self.files, *self.rows)))
        return avro.text(self.path) + counts + avro.optional(avro.array([])) + avro.optional_long(self.first_row_id)


def manifest(entries: Iterable[ManifestEntry], content: int, schema: Mapping[str, Any]) -> bytes:
    """A manifest of entries. schema: the table's, with its number."""
    metadata = {
        "schema": json.dumps(schema, separators=(",", ":"), ensure_ascii=False),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "3",
        "content": "deletes" if content == DELETES else "data",
    }
    return avro.container(_ENTRY, [entry.encoded() for entry in entries], metadata)


def entries_of(content: bytes, item: ManifestFile) -> list[ManifestEntry]:
    """A manifest's entries, with the numbers that they have of it. Raises ValueError for other files.

    "Sequence Number Inheritance" and "First Row ID Inheritance" of the specification.
    """
    count, reader = avro.block_of(content, _ENTRY)
    entries, next_row = [], item.first_row_id
    for _ in range(count):
        status, numbers = reader.long(), [reader.optional_long() for _ in range(3)]
        file = _file(reader)
        if item.content == DATA and file.first_row_id is None and next_row is not None:
            file = replace(file, first_row_id=next_row)
            next_row += file.records
        snapshot, sequence, file_sequence = (
            inherited if number is None else number
            for number, inherited in zip(numbers, (item.snapshot, item.sequence, item.sequence), strict=True)
        )
        entries.append(ManifestEntry(status, snapshot, sequence, file_sequence, file))
    return entries


def _file(reader: AvroReader) -> File:
    head = (reader.long(), reader.text(), reader.text(), reader.long(), reader.long())
    begin = reader.at
    for _ in range(4):
        if reader.is_present():
            reader.skip_array()
    metrics = reader.data[begin : reader.at]
    first_row_id = reader.optional_long()
    referenced = reader.text() if reader.is_present() else None
    return File(*head, metrics, first_row_id, referenced, reader.optional_long(), reader.optional_long())


def manifest_list(manifests: Iterable[ManifestFile], snapshot: Mapping[str, Any]) -> bytes:
    """The list of a snapshot's manifests."""
    metadata = {
        "snapshot-id": str(snapshot["snapshot-id"]),
        "parent-snapshot-id": str(snapshot.get("parent-snapshot-id", "null")),
        "sequence-number": str(snapshot["sequence-number"]),
        "first-row-id": str(snapshot["first-row-id"]),
        "format-version": "3",
    }
    return avro.container(_MANIFEST, [item.encoded() for item in manifests], metadata)


def manifests_of(content: bytes) -> list[ManifestFile]:
    """The manifests of a list. Raises ValueError for other files."""
    count, reader = avro.block_of(content, _MANIFEST)
    manifests = []
    for _ in range(count):
        path = reader.text()
        length, _, content_kind, sequence, min_sequence, added = (reader.long() for _ in range(6))
        files, rows = ((reader.long(), reader.long(), reader.long()) for _ in range(2))
        if reader.is_present():
            reader.skip_array()
        first_row_id = reader.optional_long()
        manifests.append(
            ManifestFile(path, length, content_kind, sequence, min_sequence, added, files, rows, first_row_id)
        )
    return manifests


# Schemas


def _field(name: str, kind: Any, number: int) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": number}


def _optional(name: str, kind: Any, number: int) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def _map(key: int, value: int, kind: str) -> dict[str, Any]:
    record = _record(f"k{key}_v{value}", _field("key", "int", key), _field("value", kind, value))
    return {"type": "array", "items": record, "logicalType": "map"}


_DATA_FILE = _record(
    "r2",
    _field("content", "int", 134),
    _field("file_path", "string", 100),
    _field("file_format", "string", 101),
    _field("partition", _record("r102"), 102),
    _field("record_count", "long", 103),
    _field("file_size_in_bytes", "long", 104),
    _optional("value_counts", _map(119, 120, "long"), 109),
    _optional("null_value_counts", _map(121, 122, "long"), 110),
    _optional("lower_bounds", _map(126, 127, "bytes"), 125),
    _optional("upper_bounds", _map(129, 130, "bytes"), 128),
    _optional("first_row_id", "long", 142),
    _optional("referenced_data_file", "string", 143),
    _optional("content_offset", "long", 144),
    _optional("content_size_in_bytes", "long", 145),
)
_ENTRY = json.dumps(
    _record(
        "manifest_entry",
        _field("status", "int", 0),
        _optional("snapshot_id", "long", 1),
        _optional("sequence_number", "long", 3),
        _optional("file_sequence_number", "long", 4),
        _field("data_file", _DATA_FILE, 2),
    ),
    separators=(",", ":"),
)
_SUMMARY = _record(
    "r508",
    _field("contains_null", "boolean", 509),
    _optional("contains_nan", "boolean", 518),
    _optional("lower_bound", "bytes", 510),
    _optional("upper_bound", "bytes", 511),
)
_MANIFEST = json.dumps(
    _record(
        "manifest_file",
        _field("manifest_path", "string", 500),
        _field("manifest_length", "long", 501),
        _field("partition_spec_id", "int", 502),
        _field("content", "int", 517),
        _field("sequence_number", "long", 515),
        _field("min_sequence_number", "long", 516),
        _field("added_snapshot_id", "long", 503),
        _field("added_files_count", "int", 504),
        _field("existing_files_count", "int", 505),
        _field("deleted_files_count", "int", 506),
        _field("added_rows_count", "long", 512),
        _field("existing_rows_count", "long", 513),
        _field("deleted_rows_count", "long", 514),
        _optional("partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}, 507),
        _optional("first_row_id", "long", 520),
    ),
    separators=(",", ":"),
)
