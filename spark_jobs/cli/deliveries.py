"""Verb ``deliver``: downstream tables written into other databases, by ``run`` too.

Put here: its options, and what is said of a delivery. Not here: the work (spark_jobs/delivery).
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_jobs.cli.app import config_option, echo, echo_json, tables_option, yes_option
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.cli.run_report import stop_codes
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Scope
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.operations.observation.run_telemetry import observed
from spark_jobs.runtime.interrupt import interruptible
from spark_jobs.text.remedies import advised

if TYPE_CHECKING:
    from spark_jobs.delivery.deliver import DeliveryOutcome


@cli.command()
@config_option
@click.option("--to", metavar="NAME", help="Only this delivery of the configuration.")
@tables_option("Only this table of a delivery")
@click.option(
    "--reload",
    "reloads",
    is_flag=True,
    help="Empty the target's tables first, and deliver them from the beginning; needs --table and --yes.",
)
@yes_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per delivery, one per line.")
def deliver(path: Path, to: str | None, tables: tuple[str, ...], *, reloads: bool, yes: bool, as_json: bool) -> None:
    """Write downstream tables into another database.

    Each delivery of pipeline.yaml brings its target up to the published position.

    \b
    Example: stratalog deliver -c pipeline.yaml
    Example: stratalog deliver -c pipeline.yaml --to replica --table shop.orders
    Example: stratalog deliver --json
    """  # noqa: D301 - click's mark for lines that stay as they are
    pipeline = load(path)
    names = chosen_deliveries(pipeline, to)
    only = Scope.parse(tables) if tables else None
    if reloads:
        if only is None or len(names) > 1:
            raise click.UsageError("--reload needs --table, and --to where there are several deliveries")
        _reload(pipeline, names[0], only, yes=yes, as_json=as_json)
    elif yes:
        raise click.UsageError("--yes is for --reload")
    if not reloads or yes:
        # In order, tables of a source go together: those that were emptied, and the others.
        is_ordered = {name: pipeline.deliveries[name].apply == "ordered" for name in names}
        with observed(pipeline, "deliver"):
            successes = [
                _deliver(pipeline, name, None if reloads and is_ordered[name] else only, as_json=as_json)
                for name in names
            ]
        if not all(successes):
            sys.exit(1)


def chosen_deliveries(pipeline: Pipeline, name: str | None) -> list[str]:
    """The deliveries of a configuration, or the one that is named. Raises ConfigError."""
    if not pipeline.deliveries:
        raise ConfigError(f"{pipeline.path.name} has no deliveries:, the databases that tables are written to")
    if name is not None and name not in pipeline.deliveries:
        raise ConfigError(f"{pipeline.path.name}: no delivery {name!r}; it has {', '.join(pipeline.deliveries)}")
    return [name] if name else list(pipeline.deliveries)


def deliver_all(pipeline: Pipeline, *, as_json: bool = False) -> bool:
    """Each delivery of a configuration, one after the other; False where one failed or a table of it stopped."""
    successes = [_deliver(pipeline, name, None, as_json=as_json) for name in pipeline.deliveries]
    return all(successes)


def _deliver(pipeline: Pipeline, name: str, only: Scope | None, *, as_json: bool) -> bool:
    with interruptible():
        return deliver_one(pipeline, name, only, as_json=as_json)


def deliver_one(pipeline: Pipeline, name: str, only: Scope | None, *, as_json: bool, quiet: bool = False) -> bool:
    """Delivers, and says so; False where the delivery failed or a table of it stopped.

    only: the tables, where not all. quiet: nothing is said where nothing was delivered. Raises ConfigError.
    """
    from spark_jobs.delivery.deliver import deliver as deliver_tables

    try:
        outcome = deliver_tables(pipeline, name, only)
    except ConfigError:
        raise
    except StratalogError as error:
        ERRORS.print(advised(error), style="red", markup=False, highlight=False)
        return False
    # What was delivered, or why it was not.
    if quiet and not outcome.tables and not outcome.stopped:
        return True
    if as_json:
        echo_json(_json(outcome))
    else:
        _print_outcome(outcome)
    return not outcome.stopped


def _json(outcome: "DeliveryOutcome") -> dict[str, Any]:
    """The object of ``--json``."""
    tables = [
        {
            "table": str(table.table),
            "rows": table.rows,
            "position": table.position,
            "statements": list(table.statements),
            "seconds": round(table.seconds, 3),
        }
        for table in outcome.tables
    ]
    stopped = {str(table): reason for table, reason in outcome.stopped.items()}
    return {"delivery": outcome.delivery, "tables": tables, "stopped": stopped, "codes": stop_codes(stopped)}


def _print_outcome(outcome: "DeliveryOutcome") -> None:
    if not outcome.tables and not outcome.stopped:
        echo(f"delivery {outcome.delivery}: nothing new")
    for table in outcome.tables:
        # Its statements are lines of the log, each before it is executed.
        echo(f"delivery {outcome.delivery}: {table.table}: {table.rows:,} rows, up to {table.position}")


def _reload(pipeline: Pipeline, name: str, only: Scope, *, yes: bool, as_json: bool) -> None:
    """Empty the target's tables, or say which: on standard error where standard output is JSON."""
    from spark_jobs.delivery.deliver import chosen_tables, reload_tables
    from spark_jobs.lake.layout import lake_of

    tables = chosen_tables(pipeline, lake_of(pipeline), name, only)
    for table in tables:
        echo(f"delivery {name}: {table}: {'empties' if yes else 'would empty'} the target's table", err=as_json)
    if yes:
        reload_tables(pipeline, name, tables)
    else:
        ERRORS.print("nothing is changed yet; --yes does it", markup=False)
