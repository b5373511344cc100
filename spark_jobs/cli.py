"""``stratalog``: one function a verb.

Put here: options, and how results are printed. Not here: work; each verb calls what Dagster's assets call.
Results go to standard output, everything else to standard error. Exit status: 0 done, 1 failed, 2 wrong use or
configuration.
"""

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.filesize import decimal
from rich.logging import RichHandler
from rich.markup import escape
from rich.table import Table as Grid

from spark_jobs.config import Pipeline, load
from spark_jobs.errors import ConfigError, LakeError, StratalogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.backfill import Layer
    from spark_jobs.binlog import TableName
    from spark_jobs.maintenance import Upkeep
    from spark_jobs.mend import Reset
    from spark_jobs.pipeline import Outcome
    from spark_jobs.position import Position
    from spark_jobs.retention import Collected
    from spark_jobs.schema_audit import SchemaAudit
    from spark_jobs.source import Source
    from spark_jobs.staging import Progress
    from spark_jobs.status import EndpointStatus, SourceStatus, TableStatus
    from spark_jobs.verify import Verdict

_ERRORS = Console(stderr=True, soft_wrap=True)
_WIDE = 10_000
"""Columns of a line of output: a table is as wide as it is, and no name is cut to what a terminal or a pipe has."""
_AT_A_GLANCE = 20
"""Tables of a source that status lists; of more, those that need a look."""
_CHUNK = 4 << 20
"""Bytes of a file that are read at once."""

config_option = click.option(
    "-c", "--config", "path", required=True, type=click.Path(path_type=Path), metavar="FILE", help="pipeline.yaml"
)
yes_option = click.option("--yes", is_flag=True, help="Do it; without it only what would be done is said.")
source_option = click.option("--source", metavar="NAME", help="Only this source of the configuration.")


