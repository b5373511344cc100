"""Row changes as Arrow columns, before and after.

Put here: the result of decoding. Not here: decoding (decoder.py).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Presence:
    """Columns in the images of a block, apart from what is NULL in them.

    Every row of an event has the event's columns, and a table sees a handful of sets of them: so the sets are kept once
    and a row has the number of its set. Where every image is whole there is no Presence at all, and nothing is spent.

    sets: bool[set, column], by ordinal of the definition. index: int32[row], which set a row has.
    """

    sets: NDArray[np.bool_]
    index: NDArray[np.int32]

    def column(self, ordinal: int) -> NDArray[np.bool_]:
        """bool[row]: whether the row's image holds the column."""
        present: NDArray[np.bool_] = self.sets[self.index, ordinal]
        return present


@dataclass(frozen=True, slots=True)
class Changes:
    """Row changes in log order; all arrays have one length."""

    op: pa.Array
    """uint8: 1 insert, 2 update, 3 delete."""
    offset: pa.Array
    """int64: where the row's event starts in its file."""
    row: pa.Array
    """int32: its offset within the event."""
    committed_at: pa.Array
    """timestamp[us, UTC] of the transaction."""
    gtid: pa.Array | None
    """A dictionary of strings, or None."""
    after: pa.RecordBatch
    """The row, in a delete its last one."""
    before: pa.RecordBatch
    """An update's before image, all null for other rows."""
    raw: pa.Array | None
    before_raw: pa.Array | None
    """Exact text or hex of what typed columns cannot hold, map<string, string>: ``raw`` is of ``after``, ``before_raw``
    of ``before``; None where no row has any."""
    present: Presence | None = None
    before_present: Presence | None = None
    """Columns of ``before`` that the log holds, as ``present`` has those of ``after``; what it leaves out is null
    there. None: every image is whole. A row without a before image has no column in ``before_present``."""
    flags: pa.Array | None = None
    """uint16: those of the row's event (binlog/events/types.py), or None."""

    def __len__(self) -> int:
        return len(self.op)

    @property
    def nbytes(self) -> int:
        """Bytes of the values of both images."""
        return int(self.after.nbytes + self.before.nbytes)

    def with_exact_texts(self) -> pa.RecordBatch:
        """The rows with ``raw`` as a last column, ``_raw``."""
        raw = self.raw if self.raw is not None else pa.nulls(len(self), pa.map_(pa.string(), pa.string()))
        return pa.RecordBatch.from_arrays([*self.after.columns, raw], [*self.after.schema.names, "_raw"])

    def take(self, rows: pa.Array) -> "Changes":
        """The changes of some rows, by number in ascending order."""
        return self._selected(lambda values: values.take(rows), rows.to_numpy())

    def slice(self, first: int, rows: int) -> "Changes":
        """Some of the changes that follow each other, without a copy: slices of Arrow arrays share their buffers."""
        return self._selected(lambda values: values.slice(first, rows), slice(first, first + rows))

    def _selected(self, rows_of: Callable[[Any], Any], index: Any) -> "Changes":
        """Some rows of all columns. index: the same rows, as numpy takes them."""

        def column_rows(values: Any) -> Any:
            return None if values is None else rows_of(values)

        def part_of(presence: Presence | None) -> Presence | None:
            return None if presence is None else Presence(presence.sets, presence.index[index])

        # Columns that no row has a value of stay None.
        return Changes(
            column_rows(self.op),
            column_rows(self.offset),
            column_rows(self.row),
            column_rows(self.committed_at),
            column_rows(self.gtid),
            column_rows(self.after),
            column_rows(self.before),
            column_rows(self.raw),
            column_rows(self.before_raw),
            part_of(self.present),
            part_of(self.before_present),
            column_rows(self.flags),
        )


def comparable_text(text: str) -> str:
    """An exact text as equal values have it: a time without the zeros that its fraction ends with.

    How many there are depends on the column's digits of a second, which a statement may add to.
    """
    return re.sub(_FINAL_ZEROS, r"\1\2", text)


def comparable_texts(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Exact texts as ``comparable_text`` has them."""
    return pc.replace_substring_regex(texts, pattern=_FINAL_ZEROS, replacement=r"\1\2")


_FINAL_ZEROS = r"^([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.0+|(\.[0-9]*[1-9])0+)$"
"""A date and time whose fraction ends with zeros."""
