"""A range of the log done again from bronze: its windows in silver replaced by what the log says now.

Put here: what is asked for and what is wrong with it, which windows a range means, and replacing them. Not here: how
bronze gets what it lacks of the log (restore.py); what follows downstream, since the next merge sees the replaced
windows in silver's history and applies them (downstream/merge.py); or who asks (spark_jobs/cli, assets/backfill.py).

What bronze lacks before its oldest byte is brought first, where the range needs it or a window does that it touches.
What was logged before the first extraction began is in no window yet: it becomes windows of its own, older than all.

A range is snapped outward to whole windows. What decodes to the rows that are there already is not written again.

A table under rules may have no row of a window of which they left out all changes: what lies between the windows that
silver shows is done again too. Where rules about columns changed, or which statements are left out, all of the table is
done again and its rows are replaced, columns and all, in one commit: what a fresh run would have.
"""

import logging
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.downstream import publication
from spark_jobs.errors import ConfigError, JvmEnded, LakeError, PartialImage, StratalogError, TableStopped, about
from spark_jobs.lake.commit import CommitKind, Design, Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.ranges import union
from spark_jobs.lake.retry import patiently
from spark_jobs.lake.table import Table
from spark_jobs.log.location import require_places
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.destinations import why_not_anew
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.restore import Fetched, fetch, place_range
from spark_jobs.pipeline.run import compact_source, merge_source, publish
from spark_jobs.silver import masking
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compact import taking_partial, told_of_partial
from spark_jobs.silver.compaction_job import Compacted, CompactionJob, Window
from spark_jobs.silver.inherited_rows import inherited_rows
from spark_jobs.silver.planning_context import PlanningContext, filters_of
from spark_jobs.silver.projection import project_to_latest
from spark_jobs.silver.rename_lineage import RenameLineage
from spark_jobs.silver.statement_commits import markers
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TableContents, TableState, TimelineStep
from spark_jobs.silver.timeline.build import build as content_at_end
from spark_jobs.silver.timeline.inputs import Again
from spark_jobs.silver.window_rows import WindowRows, window_rows
from spark_jobs.text.remedies import advised
from spark_jobs.text.sql import identifier

log = logging.getLogger(__name__)


Layer = Literal["silver", "downstream"]
SILVER: Layer = "silver"
DOWNSTREAM: Layer = "downstream"
LAYERS: tuple[Layer, ...] = (SILVER, DOWNSTREAM)
"""``silver``: windows are decoded again, and replaced where they differ. ``downstream``: what was replaced is merged;
without ``silver``, the keys of the windows are merged again from silver as it is."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be done again: [start, stop) of a source's log, as places; no tables means all of them.

    archive: a folder with copies of files that bronze may lack, instead of the one that the configuration names.
    """

    source: str
    start: str | Position
    stop: str | Position
    tables: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = LAYERS
    archive: Path | None = None

    def require_valid(self, pipeline: Pipeline) -> None:
        """What can be known to be wrong without Spark. Raises ConfigError with all of it, LakeError for no bronze."""
        problems: dict[str, str] = {}
        texts = [str(place) for place in (self.start, self.stop)]
        problems |= {key: "missing" for key, text in zip(("from", "to"), texts, strict=True) if not text.strip()}
        try:
            require_places(*texts)
        except ConfigError as error:
            problems |= error.problems
        problems |= self._wrong_layers()
        if self.archive and not self.archive.is_dir():
            problems["archive"] = f"{self.archive} is no folder"
        if self.source not in pipeline.sources:
            problems["source"] = f"no source {self.source!r}; there are {', '.join(pipeline.sources)}"
        else:
            problems |= self._wrong_tables(_in_scope(pipeline, self.source))
        if problems:
            raise ConfigError(problems)

    def _wrong_layers(self) -> dict[str, str]:
        unknown = [repr(layer) for layer in self.layers if layer not in LAYERS]
        if unknown or not self.layers:
            return {"layers": f"{', '.join(unknown) or 'none'}: choose among {', '.join(LAYERS)}"}
        return {}

    def _wrong_tables(self, known: list[TableName]) -> dict[str, str]:
        problems = {}
        for at, text in enumerate(self.tables):
            try:
                pattern = Pattern.parse(text)
            except ConfigError as error:
                problems[f"tables[{at}]"] = str(error)
                continue
            if not any(pattern.matches(one.schema, one.table) for one in known):
                listed = ", ".join(map(str, sorted(known)[:_LISTED])) or "none"
                more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
                problems[f"tables[{at}]"] = f"{text} is no table of {self.source} that a run has seen: {listed}{more}"
        return problems

    def wants(self, name: TableName) -> bool:
        """Whether a table is to be done again."""
        patterns = map(Pattern.parse, self.tables)
        return not self.tables or any(pattern.matches(name.schema, name.table) for pattern in patterns)

    def range(self, spark: SparkSession, pipeline: Pipeline) -> Range:
        """Where the places lie in the log, also before bronze. Raises SourceError, ConfigError, LakeError."""
        return place_range(spark, pipeline, self.source, self.start, self.stop, archive=self.archive)

    def manner(self, said: "Said", brought: "Brought") -> "Manner":
        """With who is to hear of each table, and of what was brought into bronze."""
        return Manner(self.layers, said, brought, self.archive)


