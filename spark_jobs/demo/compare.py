"""Rows of a table as they should be, and as the lake has them: every row, every column, both ways.

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
from pyspark.sql import SparkSession

from spark_jobs.demo.server_rows import RAW, raw_text
from spark_jobs.errors import LakeError
from spark_jobs.lake.table import Table
from spark_jobs.text.sql import identifier

_ADDED = "_"
"""What the names of columns begin with that the lake adds."""
SHOWN = 5
"""Differences of a table that a report shows."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many rows there should be and how many are equal, missing, extra (a key too many or twice), or different.

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


def lake_rows(spark: SparkSession, table: Table, wanted: pa.Schema) -> pa.Table:
    """All rows of a downstream table, none where it does not exist.

    ``wanted`` ends in ``_raw``, whose maps become JSON as in server_rows.py. Raises LakeError where
    the columns are not as wanted.
    """
    head = table.head()
    if head is None:
        return wanted.empty_table()
    names = wanted.names[:-1]
    there = [name for name in table.columns() if name in names or not name.startswith(_ADDED)]
    if there != names:
        raise LakeError(f"{table.path}: has the columns {', '.join(there)} where {', '.join(names)} are expected")
    rows = table.read(spark, head.version).select(*map(identifier, wanted.names)).toArrow()
    plain = rows.set_column(len(names), RAW, _raw_texts(rows.column(RAW)))
    if plain.schema.types != wanted.types:
        raise LakeError(f"{table.path}: its types are {_types(plain.schema)} where {_types(wanted)} are expected")
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


def compare(expected: pa.Table, found: pa.Table, key: Sequence[str]) -> Comparison:
    """Compares two tables of the same columns. Raises LakeError where these differ."""
    if expected.schema.names != found.schema.names or expected.schema.types != found.schema.types:
        raise LakeError(f"columns differ: {_types(expected.schema)} and {_types(found.schema)}")
    there, here = _paired(expected, found, key)
    both = (there >= 0) & (here >= 0)
    _, first = np.unique(there[both], return_index=True)
    pairs = np.flatnonzero(both)[first]
    again = int(both.sum()) - len(pairs)  # one key, several rows in the lake
    ours, theirs = expected.take(there[pairs]), found.take(here[pairs])
    differing = _differing(ours, theirs)
    missing, extra = there[here < 0], here[there < 0]
    samples = [
        *(f"missing: {_shown(expected, at, key)}" for at in missing[:SHOWN]),
        *(f"extra: {_shown(found, at, key)}" for at in extra[:SHOWN]),
        *(f"twice: {_shown(found, at, key)}" for at in np.delete(here[both], first)[:SHOWN]),
        *(_contrast(ours, theirs, at, key) for at in np.flatnonzero(differing)[:SHOWN]),
    ]
    different = int(differing.sum())
    return Comparison(
        rows=expected.num_rows,
        equal=len(pairs) - different,
        missing=len(missing),
        extra=len(extra) + again,
        different=different,
        samples=tuple(samples[:SHOWN]),
    )


Places = np.ndarray[tuple[int], np.dtype[np.int64]]


def _paired(expected: pa.Table, found: pa.Table, key: Sequence[str]) -> tuple[Places, Places]:
    """Row numbers of both tables, side by side where their keys are equal; -1 where the other has none."""
    left = expected.select(list(key)).append_column("_there", pa.array(np.arange(expected.num_rows)))
    right = found.select(list(key)).append_column("_here", pa.array(np.arange(found.num_rows)))
    joined = left.join(right, list(key), join_type="full outer")
    there, here = (pc.fill_null(joined.column(name), -1).to_numpy() for name in ("_there", "_here"))
    order = np.lexsort((here, there))
    return there[order], here[order]


def _differing(ours: pa.Table, theirs: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    different = np.zeros(ours.num_rows, bool)
    for one, other in zip(ours.columns, theirs.columns, strict=True):
        different |= _unequal(one, other)
    return different


def _unequal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    values = pc.fill_null(pc.not_equal(one, other), False)
    nulls = pc.xor(pc.is_null(one), pc.is_null(other))
    return np.asarray(pc.or_(values, nulls))


def _shown(rows: pa.Table, at: int, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {rows.column(name)[int(at)].as_py()!r}" for name in names)


def _contrast(ours: pa.Table, theirs: pa.Table, at: int, key: Sequence[str]) -> str:
    """``different: id 7: price is 1 and should be 2``."""
    pairs = [(name, ours.column(name)[int(at)], theirs.column(name)[int(at)]) for name in ours.column_names]
    unlike = [f"{name} is {is_.as_py()!r} and should be {be.as_py()!r}" for name, be, is_ in pairs if be != is_]
    return f"different: {_shown(ours, at, key)}: {'; '.join(unlike)}"
