"""Verbs that show the state of sources: status, report.

Put here: a source's state in a reader's words. Not here: what is asked and measured
(spark_jobs/operations/observation/status.py), or the page (spark_jobs/operations/observation/report.py).
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.filesize import decimal
from rich.text import Text

from spark_jobs.cli.app import chosen_sources, config_option, echo, echo_json, source_option
from spark_jobs.cli.group import Terminal, cli
from spark_jobs.cli.output import _WIDE, cascades_line, print_grid
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError, message_under
from spark_jobs.runtime.arrow import load_without_pandas
from spark_jobs.text.counts import counted
from spark_jobs.text.replaced import replace_text

if TYPE_CHECKING:
    from spark_jobs.delivery.status import DeliveryStatus
    from spark_jobs.operations.observation.status import EndpointStatus, SourceStatus, TableStatus
    from spark_jobs.subscriptions.lag import GroupStatus


_FORMATS = ("text", "json", "prometheus")
_AT_A_GLANCE = 20
"""Tables of a source that status lists; of more, those that need a look."""


@cli.command()
@config_option
@source_option
@click.option("--all", "everything", is_flag=True, help="List all tables, whatever their number.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as --format json.")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default=_FORMATS[0],
    show_default=True,
    help="Text, one JSON object, or metrics in Prometheus' text format.",
)
@click.option(
    "--to",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write metrics to this file, which is replaced atomically.",
)
def status(path: Path, source: str | None, form: str, file: Path | None, *, everything: bool, as_json: bool) -> None:
    """Show positions, backlog and lag of every layer and delivery.

    Retention margins and stopped tables are listed too. With --source, deliveries are omitted.

    Exit status 1, with the reason on standard error, if a table has stopped, a source cannot be read, a limit is
    exceeded (retention.margin, max_lag, max_verify_age), verify found rows that differ from the server's, or the last
    run failed.

    \b
    Example: stratalog status -c pipeline.yaml --json
    Example: stratalog status -c pipeline.yaml --format prometheus --to /var/lib/node_exporter/stratalog.prom
    """  # noqa: D301 - click's mark for lines that stay as they are
    load_without_pandas()
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.observation.alarms import alarms
    from spark_jobs.operations.observation.status import status as status_of

    form = "json" if as_json else form
    if file and form != "prometheus":
        raise click.UsageError("--to is for --format prometheus")
    # The whole report comes before the exit status, which monitoring reads.
    pipeline = load(path)
    deliveries = [] if source else _delivery_statuses(pipeline)
    statuses = [status_of(pipeline, lake_of(pipeline), name) for name in chosen_sources(pipeline, source)]
    raised = {status.source: alarms(pipeline, status) for status in statuses}
    if form == "prometheus":
        _put_metrics(pipeline, statuses, deliveries, file)
    elif form == "json":
        sources = {
            source_status.source: source_status.to_json()
            | {"alarms": [alarm.to_json() for alarm in raised[source_status.source]]}
            for source_status in statuses
        }
        listed_deliveries = {delivery.delivery: delivery.to_json() for delivery in deliveries}
        document = {"sources": sources} | ({"deliveries": listed_deliveries} if deliveries else {})
        echo_json(document, indent=2, ensure_ascii=True)
    else:
        for entry in statuses:
            print_status(entry, everything=everything)
        for delivery in deliveries:
            _print_delivery(delivery, everything=everything)
    # Every alarm and every error of a delivery makes the exit status 1.
    messages = [alarm.message for alarms in raised.values() for alarm in alarms]
    messages += [delivery.error for delivery in deliveries if delivery.error]
    for message in messages:
        echo(f"exit status 1: {message}", err=True)
    if messages:
        sys.exit(1)


def _put_metrics(
    pipeline: Pipeline, statuses: "Sequence[SourceStatus]", deliveries: "Sequence[DeliveryStatus]", file: Path | None
) -> None:
    """The metrics of all that was asked, to standard output or into a file. Raises ConfigError."""
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.observation.metrics import exposition, families_of

    text = exposition(families_of(pipeline, lake_of(pipeline), statuses, deliveries))
    if file is None:
        echo(text.rstrip("\n"))
        return
    # Prometheus' textfile collector may read at any time: the file is whole or the one before.
    try:
        replace_text(file, text)
    except OSError as error:
        raise ConfigError(f"--to: {file}: cannot be written: {error.strerror}") from error


def print_status(status: "SourceStatus", *, everything: bool) -> None:
    """Print a source's state in a word, where its layers are, and its tables. What is wrong goes to standard error."""
    # A source at a glance: its condition, positions and counts.
    word, colour = _source_condition(status)
    states = Counter(table.state for table in status.tables)
    stretch = f", stretch {status.stretch} of the log" if (status.stretch or 1) > 1 else ""
    facts = [
        ("log", status.end or "unknown"),
        ("bronze", _bronze(status)),
        ("margin", _margin(status)),
        ("server", f"{status.endpoint}{stretch}" if status.endpoint else ""),
        ("tables", ", ".join(f"{count} {state}" for state, count in states.most_common())),
    ]
    console = Terminal(highlight=False, width=_WIDE)
    console.print(Text.assemble(f"{status.source}: ", (word, colour)))
    for name, value in facts:
        if value:
            console.print(f"  {name:<8}{value}")
    print_grid(
        ["endpoint", "", "unavailable since", "next try"],
        [[e.endpoint, _health(e), e.unavailable_since or "", e.next_try or ""] for e in status.endpoints],
    )
    # A long list of tables is shortened to those that need attention.
    tables = [t for t in status.tables if everything or len(status.tables) <= _AT_A_GLANCE or not _is_well(t, status)]
    print_grid(
        ["table", "state", "silver", "downstream", "older rows"],
        [[t.table, _state(t, status), t.silver or "", t.downstream or "", _older_rows(t)] for t in tables],
    )
    _print_targets(tables)
    print_grid(["keys shared", "complete up to"], [[t.table, t.watermark] for t in status.tables if t.watermark])
    # What only some sources have: shared keys, quarantined events, cascades, consumer groups.
    print_grid(
        ["quarantined for", "at", "event", "since"],
        [[skip["table"], skip["position"], skip["event"], skip["skipped_at"]] for skip in status.skips],
    )
    print_grid(
        ["changed unlogged by", "foreign key", "on delete", "on update", "of"],
        [
            [key["table"], key["constraint"], key["on_delete"], key["on_update"], key["parent"]]
            for key in status.cascades
        ],
    )
    print_grid(
        ["group", "position", "behind", "consumer", "acknowledged"],
        [[g.group, g.position, _behind(g), g.consumer or "", g.acknowledged_at] for g in status.subscriptions],
    )
    if len(tables) < len(status.tables):
        echo(f"{len(status.tables) - len(tables)} more are as they should be; --all lists them")
    _print_problems(status)


