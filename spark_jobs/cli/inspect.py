"""Verbs that show what the log holds: events, changes, export, schema.

Put here: where bytes come from, and how they are listed. Not here: decoding, or JSON lines
(spark_jobs/changes/feed.py).
"""

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_jobs.cli.app import (
    chosen_sources,
    complete_sources,
    config_option,
    echo,
    echo_json,
    output_options,
    single_source,
    spark_of,
    tables_option,
)
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.cli.output import _CHUNK, print_grid, print_pieces
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.log.location import require_locations
from spark_jobs.runtime.arrow import load_without_pandas
from spark_jobs.text.disclosure import cell
from spark_jobs.text.suggestions import did_you_mean

if TYPE_CHECKING:
    from spark_jobs.binlog import TableDefinition, TableName
    from spark_jobs.changes.lines import Output
    from spark_jobs.config.model import Pipeline
    from spark_jobs.log.position import Position


_schema_option = click.option(
    "--schema",
    "dump",
    type=click.Path(path_type=Path),
    metavar="DUMP",
    help="Output of mysqldump --no-data: column names for logs without them.",
)


@cli.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option("--summary", is_flag=True, help="Sum up events and bytes by type; they add up to the file's size.")
@tables_option("Only events of this table")
@_schema_option
def events(
    files: tuple[Path, ...], tables: tuple[str, ...], dump: Path | None, *, as_json: bool, summary: bool
) -> None:
    """List the events of binlog files.

    The columns are those of SHOW BINLOG EVENTS; - is standard input. With --schema, the note of a TABLE_MAP has the
    table's columns.

    \b
    Example: stratalog events mysql-bin.000001
    Example: stratalog events mysql-bin.000001 --schema shop.sql
    """  # noqa: D301 - click's mark for lines that stay as they are
    if summary and (tables or dump):
        raise click.UsageError("--table and --schema go with the listing, not with --summary")
    if summary:
        _summaries(files, as_json=as_json)
    else:
        print_pieces(_listing(files, tables, dump, as_json=as_json))


def _dumped(dump: Path | None) -> "tuple[TableDefinition, ...]":
    """The tables of a schema dump; those that cannot be read are warned of. Raises ConfigError."""
    if dump is None:
        return ()
    from spark_jobs.schema.dump import definitions_of

    try:
        definitions, unread = definitions_of(dump)
    except StratalogError as error:
        raise ConfigError({"--schema": str(error)}) from error
    for problem in unread:
        ERRORS.print(f"warning: --schema: {problem}", style="yellow", markup=False, highlight=False)
    return definitions


_HEADER = "file\toffset\ttype\tserver_id\tend\ttransaction\ttable\tnote\n"
"""Names of the columns, on a terminal alone: programs read lines that are events."""


def _listing(files: tuple[Path, ...], tables: tuple[str, ...], dump: Path | None, *, as_json: bool) -> Iterator[str]:
    from spark_jobs.binlog import list_events
    from spark_jobs.changes.table_definitions import FollowedDefinitions

    # Tables of all files, for the message where the pattern matched none of them.
    patterns = [Pattern.parse(table) for table in tables]
    names: set[str] = set()
    has_lines = False
    if sys.stdout.isatty() and not as_json:
        yield _HEADER
    followed = FollowedDefinitions(_dumped(dump)) if dump else None
    for file in files:
        for event in list_events(chunks_of(file), _file_text(file), followed):
            name_parts = (event.table or ".").split(".", 1)
            names |= {event.table} if event.table else set()
            if patterns and not any(pattern.matches(*name_parts) for pattern in patterns):
                continue
            has_lines = True
            if as_json:
                yield json.dumps({"file": _file_text(file)} | asdict(event), ensure_ascii=False) + "\n"
                continue
            cells = [event.offset, event.type, event.server_id, event.stop, event.transaction, event.table, event.note]
            yield "\t".join(["" if value is None else cell(str(value)) for value in (_file_text(file), *cells)]) + "\n"
    if tables and not has_lines:
        _warn_of_no_table(tables, "the files have", names)


