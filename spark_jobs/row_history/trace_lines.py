"""Changes of rows as JSON lines.

Put here: the object of a change and of a statement, and which columns of a row differ. Not here: values as JSON
(changes/json_encoding.py), or lines for people (cli/trace_text.py).

The first nine keys are those of ``stratalog changes``. Behind them ``key`` identifies the row; ``before`` and ``after``
have the columns that differ, all of them where that is asked for; ``stretch`` and ``transaction`` say where the change
took effect, ``server_id``, ``connection``, ``statement`` and ``xa`` who made it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.changes.json_encoding import Cell, instant, pieces_of, text_of
from spark_jobs.row_history.column_view import ShownRow
from spark_jobs.row_history.trace import Traced, TracedChange, TracedStatement
from spark_jobs.text import disclosure


@dataclass(frozen=True, slots=True)
class TraceView:
    """Form of entries.

    is_whole: all columns, and not only those that differ. has_literals: statements with the values in them.
    """

    source: str
    is_whole: bool = False
    has_literals: bool = True

    def images(self, traced: TracedChange) -> tuple[ShownRow | None, ShownRow | None]:
        """The row before and after, as far as it is shown."""
        before, after = traced.change.before, traced.change.after
        if before is None or after is None or self.is_whole:
            return before, after
        return differing(before, after)

    def statement(self, text: str | None) -> str | None:
        """A statement's text as it is shown."""
        return text if text is None or self.has_literals else disclosure.statement(text)

    def line(self, traced: Traced) -> str:
        """An entry as a line of JSON, with its newline."""
        members = self._change_members(traced) if isinstance(traced, TracedChange) else self._statement_members(traced)
        return f"{{{', '.join(f'{text_of(name)}: {value}' for name, value in members.items())}}}\n"

    def _change_members(self, traced: TracedChange) -> dict[str, str]:
        # The keys of a line of ``changes`` come first.
        change, facts = traced.change, traced.facts
        before, after = self.images(traced)
        name = change.definition.name
        return {
            "source": text_of(self.source),
            "file": text_of(change.file),
            "offset": str(change.offset),
            "row": str(change.row),
            "gtid": text_of(change.gtid),
            "committed_at": text_of(instant(change.committed_at, 6)),
            "schema": text_of(name.schema),
            "table": text_of(name.table),
            "op": text_of(change.op),
            "key": _object(change.key),
            "before": _object(before),
            "after": _object(after),
            "stretch": str(traced.stretch),
            "transaction": text_of(str(facts.transaction)),
            "server_id": str(facts.server_id),
            "connection": text_of(facts.connection),
            "statement": text_of(self.statement(facts.statement)),
            "xa": text_of(facts.xa),
            **({"derived": "true"} if change.is_derived else {}),
        }

    def _statement_members(self, traced: TracedStatement) -> dict[str, str]:
        logged = traced.statement
        at = logged.position
        committed = instant(logged.committed_at, 6) if logged.committed_at else None
        return {
            "source": text_of(self.source),
            "file": text_of(at.file),
            "offset": str(at.offset),
            "row": "0",
            "gtid": text_of(traced.gtid),
            "committed_at": text_of(committed),
            "op": text_of("ddl"),
            "stretch": str(at.stretch),
            "database": text_of(logged.database),
            "statement": text_of(self.statement(logged.statement.text)),
        }


def differing(before: ShownRow, after: ShownRow) -> tuple[dict[str, Cell], dict[str, Cell]]:
    """Differences between two images of a row: a column that one of them leaves out is of the other alone."""
    unchanged = {name for name in before.keys() & after.keys() if _is_same(before[name], after[name])}
    # A column of the before image alone is unchanged: the log has it to identify the row.
    return (
        {name: cell for name, cell in before.items() if name not in unchanged and name in after},
        {name: cell for name, cell in after.items() if name not in unchanged},
    )


def _is_same(left: Cell, right: Cell) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    return text_of_cell(left) == text_of_cell(right)


def text_of_cell(cell: Cell) -> str:
    """A value as JSON, long ones too."""
    return cell if isinstance(cell, str) else "".join(cell.pieces())


def _object(row: ShownRow | None) -> str:
    if row is None:
        return "null"
    return "".join(pieces_of(_members(row)))


def _members(row: ShownRow) -> Iterable[Cell]:
    yield "{"
    for at, (name, cell) in enumerate(row.items()):
        yield f"{', ' if at else ''}{text_of(name)}: "
        yield cell
    yield "}"
