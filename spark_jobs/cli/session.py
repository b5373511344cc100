"""Verb ``session``: standing sessions of Spark.

Put here: its options and printing. Not here: what is measured and ended (runtime/standing/overview.py).
"""

import sys

import click
from rich.filesize import decimal

from spark_jobs.cli.app import echo, echo_json
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.cli.output import print_grid
from spark_jobs.errors import StratalogError
from spark_jobs.runtime.standing.overview import StandingSession, sessions, stop

_MINUTE, _HOUR = 60, 3600


@cli.command()
@click.argument("action", type=click.Choice(["status", "stop"]), default="status")
@click.option("--name", metavar="NAME", help="Only the session with this name.")
@click.option("--force", is_flag=True, help="With stop: also end sessions with attached runs; these runs fail.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per session.")
def session(action: str, name: str | None, *, force: bool, as_json: bool) -> None:
    """List or stop the Spark servers that stay between runs (spark.keep).

    All sessions of this user on this machine are listed, for every configuration. A session with attached runs is
    stopped only with --force; otherwise the exit status is 1.

    \b
    Example: stratalog session
    Example: stratalog session stop
    """  # noqa: D301 - click's mark for lines that stay as they are
    listed = [item for item in sessions() if name is None or item.name == name]
    if force and action != "stop":
        raise click.UsageError("--force goes with stop")
    if name and not listed:
        raise StratalogError(f"there is no session {name}; stratalog session lists those that there are")
    if action == "status":
        _show(listed, as_json=as_json)
        return
    # One that is not stopped does not save the others.
    ended = [_is_stopped(item, force=force, as_json=as_json) for item in listed]
    if not listed and not as_json:
        echo("no session runs")
    if not all(ended):
        sys.exit(StratalogError.exit_status)


def _is_stopped(item: StandingSession, *, force: bool, as_json: bool) -> bool:
    """Stop a session, and say so; False where it is not stopped."""
    try:
        stop(item, force=force)
        refusal = None
    except StratalogError as error:
        refusal = str(error)
    if as_json:
        echo_json(item.as_json() | {"stopped": refusal is None})
    elif refusal is None:
        echo(f"session {item.name}: stopped")
    if refusal is not None:
        ERRORS.print(refusal, style="red", markup=False, highlight=False)
    return refusal is None


def _show(listed: list[StandingSession], *, as_json: bool) -> None:
    if as_json:
        for item in listed:
            echo_json(item.as_json())
        return
    if not listed:
        echo("no session runs")
    # A line each, and below the grid what would make its lines too long.
    head = ["session", "pid", "address", "age", "idle", "ends after", "memory", "runs"]
    print_grid(
        head,
        [
            [
                item.name,
                str(item.pid or "starting"),
                item.address or "",
                _duration_text(item.age),
                _duration_text(item.idle),
                _duration_text(item.keep),
                decimal(item.memory),
                ", ".join(f"{run.command} ({run.pid})" for run in item.runs),
            ]
            for item in listed
        ],
    )
    for item in listed:
        echo(f"{item.name}: {item.code or ''}, Spark {item.spark or ''}, log {item.log}")


def _duration_text(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"
