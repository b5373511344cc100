"""Keys that a mend is about: how the server finds their rows, and how the lake does.

Put here: keys in parts of one statement each, and keys that a user gives as text. Not here: reading their rows
(reading.py, mending/mend_table.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.errors import ConfigError
from spark_jobs.pipeline.initial_load.key_ranges import Key
from spark_jobs.silver import table as silver
from spark_jobs.text.key_values import bytes_value, key_values, require_one_value, typed_value
from spark_jobs.text.sql import identifier


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The rows of some keys, as the server finds them: SQL with ``%s`` for parameters.

    It may find more rows than those, since a collation takes several texts for one.
    """

    sql: str
    parameters: tuple[Any, ...] = ()

    def condition(self, key: Key) -> tuple[str, list[Any]]:  # noqa: ARG002 - as a range of the key has it
        return self.sql, list(self.parameters)


@dataclass(frozen=True, slots=True)
class WantedKeys:
    """Keys of one table.

    parts: what the server is asked, a statement each. lake_keys: those keys that the lake may have and the server not,
    with the key's columns and ``_raw``.
    """

    parts: tuple[WantedRows, ...]
    lake_keys: pa.Table


def keys_of_texts(texts: Sequence[str], columns: silver.Columns, fields: pa.Schema, table: str) -> WantedKeys:
    """Keys that a user gives. fields: of silver's columns. Raises ConfigError."""
    keys = [dict(zip(columns.key, key_values(text, columns.key, table), strict=True)) for text in texts]
    # The lake is asked by values of its own types, the server by texts, which it converts.
    cells = {name: [key[name] for key in keys] for name in columns.key}
    arrays = [_typed(name, cells[name], fields.field(name).type, columns.key, table) for name in columns.key]
    raw = pa.nulls(len(texts), fields.field("_raw").type)
    lake_keys = pa.table(
        [*arrays, raw], schema=pa.schema([*(fields.field(name) for name in columns.key), fields.field("_raw")])
    )
    condition = " AND ".join(f"{identifier(name).replace('%', '%%')} = %s" for name in columns.key)
    parts = (
        WantedRows(condition, tuple(_parameter(key[name], fields.field(name).type) for name in columns.key))
        for key in keys
    )
    return WantedKeys(tuple(parts), lake_keys)


def _typed(name: str, texts: Sequence[str], kind: pa.DataType, key: Sequence[str], table: str) -> pa.Array:
    values = []
    for text in texts:
        try:
            values.append(typed_value(text, kind).as_py())
        except ValueError as error:
            require_one_value(text, key, table)
            raise ConfigError({"--key": f"{name}: {text!r} is no value of a column of type {kind}"}) from error
    return pa.array(values, kind)


def _parameter(text: str, kind: pa.DataType) -> Any:
    """Parameter of a query for a value: its text, which the server converts, or its bytes."""
    return bytes_value(text) if pa.types.is_binary(kind) else text
