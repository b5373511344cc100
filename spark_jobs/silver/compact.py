"""Bronze -> silver: the net change per key of a window of the log.

Put here: windows, the decoding task, and the reduction to one row a key. Not here: how bytes become columns (binlog/),
which changes rules leave out (row_filters.py), or what becomes of silver rows (downstream/merge.py).

A table's windows run from its checkpoint to bronze's end, cut where a statement changes the table. Their slices are
decoded where they lie, reduced to one row a key inside the task, and only what is left is shuffled; a small window is
one task's, and nothing is. Last and first are told by position, not by arrival.

A table without a key is a bag: its images are counted, by all that is in them, and neither first nor last matters.

Where rules judge a table's changes, each is judged by itself, as a row of Spark's between decoding and reducing.
Columns are left out and masked behind the reduction in the task, before anything is shuffled or written.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import Changes, Decoder, TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.boundaries import cut, transaction_at
from spark_jobs.bronze.xa import EFFECT, NO_XA, Xa, by_bytes, effective
from spark_jobs.config.filters import TableFilters
from spark_jobs.errors import DecodeError, PartialImage, TableStopped, Unsupported, about
from spark_jobs.lake.commit import CommitKind, Head, new_batch
from spark_jobs.lake.ranges import array, cell, union
from spark_jobs.lake.ranges import rows as rows_sql
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import masking, partial_images, partial_rows, row_filters, schema_evolution
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import NOT_FOLDED, SilverCommit
from spark_jobs.silver.net_changes import Place, image_rows, net_rows, reduce, settle
from spark_jobs.silver.partial_rows import ABSENT_TYPE
from spark_jobs.silver.projection import column_origins, project_to_latest
from spark_jobs.silver.retired_columns import Kept, names_of, types_of
from spark_jobs.silver.table_timeline import (
    DataRange,
    Ended,
    SchemaChange,
    SilverSnapshot,
    TableContents,
    TableState,
    TimelineStep,
)
from spark_jobs.silver.timeline.inputs import without
from spark_jobs.text import sql
from spark_jobs.text.sql import identifier, literal

log = logging.getLogger(__name__)

_REDUCE_AT = 1 << 19
"""Rows that a task gathers before it reduces them again: a hot key costs no more than this."""
_PIECES = 256
"""Decoded pieces held at once: each has buffers made for more rows than a small slice fills them with."""
_OF_CHANGES = (silver.Op.INSERT, silver.Op.UPDATE, silver.Op.DELETE)
_BATCH = 1 << 16
_ONE_TASK = 64 << 20
"""Bytes of a table's slices up to which one task decodes and reduces all of them.

Its rows fit into memory, and decoding them takes less time than a shuffle does; beyond, Spark sorts them, on disk if
need be."""


BY_SPARK_SQL = "Spark SQL"
"""How a table was compacted or merged that the engine (engine/) did not take."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What one window added to a silver table: rows by net operation, and how many changes they came from."""

    source: str
    name: TableName
    range: Range
    head: Head
    changes: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    committed_at: datetime | None = None
    seconds: float = 0.0
    left_out: dict[str, int] = field(default_factory=dict)
    """Changes and statements that rules left out, by rule; ``changes`` does not count them."""
    stopped: Ended | None = None
    """Where the table stops, with everything before in silver; None where it goes on."""
    way: str = BY_SPARK_SQL
    """By the engine or by Spark SQL, and why by the latter."""

    @property
    def rows(self) -> int:
        return self.inserts + self.updates + self.deletes


@dataclass(frozen=True, slots=True)
class Window:
    """A part of bronze (one Delta version of it) that becomes one or more windows of a silver table."""

    table: Table
    version: int
    ranges: tuple[Range, ...]
    oldest: Position | None = None
    """Where the log begins that bronze holds."""
    xa: Xa = NO_XA
    """The XA transactions that it commits, and perhaps others."""
    cuts: frozenset[Position] = frozenset()
    """Where ranges begin or end that may lie inside a slice."""

    @property
    def whole(self) -> Range:
        return Range(self.ranges[0].start, self.ranges[-1].stop)


