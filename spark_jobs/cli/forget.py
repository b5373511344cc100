"""Verb ``forget``: rows of some keys erased from the lake.

Put here: its options, and what is said of locations. Not here: erasing (operations/forgetting/).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_jobs.cli.app import (
    config_option,
    each_source,
    echo,
    echo_json,
    single_source,
    source_option,
    table_name,
    yes_option,
)
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.cli.output import print_grid
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.operations.forgetting.forget import Forgotten


@cli.command()
@click.argument("table", metavar="DB.TABLE")
@config_option
@source_option
@click.option(
    "--key",
    "keys",
    multiple=True,
    required=True,
    metavar="KEY",
    help="Erase the rows of this key, such as order_id=100,line=1, or only the values in the key's order; can be "
    "repeated. Give all keys that a row has had.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="READER",
    help="Do not wait for this reader of the log, such as group:search; can be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@yes_option
def forget(  # noqa: PLR0913 - a parameter an option
    table: str,
    path: Path,
    source: str | None,
    keys: tuple[str, ...],
    ignored: tuple[str, ...],
    *,
    as_json: bool,
    yes: bool,
) -> None:
    """Erase the rows of keys from all of the lake.

    First delete the rows at the source, and run. Then the command runs deliveries, and erases the rows from bronze,
    with the texts of their statements, from silver and downstream tables, from rows of unfinished loads, and from older
    versions, indexes and statistics. In bronze a filler of the same length replaces them: every log position stays, and
    export reports the changed bytes. Without --yes the tables are listed, and nothing is erased. After an interruption,
    the same command completes the erasure.

    \b
    Example: stratalog forget shop.customers -c pipeline.yaml --key id=2
    Example: stratalog forget shop.order_lines -c pipeline.yaml --key order_id=100,line=1 --yes
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.operations.forgetting.forget import forget as forget_rows

    # Wrong use is found before a session is started.
    name = table_name(table)
    origin = single_source(load(path), source)

    def forget_one(spark: "SparkSession", pipeline: Pipeline, source_name: str) -> None:
        forgotten = forget_rows(spark, pipeline, source_name, name, keys, ignored=ignored, is_applied=yes)
        if as_json:
            echo_json(forgotten.to_json(is_applied=yes))
        else:
            _say(forgotten, yes=yes)

    each_source(path, origin, forget_one, is_lazy=True)


def _say(forgotten: "Forgotten", *, yes: bool) -> None:
    # The rows of each table first, then who else still has them.
    tables = [table for table in forgotten.tables if not table.is_empty]
    print_grid(
        ["place", "events", "rows", "deleted rows", "older files"],
        [
            [
                table.path,
                *(f"{count:,}" for count in (table.events, table.rows, table.marked, table.old_files)),
            ]
            for table in tables
        ],
    )
    if not tables:
        echo(f"{forgotten.source}: {forgotten.table}: nothing of these keys is in the lake")
    for remark in forgotten.holders:
        ERRORS.print(remark, markup=False, highlight=False)
    if tables and not yes:
        ERRORS.print("nothing is erased yet; --yes does it", markup=False)
    elif tables:
        echo(f"{forgotten.source}: {forgotten.table}: erased")
