"""Commits by the driver itself, without a JVM: rows of small Arrow tables, and files.

Put here: what such commits are made upon, columns and rows added, and rows that replace those of some values. Not here:
Delta's log format (delta/), committing (table.py), or what silver and downstream commit (engine/).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta import data_files, features, schema_changes
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Head
from spark_jobs.lake.rows import small_file

CommitArguments = dict[str, Any]
"""Arguments of ``delta.commits.commit``, which ``Table.land`` calls."""
Cells = Mapping[str, str]
"""Values by column name; rows that have all of them are meant, and all rows where there are none."""


def snapshot_upon(path: str, head: Head, *, appends: bool = False) -> Snapshot:
    """Basis of a commit upon a head: a version of the table, or the design of one that is not there yet.

    appends: whether the commit adds files and nothing else. What files the table has is not read for it. Raises
    LakeError where another tool gave the table what is not written here.
    """
    if head.design:
        return new_table(path, head.design.columns, head.design.properties)
    snapshot = snapshot_of(path, head.version)
    if snapshot is None:
        raise LakeError(f"{path}: has no version {head.version} any more; restore the table's _delta_log")
    features.require_written(snapshot, appends=appends)
    return snapshot


def with_columns(snapshot: Snapshot, columns: Mapping[str, str]) -> tuple[Snapshot, CommitArguments]:
    """A table with the columns that it lacks, by name and Spark type, and what a commit has that adds them."""
    design = schema_changes.design_of(snapshot)
    for name, kind in columns.items():
        if name not in snapshot.schema.names:
            design = schema_changes.add_column(design, name, kind)
    if design.schema == snapshot.schema:
        return snapshot, {}
    wider = replace(snapshot, metadata=design.metadata, protocol=design.protocol)
    return wider, {"metadata": wider.metadata, "protocol": wider.protocol}


def require_shared(upon: Snapshot, changes: CommitArguments) -> None:
    """Check that the driver sees all files that tasks wrote, and none is on another machine's disk.

    Raises LakeError.
    """
    vectors = (vector for _, vector in changes.get("dv_updates", ()) if vector.storage_type == "u")
    positions = [file.location(upon.path) for kind in ("adds", "changes") for file in changes.get(kind, ())]
    positions += [vector.location(upon.path) for vector in vectors]
    try:
        missing = [path for path in positions if isinstance(path, Path) and not path.exists()]  # a store is one for all
    except OSError as error:
        raise LakeError(f"{upon.path}: cannot be read: {error.strerror}: {error.filename}") from error
    if missing:
        raise LakeError(
            f"{upon.path}: a task wrote {missing[0].name}, and it is not there; set lake: to a path of a file system "
            "that this machine and all executors share (stratalog docs clusters#the-lake)"
        )


def commit_of_rows(snapshot: Snapshot, rows: pa.Table, head: Head, cells: Cells | None = None) -> CommitArguments:
    """Commit that appends rows upon a head; in place of those that have all the cells, where these are given.

    The rows are written, and no commit names them yet. Raises LakeError.
    """
    rows = rows.select(list(head.design.columns)) if head.design else rows
    removed, kept_rows = (None, []) if cells is None else _split(snapshot, cells)
    try:
        table = pa.concat_tables([*kept_rows, _in_columns(rows, snapshot.schema)])
    except pa.ArrowException as error:
        raise LakeError(
            f"{snapshot.path}: has columns of other types than what is written: {error}; take back what another tool "
            "changed"
        ) from error
    added = [data_files.write(snapshot.path, table, snapshot.schema, snapshot.configuration)] if table.num_rows else []
    return commit_of_files(added, removed)


def commit_of_files(added: Sequence[DataFile], removed: Sequence[DataFile] | None = None) -> CommitArguments:
    """Commit that adds files; in place of those that go, where these are given."""
    return {
        "adds": added,
        "removes": removed or (),
        "operation_parameters": {"mode": "Append" if removed is None else "Overwrite", "partitionBy": "[]"},
        "metrics": {"numFiles": len(added), "numOutputRows": sum(file.num_records or 0 for file in added)},
    }


def _split(snapshot: Snapshot, cells: Cells) -> tuple[list[DataFile], list[pa.Table]]:
    """The files with rows that have all the cells, and the other rows of these files."""
    removed, kept_rows = [], []
    for file in snapshot.files:
        rows = small_file(snapshot, file, snapshot.schema.names)
        is_match = pa.array(np.ones(rows.num_rows, bool))
        for name, value in cells.items():
            is_match = pc.and_(is_match, pc.fill_null(pc.equal(rows.column(name), value), False))
        if pc.any(is_match).as_py():
            removed.append(file)
            kept_rows.append(rows.filter(pc.invert(is_match)))
    return removed, kept_rows


def _in_columns(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """The rows with the table's columns; those that they lack are null."""
    table_schema = schema.arrow(physical=False)
    for field in table_schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return (
        rows.select(table_schema.names).cast(table_schema)
        if set(rows.column_names) == set(table_schema.names)
        else rows
    )