def _warn_of_no_table(tables: tuple[str, ...], location: str, names: Iterable[str]) -> None:
    """Files may have nothing of a table: that is no wrong use, unlike a name that no table of a lake has."""
    text = f"warning: --table: {_no_table(tables, location, names)}"
    ERRORS.print(text, style="yellow", markup=False, highlight=False)


def _no_table(tables: tuple[str, ...], location: str, names: Iterable[str]) -> str:
    """Message that --table matches none of the names that there are."""
    listed = sorted(names)
    rest = f" and {len(listed) - _SHOWN} more" if listed[_SHOWN:] else ""
    name_list = ", ".join(listed[:_SHOWN]) + rest if listed else "none"
    near = "".join(dict.fromkeys(did_you_mean(table, listed) for table in tables))
    return f"no table like {', '.join(tables)}; {location} {name_list}{near}"


_SHOWN = 10


def _summaries(files: tuple[Path, ...], *, as_json: bool) -> None:
    """One account a file; one that does not add up to decoded and counted events ends with the error, and status 1."""
    from spark_jobs.binlog import summarize

    # Every file has its account, also after one that could not be read.
    failed = False
    for file in files:
        summary = summarize(chunks_of(file), _file_text(file))
        if as_json:
            echo_json({"file": _file_text(file)} | asdict(summary))
        else:
            rows = [[type_.type, type_.treatment, str(type_.events), str(type_.bytes)] for type_ in summary.types]
            print_grid([_file_text(file), "treatment", "events", "bytes"], [
                *rows,
                ["file head", "decoded", "", str(summary.magic)],
                *([["not read", "refused", "", str(summary.rest)]] if summary.rest else []),
                ["in all", "", str(sum(type_.events for type_ in summary.types)), str(summary.size)],
            ])  # fmt: skip
        if summary.error:
            ERRORS.print(summary.error, style="red", markup=False, highlight=False)
        failed |= summary.error is not None
    if failed:
        sys.exit(1)


@cli.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@config_option
@click.option("--source", metavar="NAME", shell_complete=complete_sources, help="Read the bronze of this source.")
@click.option(
    "--from", "start", metavar="P", help="Start at this position, GTID set or time; extended to whole transactions."
)
@click.option("--to", "stop", metavar="P", help="End at this position, GTID set or time.")
@tables_option()
@_schema_option
@output_options
@click.option(
    "--with-cascades",
    "cascades",
    is_flag=True,
    help='Also print the changes of child rows that were derived from foreign keys (on_cascade: apply), as "derived".',
)
def changes(  # noqa: PLR0913 - options
    *,
    files: tuple[Path, ...],
    path: Path,
    source: str | None,
    start: str | None,
    stop: str | None,
    tables: tuple[str, ...],
    dump: Path | None,
    form: str,
    statements: bool | None,
    transactions: bool,
    cascades: bool,
) -> None:
    """Print row changes as JSON lines.

    Changes are read from binlog files (- is standard input) or from bronze. Memory is bounded: long values are written
    in pieces. Rows of an XA transaction are printed at its commit.

    Names, signs and labels that a file lacks (MySQL 5.7, MariaDB's default) come from CREATE and ALTER TABLE
    statements in the files, then from --schema. Integers of unknown sign are printed as signed, and the key "unsigned"
    has the unsigned value.

    \b
    Example: stratalog changes mysql-bin.000001 --table shop.orders
    Example: stratalog changes mysql-bin.000001 --schema shop.sql
    Example: stratalog changes mysql-bin.000001 --format debezium
    Example: stratalog changes -c pipeline.yaml --source shop --from mysql-bin.000001:4
    """  # noqa: D301 - click's mark for lines that stay as they are
    load_without_pandas()
    from spark_jobs.changes.lines import Output

    context = click.get_current_context()
    if files and context.get_parameter_source("path") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("give binlog files, or -c FILE, and not both")
    # Files have no derived changes, and a lake has no need of a dump.
    output = Output.of(form, statements=statements, transactions=transactions, cascades=cascades)
    if files:
        if cascades:
            raise click.UsageError("--with-cascades is for bronze, and no binlog files go with it")
        if source or start or stop:
            raise click.UsageError("--source, --from and --to are for bronze, and no binlog files go with them")
        _print_changes_of_files(files, tables, _dumped(dump), output)
    else:
        if dump:
            raise click.UsageError("--schema goes with binlog files; of a lake, the schema history has the columns")
        print_pieces(_bronze_changes(path, source, (start, stop), tables, output=output))


