"""The definition that rows of a table have: what their log tells, with names and whatever else is known otherwise.

Put here: where names, labels, character sets and keys come from, and where they lack. Not here: what statements change
(changes.py), which rows have which definition in the log (pieces.py).
"""

from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.binlog import TableDefinition
from spark_jobs.ddl.classify import Effect
from spark_jobs.ddl.definitions import (
    PRIMARY,
    HistoryAnswer,
    completed_by_history,
    listed,
    numbered,
    with_defaults,
    with_names,
    without_defaults,
)
from spark_jobs.ddl.effects import CreateTable
from spark_jobs.ddl.labels import with_known_labels, with_labels, without_labels
from spark_jobs.errors import NamesUnknown, TableStopped
from spark_jobs.log.position import Position, Range
from spark_jobs.schema.tracker import lacks
from spark_jobs.silver.timeline.progress import TimelineProgress


def settle(
    progress: TimelineProgress,
    logged: TableDefinition,
    previous: TableDefinition | None,
    until: Position,
    *,
    is_last: bool,
    is_new: bool = False,
) -> TableDefinition:
    """A logged definition with names: its own, those that are known from before, or a server's.

    Args:
        progress: the build.
        logged: what the log has for the rows.
        previous: what is known of the table before them.
        until: up to where the rows lie, or the statement that leads to the definition.
        is_last: no statement about the table stands after these rows.
        is_new: the lake has no row of the table as it is.
    """
    complete = _complete(progress, logged, previous, until, is_last=is_last)
    return _keyed(progress, with_defaults(without_defaults(complete), previous), previous, until, is_new=is_new)


def settle_rows(
    progress: TimelineProgress, logged: TableDefinition, until: Position, *, is_last: bool
) -> TableDefinition:
    """As ``settle``, of rows where the build is: a server tells the defaults of the last ones, which no log does."""
    previous = progress.state.definition
    complete = _complete(progress, logged, previous, until, is_last=is_last)
    settled = with_defaults(without_defaults(complete), previous)
    settled = with_defaults(settled, complete) if is_last else settled
    return _keyed(progress, settled, previous, until, is_new=progress.is_first())


def _complete(
    progress: TimelineProgress,
    logged: TableDefinition,
    previous: TableDefinition | None,
    until: Position,
    *,
    is_last: bool,
) -> TableDefinition:
    """With names and labels. Raises TableStopped where nothing tells them."""
    return _labelled(
        progress, _complete_names(progress, with_labels(logged, previous), previous, until, is_last=is_last), until
    )


def _keyed(
    progress: TimelineProgress,
    settled: TableDefinition,
    previous: TableDefinition | None,
    until: Position,
    *,
    is_new: bool,
) -> TableDefinition:
    """With the key that silver tells rows apart by: a keyless table stays one, and right, whatever index is made."""
    is_keyless = previous is not None and previous.key == () and not is_new
    if is_keyless or is_kept_keyless(progress, until):
        return replace(settled, key=(), index=None)
    is_named = previous is not None and settled.index is None and previous.key == settled.key
    return replace(settled, index=previous.index) if previous and is_named else settled


def is_kept_keyless(progress: TimelineProgress, until: Position) -> bool:
    """True if silver has the rows up to a position, or the last of them, without a key, whatever the log says."""
    replay = progress.inputs.replay
    is_since = replay is None or replay.emptied is None or replay.emptied < until
    return progress.inputs.is_keyless and is_since


def require_still_unnamed(progress: TimelineProgress, first: Range) -> None:
    """Raises TableStopped where rules are about a table with numbered columns, or something names them by now.

    first: the range up to its first statement.
    """
    previous = progress.state.definition
    if previous is None or not previous.numbered:
        return
    _require_no_filters(progress)
    history = progress.inputs.by_history(progress.name, progress.extent.start)
    if history and history.definition and not history.reason and history.at <= first.stop:
        raise _named_by_now(progress, history.by)


def label_existing_columns(progress: TimelineProgress) -> None:
    """Adds labels that an earlier version did not take from statements and servers: the lake has their numbers."""
    previous = progress.state.definition
    if previous is None or previous.numbered or not without_labels(previous):
        return
    history = progress.inputs.by_history(progress.name, progress.extent.start)
    if history is None or history.definition is None or history.reason:
        return
    progress.state = replace(progress.state, definition=with_known_labels(previous, history.definition))


def history_of(progress: TimelineProgress, logged: Sequence[TableDefinition | None]) -> HistoryAnswer | None:
    """Answer of the history about the table, where nothing else tells. logged: what the log has for its rows."""
    is_named = progress.state.definition is not None or any(
        definition and definition.has_names() for definition in logged
    )
    return None if is_named else progress.inputs.by_history(progress.name, progress.extent.start)


def begin_with_history(progress: TimelineProgress) -> None:
    """Takes what the history tells for the table's definition, rows or not: the next statement may change it."""
    definition = progress.history and not progress.history.reason and progress.history.definition
    if definition and progress.state.definition is None and not progress.state.is_dropped:
        progress.state = replace(progress.state, definition=definition)


def _require_no_filters(progress: TimelineProgress) -> None:
    """Raises TableStopped where rules are about the table, which may go by names."""
    rules = progress.inputs.filters.of(progress.name.schema, progress.name.table).names()
    if rules:
        raise TableStopped(
            f"{progress.name}: its columns have no names (on_unnamed: number), and {', '.join(rules)} would have to "
            "judge them by name: not done; take the rule away from the table"
        )


