"""Ends of a folder's files: whether each is there to where the next one begins.

A copy of a file that its server still writes ends at any event. Once the next file is beside it, nothing else tells
that transactions are in neither. A server closes a file by ROTATE, or by STOP at a shutdown; one that crashed leaves
its file without, and the next one names what came before it.

Source: MySQL sql/binlog.cc (``new_file_impl``, ``close``; the recovery after a crash clears the flag for a file in use
and cuts what is not whole), MariaDB sql/log.cc.

Put here: the check. Not here: which files there are (files.py), or what of them is read (bronze/resume.py).
"""

from collections.abc import Sequence
from itertools import pairwise

from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position, file_number
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import Log, LogFile, Source
from spark_jobs.source.seek import Search, transactions_before


def require_ends(source: Source, log: Log, start: Position) -> None:
    """Check that a folder has the files from a position on to their ends, but for the log's last one.

    Of servers' logs nothing is asked. Raises SourceError, DecodeError.
    """
    if isinstance(source, Files):
        numbers = range(start.number, log.end.number + 1)
        require_joints(source, log, [file for file in log.files if file_number(file.name) in numbers])


def require_joints(source: Files, log: Log, files: Sequence[LogFile]) -> None:
    """Check that files of a folder go on in each other, of which each follows the one before.

    Of each the last bytes are read, and all of those that no event closes. Raises SourceError, DecodeError.
    """
    for before, after in pairwise(files):
        if not source.ends_by_event(before):
            _require_joint(source, log, before, after)


def _require_joint(source: Files, log: Log, before: LogFile, after: LogFile) -> None:
    gtids = transactions_before(source, log, Position(before.name, before.size))
    previous = Search(source, log).head(after).previous
    if gtids and previous == gtids:
        return
    reason = f"{after.name} names {previous or 'none'} before it, and with {before.name} they are {gtids or 'none'}"
    if not gtids and not previous:
        # No GTIDs: a server that crashed has cleared the flag when it started again.
        if not source.is_in_use(before.name):
            return
        reason = "it is marked as being in use"
    raise SourceError(
        f"{source.name}: {source.directory / before.name} lacks its end, and {after.name} follows it: no event closes "
        f"it at byte {before.size}, and {reason}. It was copied while its server wrote it; copy it again"
    )
