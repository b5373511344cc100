"""Actions as the files of a table's log have them: lines of a commit, rows of a checkpoint.

Put here: reading them. Not here: which files are read (log_files.py), or what a version consists of (snapshot.py).
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.delta.damage import decoding, decoding_commit
from spark_jobs.delta.log_files import LogListing, other_checkpoints
from spark_jobs.storage.files import StoredPath, readable

_NOT_READ = ("stats_parsed", "partitionValues_parsed")


def commit_actions(path: str, version: int, content: bytes) -> Iterator[dict[str, Any]]:
    """The actions of a commit's file, in order. Raises LakeError where they cannot be read."""
    for line in content.splitlines():
        if line.strip():
            with decoding_commit(path, version):
                action = json.loads(line)
            yield action


def checkpoint_actions(path: str, listing: LogListing, wanted_kinds: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The actions of these kinds in a listing's checkpoint. Raises LakeError where they cannot be read."""
    for file in listing.checkpoint:
        with decoding(f"{path}: its checkpoint {file.name}"):
            rows = _checkpoint_rows(file, wanted_kinds)
            columns = {kind: _structs(rows.column(kind).drop_null().combine_chunks()) for kind in rows.column_names}
        for kind, values in columns.items():
            if kind == "sidecar" and values:
                raise other_checkpoints(path)
            yield from ({kind: value} for value in values)


def _checkpoint_rows(file: StoredPath, wanted_kinds: Sequence[str]) -> pa.Table:
    """The actions of a checkpoint that make up a version, a column a kind."""
    parquet = pq.ParquetFile(readable(file))
    kinds = {item.name: item for item in parquet.schema_arrow}
    columns = []
    for kind in wanted_kinds:
        if kind in kinds:
            names = [item.name for item in kinds[kind].type]
            columns += [f"{kind}.{name}" for name in names if name not in _NOT_READ]
    return parquet.read(columns=columns)


def _structs(array: pa.StructArray) -> list[dict[str, Any]]:
    """A struct array's rows, without fields that are null; field by field, which is a tenth of ``to_pylist``'s time."""
    records: list[dict[str, Any]] = [{} for _ in range(len(array))]
    for item, values in zip(array.type, array.flatten(), strict=True):
        if values.null_count == len(values):
            continue
        if pa.types.is_struct(item.type):
            present = pc.indices_nonzero(values.is_valid()).to_pylist()
            for at, value in zip(present, _structs(values.drop_null()), strict=True):
                records[at][item.name] = value
            continue
        for action, value in zip(records, values.to_pylist(maps_as_pydicts="strict"), strict=True):
            if value is not None:
                action[item.name] = value
    return records
