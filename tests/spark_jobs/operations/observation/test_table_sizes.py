import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from spark_jobs.delta.history import CommitInfo
from spark_jobs.delta.log_files import create_commit
from spark_jobs.lake.commit import Checkpoint, CommitKind
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.table_sizes import MergeCounts, TableSize, _counts, size_of

METADATA = Checkpoint(Position.parse("b.000001:100"), "b")


def entry(metrics: Any, kind: str = CommitKind.LIVE) -> CommitInfo:
    checkpoint = Checkpoint(Position.parse("b.000001:100"), "b", kind=kind)
    return CommitInfo(7, "MERGE", checkpoint.to_json(), {}, metrics)


def test_a_table_counts_its_rows_files_and_bytes(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    assert size_of(Table(path, plain=False), has_merges=True) is None
    for rows in (3, 4):
        deltalake.write_deltalake(path, pa.table({"id": pa.array(range(rows), pa.int64())}), mode="append")
    size = size_of(Table(path, plain=False), has_merges=True)
    assert isinstance(size, TableSize)
    files = sum(file.stat().st_size for file in (tmp_path / "t").glob("*.parquet"))
    assert (size.rows, size.files, size.bytes, size.merge) == (7, 2, files, None)
    assert size.committed_at


@pytest.mark.parametrize(
    "history_entry, counts",
    [
        (entry({"numTargetRowsInserted": "1", "numTargetRowsUpdated": 2, "numTargetRowsCopied": "5"}),
         MergeCounts(3, 5, None)),
        (entry('{"numTargetRowsDeleted": "4", "numTargetBytesAdded": "9", "numTargetRowsInserted": "0"}'),
         MergeCounts(4, None, 9)),
        (entry({"numOutputRows": "7", "numOutputBytes": "70"}), MergeCounts(7, 0, 70)),
        (entry({"numOutputRows": "7"}, CommitKind.MAINTENANCE), None),
        (CommitInfo(7, "OPTIMIZE", None, {}), None),
    ],
)  # fmt: skip
def test_a_merge_is_by_its_commit(history_entry: CommitInfo, counts: MergeCounts | None) -> None:
    assert _counts(history_entry) == counts


def test_the_last_merge_is_looked_for_behind_maintenance(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"id": [1]}))
    metrics = {"numTargetRowsInserted": "1", "numTargetRowsUpdated": "2", "numTargetRowsCopied": "5"}
    merges = []
    for version in range(1, 8):
        commit = entry(metrics, CommitKind.LIVE if version == 2 else CommitKind.MAINTENANCE)
        info = {"timestamp": version, "userMetadata": commit.user_metadata, "operationMetrics": commit.metrics}
        assert create_commit(path, version, json.dumps({"commitInfo": info}).encode())
        size = size_of(Table(path, plain=False), has_merges=True)
        assert size
        merges.append(size.merge)
    assert merges == [None, *[MergeCounts(3, 5, None)] * 5, None]