class _Verbs(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has had enough, which click would call a failure
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("-v", "--verbose", is_flag=True, help="Say more of what is being done.")
@click.version_option(package_name="stratalog")
def cli(*, verbose: bool) -> None:
    """Binary logs of MySQL and MariaDB into Delta tables: bronze, silver, downstream."""
    rich = RichHandler(console=_ERRORS, show_path=False, markup=False, highlighter=None)
    plain = logging.StreamHandler()  # a file or a pipe gets a line a message, however long
    handler, text = (rich, "%(message)s") if _ERRORS.is_terminal else (plain, "%(asctime)s %(message)s")
    logging.basicConfig(level=logging.WARNING, format=text, datefmt="%H:%M:%S", handlers=[handler], force=True)
    logging.getLogger("spark_jobs").setLevel(logging.DEBUG if verbose else logging.INFO)
    if not verbose:
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs a trace of what it raises all the same


@cli.command()
@config_option
@click.option("--connect", is_flag=True, help="Also ask every server and directory.")
def check(path: Path, *, connect: bool) -> None:
    """Read the configuration and list every problem at once.

    Example: stratalog check -c pipeline.yaml --connect
    """
    pipeline = load(path)
    asked = {name: _asked(pipeline, name) for name in (pipeline.sources if connect else ())}
    problems = {
        f"sources.{name}" + (f" ({at + 1})" if at else ""): text
        for name, (found, _) in asked.items()
        for at, text in enumerate(found)
    }
    problems |= _dump_problems(pipeline)
    if connect and not problems:
        problems = _rule_problems(pipeline)
    if problems:
        raise ConfigError(problems)
    for name, (_, said) in asked.items():
        if said:
            click.echo(f"sources.{name}: {said}")
    click.echo(f"{path}: no problems found")


def _asked(pipeline: Pipeline, name: str) -> tuple[list[str], str | None]:
    """What keeps a source from being read, and where it stands."""
    from spark_jobs.pipeline import lake_of
    from spark_jobs.source.open import open_sources
    from spark_jobs.status import require_readable

    sources = open_sources(name, pipeline.sources[name])
    found = [text for source in sources for text in _problems(source, several=len(sources) > 1)]
    try:
        return found, None if found else require_readable(pipeline, lake_of(pipeline), name)
    except StratalogError as error:
        return [str(error).removeprefix(f"{name}: ")], None


def _dump_problems(pipeline: Pipeline) -> dict[str, str]:
    """What keeps schema dumps from telling all of their tables, by key."""
    from spark_jobs import dumped
    from spark_jobs.source.files import Files

    found = {}
    for name, one in pipeline.sources.items():
        listed = Files(name, one.files) if one.files and one.files.is_dir() else None
        for at, text in enumerate(dumped.problems(name, one.schema_dump, listed) if one.schema_dump else ()):
            found[f"sources.{name}.schema_dump" + (f" ({at + 1})" if at else "")] = text
    return found


def _rule_problems(pipeline: Pipeline) -> dict[str, str]:
    """What is wrong with rules and routes about the tables that the servers have now, by key."""
    from spark_jobs.route_check import problems_of_tables
    from spark_jobs.rule_check import problems_of_rules
    from spark_jobs.schema.definitions import on_server
    from spark_jobs.source.open import open_source
    from spark_jobs.source.server import Server

    has_rules = pipeline.event_rules or pipeline.row_rules or pipeline.column_rules
    if not has_rules and not pipeline.routes and len(pipeline.sources) == 1:
        return {}
    sources = [open_source(name, one) for name, one in pipeline.sources.items()]
    servers = [one for one in sources if isinstance(one, Server)]
    known = {server.name: list(on_server(server).values()) for server in servers}
    definitions = [one for each in known.values() for one in each]
    found = problems_of_rules(pipeline, definitions, is_all=len(servers) == len(sources))
    return found | problems_of_tables(pipeline, known)


def _problems(source: "Source", *, several: bool) -> list[str]:
    """What keeps a server from being read; of several, under its address."""
    from spark_jobs.source.server import Server

    try:
        found = source.problems() if isinstance(source, Server) else []
    except StratalogError as error:
        found = [str(error).removeprefix(f"{source.name}: ")]
    return [f"{source.endpoint}: {text}" for text in found] if several else found


@cli.command()
@config_option
@source_option
def run(path: Path, source: str | None) -> None:
    """Extract, compact and merge until caught up with the source's end as it was at the start.

    Example: stratalog run -c pipeline.yaml
    """
    from spark_jobs.pipeline import run_source
    from spark_jobs.schema_audit import audit_after_run

    def one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Outcome":
        extracted, outcome = run_source(spark, pipeline, name)
        _say_extracted(extracted)
        _say_outcome(name, outcome)
        _say_schema(audit_after_run(pipeline, name))
        return outcome

    _each_source(path, source, one)


@cli.command()
@config_option
@source_option
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Read copies of binlog files instead: what the source purged before it was read, and what gc removed.",
)
def extract(path: Path, source: str | None, archive: Path | None) -> None:
    """Source to bronze alone.

    \b
    Example: stratalog extract -c pipeline.yaml --source shop
    Example: stratalog extract -c pipeline.yaml --source shop --archive ./saved-binlogs
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.archive import read_archive
    from spark_jobs.pipeline import extract_source

    def one(spark: "SparkSession", pipeline: Pipeline, name: str) -> None:
        if archive is None:
            _say_extracted(extract_source(spark, pipeline, name))
            return
        done = read_archive(spark, pipeline, name, archive)
        if done.range:
            click.echo(f"{name}: put back {done.range}: {done.bytes} bytes")
        if done.extracted:
            _say_extracted(done.extracted)

    if archive and len(_chosen(load(path), source)) > 1:
        raise click.UsageError("--archive DIR holds the log of one source; give --source with it")
    _each_source(path, source, one)


@cli.command()
@config_option
@source_option
def compact(path: Path, source: str | None) -> None:
    """Bronze to silver alone, up to bronze's end.

    Example: stratalog compact -c pipeline.yaml
    """
    from spark_jobs.pipeline import compact_source

    _one_layer(path, source, compact_source)


@cli.command()
@config_option
@source_option
def merge(path: Path, source: str | None) -> None:
    """Silver to downstream alone, up to silver's checkpoint.

    Example: stratalog merge -c pipeline.yaml
    """
    from spark_jobs.pipeline import merge_source

    _one_layer(path, source, merge_source)


@cli.command()
@config_option
@source_option
@click.option("--all", "everything", is_flag=True, help="List every table, however many there are.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(path: Path, source: str | None, *, everything: bool, as_json: bool) -> None:
    """How far every layer is: positions, backlog, lag, retention margin, stopped tables.

    Example: stratalog status -c pipeline.yaml --json
    """
    from spark_jobs.pipeline import lake_of
    from spark_jobs.status import status as status_of

    pipeline = load(path)
    found = [status_of(pipeline, lake_of(pipeline), name) for name in _chosen(pipeline, source)]
    if as_json:
        click.echo(json.dumps({"sources": {one.source: one.to_json() for one in found}}, indent=2))
        return
    for one in found:
        _say_status(one, everything=everything)


def _say_status(one: "SourceStatus", *, everything: bool) -> None:
    """How a source is in a word, where its layers are, and its tables. What is wrong goes to standard error."""
    word, colour = _condition(one)
    states = Counter(table.state for table in one.tables)
    facts = [
        ("log", one.end or "unknown"),
        ("bronze", _bronze(one)),
        ("margin", _margin(one)),
        ("server", f"{one.endpoint}, in stretch {one.stretch}" if one.endpoint else ""),
        ("tables", ", ".join(f"{count} {state}" for state, count in states.most_common())),
    ]
    console = Console(soft_wrap=True, highlight=False, width=_WIDE)
    console.print(f"{escape(one.source)}: [{colour}]{word}[/]")
    for name, said in facts:
        if said:
            console.print(f"  {name:<8}{said}", markup=False)
    _print_grid(
        ["endpoint", "", "unavailable since", "next try"],
        [[e.endpoint, _health(e), e.unavailable_since or "", e.next_try or ""] for e in one.endpoints],
    )
    shown = [t for t in one.tables if everything or len(one.tables) <= _AT_A_GLANCE or not _is_well(t, one)]
    _print_grid(
        ["table", "state", "silver", "downstream", "older rows"],
        [[t.table, t.state, t.silver or "", t.downstream or "", _older_rows(t)] for t in shown],
    )
    _print_grid(
        ["table", "into", "downstream"],
        [[t.table, to["table"] or "", to["downstream"] or ""] for t in shown for to in t.targets or ()],
    )
    _print_grid(["keys shared", "settled up to"], [[t.table, t.watermark] for t in one.tables if t.watermark])
    _print_grid(
        ["passed over for", "at", "event", "since"],
        [[skip["table"], skip["position"], skip["event"], skip["skipped_at"]] for skip in one.skips],
    )
    if len(shown) < len(one.tables):
        click.echo(f"{len(one.tables) - len(shown)} more are as they should be; --all lists them")
    _say_problems(one)


def _say_problems(one: "SourceStatus") -> None:
    said = [f"{one.source}: endpoint {e.endpoint}: {e.reason}" for e in one.endpoints if e.reason]
    said += [one.error] if one.error else []
    said += [f"{one.source}: {one.warning}"] if one.warning else []
    said += [
        f"{table.table} stopped: {table.reason}" for table in one.tables if table.reason and table.state != "reset"
    ]
    said += [f"{table.table} is {table.reason}" for table in one.tables if table.state == "reset"]
    said += [
        f"{table.table} lacks {table.keys_never_whole} keys: row images left columns out of them, and none was whole"
        for table in one.tables
        if table.keys_never_whole
    ]
    for line in said:
        click.echo(line, err=True)


def _condition(one: "SourceStatus") -> tuple[str, str]:
    """A source in a word or two, and their colour."""
    stopped = sum(table.state == "stopped" for table in one.tables)
    if one.error:
        return "cannot be read", "red"
    if stopped:
        return f"{stopped} of {len(one.tables)} tables stopped", "red"
    if one.bronze is None:
        return "nothing read yet", "yellow"
    if one.warning:
        return "near to losing log", "red"
    going = [table for table in one.tables if table.state in ("current", "reset")]
    behind = one.backlog_bytes or any(not table.is_at(one.bronze) for table in going)
    return ("behind", "yellow") if behind else ("up to date", "green")


def _bronze(one: "SourceStatus") -> str:
    if one.bronze is None or one.backlog_bytes is None:
        return one.bronze or "empty"
    if not one.backlog_bytes:
        return f"{one.bronze}, nothing behind"
    lag = "" if one.lag_seconds is None else f", {_span(one.lag_seconds)}"
    return f"{one.bronze}, behind by {decimal(one.backlog_bytes)}{lag}"


def _margin(one: "SourceStatus") -> str:
    if one.retention_margin_bytes is None:
        return ""
    hours = f", {_span(one.retention_margin_hours * 3600)}" if one.retention_margin_hours else ""
    return f"{decimal(one.retention_margin_bytes)}{hours} of log before bronze's end are still at the source"


def _span(seconds: float) -> str:
    """Seconds in the largest unit of which there are two."""
    units = [(86_400, "days"), (3_600, "hours"), (60, "minutes")]
    size, unit = next(((size, unit) for size, unit in units if seconds >= 2 * size), (1, "seconds"))
    return f"{seconds / size:.0f} {unit}"


def _is_well(table: "TableStatus", one: "SourceStatus") -> bool:
    """Whether there is nothing to look at."""
    is_current = table.state == "current" and table.is_at(one.bronze) and not table.keys_never_whole
    return table.state == "ignored" or (is_current and table.complete is not False)


@cli.command()
@config_option
@source_option
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the pages are written; without it, where pipeline.yaml says: reports.to.",
)
def report(path: Path, source: str | None, folder: Path | None) -> None:
    """An HTML page a source: where its layers are, and what its runs did, out of the lake's history.

    Example: stratalog report -c pipeline.yaml --to ./reports
    """
    from spark_jobs.pipeline import lake_of
    from spark_jobs.report import write

    pipeline = load(path)
    to = folder or pipeline.reports.to
    if to is None:
        raise ConfigError("reports.to is null in pipeline.yaml: name a folder by --to")
    for name in _chosen(pipeline, source):
        click.echo(write(pipeline, lake_of(pipeline), name, to))


def _health(endpoint: "EndpointStatus") -> str:
    state = "available" if endpoint.available else "unavailable"
    return f"in use, {state}" if endpoint.in_use else state


def _older_rows(table: "TableStatus") -> str:
    """Whether a table has the rows from before its log, or how far their load is."""
    if table.load is None:
        return {True: "complete", False: "not loaded", None: ""}[table.complete]
    state, rows, estimate = table.load["state"], table.load["rows"], table.load["estimated_rows"]
    return {
        "reading": f"{rows} read of {estimate or 'unknown'}",
        "read": f"{rows} read",
    }.get(state, "load stopped")


@cli.command("load")
@config_option
@click.option("--source", metavar="NAME", help="The source whose tables are loaded; not needed where there is one.")
@click.option(
    "--table", "tables", multiple=True, metavar="DB.TABLE", help="Only this table; may be given several times."
)
@click.option(
    "--chunk-rows",
    default=50_000,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Rows of a range of the key that one query reads; what is read twice after a crash is a few of them.",
)
def load_tables(path: Path, source: str | None, tables: tuple[str, ...], chunk_rows: int) -> None:
    """Complete tables that are older than their log, from the server's own tables and without locks.

    All that are not complete, as status shows them, unless --table names some. Begins with a run and ends with one. A
    load that was cut short goes on where it was.

    \b
    Example: stratalog load -c pipeline.yaml --source shop
    Example: stratalog load -c pipeline.yaml --source shop --table shop.orders --chunk-rows 200000
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.load import load_source, require_server

    pipeline = load(path)
    names = _chosen(pipeline, source)
    if len(names) != 1:
        raise click.UsageError(f"--source: name one of {', '.join(names)}")
    require_server(pipeline, names[0])

    def one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Outcome":
        done = load_source(spark, pipeline, name, tables=tables, chunk_rows=chunk_rows, said=_say_progress)
        rows = [[str(table), str(found.rows), str(found.since)] for table, found in sorted(done.tables.items())]
        _print_grid(["loaded", "rows", "as of"], rows)
        for table in done.already:
            click.echo(f"{name}: {table}: has nothing missing")
        if not (rows or done.already or done.stopped):
            click.echo(f"{name}: no table has anything missing")
        for reason in done.stopped.values():
            _ERRORS.print(f"stopped: {reason}", style="red", markup=False, highlight=False)
        _say_new(done.outcome)
        return done.outcome

    _each_source(path, names[0], one)


