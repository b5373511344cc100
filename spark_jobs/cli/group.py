"""The command ``stratalog`` itself: its verbs by name, its own options, and where its output goes.

``--help`` and a shell's completion import nothing but this, click and rich: a verb's module is imported when the verb
is called.

Put here: what comes before a verb. Not here: what verbs have in common (app.py), or a verb.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem
from rich.console import Console
from rich.logging import RichHandler

import spark_jobs
from spark_jobs.cli import QUIET, ending_at_interrupt
from spark_jobs.cli.streams import discard, has_left, writing
from spark_jobs.errors import StratalogError
from spark_jobs.text.disclosure import printable
from spark_jobs.text.progress import Heartbeat, doing
from spark_jobs.text.suggestions import did_you_mean


class Terminal(Console):
    """Output for people: text is printed as it is, without markup, emoji or control characters of its own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, soft_wrap=True, markup=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(printable(object_) if isinstance(object_, str) else object_ for object_ in objects), **options)

    def _write_buffer(self) -> None:
        with writing(self.file):
            super()._write_buffer()


class _LogLines(logging.StreamHandler[Any]):
    """A line a message, to standard error."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that logging gives it
        if isinstance(sys.exception(), OSError):
            discard(self.stream)
        else:
            super().handleError(record)


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


ERRORS = Terminal(stderr=True)


def _be_quiet(_: click.Context, __: click.Parameter, value: bool) -> None:
    if value:
        logging.getLogger(spark_jobs.__name__).setLevel(logging.WARNING)


VERBS = {
    "Pipeline": {
        "run": ("ingest", "Extract, compact, merge and deliver up to the source's end."),
        "extract": ("ingest", "Extract new log from sources into bronze."),
        "compact": ("ingest", "Compact bronze into silver, up to the end of bronze."),
        "merge": ("ingest", "Merge silver into downstream, up to silver's checkpoint."),
        "deliver": ("deliveries", "Write downstream tables into another database."),
        "load": ("ingest", "Load existing rows that the log does not cover."),
        "backfill": ("ingest", "Replay a range of the log."),
    },
    "Inspection": {
        "status": ("status", "Show positions, backlog and lag of every layer and delivery."),
        "check": ("check", "Check the configuration; with --connect, everything else."),
        "verify": ("check", "Compare tables with the source, or a delivery with the lake."),
        "schema": ("inspect", "Show table definitions at a position of the log."),
        "at": ("at", "Show tables as they were at a position, GTID set or time."),
        "changes": ("inspect", "Print row changes as JSON lines."),
        "trace": ("rows", "Show each change of rows, and its origin."),
        "undo": ("rows", "Print SQL that reverts changes."),
        "events": ("inspect", "List the events of binlog files."),
        "export": ("inspect", "Write bronze back as binlog files."),
        "report": ("status", "Write an HTML status page for each source."),
        "dbt": ("dbt", "Print the published downstream tables as sources of a dbt project."),
    },
    "Subscription": {
        "consume": ("consume", "Print changes as JSON lines, from the position of a consumer group."),
        "subscriptions": ("consume", "List consumer groups, move one to another position, or remove it."),
    },
    "Operation": {
        "mend": ("mend", "Replace rows that differ from the server's."),
        "forget": ("forget", "Erase the rows of keys from all of the lake."),
        "skip": ("operate", "Quarantine one event so that its table can continue."),
        "reset": ("operate", "Rebuild a table: the next run recreates it from bronze."),
        "gc": ("operate", "Remove expired log files from bronze."),
        "maintain": ("operate", "Compact small files and remove old table versions."),
        "session": ("session", "List or stop the Spark servers that stay between runs (spark.keep)."),
        "package": ("operate", "Write an archive of this environment for executors."),
    },
    "First day": {
        "demo": ("ingest", "Run the whole pipeline on an embedded MySQL server."),
        "init": ("start", "Write a commented pipeline.yaml."),
        "docs": ("pages", "Show the documentation: pages, sections, codes of messages."),
        "completion": ("start", "Print a shell's completion script for verbs and sources."),
    },
}
"""The verbs as ``--help`` lists them, by section: each one's module, and what it does in a line."""
_MODULES = {verb: module for verbs in VERBS.values() for verb, (module, _) in verbs.items()}


