"""ALTER TABLE on a table that has rows: the origin of each column, which ones restart, and whether the key stays.

Put here: what one ALTER makes of the table's columns and rows. Not here: which statement it is (changes.py), the
definition that it leads to (ddl/alter.py).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.binlog.types.charsets import charset_of
from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.ddl import session_time
from spark_jobs.ddl.alter import AlteredDefinition, altered_definition
from spark_jobs.ddl.columns import DeclaredColumn, column_in_charset
from spark_jobs.ddl.definitions import as_mariadb_logs, column_list
from spark_jobs.ddl.effects import AlterTable, ChangeIndex
from spark_jobs.ddl.operations import LEAVING_ROWS, Add
from spark_jobs.ddl.widening import keeps_values
from spark_jobs.errors import DecodeError
from spark_jobs.log.position import Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.retired_columns import RetiredColumn, name_of, names_of, renamed_through, types_of
from spark_jobs.silver.table_timeline import SchemaChange, TableContents
from spark_jobs.silver.timeline import definitions
from spark_jobs.silver.timeline.filtering import require_no_filters
from spark_jobs.silver.timeline.statements import leaves_rows, operations_of
from spark_jobs.silver.timeline.timeline import Timeline

Alter = AlterTable | ChangeIndex


def alter(
    timeline: Timeline,
    event: LoggedStatement,
    effect: Alter,
    logged: TableDefinition | None,
    before: TableDefinition,
) -> Timeline:
    """The timeline with a change of columns or key. logged: the log's definition of the rows after it.

    Raises TableStopped.
    """
    if before.numbered and not _adds_alone(timeline, event, effect):
        return timeline
    # What the statement leads to, and whether the rows after it agree.
    try:
        altered = definition_after(timeline, event, effect, before)
    except DecodeError as error:
        raise timeline.refusal(event, f"changes the table, which is not applied: {error}") from error
    before, altered = _as_logged(timeline, event, before, altered)
    after = or_keyless(before, altered.definition)
    if logged is not None:
        after = or_keyless(
            before, definitions.complete_definition(timeline, logged, altered.definition, event.stop, is_last=True)
        )
        if lake_columns(after) != lake_columns(altered.definition):
            raise timeline.refusal(
                event,
                f"leads to ({column_list(altered.definition)}), but the rows after it have ({column_list(after)})",
            )
    elif definitions.is_kept_keyless(timeline, event.stop):
        after = replace(after, key=(), index=None)
    after = _with_key_order(before, after, altered.origins)
    # Indexes alone change no step.
    is_key_kept = _keeps_key(before, after, altered.origins)
    if is_key_kept and leaves_rows(timeline, event):
        return timeline.with_definition(replace(before, index=after.index))
    # Columns, and all rows again where the key changes.
    change = _column_change(timeline, event, before, after, altered)
    if not is_key_kept and change.state.retired:
        names = names_of(change.state.retired)
        raise timeline.refusal(event, f"changes the key of a table with retired columns ({names}): not supported")
    if not is_key_kept:
        change = _rekeyed(timeline, event, change)
    return timeline.with_change(change)


def definition_after(
    timeline: Timeline, event: LoggedStatement, effect: Alter, before: TableDefinition
) -> AlteredDefinition:
    """The definition after the operations of a statement. Raises TableStopped, Unsupported."""
    moment = session_time.with_zone(event.session.moment, timeline.inputs.system_zone)
    return altered_definition(before, operations_of(timeline, event, effect), moment)


def _as_logged(
    timeline: Timeline, event: LoggedStatement, before: TableDefinition, altered: AlteredDefinition
) -> tuple[TableDefinition, AlteredDefinition]:
    """The definitions before and after a statement as the log of its server has them, also where no rows say so.

    A VECTOR of MariaDB that is bytes in the lake stays that. A character set that the statement leaves to the table's
    default is the earlier one where the next rows have that, whichever statements are before them.
    """
    definition = altered.definition
    if event.session.is_mariadb:
        before, definition = as_mariadb_logs(before), as_mariadb_logs(definition)
    following = {} if timeline.next_rows is None else {c.name: c.charset for c in timeline.next_rows.columns}
    columns = list(definition.columns)
    for at, origin in enumerate(altered.origins):
        old, new = None if origin is None else before.columns[origin], columns[at]
        if old and old.declared is None and new.type_code != altered.definition.columns[at].type_code:
            columns[at] = replace(new, declared=None)
        if old and old.charset is not None and new.charset is None and following.get(new.name) == old.charset:
            columns[at] = replace(column_in_charset(new, charset_of(old.charset)), charset=old.charset)
    return before, replace(altered, definition=replace(definition, columns=tuple(columns)))


def or_keyless(before: TableDefinition, after: TableDefinition) -> TableDefinition:
    """A definition of which a key may not be known any more: all columns together tell rows apart in any case."""
    return replace(after, key=(), index=None) if after.key is None and before.key is not None else after


def lake_columns(definition: TableDefinition) -> list[tuple[str, str]]:
    """Names and types in the lake: what a statement and the rows after it must agree on."""
    return [
        (name.casefold(), silver.spark_type(str(column.arrow)))
        for name, column in zip(definition.column_names(), definition.columns, strict=True)
    ]


def _column_change(
    timeline: Timeline,
    event: LoggedStatement,
    before: TableDefinition,
    after: TableDefinition,
    altered: AlteredDefinition,
) -> SchemaChange:
    """The schema change of a statement that changes columns, with the origin of each. Raises TableStopped."""
    # Which column each one comes from, and which are kept aside.
    restarted = _restarted(timeline, event, before, after, altered)
    names, old = after.column_names(), before.column_names()
    sources = {name: None if at is None else old[at] for name, at in zip(names, altered.origins, strict=True)}
    retired = {names[at]: before.columns[origin] for at, origin in restarted.items()}
    retired_columns = _retired(timeline, event, sources, retired)
    origins: dict[str, str | None] = {name: None if at in restarted else sources[name] for at, name in enumerate(names)}
    origins |= {
        column.name: str(sources[str(column.of)]) if column.at == event.position else column.name
        for column in retired_columns
    }
    # What rows that are there have in new ones.
    fills = {
        names[at]: altered.fills[str(column.name)]
        for at, column in enumerate(altered.definition.columns)
        if column.name in altered.fills
    }
    state = replace(timeline.state, definition=after, retired=retired_columns)
    change = SchemaChange(Range(event.position, event.stop), state, event, origins=origins, fills=fills)
    # The message about columns that restart.
    if not restarted:
        return change
    columns = ", ".join(
        f"{names[at]} (as it was: {column.name})"
        for at, column in zip(restarted, retired_columns[-len(restarted) :], strict=True)
    )
    return replace(
        change,
        restart_reason=f"{columns}; it was ({column_list(before)}) and is ({column_list(after)})",
    )


def _retired(
    timeline: Timeline, event: LoggedStatement, sources: Mapping[str, str | None], retired: Mapping[str, Column]
) -> tuple[RetiredColumn, ...]:
    """The columns that are kept after a statement.

    Args:
        timeline: the table before the statement.
        event: the statement.
        sources: from which column each one comes, by name.
        retired: those of them that restart, with their earlier columns.
    """
    # Retired columns of before continue under their own names, which no new column may take.
    successors = {old: new for new, old in sources.items() if old is not None}
    retired_columns = renamed_through(timeline.state.retired, successors)
    used_names = {name.casefold() for name in (*sources, *successors, *types_of(retired_columns))}
    names = {name.casefold() for name in sources}
    clash = next((column for column in retired_columns if column.name.casefold() in names), None)
    if clash:
        raise timeline.refusal(event, f"gives a column the name {clash.name}, under which the lake keeps another one")
    # Each gets a name that has the position of its statement, so that it is the same in every replay.
    return retired_columns + tuple(
        RetiredColumn(
            name_of(str(sources[new]), event.position, used_names),
            silver.spark_type(str(was.arrow)),
            new,
            event.position,
        )
        for new, was in retired.items()
    )


def _adds_alone(timeline: Timeline, event: LoggedStatement, effect: Alter) -> bool:
    """True if a statement adds columns to numbered ones; otherwise it leaves the table as it is.

    A column added is another one than all that are there; IF NOT EXISTS asks for one that may be. Raises
    TableStopped for a statement about columns by names that only the server knows.
    """
    operations = [
        operation for operation in operations_of(timeline, event, effect) if not isinstance(operation, LEAVING_ROWS)
    ]
    if all(isinstance(operation, Add) and not operation.if_missing for operation in operations):
        return bool(operations)
    raise timeline.refusal(
        event,
        "is about columns or keys by name, and nothing names the columns that the table had before it "
        "(on_unnamed: number); its rows up to there are in the lake. Name a schema dump of before it (schema_dump: "
        f"of a source of files) and rebuild the table (stratalog reset --source SOURCE --table {timeline.name}), or "
        "start after it in a separate pipeline (start:) and load it",
    )


def _rekeyed(timeline: Timeline, event: LoggedStatement, change: SchemaChange) -> SchemaChange:
    """The schema change of a statement that changes the key: the table inherits all of its own rows.

    The rows before are net by the old key, those after it by the new one: no fold over both is right.
    """
    content = _contents_before(timeline, event)
    if content is not None and not content.is_empty:
        require_no_filters(timeline, event, "changes what the table's rows are identified by", content.name)
    inherited = None if content is None or content.is_empty else content
    return replace(change, state=replace(change.state, emptied=event.position), empties=True, inherited=inherited)


def _contents_before(timeline: Timeline, event: LoggedStatement) -> TableContents | None:
    """Contents of the table before a statement; None where that counts no more, and is not asked for."""
    inputs = timeline.inputs
    if timeline.before is not None:
        return timeline.before
    if inputs.replay is None:
        base = inputs.base()
        content = timeline.contents(base)
        return replace(content, size=content.size + sum(base.table.file_sizes())) if base else content
    is_last = inputs.replay.emptied == event.position
    return inputs.contents(timeline.name, event.position) if is_last and inputs.contents else None


def _restarted(
    timeline: Timeline,
    event: LoggedStatement,
    before: TableDefinition,
    after: TableDefinition,
    altered: AlteredDefinition,
) -> dict[int, int]:
    """The columns that restart at a statement, and their earlier columns: by ordinal.

    Raises TableStopped for one whose values may be others after it, where none does, or this one cannot.
    """
    restarted = {}
    for at, origin in enumerate(altered.origins):
        if origin is None:
            _require_null_fill(timeline, event, after.columns[at], altered)
            continue
        # Why the server may have other values now, by the definitions or by what the statement says.
        _require_same_hashes(timeline, event, before.columns[origin], after.columns[at])
        reason = (
            _values_may_change(event, before, after, origin, at)
            or _text_may_change(timeline, event, before.columns[origin], after.columns[at])
            or _numbers_rows(timeline, event, before.columns[origin], altered.declared[at])
            or _changes_copied_rows(event, before, after, altered, at)
        )
        if reason is None:
            continue
        # The table stops, or the column restarts.
        if not timeline.inputs.begins_anew:
            raise timeline.refusal(event, reason)
        why_not = timeline.inputs.why_not or _why_not_restarted(before, after, origin, at)
        if why_not:
            raise timeline.refusal(event, f"{reason}; no new column begins, because {why_not}")
        restarted[at] = origin
    return restarted


def _require_null_fill(timeline: Timeline, event: LoggedStatement, column: Column, altered: AlteredDefinition) -> None:
    """Check that existing rows have NULL in a new column. Raises TableStopped."""
    declared = next(declared for declared in altered.definition.columns if declared.name == column.name)
    is_certain = declared is not column or event.session.explicit_timestamps or column.name not in altered.is_open
    has_fill = column.name in altered.fills  # which older rows have whether or not NULL is a value too
    if (declared.nullable != column.nullable and not has_fill) or not is_certain:
        raise timeline.refusal(
            event,
            f"does not say what rows written before column {column.name} have in it: that depends on the server's "
            "explicit_defaults_for_timestamp; add it with NULL or NOT NULL and a DEFAULT",
        )


def _require_same_hashes(timeline: Timeline, event: LoggedStatement, old: Column, new: Column) -> None:
    """Check that a rule hashes the same number to the same text after a statement. Raises TableStopped."""
    rule = timeline.inputs.filters.of(timeline.name.schema, timeline.name.table).columns
    mask = rule.mask(str(new.name)) if rule else None
    if rule and mask and mask.kind == "hash" and _scale(old) != _scale(new):
        raise timeline.refusal(
            event,
            f"gives column {new.name} other decimals, and its values are hashed as text (columns.{rule.name}): the "
            f"same number would have another hash than before it",
        )


def _scale(column: Column) -> int:
    return column.meta & 255 if column.type_code == _DECIMAL else 0


_DECIMAL = 246


def _values_may_change(
    event: LoggedStatement, before: TableDefinition, after: TableDefinition, origin: int, at: int
) -> str | None:
    """Reason why a column's values may be others after a statement; None where they are not."""
    old, new = before.columns[origin], after.columns[at]
    if old.nullable and not new.nullable and not event.session.is_strict:
        return f"may have changed NULL in column {new.name}: its session was not strict"
    if keeps_values(old, new):
        return None
    known_definitions = f"the table was ({column_list(before)}) and is ({column_list(after)})"
    return f"does not keep every value of column {new.name}: {known_definitions}"


