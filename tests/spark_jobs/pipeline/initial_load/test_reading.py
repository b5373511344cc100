"""Sums of a job's results, and the size of the next job. Whole loads: tests/pipeline/test_load.py."""

from collections import Counter

import pytest

from spark_jobs.delta.snapshot import DataFile
from spark_jobs.pipeline.initial_load.reading import _files_and_filtered, _next_count
from spark_jobs.pipeline.initial_load.row_rules import FilteredRows


@pytest.mark.parametrize(
    "count, seconds, expected",
    [(1, 0.5, 2), (8, 0.5, 8), (5, 1.9, 8), (3, 2.0, 3), (3, 10.0, 3), (8, 10.1, 4), (1, 60.0, 1)],
)
def test_a_job_that_was_short_makes_the_next_larger(count: int, seconds: float, expected: int) -> None:
    assert _next_count(count, seconds) == expected


def test_filtered_rows_of_tasks_are_summed() -> None:
    file = DataFile({"path": "part-0.parquet", "size": 3})
    results: list[DataFile | FilteredRows] = [FilteredRows(Counter(a=1)), file, FilteredRows(Counter(a=2, b=1))]
    assert _files_and_filtered(results) == ([file], Counter(a=3, b=1))