_LISTED = 20
"""Tables that a message names."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of some windows by what the log says now, beside those that silver holds.

    new: those that silver did not have so. gone: those of silver that are not among them. A row that changed is both.
    """

    rows: int = 0
    new: int = 0
    gone: int = 0

    @property
    def any(self) -> bool:
        return bool(self.new or self.gone)


@dataclass(frozen=True, slots=True)
class Redone:
    """What became of one table: its windows in the range, what differed in them, and what was replaced if anything did.

    found: None where silver was left alone.
    """

    name: TableName
    windows: tuple[Range, ...] = ()
    found: Difference | None = None
    compacted: Compacted | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.windows:
            return f"{self.name}: has no window in the range"
        windows = f"{self.name}: windows: {len(self.windows)}"
        if self.found is None:
            return f"{windows}, merged again as they are"
        said = "nothing differs" if not self.found.any else f"{self.found.new:,} new, {self.found.gone:,} gone"
        return f"{windows}, rows: {self.found.rows:,}, {said} ({self.seconds:.1f} s)"


Said = Callable[[Redone, int, int], None]
"""What a caller hears of each table: what became of it, the how manyth it is, and of how many."""


Brought = Callable[[Fetched], None]
"""What a caller hears of log that bronze lacked and has now."""


def _unsaid(_: Redone, __: int, ___: int) -> None:
    return None


def _unheard(_: Fetched) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Manner:
    """How a range is done again: through which layers, who is told of each table and of what was brought into bronze.

    archive: a folder with copies of files that bronze may lack, instead of the one that the configuration names.
    """

    layers: tuple[Layer, ...] = LAYERS
    said: Said = _unsaid
    brought: Brought = _unheard
    archive: Path | None = None


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


def redo(spark: SparkSession, work: CompactionJob) -> Redone:
    """Decodes the window's ranges again and replaces them where a row differs. Raises LostRace."""
    work = told_of_partial(work)
    try:
        return _redo(spark, work)
    except PartialImage:
        return _redo(spark, taking_partial(spark, work)[0])


def _redo(spark: SparkSession, work: CompactionJob) -> Redone:
    began = time.monotonic()
    assert work.head is not None
    with about(str(work)):
        columns = silver.stored_columns(work.table, work.head)
        renames = _renames(work)
        ranges = tuple(
            sorted((*work.window.ranges, *(rename.range for rename in renames)), key=lambda one: one.start.order)
        )
        whole = replace(work, window=replace(work.window, ranges=ranges))
        parts = list(_parts(spark, work, columns))
        carried = (_carried(spark, work, columns, rename) for rename in renames)
        rows = union([*(part for _, part in parts), *carried]).persist()
        left_out = _left_out(work, [net for net, _ in parts])
        try:
            found, landed = _put(rows, whole, columns, left_out)
            compacted = replace(_counted(rows, whole, landed), left_out=left_out) if landed else None
        finally:
            rows.unpersist()
    seconds = time.monotonic() - began
    return Redone(work.name, ranges, found, compacted and replace(compacted, seconds=seconds), seconds)


