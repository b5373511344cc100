"""A range of the log done again from bronze: its windows in silver replaced by what the log says now.

Put here: which windows a range means, and replacing them. Not here: what follows downstream; the next merge sees the
replaced windows in silver's history and applies them (merge.py).

A range is snapped outward to whole windows. What decodes to the rows that are there already is not written again.

A table under rules may have no row of a window of which they left out all changes: what lies between the windows that
silver shows is done again too. Where rules about columns changed, or which statements are left out, all of the table is
done again and its rows are replaced, columns and all, in one commit: what a fresh run would have.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze, masks, published, silver
from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.compact import LEFT_OUT, RULES, Compacted, Net, Window, Work, marker, net_changes, total
from spark_jobs.config import Pipeline
from spark_jobs.course import Rows, Rules, Standing, Step, Turn, course, first_rows, onwards
from spark_jobs.errors import LakeError, StratalogError, about
from spark_jobs.lake import Checkpoint, Design, Head, Lake, Table, identifier, new_batch
from spark_jobs.merge import REDO, RENEWED
from spark_jobs.pipeline import Outcome, filters_of, lake_of, merge_source, publish
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
        shape = _shape(work, columns)
        parts = list(_parts(spark, work, columns))
        rows = reduce(DataFrame.unionByName, (part for _, part in parts)).persist()
        left_out = _left_out(work, [net for net, _ in parts])
        ranges = {"ranges": [[str(one.start), str(one.stop)] for one in work.window.ranges]}
        try:
            is_renewed = work.is_ruled and (work.is_reshaped or _is_emptied_elsewhere(spark, work))
            if is_renewed:
                landed = _renewed(spark, work, rows, shape, ranges | {LEFT_OUT: left_out})
            elif _same(rows, work, work.head, columns):
                log.info("%s: nothing differs in %s", work, work.window.whole)
                return None
            else:
                standing = Standing.from_notes(work.head.checkpoint.notes)
                notes = work.notes(work.window.whole.start, standing, columns, left_out) | ranges
                checkpoint = Checkpoint(work.head.checkpoint.position, new_batch(), REDO, notes)
                landed = work.table.replace(rows, _within(work.window.ranges), work.head, checkpoint)
            counted = [_counted(rows, work, landed)] if columns.is_bag or is_renewed else []
        finally:
            rows.unpersist()
    done = counted or [net.summary(work, landed) for net, _ in parts]
    return replace(total(work, landed, done, time.monotonic() - began), left_out=left_out)


def _left_out(work: Work, parts: Sequence[Net]) -> dict[str, int]:
    turns = [turn.left_out_by for turn in work.steps if isinstance(turn, Turn) and turn.left_out_by]
    return dict(sum((Counter(net.left_out) for net in parts), Counter(turns)))


def _shape(work: Work, columns: silver.Columns) -> silver.Columns:
    """The columns that silver is to have. Raises LakeError where rules changed them, and not all is done again."""
    if not work.is_reshaped:
        return columns
    if not work.is_whole:
        raise LakeError("the rules about its columns changed; do all of its log again, not a part")
    known = next((one.standing.definition for one in reversed(work.steps) if one.standing.definition), None)
    return work.shape(known).columns if known else columns


def _is_emptied_elsewhere(spark: SparkSession, work: Work) -> bool:
    """Whether other statements empty the table than those that silver has, as far as all of it is done again."""
    if not work.is_whole:
        return False
    assert work.head is not None
    rows = work.table.read(spark, work.head.version).where(f"_op = '{silver.TRUNCATE}'")
    there = {tuple(row["_window_start"]) for row in rows.select("_window_start").collect()}
    return there != {turn.range.start.order for turn in _emptying(work)}


def _emptying(work: Work) -> list[Turn]:
    return [step for step in work.steps if isinstance(step, Turn) and step.empties]


def _renewed(spark: SparkSession, work: Work, rows: DataFrame, columns: silver.Columns, said: dict[str, Any]) -> Head:
    """Replaces all rows, and the columns by those that rules leave. Raises LakeError where rows were loaded."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    there = work.table.read(spark, work.head.version)
    if not there.where(f"_op = '{silver.LOAD}'").isEmpty():
        raise LakeError(
            f"{work.table.path} has rows that were loaded, which no log tells again; under other rules it cannot be "
            "done again"
        )
    stored = columns.stored
    markers = [marker(spark, stored, turn) for turn in _emptying(work)]
    whole = reduce(DataFrame.unionByName, [rows, *markers])
    standing = work.steps[-1].standing
    notes = work.notes(work.window.whole.start, standing, columns) | said | {RENEWED: True}
    checkpoint = Checkpoint(work.head.checkpoint.position, new_batch(), REDO, notes)
    return work.table.renew(Design(stored, {}).of(whole), work.head, checkpoint)


def _counted(rows: DataFrame, work: Work, head: Head) -> Compacted:
    """What was done to a bag, or to a table that was renewed, by the rows that are left.

    Of rows that are kept behind a shuffle, or written whole, Spark observes nothing. A bag's changes are copies that
    came or went, net, and those of a key one.
    """
    each = F.abs(F.col(silver.COPIES)) if silver.COPIES in rows.columns else F.lit(1)
    copies = F.sum(each).alias("copies")
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


