"""Check of an undo on a server now: guards that hold, and changes that it would not revert.

Put here: asking the server, and what earlier statements of the same script do to later ones. Not here: statements
(undo_steps.py), or connecting (source/server.py).

Only SELECT is executed. A statement of the script meets rows as statements before it left them: of such rows it is
known what they have, and the server is asked about the rest.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from spark_jobs.row_history.undo_steps import UndoStep

Ask = Callable[[str], list[tuple[object, ...]]]
"""Executes a query of the session that ``undo_steps.SESSION`` sets."""


@dataclass(slots=True)
class _RowNow:
    """A row as the script has left it so far.

    origin: the condition by which the server finds the row that it was; None where the script inserted it.
    columns: conditions that are known to hold, by column. exists: whether it is there; None: the server is asked.
    """

    origin: str | None
    exists: bool | None = None
    columns: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class GuardCheck:
    """Check of the steps of a script, in their order."""

    ask: Ask
    _rows: dict[tuple[str, str], _RowNow] = field(default_factory=dict)
    """Rows now, by table and the condition that finds the row."""
    _copies: dict[tuple[str, str], int] = field(default_factory=dict)
    """Number of rows of these values, of tables without a key."""

    def conflicts(self, steps: Iterable[UndoStep]) -> Iterator[tuple[UndoStep, str]]:
        """The steps that would do nothing, and why."""
        for step in steps:
            reason = self._with_key(step) if step.has_key else self._copies_conflict(step)
            if reason:
                yield step, reason

    def _with_key(self, step: UndoStep) -> str | None:
        if step.after is None:
            return self._inserted(step)
        row = self._current_row(step.table, step.after.lookup)
        if not self._exists(step.table, row):
            return "the row is gone"
        if not self._holds(step, row):
            return "the row was changed since"
        if step.before is None:
            row.exists, row.columns, row.origin = False, {}, None
            return None
        if step.moves and self._exists(step.table, self._current_row(step.table, step.before.lookup)):
            return "another row has the key that it had"
        # The row has its key before from here on, with what the script gave it.
        values = {name: step.before.conditions[name] for name in step.columns}
        moved = _RowNow(row.origin, exists=True, columns=row.columns | values)
        if step.moves:
            row.exists, row.columns, row.origin = False, {}, None
        self._rows[step.table, step.before.lookup] = moved
        return None

    def _inserted(self, step: UndoStep) -> str | None:
        assert step.before
        if self._exists(step.table, self._current_row(step.table, step.before.lookup)):
            return "a row has its key again"
        columns = {name: step.before.conditions[name] for name in step.columns}
        self._rows[step.table, step.before.lookup] = _RowNow(None, exists=True, columns=columns)
        return None

    def _current_row(self, table: str, condition: str) -> _RowNow:
        return self._rows.setdefault((table, condition), _RowNow(condition))

    def _exists(self, table: str, row: _RowNow) -> bool:
        if row.exists is None:
            row.exists = bool(self.ask(f"SELECT 1 FROM {table} WHERE {row.origin}"))
        return row.exists

    def _holds(self, step: UndoStep, row: _RowNow) -> bool:
        """True if all guards of a step hold of a row that is there."""
        unknown = {name: guard for name, guard in step.guards.items() if name not in row.columns}
        if any(row.columns[name] != guard for name, guard in step.guards.items() if name in row.columns):
            return False
        if not unknown:
            return True
        if row.origin is None:
            return False
        guards = ", ".join(f"{guard} AS guard{at}" for at, guard in enumerate(unknown.values()))
        answers = self.ask(f"SELECT {guards} FROM {step.table} WHERE {row.origin}")
        true_guards = {name: guard for (name, guard), holds in zip(unknown.items(), answers[0], strict=True) if holds}
        row.columns |= true_guards
        return len(true_guards) == len(unknown)

    def _copies_conflict(self, step: UndoStep) -> str | None:
        if step.after is not None:
            count = self._count(step.table, step.after.lookup)
            if not count:
                return "no row has these values any more"
            self._copies[step.table, step.after.lookup] = count - 1
        if step.before is not None:
            self._copies[step.table, step.before.lookup] = self._count(step.table, step.before.lookup) + 1
        return None

    def _count(self, table: str, condition: str) -> int:
        position = table, condition
        if position not in self._copies:
            (count,) = self.ask(f"SELECT COUNT(*) FROM {table} WHERE {condition}")[0]
            self._copies[position] = int(str(count))
        return self._copies[position]
