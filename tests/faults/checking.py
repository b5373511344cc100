"""What silver and downstream have, held against the twin: nothing lost, nothing doubled, no position without its data.

Put here: reading a lake's tables and comparing them. Not here: how the lake came about.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from pyiceberg.table import StaticTable

from spark_jobs.config.model import Pipeline
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.change_data import BEFORE, CHANGE_TYPE, DELETE
from spark_jobs.delta.log_files import read_commit
from spark_jobs.delta.schema import DeltaColumn, TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, commit_info_of, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.iceberg import metadata_files
from spark_jobs.iceberg.table_view import FIRST_ID
from spark_jobs.lake.commit import APPLICATION, CommitKind
from spark_jobs.lake.layout import lake_of
from spark_jobs.silver.commit import SilverCommit
from tests.faults.changes import SCHEMA, SOURCE, Changes, Key, Row, Twin
from tests.faults.rules import RuledTwin
from tests.faults.runs import (
    APPEND_PARTIAL,
    CATALOG,
    EVERY_CHANGE,
    HISTORY_PARTIAL,
    ICEBERG,
    KEYLESS,
    LOADS,
    MERGED,
    REPLAYS,
    RULED,
    RULES,
    RULES_CHANGES,
    RULES_CHANGES_PARTIAL,
    RULES_PARTIAL,
    SHARED,
    SOFT,
    SOFT_DELETE,
    SOFT_KEYLESS,
    SOFT_PARTIAL,
)
from tests.lakes.iceberg_readers import by_delta, by_pyiceberg, in_order
from tests.services.iceberg_rest import RestCatalog

_Found = TypeVar("_Found")


class Wrong(AssertionError):
    """A table is not what the log makes of it."""


class Known:
    """What was found of tables before, which is not read again while all that it was found of is as it was."""

    def __init__(self) -> None:
        self._found: dict[Any, tuple[Any, Any]] = {}

    def of(self, subject: Hashable, path: str, facts: object, find: Callable[[], _Found]) -> _Found:
        """What is found of a subject: of the files in a table's folder, and of other facts."""
        all_facts = _files_in(path), facts
        before = self._found.get(subject)
        if before is None or before[0] != all_facts:
            self._found[subject] = before = all_facts, find()
        return cast("_Found", before[1])


def _files_in(folder: str) -> list[tuple[str, int, int, int]]:
    """The files in a folder and those below it, with what changes where one is written; none where there is none."""
    files, folders = [], [folder] if Path(folder).exists() else []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                else:
                    about = entry.stat()
                    files.append((entry.path, about.st_ino, about.st_size, about.st_mtime_ns))
    return sorted(files)


