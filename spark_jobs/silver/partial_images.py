"""Partial row images, completed as far as their own events allow.

What an update's row leaves out and its before image holds is unchanged (MariaDB's FULL_NODUP, tables without a key, the
key itself in MINIMAL). What is left out of an INSERT is the column's default. The rest is **absent**: unchanged since
the key's change before, which is for whoever has that to say (row_overlay.py). What the image of
a deleted row leaves out is absent too: its row had it.

Source: MySQL sql/binlog.cc (``binlog_prepare_row_images``), MariaDB sql/table.cc
(``mark_columns_per_binlog_row_image``).
Two things MariaDB leaves out that did change, and here they are refused: generated columns, from 11.8 on in all
updates; and what a REPLACE that overwrites a row sets to defaults, in MINIMAL and NOBLOB. Of the latter it can be told
that such an image holds the key, as a plain UPDATE's of other columns does not in MINIMAL.

Put here: one change's images. Not here: decoding them (binlog/rows/decoder.py), several changes of a key
(row_overlay.py), values of defaults (insert_defaults.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.binlog import Changes, Presence, TableDefinition
from spark_jobs.errors import Unsupported
from spark_jobs.silver.insert_defaults import with_defaults
from spark_jobs.silver.net_changes import AbsentColumns

ABSENT = pa.list_(pa.string())
"""Names of columns that a row has no value of, null where it is whole."""
_INSERT, _UPDATE, _DELETE = 1, 2, 3
_RAW = pa.map_(pa.string(), pa.string())
CellMask = NDArray[np.bool_]
"""bool[row, column]."""


@dataclass(frozen=True, slots=True)
class ImageContext:
    """Table whose changes these are.

    file: that messages name. is_mariadb: which server logged them. unseen: columns that a rule keeps out of the lake;
    nobody asks what they hold.
    """

    definition: TableDefinition
    file: str
    is_mariadb: bool
    unseen: frozenset[str] = frozenset()


def changes_and_absent_columns(changes: Changes, origin: ImageContext) -> tuple[Changes, AbsentColumns]:
    """The changes with rows as whole as their before images make them, and what of rows and before images is absent.

    changes: with all columns of before images. ``unseen`` columns are not among those that are absent, a delete's are;
    an insert lacks none, since it gets the defaults. Raises Unsupported where what is left out cannot be
    known: a column of the key, a default that nothing tells, anything of a table without a key, and what MariaDB does
    not log.
    """
    if changes.present is None or changes.before_present is None:
        nulls = pa.nulls(len(changes), ABSENT)
        return changes, AbsentColumns(nulls, nulls)
    # bool[row, column]: what the row image has, what its before image has, and what an update copies from there.
    op = changes.op.to_numpy()
    is_update = (op == _UPDATE)[:, None]
    present, held_before = (_mask(presence) for presence in (changes.present, changes.before_present))
    copied = ~present & held_before & is_update
    absent = ~present & ~copied
    # What is left is absent. That is refused where it cannot be known later, except in columns that no rule lets in.
    is_stored = np.array([name not in origin.unseen for name in origin.definition.column_names()])
    validator = _ImageValidator(changes, origin, present, absent & is_stored)
    validator.refuse_missing_key(held_before | ~is_stored)
    validator.refuse_unknown_defaults()
    if origin.is_mariadb:
        validator.refuse_computed_columns(~present & is_stored)
        validator.refuse_replace_statements()
    # Inserts get the defaults.
    names = origin.definition.column_names()
    full = _filled(changes, copied, names)
    is_insert = (op == _INSERT)[:, None]
    after = with_defaults(full.after, origin.definition, absent & is_insert)
    lists = [absent_names(mask & is_stored, names) for mask in (absent & ~is_insert, ~held_before & is_update)]
    return replace(full, after=after, present=None, before_present=None), AbsentColumns(*lists)


def _mask(presence: Presence) -> CellMask:
    mask: CellMask = presence.sets[presence.index]
    return mask


@dataclass(frozen=True, slots=True)
class _ImageValidator:
    """Refusal of rows whose values would have to be guessed.

    present_mask: the columns that each row's image has. absent: those of which neither image has a value.
    """

    changes: Changes
    origin: ImageContext
    present_mask: CellMask
    absent: CellMask

    @property
    def _op(self) -> NDArray[np.uint8]:
        op: NDArray[np.uint8] = self.changes.op.to_numpy()
        return op

    def _refuse_where(self, wrong: CellMask, reason: str) -> None:
        """Raise Unsupported for the first wrong row and column, if there is one."""
        if wrong.any():
            row, column = (int(indexes[0]) for indexes in np.nonzero(wrong))
            path = f"{self.origin.file}:{self.changes.offset[row].as_py()}: row {self.changes.row[row].as_py()} of "
            name = self.origin.definition.column_names()[column]
            raise Unsupported(f"{path}{self.origin.definition.name}: column {name} is not in its row image: {reason}")

    def refuse_missing_key(self, held_before: CellMask) -> None:
        key, columns = self.origin.definition.key, self.origin.definition.columns
        wrong = np.zeros_like(self.absent)
        if key:
            # An inserted row has the default of a column of the key as of any other.
            is_filled = np.array([column.default not in (None, "NULL") for column in columns])
            lacking = self.absent & ~(is_filled & (self._op == _INSERT)[:, None])
            for image, rows in ((lacking, self._op != 0), (~held_before, self._op == _UPDATE)):
                wrong[:, list(key)] |= image[:, list(key)] & rows[:, None]
            self._refuse_where(wrong, "rows are identified by it; SET GLOBAL binlog_row_image = 'FULL'")
        else:
            reason = (
                "the table has no key, and its rows are identified by all columns; SET GLOBAL binlog_row_image = 'FULL'"
            )
            lacking = self.absent & (self._op != _INSERT)[:, None]
            self._refuse_where(lacking | (~held_before & (self._op == _UPDATE)[:, None]), reason)

    def refuse_unknown_defaults(self) -> None:
        unknown = np.array([column.default is None for column in self.origin.definition.columns])
        reason = (
            "the row was inserted with the column's default, and neither a CREATE TABLE in the log nor the server's "
            "definition tells that as a constant; name it in each INSERT, or SET GLOBAL binlog_row_image = 'FULL'"
        )
        self._refuse_where(self.absent & unknown & (self._op == _INSERT)[:, None], reason)

    def refuse_computed_columns(self, lacking: CellMask) -> None:
        may_be = np.array([column.computed is not False for column in self.origin.definition.columns])
        reason = (
            "MariaDB leaves generated columns out of updates, and this is one, or may be; what it holds now is not in "
            "the log. Leave it out of the lake by a rule (columns: … exclude:)"
        )
        self._refuse_where(lacking & may_be & (self._op == _UPDATE)[:, None], reason)

    def refuse_replace_statements(self) -> None:
        key = list(self.origin.definition.key or ())
        if key:
            holds_key = self.present_mask[:, key].any(axis=1) & (self._op == _UPDATE)
            reason = (
                "the image holds the key, as that of a REPLACE does, of which MariaDB does not log the columns that it "
                "sets to their defaults; SET GLOBAL binlog_row_image = 'FULL' (or 'FULL_NODUP')"
            )
            self._refuse_where(self.absent & holds_key[:, None], reason)


def _filled(changes: Changes, copied: CellMask, names: Sequence[str]) -> Changes:
    """Changes with the values of before images, and their exact texts, where they are to be taken."""
    if not copied.any():
        return changes
    pairs = zip(changes.after.columns, changes.before.columns, copied.T, strict=True)
    columns = [
        column if not mask.any() else pc.if_else(pa.array(mask), before_column, column)
        for column, before_column, mask in pairs
    ]
    after = pa.RecordBatch.from_arrays(columns, names)
    return replace(changes, after=after, raw=_with_texts(changes.raw, changes.before_raw, copied, names))


def _with_texts(
    raw: pa.Array | None, before: pa.Array | None, copied: CellMask, names: Sequence[str]
) -> pa.Array | None:
    """The exact texts of rows, with those of before images where these were taken; in the order of the columns."""
    if before is None or before.null_count == len(before):
        return raw
    ordinals = {name: at for at, name in enumerate(names)}
    text_list: list[dict[str, str]] = [
        dict(row_texts or ()) for row_texts in (raw.to_pylist() if raw is not None else [])
    ]
    text_list = text_list or [{} for _ in range(len(before))]
    for row, texts in enumerate(before.to_pylist()):  # values that no column holds are few
        text_list[row] |= {name: text for name, text in texts or () if copied[row, ordinals[name]]}
    listed = [sorted(row_texts.items(), key=lambda pair: ordinals[pair[0]]) or None for row_texts in text_list]
    return pa.array(listed, _RAW)


def absent_names(mask: CellMask, names: Sequence[str]) -> pa.Array:
    """ABSENT from a mask of what rows lack: the names of columns, null for a row that lacks none."""
    rows, columns = np.nonzero(mask)
    counts = np.bincount(rows, minlength=len(mask))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    values = pa.array(names, pa.string()).take(pa.array(columns))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(counts == 0))
