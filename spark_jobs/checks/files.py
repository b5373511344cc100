"""Checks of one directory of binlog files.

Put here: what a directory holds, and what is wanted of it. Not here: how its log is read (spark_jobs/source/files.py).
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from spark_jobs.checks import Check, ok, problem, run_checks
from spark_jobs.log.position import file_number
from spark_jobs.source.files import Files

_SHOWN = 3


def check_files(files: Files) -> Iterator[Check]:
    """The results of one directory."""
    return run_checks(files, CHECKS, files.name)


def folder(files: Files) -> Iterator[Check]:
    """The folder can be read, its files follow each other without a hole, and the last one has an end."""
    names = files.names()
    yield ok("folder", str(files.directory))
    yield ok("binlog files", f"{len(names)}, {names[0]} to {names[-1]}" if names[1:] else f"1, {names[0]}")
    # A number that is missing between two files is log that nobody can decode.
    holes = [
        f"between {before} and {after}"
        for before, after in pairwise(names)
        if file_number(after) != file_number(before) + 1
    ]
    if holes:
        rest = f" and {len(holes) - _SHOWN} more" if holes[_SHOWN:] else ""
        yield problem(
            "missing files", ", ".join(holes[:_SHOWN]) + rest, f"copy the missing files into {files.directory}"
        )
    else:
        yield ok("missing files", "none")
        yield ok("log end", str(files.log().end))


CHECKS: tuple[Callable[[Files], Iterator[Check]], ...] = (folder,)
