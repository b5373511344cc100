"""Bronze -> silver: the windows and statements of one table, one after the other, up to what stops it.

Put here: the order of a table's steps, the transaction at which a failed step is cut, one commit a step. Not here: the
rows of a window (window_rows.py), what a statement changes (statement_commits.py), or the same in tasks of the engine
(engine/silver_job.py).

A table's windows run from its checkpoint to bronze's end, split at each statement that changes the table.
"""

import logging
import re
import time
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from spark_jobs.bronze.boundaries import transaction_at
from spark_jobs.errors import DecodeError, PartialImage, TableStopped, about
from spark_jobs.lake.commit import CommitKind, Head, new_batch
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import schema_evolution
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import NOT_FOLDED, SilverCommit
from spark_jobs.silver.compaction_job import Compacted, CompactionJob, by_rule, total
from spark_jobs.silver.inherited_rows import inherited_rows
from spark_jobs.silver.partial_rows import ABSENT_TYPE
from spark_jobs.silver.statement_commits import (
    Reshaping,
    definition_after,
    markers,
    require_key_kept,
    reshaping,
    turn_commit,
)
from spark_jobs.silver.table_timeline import (
    DataRange,
    Ended,
    SchemaChange,
    TimelineStep,
)
from spark_jobs.silver.window_rows import slices_of_window, window_rows
from spark_jobs.text import sql
from spark_jobs.text.sql import identifier

log = logging.getLogger(__name__)


def compact(spark: SparkSession, work: CompactionJob) -> Compacted:
    """Appends windows to a silver table, and changes it where statements did, up to what stops it.

    Raises TableStopped, with its position, where nothing comes before that; LakeError, LostRace.
    """
    began = time.monotonic()
    with about(str(work)):
        work.require_same_shape()
        run = _Compacting(spark, with_partial_flag(work))
        stopped = run.steps() or work.ended
        if stopped and not run.compacted:
            raise TableStopped(stopped.reason, stopped.at) from stopped.error
    assert run.head is not None
    result = total(work, run.head, run.compacted, time.monotonic() - began)
    if stopped is None:
        return result
    start = work.window.extent.start
    return replace(result, range=Range(start, max(start, stopped.at)), stopped=stopped)


_TRIES = 50
"""Events that a window's rows are cut at, each before the one that was found first, until the rest can be compacted."""


class _Compacting:
    """The steps of one table on their way into silver."""

    def __init__(self, spark: SparkSession, work: CompactionJob) -> None:
        self.spark = spark
        self.work = work
        self.head = work.head
        self.compacted: list[Compacted] = []

    def steps(self) -> Ended | None:
        """Takes all steps; returns where one stops the table, and takes the rows before that."""
        if self.work.reset and not self.work.steps:
            self._add(_empty(self.spark, self.work))
        for step in self.work.steps:
            try:
                self._take(step)
            except (TableStopped, DecodeError) as error:
                return self._up_to(step, error)
        return None

    def _add(self, landed: Compacted) -> None:
        self.compacted.append(landed)
        self.head = landed.head

    def _take(self, step: TimelineStep) -> None:
        try:
            landed = _step(self.spark, self.work, self.head, step)
        except PartialImage:
            taking, self.head = add_partial_column(self.spark, self.work)
            # what a reset replaces is replaced by now
            self.work = replace(taking, head=self.work.head) if self.compacted else taking
            landed = _step(self.spark, self.work, self.head, step)
        self._add(landed)

    def _up_to(self, step: TimelineStep, error: TableStopped | DecodeError) -> Ended:
        """Where a step stops the table: at its statement, or at the first transaction whose rows cannot be taken.

        A window's tasks fail in any order. So its rows are cut before the transaction that an error names, until what
        is left can be taken: the place does not depend on which task failed first.
        """
        # A statement stops where it stands.
        start = step.range.start
        if isinstance(step, SchemaChange):
            return self._ended(start, error)
        # Of a window, what lies before the failing transaction is taken. If that fails too, its error is the earlier
        # one.
        last = step.range.stop
        for _ in range(_TRIES):
            place = self._transaction(Range(start, last), error)
            if place is None:
                break
            last = place
            self._cut_at(place)
            try:
                before = DataRange(Range(start, place), step.standing)
                if start < place and self._has_rows(before.range):
                    self._take(before)
            except (TableStopped, DecodeError) as earlier:
                error = earlier
                continue
            return self._ended(place, error)
        return self._ended(start, error)

    def _ended(self, at: Position, error: TableStopped | DecodeError) -> Ended:
        log.error("%s: %s", self.work, str(error).removeprefix(f"{self.work}: "))
        return Ended(at, error)

    def _cut_at(self, place: Position) -> None:
        window = self.work.window
        self.work = replace(self.work, window=replace(window, cuts=window.cuts | {place}))

    def _has_rows(self, part: Range) -> bool:
        slices = slices_of_window(self.spark, self.work.part(part), self.work).select("start").limit(1)
        return bool(self.work.table.collect(slices))

    def _transaction(self, within: Range, error: TableStopped | DecodeError) -> Position | None:
        """Where the transaction begins, in a range, that an error's text names an event of; None where it names none.

        Rows of an XA transaction count where that is committed.
        """
        text = str(error).removeprefix(f"{self.work}: ")
        positions = [*_COMMITTED.finditer(text), *_PLACE.finditer(text)]
        for match in positions:
            stretches = range(within.stop.stretch, within.start.stretch - 1, -1)
            for stretch in [int(match["stretch"])] if match["stretch"] else stretches:
                place = Position(match["file"], int(match["offset"]), stretch)
                if within.start <= place < within.stop:
                    window = self.work.window
                    start = transaction_at(window.table, window.version, place)
                    return max(within.start, start) if start else None
        return None