@dataclass(frozen=True, slots=True)
class Work:
    """One table that has something to compact, and the silver head (None: no table yet) that it is planned upon."""

    source: str
    name: TableName
    window: Window
    steps: Sequence[TimelineStep]
    table: Table
    head: Head | None
    size: int
    """Bytes of log that the table's slices hold."""
    filters: TableFilters = field(default_factory=TableFilters)
    is_whole: bool = False
    """Whether it is all that the table has of the log, done again."""
    carried: int = 0
    """Bytes that rows are made of which come with other tables' names."""
    again: Range | None = None
    """The statement by which the table has its name, where the rows that came with it are done again."""
    has_partial: bool = False
    """Whether silver takes rows that lack columns; row images that leave some out raise PartialImage otherwise."""
    reset: int = 0
    """Where the table is begun anew: which time this is. Its first commit replaces all that silver has of it."""
    standing: TableState | None = None
    """How the table stands behind the steps."""
    ended: Ended | None = None
    """Where the steps end before the log does, with the table stopped there."""

    @property
    def bytes(self) -> int:
        return self.size + self.carried

    def __str__(self) -> str:
        return f"{self.source}: {self.name}"

    def part(self, range_: Range) -> Window:
        return replace(self.window, ranges=(range_,))

    def commit(
        self, within: Range, standing: TableState, columns: silver.Columns, filtered: Mapping[str, int] | None = None
    ) -> SilverCommit:
        """The silver commit of a part of the log.

        Args:
            within: the part; the table is complete up to its end.
            standing: how the table stands there.
            columns: those that it has then.
            filtered: by rule how many changes and statements it kept out.
        """
        commit = SilverCommit(
            within.stop,
            new_batch(),
            start=within.start,
            bronze_version=self.window.version,
            log_bytes=self.size,
            resets=self.reset or silver.resets(self.head),
            key=columns.key,
        )
        return standing.in_commit(self._ruled(commit, filtered) if self.is_ruled else commit)

    @property
    def before(self) -> SilverCommit | None:
        """The commit that the work is planned upon; none where the table is rebuilt."""
        return None if self.reset else SilverCommit.of_head(self.head)

    def _ruled(self, commit: SilverCommit, filtered: Mapping[str, int] | None) -> SilverCommit:
        return replace(
            commit,
            rules=tuple(self.filters.names()),
            rule_digests=self.filters.prints(),
            known_columns=tuple(sorted(self.known)),
            filtered=dict(filtered) if filtered else None,
        )

    @property
    def is_ruled(self) -> bool:
        """Whether the table is, or was, under rules: then a window need not have left rows in silver."""
        before = self.before
        return bool(self.filters) or (before is not None and before.rule_digests is not None)

    @property
    def known(self) -> frozenset[str]:
        """Names, in small letters, of the columns that the table has or had, as far as silver was told of rules."""
        before = self.before
        found = set(before.known_columns or ()) if before else set()
        for definition in (*(step.standing.definition for step in self.steps), before and before.definition):
            found |= {str(column.name).casefold() for column in definition.columns} if definition else set()
        return frozenset(found)

    @property
    def is_reshaped(self) -> bool:
        """Whether silver's rows were made by other rules about the columns."""
        before, has = self.before, self.filters.prints()
        had = (before.rule_digests if before else None) or {}
        return bool(had.get("columns") != has.get("columns"))

    def shape(self, definition: TableDefinition, kept: Sequence[Kept] = ()) -> masking.Shape:
        """What is seen of the table's columns, and behind them what is kept of others. Raises TableStopped."""
        wrong = masking.missing(self.filters.columns, self.known)
        if wrong:
            raise TableStopped(f"{wrong}: {definition}")
        if kept:
            self._require_keeping(kept)
        return masking.shape(definition, self.filters.columns, has_partial=self.has_partial).beside(types_of(kept))

    def seen(self, standing: TableState) -> silver.Columns:
        """The columns that silver has where the table stands so. Raises TableStopped."""
        assert standing.definition
        return self.shape(standing.definition, standing.kept).columns

    def _require_keeping(self, kept: Sequence[Kept]) -> None:
        """Raises TableStopped where columns that are kept would say something wrong, or what is to be hidden."""
        names, rule = names_of(kept), self.filters.columns
        if rule:
            raise TableStopped(
                f"columns.{rule.name} is about it, and columns of it are kept ({names}): not done together"
            )
        if self.has_partial:
            raise TableStopped(
                f"columns of it are kept ({names}), and its row images leave columns out: not done together; set "
                "binlog_row_image to FULL before such a statement, or on_incompatible to stop"
            )

    def require_same_shape(self) -> None:
        """Raises TableStopped where silver's rows were made by other rules about the columns."""
        if self.before and self.is_reshaped:
            again = (
                f"do all of it again: stratalog backfill --source {self.source} --from {self.window.oldest} "
                f"--to {self.window.whole.stop} --table {self.name}"
            )
            if self.before.floor:
                again = (
                    f"its windows before {self.before.floor} are folded into one, so that it can only begin "
                    f"anew: stratalog reset --source {self.source} --table {self.name}, once copies of the older log "
                    "are brought back (stratalog extract --archive DIR)"
                )
            raise TableStopped(
                f"the rules about its columns are others than those that {self.table.path} was made by; {again}"
            )


def compact(spark: SparkSession, work: Work) -> Compacted:
    """Appends windows to a silver table, and changes it where statements did, up to what stops it.

    Raises TableStopped, with its position, where nothing comes before that; LakeError, LostRace.
    """
    began = time.monotonic()
    with about(str(work)):
        work.require_same_shape()
        run = _Compacting(spark, told_of_partial(work))
        stopped = run.steps() or work.ended
        if stopped and not run.done:
            raise TableStopped(stopped.why, stopped.at) from stopped.error
    assert run.head is not None
    whole = total(work, run.head, run.done, time.monotonic() - began)
    if stopped is None:
        return whole
    start = work.window.whole.start
    return replace(whole, range=Range(start, max(start, stopped.at)), stopped=stopped)


_TRIES = 50
"""Events that a window's rows are cut at, each before the one that was found first, until the rest can be compacted."""


class _Compacting:
    """The steps of one table on their way into silver."""

    def __init__(self, spark: SparkSession, work: Work) -> None:
        self.spark = spark
        self.work = work
        self.head = work.head
        self.done: list[Compacted] = []

    def steps(self) -> Ended | None:
        """Takes all steps; returns where one stops the table, and takes the rows before that."""
        if self.work.reset and not self.work.steps:
            self._add(_emptied(self.spark, self.work))
        for step in self.work.steps:
            try:
                self._take(step)
            except (TableStopped, DecodeError) as error:
                return self._up_to(step, error)
        return None

    def _add(self, landed: Compacted) -> None:
        self.done.append(landed)
        self.head = landed.head

    def _take(self, step: TimelineStep) -> None:
        try:
            landed = _step(self.spark, self.work, self.head, step)
        except PartialImage:
            taking, self.head = taking_partial(self.spark, self.work)
            # what a reset replaces is replaced by now
            self.work = replace(taking, head=self.work.head) if self.done else taking
            landed = _step(self.spark, self.work, self.head, step)
        self._add(landed)

    def _up_to(self, step: TimelineStep, error: TableStopped | DecodeError) -> Ended:
        """Where a step stops the table: at its statement, or at the first transaction whose rows cannot be taken.

        A window's tasks fail in any order. So its rows are cut before the transaction that an error names, until what
        is left can be taken: the place does not depend on which task failed first.
        """
        start = step.range.start
        if isinstance(step, SchemaChange):
            return self._ended(start, error)
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
        slices = _slices(self.spark, self.work.part(part), self.work).select("start").limit(1)
        return bool(self.work.table.collect(slices))

    def _transaction(self, within: Range, error: TableStopped | DecodeError) -> Position | None:
        """Where the transaction begins, in a range, that an error's text names an event of; None where it names none.

        Rows of an XA transaction count where that is committed.
        """
        text = str(error).removeprefix(f"{self.work}: ")
        named = [*_COMMITTED.finditer(text), *_PLACE.finditer(text)]
        for found in named:
            stretches = range(within.stop.stretch, within.start.stretch - 1, -1)
            for stretch in [int(found["stretch"])] if found["stretch"] else stretches:
                place = Position(found["file"], int(found["offset"]), stretch)
                if within.start <= place < within.stop:
                    window = self.work.window
                    begun = transaction_at(window.table, window.version, place)
                    return max(within.start, begun) if begun else None
        return None


