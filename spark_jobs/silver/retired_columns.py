"""Retired columns: the values until a statement gave the column a type that does not hold each of them.

Put here: their names. Not here: which statements retire a column
(table_timeline.py).

With ``on_incompatible: new_column`` the lake's column is renamed at the statement, and a new one of its name begins.
The source knows nothing of retired columns: definitions do not have them, silver and downstream have them after the
source's columns. Rows from before the statement have NULL in the new column, those after it NULL in the kept one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.log.position import Position


@dataclass(frozen=True, slots=True)
class RetiredColumn:
    """A column that is kept: its name and Spark type in the lake.

    of: the present name of the source's column that replaced it; None where that was dropped since. at: the
    statement between the two. The values of ``of`` are not known in rows written before it.
    """

    name: str
    type: str
    of: str | None
    at: Position

    def to_note(self) -> dict[str, Any]:
        """The retired column as a silver commit stores it."""
        return {"name": self.name, "type": self.type, "of": self.of, "at": str(self.at)}

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> "RetiredColumn":
        return cls(note["name"], note["type"], note["of"], Position.parse(note["at"]))


def types_of(retired: Sequence[RetiredColumn]) -> dict[str, str]:
    """Names and Spark types."""
    return {column.name: column.type for column in retired}


def names_of(retired: Sequence[RetiredColumn]) -> str:
    """Names of retired columns, for people."""
    return ", ".join(column.name for column in retired)


def name_of(column: str, at: Position, names: Collection[str]) -> str:
    """Name of a column that ended at a statement, where no other has the name. names: in small letters."""
    stretch, number, offset = at.order
    name = f"_{column}_until_{f'{stretch}_' if stretch > 1 else ''}{number}_{offset}"
    nth = 1
    while (candidate := name if nth == 1 else f"{name}_{nth}").casefold() in names:
        nth += 1
    return candidate


def renamed_through(retired: Sequence[RetiredColumn], names: Mapping[str, str]) -> tuple[RetiredColumn, ...]:
    """The retired columns after a statement. names: of the source's columns, by the old name the new one."""
    return tuple(replace(column, of=names.get(column.of) if column.of else None) for column in retired)


def restarts_of(retired: Sequence[RetiredColumn]) -> dict[str, Position]:
    """The position at which each of the source's columns restarted last."""
    restarts: dict[str, Position] = {}
    for column in retired:
        if column.of is not None:
            restarts[column.of] = max(column.at, restarts.get(column.of, column.at))
    return restarts
