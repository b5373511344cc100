"""Tables that existed before their log begins, completed without locks: ``stratalog load``.

Put here: what is loaded, reading it, and landing it in silver. Not here: ranges of a key (key_ranges.py), rows as
the log would have had them (row_encoder.py), how far a load has come (commit.py).

A table is read by ranges of its primary key while it is written to. The rows count from a place in the log before which
all was committed, so that whatever the log says behind it wins; they land in one commit, once silver has passed the
place where the log ended when the last range had been read. Until then nobody sees them, and from then on the
table is whole: why, and what has to hold, is in docs/adr/0011-initial-load.md.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import Changes, TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config import known_tables
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.ddl.sequences import is_sequence
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import ConfigError, SourceError, StratalogError, TableStopped, Unsupported, about, under
from spark_jobs.lake.commit import Checkpoint, CommitKind, Head, new_batch
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.retry import patiently
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.initial_load.anchor import Anchor, Outrun, passed
from spark_jobs.pipeline.initial_load.commit import LOADED, READ, READING, LoadCommit
from spark_jobs.pipeline.initial_load.key_ranges import Key, KeyRange, key_of, ranges
from spark_jobs.pipeline.initial_load.row_encoder import Selecting, as_selected
from spark_jobs.pipeline.log_gaps import gaps_of
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import compact_source, endpoints_of, extract_source, merge_source, publish
from spark_jobs.pipeline.tables_at_once import each_table
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import LoadedRows, SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.planning_context import PlanningContext, filters_of
from spark_jobs.silver.projection import project_to_latest
from spark_jobs.silver.rename_lineage import RenameLineage
from spark_jobs.silver.retired_columns import begun
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from spark_jobs.silver.timeline.build import steps_of
from spark_jobs.silver.timeline.inputs import Beginning
from spark_jobs.source.information_schema import on_server
from spark_jobs.source.protocol import Source
from spark_jobs.source.server import Server
from spark_jobs.text import sql
from spark_jobs.text.remedies import advised
from spark_jobs.text.sql import is_table, literal

log = logging.getLogger(__name__)

CHUNK_ROWS = 50_000
_AT_ONCE = 4
"""Ranges of one table that are read by tasks of one job, and committed together."""
_WAIT = 2.0
"""Seconds: a run of the source may be going on, and both may go on."""
Said = Callable[[TableName, LoadCommit], None]
"""Is told how far a table is, after each commit."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did. ``tables``: those that are complete since; ``outcome``: of the run that carried them on."""

    tables: dict[TableName, LoadCommit]
    outcome: Outcome
    seconds: float = 0.0
    already: list[TableName] = field(default_factory=list)
    """Those that were asked for by name and had nothing missing."""

    @property
    def stopped(self) -> dict[TableName, str]:
        return self.outcome.stopped


def load_source(
    spark: SparkSession,
    pipeline: Pipeline,
    source: str,
    *,
    tables: Sequence[str] = (),
    chunk_rows: int = CHUNK_ROWS,
    said: Said = lambda _name, _progress: None,
) -> Loaded:
    """Loads the named tables of a source (``DB.TABLE``, patterns), or all in scope that are not complete.

    Brings them downstream too. What stops one table is in the outcome, and does not stop the others. Raises ConfigError
    for a source without a server and a name that no table has, SourceError, LakeError.
    """
    began = time.monotonic()
    require_server(pipeline, source)
    patterns = [Pattern.parse(table) for table in tables]
    before = patiently(lambda: _compacted(spark, pipeline, source), wait=_WAIT)
    stopped: dict[TableName, str] = {}
    with about(source):
        work = _Work(spark, pipeline, lake_of(pipeline), source, _anchor(pipeline, source), chunk_rows, said)
        planned = work.plan(before, patterns, stopped)
    entries = _with_new(source, before, planned.reading)
    publish(spark, pipeline, source, replace(before, entries=entries))
    read = each_table(planned.reading, work.read, stopped)
    after = patiently(lambda: _compacted(spark, pipeline, source), wait=_WAIT)
    landed = {one.name: one for one in each_table(read, lambda one: work.land(one, after), stopped)}
    entries = [_after(entry, landed.get(TableName(*entry.name))) for entry in after.entries]
    outcome = patiently(lambda: merge_source(spark, pipeline, source, replace(after, entries=entries)), wait=_WAIT)
    publish(spark, pipeline, source, outcome)
    wanted = {name: why for name, why in outcome.stopped.items() if not patterns or _is_named(name, patterns)}
    outcome = replace(outcome, stopped=wanted | stopped)
    new = known_tables.add(pipeline.tables_file, {(source, name.schema, name.table) for name in landed})
    outcome = replace(outcome, new=outcome.new | new)
    done = {name: one.progress for name, one in landed.items()}
    return Loaded(done, outcome, time.monotonic() - began, planned.already)