def _put(
    rows: DataFrame, work: CompactionJob, columns: silver.Columns, left_out: dict[str, int]
) -> tuple[Difference, Head | None]:
    """These rows in the place of those that silver holds, where one differs: what differs, and the commit."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    within = Range(work.window.whole.start, work.head.checkpoint.position)
    if work.is_ruled and (work.is_reshaped or _is_emptied_elsewhere(rows.sparkSession, work)):
        found = _all(rows, work)
        return found, _renewed(rows, work, _shape(work, columns), left_out)
    found = _difference(rows, work, work.head, columns)
    if not found.any:
        return found, None
    commit = work.commit(within, _standing(work), columns, left_out)
    commit = replace(commit, kind=CommitKind.REDO, ranges=work.window.ranges)
    earlier = _emptied_earlier(rows.sparkSession, work)
    condition = _within([*work.window.ranges, *(turn.range for turn in earlier)], work.again)
    rows = rows.unionByName(markers(rows.sparkSession, columns.stored, earlier)) if earlier else rows
    return found, work.table.replace(rows, condition, work.head, commit)


def _standing(work: CompactionJob) -> TableState:
    """How the table stands in the end, with what is known of its beginning since log before the first extraction is."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    noted, told = TableState.of(SilverCommit.of(work.head.checkpoint)), work.standing
    if told is None:
        return noted
    return replace(noted, emptied=noted.emptied or told.emptied, is_complete=noted.is_complete or told.is_complete)


def _emptied_earlier(spark: SparkSession, work: CompactionJob) -> list[SchemaChange]:
    """The statements before the first extraction that emptied the table, and that silver does not show yet."""
    if work.standing is None:
        return []
    there = _emptied_at(spark, work)
    return [turn for turn in _emptying(work) if turn.range.start.order not in there]


def _left_out(work: CompactionJob, parts: Sequence[WindowRows]) -> dict[str, int]:
    turns = [turn.left_out_by for turn in work.steps if isinstance(turn, SchemaChange) and turn.left_out_by]
    return dict(sum((Counter(net.left_out) for net in parts), Counter(turns)))


def _shape(work: CompactionJob, columns: silver.Columns) -> silver.Columns:
    """The columns that silver is to have. Raises LakeError where rules changed them, and not all is done again."""
    if not work.is_reshaped:
        return columns
    if not work.is_whole:
        raise LakeError("the rules about its columns changed; do all of its log again, not a part")
    known = next((step.standing for step in reversed(work.steps) if step.standing.definition), None)
    return work.seen(known) if known else columns


def _is_emptied_elsewhere(spark: SparkSession, work: CompactionJob) -> bool:
    """Whether other statements empty the table than those that silver has, as far as all of it is done again."""
    if not work.is_whole:
        return False
    return _emptied_at(spark, work) != {turn.range.start.order for turn in _emptying(work)}


def _emptied_at(spark: SparkSession, work: CompactionJob) -> set[tuple[int, ...]]:
    """Where the statements stand that emptied the table, as silver shows them."""
    assert work.head is not None
    rows = work.table.read(spark, work.head.version).where(f"_op = '{silver.Op.TRUNCATE}'")
    return {tuple(row["_window_start"]) for row in rows.select("_window_start").collect()}


def _emptying(work: CompactionJob) -> list[SchemaChange]:
    return [step for step in work.steps if isinstance(step, SchemaChange) and step.empties]


