"""Hash of 64 bits of each row's key, by the bytes that identify it; of a keyless row, by all of its bytes.

Put here: which columns it is of. Not here: the hash (delta/value_hash.py), or what it is used for: buckets of a shuffle
(engine/silver/silver_task.py), and finding keys in data files (engine/rows/locate.py), which compares the keys
themselves after it.

Two rows have one hash wherever ``silver/net_changes.py`` takes their keys for one, or ``silver/keyless_rows.py`` the
rows.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spark_jobs.delta.value_hash import SEED, Hashes, hashes_of
from spark_jobs.silver import table as silver
from spark_jobs.silver.keyless_rows import comparable_columns
from spark_jobs.silver.net_changes import identity_columns


def hashes(rows: pa.Table, key: Sequence[str], seed: np.uint64 = SEED) -> Hashes:
    """One a row. rows: with the key's columns and ``_raw``."""
    return hashes_of(identity_columns(rows, key), len(rows), seed)


def row_hashes(rows: pa.Table, columns: silver.Columns) -> Hashes:
    """One a row, by what tells rows of a table apart. rows: with the columns that do, and ``_raw``."""
    if not columns.is_keyless:
        return hashes(rows, columns.key)
    names = [name for name in columns.types if name in rows.column_names]
    return hashes_of(comparable_columns(rows, names), len(rows))