def _text_may_change(timeline: Timeline, event: LoggedStatement, old: Column, new: Column) -> str | None:
    """Reason why a column's text may be another after a statement that leaves its character set open; None without.

    Raises TableStopped where the table's next row will tell that.
    """
    if old.charset is None or new.charset is not None or event.session.is_strict:
        return None
    if timeline.next_rows is None:  # no column ends for what its next row may tell
        raise timeline.refusal(
            event,
            f"may change text of column {new.name}: its session was not strict, and the character set that the column "
            "has after it is not known before the table's next row",
        )
    return f"may have changed text of column {new.name}: its session was not strict"


def _numbers_rows(
    timeline: Timeline, event: LoggedStatement, old: Column, declared: DeclaredColumn | None
) -> str | None:
    """Reason why a statement may give rows numbers in a column that counts from it on; None where it gives none.

    A copied row that has NULL in it, or 0, gets the next number, as one that is inserted; a column that counted before
    keeps its zeros (sql/sql_table.cc, ``copy_data_between_tables``). What a column did before is not in a TABLE_MAP,
    and then it is taken for one that counted: that of a statement that makes its numbers longer.
    """
    if declared is None or not declared.is_counter:
        return None
    name, numbers = declared.column.name, "it counts by itself from here on, and its numbers are not in the log"
    if old.nullable:
        return f"may have changed NULL in column {name}: {numbers}"
    if old.default is None or event.session.keeps_zeros:
        return None
    content = _contents_before(timeline, event)
    has_rows = content is not None and not content.is_empty
    return f"may have changed 0 in column {name}: {numbers}" if has_rows else None