def _delivery_statuses(pipeline: Pipeline) -> "list[DeliveryStatus]":
    """Status of all deliveries of a pipeline, most of which have none: their libraries take as long as all else."""
    if not pipeline.deliveries:
        return []
    from spark_jobs.delivery.status import status as delivery_status
    from spark_jobs.lake.layout import lake_of

    return [delivery_status(pipeline, lake_of(pipeline), name) for name in pipeline.deliveries]


def _print_delivery(delivery: "DeliveryStatus", *, everything: bool) -> None:
    """Print the progress of a delivery, and its tables; of many, those that are behind."""
    states = Counter(table.state for table in delivery.tables)
    word, colour = ("up to date", "green") if states.keys() <= {"current"} else ("behind", "yellow")
    word, colour = ("cannot be reached", "red") if delivery.error else (word, colour)
    console = Terminal(highlight=False, width=_WIDE)
    console.print(Text.assemble(f"delivery {delivery.delivery}: ", (word, colour)))
    console.print(f"  target  {delivery.target}")
    # Of many tables those that are behind.
    is_short = everything or len(delivery.tables) <= _AT_A_GLANCE
    tables = [table for table in delivery.tables if is_short or table.state != "current"]
    print_grid(
        ["table", "state", "delivered", "rows written", "safe mode until", "at"],
        [
            [t.table, t.state, t.position or "", f"{t.rows_written:,}", t.safe_mode_until or "", t.updated_at or ""]
            for t in tables
        ],
    )
    if len(tables) < len(delivery.tables):
        echo(f"{len(delivery.tables) - len(tables)} more are current; --all lists them")


def _print_targets(tables: Sequence["TableStatus"]) -> None:
    """The downstream tables of those that go to several, and the modes of those that are no mirrors."""
    print_grid(
        ["table", "into", "downstream"],
        [[t.table, to["table"] or "", to["downstream"] or ""] for t in tables for to in t.targets or ()],
    )
    print_grid(["mode of", "mode"], [*_modes(tables)])


def _modes(tables: Sequence["TableStatus"]) -> Iterator[list[str]]:
    """The downstream tables that keep more than current rows, and how."""
    for table in tables:
        for target in table.targets or [{"table": table.table, "mode": table.mode}]:
            if target["mode"] not in (None, "mirror"):
                yield [target["table"] or "", target["mode"] or ""]


def _print_problems(status: "SourceStatus") -> None:
    # In the order in which they have to be mended: the server, then stopped tables, then gaps in rows.
    lines = [f"{status.source}: endpoint {e.endpoint}: {e.reason}" for e in status.endpoints if e.reason]
    lines += [status.error] if status.error else []
    lines += [f"{status.source}: {status.warning}"] if status.warning else []
    lines += [
        f"{table.table} stopped: {message_under(table.reason, status.source, table.table)}"
        for table in status.tables
        if table.reason and table.state not in ("reset", "ignored")
    ]
    lines += [f"{t.table} is {t.reason}" for t in status.tables if t.reason and t.state in ("reset", "ignored")]
    lines += [
        f"{table.table} lacks {table.keys_never_whole} keys: row images left columns out of them, and none was whole"
        for table in status.tables
        if table.keys_never_whole
    ]
    lines += [
        f"{table.table} has numbers for columns, and its rows are counted: nothing names them (on_unnamed: number)"
        for table in status.tables
        if table.numbered and table.state != "ignored"
    ]
    lines += [cascades_line(status.source, status.cascades)] if status.cascades else []
    for line in lines:
        echo(line, err=True)


