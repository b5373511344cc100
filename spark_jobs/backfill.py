"""A range of the log done again from bronze: its windows in silver replaced by what the log says now.

Put here: which windows a range means, and replacing them. Not here: what follows downstream; the next merge sees the
replaced windows in silver's history and applies them (merge.py).

A range is snapped outward to whole windows. What decodes to the rows that are there already is not written again.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze, published, silver
from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.compact import Compacted, Window, net_changes, prepared, summary
from spark_jobs.config import Pipeline
from spark_jobs.errors import LakeError, StratalogError, TableStopped, about
from spark_jobs.lake import Checkpoint, Head, Lake, Table, identifier, new_batch
from spark_jobs.merge import REDO
from spark_jobs.pipeline import Outcome, lake_of, merge_source, publish
from spark_jobs.position import Position, Range
from spark_jobs.schema.definitions import named
from spark_jobs.survey import agreed, survey

log = logging.getLogger(__name__)


def windows(spark: SparkSession, table: Table, head: Head, wanted: Range) -> tuple[Range, ...]:
    """The windows of a silver table that a range touches, in order; none where its rows lie elsewhere."""
    ends = table.read(spark, head.version).select("_window_start", "_window_stop").distinct()
    found = [Range(_position(row["_window_start"], wanted), _position(row["_window_stop"], wanted)) for row in ends.collect()]
    return tuple(sorted((one for one in found if one.overlaps(wanted)), key=lambda one: one.start.order))


def redo(
    spark: SparkSession, source: str, window: Window, definition: TableDefinition, table: Table, head: Head
) -> Compacted | None:
    """Decodes the window's ranges again and replaces them where a row differs; None where none does. Raises LostRace."""
    began = time.monotonic()
    with about(f"{source}: {definition.name}"):
        head, columns = prepared(spark, table, definition, head)
        rows, seen, decoded = net_changes(spark, window, definition, columns)
        rows = rows.persist()
        try:
            if _same(rows, table, head, window.ranges, columns):
                log.info("%s: %s: nothing differs in %s", source, definition.name, window.whole)
                return None
            position = head.position or window.whole.stop
            notes = {"start": str(window.whole.start), "bronze_version": window.version, "key": list(columns.key)}
            notes |= {"ranges": [[str(one.start), str(one.stop)] for one in window.ranges]}
            where = " OR ".join(f"({silver.within(one)})" for one in window.ranges)
            landed = table.replace(rows, where, head, Checkpoint(position, new_batch(), REDO, notes))
        finally:
            rows.unpersist()
    return summary(source, window, definition, landed, seen, decoded, began)


def _same(rows: DataFrame, table: Table, head: Head, ranges: Sequence[Range], columns: silver.Columns) -> bool:
    """Whether silver holds these rows already. Maps do not compare; their entries do."""
    where = " OR ".join(f"({silver.within(one)})" for one in ranges)
    there = table.read(rows.sparkSession, head.version).where(where)
    plain = [*columns.types, *(name for name in silver.ADDED if name != "_raw")]
    chosen = [*(F.col(identifier(name)) for name in plain), F.expr("map_entries(_raw)").alias("_raw")]
    ours, theirs = rows.select(*chosen), there.select(*chosen)
    return ours.exceptAll(theirs).isEmpty() and theirs.exceptAll(ours).isEmpty()


def _position(place: Sequence[int], like: Range) -> Position:
    """A stored place as a position; silver keeps numbers, and the files of a stretch share their base name."""
    stretch, number, offset = place
    base, _, digits = like.start.file.rpartition(".")
    return Position(f"{base}.{number:0{len(digits)}d}", offset, stretch)


def backfill_source(
    spark: SparkSession, pipeline: Pipeline, name: str, wanted: Range, chosen: Callable[[TableName], bool]
) -> Outcome:
    """Does a range again for the chosen tables in scope, through silver and downstream. Raises LakeError."""
    lake = lake_of(pipeline)
    bronze_table = lake.bronze(name)
    bronze_head = bronze_table.head()
    if bronze_head is None or bronze_head.checkpoint is None:
        raise LakeError(f"{name}: bronze holds nothing yet")
    _require_held(Range(bronze.begin(bronze_head.checkpoint), bronze_head.checkpoint.position), wanted, name)
    names = [TableName(*one.name) for one in published.read(lake, name) if pipeline.scope.holds(*one.name)]
    chosen_names = frozenset(filter(chosen, names))
    done: list[Compacted] = []
    stopped: dict[TableName, str] = {}
    for table_name in sorted(chosen_names):
        try:
            found = _again(spark, lake, name, table_name, bronze_table, bronze_head, wanted)
        except StratalogError as error:
            log.error("%s", error)  # noqa: TRY400 - the message is the whole of it
            stopped[table_name] = str(error)
        else:
            done += [found] if found else []
    outcome = merge_source(spark, pipeline, name, tables=chosen_names - stopped.keys())
    publish(spark, pipeline, name, outcome)
    return replace(outcome, compacted=done, stopped=outcome.stopped | stopped)


def _again(
    spark: SparkSession, lake: Lake, source: str, name: TableName, bronze_table: Table, bronze_head: Head, wanted: Range
) -> Compacted | None:
    table = lake.silver(source, name.schema, name.table)
    head = table.head()
    ranges = windows(spark, table, head, wanted) if head else ()
    if head is None or not ranges:
        log.info("%s: %s: has no window in %s", source, name, wanted)
        return None
    window = Window(bronze_table, bronze_head.version, ranges)
    found = survey(bronze.read(spark, bronze_table, bronze_head.version, window.whole))
    obstacle = found.obstacle(name, window.whole.start, fresh=False)
    if obstacle:
        raise TableStopped(f"{source}: {name}: {obstacle}")
    definition = named(lake, source, agreed(name, found.tables[name].definitions), found.last_change(name))
    return redo(spark, source, window, definition, table, head)


def _require_held(held: Range, wanted: Range, source: str) -> None:
    if wanted.start < held.start or held.stop < wanted.stop:
        raise LakeError(
            f"{source}: bronze holds {held}, which is not all of {wanted}; fetching older logs for a backfill is not handled yet"
        )
