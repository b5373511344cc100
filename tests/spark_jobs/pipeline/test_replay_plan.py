import pytest

from spark_jobs.binlog import TableName
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Head
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.replay_plan import _inherited_since, _require_unfolded, floor_above
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import TableContents, TableState
from tests.timelines import OLD, at

T = TableName("shop", "t")
FOLDED = Head(3, 2, SilverCommit(at(900), "batch", folded_to=at(500)))


@pytest.mark.parametrize(
    "head, start, floor",
    [
        (None, 10, None),
        (Head(3, 2, SilverCommit(at(900), "batch")), 10, None),
        (FOLDED, 10, at(500)),
        (FOLDED, 500, None),
    ],
)
def test_a_range_that_begins_in_folded_windows_fails(head: Head | None, start: int, floor: Position | None) -> None:
    log_range = Range(at(start), at(800))
    assert floor_above(head, log_range) == floor
    if floor is None:
        _require_unfolded("shop", T, head, log_range)
        return
    with pytest.raises(LakeError, match=r"^shop: shop\.t: its windows before b\.000001:500 are folded into one"):
        _require_unfolded("shop", T, head, log_range)


def test_the_log_has_inherited_rows_from_where_their_own_table_begins() -> None:
    contents = TableContents(TableName("shop", "old"), None, (), TableState(OLD), at(300))
    assert _inherited_since(T, contents, Range(at(10), at(800))) == at(300)
