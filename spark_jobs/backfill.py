"""A range of the log done again from bronze: its windows in silver replaced by what the log says now.

Put here: which windows a range means, and replacing them. Not here: what follows downstream; the next merge sees the
replaced windows in silver's history and applies them (merge.py).

A range is snapped outward to whole windows. What decodes to the rows that are there already is not written again.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze, published, silver
from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.compact import Compacted, Window, Work, net_changes
from spark_jobs.config import Pipeline
from spark_jobs.course import Rules, Standing, Turn, course, first_rows, onwards
from spark_jobs.errors import LakeError, StratalogError, about
from spark_jobs.lake import Checkpoint, Head, Lake, Table, identifier, new_batch
from spark_jobs.merge import REDO
from spark_jobs.pipeline import Outcome, lake_of, merge_source, publish
from spark_jobs.position import Position, Range
from spark_jobs.reshape import ALTERING
from spark_jobs.schema.definitions import named
from spark_jobs.stretches import Stretch, stretches
from spark_jobs.survey import survey

log = logging.getLogger(__name__)


def windows(
    spark: SparkSession, table: Table, head: Head, wanted: Range, known: Sequence[Stretch] = ()
) -> tuple[Range, ...]:
    """The windows of a silver table that a range touches, in order; none where its rows lie elsewhere.

    known: the log index, for the names of files.
    """
    rows = table.read(spark, head.version).where(silver.FROM_LOG)
    ends = rows.select("_window_start", "_window_stop").distinct()
    found = [
        Range(_position(row["_window_start"], wanted, known), _position(row["_window_stop"], wanted, known))
        for row in ends.collect()
    ]
    return tuple(sorted((one for one in found if one.overlaps(wanted)), key=lambda one: one.start.order))


def redo(spark: SparkSession, work: Work) -> Compacted | None:
    """Decodes the window's ranges again and replaces them where a row differs, else None. Raises LostRace."""
    began = time.monotonic()
    assert work.head is not None
    assert work.head.checkpoint is not None
    with about(str(work)):
        columns = silver.stored_columns(work.table, work.head)
        rows = reduce(DataFrame.unionByName, _parts(spark, work, columns)).persist()
        try:
            if _same(rows, work, work.head, columns):
                log.info("%s: nothing differs in %s", work, work.window.whole)
                return None
            again = {"ranges": [[str(one.start), str(one.stop)] for one in work.window.ranges]}
            standing = Standing.from_notes(work.head.checkpoint.notes)
            notes = work.notes(work.window.whole.start, standing, columns) | again
            checkpoint = Checkpoint(work.head.checkpoint.position, new_batch(), REDO, notes)
            landed = work.table.replace(rows, _within(work.window.ranges), work.head, checkpoint)
            done = _counted(rows, work, landed, columns)
        finally:
            rows.unpersist()
    return replace(done, seconds=time.monotonic() - began)


def _counted(rows: DataFrame, work: Work, head: Head, columns: silver.Columns) -> Compacted:
    """What was done, by the rows that are kept: what Spark observes of such rows is not told in every plan of them.

    Changes are rows, net: of a bag, copies that came or went.
    """
    copies = (F.sum(F.abs(F.col(silver.COPIES))) if columns.is_bag else F.count("*")).alias("copies")
    newest = F.max(F.unix_micros("_committed_at")).alias("micros")
    found = rows.groupBy("_op").agg(F.count("*").alias("rows"), copies, newest).collect()
    counts = {row["_op"]: row["rows"] for row in found}
    micros = max((row["micros"] for row in found if row["micros"] is not None), default=None)
    return Compacted(
        source=work.source,
        name=work.name,
        range=work.window.whole,
        head=head,
        changes=sum(row["copies"] for row in found),
        inserts=counts.get("insert", 0),
        updates=counts.get("update", 0),
        deletes=counts.get("delete", 0),
        committed_at=None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC),
    )


def _parts(spark: SparkSession, work: Work, columns: silver.Columns) -> Iterator[DataFrame]:
    """The windows' rows, each decoded by the definition of its time and led on to the table's present columns."""
    left = list(work.window.ranges)
    for at, step in enumerate(work.steps):
        ranges = tuple(one for one in left if step.range.start <= one.start < step.range.stop)
        if isinstance(step, Turn) or not ranges:
            continue
        left = [one for one in left if one not in ranges]
        definition = _keyed(work, columns, step.definition, ranges[-1])
        net = net_changes(spark, work, replace(work.window, ranges=ranges), definition)
        later = [one for one in work.steps[at:] if isinstance(one, Turn)]
        now = onwards(silver.columns(definition).types, later)
        names = columns.stored
        yield net.rows.selectExpr(*(f"{now.get(name, identifier(name))} AS {identifier(name)}" for name in names))
    if left:
        raise LakeError(f"the definition of rows in {left[0]} is not known; begin the range earlier")


