from dataclasses import replace

import pytest

from spark_jobs.config.filters import TableFilters
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.commit import CommitKind
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.as_of.bases import SilverVersions, merged_version

BEGIN = Position("mysql-bin.000001", 4)


def position_at(text: str) -> Position:
    return Position.parse(text)


def versions_of(pipeline: Pipeline, table: str = "orders") -> SilverVersions:
    return SilverVersions.of(lake_of(pipeline).silver("shop", "shop", table))


@pytest.mark.parametrize(
    "at, position",
    [
        ("mysql-bin.000001:4589", None),
        ("mysql-bin.000001:4590", "mysql-bin.000001:4590"),
        ("mysql-bin.000002:2000", "mysql-bin.000002:440"),
        ("mysql-bin.000002:4320", "mysql-bin.000002:4320"),
    ],
)
def test_the_newest_version_before_a_position(pipeline: Pipeline, at: str, position: str | None) -> None:
    base = versions_of(pipeline).base(position_at(at), TableFilters(), BEGIN, is_raw=False)
    assert (base and str(base.commit.position)) == position
    if base:
        merged = merged_version(lake_of(pipeline).downstream("shop", "orders"), base)
        assert merged


def test_a_version_is_of_use_where_the_log_after_it_is_held(pipeline: Pipeline) -> None:
    versions, at = versions_of(pipeline), position_at("mysql-bin.000002:2000")
    later = position_at("mysql-bin.000002:3000")
    assert versions.base(at, TableFilters(), later, is_raw=False) is None
    assert versions.base(position_at("mysql-bin.000002:440"), TableFilters(), later, is_raw=False)
    assert versions.oldest(TableFilters(), BEGIN, is_raw=False) == position_at("mysql-bin.000001:4590")
    assert versions.oldest(TableFilters(), later, is_raw=False) == position_at("mysql-bin.000002:3332")


def test_rows_made_by_other_rules_are_of_no_use(pipeline: Pipeline) -> None:
    versions, at = versions_of(pipeline, "customers"), position_at("mysql-bin.000002:4320")
    assert versions.base(at, TableFilters(), BEGIN, is_raw=False) is None, "their column is masked"
    assert versions.base(at, pipeline.filters.of("shop", "customers"), BEGIN, is_raw=False)
    assert versions.base(at, TableFilters(), BEGIN, is_raw=True) is None


def test_replaced_and_rebuilt_rows_are_of_no_use(pipeline: Pipeline) -> None:
    versions, at = versions_of(pipeline), position_at("mysql-bin.000002:2000")
    (newest, commit), *rest = versions.commits
    replayed = Range(position_at("mysql-bin.000001:4"), position_at("mysql-bin.000001:4590"))
    redone = replace(commit, kind=CommitKind.REDO, ranges=(replayed,))
    with_redo = replace(versions, commits=[(newest, redone), *rest])
    assert with_redo.base(at, TableFilters(), BEGIN, is_raw=False) is None
    assert with_redo.base(position_at("mysql-bin.000002:4320"), TableFilters(), BEGIN, is_raw=False)
    rebuilt = replace(versions, commits=[(newest, replace(commit, resets=1)), *rest])
    assert rebuilt.base(at, TableFilters(), BEGIN, is_raw=False) is None


def test_files_that_vacuum_removed(pipeline: Pipeline) -> None:
    versions, at = versions_of(pipeline), position_at("mysql-bin.000001:4590")
    base = versions.base(at, TableFilters(), BEGIN, is_raw=False)
    assert base
    base.snapshot.files[0].location(base.snapshot.path).unlink()
    assert versions.base(at, TableFilters(), BEGIN, is_raw=False) is None
    assert versions.began_in_log
