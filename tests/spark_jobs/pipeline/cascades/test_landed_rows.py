"""Rows that land beside a derivation; those of mends and loads of real servers are in tests/pipeline/test_mend.py."""

from collections.abc import Iterator
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.derived_slices import CascadesCommit
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.commit import CommitKind
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.pipeline.cascades import step
from spark_jobs.pipeline.cascades.landed_rows import derived_without, note_underived
from spark_jobs.pipeline.cascades.unlogged_changes import SourceUnloggedChanges, unlogged_changes_of
from tests.binlogs.slicing import FILE
from tests.faults import runs
from tests.faults.changes import SOURCE
from tests.spark_jobs.pipeline.cascades.test_step import CHILD, family, put, rows_downstream

__all__ = ["family"]
pytestmark = pytest.mark.slow

Growing = tuple[Pipeline, Iterator[Position]]


def stored(pipeline: Pipeline) -> CascadesCommit | None:
    return CascadesCommit.of_head(lake_of(pipeline).cascades(SOURCE).head())


def gaps(pipeline: Pipeline) -> SourceUnloggedChanges:
    return unlogged_changes_of(pipeline, lake_of(pipeline), SOURCE)


@pytest.mark.parametrize("has_derived", [True, False])
def test_what_was_derived_before_rows_landed_is_derived_again(
    family: Growing, monkeypatch: pytest.MonkeyPatch, *, has_derived: bool
) -> None:
    """The run has looked at silver before the row is there, and commits after it: also the first commit of all."""
    pipeline, ends = family
    if has_derived:
        next(ends)
        next(ends)
        runs.run_until_current(pipeline, 1, publishes=True)
    else:
        assert stored(pipeline) is None
    look = step._require_still_merged
    before = stored(pipeline)

    def looked(*arguments: Any) -> None:
        look(*arguments)
        monkeypatch.undo()
        put(pipeline, CommitKind.MEND)
        since = Position.parse(before.positions[str(CHILD)]) if before else Position(FILE, 4)
        assert derived_without(pipeline, gaps(pipeline), CHILD, since) is None

    monkeypatch.setattr(step, "_require_still_merged", looked)
    list(ends)
    runs.run_until_current(pipeline, 2, publishes=True)
    assert rows_downstream(pipeline) == []


def test_who_lands_rows_is_told_what_was_derived_before(family: Growing) -> None:
    pipeline, ends = family
    start, *_, end = ends
    runs.run_until_current(pipeline, 1, publishes=True)
    counts = lake_of(pipeline).cascades(SOURCE).rows()
    assert derived_without(pipeline, gaps(pipeline), CHILD, start) == end
    assert derived_without(pipeline, gaps(pipeline), CHILD, end) is None
    assert lake_of(pipeline).cascades(SOURCE).rows() == counts
    # Nothing is committed for a table that is no child.
    before = stored(pipeline)
    assert derived_without(pipeline, gaps(pipeline), TableName("shop", "p"), start) is None
    assert stored(pipeline) == before


def test_what_was_not_derived_of_loaded_rows_is_noted_from_the_first_on(family: Growing) -> None:
    pipeline, ends = family
    positions = list(ends)
    runs.run_until_current(pipeline, 1, publishes=True)
    for since in (positions[-1], positions[1], positions[2]):
        note_underived(pipeline, gaps(pipeline), CHILD, since)
        commit = stored(pipeline)
        assert commit
        if since == positions[-1]:
            assert commit.underived == {}
        else:
            note = commit.underived[str(CHILD)]
            assert (note["from"], note["to"]) == (str(positions[1]), str(positions[-1]))
            assert note["reason"] == "its rows were read at the same time"
    # The tables go on as before.
    runs.run_until_current(pipeline, 2, publishes=True)
    assert rows_downstream(pipeline) == []
