"""Inherited contents of a table at a position of the log, under the name that it had until then.

A statement that gives a table another name brings all of its rows along, and they lie under the old name: in the old
name's silver, if it had one, and in the log after that. Nothing here depends on how far other tables' runs are:
silver is taken at the version that it had before the position, and the log says the rest.

Put here: where such rows are. Not here: taking them out of there (engine/silver/inherited_plan.py), or what follows for
the table that has the new name (table_timeline.py).
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.index import SliceIndex, read_index
from spark_jobs.bronze.scan import LoggedStatement, RangeScan, scan_effective, scan_metadata
from spark_jobs.ddl.effects import CreateTable, DropSchema, DropTable, FreeName, Rename, effects, name_changes
from spark_jobs.errors import DecodeError, NamesUnknown, TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.planning_context import PlanningContext
from spark_jobs.silver.table_timeline import SilverSnapshot, TableContents, TableState
from spark_jobs.silver.timeline.build import build
from spark_jobs.silver.timeline.inputs import Beginning, Complete, TimelineInputs, first_rows, position_of_rows


@dataclass(frozen=True)
class RenameLineage:
    """Contents of a source's tables under earlier names. Configured rules judge no rows that come with a name."""

    context: PlanningContext
    _scans: list[RangeScan] = field(default_factory=list, compare=False, repr=False)
    """Scan of all statements, once it was made."""

    def inputs(self, slices: SliceIndex) -> TimelineInputs:
        """Inputs of timelines besides the survey of these slices."""
        context = self.context
        return TimelineInputs(
            context.complete,
            first_rows(slices, context.filters.skipped),
            on_drop_empties=context.on_drop_empties,
            system_zone=context.system_zone,
            begins_anew=context.begins_anew,
            contents=self.contents,
            filters=context.filters,
            beginning=Beginning(self.created_at, is_needed=context.has_older_log),
            by_history=context.by_history,
            numbers=context.numbers,
        )

    def contents(self, name: TableName, until: Position) -> TableContents:
        """Contents of the table of this name at a position. Raises TableStopped, DecodeError."""
        # The newest rows of silver at the position, or the position where the table was created after that.
        context, oldest = self.context, self.context.snapshot.complete_from
        base, state, since = self._base(name, until)
        created_at = self._created_at(name, oldest if context.by_log else since, until)
        if created_at is not None:
            base, state, since = None, None, created_at
        elif base is not None and since < oldest:
            raise TableStopped(
                f"{context.source}: {name}: {bronze.removal_message(context.source, Range(since, oldest))}"
            )
        since = max(since, oldest)
        # What the build needs besides the log: rows that the name brought with it are found by the same function.
        filters = context.filters.skips_alone
        inputs = TimelineInputs(
            self._complete(until),
            lambda *_: {},
            contents=self.contents,
            filters=filters,
            beginning=Beginning(self.created_at),
            by_history=context.by_history,
            system_zone=context.system_zone,
            base=lambda: base,
            numbers=context.numbers,
        )
        # Between silver and the position, the log says what changed.
        scan = RangeScan({}, ())
        if since < until:
            slices, scan = scan_effective(
                context.snapshot.table, context.snapshot.version, Range(since, until), oldest, {since}
            )
            inputs = replace(
                inputs, first=first_rows(slices, filters.skipped), first_row_position=position_of_rows(slices)
            )
        content = build(scan, name, Range(since, until), state, inputs)
        return replace(content, base=base, size=content.size + (sum(base.table.file_sizes()) if base else 0))

    def _statements(self) -> RangeScan:
        """All that bronze has: one question, however many tables are asked for.

        ``cached_property`` would have one source's planning wait for that of another one: its lock is of the class.
        """
        if not self._scans:
            snapshot = self.context.snapshot
            self._scans.append(scan_metadata(read_index(snapshot.table, snapshot.version, kind="statement")))
        return self._scans[0]

    def _base(self, name: TableName, until: Position) -> tuple[SilverSnapshot | None, TableState | None, Position]:
        """Silver of a table before a position, the state of the table there, and that position."""
        table = self.context.lake.silver(self.context.source, name.schema, name.table)
        commits = table.since(-1)
        resets = SilverCommit.of(commits[0][1]).resets if commits else 0
        own_commits = ((at, SilverCommit.of(commit)) for at, commit in commits)
        # What it had before a rebuild is no more.
        current = ((at, commit) for at, commit in own_commits if commit.resets == resets)
        version, commit = next(((at, commit) for at, commit in current if commit.position <= until), (None, None))
        if version is None or commit is None:
            return None, None, self.context.snapshot.complete_from
        state = TableState.of(commit)
        return _base(table, version, state), state, commit.position

    def created_at(self, name: TableName, until: Position) -> Position | None:
        """Position where the log that bronze holds makes a table, or gives it its name; None where it does not."""
        return self._created_at(name, self.context.snapshot.complete_from, until)

    def _created_at(self, name: TableName, since: Position, until: Position) -> Position | None:
        """Position where the last statement stands that made the table, or gave it its name: no row of it is older."""
        events = (event for event in self._statements().about(name, since) if event.position < until)
        return max((event.position for event in events if _makes(event, name)), default=None)

    @staticmethod
    def _complete(until: Position) -> Complete:
        """A server's definitions are of the names that tables have now; here they have those from before."""

        def complete(logged: TableDefinition, _: Position | None) -> TableDefinition:
            if not logged.has_names():
                raise NamesUnknown(
                    f"{logged.name}: neither the log (binlog_row_metadata is not FULL) nor a statement names the "
                    f"columns that it had before {until}, where it was given another name"
                )
            return logged

        return complete


def own_base(table: Table, state: TableState | None) -> SilverSnapshot | None:
    """Silver of a table at its position, with the columns that it has there; None where it has nothing."""
    version = next((version for version, _ in table.since(-1)), None) if state else None
    return None if version is None or state is None else _base(table, version, state)


def _base(table: Table, version: int, state: TableState) -> SilverSnapshot | None:
    definition = state.definition
    return SilverSnapshot(table, version, silver.columns(definition), state.emptied) if definition else None


def _makes(event: LoggedStatement, name: TableName) -> bool:
    """True if a statement makes a table, or gives it its name. Where it cannot be read, the table stops at it."""
    with suppress(DecodeError):
        for effect in effects(event.statement, event.database, event.session):
            match effect:
                case CreateTable(table, if_missing=False) | Rename(table) if table == name:
                    return True
    return False


def made_at(scan: RangeScan, name: TableName, since: Position) -> Position | None:
    """Position where the table was made, or named, that has a name in the end.

    None where none has, or it is not in the log.
    """
    position = None
    for event in scan.about(name, since):
        if _makes(event, name):
            position = event.position
        elif _ends(event, name):
            position = None
    return position


def _ends(event: LoggedStatement, name: TableName) -> bool:
    """True if no table has a name after a statement. Where it cannot be read, the table stops at it."""
    with suppress(DecodeError):
        for effect in effects(event.statement, event.database, event.session):
            match effect:
                case DropSchema():
                    return True
                case DropTable(table) | FreeName(table) if table == name:
                    return True
    return False


def renamed_tables(scan: RangeScan) -> Iterator[TableName]:
    """The names that statements give to tables, as far as they can be read."""
    for event in scan.statements:
        with suppress(DecodeError):  # its tables stop at it
            changes = name_changes(event.statement, event.database, event.session)
            yield from [change.table for change in changes if isinstance(change, Rename)]