def _print_changes_of_files(
    files: tuple[Path, ...], tables: tuple[str, ...], dump: "tuple[TableDefinition, ...]", output: "Output"
) -> None:
    from spark_jobs.changes.feed import changes_of_files
    from spark_jobs.changes.lines import wanted_tables

    # The names seen are for the message where no table matched.
    in_scope = wanted_tables(tables)
    names: set[TableName] = set()

    def noted(name: "TableName") -> bool:
        names.add(name)
        return in_scope(name)

    chunks = ((_file_text(file), chunks_of(file)) for file in files)
    print_pieces(changes_of_files(chunks, noted, output=output, dump=dump))
    if tables and not any(map(in_scope, names)):
        _warn_of_no_table(tables, "the files have rows of", map(str, names))


def _bronze_changes(
    path: Path, source: str | None, paths: tuple[str | None, str | None], tables: tuple[str, ...], *, output: "Output"
) -> Iterator[str]:
    from spark_jobs.changes.bronze_feed import changes_of_bronze
    from spark_jobs.changes.lines import wanted_tables
    from spark_jobs.config.loader import load
    from spark_jobs.lake.layout import lake_of

    require_locations(*paths)
    pipeline = load(path)
    name = single_source(pipeline, source)
    require_tables(pipeline, name, tables)
    yield from changes_of_bronze(lake_of(pipeline), name, *paths, is_wanted=wanted_tables(tables), output=output)


def require_tables(pipeline: "Pipeline", source: str, tables: tuple[str, ...]) -> None:
    """Check that some table of a source's log matches ``--table``. Raises ConfigError."""
    from spark_jobs.binlog import TableName
    from spark_jobs.changes.lines import wanted_tables
    from spark_jobs.downstream import publication
    from spark_jobs.lake.layout import lake_of

    lake = lake_of(pipeline)
    published = [TableName(*entry.name) for entry in publication.read(lake, source)]
    # Log that was extracted alone may have tables not listed yet.
    head, surveyed = lake.bronze(source).head(), publication.surveyed_to(lake, source)
    is_listed = head and head.position and surveyed and surveyed >= head.position
    if tables and is_listed and not any(map(wanted_tables(tables), published)):
        raise ConfigError({"--table": _no_table(tables, f"the log of {source} has rows of", map(str, published))})


