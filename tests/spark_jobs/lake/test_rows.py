import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap64

from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.errors import LakeError
from spark_jobs.lake.rows import rows_of, rows_with

COLUMNS = {"id": "BIGINT", "name": "STRING"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Ten rows in two files, of which the third is deleted."""
    empty = new_table(str(tmp_path), COLUMNS, {"delta.enableDeletionVectors": "true"})
    tables = [pa.table({"id": range(at, at + 5), "name": [f"n{n % 3}" for n in range(at, at + 5)]}) for at in (0, 5)]
    files = [data_files.write(empty.path, rows, empty.schema, empty.configuration) for rows in tables]
    commits.commit(empty, adds=files)
    stored = snapshot_of(empty.path)
    assert stored
    (vector,) = deletion_vectors.write(empty.path, [BitMap64([2])])
    commits.commit(stored, dv_updates=[(next(file for file in stored.files if file.key == files[0].key), vector)])
    return empty.path


def ids(path: str, condition: pc.Expression | None, columns: tuple[str, ...] = ("id",), rows: int = 2) -> list[int]:
    batches = list(rows_of(path, 1, columns, condition, rows=rows))
    assert all(batch.num_rows <= rows and batch.schema.names == list(columns) for batch in batches)
    return sorted(number for batch in batches for number in batch.column("id").to_pylist())


def test_deleted_rows_are_left_out(path: str) -> None:
    assert ids(path, None) == [0, 1, 3, 4, 5, 6, 7, 8, 9]


def test_a_condition_uses_columns_that_are_not_given(path: str) -> None:
    assert ids(path, (pc.field("id") > 6) & (pc.field("name") == "n1")) == [7]


def test_rows_are_found_by_values(path: str) -> None:
    snapshot = snapshot_of(path)
    assert snapshot
    assert list(rows_with(snapshot, ["id"], [("name", "=", "n0"), ("id", "=", 6)])) == [{"id": 6}]
    assert [row["id"] for row in rows_with(snapshot, ["name", "id"], [("name", "=", "n2")])] == [5, 8], "2 is deleted"
    assert len(list(rows_with(snapshot, ["id"], []))) == 9


def test_small_tables_are_read_without_pandas(tmp_path: Path) -> None:
    """With all types that tables of the lake have: Arrow would import pandas for a time with its zone."""
    empty = new_table(str(tmp_path), COLUMNS | {"at": "TIMESTAMP", "parts": "ARRAY<STRUCT<n: BIGINT>>"}, {})
    moment = datetime(2026, 11, 28, 12, 30, 15, 250_000, UTC)
    at = pa.array([moment, None], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": [1, 2], "name": ["ä", None], "at": at, "parts": [[{"n": 1}], None]})
    commits.commit(empty, adds=[data_files.write(empty.path, rows, empty.schema, empty.configuration)])
    code = (
        "import sys; from spark_jobs.delta.snapshot import snapshot_of; from spark_jobs.lake.rows import rows_with\n"
        f"s = snapshot_of({str(tmp_path)!r}); found = list(rows_with(s, s.schema.names, [('name', '=', 'ä')]))\n"
        "print(found, 'pandas' in sys.modules, sep='; ')"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    found = [{"id": 1, "name": "ä", "at": moment, "parts": [{"n": 1}]}]
    assert printed == f"{found}; False\n"


def test_a_version_that_is_gone_is_an_error(path: str) -> None:
    with pytest.raises(LakeError, match="has no version 7"):
        list(rows_of(path, 7, ["id"], None, rows=1))
    assert deltalake.DeltaTable(path).version() == 1
