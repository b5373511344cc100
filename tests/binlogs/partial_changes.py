"""Changes with partial images as the decoder gives them, made of plain ones. Put here: them, and random ones. Not here:
what becomes of them (plain_layers.py)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from spark_jobs.binlog import Changes, Column, Presence, TableDefinition, TableName
from tests.twins.plain_layers import Image, RowChange, TableShape

NAMES = ("id", "a", "b")
COLUMNS = tuple(Column(name, 3, default="NULL", computed=False) for name in NAMES)
TABLE = TableDefinition(TableName("shop", "t"), COLUMNS, (0,))
SHAPE = TableShape(NAMES, ("id",))
_RAW = pa.map_(pa.string(), pa.string())


def op_of(change: RowChange) -> int:
    """1 insert, 2 update, 3 delete."""
    return 1 if change.before is None else 3 if change.after is None else 2


def changes_of(changes: Sequence[RowChange], first: int = 100) -> Changes:
    """The changes, with every odd value's exact text in raw too. first: the offset of the first one."""
    after = [change.after if change.after is not None else change.before for change in changes]
    before = [change.before if change.after is not None else None for change in changes]
    (after_rows, present, raw), (before_rows, present_before, raw_before) = _image(after), _image(before)
    return Changes(
        op=pa.array([op_of(change) for change in changes], pa.uint8()),
        offset=pa.array(range(first, first + len(changes)), pa.int64()),
        row=pa.array([0] * len(changes), pa.int32()),
        committed_at=pa.array(range(first, first + len(changes)), pa.timestamp("us", "UTC")),
        gtid=None,
        after=after_rows,
        before=before_rows,
        raw=raw,
        before_raw=raw_before,
        present=present,
        before_present=present_before,
    )


def _image(images: Sequence[Image | None]) -> tuple[pa.RecordBatch, Presence, pa.Array]:
    dicts: list[dict[str, Any]] = [dict(image or {}) for image in images]
    is_present = np.array([[name in cells for name in NAMES] for cells in dicts]).reshape(-1, len(NAMES))
    arrays = [pa.array([cells.get(name) for cells in dicts], pa.int32()) for name in NAMES]
    presence = Presence(is_present, np.arange(len(images), dtype=np.int32))
    return pa.RecordBatch.from_arrays(arrays, list(NAMES)), presence, pa.array(list(map(texts_of, dicts)), _RAW)


def texts_of(image: Image) -> list[tuple[str, str]] | None:
    """The exact texts of an image as ``changes_of`` makes them; none of the key."""
    return [(name, f"exact {image[name]}") for name in NAMES[1:] if (image.get(name) or 0) % 2] or None


NUMBERS = st.one_of(st.none(), st.integers(1, 9))
PARTS = st.fixed_dictionaries({}, optional={"a": NUMBERS, "b": NUMBERS})
KEYED = st.builds(lambda key, rest: {"id": key} | rest, st.integers(1, 4), PARTS)
WHOLE = st.fixed_dictionaries({"id": st.integers(1, 4), "a": NUMBERS, "b": NUMBERS})
ROW_CHANGES = st.one_of(
    st.builds(lambda after: RowChange(None, after), KEYED),
    st.builds(lambda last: RowChange(last, None), KEYED),
    st.builds(RowChange, KEYED, PARTS),
    st.builds(lambda before, after: RowChange(before, {"id": before["id"]} | after), KEYED, PARTS),
    st.builds(RowChange, WHOLE, KEYED),
    st.builds(RowChange, KEYED, KEYED),
)