def _compacted(spark: SparkSession, pipeline: Pipeline, source: str) -> Outcome:
    extract_source(spark, pipeline, source)
    return compact_source(spark, pipeline, source)


def _is_named(name: TableName, patterns: Sequence[Pattern]) -> bool:
    return any(pattern.matches(name.schema, name.table) for pattern in patterns)


def require_server(pipeline: Pipeline, source: str) -> None:
    """Raises ConfigError where the source is read from files."""
    if pipeline.sources[source].files is not None:
        raise ConfigError(
            {
                f"sources.{source}": "is read from binlog files, and a load reads tables of a server; name that as "
                "mysql:, or begin with files from before the tables were created"
            }
        )


def require_tables(pipeline: Pipeline, source: str, tables: Sequence[str]) -> None:
    """Raises ConfigError where the server has no table like one of these; without a JVM. Raises SourceError."""

    def names(endpoint: Source) -> Collection[TableName]:
        assert isinstance(endpoint, Server)
        return on_server(endpoint)

    if tables:
        patterns = [Pattern.parse(table) for table in tables]
        _require_each(source, patterns, endpoints_of(pipeline, source).first(names))


def _require_each(source: str, patterns: Sequence[Pattern], names: Collection[TableName]) -> None:
    unknown = next(
        (pattern for pattern in patterns if not any(pattern.matches(*astuple(name)) for name in names)), None
    )
    if unknown:
        raise ConfigError(
            f"{source}: the server has no table {unknown.schema}.{unknown.table}, or the user may not see it"
        )


def _anchor(pipeline: Pipeline, source: str) -> Anchor:
    """The server that bronze's end comes from. Raises SourceError."""
    server = endpoints_of(pipeline, source).current()
    assert isinstance(server, Server)
    return Anchor.of(server, _checkpoint(lake_of(pipeline).bronze(source)))


def _with_new(source: str, before: Outcome, reading: "Sequence[Reading]") -> list[Entry]:
    """The tables that are to be loaded have a row, whether the log knows them or not: so far, it did not."""
    known, place = {entry.name for entry in before.entries}, str(before.position)
    new = [one.name for one in reading if (one.name.schema, one.name.table) not in known]
    bare = [Entry(source, name.schema, name.table, "current") for name in new]
    return [*before.entries, *(replace(one, position=place, surveyed=place, complete=False) for one in bare)]


def _after(entry: Entry, landed: "Landed | None") -> Entry:
    if landed is None:
        return entry
    position = str(landed.head.position)
    return replace(entry, complete=True, silver_version=landed.head.version, position=position)


@dataclass(frozen=True, slots=True)
class Reading:
    """A table that is to be read: the place from which its rows count, its definition, and what was read before."""

    name: TableName
    since: Position
    definition: TableDefinition
    table: Table
    head: Head | None
    progress: LoadCommit | None


@dataclass(frozen=True, slots=True)
class Read:
    """A table that was read whole."""

    name: TableName
    progress: LoadCommit


@dataclass(frozen=True, slots=True)
class Landed:
    """A table whose rows are in silver, at this head."""

    name: TableName
    progress: LoadCommit
    head: Head


@dataclass(frozen=True, slots=True)
class _Plan:
    reading: list[Reading]
    already: list[TableName]


