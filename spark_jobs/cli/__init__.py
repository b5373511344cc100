"""``stratalog``: one function a verb.

Put here: the console script. Not here: verbs, each in the module of its kind; or work: each verb calls what Dagster's
assets call. Results go to standard output, everything else to standard error. Exit status: 0 done, 1 failed, 2 wrong
use or configuration.
"""

import sys

import click

from spark_jobs.cli import checking, keeping, reading, running, standing
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.errors import StratalogError
from spark_jobs.remedies import advised

__all__ = ["checking", "cli", "keeping", "main", "reading", "running", "standing"]


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