class Checks:
    """Compares a lake with the twin of a log."""

    def __init__(self, changes: Changes, layout: str = "mirrors") -> None:
        self.changes = changes
        self._layout = layout
        self._known = Known()
        self._twin = RuledTwin(changes) if layout in RULED else Twin(changes)
        self.loads: dict[str, tuple[int, int]] = {}
        """By table the offset at which its rows were loaded, and silver's version that has them."""
        self.catalog = RestCatalog()
        """The catalog in which tables are registered, where they are."""
        self.read_at: int | None = None
        """The offset of the rows that a load has read, by the load's own code."""
        self._merged: dict[tuple[str, str], int] = {}
        """Of each target the version of silver that it has."""
        self._silver = lru_cache(None)(self._twin.silver)
        self._downstream = lru_cache(None)(self._twin.downstream)

    def begin(self, catalog: RestCatalog) -> None:
        """Another lake is compared from here on. catalog: in which its tables are registered, where they are."""
        self._known, self.catalog = Known(), catalog
        self.loads, self.read_at = {}, None
        self._merged.clear()

    def check(self, pipeline: Pipeline, until: int | None = None) -> None:
        """Raises Wrong. until: the offset up to which nothing may be missing; without it tables may be behind."""
        lake = lake_of(pipeline)
        for table in self.changes.keys:
            silver = lake.silver(SOURCE, SCHEMA, table).path
            reached, versions = self._known.of(
                (table, "silver"), silver, self.read_at, partial(self._check_silver, table, silver)
            )
            merged = []
            for schema, name in self.targets(table):
                target, path = (schema, table), lake.downstream(schema, name).path
                facts = versions, self.loads.get(table)
                check = partial(self._check_downstream, target, path, versions)
                offset, self._merged[target] = self._known.of(target, path, facts, check)
                merged.append(offset)
            if self._layout in (ICEBERG, CATALOG):
                self._check_iceberg(table, lake.downstream(SCHEMA, table).path, is_up_to_date=until is not None)
            if until is None:
                continue
            end = self._twin.last_change(table, until)
            if min(reached, *merged) < end:
                raise Wrong(
                    f"{table}: lost: silver is at {reached}, downstream at {merged}, and it has changes to {end}"
                )
            for target in self.targets(table) if table in self.loads else ():
                if self._merged.get(target, -1) < self.loads[table][1]:
                    raise Wrong(f"{table} ({target[0]}): lost: rows that were loaded")

    def _check_iceberg(self, table: str, path: str, *, is_up_to_date: bool) -> None:
        check = partial(_check_iceberg, path, is_up_to_date=is_up_to_date)
        self._known.of((table, "iceberg"), path, is_up_to_date, check)
        if self._layout == CATALOG:
            location = self.catalog.tables.get((SCHEMA, table))
            check = partial(_check_registered, path, location, is_up_to_date=is_up_to_date)
            self._known.of((table, "catalog"), path, (location, is_up_to_date), check)

    def require_rows(self, pipeline: Pipeline, until: int = 0) -> None:
        """Raises Wrong where a downstream table has not the rows of the position that it says, or of one before until.

        Commits that are not there any more count for nothing, and nothing is taken from an earlier comparison.
        """
        lake = lake_of(pipeline)
        for table in self.changes.keys:
            for schema, name in self.targets(table):
                snapshot = snapshot_of(lake.downstream(schema, name).path)
                if snapshot is None:
                    continue
                commit = DownstreamCommit.from_json(snapshot.user_metadata)
                offset = _reached(commit, table)[0] if commit else 0
                ends = (end for end, event in self.changes.events if event.table == table and end <= until)
                last = max(ends, default=0)
                if offset < last:
                    raise Wrong(f"downstream of {table} ({schema}): is at {offset}, and has changes to {last}")
                actual, expected = self._contents((schema, table), rows_of_snapshot(snapshot), offset, commit)
                require_same(f"downstream of {table} ({schema})", actual, expected)

    def is_same_shape(self, start: int, stop: int) -> bool:
        """True if no statement of a table is between two offsets."""
        return not any(event.statement for end, event in self.changes.events if start < end <= stop)

    def rows_at(self, table: str, offset: int) -> list[Row]:
        """The rows that a table has at an offset."""
        return [*self._downstream(table, offset).values()]

    def _check_silver(self, table: str, path: str) -> tuple[int, dict[int, int]]:
        """Offset that silver has reached, and by version the offset of each commit."""
        snapshot = snapshot_of(path)
        if snapshot is None:
            return 0, {}
        return self._silver_reached(table, path, snapshot)

    def _silver_reached(self, table: str, path: str, snapshot: Snapshot) -> tuple[int, dict[int, int]]:
        commits = [SilverCommit.from_json(_commit_json(path, version)) for version in range(snapshot.version + 1)]
        loads = [commit for commit in commits if commit and commit.kind == CommitKind.LOAD]
        if self.read_at is not None and loads:
            self._check_loaded(table, snapshot, loads[-1], max(_offsets(commits).values()))
            if loads[-1].is_overwrite:  # downstream tells whether it is right
                return max(commit.position.offset for commit in commits if commit), _offsets(commits)
        windows = [
            (commit.start.offset, commit.position.offset)
            for commit in commits
            if commit and commit.start and commit.kind != CommitKind.LOAD
        ]
        versions = _offsets(commits)
        for (_, stop), (start, _) in pairwise(windows):
            if start < stop:
                raise Wrong(f"silver of {table}: doubled: a window ends at {stop}, and the next begins at {start}")
            if self._twin.has_changes(table, stop, start):
                raise Wrong(f"silver of {table}: lost: a window ends at {stop}, and the next begins at {start}")
        require_counted(f"silver of {table}", snapshot, [commit.batch for commit in commits if commit])
        until = windows[-1][1]
        expected = Counter[Any]()
        for start, stop in windows:
            for key, op, row in self._silver(table, start, stop, until):
                expected[start, stop, key, op, self._silver_cells(table, op, row)] += 1
        actual = Counter[Any]()
        for row in rows_of_snapshot(snapshot):
            if row["_op"] in ("truncate", "load"):
                continue
            position, key = (row["_window_start"]["offset"], row["_window_stop"]["offset"]), self._key_of(table, row)
            # What a row lacks is as it was before its window: the target tells whether it is right.
            twin_rows = {twin_key: twin_row for twin_key, _, twin_row in self._silver(table, *position, until)}
            lacking = {name: twin_rows.get(key, {}).get(name) for name in row.get("_absent") or ()}
            actual[*position, key, row["_op"], self._silver_cells(table, row["_op"], row | lacking)] += 1
        require_same(f"silver of {table}", actual, expected)
        return until, versions

    def _check_loaded(self, table: str, snapshot: Snapshot, commit: SilverCommit, until: int) -> None:
        """Raises Wrong where silver's rows that a load read are not those that were there, with the columns since.

        commit: that of the load. until: the offset that silver is at.
        """
        assert self.read_at is not None
        landed_at, expected = commit.position.offset, Counter[Any]()
        if not self._twin.is_emptied(table, self.read_at, landed_at):
            expected.update(row_cells(row) for row in self._twin.rows_read(table, self.read_at, until))
        actual = Counter[Any]()
        for row in rows_of_snapshot(snapshot):
            if row["_op"] == "load":
                actual[row_cells(row)] += row.get("_copies", 1)
        require_same(f"loaded rows of {table}", actual, expected)

    def _silver_cells(self, table: str, op: str, row: Row) -> tuple[tuple[str, Any], ...] | None:
        """What silver says of a row; of a key that was deleted the columns say nothing."""
        return None if op == "delete" and self.changes.keys[table] else row_cells(row)

    def targets(self, table: str) -> list[tuple[str, str]]:
        """The downstream tables of a source table, by schema and name."""
        if self._layout in (MERGED, SHARED):
            return [(SCHEMA, MERGED)]
        if self._layout == LOADS:
            return [(schema, table) for schema in EVERY_CHANGE]
        if self._layout in (APPEND_PARTIAL, HISTORY_PARTIAL):
            return [("append" if self._layout == APPEND_PARTIAL else "history", table)]
        if self._layout in (RULES_CHANGES, RULES_CHANGES_PARTIAL):
            return [(schema, table) for schema in EVERY_CHANGE]
        if self._layout in (RULES, RULES_PARTIAL):
            return [(schema, table) for schema in (SCHEMA, SOFT)]
        modes = EVERY_CHANGE if self._layout in ("modes", KEYLESS, REPLAYS) else ()
        return [(schema, table) for schema in (SCHEMA, *modes)]

    def _check_downstream(self, target: tuple[str, str], path: str, versions: dict[int, int]) -> tuple[int, int]:
        """The offset that a target has reached, and the version of silver that it has.

        target: its schema, which is its mode but for mirrors, and its source table. versions: of silver.
        """
        schema, table = target
        label = f"downstream of {table} ({schema})"
        snapshot = snapshot_of(path)
        if snapshot is None:
            return 0, -1
        commits = [DownstreamCommit.from_json(_commit_json(path, version)) for version in range(snapshot.version + 1)]
        own_commits = [commit for commit in commits if commit]
        require_counted(label, snapshot, [commit.batch for commit in own_commits])
        for file in snapshot.files:
            if not file.location(path).exists():
                raise Wrong(f"{label}: lost: {file.path} is not there")
        offset, silver_version = _reached(own_commits[-1], table)
        if offset and versions.get(silver_version) != offset:
            raise Wrong(f"{label}: its position is {offset}, and silver's then was {versions}")
        rows = rows_of_snapshot(snapshot)
        actual, expected = self._contents(target, rows, offset, own_commits[-1])
        if snapshot.has_change_data:
            require_same(f"feed of {label}", rows_by_feed(snapshot), Counter(row_cells(row) for row in rows))
        require_same(label, actual, expected)
        return offset, silver_version

    def _contents(
        self, target: tuple[str, str], rows: list[Row], offset: int, commit: DownstreamCommit | None
    ) -> tuple[Counter[Any], Counter[Any]]:
        """What a target has, and what it has to have at an offset. commit: its newest."""
        schema, table = target
        if self._layout == SHARED:
            reached = {table: _reached(commit, table)[0] if commit else 0 for table in self.changes.keys}
            shared_rows = self._twin.shared(reached)
            return (
                Counter((row["_table"], _present_cells(row)) for row in rows),
                Counter((owner, _present_cells(row)) for owner, row in shared_rows),
            )
        loaded_at, version = self.loads.get(table, (None, 0))
        silver_version = commit.silver_version if commit else 0
        loaded_at = loaded_at if silver_version >= version else None
        match schema:
            case "append":
                changes = self._twin.changes_of(table, offset, loaded_at)
                actual = [(row["_op"], () if row["_op"] == "truncate" else row_cells(row)) for row in _ordered(rows)]
                expected = [(op, row_cells(row)) for op, row in changes]
                # Rows that were loaded together are in no order.
                actual, expected = (
                    _with_sorted_loads(_from_first_row(actual)),
                    _with_sorted_loads(_from_first_row(expected)),
                )
                # Each with its number, so that their order is compared.
                return Counter(enumerate(actual)), Counter(enumerate(expected))
            case "history":
                versions = self._twin.versions_of(table, offset, loaded_at)
                actual_versions = (
                    (row["_op"], () if row["_op"] == "truncate" else row_cells(row), row["_is_current"])
                    for row in _ordered(rows)
                )
                expected_versions = ((op, row_cells(row), is_current) for op, row, is_current in versions)
                return Counter(_from_first_row(actual_versions)), Counter(_from_first_row(expected_versions))
            case _ if schema == SOFT or self._layout in (SOFT_DELETE, SOFT_PARTIAL, SOFT_KEYLESS):
                states = self._twin.kept_rows(table, offset)
                return (
                    Counter((row_cells(row), row["_deleted"]) for row in rows),
                    Counter((row_cells(row), is_deleted) for row, is_deleted in states),
                )
            case _:
                own_rows = [row for row in rows if row.get("_table", table) == table]
                expected_rows = self._downstream(table, offset).values()
                if self._layout != MERGED:
                    return Counter(map(row_cells, own_rows)), Counter(map(row_cells, expected_rows))
                # The table has the columns of the other parts too.
                return Counter(map(_present_cells, own_rows)), Counter(map(_present_cells, expected_rows))

    def _key_of(self, table: str, row: Row) -> Key:
        return self.changes.key(table, row) if self.changes.keys[table] else (row["_copies"],)


