"""Statements of a range that change a table, and those that stop it in advance.

Put here: telling these apart. Not here: what a statement changes (changes.py), reading it (ddl/effects.py).
"""

from collections.abc import Iterator
from itertools import product

from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.ddl.classify import Effect
from spark_jobs.ddl.definitions import PRIMARY
from spark_jobs.ddl.effects import AlterTable, ChangeIndex, ChangeStorage, CreateTable, TableEffect, effects
from spark_jobs.ddl.operations import LEAVING_ROWS, DropIndex, Operation
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver.table_timeline import Ended
from spark_jobs.silver.timeline.timeline import DDL, Timeline


def statements_until_stop(timeline: Timeline) -> tuple[list[LoggedStatement], Ended | None]:
    """The statements that change the table, in order, up to the first one, or XA COMMIT, that stops it."""
    limit, events = _undecidable(timeline), list[LoggedStatement]()
    for event in sorted((*timeline.about(), *timeline.indexes()), key=lambda statement: statement.position):
        if limit and event.position >= limit.at:
            break
        try:
            is_of_key = event.statement.effect is not Effect.INDEXES or _may_drop_key(timeline, event)
            events += [event] if is_of_key and changes_table(timeline, event) else []
        except (TableStopped, DecodeError) as error:
            return events, Ended(event.boundary, error)
    return events, limit


def changes_table(timeline: Timeline, event: LoggedStatement) -> bool:
    """True if a statement changes the table, or is ignored. Raises TableStopped for what is not handled."""
    if event.position in timeline.skips:
        return not timeline.is_before_rows(event)
    statement = event.statement
    if statement.effect not in DDL:
        raise _rows_unknown(timeline, event)
    # A query that fills a table leaves no row in the log, also before the first row that there is.
    if statement.writes_rows and any(isinstance(effect, CreateTable) for effect in timeline.effects(event)):
        raise timeline.refusal(
            event, "fills the table in statement format, which says what was asked, not what happened"
        )
    if timeline.is_early(event) or statement.effect is Effect.INDEXES:
        return True
    return any(_is_change(timeline, event, effect) for effect in timeline.effects(event))


def _rows_unknown(timeline: Timeline, event: LoggedStatement) -> TableStopped:
    """The error of a statement that changes rows, or what becomes of them, and has no row events."""
    match event.statement.effect:
        case Effect.ROWS:
            return timeline.refusal(
                event, "changes rows in statement format, which says what was asked, not what happened"
            )
        case Effect.ROUTINE:
            return timeline.refusal(
                event,
                "runs a routine, logged in statement format: which rows of which tables it changed, it does not say",
            )
        case _:
            return timeline.refusal(
                event, "undoes a part of the rows that were logged before it; which of them stay is not in the log"
            )


def _is_change(timeline: Timeline, event: LoggedStatement, effect: TableEffect) -> bool:
    match effect:
        case AlterTable():
            operations = operations_of(timeline, event, effect)
            is_index_dropped = any(isinstance(operation, DropIndex) for operation in operations)
            drops_key = is_index_dropped and _may_have_key(timeline, event)
            return drops_key or any(not isinstance(operation, LEAVING_ROWS) for operation in operations)
        case ChangeStorage(table):
            if table != timeline.name:
                raise timeline.refusal(event, "changes the table, which is not applied yet")
            raise timeline.refusal(event, f"changes the table, which is not applied: {effect.reason}")
        case _:
            return True


def operations_of(
    timeline: Timeline, event: LoggedStatement, effect: AlterTable | ChangeIndex
) -> tuple[Operation, ...]:
    """Operations of a statement on columns and keys. Raises TableStopped where they cannot be read."""
    try:
        return effect.operations
    except DecodeError as error:
        raise timeline.refusal(event, f"changes the table, which is not applied: {error}") from error


def leaves_rows(timeline: Timeline, event: LoggedStatement) -> bool:
    """True if a statement is about the table, and leaves every row and column as they are."""
    own_effects = timeline.effects(event)
    return bool(own_effects) and all(_leaves_rows(timeline, event, effect) for effect in own_effects)