def _changes_copied_rows(
    event: LoggedStatement, before: TableDefinition, after: TableDefinition, altered: AlteredDefinition, at: int
) -> str | None:
    """Reason why a server may change values of a column when it copies the table, in strict sessions too; None without.

    A TIMESTAMP that was NULL gets the time of the statement (sql/field_conv.cc, ``do_copy_timestamp``), where MySQL
    refuses NULL if it changes the table in place; MariaDB never does. FLOAT and DOUBLE are rounded to declared digits.
    """
    origin, new, declared = altered.origins[at], after.columns[at], altered.declared[at]
    if origin is None or declared is None:
        return None
    old, is_copied = before.columns[origin], _copies_rows(event, before, after, altered)
    loses_null = old.type_code in _TIMESTAMPS and old.nullable and not new.nullable
    if loses_null and (is_copied or event.session.is_mariadb is not False):
        return f"may have changed NULL in column {new.name}: in a TIMESTAMP it becomes the time of the statement"
    if declared.measure and is_copied:
        return f"may have changed numbers of column {new.name}: it is rounded to {declared.measure[1]} digits"
    return None


def _copies_rows(
    event: LoggedStatement, before: TableDefinition, after: TableDefinition, altered: AlteredDefinition
) -> bool:
    """True if a server copies the table for a statement, or may: a type changes, or a clause asks for it."""
    pairs = ((before.columns[o], after.columns[at]) for at, o in enumerate(altered.origins) if o is not None)
    return bool(_COPYING.search(event.statement.plain)) or any(
        (old.type_code, old.meta) != (new.type_code, new.meta) for old, new in pairs
    )


_TIMESTAMPS = (7, 17)
_COPYING = re.compile(r"\b(COPY|ENGINE|PARTITION|ORDER|CONVERT)\b", re.IGNORECASE)


def _why_not_restarted(before: TableDefinition, after: TableDefinition, origin: int, at: int) -> str | None:
    """Reason why a column cannot restart; None where it can."""
    if not before.key or not after.key:
        return "the table has no key, and all columns together tell its rows apart"
    return "rows are identified by it" if origin in before.key or at in after.key else None


def _keeps_key(before: TableDefinition, after: TableDefinition, origins: Sequence[int | None]) -> bool:
    """True if rows are identified by the same columns after a statement, as far as is known."""
    if before.key is None or after.key is None:
        return True
    return {origins[at] for at in after.key} == set(before.key)


def _with_key_order(before: TableDefinition, after: TableDefinition, origins: Sequence[int | None]) -> TableDefinition:
    """The definition with the columns of a key that stays in their earlier order, in which rows name keys of theirs."""
    if not before.key or not after.key or not _keeps_key(before, after, origins):
        return after
    return replace(after, key=tuple(origins.index(at) for at in before.key))
