"""What silver and downstream have, held against the twin: nothing lost, nothing doubled, no position without its data.

Put here: reading a lake's tables and comparing them. Not here: how the lake came about.
"""

from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.config.model import Pipeline
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.snapshot import Snapshot, commit_info_of, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.lake.commit import APPLICATION
from spark_jobs.lake.layout import lake_of
from spark_jobs.silver.commit import SilverCommit
from tests.faults.changes import SCHEMA, SOURCE, Changes, Key, Row, Twin


class Wrong(AssertionError):
    """A table is not what the log makes of it."""


class Checks:
    """Compares a lake with the twin of a log."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self._twin = Twin(changes)
        self._right_silver: dict[frozenset[str], tuple[int, dict[int, int]]] = {}
        self._right_downstream = set[frozenset[str]]()
        """States of tables that were right, and what silver has reached there."""
        self._silver = lru_cache(None)(self._twin.silver)
        self._downstream = lru_cache(None)(self._twin.downstream)

    def check(self, pipeline: Pipeline, until: int | None = None) -> None:
        """Raises Wrong. until: the offset up to which nothing may be missing; without it tables may be behind."""
        lake = lake_of(pipeline)
        for table in self.changes.keys:
            reached, versions = self._check_silver(table, lake.silver(SOURCE, SCHEMA, table).path)
            merged = self._check_downstream(table, lake.downstream(SCHEMA, table).path, versions)
            if until is None:
                continue
            events = [(end, event) for end, event in self.changes.events if event.table == table and end <= until]
            has_rows = any(event.after for _, event in events)  # of a table without any, statements alone make none
            end = events[-1][0] if has_rows else 0
            if min(reached, merged) < end:
                raise Wrong(
                    f"{table}: lost: silver is at {reached}, downstream at {merged}, and it has changes to {end}"
                )

    def _check_silver(self, table: str, path: str) -> tuple[int, dict[int, int]]:
        """Offset that silver has reached, and by version the offset of each commit."""
        snapshot = snapshot_of(path)
        if snapshot is None:
            return 0, {}
        state = _state(snapshot)
        if state not in self._right_silver:
            self._right_silver[state] = self._silver_reached(table, path, snapshot)
        return self._right_silver[state]

    def _silver_reached(self, table: str, path: str, snapshot: Snapshot) -> tuple[int, dict[int, int]]:
        commits = [SilverCommit.from_json(_content(path, version)) for version in range(snapshot.version + 1)]
        windows = [(commit.start.offset, commit.position.offset) for commit in commits if commit and commit.start]
        versions = {at: commit.position.offset for at, commit in enumerate(commits) if commit}
        for (_, stop), (start, _) in pairwise(windows):
            if start < stop:
                raise Wrong(f"silver of {table}: doubled: a window ends at {stop}, and the next begins at {start}")
            if self._twin.has_changes(table, stop, start):
                raise Wrong(f"silver of {table}: lost: a window ends at {stop}, and the next begins at {start}")
        self._require_counted(f"silver of {table}", snapshot, [commit.batch for commit in commits if commit])
        until = windows[-1][1]
        expected = Counter[Any]()
        for start, stop in windows:
            for key, (op, row) in self._silver(table, start, stop, until).items():
                expected[start, stop, key, op, None if op == "delete" else _cells(row)] += 1
        actual = Counter[Any]()
        for row in _rows(snapshot):
            if row["_op"] == "truncate":
                continue
            place = row["_window_start"]["offset"], row["_window_stop"]["offset"]
            actual[*place, self._key(table, row), row["_op"], None if row["_op"] == "delete" else _cells(row)] += 1
        _require_same(f"silver of {table}", actual, expected)
        return until, versions

    def _check_downstream(self, table: str, path: str, versions: dict[int, int]) -> int:
        snapshot = snapshot_of(path)
        if snapshot is None:
            return 0
        commits = [DownstreamCommit.from_json(_content(path, version)) for version in range(snapshot.version + 1)]
        own_commits = [commit for commit in commits if commit]
        self._require_counted(f"downstream of {table}", snapshot, [commit.batch for commit in own_commits])
        offset = own_commits[-1].position.offset
        for file in snapshot.files:
            if not file.location(path).exists():
                raise Wrong(f"downstream of {table}: lost: {file.path} is not there")
        if versions.get(own_commits[-1].silver_version) != offset:
            raise Wrong(f"downstream of {table}: its position is {offset}, and silver's then was {versions}")
        if _state(snapshot) in self._right_downstream:
            return offset
        expected = Counter({_cells(row): 1 for row in self._downstream(table, offset).values()})
        _require_same(f"downstream of {table}", Counter(_cells(row) for row in _rows(snapshot)), expected)
        self._right_downstream.add(_state(snapshot))
        return offset

    def _require_counted(self, label: str, snapshot: Snapshot, batches: list[str]) -> None:
        if len(set(batches)) != len(batches):
            raise Wrong(f"{label}: doubled: a batch is in two commits")
        if snapshot.transactions.get(APPLICATION) != len(batches):
            raise Wrong(f"{label}: its counter is {snapshot.transactions}, and it has {len(batches)} commits")

    def _key(self, table: str, row: Row) -> Key:
        return self.changes.key(table, row)


def _state(snapshot: Snapshot) -> frozenset[str]:
    """A table's version by what it is of: its own commit, and the files that are there."""
    files = (f"{file.location(snapshot.path)} {file.location(snapshot.path).exists()}" for file in snapshot.files)
    return frozenset([f"{snapshot.path} {snapshot.commit_info.get('txnId')}", *files])


def _content(path: str, version: int) -> str | None:
    info = commit_info_of(path, version)
    return info.get("userMetadata") if info else None


def _rows(snapshot: Snapshot) -> list[Row]:
    records = []
    for file in snapshot.files:
        rows = data_files.read_columns(snapshot.path, file, snapshot.schema.names, snapshot.schema)
        if file.deletion_vector is not None:
            visible = np.ones(len(rows), np.bool_)
            visible[np.asarray(deletion_vectors.read(snapshot.path, file.deletion_vector).to_array(), np.int64)] = False
            rows = rows.filter(pa.array(visible))
        records += rows.to_pylist()
    return records


def _cells(row: Row) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, value) for name, value in row.items() if not name.startswith("_")))


def _require_same(label: str, actual: Counter[Any], expected: Counter[Any]) -> None:
    missing, doubled = expected - actual, actual - expected
    if missing or doubled:
        raise Wrong(
            f"{label}: lost {sorted(missing.items(), key=repr)[:3]}, doubled {sorted(doubled.items(), key=repr)[:3]}"
        )