def _leaves_rows(timeline: Timeline, event: LoggedStatement, effect: TableEffect) -> bool:
    if isinstance(effect, ChangeIndex):
        return True
    if not isinstance(effect, AlterTable):
        return False
    return all(isinstance(operation, LEAVING_ROWS) for operation in operations_of(timeline, event, effect))


def dropped_indexes(timeline: Timeline, event: LoggedStatement) -> list[DropIndex]:
    """The indexes that a statement drops, of the table by its very name. Raises Unsupported."""
    return [operation for operation in _index_operations(timeline, event) if isinstance(operation, DropIndex)]


def _index_operations(timeline: Timeline, event: LoggedStatement) -> Iterator[Operation]:
    for effect in effects(event.statement, event.database, event.session):
        if isinstance(effect, ChangeIndex) or (isinstance(effect, AlterTable) and effect.table == timeline.name):
            yield from effect.operations


def _may_drop_key(timeline: Timeline, event: LoggedStatement) -> bool:
    """True if rows may be identified otherwise after a statement about indexes alone.

    Of a table that only a server names, the key is not taken for known where statements are about its indexes.
    """
    if not event.statement.verb.startswith("DROP") or not _may_have_key(timeline, event):
        return False
    try:
        return bool(dropped_indexes(timeline, event))
    except DecodeError as error:
        raise timeline.refusal(event, f"is not followed: {error}") from error


def _may_have_key(timeline: Timeline, event: LoggedStatement) -> bool:
    """True if the table may be identified, before a statement, by an index that is known."""
    definition, definitions = timeline.state.definition, timeline.rows.definitions if timeline.rows else ()
    if definition is not None or any(definition.has_names() for _, definition in definitions):
        return definition is None or definition.index != PRIMARY
    before = (earlier for earlier in timeline.about() if earlier.position < event.position)
    return any(earlier.statement.effect is Effect.CREATES for earlier in before)


def _undecidable(timeline: Timeline) -> Ended | None:
    """The first XA COMMIT whose rows are not there, or are not of the table as it is."""
    xa = timeline.scan.xa.of(timeline.name, timeline.skips)
    ends = [
        Ended(at, TableStopped(reason, at)) for xid, at in xa.unknown if (reason := _why_rows_lack(timeline, xid, at))
    ]
    events = (event for event in (*timeline.scan.before, *timeline.scan.statements) if _may_change(timeline, event))
    spans = xa.row_ranges() if len(xa.rows) else []
    for event, span in product(events, spans) if spans else ():
        if span.start < event.position < span.stop and span.stop >= timeline.extent.start:
            error = timeline.refusal(
                event,
                f"changes the table between rows of an XA transaction, prepared at {span.start}, and their XA "
                f"COMMIT at {span.stop}; which rows the server then had is not in the log",
            )
            ends.append(Ended(span.stop, error))
    return min(ends, key=lambda end: end.at.order, default=None)


def _why_rows_lack(timeline: Timeline, xid: str, at: Position) -> str | None:
    """Reason why the table stops at an XA COMMIT whose rows bronze does not hold.

    None where none can be the table's.
    """
    beginning = timeline.inputs.beginning
    is_needed = timeline.state.is_complete or (beginning is not None and beginning.is_needed)
    if at < timeline.extent.start or not is_needed or (beginning and beginning.created_at(timeline.name, at)):
        return None
    return (
        f"the XA transaction {xid}, which XA COMMIT at {at} commits, was prepared before the log begins that "
        "bronze holds, and may have rows of the table; bring the older log (stratalog extract --archive DIR), or "
        f"pass the XA COMMIT over (stratalog skip --at {at})"
    )


def _may_change(timeline: Timeline, event: LoggedStatement) -> bool:
    """True if a statement changes the table, also one that is not followed: the table stops at that itself."""
    name = timeline.name
    is_about = event.statement.effect is Effect.CHANGES and event.statement.names(name.schema, name.table)
    if not is_about or event.position in timeline.skips:
        return False
    try:
        is_change = any(_is_change(timeline, event, effect) for effect in timeline.effects(event))
        return is_change and not leaves_rows(timeline, event)
    except (TableStopped, DecodeError):
        return False