def _offsets(commits: Sequence[SilverCommit | None]) -> dict[int, int]:
    """By version the offset of each commit."""
    return {at: commit.position.offset for at, commit in enumerate(commits) if commit}


def _check_iceberg(path: str, *, is_up_to_date: bool) -> None:
    """Raises Wrong where a table has other rows as an Iceberg table than at the version that its metadata names."""
    snapshot, metadata = snapshot_of(path), metadata_files.newest(path)
    if snapshot is None or (metadata is None and not is_up_to_date):
        return
    if metadata is None:
        raise Wrong(f"{path}: has no Iceberg metadata")
    version = metadata.document["current-snapshot-id"] - FIRST_ID
    if version > snapshot.version or (is_up_to_date and version != snapshot.version):
        raise Wrong(f"{path}: is at version {snapshot.version}, and as an Iceberg table at {version}")
    if is_up_to_date and metadata_files.hint(path) != metadata.number:
        raise Wrong(f"{path}: its hint does not name Iceberg metadata {metadata.number}")
    rows, expected = by_pyiceberg(path), by_delta(path, version)
    if rows != expected:
        counts = f"{len(rows)} rows as an Iceberg table, and {len(expected)} as Delta's"
        raise Wrong(f"{path}: at version {version} has {counts}")


def _check_registered(path: str, location: str | None, *, is_up_to_date: bool) -> None:
    """Raises Wrong where a catalog does not name a table's newest metadata, or, of one that is behind, a readable one.

    location: of the metadata that the catalog names.
    """
    newest = metadata_files.newest(path)
    expected = f"{metadata_files.location(path)}/metadata/{metadata_files.file_name(newest.number)}" if newest else None
    if is_up_to_date and location != expected:
        raise Wrong(f"{path}: the catalog names {location}, and its newest metadata is {expected}")
    if location is None or location == expected:
        return
    # An earlier version reads as it did.
    table = StaticTable.from_metadata(location)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    version = snapshot.snapshot_id - FIRST_ID
    if in_order(table.scan().to_arrow()) != by_delta(path, version):
        raise Wrong(f"{path}: the catalog names {location}, which has other rows than version {version}")


