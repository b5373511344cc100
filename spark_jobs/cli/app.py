"""The command ``stratalog`` without its verbs: how they are invoked, their common options, and their work on sources.

Put here: what several verbs stand on, when the Spark session begins and ends, and what one source's failure means to
the others. Not here: a verb, or what it prints (output.py).
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.logging import RichHandler

import spark_jobs
from spark_jobs.cli.streams import discard, has_left, writing
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.config.yaml_file import FILE_NAME, VARIABLE, read
from spark_jobs.errors import ConfigError, JvmEnded, StratalogError, about
from spark_jobs.operations.observation import observed, source_observed
from spark_jobs.runtime.engine_errors import translated
from spark_jobs.runtime.interrupt import interruptible, own_handler_kept, require_not_interrupted
from spark_jobs.runtime.lazy_session import lazy_session, session_if_started, start_session
from spark_jobs.text.disclosure import printable
from spark_jobs.text.progress import Heartbeat, doing
from spark_jobs.text.remedies import advised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.operations.maintenance import Upkeep
    from spark_jobs.pipeline.outcome import Outcome


log = logging.getLogger(__name__)


class Terminal(Console):
    """What people read: text is printed as it is, without markup, emoji or control characters of its own."""

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


def echo(text: object, *, err: bool = False, colour: str | None = None) -> None:
    """A line for people: of a verb's results, or on standard error."""
    output = printable(str(text))
    with writing(sys.stderr if err else sys.stdout):
        click.echo(click.style(output, fg=colour) if colour else output, err=err)


def echo_json(value: Any, *, indent: int | None = None, ensure_ascii: bool = False) -> None:
    """A verb's result as JSON, on a line of its own where it is not indented."""
    with writing(sys.stdout):
        click.echo(json.dumps(value, indent=indent, ensure_ascii=ensure_ascii))


config_option = click.option(
    "-c",
    "--config",
    "path",
    default=FILE_NAME,
    envvar=VARIABLE,
    show_default=True,
    show_envvar=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The pipeline's configuration.",
)

yes_option = click.option("--yes", is_flag=True, help="Do it. Without --yes, only print what would be done.")


