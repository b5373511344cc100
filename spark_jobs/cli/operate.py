"""Verbs of an operator: gc, maintain, skip, reset.

Put here: their options, and what is said before anything is done. Not here: doing it (operations/retention/gc.py,
operations/retention/maintenance.py, operations/repair.py).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_jobs.cli.app import (
    chosen_sources,
    complete_sources,
    config_option,
    each_source,
    echo,
    source_option,
    yes_option,
)
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.cli.output import print_grid
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import message_under
from spark_jobs.runtime import environment
from spark_jobs.runtime.executors import code_version
from spark_jobs.text.progress import doing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.operations.repair import Reset
    from spark_jobs.operations.retention.gc import Collected
    from spark_jobs.operations.retention.maintenance import Upkeep


@cli.command()
@config_option
@click.option(
    "--source",
    required=True,
    metavar="NAME",
    shell_complete=complete_sources,
    help="Source of the event.",
)
@click.option("--at", "position", required=True, metavar="POSITION", help="Position of the event, as in messages.")
@click.option("--table", metavar="DB.TABLE", help="Only for this table; default: all tables that have stopped at it.")
@click.option("--undo", is_flag=True, help="Remove the quarantine: the event is applied again.")
@yes_option
def skip(path: Path, source: str, position: str, table: str | None, *, undo: bool, yes: bool) -> None:
    """Quarantine one event so that its table can continue.

    The event stays quarantined when its range is replayed. Its rows are missing from silver and
    downstream; bronze keeps them, and status lists the event.

    \b
    Example: stratalog skip -c pipeline.yaml --source shop --at mysql-bin.000042:1337
    Example: stratalog skip -c pipeline.yaml --source shop --at mysql-bin.000042:1337 --table shop.orders --yes
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.operations.repair import add, plan_skip, plan_undo, remove

    # What would be done is printed; only --yes does it.
    pipeline = load(path)
    (name,) = chosen_sources(pipeline, source)
    skips = (plan_undo if undo else plan_skip)(pipeline, name, position, table)
    verb = "take back" if undo else "quarantine"
    for quarantine in skips:
        echo(f"{name}: {verb if yes else f'would {verb}'} {quarantine}")
        if quarantine.reason and not undo:
            ERRORS.print(
                f"{quarantine.name} had stopped: {message_under(quarantine.reason, name, quarantine.name)}",
                markup=False,
                highlight=False,
            )
    if not yes:
        ERRORS.print("nothing is changed yet; --yes does it", markup=False)
        return
    if not undo:
        add(pipeline, name, skips)
    for line in remove(pipeline, name, skips) if undo else ():
        echo(line)


@cli.command()
@config_option
@click.option("--source", required=True, metavar="NAME", shell_complete=complete_sources, help="Source of the table.")
@click.option("--table", required=True, metavar="DB.TABLE", help="The table.")
@click.option(
    "--drop-older-rows",
    "drops_older",
    is_flag=True,
    help="Proceed even if rows that bronze cannot restore are lost: loaded rows, and rows of log that gc removed.",
)
@click.option("--undo", is_flag=True, help="Cancel the rebuild, if no run has started it.")
@yes_option
def reset(path: Path, source: str, table: str, *, drops_older: bool, undo: bool, yes: bool) -> None:
    """Rebuild a table: the next run recreates it from bronze.

    The table is rebuilt from the oldest position in bronze. Until that run commits, readers see the old rows.

    \b
    Example: stratalog reset -c pipeline.yaml --source shop --table shop.orders
    Example: stratalog reset -c pipeline.yaml --source shop --table shop.orders --yes
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.operations import repair

    if undo and drops_older:
        raise click.UsageError("--drop-older-rows says what may go, and --undo takes nothing away")
    pipeline = load(path)
    (name,) = chosen_sources(pipeline, source)
    if undo:
        _take_back_reset(pipeline, name, table, yes=yes)
    else:
        planned = repair.plan_reset(pipeline, name, table, drops_older=drops_older)
        _print_reset(name, planned, yes=yes)
        if yes:
            repair.reset(pipeline, name, planned)
    if not yes:
        ERRORS.print("nothing is changed yet; --yes does it", markup=False)


def _take_back_reset(pipeline: Pipeline, source: str, table: str, *, yes: bool) -> None:
    from spark_jobs.operations.repair import plan_unreset, unreset

    entry = plan_unreset(pipeline, source, table)
    echo(f"{source}: {'takes' if yes else 'would take'} back the reset of {table}")
    if yes:
        unreset(pipeline, source, entry)


def _print_reset(source: str, planned: "Reset", *, yes: bool) -> None:
    entry, table = planned.entry, planned.name
    begins = "is rebuilt by the next run" if yes else "would be rebuilt by the next run"
    echo(f"{source}: {table} {begins}, from {planned.begin}, where bronze begins")
    at = f", as of {entry.merged}" if entry.merged else ""
    echo(f"{source}: {table} has {planned.rows:,} rows downstream{at}; they stay until that run is done with it")
    if planned.lost_rows:
        ERRORS.print(f"{table} will lack some: {planned.lost_rows}", markup=False, highlight=False)
    if entry.state == "stopped":
        ERRORS.print(
            f"{table} had stopped: {message_under(entry.reason or '', source, table)}", markup=False, highlight=False
        )


@cli.command()
@config_option
@source_option
@click.option("--dry-run", is_flag=True, help="Only print what would be removed, and which readers keep the rest.")
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="READER",
    help="Do not wait for this reader: a table (DB.TABLE), silver, clock, xa, group:NAME or delivery:NAME.",
)
def gc(path: Path, source: str | None, ignored: tuple[str, ...], *, dry_run: bool) -> None:
    """Remove expired log files from bronze.

    A file expires when it is older than retention.bronze and no reader needs it any more.

    \b
    Example: stratalog gc -c pipeline.yaml --dry-run
    Example: stratalog gc -c pipeline.yaml --source shop --ignore shop.orders
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.operations.retention.gc import gc_source

    pipeline = load(path)
    if ignored and len(chosen_sources(pipeline, source)) > 1:
        raise click.UsageError("--ignore names a reader of one source; give --source with it")
    if pipeline.retention.bronze is None:
        ERRORS.print("retention.bronze is not set, so bronze keeps all of the log", markup=False)

    def gc_one(spark: "SparkSession", pipeline: Pipeline, name: str) -> None:
        _print_collected(gc_source(spark, pipeline, name, ignored=ignored, dry_run=dry_run), dry_run=dry_run)

    each_source(path, source, gc_one, is_lazy=True)


