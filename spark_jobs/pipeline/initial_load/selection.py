"""Tables that a load reads, and why it cannot read others.

Put here: the tables that are not complete or were named, with the position that their rows count from. Not here:
reading them (reading.py).
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.ddl.sequences import is_sequence
from spark_jobs.errors import ConfigError, StratalogError, TableStopped, about, message_under
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.cascades.unlogged_changes import SourceUnloggedChanges, unlogged_changes_of
from spark_jobs.pipeline.initial_load.commit import READING, LoadCommit
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.pipeline.initial_load.row_images import as_selected
from spark_jobs.pipeline.initial_load.row_rules import RowRules, job_of
from spark_jobs.pipeline.initial_load.snapshot import engine_without_snapshots
from spark_jobs.pipeline.initial_load.staging import StagedTable
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.retired_columns import restarts_of
from spark_jobs.source.information_schema import on_server
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)


def is_named(name: TableName, patterns: Sequence[Pattern]) -> bool:
    return any(pattern.matches(name.schema, name.table) for pattern in patterns)


def require_each(source: str, patterns: Sequence[Pattern], names: Collection[TableName]) -> None:
    unknown = next(
        (pattern for pattern in patterns if not any(pattern.matches(*astuple(name)) for name in names)), None
    )
    if unknown:
        raise ConfigError(
            f"{source}: the server has no table {unknown.schema}.{unknown.table}, or the user may not see it"
        )


@dataclass(frozen=True, slots=True)
class TableToRead:
    """A table that is to be read: the position from which its rows count, its definition, and what was read before.

    rules: of the definition by which rows are read, that of ``progress`` where there is one.
    """

    name: TableName
    since: Position
    definition: TableDefinition
    table: Table
    head: Head | None
    progress: LoadCommit | None
    rules: RowRules


@dataclass(frozen=True, slots=True)
class LoadSelection:
    """The tables that a load reads, and those that were named and lack nothing."""

    reading: list[TableToRead]
    already: list[TableName]


def select_tables(
    load: LoadContext,
    before: Outcome,
    patterns: Sequence[Pattern],
    stopped: dict[TableName, str],
    *,
    is_again: bool = False,
) -> LoadSelection:
    """The tables to read; ``stopped`` gets those that cannot be. Raises ConfigError, SourceError, LakeError.

    is_again: whether complete tables are read that were named.
    """
    # Names and patterns must match tables of the server; those that are complete are not read again.
    declared = {name: definition for name, definition in on_server(load.server).items() if not is_sequence(definition)}
    names = {name for name in declared if is_named(name, patterns)}
    require_each(load.source, patterns, names)
    entries = {TableName(*entry.name): entry for entry in before.entries}
    scope = [name for name in declared if load.pipeline.scope.holds(name.schema, name.table)]
    complete = {name for name, entry in entries.items() if entry.complete and not _lacks_values(load, name, names)}
    complete -= names if is_again else set()
    names_to_load = sorted(names or set(scope) - complete)
    # One position for all that are read by key: from there on the log has every change. Others name their own.
    bronze_end = newest_checkpoint(load.lake.bronze(load.source)).position
    is_walked = any(declared[name].key for name in set(names_to_load) - complete)
    since = _since(load) if is_walked else bronze_end
    # The statements of the whole log say what is not logged: they are read once for all tables.
    gaps = unlogged_changes_of(load.pipeline, load.lake, load.source)
    reading = []
    for name in names_to_load:
        if name in complete:
            continue
        try:
            with about(str(name)):
                _require_loadable(load, declared[name], before, gaps)
            position = since if declared[name].key else bronze_end
            reading.append(_reading(load, name, position, declared[name]))
        except StratalogError as error:
            stopped[name] = f"{load.source}: {advised(error, load.source, name)}"
            log.error("%s: %s", load.source, error)  # noqa: TRY400 - the message is the whole of it
    for name in sorted(complete & names):
        _end_open_load(load, name)
    return LoadSelection(reading, sorted(complete & names))


def _end_open_load(load: LoadContext, name: TableName) -> None:
    """End the load of a complete table that was interrupted: gc keeps log for it. Raises LostRace, LakeError."""
    table = load.lake.load(load.source, name.schema, name.table)
    head = table.head()
    commit = LoadCommit.of_head(head)
    if head and commit and commit.is_open:
        log.info("%s: %s: is complete; its load from %s on is ended", load.source, name, commit.read_from)
        StagedTable(name, table, head, commit).given_up("the table has all of its rows")


def _lacks_values(load: LoadContext, name: TableName, named: Collection[TableName]) -> bool:
    """True if a table that was asked for has columns that were restarted: older rows have no value in them."""
    head = load.lake.silver(load.source, name.schema, name.table).head() if name in named else None
    commit = SilverCommit.of_head(head)
    return bool(commit and restarts_of(commit.retired_columns))


def _require_loadable(
    load: LoadContext, declared: TableDefinition, before: Outcome, gaps: SourceUnloggedChanges
) -> None:
    """Check that a declared table can be loaded. Raises TableStopped, with what to do.

    gaps: those of the source's log.
    """
    name = declared.name
    # Reasons in the order in which a user can do something about them.
    if not load.pipeline.scope.holds(name.schema, name.table):
        reason = load.pipeline.scope.why_helper(name.schema, name.table)
        raise TableStopped(f"is {reason or 'not in scope; add it to tables: in the configuration'}")
    if silver.is_numbered(load.lake.silver(load.source, name.schema, name.table).head()):
        raise TableStopped(
            "cannot be loaded: its columns have no names in the lake (on_unnamed: number); rebuild it once they "
            f"have (stratalog reset --source {load.source} --table {name}), or load it in a pipeline of its own"
        )
    # Rows that the server changes without logging them could change while they are read.
    gap = next((gap for gap in gaps.of(name) if gap.key is None and gap.until is None), None)
    if gap:
        raise TableStopped(gaps.refusal(gap, name))
    is_child = any(gap.key and gap.until is None for gap in gaps.of(name)) and not gaps.is_logged
    if is_child and gaps.actions.of(name.schema, name.table) == "apply":
        raise TableStopped(
            "cannot be loaded with on_cascade: apply: what foreign keys do to its rows while they are read would not "
            "be derived; load it with on_cascade: warn, verify it (stratalog verify), and set apply then"
        )
    # The load needs the table's log after it, and an order of its rows with those of other sources.
    if name in before.stopped:
        raise TableStopped(
            f"cannot be loaded while it is stopped: {message_under(before.stopped[name], load.source, name)}"
        )
    if any(into.is_shared for into in load.pipeline.routing.of(load.source, name.schema, name.table)):
        raise TableStopped(
            "cannot be loaded while it has keys in common with other sources' tables (keys: shared): it is "
            "not known when its rows were written, so not which of two is newer"
        )
    if not declared.key:
        _require_snapshots(load, name)
    # Last, what the types themselves forbid: both raise TableStopped.
    silver.columns(declared)
    as_selected(declared)


def _require_snapshots(load: LoadContext, name: TableName) -> None:
    """Check that a table without a key has a snapshot, and no target that needs earlier changes.

    Raises TableStopped.
    """
    destinations = load.pipeline.routing.of(load.source, name.schema, name.table)
    mode = next((into.mode for into in destinations if into.mode.has_every_change), None)
    if mode:
        raise TableStopped(
            f"has no key, and a downstream table of it keeps every change (mode: {mode}): the changes before its "
            "snapshot would count twice; add a primary key, or leave the table out"
        )
    engine = engine_without_snapshots(load.server, name)
    if engine:
        raise TableStopped(
            f"has no key, and its engine {engine} has no snapshot that all rows could be read in; add a primary key, "
            f"or ALTER TABLE {name.table} ENGINE = InnoDB"
        )


def _since(load: LoadContext) -> Position:
    """The position that rows count from. Raises LakeError, SourceError where bronze begins later."""
    table = load.lake.bronze(load.source)
    head, checkpoint = table.head(), newest_checkpoint(table)
    assert head is not None
    return load.anchor.since(checkpoint, table, head.version, bronze.earliest(checkpoint))


def _reading(load: LoadContext, name: TableName, since: Position, definition: TableDefinition) -> TableToRead:
    table = load.lake.load(load.source, name.schema, name.table)
    head = table.head()
    # An open load continues, unless what was read would not fit what is read from now on.
    commit = LoadCommit.of_head(head)
    commit = commit if commit and commit.is_open else None
    rules = _rules(load, definition)
    if commit and commit.rule_digests != rules.digests:
        log.warning("%s: %s: was read under other rules until now, and starts from its beginning", load.source, name)
        commit = None
    if commit and commit.read_from < bronze.complete_from(newest_checkpoint(load.lake.bronze(load.source))):
        log.warning(
            "%s: %s: gc has removed log since %s, where its load began, and it starts from its beginning",
            *(load.source, name, commit.read_from),
        )
        commit = None
    if commit and commit.state == READING and commit.chunks and not commit.is_walked and rules.hides_key:
        log.warning(
            "%s: %s: rules hide its key, so that no commit names one, and it starts from its beginning",
            load.source,
            name,
        )
        commit = None
    if commit and commit.state == READING and not definition.key:
        log.info("%s: %s: has no key to continue by, and starts from its beginning", load.source, name)
        commit = None
    if commit and commit.state == READING and commit.since.stretch != since.stretch:
        log.warning("%s: %s: was read from another server until now, and starts from its beginning", load.source, name)
        commit = None
    if commit and commit.definition != definition:
        rules = _rules(load, commit.definition)
    return TableToRead(name, since, definition, table, head, commit, rules)


def _rules(load: LoadContext, definition: TableDefinition) -> RowRules:
    """The rules about a table, by a definition of it. Raises TableStopped where silver was made by others."""
    snapshot = BronzeSnapshot.of(load.lake, load.source)
    job = job_of(load, snapshot, definition, Range(snapshot.oldest, snapshot.end))
    job.require_same_shape()
    return RowRules.of(job, definition)


def newest_checkpoint(table: Table) -> Checkpoint:
    head = table.head()
    assert head is not None
    assert head.checkpoint is not None
    return head.checkpoint
