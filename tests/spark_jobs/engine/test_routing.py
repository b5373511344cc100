"""Each reason for Spark SQL, by a table that has it and no other."""

from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.config.filters import Mask
from spark_jobs.config.table_patterns import Scope
from spark_jobs.delta.snapshot import Protocol, new_table
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import SilverDelta
from spark_jobs.engine import routing
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.spark_jobs.engine.lake_rows import MAPPED
from tests.timelines import OLD, at

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


NEWS = SilverDelta(windows=1, steps=[], redone=[], size=9)
MERGED = Head(3, 4, DownstreamCommit(at(10), "b", silver_version=2))
NEW = Table("none", plain=False).new({"id": "INT"}, {})


@pytest.mark.parametrize(
    "upon, delta, is_restated",
    [
        (MERGED, NEWS, False),
        (MERGED, replace(NEWS, redone=[WHOLE]), True),
        (MERGED, replace(NEWS, is_loaded=True), True),
        (NEW, replace(NEWS, is_loaded=True), False),
    ],
)
def test_keys_are_merged_by_all_of_silver_where_it_got_more_than_windows(
    upon: Head, delta: SilverDelta, is_restated: bool
) -> None:
    assert routing.is_restated(upon, delta) is is_restated
