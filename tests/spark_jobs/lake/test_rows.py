from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap64

from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.errors import LakeError
from spark_jobs.lake.rows import all_of, rows_of

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
    assert ids(path, all_of([("name", "=", "n0")])) == [0, 3, 6, 9]
    assert ids(path, (pc.field("id") > 6) & (pc.field("name") == "n1")) == [7]
    assert all_of([]) is None


def test_a_version_that_is_gone_is_an_error(path: str) -> None:
    with pytest.raises(LakeError, match="has no version 7"):
        list(rows_of(path, 7, ["id"], None, rows=1))
    assert deltalake.DeltaTable(path).version() == 1
