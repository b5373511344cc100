"""Rows of one key that hold some of its columns, laid over each other.

A row has ``_absent``: the columns that it has no value of, NULL where it is whole. What a later row lacks is as it was
before; a row that says that its key is gone (``_gone``) ends what was before. A key of which a column is in no row
since was never seen whole: its state is not known, and it has no row downstream.

Put here: the column, and the step of a statement about it. Not here: how rows come to lack columns
(partial_images.py), or laying them over each other (row_overlay.py).
"""

from collections.abc import Mapping

from spark_jobs.text.sql import literal

ABSENT = "_absent"
"""The column with the names of those that a row has no value of; NULL where it is whole."""
ABSENT_TYPE = "ARRAY<STRING>"


def renamed(names: Mapping[str, str | None], absent: str = ABSENT) -> str:
    """SQL: what is absent behind a change of columns; names: by the old one the new one, None where it went."""
    dropped = ", ".join(literal(old) for old, new in names.items() if new is None)
    cases = " ".join(f"WHEN {literal(old)} THEN {literal(new)}" for old, new in names.items() if new not in (None, old))
    remaining = f"filter({absent}, name -> name NOT IN ({dropped}))" if dropped else absent
    renamed_ = f"transform({remaining}, name -> CASE name {cases} ELSE name END)" if cases else remaining
    return f"CAST({_filled(renamed_)} AS {ABSENT_TYPE})" if dropped else renamed_


def _filled(array: str) -> str:
    """SQL: NULL for an empty array."""
    return f"IF(size({array}) > 0, {array}, NULL)"