def rows_by_feed(snapshot: Snapshot) -> Counter[Any]:
    """The rows that a table has by its change data feed alone, with the columns that it has now."""
    rows: Counter[Any] = Counter()
    schema = TableSchema((*snapshot.schema.columns, DeltaColumn(CHANGE_TYPE, "string")))
    for version in range(snapshot.version + 1):
        content = read_commit(snapshot.path, version) or b""
        actions = [json.loads(line) for line in content.splitlines()]
        # Where a commit has no files of changes, files that come and go say what changed.
        for action in (action["cdc"] for action in actions if "cdc" in action):
            for row in data_files.read_columns(snapshot.path, DataFile(action), schema.names, schema).to_pylist():
                kind = row.pop(CHANGE_TYPE)
                rows[row_cells(row)] += -1 if kind in (BEFORE, DELETE) else 1
        if not any("cdc" in action for action in actions):
            for action in actions:
                (kind, value), *_ = action.items()
                if kind in ("add", "remove") and value["dataChange"]:
                    file = snapshot.with_files([DataFile(value)])
                    for row in rows_of_snapshot(file):
                        rows[row_cells(row)] += 1 if kind == "add" else -1
    return rows


def require_counted(label: str, snapshot: Snapshot, batches: list[str]) -> None:
    """Raises Wrong where a batch is in two commits, or the counter of commits is another one."""
    if len(set(batches)) != len(batches):
        raise Wrong(f"{label}: doubled: a batch is in two commits")
    if snapshot.transactions.get(APPLICATION) != len(batches):
        raise Wrong(f"{label}: its counter is {snapshot.transactions}, and it has {len(batches)} commits")