def _say_progress(table: "TableName", found: "Progress") -> None:
    logging.getLogger("spark_jobs").info(
        "%s: %s: %d rows%s in %d ranges",
        table,
        found.state,
        found.rows,
        f" of about {found.estimate}" if found.estimate and found.state == "reading" else "",
        found.chunks,
    )


@cli.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--summary", is_flag=True, help="Instead: events and bytes by type; they add up to the file's size.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="DB.TABLE",
    help="Only events of this table; may be given several times.",
)
def events(files: tuple[Path, ...], tables: tuple[str, ...], *, as_json: bool, summary: bool) -> None:
    """What SHOW BINLOG EVENTS would show, for files; - is standard input.

    Example: stratalog events mysql-bin.000001
    """
    if summary and tables:
        raise click.UsageError("--table goes with the listing, not with --summary")
    if summary:
        _summaries(files, as_json=as_json)
    else:
        _print(_listing(files, tables, as_json=as_json))


def _listing(files: tuple[Path, ...], tables: tuple[str, ...], *, as_json: bool) -> Iterator[str]:
    from dataclasses import asdict

    from spark_jobs.binlog import list_events
    from spark_jobs.rules import Pattern

    patterns = [Pattern.parse(table) for table in tables]
    for file in files:
        for event in list_events(_chunks(file), file.name):
            named = (event.table or ".").split(".", 1)
            if patterns and not any(pattern.matches(*named) for pattern in patterns):
                continue
            if as_json:
                yield json.dumps({"file": file.name} | asdict(event), ensure_ascii=False) + "\n"
                continue
            cells = [event.offset, event.type, event.server_id, event.stop, event.transaction, event.table, event.note]
            yield "\t".join(["" if cell is None else str(cell) for cell in (file.name, *cells)]) + "\n"