_PLACE = re.compile(r"(?:(?P<stretch>[1-9]\d*)/)?(?P<file>[^\s/:]+\.\d+):(?P<offset>\d+)")
"""A position in the text of an error: text alone comes back from a task."""


_COMMITTED = re.compile(rf"of the XA transaction that {_PLACE.pattern} commits")


def _step(spark: SparkSession, work: CompactionJob, head: Head | None, step: TimelineStep) -> Compacted:
    if isinstance(step, DataRange):
        return _window(spark, work, head, step)
    if step.inherited:
        return _renamed(spark, work, head, step)
    assert head is not None
    return Compacted(work.source, work.name, step.range, _turn(spark, work, head, step), left_out=by_rule(step))


def with_partial_flag(work: CompactionJob) -> CompactionJob:
    """The job, with ``has_partial`` as its silver table is: whether partial row images have a column there."""
    return replace(work, has_partial=silver.ABSENT in work.table.columns())


def add_partial_column(spark: SparkSession, work: CompactionJob) -> tuple[CompactionJob, Head | None]:
    """Adds the column of partial row images to silver. Returns the job and the new head. Raises LostRace, PartialImage.

    Rows and position stay. A table gets the column with its first partial image, so that most never have it.
    """
    if work.has_partial:
        raise PartialImage(f"{work.table.path}: takes rows that lack columns, and one was refused")
    head = work.table.head()
    if head is not None and head.checkpoint is not None:
        kind = CommitKind.ALTERING if head.checkpoint.kind == CommitKind.ALTERING else CommitKind.MAINTENANCE
        checkpoint = replace(head.checkpoint, batch=new_batch(), kind=kind)
        head = work.table.alter(spark, head, checkpoint, f"ADD COLUMN ({silver.ABSENT} {ABSENT_TYPE})")
    return replace(work, head=head if work.head else None, has_partial=True), head


def _empty(spark: SparkSession, work: CompactionJob) -> Compacted:
    """Removes all rows of a table that is rebuilt, where its log has none."""
    assert work.head
    assert work.standing
    definition = work.standing.definition
    columns_ = silver.stored_columns(work.table, work.head)
    columns = work.columns_of(work.standing) if definition else columns_
    commit = replace(
        work.commit(work.window.extent, work.standing, columns),
        kind=CommitKind.RESET,
        is_overwrite=True,
        has_unknown_columns=not definition,
        folded_to=NOT_FOLDED,
    )
    rows = spark.createDataFrame([], sql.columns(columns.stored))
    landed = work.table.overwrite(rows, work.head, commit)
    return Compacted(work.source, work.name, work.window.extent, landed)


