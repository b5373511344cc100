import json

import pytest

from spark_jobs.bronze.log_index import Stretch, without_old_gtids
from spark_jobs.log.gtid import DomainGtids, MysqlGtids
from spark_jobs.log.position import Position
from spark_jobs.source.protocol import FilePart
from tests.binlogs.gtid_logs import gtids

FIRST = Stretch(1, Position("a.000007", 900), "db1:3306", "a-uuid", 1_700_000_000, gtids("a:1-5"))
SECOND = Stretch(
    2,
    Position("b.000002", 77, 2),
    "db2:3306",
    gtids=DomainGtids({0: (1, 100)}),
    passed_over=(FilePart("b.000002", 90, 99), FilePart("b.000003", 400, 500)),
    server_id="2",
)


@pytest.mark.parametrize(
    "stretch", [FIRST, SECOND, Stretch(1, Position("a.000001", 4)), Stretch(3, FIRST.begin, gtids=MysqlGtids())]
)
def test_a_stretch_reads_back(stretch: Stretch) -> None:
    assert Stretch.from_note(json.loads(json.dumps(stretch.to_note()))) == stretch


def test_the_transactions_before_a_stretch_are_kept_for_the_last_one() -> None:
    first, second = without_old_gtids((FIRST, SECOND))
    assert (first.gtids, second) == (None, SECOND)


@pytest.mark.parametrize(
    "file, is_complete", [("b.000001", False), ("b.000002", False), ("b.000003", False), ("b.000004", True)]
)
def test_which_files_a_stretch_has_whole(file: str, is_complete: bool) -> None:
    assert SECOND.holds_whole(file) == is_complete
    assert Stretch(2, Position("b.000002", 4, 2)).holds_whole("b.000002")


def test_the_names_of_a_stretch_have_the_first_ones_base() -> None:
    assert (SECOND.file(12), SECOND.file(1_000_000)) == ("b.000012", "b.1000000")
