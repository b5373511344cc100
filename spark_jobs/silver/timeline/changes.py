"""Changes of a table by a statement: it is created, emptied, dropped, altered, or replaces another one.

Put here: one statement, from how the table stands before it to how it stands after it. Not here: whether it changes the
table (statements.py), columns (columns.py).
"""

from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.config.filters import skip_name
from spark_jobs.ddl.effects import (
    AlterTable,
    ChangeIndex,
    ChangeStorage,
    CreateTable,
    DropSchema,
    DropTable,
    FreeName,
    Rename,
    TableEffect,
    TruncateTable,
    may_rename,
)
from spark_jobs.ddl.operations import LEAVING_ROWS, DropIndex
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Range
from spark_jobs.silver.retired_columns import names_of
from spark_jobs.silver.table_timeline import SchemaChange, TableContents, TableState
from spark_jobs.silver.timeline import columns, definitions
from spark_jobs.silver.timeline.filtering import filtered_by, is_ignored, require_no_filters
from spark_jobs.silver.timeline.statements import changes_table, operations_of
from spark_jobs.silver.timeline.timeline import Timeline

_LEAVING_KEYS = tuple(kind for kind in LEAVING_ROWS if kind is not DropIndex)
"""Operations that leave every row as it is, and what it is identified by."""


def apply(timeline: Timeline, event: LoggedStatement, logged: TableDefinition | None) -> Timeline:
    """The timeline after a statement. logged: the log's definition of the rows after it. Raises TableStopped."""
    if event.position in timeline.skips:
        return _pass_over(timeline, event)
    if timeline.is_early(event):
        return _apply_early(timeline, event, logged)
    return _apply(timeline, event, logged)


def _apply(timeline: Timeline, event: LoggedStatement, logged: TableDefinition | None) -> Timeline:
    # Another table's rows come with the name.
    table_effects = timeline.read(event)
    rename = _rename_to(timeline.name, table_effects)
    if rename:
        filtered_by(timeline, event)
        return _inherit(timeline, event, rename, table_effects, logged)
    # What becomes of the table that has the name.
    if not changes_table(timeline, event):  # it was about a table without rows, until others' came into it
        return timeline
    # An ALTER that gives the table another name takes it away from this one.
    effect = timeline.own_effects(event, table_effects)[-1]
    rule = filtered_by(timeline, event)
    if isinstance(effect, CreateTable):
        return _create(timeline, event, effect, logged, rule)
    if timeline.state.is_dropped:
        return timeline
    if rule:
        return _leave_out(timeline, event, effect, rule)
    return _follow_change(timeline, event, effect, logged)


def _follow_change(
    timeline: Timeline, event: LoggedStatement, effect: TableEffect, logged: TableDefinition | None
) -> Timeline:
    """The timeline after a statement on a table that exists, and that no rule leaves out."""
    match effect:
        case TruncateTable():
            emptied = replace(timeline.state, emptied=event.position, is_complete=True)
            return timeline.with_change(SchemaChange(_range_after(event), emptied, event, empties=True))
        case DropTable() | DropSchema() | FreeName():
            return _drop(timeline, event)
        case AlterTable() | ChangeIndex() if timeline.state.definition is not None:
            return columns.alter(timeline, event, effect, logged, timeline.state.definition)
        case _:
            return timeline


def _range_after(event: LoggedStatement) -> Range:
    return Range(event.position, event.stop)


def _rename_to(name: TableName, table_effects: Sequence[TableEffect]) -> Rename | None:
    """Effect that gives a table a name, among a statement's effects."""
    return next((effect for effect in table_effects if isinstance(effect, Rename) and effect.table == name), None)


def _pass_over(timeline: Timeline, event: LoggedStatement) -> Timeline:
    """The table stays as it is; rows after the statement that have other columns stop it."""
    change = SchemaChange(_range_after(event), timeline.state, event, left_out_by=skip_name(event.position))
    return timeline.with_change(change)


def _leave_out(timeline: Timeline, event: LoggedStatement, effect: TableEffect, rule: str) -> Timeline:
    """The rows stay; of a table that is dropped no definition does."""
    state = timeline.state
    if isinstance(effect, DropTable | DropSchema):
        state = replace(state, definition=None, is_dropped=True, is_kept=True)
    return timeline.with_change(SchemaChange(_range_after(event), state, event, left_out_by=rule))


def _drop(timeline: Timeline, event: LoggedStatement) -> Timeline:
    before, empties = timeline.state, timeline.inputs.on_drop_empties
    dropped = TableState(
        None,
        is_dropped=True,
        emptied=event.position if empties else before.emptied,
        is_complete=before.is_complete or empties,
        was_numbered=before.is_numbered,
    )
    return timeline.with_change(SchemaChange(_range_after(event), dropped, event, empties=empties))


def _create(
    timeline: Timeline,
    event: LoggedStatement,
    effect: CreateTable,
    logged: TableDefinition | None,
    rule: str | None,
) -> Timeline:
    before = timeline.state
    exists = not before.is_dropped and (not timeline.is_new or before.definition is not None)
    if exists and effect.if_missing:
        return timeline
    # The columns: what rows after the statement have, else what it declares.
    declared = _declared(timeline, event, effect)
    definition = declared
    if logged and (logged.has_names() or declared):
        definition = definitions.complete_definition(timeline, logged, declared, event.stop, is_last=True, is_new=True)
    if timeline.is_first():
        created = TableState(definition, is_complete=before.is_complete or not effect.if_missing)
        return replace(timeline, state=created)
    # A rule keeps the rows that were there; otherwise none of them counts any more.
    if rule or before.is_kept:
        has_definition = definition is not None
        kept = replace(before, definition=definition, is_dropped=False, is_kept=not has_definition)
        change = SchemaChange(_range_after(event), kept, event, left_out_by=rule, keeps=has_definition)
        return timeline.with_change(change)
    recreated = TableState(definition, emptied=event.position, is_complete=True)
    return timeline.with_change(SchemaChange(_range_after(event), recreated, event, empties=True))


