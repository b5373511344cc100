"""``stratalog``: one function a verb.

Put here: the console script. Not here: verbs, each in the module of its kind; or work: each verb calls what Dagster's
assets call. Results go to standard output, everything else to standard error. Exit status: 0 done, 1 failed, 2 wrong
use or configuration.
"""

import sys

import click

from spark_jobs.cli import check as check_verbs
from spark_jobs.cli import ingest, inspect, operate
from spark_jobs.cli import status as status_verbs
from spark_jobs.cli.app import ERRORS, cli
from spark_jobs.errors import StratalogError
from spark_jobs.text.remedies import advised

__all__ = ["check_verbs", "cli", "ingest", "inspect", "main", "operate", "status_verbs"]


def main() -> None:
    """The console script."""
    try:
        cli(prog_name="stratalog", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        ERRORS.print("interrupted", style="red")
        sys.exit(130)
    except StratalogError as error:
        ERRORS.print(advised(error), style="red", markup=False, highlight=False)
        sys.exit(error.exit_status)