def _renewed(rows: DataFrame, work: CompactionJob, columns: silver.Columns, filtered: dict[str, int]) -> Head:
    """Replaces all rows, and the columns by those that rules leave. Raises LakeError where rows were loaded."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    there = work.table.read(rows.sparkSession, work.head.version)
    if not there.where(f"_op = '{silver.Op.LOAD}'").isEmpty():
        raise LakeError(
            f"{work.table.path} has rows that were loaded, which no log tells again; under other rules it cannot be "
            "done again"
        )
    stored = columns.stored
    whole = rows.unionByName(markers(rows.sparkSession, stored, _emptying(work)))
    standing = work.steps[-1].standing
    within = Range(work.window.whole.start, work.head.checkpoint.position)
    commit = replace(
        work.commit(within, standing, columns),
        kind=CommitKind.REDO,
        filtered=filtered,
        ranges=work.window.ranges,
        is_overwrite=True,
    )
    return work.table.renew(Design(stored, {}).of(whole), work.head, commit)


def _counted(rows: DataFrame, work: CompactionJob, head: Head) -> Compacted:
    """What was done, by the rows that are kept: what Spark observes of such rows is not told in every plan of them.

    Changes are rows, net: of a bag, copies that came or went.
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
        inserts=counts.get(silver.Op.INSERT, 0) + counts.get(silver.Op.RENAME, 0),
        updates=counts.get(silver.Op.UPDATE, 0),
        deletes=counts.get(silver.Op.DELETE, 0),
        committed_at=None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC),
    )


def _parts(spark: SparkSession, work: CompactionJob, columns: silver.Columns) -> Iterator[tuple[WindowRows, DataFrame]]:
    """The windows' rows, each decoded by the definition of its time and led on to the table's present columns."""
    left = set(work.window.ranges)
    starts = [range_.start for range_ in work.window.ranges]
    for at, step in enumerate(work.steps):
        first, last = (bisect_left(starts, end) for end in (step.range.start, step.range.stop))
        ranges = tuple(work.window.ranges[first:last])
        if isinstance(step, SchemaChange) or not ranges:
            continue
        left -= {*ranges}
        _require_keyed(work, columns, step.definition, ranges[-1])
        net = window_rows(spark, work, replace(work.window, ranges=ranges), step.standing)
        later = [one for one in work.steps[at:] if isinstance(one, SchemaChange)]
        now = _led_on(work, step.standing, later)
        given = {name: identifier(name) for name in net.rows.columns} | now
        yield net, net.rows.selectExpr(*silver.cells_sql(_shape(work, columns).stored, given))
    if left:
        unknown = min(left, key=lambda one: one.start.order)
        raise LakeError(f"the definition of rows in {unknown} is not known; begin the range earlier")


def _led_on(work: CompactionJob, standing: TableState, later: Sequence[SchemaChange]) -> dict[str, str]:
    """Rows of a table that stands so as silver has them behind all later statements. Raises TableStopped."""
    columns = work.seen(standing)
    found = project_to_latest(columns.types, later, work.seen)
    for turn in later:
        if turn.standing.definition and turn.origins is not None:
            after = work.seen(turn.standing)
            masking.origins_seen(work.filters.columns, turn.origins, columns, after)
            masking.fills_seen(work.filters.columns, turn.fills, after)
    return found


def _require_keyed(work: CompactionJob, columns: silver.Columns, logged: TableDefinition, window: Range) -> None:
    """Raises LakeError where silver has a key for a window's rows, and which is not known."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    emptied = SilverCommit.of(work.head.checkpoint).emptied_at
    if not columns.is_bag and not logged.key and (emptied is None or emptied < window.stop):
        raise LakeError(f"the key of rows in {window} is not known; begin the range earlier")


def _renames(work: CompactionJob) -> list[SchemaChange]:
    """The statement by which the table has its name, where the rows that came with it are to be done again."""
    return [step for step in work.steps if isinstance(step, SchemaChange) and step.carried and step.range == work.again]


def _carried(spark: SparkSession, work: CompactionJob, columns: silver.Columns, turn: SchemaChange) -> DataFrame:
    """The rows that came with the name, led on to the table's present columns."""
    assert turn.standing.definition
    later = [step for step in work.steps[work.steps.index(turn) + 1 :] if isinstance(step, SchemaChange)]
    now = project_to_latest(turn.standing.columns.types, later)
    names = columns.stored
    rows = inherited_rows(spark, work, turn)
    return rows.selectExpr(*(f"{now.get(name, identifier(name))} AS {identifier(name)}" for name in names))