def _declared(timeline: Timeline, event: LoggedStatement, effect: CreateTable) -> TableDefinition | None:
    """Declaration of a CREATE; None if it cannot be read, and the first row of the table gives it."""
    try:
        return effect.definition or _like(timeline, event, effect.like)
    except DecodeError:
        return None


def _like(timeline: Timeline, event: LoggedStatement, model: TableName | None) -> TableDefinition | None:
    """The definition that a table made like another one begins with, where its rows will not tell."""
    logged = timeline.rows.definitions if timeline.rows else ()
    is_named = bool(logged) and all(definition.has_names() for _, definition in logged)
    if model is None or timeline.inputs.contents is None or is_named:
        return None
    try:
        definition = timeline.inputs.contents(model, event.position).state.definition
    except TableStopped:
        return None  # what stops that table is its own affair; where names are missing, this one stops for them
    return definition and replace(definition, name=timeline.name)


def _inherit(
    timeline: Timeline,
    event: LoggedStatement,
    rename: Rename,
    table_effects: Sequence[TableEffect],
    logged: TableDefinition | None,
) -> Timeline:
    """The timeline after a statement that gives another table this name, with all rows of that table."""
    # What the other table holds after the statement.
    was = rename.was
    if timeline.inputs.contents is None:
        raise timeline.refusal(event, "changes the table, which is not applied yet")
    content = timeline.inputs.contents(was, event.position)
    if content.state.is_dropped:
        raise timeline.refusal(event, f"gives the table the rows of {was}, which the log has dropped before")
    alter = next((effect for effect in table_effects if isinstance(effect, AlterTable) and effect.table == was), None)
    if alter:
        content = _altered(timeline, content, event, alter, logged)
    if content.state.retired:
        names = names_of(content.state.retired)
        reason = f"gives the table the rows of {was}, which has retired columns ({names}): not supported"
        raise timeline.refusal(event, reason)
    # How the table of this name stands with it.
    definition = content.state.definition and replace(content.state.definition, name=timeline.name)
    if logged is not None and content.is_empty:
        definition = definitions.complete_definition(
            timeline, logged, definition, event.stop, is_last=True, is_new=True
        )
    state = TableState(definition, emptied=event.position, is_complete=content.state.is_complete)
    if content.is_empty and timeline.is_first():
        return replace(timeline, state=replace(state, emptied=None))
    # Its rows take the place of those that the name had.
    if not content.is_empty:
        require_no_filters(timeline, event, f"gives the table the rows of {was}", was)
    inherited = None if content.is_empty else content
    return timeline.with_change(SchemaChange(_range_after(event), state, event, empties=True, inherited=inherited))


def _altered(
    timeline: Timeline,
    content: TableContents,
    event: LoggedStatement,
    effect: AlterTable,
    logged: TableDefinition | None,
) -> TableContents:
    """Contents of a table after the other operations of the ALTER that gives it its new name."""
    before = content.state.definition
    operations = [
        operation for operation in operations_of(timeline, event, effect) if not isinstance(operation, _LEAVING_KEYS)
    ]
    if not operations or before is None:
        return content
    source = Timeline.begin(timeline.scan, content.name, _range_after(event), timeline.inputs, content.state)
    source = replace(source, before=content, next_rows=timeline.next_rows)
    altered = columns.alter(source, event, effect, logged and replace(logged, name=content.name), before)
    return replace(content, steps=[*content.steps, *altered.steps], state=altered.state)


def _apply_early(timeline: Timeline, event: LoggedStatement, logged: TableDefinition | None) -> Timeline:
    """Columns of the table's first rows, as far as statements tell; nothing is refused here.

    But a name that may come with another table's rows: that is not before the first row any more.
    """
    # A statement that cannot be read leaves the columns unknown; only a rename must not be missed.
    try:
        table_effects = timeline.read(event)
    except TableStopped:
        if may_rename(event.statement):
            raise
        return timeline.with_definition(None)
    rename = _rename_to(timeline.name, table_effects)
    if rename:
        filtered_by(timeline, event)
        return _inherit(timeline, event, rename, table_effects, logged)
    # The last effect on the table decides: nothing was there before it.
    try:
        own_effects = timeline.own_effects(event, table_effects)
        return _follow_early(timeline, event, own_effects[-1]) if own_effects else timeline
    except (TableStopped, DecodeError):
        return timeline.with_definition(None)


def _follow_early(timeline: Timeline, event: LoggedStatement, effect: TableEffect) -> Timeline:
    """The timeline after a statement before the first row. Raises TableStopped, DecodeError."""
    # Statements about other things do not change what the first rows have.
    before = timeline.state
    match effect:
        case CreateTable():
            return _create(timeline, event, effect, None, None)
        case AlterTable() | ChangeIndex() if before.definition is not None:
            definition = columns.definition_after(timeline, event, effect, before.definition).definition
            state = replace(before, definition=columns.or_keyless(before.definition, definition))
        case ChangeStorage():
            state = TableState(None, is_complete=before.is_complete and not effect.adds_rows)
        case TruncateTable():
            state = replace(before, is_complete=before.is_complete or not is_ignored(timeline, event))
        case DropTable() | DropSchema():
            state = TableState(None, is_complete=not is_ignored(timeline, event))
        case FreeName():
            state = TableState(None, is_complete=True)
        case _:
            return timeline
    return replace(timeline, state=state)
