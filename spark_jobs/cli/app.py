"""Functions that several verbs share: options, output, the Spark session, and work on sources.

Put here: that, when the Spark session begins and ends, and what one source's failure means to the others. Not here: the
command itself (group.py), a verb, or what it prints (output.py).
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_jobs.cli.group import ERRORS
from spark_jobs.cli.streams import writing
from spark_jobs.config.yaml_file import FILE_NAME, VARIABLE, read
from spark_jobs.errors import ConfigError, JvmEnded, StratalogError, about
from spark_jobs.runtime.arrow import load_without_pandas
from spark_jobs.runtime.interrupt import interruptible, own_handler_kept, require_not_interrupted
from spark_jobs.runtime.lazy_session import lazy_session, session_if_started, start_session
from spark_jobs.text.disclosure import printable
from spark_jobs.text.progress import doing
from spark_jobs.text.remedies import advised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.binlog import TableName
    from spark_jobs.config.model import Pipeline
    from spark_jobs.operations.retention.maintenance import Upkeep
    from spark_jobs.pipeline.outcome import Outcome


log = logging.getLogger(__name__)


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

yes_option = click.option("--yes", is_flag=True, help="Make the change. Without --yes, only print the planned change.")


def complete_sources(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Completions for a shell: sources of the configuration that the command line names, or of the default one."""
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
    help_text = f"{only}; can be repeated."
    return click.option("--table", "tables", multiple=True, metavar="DB.TABLE", help=help_text)


FORMATS = ("stratalog", "debezium", "canal-json", "maxwell")


def output_options(verb: Verb) -> Verb:
    """Options for the output of row changes: ``--format``, ``--ddl``, ``--transactions``."""
    choice = click.Choice(FORMATS)
    for option in (
        click.option("--transactions", is_flag=True, help="Also print begins and ends of transactions (stratalog)."),
        click.option(
            "--ddl/--no-ddl",
            "statements",
            default=None,
            help="Also print DDL statements (stratalog, canal-json); the default of canal-json.",
        ),
        click.option(
            "--format", "form", type=choice, default=FORMATS[0], show_default=True, help="Format of the lines."
        ),
    ):
        verb = option(verb)
    return verb


def chosen_sources(pipeline: "Pipeline", source: str | None) -> list[str]:
    if source is not None and source not in pipeline.sources:
        raise ConfigError(f"{pipeline.path.name}: no source {source!r}; it has {', '.join(pipeline.sources)}")
    return [source] if source else list(pipeline.sources)


def single_source(pipeline: "Pipeline", source: str | None) -> str:
    """The source that is named, or the only one. Raises ConfigError, UsageError where several are left."""
    names = chosen_sources(pipeline, source)
    if len(names) != 1:
        raise click.UsageError(f"--source: name one of {', '.join(names)}")
    return names[0]


def table_name(text: str) -> "TableName":
    """A table as it is named on the command line. Raises ConfigError."""
    from spark_jobs.binlog import TableName

    schema, _, name = text.partition(".")
    if not (schema and name):
        raise ConfigError(f"{text!r} is no table; write it like shop.orders")
    return TableName(schema, name)


@contextmanager
def spark_of(pipeline: "Pipeline", *, is_run: bool = False, is_lazy: bool = False) -> "Iterator[SparkSession]":
    """The session of a pipeline; Ctrl-C inside the ``with`` block ends its jobs quietly.

    is_run: whether its start is a line on standard error too where that is no terminal. is_lazy: whether it is started
    at its first use; for work that makes no column or expression of Spark's before. Raises ConfigError where a run
    could not make its lake; JvmEnded where Spark's JVM is gone, in place of what the calls to it raised.
    """

    def start() -> "SparkSession":
        from spark_jobs.runtime.spark_session import spark_session

        if is_run:
            log.info("starting Spark")
        with doing("starting Spark"), own_handler_kept():
            return spark_session(pipeline.spark)

    from spark_jobs.lake.layout import require_folder
    from spark_jobs.runtime.engine_errors import translated

    if is_run:
        require_folder(pipeline.lake)
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
    do: Callable[["SparkSession", "Pipeline", str], "Outcome | Upkeep | None"],
    is_done: Callable[["Pipeline", str], bool] = lambda _, __: False,
    *,
    is_lazy: bool = False,
    then: Callable[["Pipeline"], bool] = lambda _: True,
) -> None:
    """Work on one source after the other; what stops one does not stop the next, and the exit status is 1 then.

    is_done: whether a source needs no work. Spark is started where one does, or, lazily, by the first that uses it.
    then: work on all sources at the end, without Spark; whether it succeeded.
    """
    load_without_pandas()
    from spark_jobs.config.loader import load
    from spark_jobs.operations.observation.run_telemetry import observed, source_observed

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


def _is_idle(pipeline: "Pipeline", name: str, verb: str, is_done: Callable[["Pipeline", str], bool]) -> bool:
    """True if a source needs no work, which is a run all the same."""
    from spark_jobs.operations.observation.run_telemetry import source_observed

    started = time.time_ns()
    if not is_done(pipeline, name):
        return False
    with source_observed(pipeline, name, verb, started=started):
        return True


def went_well(name: str, do: "Callable[[str], Outcome | Upkeep | None]") -> bool:
    """Work on one source; False where it failed or a table of it stopped."""
    from spark_jobs.runtime.engine_errors import translated

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
