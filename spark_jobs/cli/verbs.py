"""The verbs of ``stratalog``, and what becomes of their errors.

Put here: imports of the modules that have verbs, and the exit status of each error. Not here: verbs.
"""

import sys

import click

from spark_jobs.cli import check, ingest, inspect, operate, status
from spark_jobs.cli.app import ERRORS, cli
from spark_jobs.errors import StratalogError
from spark_jobs.text.remedies import advised

__all__ = ["check", "cli", "ingest", "inspect", "operate", "run_verb", "status"]


def run_verb() -> None:
    """Runs what the command line of this process names. Raises SystemExit where it fails."""
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