_PLACE = re.compile(r"(?:(?P<stretch>[1-9]\d*)/)?(?P<file>[^\s/:]+\.\d+):(?P<offset>\d+)")
"""A position in the text of an error: text alone comes back from a task."""
_COMMITTED = re.compile(rf"of the XA transaction that {_PLACE.pattern} commits")


def _step(spark: SparkSession, work: Work, head: Head | None, step: TimelineStep) -> Compacted:
    if isinstance(step, DataRange):
        return _window(spark, work, head, step)
    if step.carried:
        return _renamed(spark, work, head, step)
    assert head is not None
    return Compacted(work.source, work.name, step.range, _turn(spark, work, head, step), left_out=by_rule(step))


def told_of_partial(work: Work) -> Work:
    """The work, with whether its silver table takes rows that lack columns."""
    return replace(work, has_partial=silver.ABSENT in work.table.columns())


def taking_partial(spark: SparkSession, work: Work) -> tuple[Work, Head | None]:
    """The work with a silver table that takes rows which lack columns, and its head. Raises LostRace, PartialImage.

    Its rows and its position stay. Tables of which no image leaves a column out never have the column for it.
    """
    if work.has_partial:
        raise PartialImage(f"{work.table.path}: takes rows that lack columns, and one was refused")
    head = work.table.head()
    if head is not None and head.checkpoint is not None:
        kind = CommitKind.ALTERING if head.checkpoint.kind == CommitKind.ALTERING else CommitKind.MAINTENANCE
        said = replace(head.checkpoint, batch=new_batch(), kind=kind)
        head = work.table.alter(spark, head, said, f"ADD COLUMN ({silver.ABSENT} {ABSENT_TYPE})")
    return replace(work, head=head if work.head else None, has_partial=True), head


def _emptied(spark: SparkSession, work: Work) -> Compacted:
    """Takes all rows out of a table that is begun anew, where its log has none."""
    assert work.head
    assert work.standing
    known = work.standing.definition
    there = silver.stored_columns(work.table, work.head)
    columns = work.seen(work.standing) if known else there
    commit = replace(
        work.commit(work.window.whole, work.standing, columns),
        kind=CommitKind.RESET,
        is_overwrite=True,
        has_unknown_columns=not known,
        folded_to=NOT_FOLDED,
    )
    rows = spark.createDataFrame([], sql.columns(columns.stored))
    landed = work.table.renew(rows, work.head, commit)
    return Compacted(work.source, work.name, work.window.whole, landed)


def _anew(work: Work, head: Head | None, stored: dict[str, str]) -> tuple[Head, bool]:
    """The head to append to: a table's that is made or rebuilt, or as it is; and whether its rows are overwritten."""
    if head is not None and not (work.reset and head is work.head):
        return head, False
    return work.table.new(stored, silver.properties(work.table), head), head is not None


def by_rule(turn: SchemaChange) -> dict[str, int]:
    return {turn.left_out_by: 1} if turn.left_out_by else {}


def total(work: Work, head: Head, done: Sequence[Compacted], seconds: float) -> Compacted:
    """What was done to a table in all."""
    counts = {name: sum(getattr(one, name) for one in done) for name in ("changes", "inserts", "updates", "deletes")}
    newest = max((one.committed_at for one in done if one.committed_at), default=None)
    left_out = sum((Counter(one.left_out) for one in done), Counter())
    return Compacted(
        source=work.source,
        name=work.name,
        range=work.window.whole,
        head=head,
        committed_at=newest,
        seconds=seconds,
        left_out=dict(left_out),
        **counts,
    )


def _window(spark: SparkSession, work: Work, head: Head | None, rows: DataRange) -> Compacted:
    """Appends what is left of the changes between two statements."""
    columns = work.seen(rows.standing)
    head, is_overwrite = _anew(work, head, columns.stored)
    if not head.design:
        silver.require_same_columns(work.table, columns.stored, str(work.name))
    net = net_changes(spark, work, work.part(rows.range), rows.standing)
    commit = replace(work.commit(rows.range, rows.standing, columns, net.left_out), is_overwrite=is_overwrite)
    landed = work.table.append(net.rows, head, commit)
    return net.summary(work, landed)


def _turn(spark: SparkSession, work: Work, head: Head, turn: SchemaChange) -> Head:
    """Changes the table as a statement changed the source's, then moves its position over the statement.

    The commit that moves it holds all steps; from it the merge learns what to do downstream.
    """
    if turn.anew:
        log.warning("%s: at %s columns begin anew: %s", work, turn.range.start, turn.anew)
    head, commit = _reshaped(spark, work, head, turn)
    return work.table.append(markers(spark, work.table.columns(), [turn]), head, commit)


