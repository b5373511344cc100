"""Data files of rows that Spark tasks make, written by the tasks; no commit names the files yet.

Put here: running such tasks. Not here: slices of the log (bronze/landing.py), the engine's units
(engine/jobs/spark_job.py).
"""

import pickle
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.runtime.engine_errors import translated
from spark_jobs.runtime.executors import checked
from spark_jobs.storage.store_access import with_registered_stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterator[pa.RecordBatch]
_RESULT = pa.schema([("value", pa.binary())])


def write_in_tasks(rows: "DataFrame", make: Callable[[Batches], Batches], snapshot: Snapshot) -> list[DataFile]:
    """The files of what ``make`` makes of the rows, in the columns of the snapshot's table; one a task that has any.

    Raises what a task raised, LakeError.
    """
    task = with_registered_stores(_writing(snapshot.path, snapshot.schema, dict(snapshot.configuration), make))
    with translated(snapshot.path):
        results = rows.mapInArrow(checked(task), "value BINARY").toArrow()
    return [pickle.loads(value) for value in results.column("value").to_pylist()]  # noqa: S301 - our own


def _writing(
    path: str, schema: TableSchema, configuration: dict[str, str], make: Callable[[Batches], Batches]
) -> Callable[[Batches], Batches]:
    """A mapInArrow function from rows to one data file."""

    def run(rows: Batches) -> Batches:
        tables = (pa.Table.from_batches([batch]) for batch in make(rows) if batch.num_rows)
        first = next(tables, None)
        if first is None:
            return
        file = data_files.write_parts(path, chain([first], tables), schema, configuration)
        yield pa.record_batch([pa.array([pickle.dumps(file)], pa.binary())], _RESULT)

    return run
