"""Changes of a statement to a table: it is made, emptied, dropped, altered, or takes another one's place.

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
from spark_jobs.silver.timeline.progress import TimelineProgress
from spark_jobs.silver.timeline.statements import changes_table, operations_of

_LEAVING_KEYS = tuple(kind for kind in LEAVING_ROWS if kind is not DropIndex)
"""Operations that leave every row as it is, and what it is identified by."""


def apply(progress: TimelineProgress, event: LoggedStatement, logged: TableDefinition | None) -> None:
    """Takes the table over a statement. logged: what the log has for the rows after it. Raises TableStopped."""
    if event.position in progress.skips:
        _pass_over(progress, event)
    elif progress.is_early(event):
        _apply_early(progress, event, logged)
    else:
        _apply(progress, event, logged)


def _apply(progress: TimelineProgress, event: LoggedStatement, logged: TableDefinition | None) -> None:
    # Another table's rows come with the name.
    table_effects = progress.read(event)
    rename = _rename_to(progress.name, table_effects)
    if rename:
        filtered_by(progress, event)
        _inherit(progress, event, rename, table_effects, logged)
        return
    # What becomes of the table that has the name.
    if not changes_table(progress, event):  # it was about a table without rows, until others' came into it
        return
    # An ALTER that gives the table another name takes it away from this one.
    effect = progress.own_effects(event, table_effects)[-1]
    rule = filtered_by(progress, event)
    if isinstance(effect, CreateTable):
        _create(progress, event, effect, logged, rule)
    elif progress.state.is_dropped:
        return
    elif rule:
        _leave_out(progress, event, effect, rule)
    elif isinstance(effect, TruncateTable):
        progress.state = replace(progress.state, emptied=event.position, is_complete=True)
        progress.steps.append(SchemaChange(_range_after(event), progress.state, event, empties=True))
    elif isinstance(effect, DropTable | DropSchema | FreeName):
        _drop(progress, event)
    elif isinstance(effect, AlterTable | ChangeIndex) and progress.state.definition is not None:
        columns.alter(progress, event, effect, logged, progress.state.definition)


def _range_after(event: LoggedStatement) -> Range:
    return Range(event.position, event.stop)


def _rename_to(name: TableName, table_effects: Sequence[TableEffect]) -> Rename | None:
    """Effect that gives a table a name, among a statement's effects."""
    return next((effect for effect in table_effects if isinstance(effect, Rename) and effect.table == name), None)


def _pass_over(progress: TimelineProgress, event: LoggedStatement) -> None:
    """The table stays as it is; rows after the statement that have other columns stop it."""
    change = SchemaChange(_range_after(event), progress.state, event, left_out_by=skip_name(event.position))
    progress.steps.append(change)


def _leave_out(progress: TimelineProgress, event: LoggedStatement, effect: TableEffect, rule: str) -> None:
    """The rows stay; of a table that is dropped no definition does."""
    if isinstance(effect, DropTable | DropSchema):
        progress.state = replace(progress.state, definition=None, is_dropped=True, is_kept=True)
    progress.steps.append(SchemaChange(_range_after(event), progress.state, event, left_out_by=rule))


def _drop(progress: TimelineProgress, event: LoggedStatement) -> None:
    before, empties = progress.state, progress.inputs.on_drop_empties
    progress.state = TableState(
        None,
        is_dropped=True,
        emptied=event.position if empties else before.emptied,
        is_complete=before.is_complete or empties,
        was_numbered=before.is_numbered,
    )
    progress.steps.append(SchemaChange(_range_after(event), progress.state, event, empties=empties))


def _create(
    progress: TimelineProgress,
    event: LoggedStatement,
    effect: CreateTable,
    logged: TableDefinition | None,
    rule: str | None,
) -> None:
    before = progress.state
    exists = not before.is_dropped and (not progress.is_new or before.definition is not None)
    if exists and effect.if_missing:
        return
    # The columns: what rows after the statement have, else what it declares.
    declared = _declared(progress, event, effect)
    definition = declared
    if logged and (logged.has_names() or declared):
        definition = definitions.settle(progress, logged, declared, event.stop, is_last=True, is_new=True)
    if progress.is_first():
        progress.state = TableState(definition, is_complete=before.is_complete or not effect.if_missing)
        return
    # A rule keeps the rows that were there; otherwise none of them counts any more.
    if rule or before.is_kept:
        has_definition = definition is not None
        progress.state = replace(before, definition=definition, is_dropped=False, is_kept=not has_definition)
        change = SchemaChange(_range_after(event), progress.state, event, left_out_by=rule, keeps=has_definition)
        progress.steps.append(change)
        return
    progress.state = TableState(definition, emptied=event.position, is_complete=True)
    progress.steps.append(SchemaChange(_range_after(event), progress.state, event, empties=True))


def _declared(progress: TimelineProgress, event: LoggedStatement, effect: CreateTable) -> TableDefinition | None:
    """Declaration of a CREATE; None where its first row tells."""
    try:
        return effect.definition or _like(progress, event, effect.like)
    except DecodeError:
        return None