def _renamed(spark: SparkSession, work: Work, head: Head | None, turn: SchemaChange) -> Compacted:
    """Puts what another table held in the place of what the table held, in the commit that moves it on."""
    stored = silver.columns(_told(turn), has_partial=work.has_partial).stored
    head, is_overwrite = _anew(work, head, stored)
    head, commit = _reshaped(spark, work, head, turn)
    commit = replace(commit, is_overwrite=is_overwrite)
    counted = Observation()
    rows = carried_rows(spark, work, turn)
    inserts, newest = F.count(F.lit(1)).alias("inserts"), F.max(F.unix_micros("_committed_at")).alias("micros")
    rows = rows.observe(counted, inserts, newest).unionByName(markers(spark, stored, [turn]))
    landed = work.table.append(rows.select(*map(identifier, stored)), head, commit)
    found = counted.get
    at = None if found["micros"] is None else datetime.fromtimestamp(found["micros"] / 1e6, UTC)
    return Compacted(work.source, work.name, turn.range, landed, inserts=found["inserts"], committed_at=at)


@dataclass(frozen=True, slots=True)
class Reshaping:
    """What a statement does to a silver table: its columns behind it, and the steps that lead there.

    steps: what is done downstream too. left: all that silver needs.
    """

    after: silver.Columns
    steps: Sequence[str]
    left: Sequence[str]


def reshaping(work: Work, before: silver.Columns, turn: SchemaChange) -> Reshaping:
    """From the columns that silver has to those that a statement left. Raises TableStopped."""
    after = work.seen(turn.standing) if turn.standing.definition else before
    _require_key_kept(before, after, turn)
    rule = work.filters.columns
    origins = masking.origins_seen(rule, column_origins(turn, before.types, after.types), before, after)
    fills = masking.fills_seen(rule, turn.fills, after)
    steps = schema_evolution.steps(before.types, after.types, origins, fills)
    return Reshaping(after, steps, [*steps, *_of_silver_alone(before, after, origins)])


def _require_key_kept(before: silver.Columns, after: silver.Columns, turn: SchemaChange) -> None:
    if turn.keeps and before.key != after.key:
        raise TableStopped(
            f"was created again at {turn.range.start} with another key, and a rule keeps the rows that it had"
        )


def turn_commit(work: Work, turn: SchemaChange, after: silver.Columns, steps: Sequence[str]) -> SilverCommit:
    """The commit that moves a table over a statement."""
    return replace(
        work.commit(turn.range, turn.standing, after, by_rule(turn)),
        kind=CommitKind.CHANGE,
        log_bytes=turn.carried.size if turn.carried else 0,
        steps=tuple(steps),
        inherited_from=str(turn.carried.name) if turn.carried else None,
    )


def _reshaped(spark: SparkSession, work: Work, head: Head, turn: SchemaChange) -> tuple[Head, SilverCommit]:
    """The table with the columns that a statement left, and the commit that moves it over the statement."""
    newest = SilverCommit.of_head(head)
    if newest is None:
        return head, turn_commit(work, turn, work.seen(turn.standing), ())
    before = silver.stored_columns(work.table, head)
    if newest.statement_at == turn.range.start:
        after = work.seen(turn.standing) if turn.standing.definition else before
        _require_key_kept(before, after, turn)
        done = Reshaping(after, newest.steps or (), newest.steps_left or ())
    else:
        done = reshaping(work, before, turn)
    # The newest commit says already what rules kept out until here.
    filtered: dict[str, int] | None = None if newest.filtered is None else {}
    altering = replace(newest, statement_at=turn.range.start, steps=tuple(done.steps), filtered=filtered)
    head = schema_evolution.carry_out(spark, work.table, head, done.left, altering)
    return head, turn_commit(work, turn, done.after, done.steps)


def _told(turn: SchemaChange) -> TableDefinition:
    assert turn.standing.definition
    return turn.standing.definition


def carried_rows(spark: SparkSession, work: Work, turn: SchemaChange) -> DataFrame:
    """What a table held that took the name of the work's, as silver rows of the statement that gave it the name."""
    assert turn.carried
    columns = silver.columns(_told(turn), has_partial=work.has_partial)
    held = _held(spark, work, turn.carried)
    held = held if turn.origins is None else _rekeyed(held, str(work), turn)
    given = {
        "_op": literal(silver.Op.RENAME),
        "_existed": "NULL" if columns.is_bag else "false",
        "_position": silver.at_sql(turn.range.start),
        "_window_start": silver.place_sql(turn.range.start),
        "_window_stop": silver.place_sql(turn.range.stop),
    }
    return held.selectExpr(*silver.cells_sql(columns.stored, {name: identifier(name) for name in held.columns} | given))


def _rekeyed(held: DataFrame, name: str, turn: SchemaChange) -> DataFrame:
    """The rows that a table held, a row each, as it has them behind a statement that changed what tells them apart."""
    assert turn.carried
    assert turn.carried.standing.definition
    before, after = silver.columns(turn.carried.standing.definition), silver.columns(_told(turn))
    if before.is_bag:
        why = (
            f"spark_jobs.errors.TableStopped: {name}: its rows are counted, and get a key at {turn.range.start}, by "
            "which two would be one; what the lake has of it is not what the server had (stratalog verify)\n\n"
        )
        alone = f"IF({silver.COPIES} = 1, true, CAST(raise_error({literal(why)}) AS BOOLEAN))"
        held = held.where(alone).drop(silver.COPIES)
    now = project_to_latest(before.types, [turn])
    names = [*after.types, "_raw", "_committed_at"]
    cells = [f"{now.get(name, identifier(name))} AS {identifier(name)}" for name in names]
    return held.selectExpr(*cells, *([f"1L AS {silver.COPIES}"] if after.is_bag else []))