def complete_sources(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """For a shell: the sources of the configuration that the command line names, or of the default one."""
    try:
        names = read(Path(ctx.params.get("path") or FILE_NAME)).get("sources") or {}
    except ConfigError:  # a shell has no place for messages
        return []
    return [name for name in map(str, names) if name.startswith(incomplete)]


source_option = click.option(
    "--source", metavar="NAME", shell_complete=complete_sources, help="Only this source of the configuration."
)


Verb = Callable[..., None]


def tables_option(only: str = "Only this table") -> Callable[[Verb], Verb]:
    """``--table``, several times; ``only``: what its help begins with."""
    help_text = f"{only}; may be given several times."
    return click.option("--table", "tables", multiple=True, metavar="DB.TABLE", help=help_text)


FORMATS = ("stratalog", "debezium", "canal-json", "maxwell")


def output_options(verb: Verb) -> Verb:
    """How row changes are written: ``--format``, ``--ddl``, ``--transactions``."""
    choice = click.Choice(FORMATS)
    for option in (
        click.option("--transactions", is_flag=True, help="Begins and ends of transactions too (stratalog)."),
        click.option(
            "--ddl/--no-ddl",
            "statements",
            default=None,
            help="DDL statements too (stratalog, canal-json); canal-json has them by default.",
        ),
        click.option(
            "--format", "form", type=choice, default=FORMATS[0], show_default=True, help="How lines are written."
        ),
    ):
        verb = option(verb)
    return verb


def _be_quiet(_: click.Context, __: click.Parameter, value: bool) -> None:
    if value:
        logging.getLogger(spark_jobs.__name__).setLevel(logging.WARNING)


SECTIONS = {
    "Pipeline": ("run", "extract", "compact", "merge", "deliver", "load", "backfill"),
    "Inspection": (
        "status",
        "check",
        "verify",
        "schema",
        "at",
        "changes",
        "trace",
        "undo",
        "events",
        "export",
        "report",
        "dbt",
    ),
    "Subscription": ("consume", "subscriptions"),
    "Operation": ("mend", "skip", "reset", "gc", "maintain", "session", "package"),
    "First day": ("demo", "init", "docs", "completion"),
}
"""The verbs as ``--help`` lists them."""


class _Verbs(click.Group):
    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Adds a verb, which takes --quiet as well as ``stratalog`` before it does."""
        quiet = click.Option(["-q", "--quiet"], is_flag=True, hidden=True, expose_value=False, callback=_be_quiet)
        quiet.help = "As stratalog --quiet."
        cmd.params.append(quiet)
        super().add_command(cmd, name)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        return [verb for verbs in SECTIONS.values() for verb in verbs]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - ditto
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(verb, self.commands[verb].get_short_help_str(70)) for verb in verbs])

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _ending_early():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _ending_early():
            return super().invoke(ctx)


@contextmanager
def _ending_early() -> Iterator[None]:
    """Ends a stream of text, or a page of help, with its reader: done, exit status 0.

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
@click.option("-q", "--quiet", is_flag=True, help="Print results, warnings and errors alone: no progress.")
@click.version_option(package_name="stratalog")
def cli(*, verbose: bool, quiet: bool) -> None:
    """Replicate MySQL and MariaDB binary logs into Delta tables: bronze, silver, downstream.

    First steps: init --connect, check --connect, run, load, status. Without a server of your own: demo.
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
    if not (quiet or ERRORS.is_terminal):
        context.with_resource(_heartbeat())


def chosen_sources(pipeline: Pipeline, source: str | None) -> list[str]:
    if source is not None and source not in pipeline.sources:
        raise ConfigError(f"{pipeline.path.name}: no source {source!r}; it has {', '.join(pipeline.sources)}")
    return [source] if source else list(pipeline.sources)


@contextmanager
def spark_of(pipeline: Pipeline, *, is_run: bool = False, is_lazy: bool = False) -> "Iterator[SparkSession]":
    """The session of a pipeline; Ctrl-C inside the ``with`` block ends its jobs quietly.

    is_run: whether its start is a line on standard error too where that is no terminal. is_lazy: whether it is started
    at its first use; for work that makes no column or expression of Spark's before. Raises JvmEnded where Spark's JVM
    is gone, in place of what the calls to it raised.
    """

    def start() -> "SparkSession":
        from spark_jobs.runtime.spark_session import spark_session

        if is_run:
            log.info("starting Spark")
        with doing("starting Spark"), own_handler_kept():
            return spark_session(pipeline.spark)

    spark = lazy_session(start)
    if not is_lazy:
        start_session(spark)
    with translated(""):
        try:
            with interruptible():
                yield spark if is_lazy else start_session(spark)
        except JvmEnded:  # there is no session to stop
            raise
        except BaseException:
            _stop(session_if_started(spark))
            raise
        _stop(session_if_started(spark))


def _stop(spark: "SparkSession | None") -> None:
    if spark is not None:
        from spark_jobs.runtime.spark_session import stop_session

        stop_session(spark)


def each_source(
    path: Path,
    source: str | None,
    do: Callable[["SparkSession", Pipeline, str], "Outcome | Upkeep | None"],
    is_done: Callable[[Pipeline, str], bool] = lambda _, __: False,
    *,
    is_lazy: bool = False,
    then: Callable[[Pipeline], bool] = lambda _: True,
) -> None:
    """Works on one source after the other; what stops one does not stop the next, and the exit status is 1 then.

    is_done: whether a source needs no work. Spark is started where one does, or, lazily, by the first that uses it.
    then: work on all sources at the end, without Spark; whether it succeeded.
    """
    pipeline, context = load(path), click.get_current_context(silent=True)
    verb = (context.info_name if context else None) or ""
    with observed(pipeline, verb):
        # Sources without news come first: they need no session.
        names = [name for name in chosen_sources(pipeline, source) if not _is_idle(pipeline, name, verb, is_done)]
        successes = []
        if names:
            with spark_of(pipeline, is_run=True, is_lazy=is_lazy) as spark:

                def observed_work(name: str) -> "Outcome | Upkeep | None":
                    with source_observed(pipeline, name, verb) as work, doing(f"{name}: {verb}"):
                        outcome = do(spark, pipeline, name)
                        work.note(outcome)
                        return outcome

                successes = [went_well(name, observed_work) for name in names]
        successes.append(then(pipeline))
    if not all(successes):
        sys.exit(1)


def _heartbeat() -> Heartbeat:
    """Says what a verb is doing where it is silent; to where its lines go."""
    root = logging.getLogger()

    def write(line: str) -> None:
        root.handle(logging.LogRecord(root.name, logging.INFO, __file__, 0, "%s", (line,), None))

    return Heartbeat(logging.getLogger(spark_jobs.__name__), write)


def _is_idle(pipeline: Pipeline, name: str, verb: str, is_done: Callable[[Pipeline, str], bool]) -> bool:
    """Whether a source needs no work, which is a run all the same."""
    started = time.time_ns()
    if not is_done(pipeline, name):
        return False
    with source_observed(pipeline, name, verb, started=started):
        return True


def went_well(name: str, do: "Callable[[str], Outcome | Upkeep | None]") -> bool:
    """Works on one source; False where it failed or a table of it stopped."""
    try:
        with about(name), translated(""):
            outcome = do(name)
    except (ConfigError, JvmEnded):
        raise
    except StratalogError as error:
        require_not_interrupted(error)  # jobs that are cancelled end by an error, which is no error of the source
        ERRORS.print(advised(error), style="red", markup=False, highlight=False)
        return False
    return not (outcome and outcome.stopped)