def _like(progress: TimelineProgress, event: LoggedStatement, model: TableName | None) -> TableDefinition | None:
    """The definition that a table made like another one begins with, where its rows will not tell."""
    logged = progress.rows.definitions if progress.rows else ()
    is_named = bool(logged) and all(definition.has_names() for _, definition in logged)
    if model is None or progress.inputs.contents is None or is_named:
        return None
    try:
        definition = progress.inputs.contents(model, event.position).state.definition
    except TableStopped:
        return None  # what stops that table is its own affair; where names are missing, this one stops for them
    return definition and replace(definition, name=progress.name)


def _inherit(
    progress: TimelineProgress,
    event: LoggedStatement,
    rename: Rename,
    table_effects: Sequence[TableEffect],
    logged: TableDefinition | None,
) -> None:
    """Takes the place of what the name meant: the table that a statement gives it, with all that it holds."""
    # What the other table holds after the statement.
    was = rename.was
    if progress.inputs.contents is None:
        raise progress.refusal(event, "changes the table, which is not applied yet")
    content = progress.inputs.contents(was, event.position)
    if content.state.is_dropped:
        raise progress.refusal(event, f"gives the table the rows of {was}, which the log has dropped before")
    alter = next((effect for effect in table_effects if isinstance(effect, AlterTable) and effect.table == was), None)
    if alter:
        content = _altered(progress, content, event, alter, logged)
    if content.state.retired:
        names = names_of(content.state.retired)
        raise progress.refusal(event, f"gives the table the rows of {was}, which has kept columns ({names}): not done")
    # How the table of this name stands with it.
    definition = content.state.definition and replace(content.state.definition, name=progress.name)
    if logged is not None and content.is_empty:
        definition = definitions.settle(progress, logged, definition, event.stop, is_last=True, is_new=True)
    state = TableState(definition, emptied=event.position, is_complete=content.state.is_complete)
    if content.is_empty and progress.is_first():
        progress.state = replace(state, emptied=None)
        return
    # Its rows take the place of those that the name had.
    progress.state = state
    if not content.is_empty:
        require_no_filters(progress, event, f"gives the table the rows of {was}", was)
    inherited = None if content.is_empty else content
    progress.steps.append(SchemaChange(_range_after(event), state, event, empties=True, inherited=inherited))


def _altered(
    progress: TimelineProgress,
    content: TableContents,
    event: LoggedStatement,
    effect: AlterTable,
    logged: TableDefinition | None,
) -> TableContents:
    """Contents of a table after the other operations of the ALTER that gives it its new name."""
    before = content.state.definition
    operations = [
        operation for operation in operations_of(progress, event, effect) if not isinstance(operation, _LEAVING_KEYS)
    ]
    if not operations or before is None:
        return content
    source = TimelineProgress.begin(progress.scan, content.name, _range_after(event), progress.inputs, content.state)
    source.before = content
    columns.alter(source, event, effect, logged and replace(logged, name=content.name), before)
    return replace(content, steps=[*content.steps, *source.steps], state=source.state)


def _apply_early(progress: TimelineProgress, event: LoggedStatement, logged: TableDefinition | None) -> None:
    """Columns of the table's first rows, as far as statements tell; nothing is refused here.

    But a name that may come with another table's rows: that is not before the first row any more.
    """
    # A statement that cannot be read leaves the columns unknown; only a rename must not be missed.
    try:
        table_effects = progress.read(event)
    except TableStopped:
        if may_rename(event.statement):
            raise
        table_effects = ()
        progress.state = replace(progress.state, definition=None)
    rename = _rename_to(progress.name, table_effects)
    if rename:
        filtered_by(progress, event)
        _inherit(progress, event, rename, table_effects, logged)
        return
    # The last effect on the table decides: nothing was there before it.
    try:
        for effect in progress.own_effects(event, table_effects)[-1:]:
            _follow_early(progress, event, effect)
    except (TableStopped, DecodeError):
        progress.state = replace(progress.state, definition=None)


def _follow_early(progress: TimelineProgress, event: LoggedStatement, effect: TableEffect) -> None:
    """The definition after a statement before the first row. Raises TableStopped, DecodeError."""
    # Statements about other things do not change what the first rows have.
    before = progress.state
    match effect:
        case CreateTable():
            _create(progress, event, effect, None, None)
        case AlterTable() | ChangeIndex() if before.definition is not None:
            definition = columns.move(progress, event, effect, before.definition).definition
            progress.state = replace(before, definition=columns.or_keyless(before.definition, definition))
        case ChangeStorage():
            progress.state = TableState(None, is_complete=before.is_complete and not effect.adds_rows)
        case TruncateTable():
            is_complete = before.is_complete or not is_ignored(progress, event)
            progress.state = replace(before, is_complete=is_complete)
        case DropTable() | DropSchema():
            progress.state = TableState(None, is_complete=not is_ignored(progress, event))
        case FreeName():
            progress.state = TableState(None, is_complete=True)
        case _:
            pass