def _named_by_now(progress: TimelineProgress, origin: str) -> TableStopped:
    return TableStopped(
        f"{progress.name}: its columns are numbered in the lake (on_unnamed: number), and {origin} names them by now; "
        f"rebuild it with the names (stratalog reset --source SOURCE --table {progress.name})"
    )


def _labelled(progress: TimelineProgress, definition: TableDefinition, until: Position) -> TableDefinition:
    """With labels whose character set the log does not name. Raises TableStopped where nothing tells them."""
    if not any(column.label_bytes for column in definition.columns):
        return definition
    history = progress.inputs.by_history(progress.name, until)
    if history and not history.reason:
        definition = with_labels(definition, history.definition)
    rule = progress.inputs.filters.of(progress.name.schema, progress.name.table).columns
    lacking = [name for name in without_labels(definition) if rule is None or not rule.is_left_out(name)]
    if lacking and not definition.numbered:
        raise TableStopped(
            f"{progress.name}: column {lacking[0]}: the log has its labels without a character set that is known "
            "(MySQL before 8.0.17 names none), and neither a statement nor a server tells them as they were up to "
            f"{until}; run again to ask the server, or name a schema dump (schema_dump: of a source of files), or "
            "leave the column out (columns:)"
        )
    return definition


def _complete_names(
    progress: TimelineProgress,
    logged: TableDefinition,
    previous: TableDefinition | None,
    until: Position,
    *,
    is_last: bool,
) -> TableDefinition:
    if previous is not None and previous.numbered:
        return _by_number(progress, logged, previous, is_last=is_last)
    try:
        return _by_name(progress, logged, previous, until, is_last=is_last)
    except NamesUnknown:
        if not progress.inputs.numbers or _is_made_before(progress, until):
            raise
        _require_no_filters(progress)
        return numbered(logged)


def _is_made_before(progress: TimelineProgress, until: Position) -> bool:
    """True if the log makes the table before a place: a server may tell more of it when it is asked next."""
    before = (event for event in progress.about() if event.position < until)
    creates = (event for event in before if event.statement.effect is Effect.CREATES)
    return any(isinstance(effect, CreateTable) for event in creates for effect in progress.effects(event))


def _by_number(
    progress: TimelineProgress, logged: TableDefinition, previous: TableDefinition, *, is_last: bool
) -> TableDefinition:
    """The definition of rows after others whose columns are numbered. Raises TableStopped, also where it is told.

    What a column was numbered as, it stays; columns added since have their names.
    """
    # As soon as the log or the server has names, positional columns are wrong for what follows.
    if logged.has_names():
        raise _named_by_now(progress, "the log")
    events = progress.about()
    try:
        from_server = progress.inputs.complete(logged, events[-1].position if events else None) if is_last else None
    except TableStopped:
        from_server = None
    if from_server is not None and from_server.has_names():
        raise _named_by_now(progress, "the server")
    # Numbers continue only where the columns are the same ones: the log alone does not say which of two is which.
    complete = with_names(logged, previous)
    if complete is None:
        raise TableStopped(
            f"{progress.name}: its columns are numbered (on_unnamed: number), and were ({listed(previous)}), where "
            f"rows now have ({listed(logged)}): which of them are the same is not known"
        )
    return complete


def _by_name(
    progress: TimelineProgress,
    logged: TableDefinition,
    previous: TableDefinition | None,
    until: Position,
    *,
    is_last: bool,
) -> TableDefinition:
    if not logged.has_names() and previous is not None and previous.has_names():
        return _with_names(logged, _with_charsets(progress, previous, until))
    events, later_history = progress.about(), progress.later_history
    if not logged.has_names() and progress.history:
        complete = completed_by_history(logged, progress.history)
    elif not logged.has_names() and later_history and later_history.not_before:
        raise NamesUnknown(
            f"{progress.name}: the log does not name its columns (binlog_row_metadata is not FULL), and "
            f"{later_history.not_before}; begin behind it (start: {later_history.at}, and load the table), or name a "
            "schema dump of before it (schema_dump: of a source of files)"
        )
    elif not logged.has_names() and not is_last:
        raise NamesUnknown(
            f"{progress.name}: the log does not name its columns (binlog_row_metadata is not FULL), and "
            f"{events[-1].statement.verb} at {events[-1].position} changed them since"
        )
    else:
        complete = progress.inputs.complete(logged, events[-1].position if events else None)
    is_by_unique = not logged.has_names() and complete.index not in (None, PRIMARY)
    if is_by_unique and (events or progress.indexes()):
        return replace(complete, key=(), index=None)  # whether the index was there before is not known
    return complete


def _with_charsets(progress: TimelineProgress, previous: TableDefinition, until: Position) -> TableDefinition:
    """With the character sets that statements leave to the table's default, as the history has them at a position."""
    history = progress.inputs.by_history(progress.name, until) if lacks(previous) else None
    definition = history.definition if history and history.at == until and not history.reason else None
    if definition is None or definition.column_names() != previous.column_names():
        return previous
    pairs = zip(previous.columns, definition.columns, strict=True)
    return replace(
        previous, columns=tuple(replace(a, charset=b.charset if a.charset is None else a.charset) for a, b in pairs)
    )


def _with_names(logged: TableDefinition, previous: TableDefinition) -> TableDefinition:
    """A definition of a log that tells types alone, with the names and whatever else is known otherwise."""
    complete = with_names(logged, previous)
    if complete is None:
        raise TableStopped(
            f"{logged.name}: the log does not name its columns, and has types ({listed(logged)}) where the table is "
            f"known as ({listed(previous)})"
        )
    for column in complete.columns:
        if column.charset is None and column.type.is_character:
            raise TableStopped(
                f"{logged.name}: neither the log nor a statement tells the character set of {column.name}"
            )
    return complete
