"""Keys as lists of texts: how a row of silver names the key that it had before (``_moved_from``).

Put here: keys to texts and back. Not here: which rows name one (net_changes.py), or what such rows are completed from
(moved_rows.py).

A list has a text for each column of the key, in the order of the key: behind ``v`` the value's text, bytes as hex,
behind ``x`` the exact text of a value that no column holds. It has no names, so that renamed columns change nothing.
An empty list names no key: the row's INSERT is not known, since a rule filtered it or its event is in quarantine.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

RAW = "_raw"
_RAW_TYPE = pa.map_(pa.string(), pa.string())
TEXTS = pa.list_(pa.string())
_VALUE, _EXACT = "v", "x"


def keys_to_texts(rows: pa.Table, key: Sequence[str]) -> pa.Array:
    """The keys of rows as lists of texts. rows: with the key's columns and RAW."""
    exact = [dict(texts or ()) for texts in rows.column(RAW).to_pylist()]
    by_column = []
    for name in key:
        texts = _key_texts(rows.column(name).combine_chunks()).to_pylist()
        by_column.append(
            [
                _VALUE + text if text is not None else _EXACT + row_texts.get(name, "")
                for text, row_texts in zip(texts, exact, strict=True)
            ]
        )
    return pa.array([list(cells) for cells in zip(*by_column, strict=True)], TEXTS)


def with_unknown_inserts(named: pa.ChunkedArray, is_unknown: NDArray[np.bool_]) -> pa.ChunkedArray:
    """The old keys of rows as lists of texts, with empty lists for those of rows that have none and are marked."""
    is_empty = pc.and_(pc.is_null(named), pa.array(is_unknown))
    return pc.if_else(is_empty, pa.scalar([], TEXTS), named)


def has_unknown_insert(named: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """Mask of the rows whose list of texts is empty."""
    is_empty = pc.fill_null(pc.equal(pc.list_value_length(named), 0), False)
    return np.asarray(is_empty.to_numpy(zero_copy_only=False) if isinstance(is_empty, pa.Array) else is_empty, np.bool_)


def keys_from_texts(
    keys: pa.Array | pa.ChunkedArray, key: Sequence[str], schema: pa.Schema
) -> tuple[pa.Table, pa.Array]:
    """The keys of lists of texts as rows with the key's columns and RAW, and which of the lists they are, by number.

    schema: with the key's columns. A list that is not of such a key is left out: a statement changed the key since.
    """
    numbers, by_column = list[int](), [list[str | None]() for _ in key]
    all_exact: list[list[tuple[str, str]] | None] = []
    for number, texts in enumerate(keys.to_pylist()):
        if texts is None or len(texts) != len(key):
            continue
        numbers.append(number)
        pairs = [(name, text[1:]) for name, text in zip(key, texts, strict=True) if text.startswith(_EXACT)]
        all_exact.append(pairs or None)
        for column, text in zip(by_column, texts, strict=True):
            column.append(text[1:] if text.startswith(_VALUE) else None)
    # Texts that are no values of the columns' types are of an earlier key too.
    kinds = [schema.field(name).type for name in key]
    try:
        columns = [_key_values(texts, kind) for texts, kind in zip(by_column, kinds, strict=True)]
    except (pa.ArrowInvalid, ValueError):
        numbers, all_exact = [], []
        columns = [pa.nulls(0, kind) for kind in kinds]
    return pa.table([*columns, pa.array(all_exact, _RAW_TYPE)], [*key, RAW]), pa.array(numbers, pa.int64())


def _key_texts(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_binary(values.type):
        return pa.array([None if value is None else value.hex() for value in values.to_pylist()], pa.string())
    return pc.cast(values, pa.string())


def _key_values(texts: Sequence[str | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_binary(kind):
        return pa.array([None if text is None else bytes.fromhex(text) for text in texts], kind)
    return pa.array(texts, pa.string()).cast(kind)
