"""Ranges of a log: the same part of it by as few of them as there can be.

Put here: what is asked of several ranges. Not here: what one is (log/position.py).
"""

from collections.abc import Sequence

from spark_jobs.log.position import Range


def joined(ranges: Sequence[Range]) -> list[Range]:
    """The same part of the log in order, with ranges that touch or overlap as one; empty ranges are dropped."""
    merged: list[Range] = []
    for range_ in sorted(filter(None, ranges), key=lambda range_: range_.start.order):
        if merged and range_.start <= merged[-1].stop:
            merged[-1] = Range(merged[-1].start, max(merged[-1].stop, range_.stop))
        else:
            merged.append(range_)
    return merged
