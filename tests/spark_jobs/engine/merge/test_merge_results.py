"""What a commit says of what tasks did."""

from pathlib import Path

import numpy as np
import pytest

from spark_jobs.config.modes import Mode
from spark_jobs.delta import deletion_vectors
from spark_jobs.delta.snapshot import DataFile, new_table
from spark_jobs.engine.merge.merge_results import marked_files, operation_name, row_metrics, write_metrics
from spark_jobs.engine.target.target_unit import MergedFiles
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, stored, table_of

TYPES = {"id": "INT", "v": "INT", "_raw": "MAP<STRING, STRING>"}


def numbers(*rows: int) -> bytes:
    return np.array(rows, np.int64).tobytes()


def test_rows_that_several_tasks_marked_are_one_vector_with_those_marked_before(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), TYPES, MAPPED)
    rows = table_of([Row((key,), key, key) for key in range(6)], ("id",), table.schema)
    snapshot = stored(table, [rows], {0: [5]})
    (file,) = snapshot.files
    results = [
        MergedFiles(0, {file.path: numbers(0, 1)}),
        MergedFiles(0, {file.path: numbers(1, 3)}),
        MergedFiles(0, {}),
    ]
    ((marked, descriptor),) = marked_files(snapshot, {file.path: file}, results)
    assert marked == file
    assert deletion_vectors.read(snapshot.path, descriptor).to_array().tolist() == [0, 1, 3, 5]
    assert marked_files(snapshot, {file.path: file}, [MergedFiles(0, {})]) == []


@pytest.mark.parametrize(
    "mode, has_files, is_overwrite, expected",
    [
        (Mode.MIRROR, True, False, "MERGE"),
        (Mode.MIRROR, False, False, "WRITE"),
        (Mode.MIRROR, True, True, "WRITE"),
        (Mode.APPEND, True, False, "WRITE"),
    ],
)
def test_what_the_history_calls_a_commit(mode: Mode, has_files: bool, is_overwrite: bool, expected: str) -> None:
    snapshot = new_table("none", TYPES, MAPPED).with_files([DataFile({"path": "a"})] if has_files else [])
    assert operation_name(snapshot, mode, is_overwrite=is_overwrite) == expected


def test_rows_that_were_only_copied_are_counted_apart() -> None:
    file = DataFile({"path": "a", "size": 70, "stats": '{"numRecords": 9}'})
    results = [MergedFiles(0, {}, added=(file,), inserted=2, updated=1, deleted=4), MergedFiles(0, {}, inserted=1)]
    assert row_metrics(results) == {
        "numTargetRowsInserted": 3,
        "numTargetRowsUpdated": 1,
        "numTargetRowsDeleted": 4,
    }
    assert write_metrics(Mode.MIRROR, results) == {"numTargetRowsCopied": 5, "numTargetBytesAdded": 70}
    assert write_metrics(Mode.SOFT_DELETE, results)["numTargetRowsCopied"] == 1
