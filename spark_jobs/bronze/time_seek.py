"""Search of slices for a time, where bronze holds a file in part, so that nothing in its head can be asked.

Put here: the last transaction of a part of the log before a time. Not here: which part that is (seek.py), or the search
of whole files (source/seek.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from spark_jobs.binlog import Commits, FileHead, FormatDescription, read_commits, read_head
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.index import read_slices
from spark_jobs.log.position import Position, Range
from spark_jobs.source.seek import micros_of


@dataclass(frozen=True, slots=True)
class LastCommit:
    """A transaction: where it ends, and whether none of the part comes after it. latest: when, in µs since 1970."""

    stop: Position
    is_end: bool
    latest: int


def last_commit_before(files: DataFiles, part: Range, moment: datetime) -> LastCommit | None:
    """The last transaction of a part of the log that committed before a time; None where none did.

    The part begins and ends where slices do; they are read from its end back to that one.
    Raises LakeError, DecodeError.
    """
    index = read_slices(files, part)
    index = index.where(index.slices["transactions"].to_numpy() > 0)
    for row in reversed(range(len(index))):
        (log_slice,), (cells,) = index.slices.slice(row, 1).to_pylist(), index.cells([row])
        limit = _limit(cells, moment)
        is_last = row == len(index) - 1
        # Of several transactions the last one's time is in the row, the others' in the bytes.
        newest = micros_of(log_slice["committed_at"])
        stop = Position(log_slice["file"], log_slice["stop"], log_slice["stretch"])
        if newest < limit:
            return LastCommit(stop, is_last, newest)
        if log_slice["transactions"] == 1:
            continue
        for commits in reversed(_commits(cells)):
            earlier = np.flatnonzero(commits.committed < limit)
            if len(earlier):
                offset = int(commits.stop[earlier[-1]])
                return LastCommit(replace(stop, offset=offset), False, int(commits.committed[earlier[-1]]))
    return None


def _limit(cells: Mapping[str, Any], moment: datetime) -> int:
    """The time as the slice's server writes it: in whole seconds a commit counts as late in its second."""
    micros = micros_of(moment)
    description = _format(cells) or read_head([bytes(cells["payload"])], cells["file"]).format
    return micros if FileHead(description, 0, None).is_exact else micros // 1_000_000 * 1_000_000


def _commits(cells: Mapping[str, Any]) -> list[Commits]:
    return list(read_commits([bytes(cells["payload"])], cells["file"], cells["start"], _format(cells)))


def _format(cells: Mapping[str, Any]) -> FormatDescription | None:
    """The format in force at a slice; None at a file's beginning, where its bytes say it."""
    if not cells["start"]:
        return None
    event = cells["context"][: int.from_bytes(cells["context"][9:13], "little")]
    return FormatDescription.parse(event, f"{cells['file']}:{cells['start']}")
