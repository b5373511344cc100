"""The verbs that show what the log holds: events, changes, export, schema.

Put here: where bytes come from, and how they are listed. Not here: decoding, or JSON lines
(spark_jobs/changes/feed.py).
"""

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_jobs.cli.app import ERRORS, chosen_sources, cli, config_option, echo, echo_json, spark_of, tables_option
from spark_jobs.cli.output import _CHUNK, print_grid, print_pieces
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.log.location import parse_place, require_places
from spark_jobs.log.position import Position
from spark_jobs.text.disclosure import cell

if TYPE_CHECKING:
    from spark_jobs.binlog import TableName
    from spark_jobs.log.position import Position


@cli.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--summary", is_flag=True, help="Instead: events and bytes by type; they add up to the file's size.")
@tables_option("Only events of this table")
def events(files: tuple[Path, ...], tables: tuple[str, ...], *, as_json: bool, summary: bool) -> None:
    """List the events of binlog files.

    The columns are those of SHOW BINLOG EVENTS; - is standard input.

    Example: stratalog events mysql-bin.000001
    """
    if summary and tables:
        raise click.UsageError("--table goes with the listing, not with --summary")
    if summary:
        _summaries(files, as_json=as_json)
    else:
        print_pieces(_listing(files, tables, as_json=as_json))


def _listing(files: tuple[Path, ...], tables: tuple[str, ...], *, as_json: bool) -> Iterator[str]:

    from spark_jobs.binlog import list_events

    patterns = [Pattern.parse(table) for table in tables]
    names: set[str] = set()
    has_lines = False
    for file in files:
        for event in list_events(chunks_of(file), _name(file)):
            name_parts = (event.table or ".").split(".", 1)
            names |= {event.table} if event.table else set()
            if patterns and not any(pattern.matches(*name_parts) for pattern in patterns):
                continue
            has_lines = True
            if as_json:
                yield json.dumps({"file": _name(file)} | asdict(event), ensure_ascii=False) + "\n"
                continue
            cells = [event.offset, event.type, event.server_id, event.stop, event.transaction, event.table, event.note]
            yield "\t".join(["" if value is None else cell(str(value)) for value in (_name(file), *cells)]) + "\n"
    if tables and not has_lines:
        _warn_of_no_table(tables, "the files have", names)


def _warn_of_no_table(tables: tuple[str, ...], place: str, names: Iterable[str]) -> None:
    """Files may have nothing of a table: that is no wrong use, unlike a name that no table of a lake has."""
    text = f"warning: --table: {_no_table(tables, place, names)}"
    ERRORS.print(text, style="yellow", markup=False, highlight=False)


def _no_table(tables: tuple[str, ...], place: str, names: Iterable[str]) -> str:
    """That --table matches none of the names that there are."""
    listed = sorted(names)
    rest = f" and {len(listed) - _SHOWN} more" if listed[_SHOWN:] else ""
    names_ = ", ".join(listed[:_SHOWN]) + rest if listed else "none"
    return f"no table like {', '.join(tables)}; {place} {names_}"


_SHOWN = 10


