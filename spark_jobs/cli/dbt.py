"""Verb ``dbt``: downstream tables as sources of dbt.

Put here: its options and printing. Not here: what a source consists of (operations/dbt_sources.py).
"""

from pathlib import Path

import click
import yaml

from spark_jobs.cli.app import config_option, echo, tables_option
from spark_jobs.cli.group import cli
from spark_jobs.config.loader import load


@cli.command()
@click.argument("action", type=click.Choice(["sources"]), default="sources")
@config_option
@click.option(
    "--adapter",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="The dbt adapter that reads the tables.",
)
@click.option(
    "--key-prefix", multiple=True, metavar="PART", help="key_prefix of the Dagster component; once for each part."
)
@tables_option("Only this downstream table or pattern")
def dbt(path: Path, action: str, adapter: str, key_prefix: tuple[str, ...], tables: tuple[str, ...]) -> None:  # noqa: ARG001 - there is one action
    """Print the published downstream tables as sources of a dbt project.

    Each schema is a source, with tables, columns, comments, locations for dbt, and asset keys in Dagster.

    \b
    Example: stratalog dbt sources -c pipeline.yaml
    Example: stratalog dbt sources --adapter spark --table 'shop.*'
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.changes.lines import wanted_tables
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.dbt_sources import DbtAdapter, dbt_sources

    pipeline = load(path)
    sources = dbt_sources(
        pipeline, lake_of(pipeline), DbtAdapter(adapter), in_scope=wanted_tables(tables), key_prefix=key_prefix
    )
    echo(yaml.safe_dump(sources, sort_keys=False, allow_unicode=True, width=120).rstrip("\n"))