def _summaries(files: tuple[Path, ...], *, as_json: bool) -> None:
    """One account a file; one that does not add up to decoded and counted events ends with the error, and status 1."""
    from dataclasses import asdict

    from spark_jobs.binlog import summarize

    failed = False
    for file in files:
        found = summarize(_chunks(file), file.name)
        if as_json:
            click.echo(json.dumps({"file": file.name} | asdict(found), ensure_ascii=False))
        else:
            rows = [[one.type, one.treatment, str(one.events), str(one.bytes)] for one in found.types]
            _print_grid([file.name, "treatment", "events", "bytes"], [
                *rows,
                ["file head", "decoded", "", str(found.magic)],
                *([["not read", "refused", "", str(found.rest)]] if found.rest else []),
                ["in all", "", str(sum(one.events for one in found.types)), str(found.size)],
            ])  # fmt: skip
        if found.error:
            _ERRORS.print(found.error, style="red", markup=False, highlight=False)
        failed |= found.error is not None
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
@click.option(
    "--table", "tables", multiple=True, metavar="DB.TABLE", help="Only this table; may be given several times."
)
def changes(
    files: tuple[Path, ...],
    path: Path | None,
    source: str | None,
    start: str | None,
    stop: str | None,
    tables: tuple[str, ...],
) -> None:
    """Row changes as JSON lines, from binlog files (- is standard input) or out of bronze.

    Memory is bounded: long values are written piece by piece. Rows of an XA transaction come when the log commits it.

    \b
    Example: stratalog changes mysql-bin.000001 --table shop.orders
    Example: stratalog changes -c pipeline.yaml --source shop --from mysql-bin.000001:4
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.changes import changes_of_bronze, changes_of_files, wanted_tables

    if bool(files) == bool(path):
        raise click.UsageError("give binlog files, or -c FILE with --source, and not both")
    wanted = wanted_tables(tables)
    if files:
        if source or start or stop:
            raise click.UsageError("--source, --from and --to go with -c FILE")
        pieces = changes_of_files(((file.name, _chunks(file)) for file in files), wanted)
    else:
        assert path is not None
        pieces = _bronze_changes(path, source, start, stop, wanted, changes_of_bronze)
    _print(pieces)


def _bronze_changes(
    path: Path, source: str | None, start: str | None, stop: str | None, wanted: Any, read: Any
) -> Iterator[str]:
    from spark_jobs.pipeline import lake_of
    from spark_jobs.place import require_places

    require_places(start, stop)
    pipeline = load(path)
    names = _chosen(pipeline, source)
    if len(names) != 1:
        raise click.UsageError(f"--source: name one of {', '.join(names)}")
    with _spark(pipeline) as spark:
        yield from read(spark, lake_of(pipeline), names[0], start, stop, wanted)


@cli.command()
@config_option
@click.option("--source", required=True, metavar="NAME", help="The source whose log is written.")
@click.option("--to", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR", help="An empty folder.")
def export(path: Path, source: str, folder: Path) -> None:
    """Bronze back as binlog files, byte for byte what the server wrote.

    Example: stratalog export -c pipeline.yaml --source shop --to ./restored
    """
    from spark_jobs.export import export as write
    from spark_jobs.pipeline import lake_of

    pipeline = load(path)
    _chosen(pipeline, source)
    with _spark(pipeline) as spark:
        for one in write(spark, lake_of(pipeline), source, folder):
            part = f", {one.partial}" if one.partial else ""
            click.echo(f"{one.path}\t{one.size} bytes{part}")


@cli.command()
@config_option
@click.option("--source", required=True, metavar="NAME", help="The source whose range is done again.")
@click.option(
    "--from", "start", required=True, metavar="P", help="Position, GTID set or time; snapped outward to windows."
)
@click.option("--to", "stop", required=True, metavar="P", help="The same, behind the last.")
@click.option(
    "--table", "tables", multiple=True, metavar="DB.TABLE", help="Only this table; may be given several times."
)
@click.option(
    "--layer",
    "layers",
    multiple=True,
    type=click.Choice(["silver", "downstream"]),
    help="Only this layer; without it both. downstream alone merges the range's keys again from silver as it is.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder of copies of binlog files, for what bronze lacks of the range; without it the one that the "
    "configuration names. What is not there is read from the source itself.",
)
def backfill(path: Path, start: str, stop: str, layers: tuple["Layer", ...], **asked: Any) -> None:
    """Do a range again from bronze, through silver and downstream, first bringing what bronze lacks of it.

    \b
    Example: stratalog backfill -c pipeline.yaml --source shop \\
                 --from mysql-bin.000001:4 --to mysql-bin.000003:4
    Example: stratalog backfill -c pipeline.yaml --source shop --archive ./saved-binlogs \\
                 --from 2026-11-21T08:00:00Z --to mysql-bin.000003:4
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.backfill import LAYERS, Redone, Request
    from spark_jobs.backfill import backfill as do_again
    from spark_jobs.place import require_places

    require_places(start, stop)
    request = Request(start=start, stop=stop, layers=layers or LAYERS, **asked)
    request.require_valid(load(path))

    def said(one: Redone, at: int, of: int) -> None:
        _ERRORS.print(f"{at}/{of} {one}", markup=False, highlight=False)

    def one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Outcome":
        outcome = do_again(spark, pipeline, request, said, lambda one: click.echo(f"{name}: brought {one}"))
        _say_outcome(name, outcome)
        return outcome

    _each_source(path, request.source, one)