def _held(spark: SparkSession, work: Work, content: TableContents) -> DataFrame:
    """What a table held: a row a key, or an image with its copies, and ``_committed_at`` and ``_raw``."""
    definition = content.standing.definition
    assert definition
    content = content.alive
    bases = [] if content.base is None else [content.base.table.columns()]
    has_partial = work.has_partial or any(silver.ABSENT in there for there in bases)
    columns = silver.columns(definition, has_partial=has_partial)
    own = replace(work, name=content.name, size=content.size, filters=TableFilters(skips=content.skips))
    parts = []
    if content.base:
        parts.append((_alive(spark, content.base), content.base.columns, 0))
    for at, step in enumerate(content.steps):
        if isinstance(step, DataRange):
            window = replace(own.part(step.range), xa=content.xa, cuts=frozenset([step.range.start]))
            net = net_changes(spark, own, window, step.standing)
            parts.append((net.rows, step.standing.columns, at + 1))
        elif step.carried:
            parts.append((carried_rows(spark, own, step), silver.columns(_told(step)), at + 1))
    names = [*columns.types, "_op", "_position", "_committed_at", "_raw", *([silver.COPIES] if columns.is_bag else [])]
    names += [silver.ABSENT] if has_partial else []
    led = []
    for part, before, at in parts:
        rows = part if silver.ABSENT in part.columns else part.withColumn(silver.ABSENT, F.lit(None).cast(ABSENT_TYPE))
        now = project_to_latest(before.types, [one for one in content.steps[at:] if isinstance(one, SchemaChange)])
        led.append(rows.selectExpr(*(f"{now.get(name, identifier(name))} AS {identifier(name)}" for name in names)))
    standing = content.standing
    lacks_older = standing.is_numbered and not standing.is_complete
    name = f"{work.source}: {content.name}"
    return _settled(union(led), columns, name, lacks_older=lacks_older)


def _alive(spark: SparkSession, base: SilverSnapshot) -> DataFrame:
    """Silver's rows at a version, without what stands before the last statement that emptied the table."""
    rows = base.table.read(spark, base.version).where(f"_op <> '{silver.Op.TRUNCATE}'")
    return rows.where(f"_position > {silver.before_sql(base.emptied)}") if base.emptied else rows


def _settled(rows: DataFrame, columns: silver.Columns, name: str, *, lacks_older: bool) -> DataFrame:
    """Of rows of several windows what is there in the end: the last of each key, or the copies of each image.

    lacks_older: as ``silver.copies_sql`` has it.
    """
    rows = rows.withColumn("_window", F.lit(0))
    if columns.has_partial and not columns.is_bag:
        found = _overlaid(rows.withColumn("_gone", F.expr(f"_op = '{silver.Op.DELETE}'")), columns)
        why = (
            f"spark_jobs.errors.TableStopped: {name}: it was renamed, or its key changed, and its row images left "
            "columns out of rows that the log never held whole; load it first\n\n"
        )
        checked = F.expr(f"IF({silver.ABSENT} IS NULL, _gone, CAST(raise_error({literal(why)}) AS BOOLEAN))")
        return found.withColumn("_gone", checked).where("NOT _gone").drop("_gone", silver.ABSENT, partial_rows.ENDED)
    if not columns.is_bag:
        names = [*columns.types, "_op", "_position", "_committed_at", "_raw"]
        return _last(rows, columns, names, F.count("*").alias("_changes")).where(f"_op <> '{silver.Op.DELETE}'")
    found = _counted(rows, columns)
    copies = silver.copies_sql(silver.COPIES, name, lacks_older=lacks_older)
    return found.withColumn(silver.COPIES, F.expr(copies)).where(f"{silver.COPIES} > 0")


def _of_silver_alone(before: silver.Columns, after: silver.Columns, origins: Mapping[str, str | None]) -> list[str]:
    """Steps that downstream has no need of.

    Where a table that was a bag has a key from now on, or the other way round, and where columns that rows lack have
    other names. origins: by new name the old one.
    """
    found = []
    if before.is_bag != after.is_bag:
        name = identifier(silver.COPIES)
        found.append(f"ADD COLUMN ({name} {after.added[silver.COPIES]})" if after.is_bag else f"DROP COLUMN {name}")
    kept = {origin: name for name, origin in origins.items() if origin is not None}
    if before.has_partial and kept != {name: name for name in before.types}:
        names = {name: kept.get(name) for name in before.types}
        absent = partial_rows.renamed(names)
        found.append(f"UPDATE SET {silver.ABSENT} = {absent} WHERE {silver.ABSENT} IS NOT NULL")
    return found


def markers(spark: SparkSession, types: Mapping[str, str], turns: Sequence[SchemaChange]) -> DataFrame:
    """The rows of the statements that empty the table; none for others. types: of silver's columns."""
    emptying = [turn for turn in turns if turn.empties]
    times = [one.said.committed_at if one.said else None for one in emptying]
    cells = [
        {"start": cell(one.range.start), "stop": cell(one.range.stop), "at": at and int(at.timestamp() * 1e6)}
        for one, at in zip(emptying, times, strict=True)
    ]
    each = f"inline({rows_sql(cells, f'STRUCT<start: {silver.PLACE}, stop: {silver.PLACE}, at: BIGINT>')})"
    before = ", ".join(f"{literal(name)}, start.{identifier(name)}" for name in ("stretch", "number", "offset"))
    given = {
        "_op": literal(silver.Op.TRUNCATE),
        "_position": f"named_struct({before}, 'row', -1)",
        "_committed_at": "timestamp_micros(at)",
        "_window_start": "start",
        "_window_stop": "stop",
    }
    return spark.range(1).selectExpr(each).selectExpr(*silver.cells_sql(types, given))


