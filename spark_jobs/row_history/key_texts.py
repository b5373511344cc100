"""The keys of rows as texts: of changes as they were decoded, and as users write them.

A key's text is its values as JSON, in the order of the key's columns, with a comma between two.

Put here: both ways to a key's text. Not here: which changes a key has over time (key_life.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Changes, TableDefinition
from spark_jobs.changes.formats.base import DELETE, INSERT, UPDATE
from spark_jobs.changes.json_encoding import text_of, texts_of_columns
from spark_jobs.errors import ConfigError
from spark_jobs.text.key_values import key_values, require_one_value, typed_value

_SEPARATOR = ", "


@dataclass(frozen=True, slots=True)
class KeyTexts:
    """The keys of changes before and after them, one text a change; null where there is no row."""

    old: pa.Array
    new: pa.Array

    @classmethod
    def of(cls, definition: TableDefinition, changes: Changes) -> Self:
        """definition: of a table with a key. An image that leaves columns of the key out has those of the other one."""
        assert definition.key
        after = texts_of_columns(definition, changes.after, changes.raw, definition.key)
        before = texts_of_columns(definition, changes.before, changes.before_raw, definition.key)
        for at, ordinal in enumerate(definition.key):
            has_after = _presence(changes, "present", ordinal)
            has_before = _presence(changes, "before_present", ordinal)
            if has_after is not None and has_before is not None:
                is_old = pc.and_(pc.invert(has_after), has_before)
                after[at] = pc.if_else(is_old, before[at], after[at])
        row, row_before = _joined_texts(after), _joined_texts(before)
        op = changes.op
        old = pc.if_else(pc.equal(op, UPDATE), row_before, pc.if_else(pc.equal(op, DELETE), row, None))
        return cls(old, pc.if_else(pc.equal(op, DELETE), None, row))

    def is_among(self, keys: Sequence[str]) -> pa.Array:
        """True if the row has one of these keys before the change or after it."""
        values = pa.array(keys, pa.string())
        return pc.or_(pc.is_in(self.old, value_set=values), pc.is_in(self.new, value_set=values))


def _presence(changes: Changes, name: str, ordinal: int) -> pa.Array | None:
    presence = getattr(changes, name)
    return None if presence is None else pa.array(presence.column(ordinal))


def _joined_texts(columns: Sequence[pa.Array]) -> pa.Array:
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, _SEPARATOR)


def key_columns(definition: TableDefinition) -> list[str]:
    """The names of a key's columns, in order; none without a key."""
    names = definition.column_names()
    return [names[at] for at in definition.key or ()]


def require_key(definition: TableDefinition) -> None:
    """Check that a known key identifies the table's rows. Raises ConfigError."""
    if definition.key is None:
        raise ConfigError(
            f"--key: the key of {definition.name} is not known; choose rows by --where, or name a schema dump "
            "(schema_dump:)"
        )
    if not definition.key:
        raise ConfigError(f"--key: {definition.name} has no key; choose rows by --where")


def key_text(definition: TableDefinition, text: str) -> str:
    """The text of a key that a user wrote: ``id=42,line=1``, or the values alone in the key's order.

    Values alone are CSV where the key has several columns. Raises ConfigError where it is no key of the table.
    """
    require_key(definition)
    values = key_values(text, key_columns(definition), str(definition.name))
    return _SEPARATOR.join(
        _value_text(definition, at, value) for at, value in zip(definition.key or (), values, strict=True)
    )


def _value_text(definition: TableDefinition, ordinal: int, text: str) -> str:
    """A value of one column as JSON, written as the feed of changes writes it. Raises ConfigError."""
    column, name = definition.columns[ordinal], definition.column_names()[ordinal]
    kind = column.arrow
    try:
        value = typed_value(text, pa.string() if pa.types.is_dictionary(kind) else kind)
    except ValueError:
        require_one_value(text, key_columns(definition), str(definition.name))
        # A value that no typed column holds, such as a date of zeros, is text in changes.
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return text_of(text)
        raise ConfigError(
            f"--key {text!r}: {name} of {definition.name} is {column.sql_type}, and this is no value of it; bytes are "
            "written in hex"
        ) from None
    one_column = TableDefinition(definition.name, (column,))
    image = pa.RecordBatch.from_arrays([pa.array([value.as_py()], value.type)], [name])
    (texts,) = texts_of_columns(one_column, image, None, (0,))
    return str(texts[0].as_py())


def operation(op: int) -> str:
    """The name of an operation."""
    return {INSERT: "insert", UPDATE: "update", DELETE: "delete"}[op]
