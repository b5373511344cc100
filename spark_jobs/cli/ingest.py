"""Verbs that ingest and replay the log: run, extract, compact, merge, load, backfill, demo.

Put here: their options, and what they say of what was done. Not here: the work itself.
"""

import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_jobs.cli.app import (
    chosen_sources,
    complete_sources,
    config_option,
    each_source,
    echo,
    single_source,
    source_option,
    tables_option,
)
from spark_jobs.cli.deliveries import deliver_all
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.cli.load_progress import LoadProgress
from spark_jobs.cli.output import cascades_line, print_grid, print_new, print_outcome
from spark_jobs.cli.run_report import RunReport, print_extracted
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import StratalogError
from spark_jobs.operations.observation.backlog import nothing_new
from spark_jobs.operations.observation.failures import noted
from spark_jobs.runtime.arrow import load_without_pandas
from spark_jobs.text.counts import counted
from spark_jobs.text.progress import doing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.downstream.publication import Entry
    from spark_jobs.pipeline.backfill.request import Layer
    from spark_jobs.pipeline.outcome import Outcome

log = logging.getLogger(__name__)


@cli.command()
@config_option
@source_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per source, then per delivery; one per line.")
@click.option("--follow", is_flag=True, help="Replicate new log as it arrives, until SIGTERM or Ctrl-C.")
@click.option(
    "--interval",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.0, 86400.0),
    metavar="SECONDS",
    help="With --follow: minimum time from the start of one run of a source to the next.",
)
@click.option(
    "--maintain-every",
    "maintain_every",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0.0, 525600.0),
    metavar="MINUTES",
    help="With --follow: how often tables are maintained between runs; 0 for never.",
)
def run(path: Path, source: str | None, *, as_json: bool, follow: bool, interval: float, maintain_every: float) -> None:
    """Extract, compact, merge and deliver up to the source's end.

    The end is the source's position when the run starts. With --follow the process continues: the server announces
    new log, and a signal ends the process after the current run.

    \b
    Example: stratalog run -c pipeline.yaml
    Example: stratalog run --json
    Example: stratalog run --follow --interval 5
    """  # noqa: D301 - click's mark for lines that stay as they are
    load_without_pandas()
    if follow:
        from spark_jobs.cli.follow import follow_sources

        follow_sources(path, source, interval=interval, maintain_every=maintain_every * 60, as_json=as_json)
        return

    def run_one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Outcome":
        # Not before a source has news: they import the engine.
        from spark_jobs.checks.schema_drift import audit_after_run
        from spark_jobs.operations.catalog import update
        from spark_jobs.pipeline.run import run_source

        with noted(pipeline.path, name, is_last=True):
            extracted, outcome = run_source(spark, pipeline, name)
        # What follows the data: names in Spark's catalog, and the comparison with the server's columns.
        catalog = update(spark, pipeline)
        audit = audit_after_run(pipeline, name)
        RunReport(name, extracted.range.stop, extracted, outcome, catalog, audit).print_report(as_json=as_json)
        _warn_of_scope(pipeline, name, outcome.entries)
        _warn_of_cascades(pipeline, name)
        return outcome

    is_idle = partial(_has_nothing_new, as_json=as_json)
    each_source(path, source, run_one, is_idle, is_lazy=True, then=partial(deliver_all, as_json=as_json))


def _has_nothing_new(pipeline: Pipeline, name: str, *, as_json: bool) -> bool:
    """True if a run would find nothing to do, said as the run would say it; takes no Spark."""
    from spark_jobs.checks.schema_drift import audit_after_run
    from spark_jobs.downstream import publication
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.catalog import is_pending
    from spark_jobs.pipeline import iceberg_tables

    _log_connecting(pipeline, name)
    try:
        with doing(f"{name}: looking for new log"):
            end = nothing_new(pipeline, name)
    except StratalogError:  # the run meets the same, and says it
        return False
    if end is None or is_pending(pipeline) or iceberg_tables.is_pending(pipeline, name):
        return False
    with noted(pipeline.path, name, is_last=True):
        RunReport(name, end, audit=audit_after_run(pipeline, name)).print_report(as_json=as_json)
    _warn_of_scope(pipeline, name, publication.read(lake_of(pipeline), name))
    _warn_of_cascades(pipeline, name)
    return True


def _log_connecting(pipeline: Pipeline, name: str) -> None:
    """The first line of a run: where it reads. A server that does not answer takes seconds to be given up."""
    settings = pipeline.sources[name]
    if settings.files:
        log.info("%s: reading %s", name, settings.files)
    elif settings.endpoints:
        log.info("%s: connecting to one of %d endpoints", name, len(settings.endpoints))
    elif settings.mysql:
        log.info("%s: connecting to %s:%d", name, settings.mysql.host, settings.mysql.port)