@dataclass(frozen=True, slots=True)
class Net:
    """Silver rows that are yet to be computed, and what is counted while they are."""

    rows: DataFrame
    counted: Observation
    decoded: Observation
    left_out: dict[str, int]

    def summary(self, work: Work, head: Head) -> Compacted:
        """What was done, once the rows were written."""
        counts, micros = self.counted.get, self.decoded.get["micros"]
        return Compacted(
            source=work.source,
            name=work.name,
            range=work.window.whole,
            head=head,
            changes=self.decoded.get["changes"] or 0,
            inserts=counts[silver.Op.INSERT],
            updates=counts[silver.Op.UPDATE],
            deletes=counts[silver.Op.DELETE],
            committed_at=None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC),
            left_out=self.left_out,
        )


def net_changes(spark: SparkSession, work: Work, window: Window, standing: TableState) -> Net:
    """Silver rows of the window's ranges: one row a key and range.

    Where rules judge changes of rows, the range is decoded twice: their commit says how many each has left out.
    """
    counted, decoded = Observation(), Observation()
    alone = work.size <= _ONE_TASK
    definition = standing.definition
    assert definition
    whole, seen = silver.columns(definition, has_partial=work.has_partial), work.shape(definition, standing.kept)
    slices = _slices(spark, window, work)
    slices = slices.coalesce(1) if alone else slices
    skips = work.filters.skips
    left_out = work.filters.skipped_in(window.ranges)
    unseen = frozenset(whole.types.keys() - seen.columns.types.keys())
    if work.filters.judges_rows:
        asked = work.filters.asked
        unseen = frozenset(name for name in unseen if name.casefold() not in asked)
        task = passing_over(partial(_as_rows, definition, unseen if work.has_partial else None), skips)
        judged = slices.mapInArrow(task, row_filters.ddl(definition))
        judged = row_filters.with_defaults(judged, definition) if work.has_partial else judged
        told = row_filters.left_out_by(work.filters, definition, work.known, has_partial=work.has_partial)
        verdict = F.expr(told)
        judged = judged.withColumn(row_filters.LEFT_OUT_BY, verdict)
        found = judged.where(f"{row_filters.LEFT_OUT_BY} IS NOT NULL").groupBy(row_filters.LEFT_OUT_BY).count()
        left_out |= {row[row_filters.LEFT_OUT_BY]: row["count"] for row in work.table.collect(found)}
        slices = judged.where(f"{row_filters.LEFT_OUT_BY} IS NULL").drop(row_filters.LEFT_OUT_BY)
        task = judged_task(definition, whole, alone=alone)
    else:
        task = passing_over(decoding_task(definition, whole, alone=alone, unseen=unseen), skips)
    changes = slices.mapInArrow(_salted(task, seen.salt), _decoded_ddl(whole, seen.salt))
    changes = changes.observe(decoded, F.sum("_changes").alias("changes"), F.max("_micros").alias("micros"))
    changes = _with_defaults(changes, definition, whole) if whole.has_partial else changes
    changes, columns = _seen(changes, whole, seen), seen.columns
    settled = _counted(changes, columns) if columns.is_bag else changes
    if whole.has_partial and not columns.is_bag:
        settled = _overlaid_per_key(changes, columns, str(work))
    elif not (columns.is_bag or alone):
        settled = _last_per_key(changes, columns)
    rows = _silver_rows(settled, columns, window.ranges)
    by_operation = (F.count_if(F.col("_op") == op).alias(op) for op in _OF_CHANGES)
    return Net(rows.observe(counted, *by_operation), counted, decoded, left_out)


def _seen(changes: DataFrame, whole: silver.Columns, seen: masking.Shape) -> DataFrame:
    """The changes with the columns that are seen."""
    if seen.columns == whole and all(cell == identifier(name) for name, cell in seen.cells.items()):
        return changes
    own = {name for name in changes.columns if name in {*_DECODED, *_OF_KEYS, *_OF_BAGS, silver.ABSENT, "_window"}}
    names = [*seen.columns.types, "_raw", *sorted(own - {"_raw"})]
    hidden: dict[str, str | None] = {name: None for name in whole.types if name not in seen.columns.types}
    cells = dict(seen.cells) | ({silver.ABSENT: partial_rows.renamed(hidden)} if whole.has_partial else {})
    return changes.selectExpr(*(f"{cells.get(name, identifier(name))} AS {identifier(name)}" for name in names))


def _with_defaults(changes: DataFrame, definition: TableDefinition, columns: silver.Columns) -> DataFrame:
    """The changes with what inserts leave out: the columns' defaults, as far as these are known."""
    defaults = {str(column.name): column.default for column in definition.columns if column.default is not None}
    cells = {name: identifier(name) for name in changes.columns}
    inserted = (
        "true" if columns.is_bag else "NOT _existed AND _exists"
    )  # an update of the key is whole (net_changes.py)
    found = partial_rows.with_defaults(defaults, columns.types, cells, inserted)
    return changes.selectExpr(*(f"{found[name]} AS {identifier(name)}" for name in changes.columns))


def _overlaid_per_key(changes: DataFrame, columns: silver.Columns, name: str) -> DataFrame:
    """One row a key and window, as ``_last_per_key``, of rows that may lack columns; what all lack stays absent."""
    existed = F.min_by("_existed", "_position").alias("_existed")
    found = _overlaid(changes.withColumn("_gone", F.expr("NOT _exists")), columns, existed)
    why = (
        f"spark_jobs.errors.TableStopped: {name}: a row image leaves columns out of a row that was deleted before "
        "it, and whose INSERT is passed over\n\n"
    )
    exists = f"IF({partial_rows.ENDED}, CAST(raise_error({literal(why)}) AS BOOLEAN), NOT _gone)"
    return found.withColumn("_exists", F.expr(exists)).drop("_gone", partial_rows.ENDED)


def _overlaid(rows: DataFrame, columns: silver.Columns, *others: Column) -> DataFrame:
    """Of what is one key in a window, its rows laid over each other."""
    identity = {f"{silver.IDENTITY}{at}": F.expr(one) for at, one in enumerate(columns.identity())}
    found = partial_rows.folded(rows.withColumns(identity), ["_window", *identity], columns.types, *others)
    return found.drop(*identity)