@dataclass(frozen=True, slots=True)
class _Work:
    spark: SparkSession
    pipeline: Pipeline
    lake: Lake
    source: str
    anchor: Anchor
    chunk_rows: int
    said: Said

    @property
    def server(self) -> Server:
        return self.anchor.server

    # What is loaded

    def plan(self, before: Outcome, patterns: Sequence[Pattern], stopped: dict[TableName, str]) -> _Plan:
        """The tables to read; ``stopped`` gets those that cannot be. Raises ConfigError, SourceError, LakeError."""
        declared = {name: one for name, one in on_server(self.server).items() if not is_sequence(one)}
        names = {name for name in declared if _is_named(name, patterns)}
        _require_each(self.source, patterns, names)
        entries = {TableName(*entry.name): entry for entry in before.entries}
        scope = [name for name in declared if self.pipeline.scope.holds(name.schema, name.table)]
        complete = {name for name, entry in entries.items() if entry.complete and not self._lacks_values(name, names)}
        wanted = sorted(names or set(scope) - complete)
        since = self._since() if set(wanted) - complete else None
        reading = []
        for name in wanted:
            if name in complete:
                continue
            try:
                with about(str(name)):
                    self._require_loadable(declared[name], before)
                assert since is not None
                reading.append(self._reading(name, since, declared[name]))
            except StratalogError as error:
                stopped[name] = f"{self.source}: {advised(error, self.source, name)}"
                log.error("%s: %s", self.source, error)  # noqa: TRY400 - the message is the whole of it
        return _Plan(reading, sorted(complete & names))

    def _lacks_values(self, name: TableName, named: Collection[TableName]) -> bool:
        """Whether a table that was asked for has columns that began anew: older rows have no value in them."""
        head = self.lake.silver(self.source, name.schema, name.table).head() if name in named else None
        commit = SilverCommit.of_head(head)
        return bool(commit and begun(commit.retired_columns))

    def _require_loadable(self, declared: TableDefinition, before: Outcome) -> None:
        """Raises TableStopped, with what to do."""
        name = declared.name
        ruled = filters_of(self.pipeline.filters, self.source, name).names()
        if ruled:
            raise TableStopped(
                f"cannot be loaded while {ruled[0]} is about it: what a filter would have left out before the log "
                "began is not known, and rows that are loaded are not masked yet"
            )
        if not self.pipeline.scope.holds(name.schema, name.table):
            why = self.pipeline.scope.why_helper(name.schema, name.table)
            raise TableStopped(f"is {why or 'not in scope; add it to tables: in the configuration'}")
        if silver.is_numbered(self.lake.silver(self.source, name.schema, name.table).head()):
            raise TableStopped(
                "cannot be loaded: its columns have no names in the lake (on_unnamed: number); begin it anew once they "
                f"have (stratalog reset --source {self.source} --table {name}), or load it in a pipeline of its own"
            )
        gaps = gaps_of(self.pipeline, self.lake, self.source)
        gap = next((one for one in gaps.of(name) if one.key is None and one.until is None), None)
        if gap:
            raise TableStopped(gaps.refusal(gap, name))
        if name in before.stopped:
            raise TableStopped(
                f"cannot be loaded while it is stopped: {under(before.stopped[name], self.source, name)}"
            )
        if any(into.is_shared for into in self.pipeline.routing.of(self.source, name.schema, name.table)):
            raise TableStopped(
                "cannot be loaded while it has keys in common with other sources' tables (keys: shared): nothing tells "
                "when its rows were written, and so which of two is the newer one"
            )
        if declared.key == ():
            raise TableStopped(
                "has no primary key, so that a row that is read could not be told from the same row in the log; add "
                "one, or leave the table out"
            )
        silver.columns(declared)
        as_selected(declared)

    def _since(self) -> Position:
        """The place that rows count from. Raises LakeError, SourceError where bronze begins later."""
        table = self.lake.bronze(self.source)
        head, held = table.head(), _checkpoint(table)
        assert head is not None
        return self.anchor.since(held, table, head.version, bronze.earliest(held))

    def _reading(self, name: TableName, since: Position, definition: TableDefinition) -> Reading:
        table = self.lake.load(self.source, name.schema, name.table)
        head = table.head()
        found = LoadCommit.of_head(head)
        if found and found.state == READING and found.since.stretch != since.stretch:
            log.warning("%s: %s: was read from another server until now, and begins anew", self.source, name)
            found = None
        return Reading(name, since, definition, table, head, found if found and found.is_open else None)

    # Reading

    def read(self, one: Reading) -> Read:
        """Reads what is left of a table, range by range. Raises TableStopped, SourceError, LakeError, LostRace."""
        with about(f"{self.source}: {one.name}"):
            stage = self._begun(one)
            if stage.progress.state == READING:
                try:
                    self._read_ranges(stage)
                except SourceError:
                    self._require_same(stage)  # for what a change of the table makes of a query, says less than that
                    raise
                self._require_same(stage)
                read_to, gtids = self.anchor.end()
                stage.note(replace(stage.progress, state=READ, read_to=read_to, gtids=str(gtids) if gtids else None))
                self.said(one.name, stage.progress)
            return Read(one.name, stage.progress)

    def _begun(self, one: Reading) -> "_Stage":
        """Where the rows wait, and how far reading is; begun anew where no load of the table is open."""
        if one.progress and one.head:
            rows = one.progress.rows if one.progress.state == READ else one.table.rows_written()
            stage = _Stage(session_over(self.spark, 0), one.name, one.table, one.head, replace(one.progress, rows=rows))
            log.info("%s: %s: goes on behind %d rows", self.source, one.name, rows)
        else:
            with self.server.connect() as connection:
                read_from = self.anchor.place(self.server.end(connection))
                where = is_table(one.name.schema, one.name.table)
                asked = f"SELECT TABLE_ROWS found FROM information_schema.TABLES WHERE {where}"
                estimate = next((row["found"] for row in self.server.ask(connection, asked)), None)
            begun = LoadCommit(
                one.since,
                new_batch(),
                state=READING,
                read_from=read_from,
                definition=one.definition,
                chunk_rows=self.chunk_rows,
                estimate=estimate,
            )
            session, properties = session_over(self.spark, 0), silver.properties(one.table)
            head = one.head or one.table.new(columns_of(one.definition), properties)
            stage = _Stage(session, one.name, one.table, head, begun)
            stage.renew()
            self.said(one.name, begun)
        if stage.progress.state == READING:
            self._require_same(stage)
        return stage

    def _require_same(self, stage: "_Stage") -> None:
        """Ends the load, and raises TableStopped, where the server's table is another one than when it began."""
        known, declared = stage.progress.definition, on_server(self.server).get(stage.name)
        if declared != known:
            what = "gone from the server" if declared is None else f"{declared}, and was {known}"
            raise stage.given_up(f"was changed while it was loaded: it is {what}; load it again")

    def _read_ranges(self, stage: "_Stage") -> None:
        """Reads range after range, some of them at once, and commits the rows of those together."""
        name, definition = stage.name, stage.progress.definition
        with self.server.connect() as connection:
            key = key_of(connection, name.schema, name.table, silver.columns(definition).key)
        selecting = Selecting(self.source, self.server.settings, definition, key, self.anchor.identity)
        parts = self._ranges(key, stage.progress)
        while parts:
            rows, counted = self._rows(selecting, parts)
            done = replace(
                stage.progress,
                chunks=stage.progress.chunks + len(parts),
                after=parts[-1].up_to,
                is_walked=parts[-1].up_to is None,
            )
            stage.append(rows, done)
            stage.progress = replace(done, rows=done.rows + counted.get["rows"])
            self.said(name, stage.progress)
            parts = self._ranges(key, stage.progress)

    def _ranges(self, key: Key, found: LoadCommit) -> list[KeyRange]:
        """The next ranges; none where the last one was read. On a connection of its own, since reading takes long."""
        if found.is_walked:
            return []
        with self.server.connect() as connection:
            return list(islice(ranges(connection, key, rows=found.chunk_rows, after=found.after), _AT_ONCE))

    def _rows(self, selecting: Selecting, parts: list[KeyRange]) -> tuple[DataFrame, Observation]:
        counted = Observation()
        key = silver.columns(selecting.definition).key
        ids = session_over(self.spark, 0).range(0, len(parts), 1, len(parts))
        rows = ids.mapInArrow(reading_task(selecting, parts, key), _ddl(selecting.definition))
        return rows.observe(counted, F.count(F.lit(1)).alias("rows")), counted

    # Landing

    def land(self, one: Read, after: Outcome) -> Landed:
        """Puts a table's rows into silver in one commit, and removes them from where they waited.

        Raises TableStopped, LakeError, LostRace.
        """
        table = self.lake.load(self.source, one.name.schema, one.name.table)
        with about(f"{self.source}: {one.name}"):
            head = table.head()
            assert head is not None
            stage = _Stage(session_over(self.spark, 0), one.name, table, head, one.progress)
            before = self._passed(stage, after)
            landed = patiently(lambda: self._landed(stage, after, before), wait=_WAIT)
            stage.empty(replace(stage.progress, state=LOADED))
            self.said(one.name, stage.progress)
            return Landed(one.name, stage.progress, landed)

    def _passed(self, stage: "_Stage", after: Outcome) -> Position:
        """A place before which the log has all that the rows may show. Raises TableStopped where there is none yet."""
        if stage.name in after.stopped:
            why = under(after.stopped[stage.name], self.source, stage.name)
            raise TableStopped(f"is read, and waits for its log, which stopped: {why}")
        assert after.position is not None
        try:
            return passed(self.source, stage.progress, self.lake.bronze(self.source), after.position)
        except Outrun as error:
            raise stage.given_up(str(error)) from error

    def _landed(self, stage: "_Stage", after: Outcome, before: Position) -> Head:
        """before: the place before which the log has all that the rows may show."""
        name, found = stage.name, stage.progress
        table = self.lake.silver(self.source, name.schema, name.table)
        head, held = table.head(), BronzeSnapshot.of(self.lake, self.source)
        assert after.position is not None
        if head and head.checkpoint and head.checkpoint.kind == CommitKind.ALTERING:
            raise TableStopped(f"{table.path} is between two sets of columns, where a run ended; run again first")
        newest = SilverCommit.of_head(head)
        is_bare = bool(newest and newest.has_unknown_columns)
        known = None if is_bare else newest
        until = max([after.position, *([head.position] if head and head.position else [])])
        bronze.require_held(self.source, held.checkpoint, found.read_from)
        turns = self._turns(stage, Range(found.read_from, until), held, before)
        standing = TableState.of(known) if known else _last(turns, found.definition)
        columns = silver.stored_columns(table, head) if head and known else silver.columns(_known(standing, found))
        wanted = columns.stored
        rows = self._rows_for_silver(stage, turns, columns, before)
        if not is_bare:
            silver.require_same_columns(table, wanted, str(name))
        size = sum(stage.table.files())
        work = CompactionJob(
            self.source, name, Window(held.table, held.version, (Range(found.since, until),)), (), table, head, size
        )
        commit = replace(
            work.commit(work.window.whole, replace(standing, is_complete=True), columns),
            kind=CommitKind.LOAD,
            is_overwrite=is_bare,
            loaded=LoadedRows(found.rows, found.read_from, found.read_to),
        )
        if head is None or is_bare:
            head = table.new(wanted, silver.properties(table), head)
        return table.append(rows, head, commit)

    def _turns(self, stage: "_Stage", whole: Range, held: BronzeSnapshot, before: Position) -> list[SchemaChange]:
        """What statements did to the table since its load began. Ends it where one changed it ``before`` a place."""
        context = PlanningContext.of(self.pipeline, self.lake, held).of_load()
        slices, found = scan_effective(held.table, held.version, whole, context.oldest)
        ancestry = RenameLineage(context)
        rules = replace(ancestry.rules(slices), beginning=Beginning(ancestry.made, is_needed=True))
        definition = stage.progress.definition
        try:
            steps = steps_of(found, stage.name, whole, TableState(definition), rules)
        except TableStopped as error:
            raise stage.given_up(f"was changed while it was loaded, or since: {error}; load it again") from error
        turns = [step for step in steps if isinstance(step, SchemaChange)]
        early = [turn for turn in turns if turn.range.start < before and _changes(turn, definition)]
        other = [turn for turn in turns if turn.empties and not turn.standing.is_complete]
        for one in [*early, *other][:1]:
            said = f"{one.said.statement.verb} at {one.said.position}" if one.said else str(one.range)
            raise stage.given_up(f"was changed while it was loaded, by {said}; load it again")
        return turns

    def _rows_for_silver(
        self, stage: "_Stage", turns: list[SchemaChange], columns: silver.Columns, before: Position
    ) -> DataFrame:
        """The rows with the columns that silver has now, as older than all that the log says from their place on."""
        since = stage.progress.since
        later = [turn for turn in turns if turn.range.start >= before]
        now = project_to_latest(silver.columns(stage.progress.definition).types, later)
        given = now | {
            "_op": literal(silver.Op.LOAD),
            "_position": silver.before_sql(since),
            "_window_start": silver.place_sql(since),
            "_window_stop": silver.place_sql(since),
            silver.ABSENT: "NULL",
        }
        session = session_over(self.spark, sum(stage.table.files()))
        rows: DataFrame = stage.table.read(session, stage.head.version).selectExpr(
            *silver.cells_sql(columns.stored, given)
        )
        # What the table has since it was emptied, the log has; silver knows of that where it had rows of the table.
        return rows.where("FALSE") if any(turn.empties for turn in turns) else rows


