"""The code location that Dagster loads: the pipeline that the environment names.

Put here: which configuration it is, and ``defs``. Not here: how a code location is put together (build.py).
"""

import os
from pathlib import Path

import dagster as dg

from dagster_project.build import build_defs
from spark_jobs.config import yaml_file
from spark_jobs.errors import ConfigError


def configured() -> dg.Definitions:
    """Settings from the environment. Raises ConfigError with what is wrong, and what to do, in one message."""
    try:
        path = Path(os.environ.get(yaml_file.VARIABLE, yaml_file.FILE_NAME))
        return build_defs(path, executor=dg.in_process_executor)
    except ConfigError as error:
        advice = f"Nothing was loaded. {yaml_file.VARIABLE} names the configuration; without it, it is ./pipeline.yaml."
        raise ConfigError(f"{error}\n{advice}") from None


defs = configured()
