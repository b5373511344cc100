"""Cost and effect of folding silver's old windows, on a table of some millions of rows.

A run takes in a small described log, so that every table of the lake is there; then silver gets windows as further runs
would have appended them, written without a log: a file and a commit each. Bronze says that all but the last tenth of
their log is gone.

Put here: the measurement. Not here: what a fold does (spark_jobs/operations/retention/fold_windows.py).
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import deltalake
import numpy as np
import pyarrow as pa
import yaml
from deltalake import CommitProperties, Transaction
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from benchmarks.progress_lines import print_progress
from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.lake.commit import APPLICATION, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import FIRST_EVENT, Position
from spark_jobs.operations.retention.fold_windows import fold
from spark_jobs.pipeline.run import merge_source, publish, run_source
from spark_jobs.runtime.spark_session import slots
from spark_jobs.silver.commit import SilverCommit
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec
from tests.binlogs.segment_spec import Table as SpecTable
from tests.binlogs.segment_types import INT, VARCHAR

Result = TypeVar("Result")
SOURCE, NAME = "log", TableName("bench", "t")
WINDOWS = 320
_CHANGES_A_KEY = 5
"""So many rows of silver a key has in the end, about."""
_DELETED = 0.1
"""Part of a window's rows whose keys go."""


def measure(spark: SparkSession, folder: Path, rows: int) -> None:
    """Prints a table of what silver is, and what a fresh downstream table from it costs, before and after a fold."""
    pipeline = pipeline_of(folder)
    run_source(spark, pipeline, SOURCE)
    print_progress(f"writing {WINDOWS} windows, {rows:,} rows")
    append_windows(pipeline, rows)
    read_log(pipeline, oldest=begin_of(2 + WINDOWS * 9 // 10))
    silver = lake_of(pipeline).silver(SOURCE, NAME.schema, NAME.table)
    lines = [_fold_line("as runs left it", spark, pipeline, silver)]
    (entry,) = publication.read(lake_of(pipeline), SOURCE)
    print_progress("folding")
    fold_result, seconds = _timed(lambda: fold(spark, lake_of(pipeline), entry, Capacity(slots(spark))))
    assert fold_result
    lines.append(_fold_line("folded", spark, pipeline, silver))
    print(
        "| silver | rows | files | MB | a fresh downstream table, s | its rows |\n| --- | --- | --- | --- | --- | --- |"
    )
    print("\n".join(lines))
    print(f"\nThe fold of {fold_result.rows_before:,} rows to {fold_result.rows_after:,}: {seconds:.1f} s")


def pipeline_of(folder: Path) -> Pipeline:
    """Over one file that inserts a row; plain, so that windows can be written without Spark."""
    table = SpecTable(str(NAME), key=["id"], id=INT.NOT_NULL, a=INT, b=INT, c=INT, note=VARCHAR(40))
    spec = SegmentSpec([table], [Insert(str(NAME), (0, 1, 2, 3, "x")), Commit()])
    (folder / "log").mkdir(parents=True)
    (folder / "log" / "b.000001").write_bytes(replace(spec, rotate_to="b.000002").to_bytes())
    document = {"lake": "./lake", "sources": {SOURCE: {"files": "./log"}}, "tables": ["bench.*"], "compat": "plain"}
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(folder / "pipeline.yaml")


def append_windows(pipeline: Pipeline, rows: int) -> None:
    """Appends windows to silver: each of a file of the log, each with its keys once."""
    table = lake_of(pipeline).silver(SOURCE, NAME.schema, NAME.table)
    head = table.head()
    assert head is not None
    assert head.checkpoint is not None
    chance = np.random.default_rng(1)
    is_there = np.zeros(rows // _CHANGES_A_KEY, np.bool_)
    schema = pa.schema(deltalake.DeltaTable(table.path).schema().to_arrow())
    for window in range(WINDOWS):
        keys = np.sort(chance.choice(len(is_there), rows // WINDOWS, replace=False)).astype(np.int32)
        number = 2 + window
        commit = SilverCommit.of(head.checkpoint)
        next_commit = replace(commit, position=begin_of(number + 1), batch=new_batch(), start=begin_of(number))
        deltalake.write_deltalake(
            table.path,
            _window_rows(schema, keys, is_there, number, chance),
            mode="append",
            commit_properties=CommitProperties(
                custom_metadata={"userMetadata": next_commit.to_json()},
                app_transactions=[Transaction(APPLICATION, head.counter + 1 + window)],
            ),
        )


def begin_of(number: int) -> Position:
    return Position(f"b.{number:06d}", FIRST_EVENT)


def _window_rows(
    schema: pa.Schema, keys: NDArray[np.int32], is_there: NDArray[np.bool_], number: int, chance: np.random.Generator
) -> pa.Table:
    """Rows of a window, in the order of their keys; what is there afterwards is noted."""
    count = len(keys)
    existed = is_there[keys].copy()
    deleted = existed & (chance.random(count) < _DELETED)
    is_there[keys] = ~deleted
    operations = np.where(deleted, "delete", np.where(existed, "update", "insert"))

    def position(offset: Any, **columns: Any) -> pa.Array:
        cells = {"stretch": np.ones(count, np.int32), "number": np.full(count, number, np.int64), "offset": offset}
        cells |= columns
        return pa.StructArray.from_arrays([pa.array(cell) for cell in cells.values()], list(cells))

    begin = np.full(count, FIRST_EVENT, np.int64)
    cells: dict[str, Any] = {
        "id": keys,
        **{name: chance.integers(0, 1 << 30, count, np.int32) for name in "abc"},
        "note": [
            f"note {value} of row {key}" for value, key in zip(chance.integers(0, 1 << 30, count), keys, strict=True)
        ],
        "_op": operations,
        "_existed": existed,
        "_position": position(begin + np.arange(count) * 60, row=np.zeros(count, np.int32)),
        "_committed_at": pa.array(
            np.full(count, 1_767_000_000_000_000 + number * 60_000_000), pa.timestamp("us", "UTC")
        ),
        "_window_start": position(begin),
        "_window_stop": position(begin, number=np.full(count, number + 1, np.int64)),
        "_raw": pa.nulls(count, schema.field("_raw").type),
    }
    return pa.table({name: pa.array(cells[name]).cast(schema.field(name).type) for name in schema.names})


def read_log(pipeline: Pipeline, oldest: Position | None = None) -> None:
    """Bronze and ``published`` as they are once the log of all windows was read.

    oldest: where the log begins that gc has left; None where it has removed none.
    """
    lake = lake_of(pipeline)
    table, end = lake.bronze(SOURCE), begin_of(2 + WINDOWS)
    head = table.head()
    assert head is not None
    assert head.checkpoint is not None
    commit = BronzeCommit.of(head.checkpoint)
    next_commit = replace(commit, position=end, batch=new_batch(), oldest=oldest or commit.oldest)
    table.append_rows(bronze.ARROW.empty_table(), head, next_commit)
    entries = publication.read(lake, SOURCE)
    silver = lake.silver(SOURCE, NAME.schema, NAME.table).head()
    assert silver is not None
    moved = [replace(entry, position=str(end), surveyed=str(end), silver_version=silver.version) for entry in entries]
    publication.write(lake, SOURCE, moved, end)


def _fold_line(label: str, spark: SparkSession, pipeline: Pipeline, silver: Table) -> str:
    files, rows = silver.file_sizes(), silver.rows_written()
    target = lake_of(pipeline).downstream(NAME.schema, NAME.table)
    shutil.rmtree(target.path)
    print_progress(f"silver {label}: a fresh downstream table")
    outcome, seconds = _timed(lambda: merge_source(spark, pipeline, SOURCE))
    assert outcome.stopped == {}
    publish(pipeline, SOURCE, outcome)
    count = target.read(spark).count()
    return f"| {label} | {rows:,} | {len(files):,} | {sum(files) / 1e6:,.1f} | {seconds:.1f} | {count:,} |"


def _timed(do: Callable[[], Result]) -> tuple[Result, float]:
    began = time.perf_counter()
    return do(), time.perf_counter() - began
