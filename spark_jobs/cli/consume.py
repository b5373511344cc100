"""Verbs of consumer groups: consume, subscriptions.

Put here: what is printed, and how consuming ends. Not here: batches and leases (spark_jobs/subscriptions).
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from spark_jobs.cli.app import (
    chosen_sources,
    complete_sources,
    config_option,
    echo,
    echo_json,
    output_options,
    single_source,
    source_option,
    tables_option,
    yes_option,
)
from spark_jobs.cli.group import cli
from spark_jobs.cli.inspect import require_tables
from spark_jobs.cli.output import print_grid, print_pieces
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.runtime.signals import handled_by

if TYPE_CHECKING:
    from spark_jobs.subscriptions.subscription import Subscription

_FOLLOW_SECONDS = 60.0
"""Seconds that one get waits; a signal ends it at once."""


@cli.command()
@config_option
@click.option(
    "--source", metavar="NAME", shell_complete=complete_sources, help="The source; required if there are several."
)
@click.option("--group", required=True, metavar="NAME", help="The consumer group; created if it does not exist.")
@tables_option()
@output_options
@click.option(
    "--from",
    "start",
    default="earliest",
    metavar="P",
    help="Start of a new group: latest, a position, …; default: earliest.",
)
@click.option("--max", "limit", type=click.IntRange(1), metavar="N", help="End after N lines.")
@click.option("--batch", type=click.IntRange(1), default=1000, show_default=True, help="Lines per acknowledgement.")
@click.option("--follow", is_flag=True, help="Wait for more log, until SIGINT, SIGTERM or a closed pipe.")
@click.option("--peek", is_flag=True, help="Print without acknowledging; a running consumer keeps the group.")
@click.option(
    "--wait",
    type=float,
    default=0.0,
    metavar="SECONDS",
    help="Wait up to SECONDS for a group that another consumer has.",
)
def consume(  # noqa: PLR0913 - options
    path: Path,
    source: str | None,
    group: str,
    tables: tuple[str, ...],
    *,
    form: str,
    statements: bool | None,
    transactions: bool,
    start: str,
    limit: int | None,
    batch: int,
    follow: bool,
    peek: bool,
    wait: float,
) -> None:
    """Print changes as JSON lines, from the position of a consumer group.

    A batch is acknowledged once it is written and flushed. After a kill, unacknowledged lines are printed again, with
    the same offset and row. A group has one consumer. Only bronze is read, without Spark.

    \b
    Example: stratalog consume -c pipeline.yaml --source shop --group search --table shop.orders
    Example: stratalog consume -c pipeline.yaml --group cache --format canal-json --follow
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.subscriptions.subscription import Subscription

    pipeline = load(path)
    name = single_source(pipeline, source)
    require_tables(pipeline, name, tables)
    subscription = Subscription(
        pipeline,
        name,
        group,
        tables=tables,
        format=form,
        start=start,
        ddl=statements,
        transactions=transactions,
        wait=wait,
    )
    # A look takes no lease, so that the group's consumer keeps it.
    if peek:
        if follow:
            raise click.UsageError("--peek does not go with --follow")
        lines = (f"{entry.line}\n" for entry in subscription.peek(limit))
        print_pieces(lines)
        return
    with _ending(subscription) as is_ending, subscription:
        _consume(subscription, limit, batch, follow, is_ending)


def _consume(
    subscription: "Subscription", limit: int | None, size: int, follow: bool, is_ending: threading.Event
) -> None:
    rest = limit
    while not is_ending.is_set() and rest != 0:
        batch = subscription.get_without_ack(
            size if rest is None else min(size, rest), _FOLLOW_SECONDS if follow else None
        )
        if batch.entries:
            print_pieces(f"{entry.line}\n" for entry in batch)
            subscription.ack(batch.id)
            rest = rest and rest - len(batch)
        elif not follow:
            return


@contextmanager
def _ending(subscription: "Subscription") -> Iterator[threading.Event]:
    """Context: the first SIGINT or SIGTERM ends consuming after the batch being written; the second one interrupts."""
    event = threading.Event()

    # The handler does nothing but set flags: a line that is being written is written to its end.

    def end(_number: int, _frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()
        subscription.wake()

    with handled_by(end, signal.SIGINT, signal.SIGTERM):
        yield event


@cli.command()
@config_option
@source_option
@click.option("--group", metavar="NAME", help="The group to move or remove.")
@click.option(
    "--move", "location", metavar="P", help="Move the group to earliest, latest, a position, a GTID set or a time."
)
@click.option("--remove", is_flag=True, help="Remove the group, so that it keeps no log in bronze.")
@yes_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per group.")
def subscriptions(  # noqa: PLR0913 - options
    path: Path, source: str | None, *, group: str | None, location: str | None, remove: bool, yes: bool, as_json: bool
) -> None:
    """List consumer groups, move one to another position, or remove it.

    \b
    Example: stratalog subscriptions -c pipeline.yaml
    Example: stratalog subscriptions -c pipeline.yaml --group search --move 2026-11-21T08:00:00Z --yes
    Example: stratalog subscriptions -c pipeline.yaml --source shop --group search --remove --yes
    """  # noqa: D301 - click's mark for lines that stay as they are
    pipeline = load(path)
    if location is None and not remove:
        if group or yes:
            raise click.UsageError("--group and --yes go with --move or --remove")
        _list(pipeline, chosen_sources(pipeline, source), as_json=as_json)
        return
    if not group or (location and remove):
        raise click.UsageError("name one group by --group, and either --move or --remove")
    _move_group(pipeline, single_source(pipeline, source), group, location, yes=yes, as_json=as_json)


def _list(pipeline: Pipeline, names: list[str], *, as_json: bool) -> None:
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.subscriptions.lag import statuses

    groups = [(name, status) for name in names for status in statuses(lake_of(pipeline), name)]
    # For scripts one object a line, for people a table.
    if as_json:
        for name, status in groups:
            echo_json({"source": name} | asdict(status))
        return
    rows = [
        [name, status.group, status.position, str(status.lag_bytes), status.consumer or "", ", ".join(status.tables)]
        for name, status in groups
    ]
    print_grid(["source", "group", "position", "lag bytes", "consumer", "tables"], rows)
    if not rows:
        echo("no consumer groups")


def _move_group(pipeline: Pipeline, name: str, group: str, location: str | None, *, yes: bool, as_json: bool) -> None:
    """Move a group, or remove it where no location is named."""
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.subscriptions.changes import move_group, remove_group

    lake = lake_of(pipeline)
    if location is None:
        before, after = remove_group(lake, name, group, is_done=yes), None
        text = f"{name}: group {group}, at {before}, {'is' if yes else 'would be'} removed"
    else:
        before, after = move_group(lake, name, group, location, is_done=yes)
        text = f"{name}: group {group} {'moved' if yes else 'would move'} from {before} to {after}"
    # For scripts where the group was and is, for people a sentence.
    if as_json:
        echo_json(
            {"source": name, "group": group, "before": str(before), "after": after and str(after), "changed": yes}
        )
    else:
        echo(text)
    if not yes:
        echo("nothing is changed yet; give --yes", err=True)
