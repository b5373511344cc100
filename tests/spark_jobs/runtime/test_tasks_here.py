import errno
import os
from typing import Never

import pytest

from spark_jobs.config.model import Spark
from spark_jobs.errors import LakeError, StratalogError, TableStopped
from spark_jobs.runtime.lazy_session import lazy_session, session_if_started
from spark_jobs.runtime.tasks_here import TASKS_HERE, is_here, placement_for, task_errors


class Started(Exception):
    pass


def start() -> Never:
    raise Started


def test_a_job_below_the_size_runs_here_and_starts_no_spark() -> None:
    spark = lazy_session(start)
    placement = placement_for(spark, Spark(job_bytes=1000), 999)
    assert is_here(placement.session)
    assert placement.slots == 1
    assert session_if_started(spark) is None


@pytest.mark.parametrize("job_bytes, size", [(1000, 1000), (0, 0), (None, 0)])
def test_other_jobs_are_spark_s(job_bytes: int | None, size: int) -> None:
    with pytest.raises(Started):
        placement_for(lazy_session(start), Spark(job_bytes=job_bytes), size)


@pytest.mark.parametrize(
    "error, kind, message",
    [
        (TableStopped("shop: t: 12 is no date"), TableStopped, "shop: t: 12 is no date"),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/l/t/part-0.parquet"),
            LakeError,
            "/l/t: a task failed: OSError",
        ),
        (ValueError("it is broken"), LakeError, "/l/t: a task failed: ValueError"),
    ],
)
def test_an_error_of_a_task_is_what_spark_would_bring(error: Exception, kind: type, message: str) -> None:
    with pytest.raises(StratalogError, match=message) as raised, task_errors(TASKS_HERE, "/l/t"):
        raise error
    assert type(raised.value) is kind
