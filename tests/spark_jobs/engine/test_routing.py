"""Each reason for Spark SQL, by a table that has it and no other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.filters import Mask
from spark_jobs.config.modes import Mode
from spark_jobs.config.table_patterns import Scope
from spark_jobs.delta.snapshot import Protocol, new_table
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta
from spark_jobs.downstream.multi_source import PartTable, SharedPart
from spark_jobs.engine import routing
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.spark_jobs.engine.lake_rows import MAPPED
from tests.timelines import NAME, OLD, at

WHOLE = Range(at(10), at(1000))
ANY = Scope.parse(("shop.*",))
ROWS = DataRange(WHOLE, TableState(OLD))
CONSTANT = Mask("constant", constant=1)
COLUMNS = silver.Columns({"id": "INT", "v": "INT"}, ("id",))


def head(kind: CommitKind) -> Head:
    return Head(3, 4, SilverCommit(at(10), "b", kind, definition=OLD))


def test_a_table_with_a_feature_that_is_not_known_is_not_written(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), {"id": "INT"}, MAPPED)
    routing.require_written(table)
    features = frozenset({"rowTracking"})
    tracked = replace(table, protocol=Protocol(3, 7, features, features))
    with pytest.raises(LakeError, match="rowTracking: Stratalog does not write such a table; take back"):
        routing.require_written(tracked)


TARGET = Table("lake/downstream/shop/t", plain=False)


@pytest.mark.parametrize(
    "change, reason",
    [
        ({}, None),
        ({"target": PartTable(TARGET, ("eu", "shop", "t"))}, None),
        ({"target": SharedPart(TARGET, ("eu", "shop", "t"))}, "source tables have keys in common"),
        ({"columns": replace(COLUMNS, key=())}, None),
        ({"columns": replace(COLUMNS, key=()), "mode": Mode.HISTORY}, None),
        ({"has_feed": True}, None),
        ({"columns": replace(COLUMNS, has_partial=True)}, None),
    ],
)
def test_why_a_table_is_merged_by_spark_sql(change: dict[str, Any], reason: str | None) -> None:
    job = MergeJob("shop", NAME, COLUMNS, TARGET, head(CommitKind.LIVE), TARGET)
    assert routing.why_not_merged(replace(job, **change)) == reason


NEWS = SilverDelta(windows=1, steps=[], redone=[], size=9)
MERGED = Head(3, 4, DownstreamCommit(at(10), "b", silver_version=2))
NEW = Table("none", plain=False).new({"id": "INT"}, {})


@pytest.mark.parametrize(
    "upon, delta, reason",
    [
        (MERGED, NEWS, None),
        (NEW, NEWS, None),
        (MERGED, replace(NEWS, is_renewed=True), None),
        (MERGED, replace(NEWS, redone=[WHOLE]), None),
        (MERGED, replace(NEWS, is_loaded=True), None),
        (MERGED, replace(NEWS, steps=["DROP COLUMN `v`"]), None),
        (
            MERGED,
            replace(NEWS, redone=[WHOLE], steps=["DROP COLUMN `v`"]),
            None,
        ),
        (NEW, replace(NEWS, is_loaded=True), None),
        (
            replace(
                MERGED, checkpoint=DownstreamCommit(at(10), "b", silver_version=2, steps_left=("DROP COLUMN `v`",))
            ),
            NEWS,
            None,
        ),
    ],
)
def test_why_what_is_new_is_merged_by_spark_sql(upon: Head, delta: SilverDelta, reason: str | None) -> None:
    job = MergeJob("shop", NAME, COLUMNS, TARGET, head(CommitKind.LIVE), TARGET)
    assert routing.why_downstream_by_sql(job, upon, delta) == reason