def _within(ranges: Sequence[Range], again: Range | None = None) -> str:
    """SQL: the rows of windows, and those that came with a name: not the row that says that it emptied the table."""
    windows = silver.within_any([range_ for range_ in ranges if range_ != again])
    if again is None or again not in ranges:
        return windows
    return f"({windows}) OR ({silver.within(again)} AND _op = '{silver.Op.RENAME}')"


def _all(rows: DataFrame, work: CompactionJob) -> Difference:
    """These rows in the place of all that silver holds."""
    assert work.head is not None
    count = rows.count()
    return Difference(count, count, work.table.read(rows.sparkSession, work.head.version).count())


def _difference(rows: DataFrame, work: CompactionJob, head: Head, columns: silver.Columns) -> Difference:
    """These rows beside those that silver holds already. Maps do not compare; their entries do."""
    there = work.table.read(rows.sparkSession, head.version).where(_within(work.window.ranges, work.again))
    plain = [name for name in columns.stored if name != "_raw"]
    chosen = [*(F.col(identifier(name)) for name in plain), F.expr("map_entries(_raw)").alias("_raw")]
    ours, theirs = rows.select(*chosen, F.lit(1).alias(_SIDE)), there.select(*chosen, F.lit(-1).alias(_SIDE))
    both = ours.union(theirs)
    sides = both.groupBy(*(identifier(name) for name in columns.stored)).agg(
        F.sum(_SIDE).alias("net"), F.sum(F.expr(f"IF({_SIDE} > 0, 1, 0)")).alias("ours")
    )
    counted = sides.selectExpr(
        "coalesce(sum(ours), 0) AS rows",
        "coalesce(sum(greatest(net, 0)), 0) AS new",
        "coalesce(sum(greatest(-net, 0)), 0) AS gone",
    )
    return Difference(**work.table.collect(counted)[0].asDict())


_SIDE = "_side"
"""Which rows one is of while both are counted: 1 for those that the log gives now, -1 for those that are there."""


def _position(place: Sequence[int], like: Range, known: Sequence[Stretch] = ()) -> Position:
    """A stored place as a position; silver keeps numbers, and the files of a stretch share their base name."""
    stretch, number, offset = place
    if len(known) > 1:
        return Position(known[stretch - 1].file(number), offset, stretch)
    base, _, digits = like.start.file.rpartition(".")
    return Position(f"{base}.{number:0{len(digits)}d}", offset, stretch)


def backfill(
    spark: SparkSession, pipeline: Pipeline, request: Request, said: Said = _unsaid, brought: Brought = _unheard
) -> Outcome:
    """Does what a request asks for. Raises ConfigError, SourceError, LakeError."""
    request.require_valid(pipeline)
    wanted = request.range(spark, pipeline)
    manner = request.manner(said, brought)
    return backfill_source(spark, pipeline, request.source, wanted, request.wants, manner=manner)


def backfill_source(
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    wanted: Range,
    chosen: Callable[[TableName], bool],
    *,
    manner: Manner = Manner(),
) -> Outcome:
    """Does a range again for the chosen tables in scope. Raises LakeError; LostRace where others keep winning."""
    lake = lake_of(pipeline)
    replaces = SILVER in manner.layers
    names = sorted(filter(chosen, _in_scope(pipeline, name)))
    if replaces:
        held = BronzeSnapshot.of(lake, name)
        _require_end(held, wanted)
        if wanted.start < bronze.complete_from(held.checkpoint) and not _are_folded(lake, name, names, wanted):
            _bring(spark, pipeline, name, wanted.start, manner)
    done: list[Redone] = []
    stopped: dict[TableName, str] = {}
    for at, table_name in enumerate(names, 1):
        work = partial(_one, spark, pipeline, name, table_name, wanted, manner=manner)
        try:
            found = patiently(work)
        except JvmEnded:
            raise
        except StratalogError as error:
            stopped[table_name] = advised(error, name, table_name)
            log.error("%s", stopped[table_name])  # noqa: TRY400 - the message is the whole of it
        else:
            done.append(found)
            manner.said(found, at, len(names))
    replaced = [one.compacted for one in done if one.compacted]
    tables = frozenset(names) - stopped.keys()
    before = _first_seen(spark, pipeline, name, wanted, chosen) if replaces else None
    if before:
        tables |= {one.name for one in before.compacted}
        replaced += before.compacted
        stopped |= before.stopped
    if DOWNSTREAM not in manner.layers:
        if before:
            publish(spark, pipeline, name, before)
        return Outcome(publication.read(lake, name), publication.surveyed(lake, name), replaced, stopped=stopped)
    again = {} if replaces else {one.name: one.windows for one in done}
    outcome = patiently(lambda: merge_source(spark, pipeline, name, before, tables=tables, again=again))
    publish(spark, pipeline, name, outcome)
    return replace(outcome, compacted=replaced, stopped=outcome.stopped | stopped)


