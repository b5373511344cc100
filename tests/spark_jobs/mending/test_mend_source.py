"""Which mends leave nothing that is known to differ. Whole mends: tests/pipeline/test_mend.py."""

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import KeyDifference
from spark_jobs.errors import ConfigError
from spark_jobs.mending.mend_source import STOPPED, WHOLE, MendedTable, require_keys
from spark_jobs.mending.mend_task import NOTHING, MendCounts
from spark_jobs.operations.observation.verified import EQUAL, MENDED

NAME = TableName("shop", "t")
FOUND = (KeyDifference("extra", {"id": "1"}),)


@pytest.mark.parametrize(
    "table, is_whole",
    [
        (MendedTable("shop", NAME, WHOLE), True),
        (MendedTable("shop", NAME, MENDED, MendCounts(deleted=1), differences=FOUND), True),
        (MendedTable("shop", NAME, MENDED, MendCounts(deleted=1)), False),
        (MendedTable("shop", NAME, MENDED, MendCounts(deleted=1, changed=1), differences=FOUND), False),
        (MendedTable("shop", NAME, MENDED, MendCounts(deleted=1, tied=1), differences=FOUND), False),
        (MendedTable("shop", NAME, MENDED, MendCounts(deleted=1), differences=FOUND, unread=1), False),
        (MendedTable("shop", NAME, EQUAL, NOTHING, differences=FOUND), False),
        (MendedTable("shop", NAME, STOPPED), False),
    ],
)
def test_keys_that_are_given_or_left_are_not_all_of_a_table(table: MendedTable, is_whole: bool) -> None:
    assert table.is_whole == is_whole


def test_keys_are_of_one_table() -> None:
    require_keys(["shop.*"], [])
    require_keys(["shop.t"], ["id=1"])
    for tables in ([], ["shop.*"], ["shop.t", "shop.u"]):
        with pytest.raises(ConfigError, match="keys are of one table"):
            require_keys(tables, ["id=1"])