@cli.command()
@config_option
@click.option("--source", required=True, metavar="NAME", help="The source whose log has the event.")
@click.option(
    "--at", "position", required=True, metavar="POSITION", help="Where the event begins, as messages name it."
)
@click.option(
    "--table", metavar="DB.TABLE", help="Only for this table; without it for all that have stopped before it."
)
@click.option("--undo", is_flag=True, help="Take it back: the event counts again.")
@yes_option
def skip(path: Path, source: str, position: str, table: str | None, *, undo: bool, yes: bool) -> None:
    """Pass over one event at which tables have stopped, from now on and whenever its range is done again.

    Its rows are lost to silver and downstream; bronze keeps them, and status names it.

    \b
    Example: stratalog skip -c pipeline.yaml --source shop --at mysql-bin.000042:1337
    Example: stratalog skip -c pipeline.yaml --source shop --at mysql-bin.000042:1337 --table shop.orders --yes
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.mend import add, plan_skip, plan_undo, remove

    pipeline = load(path)
    (name,) = _chosen(pipeline, source)
    found = (plan_undo if undo else plan_skip)(pipeline, name, position, table)
    verb = "take back" if undo else "pass over"
    for one in found:
        click.echo(f"{name}: {verb if yes else f'would {verb}'} {one}")
        if one.reason and not undo:
            _ERRORS.print(f"{one.name} had stopped: {one.reason}", markup=False, highlight=False)
    if not yes:
        _ERRORS.print("nothing is changed yet; --yes does it", markup=False)
        return
    with _spark(pipeline) as spark:
        if not undo:
            add(spark, pipeline, name, found)
        for line in remove(spark, pipeline, name, found) if undo else ():
            click.echo(line)


@cli.command()
@config_option
@click.option("--source", required=True, metavar="NAME", help="The source whose table it is.")
@click.option("--table", required=True, metavar="DB.TABLE", help="The table.")
@click.option(
    "--drop-older-rows",
    "drops_older",
    is_flag=True,
    help="Also where rows go that bronze does not have: loaded ones, and those of log that gc removed.",
)
@click.option("--undo", is_flag=True, help="Take it back, as long as no run has begun with it.")
@yes_option
def reset(path: Path, source: str, table: str, *, drops_older: bool, undo: bool, yes: bool) -> None:
    """Begin one table anew: the next run does it over from bronze, from the oldest position that bronze holds.

    Until that run has put other rows in the place of those that silver and downstream have, readers keep these.

    \b
    Example: stratalog reset -c pipeline.yaml --source shop --table shop.orders
    Example: stratalog reset -c pipeline.yaml --source shop --table shop.orders --yes
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs import mend

    if undo and drops_older:
        raise click.UsageError("--drop-older-rows says what may go, and --undo takes nothing away")
    pipeline = load(path)
    (name,) = _chosen(pipeline, source)
    if undo:
        _take_back_reset(pipeline, name, table, yes=yes)
    else:
        with _spark(pipeline) as spark:
            planned = mend.plan_reset(spark, pipeline, name, table, drops_older=drops_older)
            _say_reset(name, planned, yes=yes)
            if yes:
                mend.reset(spark, pipeline, name, planned)
    if not yes:
        _ERRORS.print("nothing is changed yet; --yes does it", markup=False)