@dataclass(slots=True)
class _Stage:
    """Where a table's rows wait, at a head, and how far its load is."""

    spark: SparkSession
    name: TableName
    table: Table
    head: Head
    progress: LoadCommit

    def append(self, rows: DataFrame, progress: LoadCommit) -> None:
        """Raises LostRace where another load of the table came first."""
        self.head = self.table.append(rows, self.head, progress.next())
        self.progress = progress

    def renew(self) -> None:
        """Begins, with the columns that the table has now and no row of an earlier load."""
        self.head = self.table.renew(self._nothing(), self.head, self.progress.next())

    def note(self, progress: LoadCommit) -> None:
        self.append(self._nothing(), progress)

    def empty(self, progress: LoadCommit) -> None:
        """Removes the rows."""
        self.head = self.table.replace(self._nothing(), "true", self.head, progress.next())
        self.progress = progress

    def given_up(self, reason: str) -> TableStopped:
        """Ends the load: its rows go, and nothing of it was seen anywhere."""
        self.empty(self.progress.stopped(reason))
        return TableStopped(reason)

    def _nothing(self) -> DataFrame:
        return self.spark.createDataFrame([], _ddl(self.progress.definition))


def _changes(turn: SchemaChange, definition: TableDefinition) -> bool:
    """Whether rows read before a statement are not those after it.

    A TRUNCATE is told from them by its position, like any other change of rows, and an index changes none.
    """
    is_truncate = turn.said is not None and turn.said.statement.verb.startswith("TRUNCATE")
    return not is_truncate and turn.standing.definition != definition


