"""Verb ``mend``: rows that differ, replaced by the server's.

Put here: its options, and what is said of tables. Not here: which rows are read and
written (spark_jobs/mending/).
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_jobs.cli.app import (
    chosen_sources,
    config_option,
    each_source,
    echo,
    echo_json,
    source_option,
    tables_option,
    yes_option,
)
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.cli.output import print_grid
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.mending.mend_source import Mended, MendedTable
    from spark_jobs.pipeline.outcome import Outcome

_SHOWN = 100
"""Keys of a table that are printed; --json has all that were found."""


@cli.command()
@config_option
@source_option
@tables_option("Only this table or pattern; default: all tables whose rows differ")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="COLUMN=VALUE,…",
    help="Only this key of the one table of --table, such as order_id=100,line=1, or only the values in the key's "
    "order; can be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table, one per line.")
@yes_option
def mend(
    path: Path, source: str | None, tables: tuple[str, ...], keys: tuple[str, ...], *, as_json: bool, yes: bool
) -> None:
    """Replace rows that differ from the server's.

    Tables are compared as verify does. The rows of differing keys are read from the server as of a position of the
    log, and written to silver and downstream; keys without a row on the server are deleted there. Nothing is written
    to the server. A table without a key is read again completely. Without --yes the command runs and compares, but
    mends nothing. Exit status: 1 if a table could not be mended.

    \b
    Example: stratalog mend -c pipeline.yaml
    Example: stratalog mend -c pipeline.yaml --source shop --table shop.order_lines --yes
    Example: stratalog mend -c pipeline.yaml --source shop --table shop.order_lines --key order_id=100,line=1 --yes
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.checks.verify import require_live
    from spark_jobs.mending.mend_source import mend_source, require_keys

    # Wrong use is found before a session is started.
    require_keys(tables, keys)
    pipeline = load(path)
    names = chosen_sources(pipeline, source)
    if tables and len(names) > 1:
        raise click.UsageError(f"--table is of one source; name it by --source: {', '.join(names)}")
    for name in names:
        require_live(pipeline, name)
    differing: list[MendedTable] = []
    stopped: list[MendedTable] = []

    def mend_one(spark: "SparkSession", pipeline: Pipeline, name: str) -> "Outcome | None":
        mended = mend_source(spark, pipeline, name, tables=tables, keys=keys, is_applied=yes)
        differing.extend(mended.differing)
        stopped.extend(mended.stopped)
        for table in mended.tables if as_json else ():
            echo_json(table.to_json(is_applied=yes))
        if not as_json:
            _print_mended(name, mended, yes=yes)
        return mended.outcome

    each_source(path, source, mend_one, is_lazy=True)
    if differing and not yes:
        ERRORS.print("nothing is mended yet; --yes does it", markup=False)
    if stopped:
        sys.exit(1)


def _print_mended(source: str, mended: "Mended", *, yes: bool) -> None:
    from spark_jobs.mending.mend_source import STOPPED, WHOLE
    from spark_jobs.operations.observation.verified import EQUAL

    # The grid first, then the keys, and remarks on standard error.
    head = ["table", "inserted", "updated", "deleted", "as of"]
    head[1:4] = head[1:4] if yes else ["to insert", "to update", "to delete"]
    print_grid(head, [_table_row(table, is_whole=table.state == WHOLE) for table in mended.differing])
    for table in mended.tables:
        if table.state == EQUAL:
            echo(f"{source}: {table.table}: has the server's rows")
        lines = list(table.lines())
        for line in lines[:_SHOWN]:
            echo(line)
        if len(lines) > _SHOWN:
            echo(f"{table.table}: {len(lines) - _SHOWN} more keys; --json lists them")
        for remark in table.remarks(is_applied=yes):
            style = "red" if table.state == STOPPED else None
            ERRORS.print(remark, style=style, markup=False, highlight=False)
    if not mended.tables:
        echo(f"{source}: no table differs")


def _table_row(table: "MendedTable", *, is_whole: bool) -> list[str]:
    counts = table.counts
    cells = [f"{count:,}" for count in (counts.inserted, counts.updated, counts.deleted)]
    if is_whole:
        cells = [f"all {table.rows:,}", "", ""]
    return [str(table.table), *cells, str(table.at or "")]