def _take_back_reset(pipeline: Pipeline, source: str, table: str, *, yes: bool) -> None:
    from spark_jobs.mend import plan_unreset, unreset

    entry = plan_unreset(pipeline, source, table)
    click.echo(f"{source}: {'takes' if yes else 'would take'} back the reset of {table}")
    if yes:
        with _spark(pipeline) as spark:
            unreset(spark, pipeline, source, entry)


def _say_reset(source: str, planned: "Reset", *, yes: bool) -> None:
    entry, table = planned.entry, planned.name
    begins = "is done over by the next run" if yes else "would be done over by the next run"
    click.echo(f"{source}: {table} {begins}, from {planned.begin}, where bronze begins")
    at = f", as of {entry.merged}" if entry.merged else ""
    click.echo(f"{source}: {table} has {planned.rows:,} rows downstream{at}; they stay until that run is done with it")
    if planned.lost:
        _ERRORS.print(f"{table} will lack some: {planned.lost}", markup=False, highlight=False)
    if entry.state == "stopped":
        _ERRORS.print(f"{table} had stopped: {entry.reason}", markup=False, highlight=False)


@cli.command()
@config_option
@click.option("--source", metavar="NAME", help="The source whose tables are shown; not needed where there is one.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="DB.TABLE",
    help="Only this table or pattern; may be given several times.",
)
@click.option("--at", "place", metavar="P", help="As of this position, GTID set or time; without it where silver is.")
@click.option("--history", is_flag=True, help="Instead: every statement, and all else that told of a table's columns.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a table, with --history one a version; a line each."
)
def schema(
    path: Path, source: str | None, tables: tuple[str, ...], place: str | None, *, history: bool, as_json: bool
) -> None:
    """The source's tables as they were at a position: columns, keys, and what each statement changed.

    \b
    Example: stratalog schema -c pipeline.yaml --table shop.orders
    Example: stratalog schema -c pipeline.yaml --source shop --at mysql-bin.000042:1337 --json
    Example: stratalog schema -c pipeline.yaml --table 'shop.*' --history
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs import schema_lines
    from spark_jobs.changes import wanted_tables

    wanted = wanted_tables(tables)
    pipeline = load(path)
    names = _chosen(pipeline, source)
    if len(names) != 1:
        raise click.UsageError(f"--source: name one of {', '.join(names)}")
    shown = schema_lines.shown(pipeline, names[0], wanted, lambda: _position(pipeline, names[0], place))
    if tables and not shown.versions:
        raise ConfigError(f"--table: the schema history of {names[0]} has no table like {', '.join(tables)}")
    if as_json:
        for line in shown.as_json(history=history):
            click.echo(json.dumps(line, ensure_ascii=False))
    elif history:
        for one in shown.histories():
            _print_grid([one.title, "told by", "committed", "what it changed"], one.rows)
    else:
        for one in shown.definitions(dropped=bool(tables)):
            click.echo(one.title)
            _print_grid(["  column", "type", "null", "character set", "if left out", ""], one.rows)


def _position(pipeline: Pipeline, source: str, place: str | None) -> "Position | None":
    """Where a place lies in bronze; Spark is started for those that are no position of a log in one stretch."""
    from spark_jobs.bronze import Held
    from spark_jobs.landed import Places
    from spark_jobs.pipeline import lake_of
    from spark_jobs.place import parse_place
    from spark_jobs.position import Position
    from spark_jobs.stretches import stretches

    if place is None:
        return None
    parsed = parse_place(place)
    held = Held.of(lake_of(pipeline), source)
    if isinstance(parsed, Position) and ("/" in place.partition(":")[0] or len(stretches(held.checkpoint)) == 1):
        return parsed
    with _spark(pipeline) as spark:
        return Places(spark, held).position(place)


@cli.command()
@config_option
@source_option
@click.option("--dry-run", is_flag=True, help="Only say what would go, and who keeps what.")
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="READER",
    help="Do not wait for this reader: a table (DB.TABLE), silver (tables no run has looked for yet), or xa.",
)
def gc(path: Path, source: str | None, ignored: tuple[str, ...], *, dry_run: bool) -> None:
    """Remove log files from bronze that are older than retention.bronze and that every reader is done with.

    \b
    Example: stratalog gc -c pipeline.yaml --dry-run
    Example: stratalog gc -c pipeline.yaml --source shop --ignore shop.orders
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.retention import gc_source

    pipeline = load(path)
    if ignored and len(_chosen(pipeline, source)) > 1:
        raise click.UsageError("--ignore names a reader of one source; give --source with it")
    if pipeline.retention.bronze is None:
        _ERRORS.print("retention.bronze is not set, so bronze keeps all of the log", markup=False)

    def one(spark: "SparkSession", pipeline: Pipeline, name: str) -> None:
        _say_collected(gc_source(spark, pipeline, name, ignored=ignored, dry_run=dry_run), dry_run=dry_run)

    _each_source(path, source, one)