def _first_seen(
    spark: SparkSession, pipeline: Pipeline, name: str, wanted: Range, chosen: Callable[[TableName], bool]
) -> Outcome | None:
    """Compacts the tables that only log from before the first extraction shows, as a run does that sees one first."""
    held = BronzeSnapshot.of(lake_of(pipeline), name)
    begin, oldest = bronze.begin(held.checkpoint), bronze.oldest(held.checkpoint)
    if wanted.start >= begin or oldest >= begin:
        return None
    _, found = scan_effective(held.table, held.version, Range(oldest, begin), oldest)
    known = {one.name for one in publication.read(lake_of(pipeline), name)}
    new = [table for table in found.tables if (table.schema, table.table) not in known]
    mine = sorted(one for one in new if pipeline.scope.holds(one.schema, one.table) and chosen(one))
    if not mine:
        return None
    return patiently(lambda: compact_source(spark, pipeline, name, tables=frozenset(mine), appeared=mine))


def _bring(spark: SparkSession, pipeline: Pipeline, source: str, begin: Position, manner: Manner) -> None:
    """Has bronze hold the log from a place on. Raises LakeError where nobody has what it lacks."""
    for one in patiently(lambda: fetch(spark, pipeline, source, begin, manner.archive)):
        manner.brought(one)


def _are_folded(lake: Lake, source: str, names: Sequence[TableName], wanted: Range) -> bool:
    """Whether older log is of no use, since no table that it could be of is done again there."""
    heads = (lake.silver(source, name.schema, name.table).head() for name in names)
    return bool(names) and all(_folded_into(head, wanted) for head in heads)


def _folded_into(head: Head | None, wanted: Range) -> Position | None:
    """The floor of a table, where a range begins below it."""
    floor = silver.folded(head)
    return floor if floor and wanted.start < floor else None


def _one(
    spark: SparkSession, pipeline: Pipeline, source: str, name: TableName, wanted: Range, *, manner: Manner
) -> Redone:
    """One table; planned anew each time, since another writer may have moved its head."""
    lake = lake_of(pipeline)
    table = lake.silver(source, name.schema, name.table)
    head = table.head()
    held = BronzeSnapshot.of(
        lake, source
    )  # behind silver's head: a run may go on meanwhile, and this has all that silver has
    if SILVER not in manner.layers:
        return Redone(name, windows(spark, table, head, wanted, stretches(held.checkpoint)) if head else ())
    try:
        work = _work(spark, pipeline, held, name, head, wanted=wanted)
    except _Begun as error:
        with about(f"{source}: {name}"):
            _bring(spark, pipeline, source, error.begin, manner)
        return _one(spark, pipeline, source, name, wanted, manner=manner)
    return redo(spark, work) if work else Redone(name)


class _Begun(LakeError):
    """A window that a range touches begins before bronze does."""

    def __init__(self, begin: Position) -> None:
        super().__init__(f"a window of the range begins at {begin}, before bronze does")
        self.begin = begin


def _in_scope(pipeline: Pipeline, name: str) -> list[TableName]:
    """Tables of a source that a run has seen."""
    entries = publication.read(lake_of(pipeline), name)
    return [TableName(*entry.name) for entry in entries if pipeline.scope.holds(*entry.name)]


def _require_end(held: BronzeSnapshot, wanted: Range) -> None:
    """Raises LakeError where the range ends behind bronze."""
    if held.checkpoint.position < wanted.stop:
        raise LakeError(
            f"{held.source}: the range ends at {wanted.stop}, and bronze at {held.checkpoint.position}: what comes "
            "behind that is read by a run (stratalog run), not by a backfill; run first, or end the range there"
        )


