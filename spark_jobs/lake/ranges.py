"""Many positions and ranges of a log in one query, whose plan stays flat however many they are.

Spark plans a chain of conditions one inside the other: at 300 it takes seconds, at 3,000 minutes or its stack ends.
Here the positions are one literal array, and a value is looked up in it by a binary search, a step for each doubling.

Delta skips no file by such a search. So it stands behind a few ranges that cover all of them, as plain comparisons.

Put here: these expressions, as SQL over structs of a position's three integers, and unions that stay flat. Not here:
which columns hold positions (bronze/table.py, silver/table.py).
"""

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from spark_jobs.log.position import Position, Range
from spark_jobs.runtime.connect import in_session_of
from spark_jobs.text.sql import literal

FEW = 16
"""Ranges up to which each is a condition by itself."""
PLACE = "STRUCT<stretch: INT, number: BIGINT, offset: BIGINT>"
"""A position as Spark has it."""


def joined(ranges: Sequence[Range]) -> list[Range]:
    """The same part of the log in order, with ranges that touch or overlap as one; empty ranges are dropped."""
    merged: list[Range] = []
    for range_ in sorted(filter(None, ranges), key=lambda range_: range_.start.order):
        if merged and range_.start <= merged[-1].stop:
            merged[-1] = Range(merged[-1].start, max(merged[-1].stop, range_.stop))
        else:
            merged.append(range_)
    return merged


def covering(ranges: Sequence[Range]) -> list[Range]:
    """FEW ranges at most, in order, that cover all of these and as little else as their number allows, about."""
    exact = joined(ranges)
    if len(exact) <= FEW:
        return exact
    size = -(-len(exact) // FEW)
    groups = (exact[at : at + size] for at in range(0, len(exact), size))
    return [Range(group[0].start, group[-1].stop) for group in groups]


def array(positions: Sequence[Position]) -> str:
    """SQL: positions as an array of structs, one literal to Spark."""
    return rows([cell(position) for position in positions], PLACE)


def rows(values: Sequence[Any], kind: str) -> str:
    """SQL: values of one Spark type as an array, one literal to Spark."""
    return f"from_json({literal(json.dumps(values, separators=(',', ':')))}, 'ARRAY<{kind}>')"


def cell(position: Position) -> dict[str, int]:
    """A position as a value of PLACE, for ``rows``."""
    return dict(zip(("stretch", "number", "offset"), position.order, strict=True))


def rank(positions: Sequence[Position], value: str) -> str:
    """SQL: how many of some positions, which are in order, a struct does not come before."""
    steps = [1 << bit for bit in reversed(range(len(positions).bit_length()))]
    further = f"get({array(positions)}, at + step - 1) <= {value}"
    return f"aggregate(array({', '.join(map(str, steps))}), 0, (at, step) -> IF({further}, at + step, at))"


def inside(ranges: Sequence[Range], value: str) -> str:
    """SQL: whether a struct lies in one of the ranges, found by a search."""
    ends = [end for range_ in joined(ranges) for end in (range_.start, range_.stop)]
    return f"{rank(ends, value)} % 2 = 1"


def ordinal(ranges: Sequence[Range], value: str) -> str:
    """SQL: which of the ranges, which do not overlap, a struct lies in; NULL for none. Found by a search."""
    order = sorted((at for at, range_ in enumerate(ranges) if range_), key=lambda at: ranges[at].start.order)
    starts, stops = [ranges[at].start for at in order], [ranges[at].stop for at in order]
    nth = f"get({rows(order, 'INT')}, nth - 1)"
    search = f"nth -> IF({value} < get({array(stops)}, nth - 1), {nth}, NULL)"
    return f"get(transform(array({rank(starts, value)}), {search}), 0)"


def next_position(positions: Sequence[Position], value: str) -> str:
    """SQL: the first of some positions, which are in order, that comes after a struct; NULL for none."""
    return f"get({array(positions)}, {rank(positions, value)})"


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all frames, whose columns have the same names, in a tree of unions instead of a chain."""
    pending = list(frames)
    while len(pending) > 1:
        pairs = zip(pending[::2], pending[1::2], strict=False)
        pending = [
            *(first.unionByName(in_session_of(second, first)) for first, second in pairs),
            *pending[len(pending) & ~1 :],
        ]
    return pending[0]
