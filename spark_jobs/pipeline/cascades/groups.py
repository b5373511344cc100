"""Groups of tables that foreign keys join, and the parts of their log between two of their renames.

A table that gets another name brings its rows along, so both names are of one group. Rows are looked up under the name
that they have, so no part of the log has a rename of a child inside it: its mirror comes first.

Put here: groups, and parts. Not here: what is derived of them (step.py).
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from spark_jobs.binlog import TableName
from spark_jobs.bronze.scan import LoggedStatement, RangeScan
from spark_jobs.ddl.effects import CreateTable, Rename, effects, name_changes
from spark_jobs.ddl.unlogged_changes import Renamed, UnloggedChanges
from spark_jobs.errors import DecodeError
from spark_jobs.log.position import Position, Range


def table_groups(keys: Sequence[UnloggedChanges], renames: Sequence[Renamed]) -> list[list[UnloggedChanges]]:
    """Foreign keys by the tables that they join, under whichever names."""
    joined = [({gap.table, gap.key.parent}, [gap]) for gap in keys if gap.key]
    joined += [({renamed.was, renamed.table}, []) for renamed in renames]
    groups: list[tuple[set[TableName], list[UnloggedChanges]]] = []
    for tables, gaps in joined:
        touching = [group for group in groups if group[0] & tables]
        groups = [group for group in groups if not group[0] & tables]
        groups.append(
            (tables.union(*(group[0] for group in touching)), [gap for group in touching for gap in group[1]] + gaps)
        )
    return [gaps for _, gaps in groups if gaps]


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of the log in which the children of a group keep their names.

    Attributes:
        within: up to the boundary before the statement that ends it, or the log's end.
        stop: the position after that statement.
    """

    within: Range
    stop: Position

    def keys(self, group: Sequence[UnloggedChanges]) -> list[UnloggedChanges]:
        """The foreign keys of a group that are there in it."""
        return [gap for gap in group if gap.is_in(self.within.start, self.within.stop)]


def parts_between_renames(scan: RangeScan, children: Collection[TableName], within: Range) -> Iterator[LogPart]:
    """The parts of a range of the log, in order."""
    start = within.start
    for logged in scan.statements:
        if start <= logged.boundary < within.stop and _names_changed_by(logged) & {*children}:
            yield LogPart(Range(start, logged.boundary), logged.stop)
            start = logged.stop
    yield LogPart(Range(start, within.stop), within.stop)


def _names_changed_by(logged: LoggedStatement) -> set[TableName]:
    """The names that a statement gives and takes. Where it cannot be read, its tables stop at it."""
    with suppress(DecodeError):
        return {change.table for change in name_changes(logged.statement, logged.database, logged.session)}
    return set()


def is_made_in(scan: RangeScan, name: TableName, until: Position) -> bool:
    """True if statements before a position make a table, or give its name to one that such statements make."""
    about = scan.about(name, scan.statements[0].position) if scan.statements else []
    for logged in reversed([logged for logged in about if logged.position < until]):
        with suppress(DecodeError):  # its tables stop at it
            for effect in effects(logged.statement, logged.database, logged.session):
                match effect:
                    case CreateTable(table) if table == name:
                        return True
                    case Rename(table, was) if table == name:
                        return is_made_in(scan, was, logged.position)
    return False