def _overwritten(work: CompactionJob, head: Head | None, stored: dict[str, str]) -> tuple[Head, bool]:
    """The head to append to: a table's that is made or rebuilt, or as it is; and whether its rows are overwritten."""
    if head is not None and not (work.reset and head is work.head):
        return head, False
    return work.table.new(stored, silver.properties(work.table), head), head is not None


def _window(spark: SparkSession, work: CompactionJob, head: Head | None, rows: DataRange) -> Compacted:
    """Appends what is left of the changes between two statements."""
    columns = work.columns_of(rows.standing)
    head, is_overwrite = _overwritten(work, head, columns.stored)
    if not head.design:
        silver.require_same_columns(work.table, columns.stored, str(work.name))
    net = window_rows(spark, work, work.part(rows.range), rows.standing)
    commit = replace(work.commit(rows.range, rows.standing, columns, net.left_out), is_overwrite=is_overwrite)
    landed = work.table.append(net.rows, head, commit)
    return net.summary(work, landed)


def _turn(spark: SparkSession, work: CompactionJob, head: Head, turn: SchemaChange) -> Head:
    """Changes the table as a statement changed the source's, then moves its position over the statement.

    The commit that moves it holds all steps; from it the merge learns what to do downstream.
    """
    if turn.restart_reason:
        log.warning("%s: at %s columns are retired and restart: %s", work, turn.range.start, turn.restart_reason)
    head, commit = _reshaped(spark, work, head, turn)
    return work.table.append(markers(spark, work.table.columns(), [turn]), head, commit)


def _renamed(spark: SparkSession, work: CompactionJob, head: Head | None, turn: SchemaChange) -> Compacted:
    """Puts what another table held in the place of what the table held, in the commit that moves it on."""
    stored = silver.columns(definition_after(turn), has_partial=work.has_partial).stored
    head, is_overwrite = _overwritten(work, head, stored)
    head, commit = _reshaped(spark, work, head, turn)
    commit = replace(commit, is_overwrite=is_overwrite)
    counted = Observation()
    rows = inherited_rows(spark, work, turn)
    inserts, newest = F.count(F.lit(1)).alias("inserts"), F.max(F.unix_micros("_committed_at")).alias("micros")
    rows = rows.observe(counted, inserts, newest).unionByName(markers(rows.sparkSession, stored, [turn]))
    landed = work.table.append(rows.select(*map(identifier, stored)), head, commit)
    counts = counted.get
    at = None if counts["micros"] is None else datetime.fromtimestamp(counts["micros"] / 1e6, UTC)
    return Compacted(work.source, work.name, turn.range, landed, inserts=counts["inserts"], committed_at=at)


def _reshaped(spark: SparkSession, work: CompactionJob, head: Head, turn: SchemaChange) -> tuple[Head, SilverCommit]:
    """The table with the columns that a statement left, and the commit that moves it over the statement."""
    newest = SilverCommit.of_head(head)
    if newest is None:
        return head, turn_commit(work, turn, work.columns_of(turn.standing), ())
    before = silver.stored_columns(work.table, head)
    if newest.statement_at == turn.range.start:
        after = work.columns_of(turn.standing) if turn.standing.definition else before
        require_key_kept(before, after, turn)
        reshaped = Reshaping(after, newest.steps or (), newest.steps_left or ())
    else:
        reshaped = reshaping(work, before, turn)
    # The newest commit says already what rules kept out until here.
    filtered: dict[str, int] | None = None if newest.filtered is None else {}
    altering = replace(newest, statement_at=turn.range.start, steps=tuple(reshaped.steps), filtered=filtered)
    head = schema_evolution.carry_out(spark, work.table, head, reshaped.remaining, altering)
    return head, turn_commit(work, turn, reshaped.after, reshaped.steps)