def _from_first_row(changes: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Changes without statements that emptied the table before its first row: a run may have met these alone."""
    return [*dropwhile(lambda change: change[0] == "truncate", changes)]


def _reached(commit: DownstreamCommit, table: str) -> tuple[int, int]:
    """Offset and version of silver that a target has of a source table."""
    if commit.parts is None:
        return commit.position.offset, commit.silver_version
    part = next((part for part in commit.parts if part.table == table), None)
    return (part.position.offset, part.silver_version) if part else (0, -1)


def _with_sorted_loads(changes: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    loads = [at for at, (op, _) in enumerate(changes) if op == "load"]
    sorted_rows = sorted((changes[at] for at in loads), key=repr)
    return [*changes[: loads[0]], *sorted_rows, *changes[loads[-1] + 1 :]] if loads else changes


def _ordered(rows: list[Row]) -> list[Row]:
    """Rows in the log's order."""
    return sorted(rows, key=lambda row: tuple(row["_position"].values()))


def _commit_json(path: str, version: int) -> str | None:
    info = commit_info_of(path, version)
    return info.get("userMetadata") if info else None


def rows_of_snapshot(snapshot: Snapshot) -> list[Row]:
    records = []
    for file in snapshot.files:
        rows = data_files.read_columns(snapshot.path, file, snapshot.schema.names, snapshot.schema)
        if file.deletion_vector is not None:
            visible = np.ones(len(rows), np.bool_)
            visible[np.asarray(deletion_vectors.read(snapshot.path, file.deletion_vector).to_array(), np.int64)] = False
            rows = rows.filter(pa.array(visible))
        records += rows.to_pylist()
    return records


def row_cells(row: Row) -> tuple[tuple[str, Any], ...]:
    """The source's columns of a row, by name: equal rows have equal ones."""
    return tuple(sorted((name, value) for name, value in row.items() if not name.startswith("_")))


def _present_cells(row: Row) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for name, value in row_cells(row) if value is not None)


def require_same(label: str, actual: Counter[Any], expected: Counter[Any]) -> None:
    """Raises Wrong where rows are missing, or there too often."""
    missing, doubled = expected - actual, actual - expected
    if missing or doubled:
        raise Wrong(
            f"{label}: lost {sorted(missing.items(), key=repr)[:3]}, doubled {sorted(doubled.items(), key=repr)[:3]}"
        )
