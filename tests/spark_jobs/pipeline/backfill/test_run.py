from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Range
from spark_jobs.pipeline.backfill.run import _are_folded, _require_end
from tests.binlogs.timelines import at


def test_a_range_ends_where_bronze_does_or_before(tmp_path: Path) -> None:
    commit = BronzeCommit(at(500), "batch", begin=at(4))
    bronze = BronzeSnapshot("shop", Lake(str(tmp_path)).bronze("shop"), Head(7, 3, commit), commit)
    _require_end(bronze, Range(at(10), at(500)))
    with pytest.raises(LakeError, match=r"ends at b\.000001:501, and bronze at b\.000001:500: a run reads later"):
        _require_end(bronze, Range(at(10), at(501)))


@pytest.mark.parametrize("names", [[], [TableName("shop", "t")]])
def test_older_log_is_of_use_unless_all_tables_are_folded(tmp_path: Path, names: list[TableName]) -> None:
    assert not _are_folded(Lake(str(tmp_path)), "shop", names, Range(at(10), at(500)))
