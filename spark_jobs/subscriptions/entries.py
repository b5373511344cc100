"""Entries of the log from a cursor on: changes, statements and edges of transactions as lines, in order.

Put here: reading bronze from a cursor. Not here: who may (records.py), or batches (subscription.py).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spark_jobs.bronze.effective_slices import EffectiveSlices, LocatedSlice
from spark_jobs.bronze.table import BronzeSnapshot, require_held
from spark_jobs.changes.bronze_feed import lines_with_slices
from spark_jobs.changes.formats.base import BEHIND, ChangeLine, Kind
from spark_jobs.changes.lines import JsonChanges, Output, TableFilter
from spark_jobs.changes.table_definitions import HistoryDefinitions
from spark_jobs.errors import LakeError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.schema.history import by_table
from spark_jobs.subscriptions.cursor import Cursor, EntryPosition


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line of the log, and where it stands.

    Attributes:
        kind: change, statement (DDL), begin or end (of a transaction).
        position: The position of its event: with ``row`` what identifies a repeat.
        row: The first row of the event that is in it.
        rows: How many of the event's rows are in it: of canal-json all of them, of other formats one.
        line: JSON text without a newline, as the format has it.
    """

    kind: Kind
    position: Position
    row: int
    rows: int
    line: str
    after: Cursor = field(repr=False, compare=False)
    """Cursor of the group once the entry is acknowledged."""

    @property
    def value(self) -> dict[str, Any]:
        """The line as an object."""
        value: dict[str, Any] = json.loads(self.line)
        return value


class EntryReader:
    """Reads entries of one source, without a JVM. One slice of bronze is in memory at a time."""

    def __init__(self, lake: Lake, source: str, is_wanted: TableFilter, output: Output) -> None:
        self._lake, self.source = lake, source
        self._is_wanted, self._output = is_wanted, output
        self.version = -1
        """Version of bronze, as the newest reading has it."""
        self.end: Position | None = None
        """Position where the newest reading ends."""

    @property
    def output(self) -> Output:
        """Form of entries."""
        return self._output

    def has_more(self) -> bool:
        """True if bronze has commits that the newest reading does not know. Raises LakeError."""
        return not self._lake.bronze(self.source).is_newest(self.version)

    def entries(self, cursor: Cursor, group: str) -> Iterator[LogEntry]:
        """The entries after a cursor, to the end of bronze as it is now. Raises LakeError, DecodeError, Unsupported."""
        snapshot = BronzeSnapshot.of(self._lake, self.source)
        self.version, self.end = snapshot.version, snapshot.end
        _require_held_position(snapshot, cursor.position, group)
        complete = HistoryDefinitions(partial(by_table, self._lake, self.source)).complete
        encoder = JsonChanges(self.source, self._is_wanted, complete, prepared=True, output=self._output)
        within = Range(cursor.position, snapshot.end)
        for log_slice, line in lines_with_slices(encoder, EffectiveSlices(snapshot).of_range(within), within):
            position = _entry_position(log_slice, line)
            if not cursor.is_done(position):
                row = line.row if 0 <= line.row < BEHIND else 0
                text = line.text.rstrip("\n")
                yield LogEntry(line.kind, position.logged, row, line.rows, text, Cursor(log_slice.begin, position))


def _entry_position(log_slice: LocatedSlice, line: ChangeLine) -> EntryPosition:
    file, stretch = (log_slice.cells.column(name)[0].as_py() for name in ("file", "stretch"))
    logged = Position(file, line.offset, stretch)
    return EntryPosition.of(line, log_slice.position if log_slice.committed else logged, logged)


def _require_held_position(snapshot: BronzeSnapshot, position: Position, group: str) -> None:
    """Check that bronze has the log from a position on. Raises LakeError."""
    try:
        require_held(snapshot.source, snapshot.checkpoint, position)
    except LakeError as error:
        raise LakeError(f"{error}; or move the group {group} to a later position") from error
    if snapshot.end < position:
        raise LakeError(
            f"{snapshot.source}: group {group} stands at {position}, beyond the end of the log that bronze holds, "
            f"{snapshot.end}; move the group to an earlier position"
        )