@cli.command()
@config_option
@click.option("--source", required=True, metavar="NAME", shell_complete=complete_sources, help="Source of the log.")
@click.option("--to", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR", help="An empty folder.")
def export(path: Path, source: str, folder: Path) -> None:
    """Write bronze back as binlog files.

    The files equal the server's, byte for byte, except for redacted and forgotten rows. A list has the number of
    changed bytes of each file.

    Example: stratalog export -c pipeline.yaml --source shop --to ./restored
    """
    from spark_jobs.bronze.export import export as write
    from spark_jobs.config.loader import load
    from spark_jobs.lake.layout import lake_of

    pipeline = load(path)
    chosen_sources(pipeline, source)
    redacted: list[list[str]] = []
    with spark_of(pipeline) as spark:
        for exported in write(spark, lake_of(pipeline), source, folder):
            part = f", {exported.partial}" if exported.partial else ""
            echo(f"{exported.path}\t{exported.size} bytes{part}")
            if exported.redacted:
                notice = exported.redacted
                redacted.append([exported.path.name, ", ".join(notice.tables), str(notice.events), str(notice.bytes)])
    print_grid(["redacted in", "tables", "events", "bytes"], redacted)


@cli.command()
@config_option
@click.option(
    "--source",
    metavar="NAME",
    shell_complete=complete_sources,
    help="Source of the tables; required if there are several sources.",
)
@tables_option("Only this table or pattern")
@click.option(
    "--at",
    "location",
    metavar="P",
    help="As of this position, GTID set or time; default: silver's checkpoint, with --history the end of bronze.",
)
@click.option("--history", is_flag=True, help="Show the schema history: each version of a definition, and its origin.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per table, with --history per version; one per line."
)
def schema(
    path: Path, source: str | None, tables: tuple[str, ...], location: str | None, *, history: bool, as_json: bool
) -> None:
    """Show table definitions at a position of the log.

    Columns, keys, and with --history what each statement changed.

    \b
    Example: stratalog schema -c pipeline.yaml --table shop.orders
    Example: stratalog schema -c pipeline.yaml --source shop --at mysql-bin.000042:1337 --json
    Example: stratalog schema -c pipeline.yaml --table 'shop.*' --history
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.changes.lines import wanted_tables
    from spark_jobs.cli import schema_listing
    from spark_jobs.config.loader import load

    # One source: a history has one log.
    in_scope = wanted_tables(tables)
    pipeline = load(path)
    name = single_source(pipeline, source)
    at = partial(position_of, pipeline, name, location)
    listing = schema_listing.listing_of(pipeline, name, in_scope, at, history=history)
    if tables and not listing.versions:
        raise ConfigError(f"--table: the schema history of {name} has no table like {', '.join(tables)}")
    if as_json:
        for line in listing.as_json(history=history):
            echo_json(line)
    elif history:
        for definition in listing.histories():
            print_grid([definition.title, "known from", "committed", "what it changed"], definition.rows)
    else:
        for definition in listing.definitions(dropped=bool(tables)):
            echo(definition.title)
            print_grid(["  column", "type", "null", "character set", "default", ""], definition.rows)


def position_of(pipeline: "Pipeline", source: str, location: str | None) -> "Position | None":
    """Position of a location in bronze."""
    from spark_jobs.bronze.seek import LogSeeker
    from spark_jobs.bronze.table import BronzeSnapshot
    from spark_jobs.lake.layout import lake_of

    if location is None:
        return None
    return LogSeeker(BronzeSnapshot.of(lake_of(pipeline), source)).position(location)


def chunks_of(file: Path) -> Iterator[bytes]:
    """A file's bytes as they come; those of standard input for ``-``."""
    if str(file) == "-":
        yield from _standard_input()
        return
    try:
        _require_file(file)
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise StratalogError(f"{file}: cannot be read: {error.strerror}") from error


def _standard_input() -> Iterator[bytes]:
    try:
        while chunk := os.read(sys.stdin.fileno(), _CHUNK):
            yield chunk
    except OSError as error:
        raise StratalogError(f"standard input cannot be read: {error.strerror}; give a file or a pipe") from error


def _file_text(file: Path) -> str:
    """A file's name as text: bytes of it that are no UTF-8 are written in hex."""
    return os.fsencode(file.name).decode("utf-8", "backslashreplace")


def _require_file(file: Path) -> None:
    """Check that a path is a regular file: reading a FIFO without a writer would wait forever. Raises StratalogError.

    What the shell made a pipe of, as in ``events <(zcat FILE)``, is in /dev/fd.
    """
    mode = file.stat().st_mode
    is_pipe_of_shell = stat.S_ISFIFO(mode) and file.parent in (Path("/dev/fd"), Path("/proc/self/fd"))
    if stat.S_ISDIR(mode) or not (stat.S_ISREG(mode) or is_pipe_of_shell):
        kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))
        kind = next((word for is_kind, word in kinds if is_kind(mode)), "a device")
        raise StratalogError(f"{file}: is {kind}, not a file; give binlog files, or - to read standard input")
