"""Verbs ``trace`` and ``undo``: the changes of rows, and SQL that reverts them.

Put here: options, and where output goes. Not here: which changes there are (row_history/), or what an entry looks like
(trace_text.py).
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_jobs.cli.app import Verb, complete_sources, config_option, echo, single_source, table_name
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.cli.inspect import require_tables
from spark_jobs.cli.output import print_grid, print_pieces
from spark_jobs.cli.trace_text import TraceText, has_colours
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError
from spark_jobs.log.location import require_locations

if TYPE_CHECKING:
    from spark_jobs.binlog import TableName
    from spark_jobs.row_history.trace import Selection
    from spark_jobs.row_history.undo import Undo
    from spark_jobs.row_history.undo_steps import UndoStep


def choice_options(verb: Verb) -> Verb:
    """Options that choose changes."""
    # click lists options in reverse order of their decorators.
    options: tuple[Callable[[Verb], Verb], ...] = (
        click.option(
            "--source", metavar="NAME", shell_complete=complete_sources, help="Read the bronze of this source."
        ),
        click.option(
            "--from",
            "start",
            metavar="P",
            help="Start at this position, GTID set or time; extended to whole transactions.",
        ),
        click.option("--to", "stop", metavar="P", help="End at this position, GTID set or time."),
        click.option(
            "--key",
            "keys",
            multiple=True,
            metavar="KEY",
            help="Rows with this key, such as id=1 or order_id=100,line=1, or only the values in the key's order; can "
            "be repeated.",
        ),
        click.option(
            "--where",
            "condition",
            metavar="CONDITION",
            help="Changes whose row, before or after, fulfils this condition in the language of row filters.",
        ),
        click.option(
            "--gtid", "gtids", multiple=True, metavar="GTIDS", help="Changes of these transactions; can be "
            "repeated.",
        ),
        click.option(
            "--connection",
            "connections",
            multiple=True,
            type=click.IntRange(0),
            metavar="ID",
            help="Changes by this connection (thread id), if the log has it; can be repeated.",
        ),
        click.option(
            "--statement",
            "pattern",
            metavar="REGEX",
            help="Changes by statements that match, if the log has their text; case-insensitive.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        verb = option(verb)
    return verb


@cli.command()
@click.argument("table", metavar="DB.TABLE")
@config_option
@choice_options
@click.option("--all-columns", "is_whole", is_flag=True, help="Show all columns of a row, not only differing ones.")
@click.option("--raw", "is_raw", is_flag=True, help="Show the rows of bronze, without masks and row filters.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per change, one per line.")
def trace(table: str, path: Path, source: str | None, *, is_whole: bool, as_json: bool, **options: Any) -> None:
    """Show each change of rows, and its origin.

    Changes are shown in log order, with the row before and after, time, position, GTID, transaction, server and, if
    logged, connection and statement. DDL statements of the table are shown between them. A row is followed through
    changes of its key, and a table through renames. Rows are shown as downstream tables have them. Where no change is
    found, standard error says so, and the exit status is 0.

    \b
    Example: stratalog trace shop.orders -c pipeline.yaml --key 42
    Example: stratalog trace shop.order_items -c pipeline.yaml --key order_id=42,line=7 --json
    Example: stratalog trace shop.orders -c pipeline.yaml --where "total>1000" \\
                 --from 2026-11-21T08:00:00Z --to 2026-11-21T09:00:00Z
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.row_history.trace import TableTrace, TracedChange
    from spark_jobs.row_history.trace_lines import TraceView

    # Statements have literals of rows, which rules may hide.
    selection = selection_of(options)
    pipeline = load(path)
    name, origin = origin_of(pipeline, source, table)
    traced = TableTrace.of(pipeline, origin, name, selection)
    has_rules = bool(pipeline.filters.columns or pipeline.filters.rows or pipeline.sources[origin].redact)
    view = TraceView(origin, is_whole=is_whole, has_literals=selection.is_raw or not has_rules)
    text = TraceText(view, has_colours())

    has_changes = False

    def pieces() -> Iterator[str]:
        nonlocal has_changes
        for entry in traced.entries():
            has_changes = has_changes or isinstance(entry, TracedChange)
            yield from [view.line(entry)] if as_json else text.lines(entry)

    # Statements about the table alone are no answer to what became of a row.
    print_pieces(pieces())
    if not has_changes:
        ERRORS.print(traced.nothing_found(), markup=False, highlight=False)


