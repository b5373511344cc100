"""Comparison of a table's expected rows with the lake's: every row, every column, both ways.

Put here: pairing rows by key and finding what differs, for the recording. Not here: where expected rows come from
(server_rows.py), or comparing with a live server (spark_jobs/verify).

Values are equal when they are equal in their type: decimals with their scale, moments to the microsecond, bytes as
bytes, floats exactly. Nothing is rounded or trimmed first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.demo.server_rows import RAW, raw_text
from spark_jobs.errors import LakeError
from spark_jobs.lake.rows import rows_in
from spark_jobs.lake.table import Table

_ADDED = "_"
"""Prefix of the names of columns that the lake adds."""
_BATCH = 100_000
"""Rows that are read at once."""
SHOWN = 5
"""Differences of a table that a report shows."""


@dataclass(frozen=True, slots=True)
class DemoComparison:
    """Number of rows that there should be, and of equal, missing, extra (a key too many or twice) or different ones.

    ``samples`` shows the first few that are not equal, one line each.
    """

    rows: int
    equal: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    samples: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        return self.equal == self.rows and not self.extra


def lake_rows(table: Table, schema: pa.Schema) -> pa.Table:
    """All rows of a downstream table, none where it does not exist.

    They are read without Spark, whose first query alone takes ten seconds and more. ``schema`` ends in ``_raw``, whose
    maps become JSON as in server_rows.py. Raises LakeError where the columns are not as wanted.
    """
    head = table.head()
    if head is None:
        return schema.empty_table()
    # Columns of another name, order or type would be compared with the wrong ones.
    names = schema.names[:-1]
    columns = [name for name in table.columns() if name in names or not name.startswith(_ADDED)]
    if columns != names:
        raise LakeError(f"{table.path}: has the columns {', '.join(columns)} where {', '.join(names)} are expected")
    snapshot = snapshot_of(table.path, head.version)
    batches = list(rows_in(snapshot, schema.names, None, rows=_BATCH)) if snapshot else []
    if not batches:
        return schema.empty_table()
    rows = pa.Table.from_batches(batches)
    plain = rows.set_column(len(names), RAW, _raw_texts(rows.column(RAW)))
    if plain.schema.types != schema.types:
        raise LakeError(f"{table.path}: its types are {_types(plain.schema)} where {_types(schema)} are expected")
    return plain


def _types(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _raw_texts(maps: pa.ChunkedArray) -> pa.ChunkedArray:
    """Maps as JSON; few rows have any."""
    texts: list[str | None] = [None] * len(maps)
    for at in pc.indices_nonzero(pc.is_valid(maps)).to_pylist():
        entries = dict(maps[at].as_py())
        texts[at] = raw_text(entries) if entries else None
    return pa.chunked_array([pa.array(texts, pa.string())])


def compare(expected: pa.Table, actual: pa.Table, key: Sequence[str]) -> DemoComparison:
    """Compare two tables of the same columns. Raises LakeError where these differ."""
    if expected.schema.names != actual.schema.names or expected.schema.types != actual.schema.types:
        raise LakeError(f"columns differ: {_types(expected.schema)} and {_types(actual.schema)}")
    expected_rows, here = _paired(expected, actual, key)
    in_both = (expected_rows >= 0) & (here >= 0)
    _, first = np.unique(expected_rows[in_both], return_index=True)
    pairs = np.flatnonzero(in_both)[first]
    duplicates = int(in_both.sum()) - len(pairs)  # one key, several rows in the lake
    expected_matches, actual_matches = expected.take(expected_rows[pairs]), actual.take(here[pairs])
    differing = _differing(expected_matches, actual_matches)
    missing, extra = expected_rows[here < 0], here[expected_rows < 0]
    samples = [
        *(f"missing: {_row_text(expected, at, key)}" for at in missing[:SHOWN]),
        *(f"extra: {_row_text(actual, at, key)}" for at in extra[:SHOWN]),
        *(f"twice: {_row_text(actual, at, key)}" for at in np.delete(here[in_both], first)[:SHOWN]),
        *(_contrast(expected_matches, actual_matches, at, key) for at in np.flatnonzero(differing)[:SHOWN]),
    ]
    different = int(differing.sum())
    return DemoComparison(
        rows=expected.num_rows,
        equal=len(pairs) - different,
        missing=len(missing),
        extra=len(extra) + duplicates,
        different=different,
        samples=tuple(samples[:SHOWN]),
    )


RowIndexes = np.ndarray[tuple[int], np.dtype[np.int64]]


def _paired(expected: pa.Table, actual: pa.Table, key: Sequence[str]) -> tuple[RowIndexes, RowIndexes]:
    """Row numbers of both tables, side by side where their keys are equal; -1 where the other has none."""
    left = expected.select(list(key)).append_column("_there", pa.array(np.arange(expected.num_rows)))
    right = actual.select(list(key)).append_column("_here", pa.array(np.arange(actual.num_rows)))
    joined = left.join(right, list(key), join_type="full outer")
    expected_rows, here = (pc.fill_null(joined.column(name), -1).to_numpy() for name in ("_there", "_here"))
    order = np.lexsort((here, expected_rows))
    return expected_rows[order], here[order]


def _differing(expected: pa.Table, actual: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    different = np.zeros(expected.num_rows, bool)
    for left, right in zip(expected.columns, actual.columns, strict=True):
        different |= _unequal(left, right)
    return different


def _unequal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    values = pc.fill_null(pc.not_equal(left, right), False)
    nulls = pc.xor(pc.is_null(left), pc.is_null(right))
    return np.asarray(pc.or_(values, nulls))


def _row_text(rows: pa.Table, at: int, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {rows.column(name)[int(at)].as_py()!r}" for name in names)


def _contrast(expected: pa.Table, actual: pa.Table, at: int, key: Sequence[str]) -> str:
    """``different: id 7: price is 1 and should be 2``."""
    pairs = [(name, expected.column(name)[int(at)], actual.column(name)[int(at)]) for name in expected.column_names]
    unlike = [f"{name} is {is_.as_py()!r} and should be {be.as_py()!r}" for name, be, is_ in pairs if be != is_]
    return f"different: {_row_text(expected, at, key)}: {'; '.join(unlike)}"
