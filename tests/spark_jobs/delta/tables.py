"""Rows of all types of columns, and tables of them. Put here: what several tests of the package write."""

import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_jobs.delta import commits, data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import Snapshot, new_table, snapshot_of

MAPPED = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
BRONZE = {"delta.dataSkippingNumIndexedCols": "4"}
TYPES = {
    "key": "BIGINT",
    "b": "BOOLEAN",
    "i8": "TINYINT",
    "i16": "SMALLINT",
    "i32": "INT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(12,2)",
    "wide": "DECIMAL(38,10)",
    "text": "STRING",
    "bytes": "BINARY",
    "day": "DATE",
    "at": "TIMESTAMP",
    "local": "TIMESTAMP_NTZ",
    "point": "STRUCT<srid: INT, wkb: BINARY>",
    "_raw": "MAP<STRING, STRING>",
    "vector": "ARRAY<FLOAT>",
    "tables": "ARRAY<STRUCT<schema: STRING, table: STRING>>",
    "_position": "STRUCT<stretch: INT, number: BIGINT, offset: BIGINT, row: INT>",
}


def value(name: str, key: int) -> Any:
    """A value of a column, null for some keys."""
    rng = random.Random(f"{name} {key}")
    if name != "key" and rng.random() < 0.2:
        return None
    year, micros = rng.choice([1, 1582, 1969, 2024, 9999]), rng.randint(0, 999999)
    moment = datetime.fromisoformat(f"{year:04}-10-{rng.randint(1, 28):02}T23:59:59.{micros:06}")
    text = "".join(rng.choices("aZ ü😀\U0010ffff\x7f'\"\\", k=rng.choice([0, 3, 31, 32, 33, 80])))
    values = {
        "key": key,
        "b": rng.random() < 0.5,
        "i8": rng.randint(-128, 127),
        "i16": rng.randint(-(1 << 15), (1 << 15) - 1),
        "i32": rng.randint(-(1 << 31), (1 << 31) - 1),
        "f": rng.choice([0.5, -0.0, float("inf"), 3.25]),
        "d": rng.choice([rng.random(), float("-inf"), -1e300]),
        "m": Decimal(rng.randint(-(10**12) + 1, 10**12 - 1)).scaleb(-2),
        "wide": Decimal(rng.randint(-(10**37), 10**37)).scaleb(-10),
        "text": text,
        "bytes": rng.randbytes(rng.choice([0, 5, 40])),
        "day": moment.date(),
        "at": moment.replace(tzinfo=UTC),
        "local": moment,
        "point": {"srid": rng.choice([None, 4326]), "wkb": b"\x01"},
        "_raw": [(text[:3], rng.choice([None, "v"]))],
        "vector": [0.5, None, 1.5][: rng.randint(0, 3)],
        "tables": [{"schema": "s", "table": text[:2]}, None][: rng.randint(0, 2)],
        "_position": {"stretch": 1, "number": key, "offset": 1 << 40, "row": 0},
    }
    return values[name]


def rows(schema: TableSchema, keys: range | list[int]) -> pa.Table:
    """Rows of these keys, by logical names."""
    return pa.Table.from_pydict(
        {name: [value(name, key) for key in keys] for name in schema.names}, schema=schema.arrow(physical=False)
    )


def append(snapshot: Snapshot, keys: range | list[int], **options: Any) -> Snapshot:
    """The snapshot after one commit of rows of these keys."""
    file = data_files.write(snapshot.path, rows(snapshot.schema, keys), snapshot.schema, snapshot.configuration)
    version = commits.commit(snapshot, adds=[file], **options)
    return newest(snapshot.path, version)


def newest(path: str, version: int) -> Snapshot:
    """The newest snapshot, which is of this version."""
    snapshot = snapshot_of(path)
    assert snapshot is not None
    assert snapshot.version == version
    return snapshot


def begin(path: str, properties: dict[str, str] | None = None, types: dict[str, str] | None = None) -> Snapshot:
    return new_table(path, TYPES if types is None else types, MAPPED if properties is None else properties)


def all_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The rows of a snapshot without deletion vectors, by key."""
    names = snapshot.schema.names
    tables = [data_files.read_columns(snapshot.path, file, names, snapshot.schema) for file in snapshot.files]
    return sorted(pa.concat_tables(tables).to_pylist(), key=lambda row: row["key"])
