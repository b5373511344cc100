"""A definition that the log led to beside the one that a server declares.

Put here: what differs, in words. Not here: reading a server's definitions (definitions.py), or when two definitions are
of one place of the log (checks/schema_drift.py).
"""

from collections.abc import Iterator
from dataclasses import replace

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.binlog.types.charsets import charset_of, width_of
from spark_jobs.ddl.definitions import as_logged, is_known
from spark_jobs.ddl.labels import contradicts

_COUNTED = (15, 254)
"""VARCHAR and CHAR: their metadata is a length in bytes."""
_BLOB = 252
_TIMESTAMPS = (7, 17)


def differences(followed: TableDefinition, declared: TableDefinition, by: str = "the server") -> list[str]:
    """How columns and key of a table differ, a sentence each that names the column; none where they are equal.

    What one of the two does not tell (a sign, a character set, labels, the key) is not compared, nor the key of a table
    that is followed without one: a bag stays a bag. Names are equal as the server takes them to be, whatever their
    letters' case. by: who declares the other one.
    """
    declared = as_logged(followed, declared)
    followed = as_logged(declared, followed)
    place = "on the server" if by == "the server" else f"in {by}"
    ours, theirs = (_by_name(one) for one in (followed, declared))
    found = [f"column {name}: {by} does not have it" for name in ours if name not in theirs]
    found += [f"column {name}: only {by} has it" for name in theirs if name not in ours]
    if not found and list(ours) != list(theirs):
        found.append(f"columns stand in the order ({', '.join(ours)}), {place} ({', '.join(theirs)})")
    for name in (name for name in ours if name in theirs):
        found += [f"column {name}: {said}" for said in _between(ours[name], theirs[name], by)]
    if followed.key and declared.key is not None and _key(followed) != _key(declared):
        found.append(f"the key is ({_listed(followed)}), {place} ({_listed(declared) or 'none'})")
    return found


def with_timestamps_of(known: TableDefinition, other: TableDefinition) -> TableDefinition:
    """Whether a bare TIMESTAMP may be NULL no statement tells by itself: explicit_defaults_for_timestamp does."""
    if known.column_names() != other.column_names():
        return known
    pairs = zip(known.columns, other.columns, strict=True)
    columns = (replace(one, nullable=two.nullable) if one.type_code in _TIMESTAMPS else one for one, two in pairs)
    return replace(known, columns=tuple(columns))


def unknown_types(declared: TableDefinition) -> list[str]:
    """The columns of a server's definition whose type this version does not know, and cannot compare."""
    return [str(column.name) for column in declared.columns if not is_known(column)]


def _by_name(definition: TableDefinition) -> dict[str, Column]:
    return {name.casefold(): one for name, one in zip(definition.column_names(), definition.columns, strict=True)}


def _between(ours: Column, theirs: Column, by: str) -> Iterator[str]:
    is_same_sign = None in (ours.unsigned, theirs.unsigned) or ours.unsigned == theirs.unsigned
    is_same_declared = None in (ours.declared, theirs.declared) or ours.declared == theirs.declared
    if not (_is_same_type(ours, theirs) and is_same_sign and is_same_declared):
        yield f"is followed as {_typed(ours)}, and {by} declares {_typed(theirs)}"
    if ours.nullable != theirs.nullable:
        yield f"is followed as {_nullable(ours)}, and {by} declares {_nullable(theirs)}"
    if _is_text(ours) and None not in (ours.charset, theirs.charset) and _charset(ours) != _charset(theirs):
        yield f"is followed in {_charset(ours)}, and {by} declares {_charset(theirs)}"
    are_told = None not in (ours.labels, theirs.labels) and ours.label_bytes is None and theirs.label_bytes is None
    if are_told and ours.labels != theirs.labels:
        yield f"is followed with the labels {ours.labels}, and {by} declares {theirs.labels}"
    if contradicts(theirs, ours):
        yield f"is followed with the labels {ours.labels}, and {by} has the bytes {theirs.label_bytes}"
    if contradicts(ours, theirs):
        yield f"is followed with labels of the bytes {ours.label_bytes}, and {by} declares {theirs.labels}"


def _is_same_type(ours: Column, theirs: Column) -> bool:
    """Type and metadata; a length that a statement gave without a character set counts characters (columns.py)."""
    if ours.type_code != theirs.type_code:
        return False
    if ours.charset is None and theirs.charset is not None and ours.type_code in _COUNTED:
        return theirs.meta in (ours.meta, ours.meta * width_of(charset_of(theirs.charset)))
    if ours.charset is None and ours.type_code == _BLOB:
        return theirs.meta >= ours.meta
    return ours.meta == theirs.meta


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


def _key(definition: TableDefinition) -> set[str]:
    names = definition.column_names()
    return {names[at].casefold() for at in definition.key or ()}


def _listed(definition: TableDefinition) -> str:
    names = definition.column_names()
    return ", ".join(names[at] for at in definition.key or ())
