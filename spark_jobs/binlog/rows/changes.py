"""Row changes as Arrow columns, before and after.

Put here: the result of decoding. Not here: decoding (decoder.py).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Presence:
    """Which columns the images of a block hold, apart from what is NULL in them.

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
    """int32: its place within the event."""
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
    """Of ``raw`` and ``before_raw``, map<string, string>: exact text or hex of what typed columns cannot hold; None
    where no row has any."""
    present: Presence | None = None
    before_present: Presence | None = None
    """Of ``present`` and ``before_present``: which columns of ``after`` and ``before`` the log holds; what it leaves
    out is null there. None: every image is whole. A row without a before image has no column in ``before_present``."""

    def __len__(self) -> int:
        return len(self.op)

    @property
    def nbytes(self) -> int:
        """Bytes of the values of both images."""
        return int(self.after.nbytes + self.before.nbytes)

    def take(self, rows: pa.Array) -> "Changes":
        """The changes of some rows, by number in ascending order."""
        # Every column that the changes have, and the sets of present columns by their numbers.

        def rows_of(values: pa.Array | None) -> pa.Array | None:
            return None if values is None else values.take(rows)

        def part_of(presence: Presence | None) -> Presence | None:
            return None if presence is None else Presence(presence.sets, presence.index[rows.to_numpy()])

        return Changes(
            self.op.take(rows),
            self.offset.take(rows),
            self.row.take(rows),
            self.committed_at.take(rows),
            rows_of(self.gtid),
            self.after.take(rows),
            self.before.take(rows),
            rows_of(self.raw),
            rows_of(self.before_raw),
            part_of(self.present),
            part_of(self.before_present),
        )

    def slice(self, first: int, rows: int) -> "Changes":
        """Some of the changes that follow each other, without a copy."""

        # Slices of Arrow arrays share their buffers.
        def cut(values: pa.Array | None) -> pa.Array | None:
            return None if values is None else values.slice(first, rows)

        def part_of(presence: Presence | None) -> Presence | None:
            return None if presence is None else Presence(presence.sets, presence.index[first : first + rows])

        return Changes(
            cut(self.op),
            cut(self.offset),
            cut(self.row),
            cut(self.committed_at),
            cut(self.gtid),
            cut(self.after),
            cut(self.before),
            cut(self.raw),
            cut(self.before_raw),
            part_of(self.present),
            part_of(self.before_present),
        )
