"""Definitions of a table's rows: those of their log, with names and other facts from elsewhere.

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
    column_list,
    completed_by_history,
    with_defaults,
    with_names,
    with_numbered_columns,
    without_defaults,
)
from spark_jobs.ddl.effects import CreateTable
from spark_jobs.ddl.labels import with_known_labels, with_labels, without_labels
from spark_jobs.errors import NamesUnknown, TableStopped
from spark_jobs.log.position import Position, Range
from spark_jobs.schema.tracker import lacks_names
from spark_jobs.silver.timeline.timeline import Timeline


def complete_definition(
    timeline: Timeline,
    logged: TableDefinition,
    previous: TableDefinition | None,
    until: Position,
    *,
    is_last: bool,
    is_new: bool = False,
) -> TableDefinition:
    """A logged definition with names: its own, those that are known from before, or a server's.

    Args:
        timeline: the table up to the statement or rows before these.
        logged: what the log has for the rows.
        previous: what is known of the table before them.
        until: up to where the rows lie, or the statement that leads to the definition.
        is_last: no statement about the table stands after these rows.
        is_new: the lake has no row of the table as it is.
    """
    complete = _complete(timeline, logged, previous, until, is_last=is_last)
    return _keyed(timeline, with_defaults(without_defaults(complete), previous), previous, until, is_new=is_new)


def complete_definition_of_rows(
    timeline: Timeline, logged: TableDefinition, until: Position, *, is_last: bool
) -> TableDefinition:
    """A logged definition with names, of rows at the timeline's present state, as ``complete_definition``.

    A server tells the defaults of the last ones, which no log does.
    """
    previous = timeline.state.definition
    complete = _complete(timeline, logged, previous, until, is_last=is_last)
    definition = with_defaults(without_defaults(complete), previous)
    definition = with_defaults(definition, complete) if is_last else definition
    return _keyed(timeline, definition, previous, until, is_new=timeline.is_first())


def _complete(
    timeline: Timeline,
    logged: TableDefinition,
    previous: TableDefinition | None,
    until: Position,
    *,
    is_last: bool,
) -> TableDefinition:
    """Definition with names and labels. Raises TableStopped where nothing tells them."""
    return _labelled(
        timeline, _complete_names(timeline, with_labels(logged, previous), previous, until, is_last=is_last), until
    )


def _keyed(
    timeline: Timeline,
    definition: TableDefinition,
    previous: TableDefinition | None,
    until: Position,
    *,
    is_new: bool,
) -> TableDefinition:
    """Definition with silver's key: a keyless table stays one, and right, whatever index is made.

    A key of the same columns keeps their order: rows name keys of theirs by it (``_moved_from``).
    """
    is_keyless = previous is not None and previous.key == () and not is_new
    if is_keyless or is_kept_keyless(timeline, until):
        return replace(definition, key=(), index=None)
    has_columns = previous is not None and previous.column_names() == definition.column_names()
    if previous and previous.key and has_columns and {*previous.key} == {*(definition.key or ())}:
        definition = replace(definition, key=previous.key)
    is_named = previous is not None and definition.index is None and previous.key == definition.key
    return replace(definition, index=previous.index) if previous and is_named else definition


def is_kept_keyless(timeline: Timeline, until: Position) -> bool:
    """True if silver has the rows up to a position, or the last of them, without a key, whatever the log says."""
    replay = timeline.inputs.replay
    is_since = replay is None or replay.emptied is None or replay.emptied < until
    return timeline.inputs.is_keyless and is_since


def require_still_unnamed(timeline: Timeline, first: Range) -> None:
    """Check that a table with positional columns has no rules, and its columns still no names. Raises TableStopped.

    first: the range up to its first statement.
    """
    previous = timeline.state.definition
    if previous is None or not previous.numbered:
        return
    _require_no_filters(timeline)
    history = timeline.inputs.by_history(timeline.name, timeline.extent.start)
    if history and history.definition and not history.reason and history.at <= first.stop:
        raise _named_by_now(timeline, history.by)


def label_existing_columns(timeline: Timeline) -> Timeline:
    """Add labels that an earlier version did not take from statements and servers: the lake has their numbers."""
    previous = timeline.state.definition
    if previous is None or previous.numbered or not without_labels(previous):
        return timeline
    history = timeline.inputs.by_history(timeline.name, timeline.extent.start)
    if history is None or history.definition is None or history.reason:
        return timeline
    return timeline.with_definition(with_known_labels(previous, history.definition))


def history_of(timeline: Timeline, logged: Sequence[TableDefinition | None]) -> HistoryAnswer | None:
    """Answer of the history about the table, where nothing else tells. logged: what the log has for its rows."""
    is_named = timeline.state.definition is not None or any(
        definition and definition.has_names() for definition in logged
    )
    return None if is_named else timeline.inputs.by_history(timeline.name, timeline.extent.start)


def begin_with_history(timeline: Timeline) -> Timeline:
    """Take the history's definition of the table, whether or not rows follow: the next statement may change it."""
    definition = timeline.history and not timeline.history.reason and timeline.history.definition
    if definition and timeline.state.definition is None and not timeline.state.is_dropped:
        return timeline.with_definition(definition)
    return timeline


def _require_no_filters(timeline: Timeline) -> None:
    """Check that no rules apply to the table, since they may name columns. Raises TableStopped."""
    rules = timeline.inputs.filters.of(timeline.name.schema, timeline.name.table).names()
    if rules:
        raise TableStopped(
            f"{timeline.name}: its columns have no names (on_unnamed: number), and {', '.join(rules)} would have to "
            "judge them by name, which is not supported; remove the rule from the table"
        )


