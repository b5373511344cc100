"""Progress of a consumer group: a position of the log, and the last entry after it that was acknowledged.

Put here: the order of entries, and cursors as JSON. Not here: where cursors are kept (records.py).
"""

from dataclasses import dataclass
from typing import Any

from spark_jobs.changes.formats.base import ChangeLine
from spark_jobs.log.position import Position

Key = tuple[int, int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class EntryPosition:
    """The place of an entry's end in the order of delivery, which is the same in every format.

    effect: where it takes effect: its event, or the commit of its XA transaction. logged: its event. row: the last one
    of the event that is in it. part: of that row, FIRST_OF_TWO or COMPLETE.
    """

    effect: Position
    logged: Position
    row: int
    part: int

    @classmethod
    def of(cls, line: ChangeLine, effect: Position, logged: Position) -> "EntryPosition":
        """The place of a line's end."""
        return cls(effect, logged, line.row + line.rows - 1, line.part)

    @property
    def key(self) -> Key:
        """Order of entries of one source."""
        return (*self.effect.order, *self.logged.order, self.row, self.part)


@dataclass(frozen=True, slots=True)
class Cursor:
    """position: where the log is to be read from, a transaction's begin. last: the last entry that was acknowledged.

    Entries up to ``last`` are not delivered again; None where all from the position on are.
    """

    position: Position
    last: EntryPosition | None = None

    def is_done(self, position: EntryPosition) -> bool:
        """True if an entry was delivered before, to its end: of several rows the last one, of two lines both."""
        return self.last is not None and position.key <= self.last.key

    @property
    def order(self) -> tuple[tuple[int, int, int], tuple[int, ...]]:
        """Order of the progress that cursors of one source stand for."""
        return (self.last.effect.order, self.last.key) if self.last else (self.position.order, ())

    def to_json(self) -> dict[str, Any]:
        members: dict[str, Any] = {"position": str(self.position)}
        if self.last:
            members["done"] = [str(self.last.effect), str(self.last.logged), self.last.row, self.last.part]
        return members

    @classmethod
    def from_json(cls, members: dict[str, Any]) -> "Cursor":
        position, log_position = Position.parse(members["position"]), members.get("done")
        if log_position is None:
            return cls(position)
        effect, logged, row, part = log_position
        return cls(position, EntryPosition(Position.parse(effect), Position.parse(logged), int(row), int(part)))