def _slices(spark: SparkSession, window: Window, work: Work) -> DataFrame:
    """Those with rows of the table, by where their bytes stand; of XA transactions with EFFECT besides."""
    name = work.name
    xa = window.xa.of(name, work.filters.skips)
    slices = cut(bronze.read_all(spark, window.table, window.version), window.cuts)
    slices = effective(slices, window.whole, xa if len(xa.held) else NO_XA)
    slices = slices.where((F.col("kind") == "rows") & bronze.holding(name.schema, name.table))
    slices = bronze.in_ranges(slices, window.ranges).withColumnRenamed("part", "window")
    names = ("stretch", "number", "start", "file", "transaction_start", "committed_at", "context", "payload", "window")
    return by_bytes(slices).select(*names, EFFECT) if len(xa.held) else slices.select(*names)


def _last_per_key(changes: DataFrame, columns: silver.Columns) -> DataFrame:
    """One row a key and window: the last image, and whether the key existed before the first."""
    names = [*columns.types, "_exists", "_position", "_committed_at", "_raw"]
    return _last(changes, columns, names, F.min_by("_existed", "_position").alias("_existed"))


def _counted(changes: DataFrame, columns: silver.Columns) -> DataFrame:
    """Of a bag one row an image and window, with the copies that came less those that went."""
    names = [*columns.types, "_position", "_committed_at", "_raw"]
    found = _last(changes, columns, names, F.sum(silver.COPIES).alias(silver.COPIES))
    found = found.withColumn("_existed", F.lit(None).cast("boolean"))  # how many there were before, no window knows
    return found.withColumn(silver.ABSENT, F.lit(None).cast(ABSENT_TYPE)) if columns.has_partial else found


def _last(changes: DataFrame, columns: silver.Columns, names: Sequence[str], other: Column) -> DataFrame:
    """Of what is one key or one image in a window, the last row's columns of these names, and an aggregate of all."""
    identity = [F.expr(one).alias(f"{silver.IDENTITY}{at}") for at, one in enumerate(columns.identity())]
    rest = F.struct(*(F.col(identifier(name)) for name in names))
    grouped = changes.groupBy("_window", *identity).agg(F.max_by(rest, "_position").alias("last"), other)
    own = [name for name in grouped.columns if name != "last" and not name.startswith(silver.IDENTITY)]
    return grouped.select(*own, "last.*")


def _silver_rows(settled: DataFrame, columns: silver.Columns, ranges: Sequence[Range]) -> DataFrame:
    """One row a key or image and window, with the columns of a silver table."""
    starts, stops = (F.expr(array([getattr(range_, end) for range_ in ranges])) for end in ("start", "stop"))
    if columns.is_bag:
        went, stayed = F.col(silver.COPIES) < 0, F.col(silver.COPIES) == 0
    else:
        went, stayed = ~F.col("_exists"), F.col("_existed")
    op = F.when(went, silver.Op.DELETE).when(stayed, silver.Op.UPDATE).otherwise(silver.Op.INSERT)
    computed = {"_op": op, "_window_start": F.get(starts, "_window"), "_window_stop": F.get(stops, "_window")}
    return settled.select(*(computed.get(name, F.col(identifier(name))).alias(name) for name in columns.stored))


_DECODED = {
    "_position": silver.CHANGE_PLACE,
    "_committed_at": "TIMESTAMP",
    "_raw": "MAP<STRING, STRING>",
    "_changes": "BIGINT",
    "_micros": "BIGINT",
}
_OF_KEYS = {"_existed": "BOOLEAN", "_exists": "BOOLEAN"}
_OF_BAGS = {silver.COPIES: "BIGINT"}


def _decoded_ddl(columns: silver.Columns, salt: str | None = None) -> str:
    types = columns.types | {"_window": "INT"} | (_OF_BAGS if columns.is_bag else _OF_KEYS)
    types |= ({silver.ABSENT: ABSENT_TYPE} if columns.has_partial else {}) | _DECODED
    types |= {masking.SALT: "STRING"} if salt else {}
    return sql.columns(types)


Batches = Iterator[pa.RecordBatch]


def decoding_task(
    definition: TableDefinition, columns: silver.Columns, *, alone: bool, unseen: frozenset[str] = frozenset()
) -> Callable[[Batches], Batches]:
    """A mapInArrow function from slices to two rows at most a key and gathered run of changes; of a bag to all images.

    ``alone``: it gets all slices of the window; then it gives one row a key and window. Where rows may lack columns
    they are all given, in either case; unseen: those that nobody asks for.
    """
    if columns.has_partial:
        return _net_task(lambda slices: _partial(definition, unseen, slices), columns, alone=alone)
    before: Literal["key", "all"] = "all" if columns.is_bag else "key"
    return _net_task(
        lambda slices: _whole(Decoder(definition, before=before, prepared=True), slices), columns, alone=alone
    )


def judged_task(definition: TableDefinition, columns: silver.Columns, *, alone: bool) -> Callable[[Batches], Batches]:
    """The same from changes as rows, those that rules have left."""
    names = definition.column_names()

    def read(rows: Batches) -> Iterator[tuple[Changes, Place, pa.Array | None]]:
        for row in rows:
            for changes, place, absent in row_filters.as_changes(row, names):
                yield changes, place, absent if columns.has_partial else None

    return _net_task(read, columns, alone=alone)


