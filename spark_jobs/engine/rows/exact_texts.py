"""Exact texts of rows (``_raw``) after a statement that drops, renames or adds columns, and what rows lack.

Put here: what a step of silver/schema_evolution.py does to them, and rows with it done. Not here: which files are
written again for it (engine/silver/silver_job.py), or what an exact text is (silver/table.py).

``_raw`` maps names of columns to texts that the columns' types cannot hold. Its keys follow the columns' names, and
rows that were there get a text in a new column where its default is one that only a text holds. ``_absent`` lists names
of columns that a row has no value of; they follow the columns' names too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.silver.row_overlay import with_names
from spark_jobs.silver.schema_evolution import OF_ABSENT, OF_EXACT, WITH_EXACT
from spark_jobs.text.sql import LITERAL, text_of_literal

_RAW = "_raw"


@dataclass(frozen=True, slots=True)
class ExactTextChange:
    """Effect of one step on exact texts: new names by old ones (None: the column went), and texts of new columns.

    absent: new names by old ones of columns that rows lack.
    """

    names: Mapping[str, str | None] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_of_all_rows(self) -> bool:
        """True if rows without an exact text get one."""
        return bool(self.texts)


def change_of(step: str) -> ExactTextChange | None:
    """The change that a step's text stands for: the inverse of ``schema_evolution.steps``; None of other steps."""
    if step.endswith(OF_EXACT):
        return ExactTextChange(_new_names(step))
    if step.startswith(OF_ABSENT):
        return ExactTextChange(absent=_new_names(step))
    if step.startswith(WITH_EXACT):
        literals = [text for _, text in _literals(step)]
        return ExactTextChange(texts=dict(zip(literals[::2], literals[1::2], strict=True)))
    return None


def _new_names(step: str) -> dict[str, str | None]:
    """New names by old ones of a step that ``raw_sql`` or ``absent_sql`` of silver/table.py wrote."""
    names: dict[str, str | None] = {}
    old = ""
    for code, text in _literals(step):
        if code.endswith("WHEN "):
            old = text
        elif code.endswith("THEN "):
            names[old] = text
        else:
            names[text] = None
    return names


def _literals(sql: str) -> Iterator[tuple[str, str]]:
    """The texts of string literals in a statement, each with the code before it."""
    pieces = re.split(f"({LITERAL})", sql)
    yield from ((code, text_of_literal(text)) for code, text in zip(pieces[::2], pieces[1::2], strict=False))


def with_text_changes(rows: pa.Table, changes: Sequence[ExactTextChange]) -> pa.Table:
    """Rows with their exact texts after changes, one after the other, and with the names of columns that they lack."""
    for change in changes:
        rows = with_names(rows, change.absent)
    if not any(change.names or change.texts for change in changes):
        return rows
    raw = rows.column(_RAW).combine_chunks()
    kind = raw.type
    for change in changes:
        raw = _with_texts(_renamed(raw, change.names), change.texts)
    return rows.set_column(rows.schema.get_field_index(_RAW), _RAW, raw.cast(kind))


def _entries(raw: pa.MapArray) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
    """Row, key and text of each entry."""
    keys, texts = (pa.ListArray.from_arrays(raw.offsets, values) for values in (raw.keys, raw.items))
    return pc.list_parent_indices(keys).to_numpy(), pc.list_flatten(keys), pc.list_flatten(texts)


def _renamed(raw: pa.MapArray, names: Mapping[str, str | None]) -> pa.MapArray:
    """Maps with other keys; NULL where no entry is left of one that had some."""
    if not names:
        return raw
    rows, keys, texts = _entries(raw)
    dropped = [old for old, new in names.items() if new is None]
    is_kept = pc.invert(pc.is_in(keys, pa.array(dropped, pa.string())))
    rows, keys, texts = rows[is_kept.to_numpy(zero_copy_only=False)], keys.filter(is_kept), texts.filter(is_kept)
    moved = [(old, new) for old, new in names.items() if new is not None]
    at = pc.index_in(keys, pa.array([old for old, _ in moved], pa.string()))
    keys = pc.coalesce(pa.array([new for _, new in moved], pa.string()).take(at), keys)
    is_null = pc.is_null(raw).to_numpy(zero_copy_only=False)
    counts = np.bincount(rows, minlength=len(raw))
    return _maps(counts, keys, texts, is_null | (counts == 0) if dropped else is_null)


def _with_texts(raw: pa.MapArray, texts: Mapping[str, str]) -> pa.MapArray:
    """Maps with more entries, the same in each row."""
    if not texts:
        return raw
    rows, keys, present = _entries(raw)
    added = np.tile(np.arange(len(raw)), len(texts))
    all_rows = np.concatenate([rows, added])
    order = pa.array(np.argsort(all_rows, kind="stable"))
    all_keys = pa.concat_arrays([keys, *(pa.repeat(pa.scalar(name), len(raw)) for name in texts)])
    all_texts = pa.concat_arrays([present, *(pa.repeat(pa.scalar(text), len(raw)) for text in texts.values())])
    counts = np.bincount(all_rows, minlength=len(raw))
    return _maps(counts, all_keys.take(order), all_texts.take(order), np.zeros(len(raw), np.bool_))


def _maps(counts: NDArray[np.int64], keys: pa.Array, texts: pa.Array, is_null: NDArray[np.bool_]) -> pa.MapArray:
    """Maps of entries that follow each other. counts: entries of each row."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    # Offsets that are NULL make the map that begins there NULL.
    starts = pa.array(offsets, mask=np.append(is_null, False))
    return pa.MapArray.from_arrays(starts, keys, texts)
