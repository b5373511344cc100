"""Output that verbs share: grids, streams of text, and the results of tables.

Put here: what several verbs say. Not here: what one verb alone says; that stands beside it.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table as Grid

from spark_jobs.cli.app import echo
from spark_jobs.cli.group import ERRORS, Terminal
from spark_jobs.cli.streams import streaming
from spark_jobs.text.disclosure import cell

if TYPE_CHECKING:
    from spark_jobs.pipeline.outcome import Outcome


_WIDE = 10_000
"""Columns of a line of output: no name is cut to what a terminal or a pipe has."""

_CHUNK = 4 << 20
"""Bytes of a file that are read at once."""


def print_outcome(source: str, outcome: "Outcome") -> None:
    """Print what a run did: a grid a layer, what rules left out, and on standard error why tables stopped."""
    # Rows of silver: changes of the log, and the net changes that they came to.
    rows = [
        [
            str(table.name),
            str(table.changes),
            str(table.inserts),
            str(table.updates),
            str(table.deletes),
            str(table.range.stop),
            f"{table.seconds:.1f}",
        ]
        for table in outcome.compacted
    ]
    print_grid(["silver", "changes", "insert", "update", "delete", "position", "seconds"], rows)
    # Events that each rule left out.
    filtered = [
        [str(table.name), rule, str(count)]
        for table in outcome.compacted
        for rule, count in sorted(table.left_out.items())
    ]
    print_grid(["silver", "filtered by", "events"], filtered)
    # Changes of child rows that the log does not have.
    print_grid(
        ["silver", "derived from foreign keys"],
        [[str(table), str(count)] for table, count in sorted(outcome.derived.items())],
    )
    # Rows downstream, a line a target.
    merged = [
        [
            f"{table.name} into {table.into}" if table.into else str(table.name),
            str(table.inserted),
            str(table.updated),
            str(table.deleted),
            str(table.range.stop),
            f"{table.seconds:.1f}",
        ]
        for table in outcome.merged
    ]
    print_grid(["downstream", "inserted", "updated", "deleted", "position", "seconds"], merged)
    if not rows and not merged and not outcome.stopped:
        echo(f"{source}: silver and downstream have nothing new")
    print_stops(outcome)
    print_new(outcome)


def print_stops(outcome: "Outcome") -> None:
    """Print on standard error why which tables stopped."""
    for reason in outcome.stopped.values():
        ERRORS.print(f"stopped: {reason}", style="red", markup=False, highlight=False)


def cascades_line(source: str, cascades: Sequence[Mapping[str, str]]) -> str:
    """All foreign keys of a source that change rows without an event in the log, as one message, with their rules.

    cascades: items of ``cascades`` in ``status --json``, at least one.
    """
    from spark_jobs.ddl.foreign_keys import cascading_rules

    tables = [
        f"{key['table']} ({key['constraint']} -> {key['parent']} {cascading_rules(key['on_delete'], key['on_update'])})"
        for key in cascades
    ]
    keys = "1 foreign key changes" if len(cascades) == 1 else f"{len(cascades)} foreign keys change"
    return (
        f"{source}: {keys} child rows, which the server does not log: {', '.join(tables)}; compare these tables "
        "(stratalog verify) and mend their rows (stratalog mend), or have the changes derived (on_cascade: apply, "
        "stratalog docs cascades)"
    )


def print_new(outcome: "Outcome") -> None:
    if outcome.new:
        ERRORS.print(f"{len(outcome.new)} new tables; Dagster shows them after its code location is reloaded")


def print_grid(head: list[str], rows: list[list[str]]) -> None:
    """Print a table; where it is wider than the terminal, a block of lines for each row."""
    if not rows:
        return
    cells = [[cell(text) for text in row] for row in (head, *rows)]
    if sys.stdout.isatty() and _width(cells) > Terminal().width:
        echo("\n".join(_stacked(cells[0], cells[1:])))
        return
    grid = Grid(*cells[0], box=None, pad_edge=False)
    for row in cells[1:]:
        grid.add_row(*row)
    console = Terminal(highlight=False, width=_WIDE)
    if sys.stdout.isatty():
        console.print(grid)
        return
    with console.capture() as text:
        console.print(grid)
    echo("\n".join(line.rstrip() for line in text.get().splitlines()))  # as wide as what is in the line


def _width(cells: list[list[str]]) -> int:
    """Columns of a table with two between any two of its own."""
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def _stacked(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Each row as lines: its first cell, and below it the others after their heads."""
    indent = max(map(cell_len, head[1:]), default=0)
    for first, *rest in rows:
        yield first.strip()
        yield from (
            f"  {name}{' ' * (indent - cell_len(name))}  {text}".rstrip()
            for name, text in zip(head[1:], rest, strict=True)
            if text
        )


def print_pieces(pieces: Iterable[str]) -> None:
    """Text to standard output, many pieces at a time; what came before a failure is out before its message.

    Raises BrokenPipeError where the reader has left, and StratalogError where the output cannot be written otherwise.
    """
    waiting: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            waiting.append(piece.encode(errors="backslashreplace"))  # a file may be called by what is no UTF-8
            size += len(waiting[-1])
            if size > _CHUNK >> 4:
                _write_pieces(waiting)
                waiting, size = [], 0
    finally:
        _write_pieces(waiting)


def _write_pieces(pieces: list[bytes]) -> None:
    with streaming(sys.stdout):
        sys.stdout.buffer.write(b"".join(pieces))
        sys.stdout.buffer.flush()