def _work(
    spark: SparkSession, pipeline: Pipeline, held: BronzeSnapshot, name: TableName, head: Head | None, *, wanted: Range
) -> CompactionJob | None:
    """What is to be done again of a table whose silver is at ``head``; None where the range has none of its rows."""
    lake = lake_of(pipeline)
    context = replace(PlanningContext.of(pipeline, lake, held), by_log=True)
    table = lake.silver(held.source, name.schema, name.table)
    _require_unfolded(held.source, name, head, wanted)
    own = filters_of(context.filters, held.source, name)
    touched = _touched(spark, held, table, head, wanted, is_ruled=bool(own))
    named = _named(spark, table, head, wanted, stretches(held.checkpoint)) if head else None
    if head is None or (touched is None and named is None):
        log.info("%s: %s: has no window in %s", held.source, name, wanted)
        return None
    if head.position is None or (head.checkpoint and head.checkpoint.kind == CommitKind.ALTERING):
        raise LakeError(f"{table.path} is between two sets of columns, where a run ended; run again first")
    touched = touched or _Touched(())
    begin = min(one.start for one in (*touched.windows, *touched.gaps, *([named] if named else [])))
    if begin < context.complete_from:
        raise _Begun(begin)
    onward = Range(begin, head.position)
    # Silver may have stopped inside a slice: what comes after that is no part of the range.
    slices, seen = scan_effective(held.table, held.version, onward, context.oldest, {begin, head.position})
    with about(f"{held.source}: {name}"):
        context = replace(context, numbers=context.numbers or silver.is_numbered(head))
        rules = replace(
            RenameLineage(context).rules(slices),
            why_not=why_not_anew(pipeline, held.source, name),
            is_bag=silver.stored_columns(table, head).is_bag,
            again=Again(SilverCommit.of(head.checkpoint).emptied_at if head.checkpoint else None),
            begun=_begun(table, begin),
        )
        content = content_at_end(seen, name, onward, None, rules)
        if silver.is_numbered(head) and not content.standing.is_numbered:
            raise TableStopped(
                "its columns are numbered in the lake (on_unnamed: number), and have names by now; begin it anew with "
                f"them (stratalog reset --source {held.source} --table {name})"
            )
        steps = content.steps
        carried = next((step.carried for step in steps if isinstance(step, SchemaChange) and step.range == named), None)
        again = named if carried and _since(name, carried, wanted) < wanted.stop else None
    ranges = sorted((*touched.windows, *_between(touched.gaps, steps)), key=lambda one: one.start.order)
    if not ranges and again is None:
        log.info("%s: %s: has no row in %s", held.source, name, wanted)
        return None
    bounds = frozenset(place for range_ in ranges for place in (range_.start, range_.stop))
    window = Window(held.table, held.version, tuple(ranges), xa=seen.xa, cuts=bounds)
    work = CompactionJob(held.source, name, window, steps, table, head, content.size, again=again, filters=own)
    standing = content.standing if ranges and ranges[0].start < bronze.begin(held.checkpoint) else None
    return replace(work, is_whole=touched.is_whole, standing=standing)


def _require_unfolded(source: str, name: TableName, head: Head | None, wanted: Range) -> None:
    """Raises LakeError where windows of the range were folded: no part of them can be told from the others."""
    floor = _folded_into(head, wanted)
    if floor:
        raise LakeError(
            f"{source}: {name}: its windows before {floor} are folded into one, and are not done again, whatever "
            f"bronze holds: begin the range at {floor} or later. With copies of the log from before all of its rows "
            f"in bronze (stratalog extract --source {source} --archive DIR) the whole table can begin anew: stratalog "
            f"reset --source {source} --table {name}"
        )


def _begun(table: Table, begin: Position) -> TableDefinition | None:
    """The definition that rows at a place were compacted by; None where no commit says it any more."""
    windows_there = (one for _, one in table.since(-1) if one.kind == CommitKind.LIVE and one.position > begin)
    first = min(windows_there, key=lambda one: one.position, default=None)
    commit = SilverCommit.of(first) if first else None
    return commit.definition if commit and commit.start and commit.start <= begin else None


