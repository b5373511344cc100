"""Difference between a definition by the log and the one that a server declares.

Put here: what differs, in words. Not here: reading a server's definitions (definitions.py), or when two definitions are
of one position of the log (checks/schema_drift.py).
"""

from collections.abc import Iterator
from dataclasses import replace

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.binlog.types.charsets import charset_of, width_of
from spark_jobs.ddl.definitions import as_logged, is_known
from spark_jobs.ddl.labels import labels_contradict
from spark_jobs.text.counts import counted

_COUNTED = (15, 254)
"""VARCHAR and CHAR: their metadata is a length in bytes."""
_BLOB = 252
_TIMESTAMPS = (7, 17)


def differences(followed: TableDefinition, declared: TableDefinition, by: str = "the server") -> list[str]:
    """Differences of a table's columns and key, a sentence each that names the column; none where they are equal.

    What one of the two does not tell (a sign, a character set, labels, the key) is not compared, nor the key of a table
    that is followed without one: a keyless table stays a keyless table. Names are equal as the server takes them to be,
    whatever their letters' case. by: who declares the other one.
    """
    declared = as_logged(followed, declared)
    followed = as_logged(declared, followed)
    path = "on the server" if by == "the server" else f"in {by}"
    first, second = (_by_name(definition) for definition in (followed, declared))
    lines = [f"column {name}: {by} does not have it" for name in first if name not in second]
    lines += [f"column {name}: only {by} has it" for name in second if name not in first]
    if not lines and list(first) != list(second):
        lines.append(f"columns stand in the order ({', '.join(first)}), {path} ({', '.join(second)})")
    counts = [len(definition.columns) for definition in (followed, declared)]
    if not lines and counts[0] != counts[1]:  # a column that an earlier version followed twice
        lines.append(f"it is followed with {counted(counts[0], 'column')}, and {by} declares {counts[1]}")
    for name in (name for name in first if name in second):
        lines += [f"column {name}: {difference}" for difference in _between(first[name], second[name], by)]
    if followed.key and declared.key is not None and _key_names(followed) != _key_names(declared):
        lines.append(f"the key is ({_key_text(followed)}), {path} ({_key_text(declared) or 'none'})")
    return lines


def with_timestamps_of(definition: TableDefinition, source: TableDefinition) -> TableDefinition:
    """True if a bare TIMESTAMP may be NULL no statement tells by itself: explicit_defaults_for_timestamp does."""
    if definition.column_names() != source.column_names():
        return definition
    pairs = zip(definition.columns, source.columns, strict=True)
    columns = (
        replace(column, nullable=two.nullable) if column.type_code in _TIMESTAMPS else column for column, two in pairs
    )
    return replace(definition, columns=tuple(columns))


def unknown_types(declared: TableDefinition) -> list[str]:
    """The columns of a server's definition whose type this version does not know, and cannot compare."""
    return [str(column.name) for column in declared.columns if not is_known(column)]


def _by_name(definition: TableDefinition) -> dict[str, Column]:
    return {name.casefold(): column for name, column in zip(definition.column_names(), definition.columns, strict=True)}


def _between(first: Column, second: Column, by: str) -> Iterator[str]:
    is_same_sign = None in (first.unsigned, second.unsigned) or first.unsigned == second.unsigned
    is_same_declared = None in (first.declared, second.declared) or first.declared == second.declared
    if not (_is_same_type(first, second) and is_same_sign and is_same_declared):
        yield f"is followed as {_typed(first)}, and {by} declares {_typed(second)}"
    if first.nullable != second.nullable:
        yield f"is followed as {_nullable(first)}, and {by} declares {_nullable(second)}"
    if _is_text(first) and None not in (first.charset, second.charset) and _charset(first) != _charset(second):
        yield f"is followed in {_charset(first)}, and {by} declares {_charset(second)}"
    are_named = None not in (first.labels, second.labels) and first.label_bytes is None and second.label_bytes is None
    if are_named and first.labels != second.labels:
        yield f"is followed with the labels {first.labels}, and {by} declares {second.labels}"
    if labels_contradict(second, first):
        yield f"is followed with the labels {first.labels}, and {by} has the bytes {second.label_bytes}"
    if labels_contradict(first, second):
        yield f"is followed with labels of the bytes {first.label_bytes}, and {by} declares {second.labels}"


def _is_same_type(first: Column, second: Column) -> bool:
    """Type and metadata; a length that a statement gave without a character set counts characters (columns.py)."""
    if first.type_code != second.type_code:
        return False
    if first.charset is None and second.charset is not None and first.type_code in _COUNTED:
        return second.meta in (first.meta, first.meta * width_of(charset_of(second.charset)))
    if first.charset is None and first.type_code == _BLOB:
        return second.meta >= first.meta
    return first.meta == second.meta


def _is_text(column: Column) -> bool:
    return column.type.is_character or column.type.has_labels


def _typed(column: Column) -> str:
    """Type and bytes: two types that print alike may be of different lengths in the log."""
    return f"{column.sql_type} (type {column.type_code}, {column.meta})"


def _nullable(column: Column) -> str:
    return "NULL" if column.nullable else "NOT NULL"


def _charset(column: Column) -> str:
    assert column.charset is not None
    return str(charset_of(column.charset))


def _key_names(definition: TableDefinition) -> set[str]:
    names = definition.column_names()
    return {names[at].casefold() for at in definition.key or ()}


def _key_text(definition: TableDefinition) -> str:
    names = definition.column_names()
    return ", ".join(names[at] for at in definition.key or ())
