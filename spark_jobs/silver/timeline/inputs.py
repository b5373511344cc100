"""Inputs of a table's timeline, besides the scan of its log.

Put here: the choices of the configuration, and what asks others (the schema history, a server, other tables, the first
rows in a part of the log). Not here: what follows from the answers (build.py and the modules that it uses).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_jobs.binlog import TableDefinition, TableName, definitions_of, passed_over
from spark_jobs.binlog.events.scanner import Bytes, view
from spark_jobs.bronze.boundaries import first_transaction
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.bronze.scan import common_definition
from spark_jobs.config.filters import Filters
from spark_jobs.ddl.definitions import HistoryAnswer
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.table_timeline import SilverSnapshot, TableContents

Complete = Callable[[TableDefinition, Position | None], TableDefinition]
"""Adds to a logged definition what a server told: (definition, the last change before the range's end)."""
ByHistory = Callable[[TableName, Position], HistoryAnswer | None]
"""Answer of the schema history about a table that nothing else is known of at a position: there, or from where on it
does; None where it does not."""


ContentsOf = Callable[[TableName, Position], TableContents]
"""Contents of a table where a statement begins. Raises TableStopped where they are not to be found out."""


Skipped = Callable[[str, str], frozenset[Position]]
"""The events that are quarantined for the table of a schema and a name."""
First = Callable[[TableName, Sequence[Range]], Mapping[int, TableDefinition]]
"""Definition of a table's first rows in each part of the log, by the part's ordinal."""


FirstRowPosition = Callable[[TableName, Range, Callable[[TableDefinition], bool]], Position]
"""Position where the first transaction begins in a range that has rows of a table with such a definition."""


def position_of_rows(slices: SliceIndex) -> FirstRowPosition:
    """Look into the first slice that a table has in the range."""

    def position(name: TableName, part: Range, matches: Callable[[TableDefinition], bool]) -> Position:
        row = slices.first(name, [part]).get(0)
        if row is None:
            return part.start
        at = slices.position(row)
        return at if slices.is_moved(row) else first_transaction(slices.record(row), at, name, matches)

    return position


def first_rows(slices: SliceIndex, skipped: Skipped = lambda _schema, _table: frozenset()) -> First:
    """Read the first slices that a table has in each part, until one has rows and not their TABLE_MAP alone."""

    def first(name: TableName, parts: Sequence[Range]) -> dict[int, TableDefinition]:
        first_definitions: dict[int, TableDefinition] = {}
        pending = list(enumerate(parts))
        while pending:
            ranges, further = [part for _, part in pending], []
            rows = slices.first(name, ranges)
            for nth, cells in zip(rows, slices.cells(list(rows.values())), strict=True):
                at, part = pending[nth]
                position, here = slices.position(rows[nth]), slices.begin(rows[nth])
                payload = payload_without(skipped(name.schema, name.table), here, cells["payload"])
                # the slices of one XA transaction have one place: the next one is not after it
                is_moved = slices.is_moved(rows[nth])
                definitions = definitions_of(here.file, here.offset, cells["context"], payload, unused=is_moved)
                of_table = [(position, definition) for definition in definitions if definition.name == name]
                if of_table:
                    first_definitions[at] = common_definition(name, of_table)
                else:
                    further.append((at, Range(replace(position, offset=position.offset + 1), part.stop)))
            pending = further
        return first_definitions

    return first


def payload_without(skips: frozenset[Position], start: Position, payload: Bytes) -> Bytes:
    """A slice's bytes without its quarantined events. Raises DecodeError where an offset has no event."""
    size = len(view(payload))
    in_file = (skip for skip in skips if (skip.stretch, skip.file) == (start.stretch, start.file))
    offsets = [skip.offset for skip in in_file if start.offset <= skip.offset < start.offset + size]
    return passed_over(start.file, start.offset, payload, offsets) if offsets else payload


@dataclass(frozen=True, slots=True)
class Beginning:
    """Part of a table that may be in the log before bronze begins.

    created_at: where bronze's log makes the table, before a position; None where it does not. is_needed: whether the
    table needs what was logged before, also where it is not complete.
    """

    created_at: Callable[[TableName, Position], Position | None]
    is_needed: bool = False


@dataclass(frozen=True, slots=True)
class ReplayState:
    """State of silver after a range that is replayed. emptied: the position of the last statement that emptied it."""

    emptied: Position | None


@dataclass(frozen=True, slots=True)
class TimelineInputs:
    """Inputs of a timeline besides the scan of the log."""

    complete: Complete
    first: First
    on_drop_empties: bool = False
    """True if DROP TABLE takes the rows away."""
    system_zone: str | None = None
    """The server's own time zone, where the configuration names it."""
    is_keyless: bool = False
    """Rows are identified by all columns, whatever the log says: silver has them so, since it was emptied the last
    time."""
    begins_anew: bool = False
    """True if a column is restarted where a statement gives it a type that does not hold every value, and the old one
    is kept; unless why_not says why it does not: then the table stops, as otherwise."""
    why_not: str | None = None
    contents: ContentsOf | None = None
    """Contents of other tables, for those that take their names or definitions; without it a name that another table
    takes stops its table."""
    filters: Filters = field(default_factory=Filters)
    """Statements that are not carried out."""
    first_definition: TableDefinition | None = None
    """The definition whose defaults hold at the range's start, where no standing says that."""
    beginning: Beginning | None = None
    """Rows that may lack where the log commits an XA transaction whose rows bronze does not hold."""
    by_history: ByHistory = lambda _name, _start: None
    """Names that neither the log nor a statement has."""
    base: Callable[[], SilverSnapshot | None] = lambda: None
    """State of silver where the range begins."""
    replay: ReplayState | None = None
    """The range is replayed within what the table has, and silver shows what came of it."""
    numbers: bool = False
    """True if columns whose names nothing tells are numbered."""
    first_row_position: FirstRowPosition = lambda _name, part, _matches: part.start
    """Position where the first transaction of a range begins that has rows of a table, so defined."""
