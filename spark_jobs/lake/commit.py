"""What a commit says of itself in its metadata.

Put here: the metadata's shape, kinds of commits. Not here: committing (table.py), or what a layer's notes mean.
"""

import json
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame

from spark_jobs.log.position import Position
from spark_jobs.text.sql import identifier

APPLICATION = "stratalog"
MAINTENANCE = "maintenance"
"""Kind of a commit that changes how rows are stored and no row."""
ALTERING = "altering"
"""Kind of a commit that leaves a table between two sets of columns, and of maintenance upon one."""
_STANDING = ("oldest", "removed_to", "uuid", "stretches", "folded")
"""Notes that stay true of a table until a commit says otherwise."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a commit of ours says of itself, in its metadata: one JSON object under the application's name."""

    position: Position
    batch: str
    kind: str = "live"
    notes: dict[str, Any] = field(default_factory=dict)

    def upon(self, head: "Head") -> "Checkpoint":
        """This one, with those notes of the head that stand until a commit says otherwise."""
        before = head.checkpoint.notes if head.checkpoint else {}
        kept = {key: before[key] for key in _STANDING if key in before and self.notes.get(key) is None}
        return replace(self, notes=self.notes | kept)

    def to_json(self) -> str:
        """Spark replaces ``${…}`` in the value of a setting, whatever it reads statements like; names may have it."""
        said = {"position": str(self.position), "batch": self.batch, "kind": self.kind} | self.notes
        return json.dumps({APPLICATION: said}).replace("${", "\\u0024{")

    @classmethod
    def from_json(cls, text: str | None) -> "Checkpoint | None":
        """None for the commit of somebody else (an OPTIMIZE by hand, a CREATE)."""
        try:
            found = json.loads(text or "null")
        except ValueError:  # metadata is free text; whoever wrote this one is not us
            return None
        said = found.get(APPLICATION) if isinstance(found, dict) else None
        if not said:
            return None
        notes = {key: value for key, value in said.items() if key not in ("position", "batch", "kind")}
        return cls(Position.parse(said["position"]), said["batch"], said["kind"], notes)


def new_batch() -> str:
    """The id by which a writer finds its own commit again."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Design:
    """Columns of a table, by name and Spark type, and its properties."""

    columns: dict[str, str]
    properties: dict[str, str]

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows with these columns and no others, in order."""
        return rows.selectExpr(
            *(f"CAST({identifier(n)} AS {kind}) AS {identifier(n)}" for n, kind in self.columns.items())
        )


@dataclass(frozen=True, slots=True)
class Head:
    """A table as it was read: Delta version, commit counter, newest checkpoint (None in a table without rows yet)."""

    version: int
    counter: int
    checkpoint: Checkpoint | None
    design: "Design | None" = None
    """Of a table that is not there yet, or is to begin anew: its next commit makes it, or puts rows and columns in the
    place of all that it has, and holds a position as any other."""
    widens: bool = False
    """Whether its next commit adds columns that the table does not have; they are an error otherwise."""
    whole: Checkpoint | None = None
    """What the newest commit says of all, where ``checkpoint`` is what it says of a part (multi_source.py)."""

    @property
    def position(self) -> Position | None:
        return self.checkpoint.position if self.checkpoint else None