@cli.command()
@click.argument("tables", metavar="DB.TABLE...", nargs=-1, required=True)
@config_option
@choice_options
@click.option("--check", "is_check", is_flag=True, help="List changes that cannot be reverted on the server.")
@click.option(
    "--raw", "is_raw", is_flag=True, help="Accept tables with rules about columns or rows: use the rows of bronze."
)
def undo(tables: tuple[str, ...], path: Path, source: str | None, *, is_check: bool, **options: Any) -> None:
    """Print SQL that reverts changes.

    Changes are reverted in reverse order, each transaction in one transaction. If a row was changed again later, its
    statement has no effect, and the next statement prints the conflict. Nothing is executed: read the SQL, then execute
    it with a client of the server. With --check, conflicts with the server's current rows are listed instead.

    \b
    Example: stratalog undo shop.orders -c pipeline.yaml \\
                 --gtid 3e11fa47-71ca-11e1-9e33-c80aa9429562:17 > undo.sql
    Example: stratalog undo shop.orders shop.order_items -c pipeline.yaml --connection 4711 \\
                 --from 2026-11-21T08:00:00Z --to 2026-11-21T08:05:00Z --check
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.pipeline.cascades.unlogged_changes import unlogged_changes_of
    from spark_jobs.row_history.undo import Undo

    # All of a table's changes are never meant; a range or a maker names those that are.
    selection = selection_of(options)
    chosen_by = ("start", "stop", "keys", "condition", "gtids", "connections", "pattern")
    if not any(options[name] for name in chosen_by):
        raise click.UsageError("say which changes: --from, --to, --key, --where, --gtid, --connection or --statement")
    pipeline = load(path)
    names = [origin_of(pipeline, source, table) for table in dict.fromkeys(tables)]
    origin = names[0][1]
    keys = unlogged_changes_of(pipeline, lake_of(pipeline), origin).changes
    script = Undo.of(pipeline, origin, [name for name, _ in names], selection, keys)
    if not is_check:
        print_pieces(script.script())
        return
    conflicts = _conflicts(pipeline, origin, script)
    print_grid(["conflict", "table", "key", "change", "why"], conflicts)
    echo(f"{len(script.steps) - len(conflicts):,} of {len(script.steps):,} changes can be taken back")
    if conflicts:
        sys.exit(1)


def _conflicts(pipeline: Pipeline, origin: str, script: "Undo") -> list[list[str]]:
    """Conflicts with the server's rows now, a row a change. Raises ConfigError, SourceError."""
    from spark_jobs.row_history.undo_check import GuardCheck
    from spark_jobs.row_history.undo_steps import SESSION
    from spark_jobs.source.open import open_source
    from spark_jobs.source.server import Server

    # Only SELECT, and settings of the session alone.
    server = open_source(origin, pipeline.sources[origin])
    if not isinstance(server, Server):
        raise ConfigError(f"--check: {origin} is a folder of files; run it with a configuration that names the server")
    with server.asking() as connection:
        for statement in SESSION:
            server.ask(connection, statement)
        check = GuardCheck(lambda query: [tuple(row.values()) for row in server.ask(connection, query)])
        return [
            [step.location, step.table.replace("`", ""), _key_text(step), step.traced.change.op, reason]
            for step, reason in check.conflicts(script.steps)
        ]


def _key_text(step: "UndoStep") -> str:
    from spark_jobs.row_history.trace_lines import text_of_cell

    return ", ".join(f"{name}={text_of_cell(value)}" for name, value in step.traced.change.key.items())


def selection_of(options: dict[str, Any]) -> "Selection":
    """Selection that the options ask for. Raises ConfigError where positions are wrong."""
    from spark_jobs.row_history.trace import Selection

    require_locations(options["start"], options["stop"])
    return Selection(**options)


def origin_of(pipeline: Pipeline, source: str | None, table: str) -> "tuple[TableName, str]":
    """A table by its name, and the source that it is of. Raises ConfigError, UsageError."""
    name = table_name(table)
    origin = single_source(pipeline, source)
    require_tables(pipeline, origin, (table,))
    return name, origin