@cli.command()
@config_option
@source_option
@click.option("--purge", is_flag=True, help="Also remove every row marked as deleted from its file, however few.")
def maintain(path: Path, source: str | None, *, purge: bool) -> None:
    """Write small files of every table together, and remove files that no version within retention.versions names.

    With retention.fold, silver's windows of log that gc has removed become one a table.

    Example: stratalog maintain -c pipeline.yaml
    """
    from spark_jobs.maintenance import maintain_source

    def one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Upkeep":
        upkeep = maintain_source(spark, pipeline, name, purge=purge)
        rows = [
            [one.path.removeprefix(f"{pipeline.lake}/"), *map(str, (one.files_before, one.files_after, one.kept_hours))]
            for one in upkeep.done
        ]
        _print_grid(["table", "files before", "after", "hours kept"], rows)
        folded = [one.folded for one in upkeep.done if one.folded]
        if folded:
            cells = [[str(one.name), str(one.floor), str(one.rows_before), str(one.rows_after)] for one in folded]
            _print_grid(["folded in silver", "up to", "rows before", "after"], cells)
        for table, why in upkeep.unfolded.items():
            _ERRORS.print(f"{name}: {table}: its old windows are not folded now: {why}", markup=False)
        return upkeep

    _each_source(path, source, one)


@cli.command()
@config_option
@source_option
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="DB.TABLE",
    help="Only this table or pattern; may be given several times.",
)
@click.option("--values", is_flag=True, help="With the columns that differ, both values.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a table, each on a line, values included.")
def verify(path: Path, source: str | None, tables: tuple[str, ...], *, values: bool, as_json: bool) -> None:
    """Compare downstream tables with the source's own rows while writes go on; list the keys that differ.

    Does what run does first, and again where rows differ, until what was only on its way has arrived.

    \b
    Example: stratalog verify -c pipeline.yaml
    Example: stratalog verify -c pipeline.yaml --source shop --table 'shop.*' --values
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.changes import wanted_tables
    from spark_jobs.verify import require_live, verify_source

    pipeline = load(path)
    for name in _chosen(pipeline, source):
        require_live(pipeline, name)
    wanted = wanted_tables(tables)
    seen: list[Verdict] = []
    wrong: list[Verdict] = []

    def one(spark: "SparkSession", pipeline: Pipeline, name: str) -> None:
        verdicts = []
        for verdict in verify_source(spark, pipeline, name, wanted):
            verdicts.append(verdict)
            if as_json:
                click.echo(json.dumps(verdict.to_json(), ensure_ascii=False))
        seen.extend(verdicts)
        wrong.extend(verdict for verdict in verdicts if not verdict.is_right)
        if not as_json:
            _say_verdicts(verdicts, values=values)

    _each_source(path, source, one)
    if tables and not seen:
        raise ConfigError(f"--table: neither a source nor the lake has a table like {', '.join(tables)} in scope")
    if wrong:
        sys.exit(1)


@cli.command()
@click.option("--files", is_flag=True, help="From the recorded binlogs shipped with the project, without a server.")
@click.option(
    "--dir",
    "folder",
    default="demo",
    type=click.Path(path_type=Path),
    show_default=True,
    help="Where it leaves its lake.",
)
@click.option("--rows", default=100_000, show_default=True, help="About how many rows to load.")
def demo(folder: Path, rows: int, *, files: bool) -> None:
    """The main job, whole, on an embedded real MySQL server: load, change, extract, compact, merge, verify.

    Example: stratalog demo
    """
    from spark_jobs.demo.live import run_live
    from spark_jobs.demo.recorded import run_recorded

    report = run_recorded(folder) if files else run_live(folder, rows)
    click.echo(report.text())
    if not report.equal:
        sys.exit(1)


def main() -> None:
    """The console script."""
    try:
        cli(prog_name="stratalog", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        _ERRORS.print("interrupted", style="red")
        sys.exit(130)
    except StratalogError as error:
        _ERRORS.print(str(error), style="red", markup=False, highlight=False)
        sys.exit(error.exit_status)


def _chosen(pipeline: Pipeline, source: str | None) -> list[str]:
    if source is not None and source not in pipeline.sources:
        raise ConfigError(f"{pipeline.path.name}: no source {source!r}; it has {', '.join(pipeline.sources)}")
    return [source] if source else list(pipeline.sources)


@contextmanager
def _spark(pipeline: Pipeline) -> "Iterator[SparkSession]":
    """The session of a pipeline; Ctrl-C inside the ``with`` block ends its jobs quietly.

    Raises LakeError where Spark's JVM is gone at the end, in place of what the calls to it raised.
    """
    from spark_jobs.interrupt import interruptible
    from spark_jobs.session import spark_session

    with _ERRORS.status("starting Spark"):
        spark = spark_session(pipeline.spark)
    try:
        with nullcontext() if pipeline.spark.remote else interruptible(spark):
            yield spark
    finally:
        _stop(spark)


def _stop(spark: "SparkSession") -> None:
    try:
        spark.stop()
    except ConnectionError:
        raise LakeError(
            "Spark's JVM ended in the middle of its work: killed, or out of memory (spark: conf: spark.driver.memory); "
            "what it said of that stands above. Every table is at its last commit: run it again"
        ) from None


def _each_source(
    path: Path, source: str | None, do: Callable[["SparkSession", Pipeline, str], "Outcome | Upkeep | None"]
) -> None:
    """Works on one source after the other; what stops one does not stop the next, and the exit status is 1 then."""
    pipeline = load(path)
    names = _chosen(pipeline, source)
    with _spark(pipeline) as spark:
        went = [_went(name, lambda name: do(spark, pipeline, name)) for name in names]
    if not all(went):
        sys.exit(1)


def _one_layer(path: Path, source: str | None, layer: Callable[["SparkSession", Pipeline, str], "Outcome"]) -> None:
    """Works on one layer of every source, and publishes what it left."""
    from spark_jobs.pipeline import publish

    def one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Outcome":
        outcome = layer(spark, pipeline, name)
        publish(spark, pipeline, name, outcome)
        _say_outcome(name, outcome)
        return outcome

    _each_source(path, source, one)


def _went(name: str, do: "Callable[[str], Outcome | Upkeep | None]") -> bool:
    """Works on one source; False where it failed or a table of it stopped."""
    try:
        outcome = do(name)
    except ConfigError:
        raise
    except StratalogError as error:
        _ERRORS.print(str(error), style="red", markup=False, highlight=False)
        return False
    return not (outcome and outcome.stopped)


def _say_extracted(extracted: Any) -> None:
    if not extracted.bytes:
        click.echo(f"{extracted.source}: bronze is at {extracted.range.stop}; nothing new")
        return
    click.echo(
        f"{extracted.source}: bronze {extracted.range}: {extracted.bytes} bytes, "
        f"{extracted.transactions} transactions, {extracted.events} events in {extracted.seconds:.1f} s"
    )


def _say_collected(done: "Collected", *, dry_run: bool) -> None:
    if done.files:
        verb = "would remove" if dry_run else "removed"
        files = f"{done.files[0].file} to {done.files[-1].file}" if len(done.files) > 1 else done.files[0].file
        begins = "would begin" if dry_run else "begins"
        click.echo(f"{done.source}: {verb} {files}, {done.size} bytes of log; bronze {begins} at {done.oldest}")
    else:
        click.echo(f"{done.source}: nothing to remove; bronze begins at {done.oldest}")
    if done.kept_for:
        _ERRORS.print(
            f"{done.source}: older files are kept for {done.kept_for}; "
            f"--ignore {done.kept_for.name} removes them all the same",
            markup=False,
            highlight=False,
        )


def _say_outcome(source: str, outcome: "Outcome") -> None:
    rows = [
        [
            str(one.name),
            str(one.changes),
            str(one.inserts),
            str(one.updates),
            str(one.deletes),
            str(one.range.stop),
            f"{one.seconds:.1f}",
        ]
        for one in outcome.compacted
    ]
    _print_grid(["silver", "changes", "insert", "update", "delete", "position", "seconds"], rows)
    left = [
        [str(one.name), rule, str(count)] for one in outcome.compacted for rule, count in sorted(one.left_out.items())
    ]
    _print_grid(["silver", "left out by", "events"], left)
    merged = [
        [
            f"{one.name} into {one.into}" if one.into else str(one.name),
            str(one.inserted),
            str(one.updated),
            str(one.deleted),
            str(one.range.stop),
            f"{one.seconds:.1f}",
        ]
        for one in outcome.merged
    ]
    _print_grid(["downstream", "inserted", "updated", "deleted", "position", "seconds"], merged)
    if not rows and not merged and not outcome.stopped:
        click.echo(f"{source}: silver and downstream have nothing new")
    for reason in outcome.stopped.values():
        _ERRORS.print(f"stopped: {reason}", style="red", markup=False, highlight=False)
    _say_new(outcome)


def _say_schema(found: "SchemaAudit | None") -> None:
    """What the comparison with the server's columns found; None for a source that is no server."""
    if found is None:
        return
    click.echo(f"{found.source}: {found}")
    for line in found.lines():
        _ERRORS.print(f"{found.source}: {line}", style="yellow", markup=False, highlight=False)


