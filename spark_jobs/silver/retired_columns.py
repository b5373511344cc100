"""Columns that are kept: what a column held until a statement gave it a type that does not hold every value.

Put here: what they are called. Not here: which statements begin one anew
(table_timeline.py).

With ``on_incompatible: new_column`` the lake's column is renamed at the statement, and a new one of its name begins.
The source knows nothing of kept columns: definitions do not have them, silver and downstream have them behind the
source's columns. Rows from before the statement have NULL in the new column, those behind it NULL in the kept one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.log.position import Position


@dataclass(frozen=True, slots=True)
class Kept:
    """A column that is kept: its name and Spark type in the lake.

    of: the source's column that goes on where it ended, as it is called now; None where it was dropped since. at: the
    statement between the two. The values of ``of`` are not known in rows written before it.
    """

    name: str
    type: str
    of: str | None
    at: Position

    def to_note(self) -> dict[str, Any]:
        """As it stands in a silver commit."""
        return {"name": self.name, "type": self.type, "of": self.of, "at": str(self.at)}

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> "Kept":
        return cls(note["name"], note["type"], note["of"], Position.parse(note["at"]))


def types_of(kept: Sequence[Kept]) -> dict[str, str]:
    """Names and Spark types."""
    return {one.name: one.type for one in kept}


def names_of(kept: Sequence[Kept]) -> str:
    """For people."""
    return ", ".join(one.name for one in kept)


def name_of(column: str, at: Position, taken: Collection[str]) -> str:
    """What a column is called that ended at a statement, where no other has the name. taken: in small letters."""
    stretch, number, offset = at.order
    name = f"_{column}_until_{f'{stretch}_' if stretch > 1 else ''}{number}_{offset}"
    nth = 1
    while (found := name if nth == 1 else f"{name}_{nth}").casefold() in taken:
        nth += 1
    return found


def led_on(kept: Sequence[Kept], names: Mapping[str, str]) -> tuple[Kept, ...]:
    """Behind a statement. names: of the source's columns, by the old one the new one."""
    return tuple(replace(one, of=names.get(one.of) if one.of else None) for one in kept)


def begun(kept: Sequence[Kept]) -> dict[str, Position]:
    """By the source's column, the last statement at which it began anew."""
    found: dict[str, Position] = {}
    for one in kept:
        if one.of is not None:
            found[one.of] = max(one.at, found.get(one.of, one.at))
    return found