def _state(table: "TableStatus", status: "SourceStatus") -> str:
    """A table's state, and what is known of its rows where they differ, or the log does not tell all of them."""
    if table.state != "current":
        return table.state
    if table.differs:
        return f"current, differs since {table.verified_at}"
    if not any(key["table"] == table.table for key in status.cascades):
        return "current"
    return f"current, unverified since {table.verified_at}" if table.verified_at else "current, unverified"


def _source_condition(status: "SourceStatus") -> tuple[str, str]:
    """A source in a word or two, and their colour."""
    stopped = sum(table.state == "stopped" for table in status.tables)
    if status.error:
        return "cannot be read", "red"
    if stopped:
        return f"{stopped} of {len(status.tables)} tables stopped", "red"
    if status.bronze is None:
        return "nothing read yet", "yellow"
    if status.warning:
        return "near to losing log", "red"
    going = [table for table in status.tables if table.state in ("current", "reset")]
    behind = status.backlog_bytes or any(not table.is_at(status.bronze) for table in going)
    # Rows that are known to differ, and those that may, come behind how far the layers are.
    differing, unverified = sum(table.differs for table in going), {key["table"] for key in status.cascades}
    word, colour = ("behind", "yellow") if behind else ("up to date", "green")
    if differing:
        word, colour = f"{word}, but rows of {counted(differing, 'table')} are not the server's", "red"
    elif unverified and not behind:
        word, colour = f"{word}, but rows of {counted(len(unverified), 'table')} are changed unlogged", "yellow"
    return word, colour


def _bronze(status: "SourceStatus") -> str:
    if status.bronze is None or status.backlog_bytes is None:
        return status.bronze or "empty"
    if not status.backlog_bytes:
        return f"{status.bronze}, nothing behind"
    lag = "" if status.lag_seconds is None else f", {_span(status.lag_seconds)}"
    return f"{status.bronze}, behind by {decimal(status.backlog_bytes)}{lag}"


def _behind(group: "GroupStatus") -> str:
    """Distance of a consumer group from the end of bronze."""
    if group.lag_bytes is None:
        return "unknown"
    return f"{decimal(group.lag_bytes)}, {_span(group.lag_seconds or 0.0)}" if group.lag_bytes else "nothing"


def _margin(status: "SourceStatus") -> str:
    if status.retention_margin_bytes is None:
        return ""
    hours = f", {_span(status.retention_margin_hours * 3600)}" if status.retention_margin_hours else ""
    return f"{decimal(status.retention_margin_bytes)} of log{hours}, read already, still at the source"


def _span(seconds: float) -> str:
    """Seconds in the largest unit of which there are two."""
    units = [(86_400, "days"), (3_600, "hours"), (60, "minutes")]
    size, unit = next(((size, unit) for size, unit in units if seconds >= 2 * size), (1, "seconds"))
    return f"{seconds / size:.0f} {unit}"


def _is_well(table: "TableStatus", status: "SourceStatus") -> bool:
    """True if there is nothing to look at."""
    is_current = _state(table, status) == "current" and table.is_at(status.bronze) and not table.keys_never_whole
    return table.state == "ignored" or (is_current and table.complete is not False and not table.numbered)


@cli.command()
@config_option
@source_option
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the pages; default: reports.to of pipeline.yaml.",
)
def report(path: Path, source: str | None, folder: Path | None) -> None:
    """Write an HTML status page for each source.

    It shows the position of each layer and the results of past runs, from the lake's history.

    Example: stratalog report -c pipeline.yaml --to ./reports
    """
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.observation.report import write

    pipeline = load(path)
    to = folder or pipeline.reports.to
    if to is None:
        raise ConfigError("reports.to is null in pipeline.yaml: name a folder by --to")
    for name in chosen_sources(pipeline, source):
        echo(write(pipeline, lake_of(pipeline), name, to))


def _health(endpoint: "EndpointStatus") -> str:
    state = "available" if endpoint.available else "unavailable"
    return f"in use, {state}" if endpoint.in_use else state


def _older_rows(table: "TableStatus") -> str:
    """True if a table has the rows from before its log, or how far their load is."""
    if table.load is None:
        return {True: "complete", False: "not loaded", None: ""}[table.complete]
    state, rows, estimate = table.load["state"], table.load["rows"], table.load["estimated_rows"]
    return {
        "reading": f"{rows} read of {estimate or 'unknown'}",
        "read": f"{rows} read",
    }.get(state, "load stopped")