def _net_task(
    read: Callable[[Batches], Iterator[tuple[Changes, Place, pa.Array | None]]], columns: silver.Columns, *, alone: bool
) -> Callable[[Batches], Batches]:
    names, finish = list(columns.types), settle if alone else reduce

    def each(batches: Batches) -> Batches:
        for changes, place, absent in read(batches):
            found = image_rows(changes, place, names, absent) if columns.is_bag else None
            for rows in found or net_rows(changes, place, names, columns.key, absent):
                yield from rows.to_batches(_BATCH)

    def run(batches: Batches) -> Batches:
        gathered: list[pa.Table] = []
        most = _REDUCE_AT
        found = (net_rows(changes, place, names, columns.key) for changes, place, _ in read(batches))
        for rows in chain.from_iterable(found):
            gathered.append(rows)
            if sum(map(len, gathered)) >= most or len(gathered) >= _PIECES:
                gathered = [reduce(pa.concat_tables(gathered), columns.key)]
                most = max(_REDUCE_AT, 2 * len(gathered[0]))
                if len(gathered[0]) >= _REDUCE_AT // 2 and not alone:  # few keys repeat; holding them gains nothing
                    yield from gathered.pop().combine_chunks().to_batches(_BATCH)
        if gathered:
            yield from finish(pa.concat_tables(gathered), columns.key).combine_chunks().to_batches(_BATCH)

    return each if columns.is_bag or columns.has_partial else run


def _salted(task: Callable[[Batches], Batches], salt: str | None) -> Callable[[Batches], Batches]:
    """The task with the salt beside its rows; in the task's own code it stands in no query that Spark shows."""
    if salt is None:
        return task

    def run(batches: Batches) -> Batches:
        for rows in task(batches):
            yield rows.append_column(masking.SALT, pa.repeat(pa.scalar(salt), len(rows)))

    return run


def passing_over(task: Callable[[Batches], Batches], skips: frozenset[Position]) -> Callable[[Batches], Batches]:
    """The task over slices without the events that are passed over."""
    if not skips:
        return task

    def plain(slices: Batches) -> Batches:
        for batch in slices:
            places = zip(*(batch.column(one).to_pylist() for one in ("file", "start", "stretch")), strict=True)
            held = batch.column("payload").to_pylist()
            payloads = [without(skips, Position(*at), one) for at, one in zip(places, held, strict=True)]
            at = batch.schema.get_field_index("payload")
            yield batch.set_column(at, "payload", pa.array(payloads, pa.binary()))

    return lambda slices: task(plain(slices))


def _as_rows(definition: TableDefinition, unseen: frozenset[str] | None, slices: Batches) -> Batches:
    """unseen: None where every row image is to be whole."""
    if unseen is None:
        for changes, place in _decoded(Decoder(definition, before="all", prepared=True), slices):
            yield row_filters.as_rows(changes, place)
        return
    for whole, place, absent, absent_before in _completed(definition, unseen, slices):
        yield row_filters.as_rows(whole, place, absent, absent_before)


def _whole(decoder: Decoder, slices: Batches) -> Iterator[tuple[Changes, Place, None]]:
    for changes, place in _decoded(decoder, slices):
        yield changes, place, None


def _partial(
    definition: TableDefinition, unseen: frozenset[str], slices: Batches
) -> Iterator[tuple[Changes, Place, pa.Array]]:
    for whole, place, absent, _ in _completed(definition, unseen, slices):
        yield whole, place, absent


def _completed(
    definition: TableDefinition, unseen: frozenset[str], slices: Batches
) -> Iterator[tuple[Changes, Place, pa.Array, pa.Array]]:
    """The changes, as whole as their images make them, and what the row behind each and the one before it lack."""
    decoder = Decoder(definition, before="all", partial=True, prepared=True)
    for changes, place in _decoded(decoder, slices):
        origin = partial_images.Origin(definition, place.file, decoder.is_mariadb, unseen)
        whole, absent, absent_before = partial_images.completed(changes, origin)
        yield whole, place, absent, absent_before


def _decoded(decoder: Decoder, slices: Batches) -> Iterator[tuple[Changes, Place]]:
    numbered = _Numbered()
    for batch in slices:
        for cells in ({name: batch.column(name)[at] for name in batch.schema.names} for at in range(batch.num_rows)):
            given = {name: cells[name].as_py() for name in ("file", "stretch", "number", "window")}
            start, context = cells["start"].as_py(), cells["context"].as_py()
            begun = {
                "transaction_start": cells["transaction_start"].as_py(),
                "committed_us": cells["committed_at"].value,
            }
            found = decoder.decode(given["file"], start, context, cells["payload"].as_buffer(), **begun)
            effect = cells[EFFECT].as_py() if EFFECT in cells else None
            if effect is None:
                yield from ((changes, Place(**given)) for changes in found)
                continue
            place = Place(effect["file"], effect["stretch"], effect["number"], given["window"])
            at = Position(effect["file"], effect["start"], effect["stretch"])
            yield from ((changes, place) for changes in numbered.at(at, found, cells["committed_at"]))


class _Numbered:
    """Changes of XA transactions as of their commits: its place and time, and one row after the other there.

    The slices of a transaction have to come one after the other.
    """

    def __init__(self) -> None:
        self._place: Position | None = None
        self._rows = 0

    def at(self, place: Position, found: Iterator[Changes], committed: pa.Scalar) -> Iterator[Changes]:
        """Raises as the decoder does, naming the commit too; Unsupported for more rows than a position counts."""
        self._place, self._rows = place, self._rows if place == self._place else 0
        try:
            for changes in found:
                numbers = np.arange(self._rows, self._rows + len(changes))
                self._rows += len(changes)
                if self._rows > _MOST_ROWS:
                    raise Unsupported(f"{place}: an XA transaction of more than {_MOST_ROWS:,} rows of a table")
                offset = pa.repeat(pa.scalar(place.offset, pa.int64()), len(changes))
                times = pa.repeat(committed.cast(changes.committed_at.type), len(changes))
                yield replace(changes, offset=offset, row=pa.array(numbers.astype(np.int32)), committed_at=times)
        except DecodeError as error:
            raise type(error)(f"{error} (of the XA transaction that {place} commits)") from None


_MOST_ROWS = 1 << 31
