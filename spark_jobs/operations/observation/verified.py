"""Results of the last comparison of each table with its server: the lake's table ``verified/<source>``.

Put here: its rows, and reading and writing them. Not here: comparing (checks/verify), or who is warned (alarms.py).
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from spark_jobs.lake.commit import Checkpoint, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.text.counts import counted

EQUAL, DIFFERS, CHANGING, DROPPED, NOT_COMPARED = "equal", "differs", "changing", "dropped", "not compared"
"""States of a comparison."""
MENDED = "mended"
"""The state of a table that differed, since all of that was mended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRows:
    """Result of a comparison, in rows.

    missing: the lake lacks them. extra: only the lake has them. different: both have them, with other values. unread:
    they differ by their hashes, and were too many to be read again.
    """

    missing: int = 0
    extra: int = 0
    different: int = 0
    unread: int = 0

    @property
    def differing(self) -> int:
        """Rows that differ, in whatever way."""
        return sum(self.counts().values())

    def counts(self) -> dict[str, int]:
        """The four by their names."""
        return {name: getattr(self, name) for name in _COUNTS}


_COUNTS = tuple(item.name for item in fields(DifferingRows))
COLUMNS = {
    **dict.fromkeys(("schema", "table", "state", "position", "verified_at", "reason", "changes_to"), "STRING"),
    **dict.fromkeys(_COUNTS, "BIGINT"),
}
_ARROW = pa.schema([(name, pa.int64() if name in _COUNTS else pa.string()) for name in COLUMNS])


@dataclass(frozen=True, slots=True)
class Verified(DifferingRows):
    """The last comparison of one source table.

    state: as of a verdict (``equal``, ``differs``, ``changing``, ``dropped``, ``not compared``), of several downstream
    tables the worst; ``mended`` since all that differed was mended. position: up to where the lake held the log then.
    verified_at: RFC 3339. reason: why it was not compared. changes_to: position up to which rows with changes were
    compared since, and were equal.
    """

    schema: str
    table: str
    state: str
    position: str | None
    verified_at: str
    reason: str | None = None
    changes_to: str | None = None

    @property
    def equal_to(self) -> Position | None:
        """Position up to which the table is known to be equal, or to have been mended; None where it is not."""
        positions = [Position.parse(text) for text in (self.position, self.changes_to) if text]
        return max(positions, default=None) if self.state in (EQUAL, MENDED) else None

    @property
    def name(self) -> str:
        """Name of the table as status has it."""
        return f"{self.schema}.{self.table}"

    @property
    def age(self) -> timedelta:
        """Time since the comparison."""
        return datetime.now(UTC) - datetime.fromisoformat(self.verified_at)

    def doubt(self, source: str) -> str:
        """One line about a table that differs: since when, and what to do."""
        return (
            f"{self.name}: {counted(self.differing, 'row')} differed from the server's at {self.verified_at}; put the "
            f"server's in their place: stratalog mend --source {source} --table {self.name}"
        )

    def to_json(self) -> dict[str, Any]:
        """The comparison as an object of ``status --json``."""
        return {name: getattr(self, name) for name in COLUMNS if name not in ("schema", "table")}


def now() -> str:
    """The time of a comparison, as rows have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read(lake: Lake, source: str) -> dict[str, Verified]:
    """The comparisons of a source's tables by ``schema.table``, without a JVM. Raises LakeError."""
    table = lake.verified(source)
    rows = (Verified(**row) for row in table.rows()) if table.head() else ()
    return {verified.name: verified for verified in rows}


def note(lake: Lake, source: str, new: Iterable[Verified]) -> None:
    """Replace earlier comparisons of the tables by these, in one commit.

    Raises LostRace where another writer came between: the head is read before the rows.
    """
    table = lake.verified(source)
    head = table.head() or table.unwritten_head(COLUMNS, {})
    newest = read(lake, source) | {verified.name: verified for verified in new}
    rows = pa.Table.from_pylist([asdict(newest[name]) for name in sorted(newest)], schema=_ARROW)
    positions = [Position.parse(verified.position) for verified in newest.values() if verified.position]
    last = max([*positions, *([head.position] if head.position else [])], default=None)
    if last is not None:
        table.replace_rows(rows, {}, head, Checkpoint(last, new_batch()), columns=COLUMNS)
