"""Verb ``at``: tables as of a position.

Put here: its options, and what it shows. Not here: the rows (spark_jobs/pipeline/as_of).
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_jobs.cli.app import complete_sources, config_option, echo, single_source, tables_option
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.cli.output import print_grid, print_pieces
from spark_jobs.cli.streams import streaming
from spark_jobs.config.loader import load
from spark_jobs.errors import ConfigError
from spark_jobs.log.location import parse_location
from spark_jobs.text.counts import counted

if TYPE_CHECKING:
    from spark_jobs.pipeline.as_of.table_rows import QueryRows, TableAt
    from spark_jobs.pipeline.as_of.tables_at import SourceAt
    from spark_jobs.storage.files import StoredPath

_TO_FOLDER = ("parquet", "delta")
_FORMATS = ("table", "csv", "jsonl", *_TO_FOLDER)


@cli.command()
@click.argument("location", metavar="P")
@config_option
@click.option(
    "--source",
    metavar="NAME",
    shell_complete=complete_sources,
    help="Source of the tables; required if there are several sources.",
)
@tables_option("This table, by its name at P, or a pattern such as 'shop.*'")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="VALUE",
    help="Only the row with this key; for a key of several columns the values with commas, in the key's order; can be "
    "repeated.",
)
@click.option("--where", "condition", metavar="CONDITION", help="Only rows for which the condition is TRUE.")
@click.option("--raw", "is_raw", is_flag=True, help="Show the source's rows, without masks and filters.")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    help="table for the terminal; csv and jsonl to standard output or --to; parquet and delta to --to. "
    "Default: table, with --to parquet.",
)
@click.option("--to", "target", metavar="DIR", help="Write to this new folder, or to a store: s3a://bucket/prefix.")
@click.option(
    "--limit",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of rows on the terminal.",
)
def at(  # noqa: PLR0913 - options
    *,
    location: str,
    path: Path,
    source: str | None,
    tables: tuple[str, ...],
    keys: tuple[str, ...],
    condition: str | None,
    is_raw: bool,
    form: str | None,
    target: str | None,
    limit: int,
) -> None:
    """Show tables as they were at a position, GTID set or time.

    A position inside a transaction means the start of that transaction; all tables are at one position. Columns are
    those of that position; masks and filters are the current ones. Needs no server and no JVM. A position that the
    lake cannot reconstruct is refused, with the oldest possible position.

    \b
    Example: stratalog at 2026-11-21T08:00:00Z --table shop.orders --key 42
    Example: stratalog at mysql-bin.000042:1337 --table shop.orders --where "status = 'open'"
    Example: stratalog at mysql-bin.000042:1337 --table 'shop.*' --to ./shop-then --format delta
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.pipeline.as_of.row_files import target_of
    from spark_jobs.pipeline.as_of.table_rows import RowQuery
    from spark_jobs.pipeline.as_of.tables_at import tables_at

    form = _form(form, target, tables)
    parse_location(location)
    choice = RowQuery.of(keys, condition)
    pipeline = load(path)
    name = single_source(pipeline, source)
    folder = target_of(target, pipeline) if target is not None else None
    with tables_at(pipeline, name, tables, location, choice=choice, is_raw=is_raw) as source_at:
        _show(source_at, form, folder, limit)


def _form(form: str | None, target: str | None, tables: tuple[str, ...]) -> str:
    """Form of rows. Raises UsageError for options that do not go together."""
    form = form or ("parquet" if target else "table")
    if not tables:
        raise click.UsageError("--table: name a table, or a pattern such as 'shop.*'")
    if target is None and form in _TO_FOLDER:
        raise click.UsageError(f"--format {form} writes files: give --to DIR with it")
    if target is not None and form == "table":
        raise click.UsageError("--format table is for the terminal: leave --to out, or choose another format")
    return form


def _show(source_at: "SourceAt", form: str, folder: "StoredPath | None", limit: int) -> None:
    from spark_jobs.pipeline.as_of import row_files

    _print_absent(source_at)
    if folder is None and form != "table":
        _stream(source_at, form)
        return
    for table in source_at.tables:
        if folder is None:
            _print(table, limit)
            continue
        path, count = row_files.write_files(table.selection(), form, folder)
        echo(f"{path}\t{counted(count, 'row')} of {table.name} at {table.at}")
        _print_lacking(table)


def _print_absent(source_at: "SourceAt") -> None:
    for reason in source_at.absent.values():
        ERRORS.print(f"warning: left out: {reason}", style="yellow", markup=False, highlight=False)


def _print_lacking(table: "TableAt") -> None:
    if table.keys_never_whole:
        text = f"warning: {table.name} lacks {counted(table.keys_never_whole, 'key')}: no row image had all columns"
        ERRORS.print(text, style="yellow", markup=False, highlight=False)


def _print(table: "TableAt", limit: int) -> None:
    from spark_jobs.pipeline.as_of import row_files

    selection = table.selection()
    rows = selection.table()
    first_rows = rows.slice(0, limit)
    rest = f", of which {limit} are shown (--limit)" if len(rows) > limit else ""
    echo(f"{table.name} at {table.at}: {counted(len(rows), 'row')}{rest}")
    print_grid(rows.column_names, [["NULL" if c is None else c for c in row] for row in row_files.texts(first_rows)])
    _print_lacking(table)


def _stream(source_at: "SourceAt", form: str) -> None:
    """The rows of one table to standard output."""
    from spark_jobs.pipeline.as_of import row_files

    if len(source_at.tables) != 1:
        names = ", ".join(str(table.name) for table in source_at.tables)
        raise ConfigError({"--table": f"matches {names}, and one table goes to standard output; give --to DIR with it"})
    selection: QueryRows = source_at.tables[0].selection()
    if form == "jsonl":
        print_pieces(line for rows in selection.batches() for line in row_files.json_lines(rows))
    else:
        with streaming(sys.stdout):
            row_files.write_csv(selection, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    _print_lacking(source_at.tables[0])
