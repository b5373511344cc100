"""Commits of derived changes; what is derived with servers is in tests/pipeline/test_cascades_applied.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.bronze.derived_slices import CascadesCommit
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from tests.faults import runs
from tests.faults.campaign import Log
from tests.faults.changes import SOURCE
from tests.slicing import FILE

pytestmark = pytest.mark.slow


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[tuple[Pipeline, list[Position]]]:
    """A pipeline over tables that foreign keys join, and the ends of bronze as it grows."""
    log = Log(37, tmp_path / "log", runs.CASCADES)
    pipeline = runs.pipeline_in(tmp_path, runs.CASCADES)
    link = Path(lake_of(pipeline).bronze(SOURCE).path)
    link.parent.mkdir(parents=True)

    def ends() -> Iterator[Position]:
        for path, offset in log.bronze:
            link.unlink(missing_ok=True)
            link.symlink_to(path)
            yield Position(FILE, offset)

    with runs.without_spark():
        yield pipeline, ends()  # type: ignore[misc]


def test_changes_are_derived_once_and_up_to_the_end_of_the_log(growing: tuple[Pipeline, Iterator[Position]]) -> None:
    pipeline, ends = growing
    counts = []
    for seed, end in enumerate(ends):
        runs.run_until_current(pipeline, seed, publishes=True)
        head = lake_of(pipeline).cascades(SOURCE).head()
        commit = CascadesCommit.of_head(head)
        if commit:
            assert {*commit.positions.values()} == {str(end)}
            counts.append(commit.changes)
        # Another run of the same log has nothing to derive.
        runs.run_until_current(pipeline, seed, publishes=True)
        assert lake_of(pipeline).cascades(SOURCE).head() == head
    assert sum(counts) > 0
