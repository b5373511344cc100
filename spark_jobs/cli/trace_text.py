"""Text output of ``trace``: an entry per change, its columns aligned, coloured on a terminal.

Put here: what an entry looks like. Not here: the verbs (rows.py), or JSON lines (row_history/trace_lines.py).
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import click
from rich.cells import cell_len

from spark_jobs.text.disclosure import cell, text_lines

if TYPE_CHECKING:
    from spark_jobs.row_history.trace import Traced, TracedChange, TracedStatement
    from spark_jobs.row_history.trace_lines import TraceView

_COLOURS = {"insert": "green", "update": "yellow", "delete": "red", "ddl": "magenta"}
_MOST = 200
"""Characters of a value or a statement that are shown."""
_WIDEST = 60
"""Columns of a terminal for the value before, at most: what is wider has the value after on the next line."""


def has_colours() -> bool:
    """True if standard output is a terminal whose user did not ask for none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


@dataclass(frozen=True, slots=True)
class TraceText:
    """Writes entries."""

    view: "TraceView"
    is_coloured: bool

    def lines(self, traced: "Traced") -> Iterator[str]:
        """The lines of an entry, the last of them empty."""
        from spark_jobs.row_history.trace import TracedChange

        yield from self._change_lines(traced) if isinstance(traced, TracedChange) else self._statement_lines(traced)
        yield "\n"

    def _change_lines(self, traced: "TracedChange") -> Iterator[str]:
        # What happened, then where and by whom, by which statement, and what differs.
        change, facts = traced.change, traced.facts
        key = ", ".join(f"{name}={_short(value)}" for name, value in _texts(change.key).items())
        time = f"{change.committed_at:%Y-%m-%d %H:%M:%S.%f}Z"
        head = self._paint(change.op, _COLOURS[change.op])
        head += " by a foreign key" if change.is_derived else ""
        yield f"{time}  {head}  {cell(str(change.definition.name))}{f'  {key}' if key else ''}\n"
        origin = [
            f"{f'{traced.stretch}/' if traced.stretch > 1 else ''}{change.file}:{change.offset}",
            *([f"gtid {change.gtid}"] if change.gtid else []),
            f"transaction {facts.transaction}",
            f"server {facts.server_id}",
            *([f"connection {facts.connection}"] if facts.connection is not None else []),
            *([f"xa {facts.xa}"] if facts.xa else []),
        ]
        yield f"  {self._faint(cell('  '.join(origin)))}\n"
        if text := self.view.statement(facts.statement):
            yield from self._text_lines(text)
        yield from self._columns(*self.view.images(traced))

    def _columns(self, *images: object) -> Iterator[str]:
        before, after = (_texts(image) for image in images)
        names = list(dict.fromkeys([*before, *after]))
        widths = [cell_len(cell(name)) for name in names]
        values = [_short(before[name]) for name in names if name in before and name in after]
        width = min(max(map(cell_len, values), default=0), _WIDEST)
        for name, size in zip_longest(names, widths):
            label = f"    {cell(name)}{' ' * (max(widths) - size)}  "
            if name in before and name in after:
                old, new = _short(before[name]), _short(after[name])
                gap = " " * max(0, width - cell_len(old))
                yield f"{label}{self._paint(old, 'red')}{gap}  →  {self._paint(new, 'green')}\n"
            elif images[0] is not None and images[1] is not None:
                yield f"{label}?{' ' * max(0, width - 1)}  →  {self._paint(_short(after[name]), 'green')}\n"
            else:
                yield f"{label}{_short({**before, **after}[name])}\n"

    def _statement_lines(self, traced: "TracedStatement") -> Iterator[str]:
        logged = traced.statement
        time = f"{logged.committed_at:%Y-%m-%d %H:%M:%S.%f}Z" if logged.committed_at else "unknown time"
        yield f"{time}  {self._paint('ddl', _COLOURS['ddl'])}\n"
        gtid = f"  gtid {traced.gtid}" if traced.gtid else ""
        yield f"  {self._faint(cell(f'{logged.position}{gtid}'))}\n"
        yield from self._text_lines(self.view.statement(logged.statement.text) or "")

    def _text_lines(self, statement: str) -> Iterator[str]:
        """A statement's lines, those after the first one indented; of a long one its beginning and how long it is."""
        text = statement if len(statement) <= _MOST else f"{statement[:_MOST]}… ({len(statement):,} characters)"
        for at, line in enumerate(text_lines(text)):
            yield f"{'    ' if at else '  '}{self._paint(line, 'cyan')}\n"

    def _paint(self, text: str, colour: str) -> str:
        return click.style(text, fg=colour) if self.is_coloured else text

    def _faint(self, text: str) -> str:
        return click.style(text, dim=True) if self.is_coloured else text


def _texts(row: object) -> dict[str, str]:
    from spark_jobs.row_history.trace_lines import text_of_cell

    return {} if row is None else {name: text_of_cell(value) for name, value in row.items()}  # type: ignore[attr-defined]


def _short(text: str) -> str:
    """A value on one line; of a long one its beginning and how long it is."""
    plain = cell(text)
    return plain if len(plain) <= _MOST else f"{plain[:_MOST]}… ({len(text):,} characters)"
