"""Tasks run in this process, by the same code as in Spark's, where a job costs more than its work.

A job of Spark takes some 0.2 seconds on an idle machine, whatever its tasks do; decoding and merging a megabyte of log
takes less.

Put here: the choice by size, and what a task's error means. Not here: how tasks are run (engine/jobs/spark_job.py,
bronze/landing.py).
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from spark_jobs.config.model import Spark
from spark_jobs.errors import StratalogError
from spark_jobs.runtime.engine_errors import explained
from spark_jobs.runtime.lazy_session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _TasksHere:
    """Placeholder of a session: jobs run in this process."""


TASKS_HERE = cast("SparkSession", _TasksHere())
"""Placeholder of a session, for jobs that are too small for one: their tasks run one after the other, here."""


def is_here(spark: "SparkSession") -> bool:
    """True if jobs of a session run in this process."""
    return isinstance(spark, _TasksHere)


@dataclass(frozen=True, slots=True)
class Placement:
    """Place where a job runs. slots: tasks that run at a time."""

    session: "SparkSession"
    slots: int


def placement_for(spark: "SparkSession", settings: Spark, size: int, *, default: int = 0) -> Placement:
    """The place for a job over ``size`` bytes of log or files: a session is started where it is Spark.

    default: bytes from which a job is Spark's where ``job_bytes`` is not set.
    """
    from spark_jobs.runtime.spark_session import session_over, slots

    if size < (default if settings.job_bytes is None else settings.job_bytes):
        return Placement(TASKS_HERE, 1)
    start_session(spark)  # by this thread, where it is a lazy one
    return Placement(session_over(spark, 0), slots(spark))


@contextmanager
def task_errors(spark: "SparkSession", path: str = "") -> Iterator[None]:
    """Raise errors of tasks as they would return from Spark, if the session is TASKS_HERE.

    path: of the table, opens the message; empty where it is about several.
    """
    if not is_here(spark):
        yield
        return
    try:
        yield
    except StratalogError:
        raise
    except Exception as error:
        raise explained(path, traceback.format_exc()) from error