def _say_new(outcome: "Outcome") -> None:
    if outcome.new:
        _ERRORS.print(f"{len(outcome.new)} new tables; Dagster shows them after its code location is reloaded")


def _say_verdicts(verdicts: "list[Verdict]", *, values: bool) -> None:
    head = ["table", "state", "rows", "in the lake", "missing", "extra", "different", "older", "changing", "seconds"]
    rows = [
        [
            one.said,
            one.state,
            *(str(count) for count in (one.source_rows, one.lake_rows, one.missing, one.extra, one.different)),
            *(str(one.older), str(one.changing), f"{one.seconds:.1f}"),
        ]
        for one in verdicts
    ]
    _print_grid(head, rows)
    for one in verdicts:
        for line in one.lines(values=values):
            click.echo(line)
        for said in one.remarks():
            _ERRORS.print(said, markup=False, highlight=False)


def _print_grid(head: list[str], rows: list[list[str]]) -> None:
    if not rows:
        return
    grid = Grid(*head, box=None, pad_edge=False)
    for row in rows:
        grid.add_row(*row)
    Console(soft_wrap=True, highlight=False, width=_WIDE).print(grid)


def _or_unknown(value: float | None) -> str:
    return "unknown" if value is None else str(value)


def _chunks(file: Path) -> Iterator[bytes]:
    """A file's bytes as they come; those of standard input for ``-``."""
    if str(file) == "-":
        while chunk := os.read(sys.stdin.fileno(), _CHUNK):
            yield chunk
        return
    try:
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise StratalogError(f"{file}: cannot be read: {error.strerror}") from error


def _print(pieces: Iterable[str]) -> None:
    """Text to standard output, many pieces at a time; what came before a failure is out before its message."""
    out = sys.stdout.buffer
    waiting: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            waiting.append(piece.encode())
            size += len(waiting[-1])
            if size > _CHUNK >> 4:
                out.write(b"".join(waiting))
                waiting, size = [], 0
    finally:
        out.write(b"".join(waiting))
        out.flush()


if __name__ == "__main__":
    main()
