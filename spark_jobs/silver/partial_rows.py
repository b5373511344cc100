"""Rows of one key that hold some of its columns, laid over each other.

A row has ``_absent``: the columns that it has no value of, NULL where it is whole. What a later row lacks is as it was
before; a row that says that its key is gone (``_gone``) ends what was before. A key of which a column is in no row
since was never seen whole: its state is not known, and it has no row downstream.

Put here: the fold, and which values of a row count, as SQL. Not here: how rows come to lack columns
(partial_images.py), or what becomes of them (window_rows.py, engine/downstream_job.py).
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.text.sql import identifier, literal

ABSENT = "_absent"
"""The column with the names of those that a row has no value of; NULL where it is whole."""
ABSENT_TYPE = "ARRAY<STRING>"
ENDED = "_ended"
"""Whether a row that the fold gives lacks columns after the end of what the key was before."""
_TEXTS = "MAP<STRING, STRING>"


def is_present(name: str, of: str = "") -> str:
    """SQL: whether a row holds a column. of: what names are preceded by, such as ``s.``."""
    return f"NOT coalesce(array_contains({of}{ABSENT}, {literal(name)}), false)"


def folded(rows: DataFrame, by: Sequence[str], types: Mapping[str, str], *more_columns: Column) -> DataFrame:
    """One row for each of what is equal in ``by``: the columns, their exact texts, and what is absent after all.

    rows: with the columns, ABSENT, _gone, _position, _committed_at, _raw. The result has these and ``by``, ENDED, and
    the other aggregates; position, time and _gone are the last row's, and a gone key has its last row's columns.
    """
    # Of each column its newest value, with the position of that.
    names = list(types)
    cells = [_newest(name, f"_cell{at}") for at, name in enumerate(names)]
    last = F.expr("max_by(struct(_position, _committed_at, _gone), _position)").alias("_last")
    ended = F.expr("max(IF(_gone, _position, NULL))").alias("_end")
    grouped = rows.groupBy(*by).agg(*cells, last, ended, *more_columns)
    # A value counts if it is newer than the last delete of its key. Otherwise the column is absent.
    counts = [f"(_last._gone OR (_cell{at}.p IS NOT NULL AND coalesce(_cell{at}.p > _end, true)))" for at in _at(names)]
    values = [f"IF({counts[at]}, _cell{at}.v, NULL) AS {identifier(name)}" for at, name in enumerate(names)]
    lacking = ", ".join(f"IF({counts[at]}, NULL, {literal(name)})" for at, name in enumerate(names))
    texts = raw_of({name: f"IF({counts[at]}, _cell{at}.r, NULL)" for at, name in enumerate(names)})
    absent = _filled(f"filter(array({lacking}), name -> name IS NOT NULL)")
    group_columns = [
        name for name in grouped.columns if name not in {"_last", "_end", *(f"_cell{at}" for at in _at(names))}
    ]
    merged = grouped.selectExpr(
        *map(identifier, group_columns),
        *values,
        "_last._position AS _position",
        "_last._committed_at AS _committed_at",
        "_last._gone AS _gone",
        f"{texts} AS _raw",
        f"CAST({absent} AS {ABSENT_TYPE}) AS {ABSENT}",
        f"_end IS NOT NULL AND NOT _last._gone AS {ENDED}",
    )
    return merged.withColumn(ENDED, F.expr(f"{ENDED} AND {ABSENT} IS NOT NULL"))


def _at(names: Sequence[str]) -> range:
    return range(len(names))


def _newest(name: str, alias: str) -> Column:
    """The column's value, exact text and place in the last row that has it; a row that is gone has all of them."""
    cell = f"struct({identifier(name)} AS v, try_element_at(_raw, {literal(name)}) AS r, _position AS p)"
    return F.expr(f"max_by({cell}, IF(_gone OR {is_present(name)}, _position, NULL))").alias(alias)


def raw_of(texts: Mapping[str, str]) -> str:
    """SQL: ``_raw`` from the exact text of each column, NULL where there is none; NULL where no column has one."""
    pairs = ", ".join(f"struct({literal(name)} AS key, {text} AS value)" for name, text in texts.items())
    pairs_ = f"filter(array({pairs}), pair -> pair.value IS NOT NULL)"
    return f"CAST(map_from_entries({_filled(pairs_)}) AS {_TEXTS})"


def _filled(array: str) -> str:
    """SQL: NULL for an empty array."""
    return f"IF(size({array}) > 0, {array}, NULL)"


def renamed(names: Mapping[str, str | None], absent: str = ABSENT) -> str:
    """SQL: what is absent behind a change of columns; names: by the old one the new one, None where it went."""
    dropped = ", ".join(literal(old) for old, new in names.items() if new is None)
    cases = " ".join(f"WHEN {literal(old)} THEN {literal(new)}" for old, new in names.items() if new not in (None, old))
    remaining = f"filter({absent}, name -> name NOT IN ({dropped}))" if dropped else absent
    renamed_ = f"transform({remaining}, name -> CASE name {cases} ELSE name END)" if cases else remaining
    return f"CAST({_filled(renamed_)} AS {ABSENT_TYPE})" if dropped else renamed_