@cli.command()
@config_option
@source_option
@click.option("--purge", is_flag=True, help="Also rewrite files with few deleted rows.")
def maintain(path: Path, source: str | None, *, purge: bool) -> None:
    """Compact small files and remove old table versions.

    Files that no version within retention.versions uses are removed. With retention.fold, silver windows whose log gc
    has removed are folded into one snapshot per table.

    Example: stratalog maintain -c pipeline.yaml
    """
    from spark_jobs.operations.retention.maintenance import maintain_source

    def maintain_one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Upkeep":
        # A grid of what was done, and what keeps windows from being folded on standard error.
        upkeep = maintain_source(spark, pipeline, name, purge=purge)
        rows = [
            [
                table.path.removeprefix(f"{pipeline.lake}/"),
                *map(str, (table.files_before, table.files_after, table.kept_hours)),
            ]
            for table in upkeep.tables
        ]
        print_grid(["table", "files before", "after", "hours kept"], rows)
        folded = [table.folded for table in upkeep.tables if table.folded]
        if folded:
            cells = [[str(fold.name), str(fold.floor), str(fold.rows_before), str(fold.rows_after)] for fold in folded]
            print_grid(["folded in silver", "up to", "rows before", "after"], cells)
        for table, reason in upkeep.unfolded.items():
            ERRORS.print(f"{name}: {table}: its old windows are not folded now: {reason}", markup=False)
        return upkeep

    each_source(path, source, maintain_one, is_lazy=True)


def _print_collected(collected: "Collected", *, dry_run: bool) -> None:
    # The same line for what was removed and for what would be.
    if collected.files:
        verb = "would remove" if dry_run else "removed"
        files = (
            f"{collected.files[0].file} to {collected.files[-1].file}"
            if len(collected.files) > 1
            else collected.files[0].file
        )
        begins = "would begin" if dry_run else "begins"
        echo(
            f"{collected.source}: {verb} {files}, {collected.size} bytes of log; bronze {begins} at {collected.oldest}"
        )
    else:
        echo(f"{collected.source}: nothing to remove; bronze begins at {collected.oldest}")
    if collected.kept_for:
        ERRORS.print(
            f"{collected.source}: older files are kept for {collected.kept_for}; "
            f"--ignore {collected.kept_for.name} removes them all the same",
            markup=False,
            highlight=False,
        )


@cli.command()
@click.option("--to", required=True, type=click.Path(path_type=Path), metavar="FILE", help="A new .tar.gz file.")
def package(to: Path) -> None:
    """Write an archive of this environment for executors.

    The archive has Python, Stratalog and the packages that tasks import. It is tested before it is written. Set
    spark.archive in pipeline.yaml to its path.

    \b
    Example: stratalog package --to stratalog.tar.gz
    """  # noqa: D301 - click's mark for lines that stay as they are
    with doing("packaging"):
        size = environment.package(to)
    echo(f"{to}: stratalog {code_version()}, Python and packages, {size >> 20:,} MiB")
