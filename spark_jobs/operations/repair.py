"""Repair of one table: quarantine one event, rebuild the table from bronze.

Put here: what may be asked for, and what is wrong with it. Not here: quarantining events (silver/quarantine.py), or a
range of a table that is right but for its rows (pipeline/backfill/run.py).

Each verb is planned first, which changes nothing and finds all that is wrong; what it plans is what is then done.
Doing it is one commit, of a record that the next run reads: no table changes before that run has something better.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import EventAt, TableName, events_of
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.classify import Effect, Statement, classify
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import RESET, Entry
from spark_jobs.engine.merge.part_merge import files_of_part, own_rows
from spark_jobs.errors import ConfigError, TableStopped
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.pipeline.cascades.unlogged_changes import SourceUnloggedChanges, unlogged_changes_of
from spark_jobs.pipeline.destinations import destinations_of, downstream_of
from spark_jobs.pipeline.planner import Planner
from spark_jobs.silver import quarantine
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit, is_complete
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.positions import at_or_after, bounds_of, since_emptied
from spark_jobs.silver.quarantine import Skip
from spark_jobs.silver.table_timeline import SchemaChange, TableContents

_CELLS = ("file", "start", "stop", "transaction_start", "kind", "tables", "database", "statement", "context", "payload")
_LISTED = 20
"""Tables that a message names."""


@dataclass(frozen=True, slots=True)
class _StoppingEvent:
    """Event at a position. tables: whose rows it has; None where it does not tell. position: where runs meet it."""

    position: Position
    summary: str
    tables: frozenset[TableName] | None = None
    statement: Statement | None = None

    def is_about(self, name: TableName) -> bool:
        if self.statement:
            return self.statement.effect is not Effect.NONE and self.statement.names(name.schema, name.table)
        return self.tables is None or name in self.tables

    def with_children(self, gaps: SourceUnloggedChanges) -> "_StoppingEvent":
        """The event with the child tables that it may change by foreign keys, which may stop at it too."""
        if self.statement or self.tables is None:
            return self
        children = (gaps.children(parent, self.position) for parent in self.tables)
        return replace(self, tables=self.tables.union(*children))


def plan_skip(pipeline: Pipeline, source: str, position: str, table: str | None = None) -> list[Skip]:
    """The records that quarantine one event: for the table named, or for those that have stopped before it.

    Raises ConfigError for what is no event's position, and for a table that is not known, that the event is not about,
    that has not stopped, or that has passed it already; LakeError where bronze does not hold it.
    """
    lake = lake_of(pipeline)
    event = _event(lake, source, position)
    event = event.with_children(unlogged_changes_of(pipeline, lake, source))
    entries = _entries(pipeline, lake, source)
    skips = quarantine.read(lake, source)
    candidates = (
        [_entry_of(entries, source, table)]
        if table
        else [entry for entry in entries if event.is_about(_table_name(entry))]
    )
    # An event is refused, with the reason, for tables that it is not about or that have passed it.
    refused = {_table_name(entry): reason for entry in candidates if (reason := _refusal_of_skip(entry, event, skips))}
    affected = [entry for entry in candidates if _table_name(entry) not in refused]
    if not affected:
        listed = [f"{name}: {reason}" for name, reason in sorted(refused.items())]
        no_table = [f"{event.summary} at {event.position} is about no table of {source} that a run has seen"]
        raise ConfigError({"--at": "\n".join(listed or no_table)})
    return [Skip(*entry.name, str(event.position), event.summary, entry.reason) for entry in affected]


def plan_undo(pipeline: Pipeline, source: str, position: str, table: str | None = None) -> list[Skip]:
    """The records of one event that are to go. Raises ConfigError where there is none, LakeError."""
    lake = lake_of(pipeline)
    skips = quarantine.read(lake, source)
    log_position = _parsed_position(lake, source, position)
    matching = [skip for skip in skips if skip.log_position == log_position and table in (None, str(skip.name))]
    if not matching:
        listed = "; ".join(map(str, skips)) or "none"
        of = f" for {table}" if table else ""
        raise ConfigError({"--at": f"no event is quarantined at {log_position}{of}; there are: {listed}"})
    return matching


def add(pipeline: Pipeline, source: str, new: Sequence[Skip]) -> None:
    """Records quarantined events. Raises LostRace."""
    quarantine.edit(lake_of(pipeline), source, lambda skips: [*skips, *new])


def remove(pipeline: Pipeline, source: str, removed: Sequence[Skip]) -> list[str]:
    """Take records back; say what to do for the tables that have passed the event already. Raises LostRace."""
    lake = lake_of(pipeline)
    quarantine.edit(lake, source, lambda skips: [skip for skip in skips if skip not in removed])
    lines = []
    for skip in removed:
        head = lake.silver(source, skip.schema, skip.table).head()
        if head and head.position and head.position > skip.log_position:
            lines.append(
                f"{skip.name} is at {head.position} and has passed it; to take the event in: stratalog backfill "
                f"--source {source} --from {skip.log_position} --to {head.position} --table {skip.name}"
            )
    return lines


@dataclass(frozen=True, slots=True)
class Reset:
    """A table to rebuild: from where, and the rows that stay downstream until a run has rebuilt it.

    lost_rows: what it will lack then, since bronze does not tell it; None where nothing.
    """

    entry: Entry
    begin: Position
    rows: int
    lost_rows: str | None = None
    bronze_version: int | None = None
    """Version of bronze that the reset was planned with, as ``Entry`` has it; None with consent to lose rows."""

    @property
    def name(self) -> TableName:
        return _table_name(self.entry)


def _resettable(pipeline: Pipeline, source: str, table: str) -> tuple[Entry, Head]:
    """A table that can be reset, and silver's head of it.

    Raises ConfigError for a table that is not known, that has nothing in silver or is reset already.
    """
    lake = lake_of(pipeline)
    entry = _entry_of(_entries(pipeline, lake, source), source, table)
    head = lake.silver(source, *entry.name).head()
    if head is None or head.checkpoint is None:
        raise ConfigError({"--table": f"{table} has nothing in silver; a run takes it in from where bronze begins"})
    if entry.is_reset and (entry.resets or 0) > silver.reset_count(head):
        raise ConfigError({"--table": f"{table} is reset already; the next run rebuilds it"})
    return entry, head


def plan_reset(pipeline: Pipeline, source: str, table: str, *, drops_older: bool = False) -> Reset:
    """Plan of resetting a table, made as the next run will plan it, without a JVM.

    drops_older: rows may go that bronze does not tell. Raises ConfigError where they would go without that, for a table
    that is not known, that has nothing in silver or is reset already; TableStopped where a statement in the log would
    stop the table; LakeError.
    """
    # The plan of the next run, in which this table begins with nothing.
    lake = lake_of(pipeline)
    entries = publication.read(lake, source)
    entry, head = _resettable(pipeline, source, table)
    name = _table_name(entry)
    snapshot = BronzeSnapshot.of(lake, source)
    new = _reset(entry, silver.reset_count(head))
    surveyed = publication.surveyed_to(lake, source)
    only = frozenset([name])
    planner = Planner(pipeline, lake, snapshot, only, surveyed)
    planned = planner.plan(
        [new if published_entry.name == entry.name else published_entry for published_entry in entries]
    )
    if name in planned.stopped:
        raise TableStopped(f"{planned.stopped[name]}; rebuilt, the table would stop there: nothing is reset")
    (work,) = planned.work
    # Rows that silver has and bronze cannot give again: without consent they stay.
    lost_rows = _lost_rows(work, head, planner.snapshot.oldest)
    if lost_rows and not drops_older:
        raise ConfigError(
            {
                "--table": f"{table}: {lost_rows}. To keep them, replay its log without resetting it "
                "(stratalog backfill), or restore what gc removed "
                f"(stratalog extract --source {source} --archive DIR). --drop-older-rows removes them; after the "
                f"next run stratalog load --source {source} --table {table} reads loaded rows from the server again, "
                "and stratalog mend reads mended rows"
            }
        )
    # Every downstream table that has rows of it.
    into = [downstream_of(lake, source, name, destination) for destination in destinations_of(pipeline, source, name)]
    version = None if drops_older else snapshot.version
    return Reset(entry, planner.snapshot.oldest, sum(map(_row_count, into)), lost_rows, version)


def _row_count(target: Table) -> int:
    """Rows that a downstream table has of a source table; 0 where there is none yet. Raises LakeError."""
    head = target.head()
    snapshot = snapshot_of(target.path, head.version) if head else None
    if snapshot is None:
        return 0
    # Statistics tell, unless rows of other source tables are in the same file.
    provenance, count = tuple(target.provenance.items()), 0
    for file in files_of_part(snapshot, provenance):
        if not provenance and file.num_rows is not None:
            count += file.num_rows
            continue
        is_own = own_rows(snapshot.path, file, snapshot.schema, provenance)
        count += int(
            (is_own & deletion_vectors.living_rows_mask(snapshot.path, file.deletion_vector, len(is_own))).sum()
        )
    return count


def reset(pipeline: Pipeline, source: str, planned: Reset) -> Entry:
    """Record that a table is to be rebuilt, in one commit. Raises LostRace where others keep publishing."""
    lake = lake_of(pipeline)
    resets = silver.reset_count(lake.silver(source, *planned.entry.name).head())

    def to_rebuild(now: Entry) -> Entry:
        return replace(_reset(now, resets), bronze_version=planned.bronze_version)

    return publication.amend(lake, planned.entry, to_rebuild)


def plan_unreset(pipeline: Pipeline, source: str, table: str) -> Entry:
    """The row of a table whose reset is taken back, before a run began with it. Raises ConfigError, LakeError."""
    lake = lake_of(pipeline)
    entry = _entry_of(_entries(pipeline, lake, source), source, table)
    _require_untouched(entry, lake.silver(source, *entry.name).head())
    return entry


def unreset(pipeline: Pipeline, source: str, entry: Entry) -> Entry:
    """Undo a reset, in one commit: the table continues where silver is. Raises ConfigError, LostRace."""
    lake = lake_of(pipeline)

    def back(now: Entry) -> Entry:
        head = lake.silver(source, *entry.name).head()
        _require_untouched(now, head)
        assert head is not None
        resets = (now.resets or 0) + 1
        position = str(head.position)
        return replace(now, state="current", reason=None, position=position, resets=resets, bronze_version=None)

    return publication.amend(lake, entry, back)


def _require_untouched(entry: Entry, head: Head | None) -> None:
    """Check that a reset of the table is pending and can be undone. Raises ConfigError."""
    if not entry.is_reset:
        raise ConfigError({"--table": f"{_table_name(entry)} is not reset"})
    if head is None or (entry.resets or 0) <= silver.reset_count(head):
        at = head.position if head else None
        raise ConfigError(
            {"--table": f"{_table_name(entry)} is being rebuilt, and is at {at}: it cannot be taken back"}
        )


def _reset(entry: Entry, resets: int) -> Entry:
    """The published row of a table to rebuild; its downstream rows stay published meanwhile."""
    count = max(entry.resets or 0, resets) + 1
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(entry, state=RESET, reason=f"reset at {at}; the next run rebuilds it", position=None, resets=count)


def _lost_rows(work: CompactionJob, head: Head, oldest: Position) -> str | None:
    """Rows of silver that a rebuilt table will lack; None where it lacks none. Raises LakeError."""
    assert head.checkpoint is not None
    assert work.state is not None
    emptied = SilverCommit.of(head.checkpoint).emptied_at
    # The first reason in the order of what is lost most.
    loses_some = is_complete(head) and not work.state.is_complete
    loaded, mended, removed = _older_rows(work.table.path, head, emptied, oldest)
    if loaded and loses_some:
        return f"{loaded:,} of its rows in silver were loaded, and bronze does not have them"
    if mended:
        return f"{mended:,} of its rows in silver were mended, and bronze does not have them"
    if removed:
        return f"{removed:,} of its rows in silver are from before {oldest}, where bronze begins since gc"
    bases = sorted({str(base.name) for base in _bases(work)})
    if bases:
        return f"rows came with its name from {', '.join(bases)}, of which bronze does not have the beginning"
    return f"its first rows are from before {oldest}, where bronze begins" if loses_some else None


def _older_rows(path: str, head: Head, emptied: Position | None, oldest: Position) -> tuple[int, int, int]:
    """Living rows of silver that were loaded, that were mended, and those of the log from before bronze begins.

    emptied: where the last statement stands that emptied the table. Raises LakeError.
    """
    snapshot = snapshot_of(path, head.version)
    assert snapshot is not None
    loaded = mended = removed = 0
    for file in snapshot.files:
        # Files that statistics tell to be from before the statement are not read.
        _, highest = bounds_of(file, snapshot.schema, "_position")
        if emptied and highest is not None and highest < emptied.order:
            continue
        rows = data_files.read_columns(path, file, ["_op", "_position"], snapshot.schema)
        op, position = rows.column("_op"), rows.column("_position")
        is_alive = pc.invert(pc.is_in(op, pa.array([str(silver.Op.TRUNCATE), str(silver.Op.DELETE)])))
        is_alive = pc.and_(is_alive, pa.array(deletion_vectors.living_rows_mask(path, file.deletion_vector, len(rows))))
        if emptied:
            is_alive = pc.and_(is_alive, since_emptied(position, emptied))
        is_loaded = pc.equal(op, silver.Op.LOAD)
        is_mended = pc.is_in(op, pa.array([str(kind) for kind in silver.MENDED]))
        is_older = pc.invert(pc.or_(at_or_after(position, oldest), pc.or_(is_loaded, is_mended)))
        loaded += pc.sum(pc.and_(is_alive, is_loaded)).as_py() or 0
        mended += pc.sum(pc.and_(is_alive, is_mended)).as_py() or 0
        removed += pc.sum(pc.and_(is_alive, is_older)).as_py() or 0
    return loaded, mended, removed


def _bases(work: CompactionJob) -> Iterator[TableContents]:
    """Rows that came with the table's name and are in another table's silver alone."""
    pending = [step.inherited.alive for step in work.steps if isinstance(step, SchemaChange) and step.inherited]
    while pending:
        content = pending.pop()
        if content.base:
            yield content
        pending += [step.inherited.alive for step in content.steps if isinstance(step, SchemaChange) and step.inherited]


def _entries(pipeline: Pipeline, lake: Lake, source: str) -> list[Entry]:
    return sorted(
        (entry for entry in publication.read(lake, source) if pipeline.scope.holds(*entry.name)),
        key=lambda entry: entry.name,
    )


def _table_name(entry: Entry) -> TableName:
    return TableName(*entry.name)


def _entry_of(entries: Sequence[Entry], source: str, table: str) -> Entry:
    """The entry of a table, named ``schema.table``. Raises ConfigError if no run has seen the table."""
    match = next((entry for entry in entries if str(_table_name(entry)) == table), None)
    if match:
        return match
    listed = ", ".join(str(_table_name(entry)) for entry in entries[:_LISTED]) or "none"
    rest = f" and {len(entries) - _LISTED} more" if len(entries) > _LISTED else ""
    raise ConfigError({"--table": f"{table} is no table of {source} that a run has seen: {listed}{rest}"})


def _refusal_of_skip(entry: Entry, event: _StoppingEvent, skips: Sequence[Skip]) -> str | None:
    """Reason why the event must not be quarantined for a table."""
    name = _table_name(entry)
    if not event.is_about(name):
        about = ", ".join(map(str, sorted(event.tables or ()))) or "others"
        return f"the event at {event.position} ({event.summary}) is not about it, but about {about}"
    if any(skip.name == name and skip.log_position == event.position for skip in skips):
        return f"{event.position} is quarantined already"
    at = entry.checkpoint
    if at and at > event.position:
        return f"has passed {event.position} already, and is at {at}"
    if entry.state != "stopped":
        return f"has not stopped (it is {entry.state}); only what stops a table is quarantined"
    return None


def _parsed_position(lake: Lake, source: str, text: str) -> Position:
    """The position that a text says. Raises ConfigError, also if the file name is in several stretches."""
    try:
        position = Position.parse(text)
    except ConfigError as error:
        raise ConfigError({"--at": str(error)}) from error
    snapshot = BronzeSnapshot.of(lake, source)
    log_stretches = stretches(snapshot.checkpoint)
    if "/" in text.partition(":")[0] or len(log_stretches) == 1:
        return position
    in_file = pc.field("file") == position.file
    batches = snapshot.table.scan(snapshot.version, ["stretch"], in_file, rows=1 << 16)
    numbers = sorted({number for batch in batches for number in batch.column(0).to_pylist()})
    if len(numbers) > 1:
        listed = " or ".join(str(replace(position, stretch=number)) for number in numbers)
        raise ConfigError({"--at": f"{position} may lie in several stretches of the log; write {listed}"})
    return replace(position, stretch=numbers[0] if numbers else log_stretches[-1].number)


def _event(lake: Lake, source: str, text: str) -> _StoppingEvent:
    """Event at a position of bronze. Raises ConfigError, LakeError, DecodeError."""
    position = _parsed_position(lake, source, text)
    snapshot = BronzeSnapshot.of(lake, source)
    bronze.require_held(source, snapshot.checkpoint, max(position, snapshot.earliest))
    here = (pc.field("stretch") == position.stretch) & (pc.field("number") == position.number)
    inside = here & (pc.field("start") <= position.offset) & (pc.field("stop") > position.offset)
    rows = [
        row for batch in snapshot.table.scan(snapshot.version, _CELLS, inside, rows=16) for row in batch.to_pylist()
    ]
    if not rows or rows[0]["file"] != position.file:
        log_range = f"[{snapshot.oldest}, {snapshot.end})"
        raise ConfigError({"--at": f"{position} lies in no file that bronze holds of {source}: {log_range}"})
    row = rows[0]
    events = events_of(row["file"], row["start"], row["context"], row["payload"])
    at = next((event for event in events if event.offset == position.offset), None)
    if at is None:
        raise ConfigError({"--at": f"no event begins at {position}; {_nearest(position, events)}"})
    if row["kind"] == "statement" and row["statement"]:
        statement = classify(row["statement"], row["database"] or "")
        # XA: a whole transaction.
        start = row["transaction_start"] if statement.verb.startswith("XA ") else row["start"]
        return _StoppingEvent(replace(position, offset=start), statement.short, statement=statement)
    if not at.may_stop:
        able = [event for event in events if event.may_stop]
        raise ConfigError(
            {"--at": f"{position} is a {at.type} event, at which no table stops; {_nearest(position, able)}"}
        )
    tables = row["tables"] and frozenset(TableName(table["schema"], table["table"]) for table in row["tables"])
    return _StoppingEvent(position, f"{at.type} event", frozenset([at.table]) if at.table else tables)


def _nearest(position: Position, events: Sequence[EventAt]) -> str:
    near = sorted(events, key=lambda event: abs(event.offset - position.offset))[:2]
    listed = [
        f"{replace(position, offset=logged_event.offset)} ({logged_event.type})"
        for logged_event in sorted(near, key=lambda logged_event: logged_event.offset)
    ]
    return f"nearest are {' and '.join(listed)}" if listed else "none is near"
