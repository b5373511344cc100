"""Call of ``stratalog``: each of its errors becomes one message.

Put here: the exit status of each error. Not here: verbs (group.py lists them).
"""

import os
import sys
import traceback
from pathlib import Path

import click

from spark_jobs.cli import missing_package_message
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.text.remedies import advised


def run_verb() -> None:
    """Run what the command line of this process names. Raises SystemExit where it fails."""
    try:
        cli(prog_name="stratalog", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        ERRORS.print("\ninterrupted" if ERRORS.is_terminal else "interrupted", style="red")
        sys.exit(130)
    except StratalogError as error:
        ERRORS.print(advised(error), style="red", markup=False, highlight=False)
        sys.exit(error.exit_status)
    except Exception as error:  # noqa: BLE001 - a trace helps nobody who did not write this
        if os.environ.get("STRATALOG_DEBUG"):
            ERRORS.print(traceback.format_exc(), markup=False, highlight=False)
        ERRORS.print(unexpected_error_message(error), style="red", markup=False, highlight=False)
        sys.exit(ConfigError.exit_status if isinstance(error, ImportError) else StratalogError.exit_status)


def unexpected_error_message(error: Exception) -> str:
    """Message for an error that no part of Stratalog raises: the environment is wrong, or Stratalog is."""
    if isinstance(error, ImportError):
        return missing_package_message(error)
    if isinstance(error, MemoryError):
        return "the memory of this machine does not suffice; raise its limit, or use a larger machine"
    if isinstance(error, OSError) and not _is_here():
        return "the current directory is gone; change to a directory that is there"
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or error}; remove the cause, then repeat the command"
    text = " ".join(str(error).split())
    return (
        f"{type(error).__name__}: {text}; this is an error of Stratalog: report it with the trace that "
        "STRATALOG_DEBUG=1 shows"
    )


def _is_here() -> bool:
    """True if the current directory exists."""
    try:
        Path.cwd()
    except OSError:
        return False
    return True