def _named_by_now(timeline: Timeline, origin: str) -> TableStopped:
    return TableStopped(
        f"{timeline.name}: its columns are numbered in the lake (on_unnamed: number), and {origin} names them now; "
        f"rebuild it with the names (stratalog reset --source SOURCE --table {timeline.name})"
    )


def _labelled(timeline: Timeline, definition: TableDefinition, until: Position) -> TableDefinition:
    """Definition with labels whose character set the log lacks. Raises TableStopped where nothing tells them."""
    if not any(column.label_bytes for column in definition.columns):
        return definition
    history = timeline.inputs.by_history(timeline.name, until)
    if history and not history.reason:
        definition = with_labels(definition, history.definition)
    rule = timeline.inputs.filters.of(timeline.name.schema, timeline.name.table).columns
    lacking = [name for name in without_labels(definition) if rule is None or not rule.is_left_out(name)]
    if lacking and not definition.numbered:
        raise TableStopped(
            f"{timeline.name}: column {lacking[0]}: the log has its labels without a character set that is known "
            "(MySQL before 8.0.17 names none), and neither a statement nor a server tells them as they were up to "
            f"{until}; run again to ask the server, or name a schema dump (schema_dump: of a source of files), or "
            "leave the column out (columns:)"
        )
    return definition


def _complete_names(
    timeline: Timeline,
    logged: TableDefinition,
    previous: TableDefinition | None,
    until: Position,
    *,
    is_last: bool,
) -> TableDefinition:
    if previous is not None and previous.numbered:
        return _by_number(timeline, logged, previous, is_last=is_last)
    try:
        return _by_name(timeline, logged, previous, until, is_last=is_last)
    except NamesUnknown:
        if not timeline.inputs.numbers or _is_made_before(timeline, until):
            raise
        _require_no_filters(timeline)
        return with_numbered_columns(logged)


def _is_made_before(timeline: Timeline, until: Position) -> bool:
    """True if the log makes the table before a place: a server may tell more of it when it is asked next."""
    before = (event for event in timeline.about() if event.position < until)
    creates = (event for event in before if event.statement.effect is Effect.CREATES)
    return any(isinstance(effect, CreateTable) for event in creates for effect in timeline.effects(event))


def _by_number(
    timeline: Timeline, logged: TableDefinition, previous: TableDefinition, *, is_last: bool
) -> TableDefinition:
    """The definition of rows after others whose columns are numbered. Raises TableStopped, also where it is told.

    What a column was numbered as, it stays; columns added since have their names.
    """
    # As soon as the log or the server has names, positional columns are wrong for what follows.
    if logged.has_names():
        raise _named_by_now(timeline, "the log")
    events = timeline.about()
    try:
        from_server = timeline.inputs.complete(logged, events[-1].position if events else None) if is_last else None
    except TableStopped:
        from_server = None
    if from_server is not None and from_server.has_names():
        raise _named_by_now(timeline, "the server")
    # Numbers continue only where the columns are the same ones: the log alone does not say which of two is which.
    complete = with_names(logged, previous)
    if complete is None:
        raise TableStopped(
            f"{timeline.name}: its columns are numbered (on_unnamed: number), and were ({column_list(previous)}), "
            f"where rows now have ({column_list(logged)}): which of them are the same is not known"
        )
    return complete


def _by_name(
    timeline: Timeline,
    logged: TableDefinition,
    previous: TableDefinition | None,
    until: Position,
    *,
    is_last: bool,
) -> TableDefinition:
    if not logged.has_names() and previous is not None and previous.has_names():
        return _with_names(logged, _with_charsets(timeline, previous, until))
    events, later_history = timeline.about(), timeline.later_history
    if not logged.has_names() and timeline.history:
        complete = completed_by_history(logged, timeline.history)
    elif not logged.has_names() and later_history and later_history.not_before:
        raise NamesUnknown(
            f"{timeline.name}: the log does not name its columns (binlog_row_metadata is not FULL), and "
            f"{later_history.not_before}; start after it (start: {later_history.at}, and load the table), or name a "
            "schema dump of before it (schema_dump: of a source of files)"
        )
    elif not logged.has_names() and not is_last:
        raise NamesUnknown(
            f"{timeline.name}: the log does not name its columns (binlog_row_metadata is not FULL), and "
            f"{events[-1].statement.verb} at {events[-1].position} changed them since"
        )
    else:
        complete = timeline.inputs.complete(logged, events[-1].position if events else None)
    is_by_unique = not logged.has_names() and complete.index not in (None, PRIMARY)
    if is_by_unique and (events or timeline.indexes()):
        return replace(complete, key=(), index=None)  # whether the index was there before is not known
    return complete


def _with_charsets(timeline: Timeline, previous: TableDefinition, until: Position) -> TableDefinition:
    """Definition with the character sets that statements leave to the table's default, by the history at a position."""
    history = timeline.inputs.by_history(timeline.name, until) if lacks_names(previous) else None
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
            f"{logged.name}: the log does not name its columns, and has types ({column_list(logged)}) where the table "
            f"is known as ({column_list(previous)})"
        )
    for column in complete.columns:
        if column.charset is None and column.type.is_character:
            raise TableStopped(
                f"{logged.name}: neither the log nor a statement tells the character set of {column.name}"
            )
    return complete
