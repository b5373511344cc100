"""A key as users write it: ``COLUMN=VALUE,…``, or the values alone in the key's order.

Put here: the texts of a key's values, and values of a column's type. Not here: what is looked for by them: texts of the
log (row_history/key_texts.py), rows of a server (pipeline/initial_load/wanted_keys.py), of the lake (pipeline/as_of/).
"""

import csv
import re
from collections.abc import Sequence

import pyarrow as pa

from spark_jobs.errors import ConfigError
from spark_jobs.text.counts import counted


def key_values(text: str, columns: Sequence[str], table: str) -> list[str]:
    """The value of each column of a key, in the key's order.

    Values alone are CSV where the key has several columns; what does not name the columns of the key is a value.

    Args:
        text: as the user writes it.
        columns: the key's.
        table: its name, for messages.

    Raises:
        ConfigError: for too few or too many values.
    """
    by_column = _values_by_column(text, columns)
    if by_column is not None and by_column.keys() == {*columns}:
        return [by_column[name] for name in columns]
    values = [text] if len(columns) == 1 else _csv_values(text)
    if len(values) != len(columns):
        raise _wrong_count(text, len(values), columns, table)
    return values


def require_one_value(text: str, columns: Sequence[str], table: str) -> None:
    """Check that a text that is no value of a key's only column is not several values. Raises ConfigError.

    It is asked of no other text: a value of one column may have commas.
    """
    count = len(_csv_values(text))
    if len(columns) == 1 and count > 1:
        raise _wrong_count(text, count, columns, table)


def _csv_values(text: str) -> list[str]:
    return next(csv.reader([text], skipinitialspace=True), [])


def _wrong_count(text: str, count: int, columns: Sequence[str], table: str) -> ConfigError:
    return ConfigError(
        f"--key {text!r}: the key of {table} has {counted(len(columns), 'column')} ({', '.join(columns)}), and this "
        f"has {counted(count, 'value')}; write it like {','.join(f'{name}=…' for name in columns)}"
    )


def _values_by_column(text: str, columns: Sequence[str]) -> dict[str, str] | None:
    """The value of each column; None where a part of the text is not ``COLUMN=VALUE``.

    A value may have commas: it ends where a column of the key follows one.
    """
    names = "|".join(map(re.escape, columns))
    pairs = [part.partition("=") for part in re.split(rf",(?=\s*(?:{names})\s*=)", text)]
    if not all(name.strip() and separator for name, separator, _ in pairs):
        return None
    return {name.strip(): value for name, _, value in pairs}


def typed_value(text: str, kind: pa.DataType) -> pa.Scalar:
    """A value of a type by its text; bytes are written in hex. Raises ValueError where it is none."""
    if pa.types.is_binary(kind):
        return pa.scalar(bytes_value(text), kind)
    try:
        value: pa.Scalar = pa.scalar(text).cast(kind)
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError(str(error)) from error
    return value


def bytes_value(text: str) -> bytes:
    """Bytes by their hex digits, which may follow ``0x``. Raises ValueError."""
    return bytes.fromhex(text.removeprefix("0x"))