def _last(turns: Sequence[SchemaChange], definition: TableDefinition) -> TableState:
    """How a table stands that silver has no row of."""
    return turns[-1].standing if turns else TableState(definition)


def _known(standing: TableState, found: LoadCommit) -> TableDefinition:
    return standing.definition or found.definition


def columns_of(definition: TableDefinition) -> dict[str, str]:
    """Names and Spark types of the table where rows wait."""
    return silver.columns(definition).types | {"_raw": silver.ADDED["_raw"]}


def _ddl(definition: TableDefinition) -> str:
    return sql.columns(columns_of(definition))


def _checkpoint(table: Table) -> Checkpoint:
    head = table.head()
    assert head is not None
    assert head.checkpoint is not None
    return head.checkpoint


Batches = Iterator[pa.RecordBatch]


def reading_task(selecting: Selecting, parts: Sequence[KeyRange], key: Sequence[str]) -> Callable[[Batches], Batches]:
    """A mapInArrow function from ids of ranges to their rows, with the columns of the lake and ``_raw``."""

    def run(ids: Batches) -> Batches:
        for batch in ids:
            for at in batch.column(0).to_pylist():
                for found in selecting.read(parts[at]):
                    yield _with_raw(found, key, selecting)

    return run


def _with_raw(found: Changes, key: Sequence[str], selecting: Selecting) -> pa.RecordBatch:
    """Raises Unsupported for NULL in the key. A zero date, and bytes that are not text, have their text in ``_raw``."""
    for name in key:
        for row in pc.indices_nonzero(pc.is_null(found.after.column(name))).to_pylist():
            texts = dict(found.raw[row].as_py() or ()) if found.raw is not None else {}
            if name not in texts:
                raise Unsupported(
                    f"{selecting.source}: {selecting.definition.name}: column {name} of the key is NULL in a row"
                )
    raw = found.raw if found.raw is not None else pa.nulls(len(found), pa.map_(pa.string(), pa.string()))
    names = [*found.after.schema.names, "_raw"]
    return pa.RecordBatch.from_arrays([*found.after.columns, raw], names)
