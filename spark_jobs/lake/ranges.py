"""Ranges of a log, joined to as few as possible.

Put here: what is asked of several ranges. Not here: what one is (log/position.py).
"""

from collections.abc import Sequence

from spark_jobs.log.position import Range


def joined(ranges: Sequence[Range]) -> list[Range]:
    """The same part of the log in order, with ranges that touch or overlap as one; empty ranges are dropped."""
    merged: list[Range] = []
    for log_range in sorted(filter(None, ranges), key=lambda log_range: log_range.start.order):
        if merged and log_range.start <= merged[-1].stop:
            merged[-1] = Range(merged[-1].start, max(merged[-1].stop, log_range.stop))
        else:
            merged.append(log_range)
    return merged