def _warn_of_cascades(pipeline: Pipeline, name: str) -> None:
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.pipeline.cascades.unlogged_changes import cascades

    cascade_list = [cascade.to_json() for cascade in cascades(pipeline, lake_of(pipeline), name)]
    if cascade_list:
        ERRORS.print(f"warning: {cascades_line(name, cascade_list)}", style="yellow", markup=False, highlight=False)


def _warn_of_scope(pipeline: Pipeline, name: str, entries: "Sequence[Entry]") -> None:
    from spark_jobs.checks.tables import why_nothing_in_scope

    warning = why_nothing_in_scope(pipeline, [entry.name for entry in entries])
    if warning:
        ERRORS.print(f"warning: {name}: {warning}", style="yellow", markup=False, highlight=False)


@cli.command()
@config_option
@source_option
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Read copies of binlog files from this folder: log that the source has purged, or that gc has removed.",
)
def extract(path: Path, source: str | None, archive: Path | None) -> None:
    """Extract new log from sources into bronze.

    \b
    Example: stratalog extract -c pipeline.yaml --source shop
    Example: stratalog extract -c pipeline.yaml --source shop --archive ./saved-binlogs
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.pipeline.archive import read_archive
    from spark_jobs.pipeline.run import extract_source

    def extract_one(spark: "SparkSession", pipeline: Pipeline, name: str) -> None:
        if archive is None:
            _log_connecting(pipeline, name)
            extracted = extract_source(spark, pipeline, name)
            print_extracted(name, extracted.range.stop, extracted)
            return
        restored = read_archive(spark, pipeline, name, archive)
        if restored.range:
            echo(f"{name}: put back {restored.range}: {restored.bytes} bytes")
        if restored.extracted:
            print_extracted(name, restored.extracted.range.stop, restored.extracted)

    # One folder cannot be the archive of several logs.
    if archive and len(chosen_sources(load(path), source)) > 1:
        raise click.UsageError("--archive DIR holds the log of one source; give --source with it")
    each_source(path, source, extract_one, is_lazy=archive is None)


@cli.command()
@config_option
@source_option
def compact(path: Path, source: str | None) -> None:
    """Compact bronze into silver, up to the end of bronze.

    Example: stratalog compact -c pipeline.yaml
    """
    from spark_jobs.pipeline.run import compact_source

    _one_layer(path, source, compact_source)


@cli.command()
@config_option
@source_option
def merge(path: Path, source: str | None) -> None:
    """Merge silver into downstream, up to silver's checkpoint.

    Example: stratalog merge -c pipeline.yaml
    """
    from spark_jobs.pipeline.run import merge_source

    _one_layer(path, source, merge_source)


@cli.command("load")
@config_option
@click.option(
    "--source",
    metavar="NAME",
    shell_complete=complete_sources,
    help="Source of the tables; required if there are several sources.",
)
@tables_option()
@click.option(
    "--chunk-rows",
    default=50_000,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Rows per query, which reads a range of the key. After a crash a few ranges are read again.",
)
@click.option(
    "--max-load",
    default="",
    metavar="NAME=N,…",
    help="Pause while a variable of SHOW GLOBAL STATUS, or replica_lag in seconds, is above N.",
)
def load_tables(path: Path, source: str | None, tables: tuple[str, ...], chunk_rows: int, max_load: str) -> None:
    """Load existing rows that the log does not cover.

    Rows are read from the server's tables, in ranges of the key and without locks; a table without a key is read in
    one snapshot. Without --table, all tables that status shows as incomplete are loaded. A load starts and ends with a
    run, and resumes after an interruption.

    \b
    Example: stratalog load -c pipeline.yaml --source shop
    Example: stratalog load -c pipeline.yaml --source shop --table shop.orders --chunk-rows 200000
    Example: stratalog load -c pipeline.yaml --source shop --max-load Threads_running=25,replica_lag=5
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.pipeline.initial_load import throttle
    from spark_jobs.pipeline.initial_load.load import load_source, require_server, require_tables

    limits = throttle.parse(max_load)
    pipeline = load(path)
    name = single_source(pipeline, source)
    require_server(pipeline, name)
    require_tables(pipeline, name, tables)  # before Spark is started, which takes half a minute

    def load_one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Outcome":
        options: dict[str, Any] = {"tables": tables, "chunk_rows": chunk_rows, "max_load": limits}
        loaded = load_source(spark, pipeline, name, **options, on_progress=LoadProgress())
        # The tables that are complete by now, then what was left out of them, and why others are not.
        table_list = sorted(loaded.tables.items())
        rows = [[str(table), str(commit.rows), str(commit.since)] for table, commit in table_list]
        print_grid(["loaded", "rows", "as of"], rows)
        for table, commit in table_list:
            for rule, count in (commit.filtered or {}).items():
                echo(f"{name}: {table}: {rule} filtered {counted(count, 'row')}")
        for table in loaded.already:
            echo(f"{name}: {table}: has nothing missing")
        if not (rows or loaded.already or loaded.stopped):
            echo(f"{name}: no table has anything missing")
        for reason in loaded.stopped.values():
            ERRORS.print(f"stopped: {reason}", style="red", markup=False, highlight=False)
        print_new(loaded.outcome)
        return loaded.outcome

    each_source(path, name, load_one, is_lazy=True)