def _summaries(files: tuple[Path, ...], *, as_json: bool) -> None:
    """One account a file; one that does not add up to decoded and counted events ends with the error, and status 1."""
    from spark_jobs.binlog import summarize

    failed = False
    for file in files:
        summary = summarize(chunks_of(file), _name(file))
        if as_json:
            echo_json({"file": _name(file)} | asdict(summary))
        else:
            rows = [[type_.type, type_.treatment, str(type_.events), str(type_.bytes)] for type_ in summary.types]
            print_grid([_name(file), "treatment", "events", "bytes"], [
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
@click.option(
    "-c", "--config", "path", type=click.Path(path_type=Path), metavar="FILE", help="pipeline.yaml, to read bronze"
)
@click.option("--source", metavar="NAME", help="The source whose bronze is read.")
@click.option("--from", "start", metavar="P", help="From this position, GTID set or time on; whole transactions.")
@click.option("--to", "stop", metavar="P", help="Up to this position, GTID set or time.")
@tables_option()
def changes(
    *,
    files: tuple[Path, ...],
    path: Path | None,
    source: str | None,
    start: str | None,
    stop: str | None,
    tables: tuple[str, ...],
) -> None:
    """Print row changes as JSON lines.

    They are read from binlog files (- is standard input) or from bronze. Memory is bounded: long values are written in
    pieces. Rows of an XA transaction are printed where the log commits it.

    \b
    Example: stratalog changes mysql-bin.000001 --table shop.orders
    Example: stratalog changes -c pipeline.yaml --source shop --from mysql-bin.000001:4
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.changes.feed import changes_of_bronze, changes_of_files, wanted_tables

    if bool(files) == bool(path):
        raise click.UsageError("give binlog files, or -c FILE with --source, and not both")
    in_scope = wanted_tables(tables)
    if files:
        if source or start or stop:
            raise click.UsageError("--source, --from and --to go with -c FILE")
        names: set[TableName] = set()

        def noted(name: "TableName") -> bool:
            names.add(name)
            return in_scope(name)

        print_pieces(changes_of_files(((_name(file), chunks_of(file)) for file in files), noted))
        if tables and not any(map(in_scope, names)):
            _warn_of_no_table(tables, "the files have rows of", map(str, names))
    else:
        assert path is not None
        print_pieces(_bronze_changes(path, source, start, stop, (tables, in_scope), reader=changes_of_bronze))


def _bronze_changes(
    path: Path, source: str | None, start: str | None, stop: str | None, chosen_tables: Any, *, reader: Any
) -> Iterator[str]:
    from spark_jobs.binlog import TableName
    from spark_jobs.downstream import publication
    from spark_jobs.lake.layout import lake_of

    require_places(start, stop)
    pipeline = load(path)
    names = chosen_sources(pipeline, source)
    if len(names) != 1:
        raise click.UsageError(f"--source: name one of {', '.join(names)}")
    tables, in_scope = chosen_tables
    lake = lake_of(pipeline)
    published = [TableName(*entry.name) for entry in publication.read(lake, names[0])]
    # Before Spark is started, which takes half a minute. Log that was extracted alone may have tables not listed yet.
    head, surveyed = lake.bronze(names[0]).head(), publication.surveyed(lake, names[0])
    is_listed = head and head.position and surveyed and surveyed >= head.position
    if tables and is_listed and not any(map(in_scope, published)):
        raise ConfigError({"--table": _no_table(tables, f"the log of {names[0]} has rows of", map(str, published))})
    with spark_of(pipeline) as spark:
        yield from reader(spark, lake, names[0], start, stop, is_wanted=in_scope)


@cli.command()
@config_option
@click.option("--source", required=True, metavar="NAME", help="The source whose log is written.")
@click.option("--to", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR", help="An empty folder.")
def export(path: Path, source: str, folder: Path) -> None:
    """Write bronze back as binlog files.

    Byte for byte, the files are those of the server.

    Where the source redacts tables, the events of their rows are blank in it; a list says how much of each file is.

    Example: stratalog export -c pipeline.yaml --source shop --to ./restored
    """
    from spark_jobs.bronze.export import export as write
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
@click.option("--source", metavar="NAME", help="The source whose tables are shown; not needed where there is one.")
@tables_option("Only this table or pattern")
@click.option("--at", "place", metavar="P", help="As of this position, GTID set or time; without it where silver is.")
@click.option("--history", is_flag=True, help="Instead: every statement, and all else that told of a table's columns.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a table, with --history one a version; a line each."
)
def schema(
    path: Path, source: str | None, tables: tuple[str, ...], place: str | None, *, history: bool, as_json: bool
) -> None:
    """Show table definitions at a position of the log.

    Columns, keys, and with --history what each statement changed.

    \b
    Example: stratalog schema -c pipeline.yaml --table shop.orders
    Example: stratalog schema -c pipeline.yaml --source shop --at mysql-bin.000042:1337 --json
    Example: stratalog schema -c pipeline.yaml --table 'shop.*' --history
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.changes.feed import wanted_tables
    from spark_jobs.cli import schema_listing

    in_scope = wanted_tables(tables)
    pipeline = load(path)
    names = chosen_sources(pipeline, source)
    if len(names) != 1:
        raise click.UsageError(f"--source: name one of {', '.join(names)}")
    listing = schema_listing.listing_of(pipeline, names[0], in_scope, lambda: position_of(pipeline, names[0], place))
    if tables and not listing.versions:
        raise ConfigError(f"--table: the schema history of {names[0]} has no table like {', '.join(tables)}")
    if as_json:
        for line in listing.as_json(history=history):
            echo_json(line)
    elif history:
        for definition in listing.histories():
            print_grid([definition.title, "known from", "committed", "what it changed"], definition.rows)
    else:
        for definition in listing.definitions(dropped=bool(tables)):
            echo(definition.title)
            print_grid(["  column", "type", "null", "character set", "if left out", ""], definition.rows)


def position_of(pipeline: Pipeline, source: str, place: str | None) -> "Position | None":
    """Where a place lies in bronze; Spark is started for those that are no position of a log in one stretch."""
    from spark_jobs.bronze.commit import stretches
    from spark_jobs.bronze.seek import LogSeeker
    from spark_jobs.bronze.table import BronzeSnapshot
    from spark_jobs.lake.layout import lake_of

    if place is None:
        return None
    parsed = parse_place(place)
    snapshot = BronzeSnapshot.of(lake_of(pipeline), source)
    if isinstance(parsed, Position) and ("/" in place.partition(":")[0] or len(stretches(snapshot.checkpoint)) == 1):
        return parsed
    with spark_of(pipeline) as spark:
        return LogSeeker(spark, snapshot).position(place)


def chunks_of(file: Path) -> Iterator[bytes]:
    """A file's bytes as they come; those of standard input for ``-``."""
    if str(file) == "-":
        while chunk := os.read(sys.stdin.fileno(), _CHUNK):
            yield chunk
        return
    try:
        _require_file(file)
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise StratalogError(f"{file}: cannot be read: {error.strerror}") from error


def _name(file: Path) -> str:
    """A file's name as text: bytes of it that are no UTF-8 are written in hex."""
    return os.fsencode(file.name).decode("utf-8", "backslashreplace")


def _require_file(file: Path) -> None:
    """Raises StratalogError for what is no file: a FIFO that nobody writes to would be waited for without end.

    What the shell made a pipe of, as in ``events <(zcat FILE)``, stands in /dev/fd.
    """
    mode = file.stat().st_mode
    is_pipe_of_shell = stat.S_ISFIFO(mode) and file.parent in (Path("/dev/fd"), Path("/proc/self/fd"))
    if stat.S_ISDIR(mode) or not (stat.S_ISREG(mode) or is_pipe_of_shell):
        kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))
        kind = next((word for is_kind, word in kinds if is_kind(mode)), "a device")
        raise StratalogError(f"{file}: is {kind}, not a file; give binlog files, or - to read standard input")