def _parts(spark: SparkSession, work: Work, columns: silver.Columns) -> Iterator[tuple[Net, DataFrame]]:
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
        now = _led_on(work, definition, later)
        names = _shape(work, columns).stored
        yield net, net.rows.selectExpr(*(f"{now.get(name, identifier(name))} AS {identifier(name)}" for name in names))
    if left:
        raise LakeError(f"the definition of rows in {left[0]} is not known; begin the range earlier")


def _led_on(work: Work, definition: TableDefinition, later: Sequence[Turn]) -> dict[str, str]:
    """Rows of a definition as silver has them behind all later statements. Raises TableStopped."""
    columns = work.shape(definition).columns
    found = onwards(columns.types, later, lambda one: work.shape(one).columns)
    for turn in later:
        if turn.standing.definition and turn.origins is not None:
            after = work.shape(turn.standing.definition).columns
            masks.origins_seen(work.filters.columns, turn.origins, columns, after)
            masks.fills_seen(work.filters.columns, turn.fills, after)
    return found


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
            work = _work(spark, pipeline, held, table_name, wanted)
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


def _work(spark: SparkSession, pipeline: Pipeline, held: _Held, name: TableName, wanted: Range) -> Work | None:
    lake, filters = lake_of(pipeline), pipeline.filters
    table = lake.silver(held.source, name.schema, name.table)
    head = table.head()
    own = filters_of(filters, held.source, name)
    found = _touched(spark, held, table, head, wanted, is_ruled=bool(own))
    if head is None or found is None:
        log.info("%s: %s: has no window in %s", held.source, name, wanted)
        return None
    if head.position is None or (head.checkpoint and head.checkpoint.kind == ALTERING):
        raise LakeError(f"{table.path} is between two sets of columns, where a run ended; run again first")
    begin = min(one.start for one in (*found.windows, *found.gaps))
    bronze.require_held(held.source, held.checkpoint, begin)
    onward = Range(begin, head.position)
    slices = bronze.read(spark, held.table, held.version, onward)
    seen = survey(slices)
    with about(f"{held.source}: {name}"):
        rules = Rules(
            lambda logged, last: named(lake, held.source, logged, last),
            first_rows(slices),
            on_drop_empties=pipeline.on_drop == "drop",
            is_bag=silver.stored_columns(table, head).is_bag,
            filters=filters,
        )
        steps = course(seen, name, onward, None, rules)
    ranges = sorted((*found.windows, *_between(found.gaps, steps)), key=lambda one: one.start.order)
    if not ranges:
        log.info("%s: %s: has no row in %s", held.source, name, wanted)
        return None
    window = Window(held.table, held.version, tuple(ranges))
    size = seen.tables[name].size if name in seen.tables else 0
    return Work(held.source, name, window, steps, table, head, size, own, found.is_whole)


@dataclass(frozen=True, slots=True)
class _Touched:
    """What a range touches of a table: windows that silver shows, and of tables under rules what lies between them.

    is_whole: it is all that the table has of the log.
    """

    windows: tuple[Range, ...]
    gaps: tuple[Range, ...] = ()
    is_whole: bool = False


def _touched(
    spark: SparkSession, held: _Held, table: Table, head: Head | None, wanted: Range, *, is_ruled: bool
) -> _Touched | None:
    """None where the range touches nothing."""
    if head is None or head.position is None:
        return _Touched((wanted,)) if head else None
    known = stretches(held.checkpoint)
    if not is_ruled and RULES not in (head.checkpoint.notes if head.checkpoint else {}):
        found = windows(spark, table, head, wanted, known)
        return _Touched(found) if found else None
    begin, oldest = bronze.begin(held.checkpoint), bronze.oldest(held.checkpoint)
    every = windows(spark, table, head, Range(begin, max(head.position, begin)), known)
    gaps = _gaps(every, Range(oldest, max(head.position, oldest)))
    touched = tuple(one for one in every if one.overlaps(wanted))
    between = tuple(one for one in gaps if one.overlaps(wanted))
    is_whole = len(touched) + len(between) == len(every) + len(gaps) and all(one.start >= oldest for one in every)
    return _Touched(touched, between, is_whole) if touched or between else None


def _gaps(found: Sequence[Range], whole: Range) -> list[Range]:
    """What lies between windows, of a part of the log."""
    starts, stops = [whole.start, *(one.stop for one in found)], [*(one.start for one in found), whole.stop]
    between = ((max(start, whole.start), stop) for start, stop in zip(starts, stops, strict=True))
    return [Range(start, stop) for start, stop in between if start < stop]


def _between(gaps: Sequence[Range], steps: Sequence[Step]) -> Iterator[Range]:
    """The parts of gaps that have rows of one definition each."""
    for gap in gaps:
        for step in (one for one in steps if isinstance(one, Rows)):
            start, stop = max(gap.start, step.range.start), min(gap.stop, step.range.stop)
            if start < stop:
                yield Range(start, stop)