@cli.command()
@config_option
@click.option(
    "--source",
    required=True,
    metavar="NAME",
    shell_complete=complete_sources,
    help="Source of the range.",
)
@click.option(
    "--from",
    "start",
    required=True,
    metavar="P",
    help="Start of the range: position, GTID set, time, or earliest, where bronze begins; extended to whole windows.",
)
@click.option(
    "--to",
    "stop",
    required=True,
    metavar="P",
    help="End of the range, exclusive: position, GTID set, time, or latest, where bronze ends.",
)
@tables_option()
@click.option(
    "--layer",
    "layers",
    multiple=True,
    type=click.Choice(["silver", "downstream"]),
    help="Only this layer; default: both. downstream merges the keys of the range from silver, without decoding.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder with copies of binlog files, for log that bronze lacks; default: archive of pipeline.yaml. "
    "Missing files are read from the source.",
)
def backfill(path: Path, start: str, stop: str, layers: tuple["Layer", ...], **options: Any) -> None:
    """Replay a range of the log.

    The range is compacted and merged again. Log that bronze lacks is fetched first.

    \b
    Example: stratalog backfill -c pipeline.yaml --source shop \\
                 --from mysql-bin.000001:4 --to mysql-bin.000003:4
    Example: stratalog backfill -c pipeline.yaml --source shop --archive ./saved-binlogs \\
                 --from 2026-11-21T08:00:00Z --to mysql-bin.000003:4
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.pipeline.backfill.request import LAYERS, BackfillRequest, ReplayedTable
    from spark_jobs.pipeline.backfill.run import backfill as do_again

    # Wrong use is found before a session is started.
    request = BackfillRequest(start=start, stop=stop, layers=layers or LAYERS, **options)
    request.require_range()
    request.require_valid(load(path))

    def print_progress(replayed: ReplayedTable, at: int, of: int) -> None:
        ERRORS.print(f"{at}/{of} {replayed}", markup=False, highlight=False)

    def backfill_one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Outcome":
        outcome = do_again(spark, pipeline, request, print_progress, lambda fetched: echo(f"{name}: fetched {fetched}"))
        print_outcome(name, outcome)
        return outcome

    each_source(path, request.source, backfill_one)


@cli.command()
@click.option("--files", is_flag=True, help="Use recorded binlog files instead of a server.")
@click.option("--failover", is_flag=True, help="A replica takes over the server's address during a run.")
@click.option("--serve", is_flag=True, help="Only run the server, with changing rows, to practise on until Ctrl-C.")
@click.option(
    "--dir",
    "folder",
    default="demo",
    type=click.Path(path_type=Path),
    show_default=True,
    help="Folder of the demo's files and its lake. With --serve: of the server, kept for the next time.",
)
@click.option("--rows", default=100_000, show_default=True, help="About how many rows to load.")
@click.pass_context
def demo(context: click.Context, folder: Path, rows: int, *, files: bool, failover: bool, serve: bool) -> None:
    """Run the whole pipeline on an embedded MySQL server.

    Loads tables, changes them, then extracts, compacts, merges and verifies. With --serve, the server alone runs, on
    127.0.0.1, and its address, password and the first commands to try on it are printed; without --dir its data are
    removed at the end.

    \b
    Example: stratalog demo
    Example: stratalog demo --serve
    """  # noqa: D301 - click's mark for lines that stay as they are
    # Each kind of demo imports what it alone needs: a server without a pipeline starts without Spark.
    if files and failover:
        raise click.UsageError("--files and --failover do not go together: a failover needs servers")
    if serve:
        if files or failover:
            raise click.UsageError("--serve is without --files and --failover: it runs one server and no pipeline")
        from spark_jobs.demo.practice import serve as serve_shop

        is_named = context.get_parameter_source("folder") is not click.core.ParameterSource.DEFAULT
        serve_shop(folder if is_named else None, rows, echo)
        return
    from spark_jobs.demo.failover import run_failover
    from spark_jobs.demo.live import run_live
    from spark_jobs.demo.recorded import run_recorded

    ERRORS.print(f"the demo is made in {folder}, in about a minute", markup=False, highlight=False, soft_wrap=True)
    report = run_recorded(folder) if files else run_failover(folder, rows) if failover else run_live(folder, rows)
    echo(report.text())
    if not report.equal:
        sys.exit(1)


def _one_layer(path: Path, source: str | None, layer: Callable[["SparkSession", Pipeline, str], "Outcome"]) -> None:
    """Work on one layer of every source, and publish what it left."""
    from spark_jobs.pipeline.run import publish

    def layer_one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Outcome":
        outcome = layer(spark, pipeline, name)
        publish(pipeline, name, outcome)
        print_outcome(name, outcome)
        return outcome

    each_source(path, source, layer_one, is_lazy=True)