class _Verbs(click.Group):
    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a verb, which takes --quiet as well as ``stratalog`` before it does."""
        quiet = click.Option(["-q", "--quiet"], is_flag=True, hidden=True, expose_value=False, callback=_be_quiet)
        quiet.help = "As stratalog --quiet."
        cmd.params.append(quiet)
        super().add_command(cmd, name)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A verb, whose module is imported now: those of the others would take a second."""
        if cmd_name in _MODULES and cmd_name not in self.commands:
            with ending_at_interrupt():
                import_module(f"{__package__}.{_MODULES[cmd_name]}")
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that is meant; a word that is none is refused, with the verbs that are like it."""
        if args[0] not in _MODULES and (near := did_you_mean(args[0], _MODULES, 3)):
            ctx.fail(f"No such command {args[0]!r}{near}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs that begin so, without an import, and options."""
        summaries = {verb: summary for verbs in VERBS.values() for verb, (_, summary) in verbs.items()}
        items = [
            CompletionItem(verb, help=summary) for verb, summary in summaries.items() if verb.startswith(incomplete)
        ]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - ditto
        for title, verbs in VERBS.items():
            with formatter.section(title):
                formatter.write_dl([(verb, summary) for verb, (_, summary) in verbs.items()])

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _ending_early():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _ending_early():
            return super().invoke(ctx)


@contextmanager
def _ending_early() -> Iterator[None]:
    """End a stream of text, or a page of help, with its reader: done, exit status 0.

    Raises Abort where it is interrupted.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise click.Abort from None  # click would print an empty line first
    except BrokenPipeError as error:
        if not has_left(sys.stdout):  # click would end without a word
            raise StratalogError(f"a connection was closed by its other side: {error}; run it again") from error
        discard(sys.stdout)
        raise click.exceptions.Exit(0) from None


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("-v", "--verbose", is_flag=True, help="Log debug messages.")
@click.option("-q", "--quiet", is_flag=True, help="Print only results, warnings and errors, no progress.")
@click.version_option(package_name="stratalog")
def cli(*, verbose: bool, quiet: bool) -> None:
    """Replicate MySQL and MariaDB binary logs into Delta tables: bronze, silver, downstream.

    First steps: init --host HOST --connect, check --connect, run, load, status. Without a
    server: demo, and demo --serve for one to practise on.
    """
    rich = RichHandler(console=ERRORS, show_path=False, markup=False, highlighter=None)
    plain = _LogLines()  # a file or a pipe gets a line a message, however long
    handler, text = (rich, "%(message)s") if ERRORS.is_terminal else (plain, "%(asctime)s %(message)s")
    handler.setFormatter(_Printable(text, "%H:%M:%S"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.getLogger("spark_jobs").setLevel(level)
    if verbose:
        os.environ.setdefault("STRATALOG_DEBUG", "1")  # of Spark's JVM too
    else:  # py4j logs a trace of what it raises all the same, in part by the root logger
        handler.addFilter(lambda record: "py4j" not in record.pathname)
    context = click.get_current_context()
    context.with_resource(doing(context.invoked_subcommand or "", is_verb=True))
    is_quiet = quiet or bool(QUIET & {*sys.argv})  # a verb takes it as well
    if not (is_quiet or ERRORS.is_terminal):
        context.with_resource(_heartbeat())


def _heartbeat() -> Heartbeat:
    """Heartbeat with what a verb is doing where it is silent; to where its lines go."""
    root = logging.getLogger()

    def write(line: str) -> None:
        root.handle(logging.LogRecord(root.name, logging.INFO, __file__, 0, "%s", (line,), None))

    return Heartbeat(logging.getLogger(spark_jobs.__name__), write)


def every_verb() -> dict[str, click.Command]:
    """All verbs, by name, with their modules imported: for what documents and checks them."""
    context = click.Context(cli)
    return {verb: command for verb in _MODULES if (command := cli.get_command(context, verb))}