def _since(name: TableName, carried: TableContents, wanted: Range) -> Position:
    """From where on the log has the rows that came with a name. Raises LakeError where some are from before."""
    content = carried.alive
    starts = [content.since]
    starts += [
        _since(name, step.carried, wanted) for step in content.steps if isinstance(step, SchemaChange) and step.carried
    ]
    if content.base and wanted.start < content.since:
        whose = "it had when its key changed" if content.name == name else f"{content.name} had"
        raise LakeError(
            f"{name}: it has the rows that {whose}, and those from before {content.since} come from "
            f"{'its own' if content.name == name else 'that table'}'s silver as it was then; begin the range there or "
            "later"
        )
    return min(starts)


def _named(spark: SparkSession, table: Table, head: Head, wanted: Range, known: Sequence[Stretch]) -> Range | None:
    """The statement by which the table has its name, where it has rows of before and the range may touch them."""
    rows = table.read(spark, head.version).where(f"_op = '{silver.Op.RENAME}'")
    commit = SilverCommit.of_head(head)
    emptied = commit.emptied_at if commit else None
    if emptied is None:
        return None
    ends = rows.where(f"_window_start = {silver.place_sql(emptied)}").select("_window_stop").limit(1).collect()
    found = [Range(emptied, _position(row["_window_stop"], wanted, known)) for row in ends]
    return next((one for one in found if wanted.start < one.stop), None)


@dataclass(frozen=True, slots=True)
class _Touched:
    """What a range touches of a table: windows that silver shows, and gaps between them that may have rows.

    These lie between windows of a table under rules, and of any table before the first extraction, whose windows are
    all behind that.

    is_whole: it is all that the table has of the log.
    """

    windows: tuple[Range, ...]
    gaps: tuple[Range, ...] = ()
    is_whole: bool = False


def _touched(
    spark: SparkSession, held: BronzeSnapshot, table: Table, head: Head | None, wanted: Range, *, is_ruled: bool
) -> _Touched | None:
    """None where the range touches nothing."""
    if head is None or head.position is None:
        return _Touched((wanted,)) if head else None
    begin, oldest = bronze.earliest(held.checkpoint), bronze.oldest(held.checkpoint)
    floor = silver.folded(head)
    oldest, complete_from = max(oldest, floor or oldest), bronze.complete_from(held.checkpoint)
    every = windows(spark, table, head, Range(begin, max(head.position, begin)), stretches(held.checkpoint))
    commit = SilverCommit.of_head(head)
    is_ruled = is_ruled or (commit is not None and commit.rule_digests is not None)
    looked_for = head.position if is_ruled else bronze.begin(held.checkpoint)
    gaps = _gaps(every, Range(oldest, max(looked_for, oldest)))
    touched = tuple(one for one in every if one.overlaps(wanted))
    between = tuple(gap for gap in gaps if gap.overlaps(wanted))
    if not is_ruled:
        return _Touched(touched, between) if touched or between else None
    is_all = len(touched) + len(between) == len(every) + len(gaps) and all(one.start >= complete_from for one in every)
    is_whole = is_all and floor is None
    return _Touched(touched, between, is_whole) if touched or between else None


def _gaps(found: Sequence[Range], whole: Range) -> list[Range]:
    """What lies between windows, of a part of the log."""
    starts, stops = [whole.start, *(one.stop for one in found)], [*(one.start for one in found), whole.stop]
    between = ((max(start, whole.start), min(stop, whole.stop)) for start, stop in zip(starts, stops, strict=True))
    return [Range(start, stop) for start, stop in between if start < stop]


def _between(gaps: Sequence[Range], steps: Sequence[TimelineStep]) -> Iterator[Range]:
    """The parts of gaps that have rows of one definition each."""
    for gap in gaps:
        for step in (one for one in steps if isinstance(one, DataRange)):
            start, stop = max(gap.start, step.range.start), min(gap.stop, step.range.stop)
            if start < stop:
                yield Range(start, stop)