def _keyed(work: Work, columns: silver.Columns, logged: TableDefinition, window: Range) -> TableDefinition:
    """The definition of a window's rows. Raises LakeError where silver has a key for them, and which is not known."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    emptied = Standing.from_notes(work.head.checkpoint.notes).emptied
    if not columns.is_bag and not logged.key and (emptied is None or emptied < window.stop):
        raise LakeError(f"the key of rows in {window} is not known; begin the range earlier")
    return logged


def _within(ranges: Sequence[Range]) -> str:
    return " OR ".join(f"({silver.within(one)})" for one in ranges)


def _same(rows: DataFrame, work: Work, head: Head, columns: silver.Columns) -> bool:
    """Whether silver holds these rows already. Maps do not compare; their entries do."""
    there = work.table.read(rows.sparkSession, head.version).where(_within(work.window.ranges))
    plain = [name for name in columns.stored if name != "_raw"]
    chosen = [*(F.col(identifier(name)) for name in plain), F.expr("map_entries(_raw)").alias("_raw")]
    ours, theirs = rows.select(*chosen), there.select(*chosen)
    return ours.exceptAll(theirs).isEmpty() and theirs.exceptAll(ours).isEmpty()


def _position(place: Sequence[int], like: Range, known: Sequence[Stretch] = ()) -> Position:
    """A stored place as a position; silver keeps numbers, and the files of a stretch share their base name."""
    stretch, number, offset = place
    if len(known) > 1:
        return Position(known[stretch - 1].file(number), offset, stretch)
    base, _, digits = like.start.file.rpartition(".")
    return Position(f"{base}.{number:0{len(digits)}d}", offset, stretch)


def backfill_source(
    spark: SparkSession, pipeline: Pipeline, name: str, wanted: Range, chosen: Callable[[TableName], bool]
) -> Outcome:
    """Does a range again for the chosen tables in scope, through silver and downstream. Raises LakeError."""
    lake = lake_of(pipeline)
    held = _Held.of(lake, name, wanted)
    names = [TableName(*one.name) for one in published.read(lake, name) if pipeline.scope.holds(*one.name)]
    chosen_names = frozenset(filter(chosen, names))
    done: list[Compacted] = []
    stopped: dict[TableName, str] = {}
    for table_name in sorted(chosen_names):
        try:
            work = _work(spark, lake, held, table_name, wanted)
            found = redo(spark, work) if work else None
        except StratalogError as error:
            log.error("%s", error)  # noqa: TRY400 - the message is the whole of it
            stopped[table_name] = str(error)
        else:
            done += [found] if found else []
    outcome = merge_source(spark, pipeline, name, tables=chosen_names - stopped.keys())
    publish(spark, pipeline, name, outcome)
    return replace(outcome, compacted=done, stopped=outcome.stopped | stopped)


@dataclass(frozen=True, slots=True)
class _Held:
    """A bronze table at one version."""

    source: str
    table: Table
    version: int
    checkpoint: Checkpoint

    @classmethod
    def of(cls, lake: Lake, source: str, wanted: Range) -> "_Held":
        """Raises LakeError where bronze does not hold the whole range."""
        table = lake.bronze(source)
        head = table.head()
        if head is None or head.checkpoint is None:
            raise LakeError(f"{source}: bronze holds nothing yet")
        bronze.require_held(source, head.checkpoint, max(wanted.start, bronze.begin(head.checkpoint)))
        held = Range(bronze.begin(head.checkpoint), head.checkpoint.position)
        if wanted.start < held.start or held.stop < wanted.stop:
            raise LakeError(
                f"{source}: bronze holds {held}, which is not all of {wanted}; "
                "fetching older logs for a backfill is not handled yet"
            )
        return cls(source, table, head.version, head.checkpoint)


def _work(spark: SparkSession, lake: Lake, held: _Held, name: TableName, wanted: Range) -> Work | None:
    table = lake.silver(held.source, name.schema, name.table)
    head = table.head()
    ranges = windows(spark, table, head, wanted, stretches(held.checkpoint)) if head else ()
    if head is None or not ranges:
        log.info("%s: %s: has no window in %s", held.source, name, wanted)
        return None
    if head.position is None or (head.checkpoint and head.checkpoint.kind == ALTERING):
        raise LakeError(f"{table.path} is between two sets of columns, where a run ended; run again first")
    bronze.require_held(held.source, held.checkpoint, ranges[0].start)
    onward = Range(ranges[0].start, head.position)
    slices = bronze.read(spark, held.table, held.version, onward)
    found = survey(slices)
    with about(f"{held.source}: {name}"):
        is_bag = silver.stored_columns(table, head).is_bag
        rules = Rules(lambda logged, last: named(lake, held.source, logged, last), first_rows(slices), is_bag=is_bag)
        steps = course(found, name, onward, None, rules)
    window = Window(held.table, held.version, ranges)
    return Work(held.source, name, window, steps, table, head, found.tables[name].size)
