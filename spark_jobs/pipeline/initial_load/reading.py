"""A table's existing rows, read in ranges of its primary key by tasks of Spark.

Put here: the loop over ranges, the task, what ends a load because the table changed. Not here: the ranges
(key_ranges.py), rows as the log would have had them (row_images.py), where they wait (staging.py).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from spark_jobs.binlog import Changes, TableName
from spark_jobs.errors import SourceError, Unsupported, about
from spark_jobs.lake.commit import new_batch
from spark_jobs.pipeline.initial_load.commit import READ, READING, LoadCommit
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.pipeline.initial_load.key_ranges import Key, KeyRange, key_of, ranges
from spark_jobs.pipeline.initial_load.selecting import Selecting
from spark_jobs.pipeline.initial_load.selection import TableToRead
from spark_jobs.pipeline.initial_load.staging import StagedTable, columns_of, staged_ddl
from spark_jobs.runtime.executors import checked
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.silver import table as silver
from spark_jobs.source.information_schema import on_server
from spark_jobs.text.sql import is_table

log = logging.getLogger(__name__)


_AT_ONCE = 4
"""Ranges of one table that are read by tasks of one job, and committed together."""


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that was read whole."""

    name: TableName
    progress: LoadCommit


def read_table(load: LoadContext, table: TableToRead) -> ReadTable:
    """Reads what is left of a table, range by range. Raises TableStopped, SourceError, LakeError, LostRace."""
    with about(f"{load.source}: {table.name}"):
        stage = _begin(load, table)
        if stage.progress.state == READING:
            try:
                _read_ranges(load, stage)
            except SourceError:
                _require_same(load, stage)  # for what a change of the table makes of a query, says less than that
                raise
            _require_same(load, stage)
            read_to, gtids = load.anchor.end()
            stage.note(replace(stage.progress, state=READ, read_to=read_to, gtids=str(gtids) if gtids else None))
            load.on_progress(table.name, stage.progress)
        return ReadTable(table.name, stage.progress)


def _begin(load: LoadContext, table: TableToRead) -> StagedTable:
    """Where the rows wait, and how far reading is; started where no load of the table is open."""
    # A load that was interrupted continues after the ranges that are committed.
    if table.progress and table.head:
        rows = table.progress.rows if table.progress.state == READ else table.table.rows_written()
        stage = StagedTable(
            session_over(load.spark, 0), table.name, table.table, table.head, replace(table.progress, rows=rows)
        )
        log.info("%s: %s: goes on behind %d rows", load.source, table.name, rows)
    else:
        with load.server.connect() as connection:
            read_from = load.anchor.place(load.server.end(connection))
            condition = is_table(table.name.schema, table.name.table)
            query = f"SELECT TABLE_ROWS found FROM information_schema.TABLES WHERE {condition}"
            estimate = next((row["found"] for row in load.server.ask(connection, query)), None)
        commit = LoadCommit(
            table.since,
            new_batch(),
            state=READING,
            read_from=read_from,
            definition=table.definition,
            chunk_rows=load.chunk_rows,
            estimate=estimate,
        )
        session, properties = session_over(load.spark, 0), silver.properties(table.table)
        head = table.head or table.table.new(columns_of(table.definition), properties)
        stage = StagedTable(session, table.name, table.table, head, commit)
        stage.overwrite()
        load.on_progress(table.name, commit)
    # The server's definition may have changed since the load began.
    if stage.progress.state == READING:
        _require_same(load, stage)
    return stage


def _require_same(load: LoadContext, stage: StagedTable) -> None:
    """Ends the load, and raises TableStopped, where the server's table is another one than when it began."""
    definition, declared = stage.progress.definition, on_server(load.server).get(stage.name)
    if declared != definition:
        change = "gone from the server" if declared is None else f"{declared}, and was {definition}"
        raise stage.given_up(f"was changed while it was loaded: it is {change}; load it again")


def _read_ranges(load: LoadContext, stage: StagedTable) -> None:
    """Reads range after range, some of them at once, and commits the rows of those together."""
    # Ranges of the key, several at once; their rows and how far they go are one commit.
    name, definition = stage.name, stage.progress.definition
    with load.server.connect() as connection:
        key = key_of(connection, name.schema, name.table, silver.columns(definition).key)
    selecting = Selecting(load.source, load.server.settings, definition, key, load.anchor.identity)
    parts = _ranges(load, key, stage.progress)
    while parts:
        rows, counted = _rows(load, selecting, parts)
        progress = replace(
            stage.progress,
            chunks=stage.progress.chunks + len(parts),
            after=parts[-1].up_to,
            is_walked=parts[-1].up_to is None,
        )
        stage.append(rows, progress)
        stage.progress = replace(progress, rows=progress.rows + counted.get["rows"])
        load.on_progress(name, stage.progress)
        parts = _ranges(load, key, stage.progress)


def _ranges(load: LoadContext, key: Key, progress: LoadCommit) -> list[KeyRange]:
    """The next ranges; none where the last one was read. On a connection of its own, since reading takes long."""
    if progress.is_walked:
        return []
    with load.server.connect() as connection:
        return list(islice(ranges(connection, key, rows=progress.chunk_rows, after=progress.after), _AT_ONCE))


def _rows(load: LoadContext, selecting: Selecting, parts: list[KeyRange]) -> tuple[DataFrame, Observation]:
    counted = Observation()
    key = silver.columns(selecting.definition).key
    ids = session_over(load.spark, 0).range(0, len(parts), 1, len(parts))
    rows = ids.mapInArrow(checked(reading_task(selecting, parts, key)), staged_ddl(selecting.definition))
    return rows.observe(counted, F.count(F.lit(1)).alias("rows")), counted


Batches = Iterator[pa.RecordBatch]


def reading_task(selecting: Selecting, parts: Sequence[KeyRange], key: Sequence[str]) -> Callable[[Batches], Batches]:
    """A mapInArrow function from ids of ranges to their rows, with the columns of the lake and ``_raw``."""

    def run(ids: Batches) -> Batches:
        for batch in ids:
            for at in batch.column(0).to_pylist():
                for rows in selecting.read(parts[at]):
                    yield _with_raw(rows, key, selecting)

    return run


def _with_raw(rows: Changes, key: Sequence[str], selecting: Selecting) -> pa.RecordBatch:
    """Raises Unsupported for NULL in the key. A zero date, and bytes that are not text, have their text in ``_raw``."""
    for name in key:
        for row in pc.indices_nonzero(pc.is_null(rows.after.column(name))).to_pylist():
            texts = dict(rows.raw[row].as_py() or ()) if rows.raw is not None else {}
            if name not in texts:
                raise Unsupported(
                    f"{selecting.source}: {selecting.definition.name}: column {name} of the key is NULL in a row"
                )
    raw = rows.raw if rows.raw is not None else pa.nulls(len(rows), pa.map_(pa.string(), pa.string()))
    names = [*rows.after.schema.names, "_raw"]
    return pa.RecordBatch.from_arrays([*rows.after.columns, raw], names)
