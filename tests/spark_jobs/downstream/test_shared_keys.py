"""Which tables can share keys."""

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.downstream.multi_source import Part
from spark_jobs.downstream.shared_keys import SharedSources, require_one_key
from spark_jobs.errors import LakeError, TableStopped
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver

TYPES = {"id": "INT", "v": "INT"}
OWNER = ("us", "shop_1", "t")


@pytest.mark.parametrize(
    "columns, other_columns, reason",
    [
        (silver.Columns(TYPES, ()), TYPES, "has no key that it could share"),
        (silver.Columns(TYPES, ("id",), has_partial=True), TYPES, "has row images that omit columns"),
        (silver.Columns(TYPES, ("v", "id")), TYPES, r"its key is \(v INT, id INT\), and that of .* is \(id INT\)"),
        (silver.Columns({"id": "FLOAT"}, ("id",)), {"id": "DOUBLE"}, r"\(id FLOAT\).*\(id DOUBLE\)"),
        (silver.Columns({"id": "BIGINT"}, ("id",)), TYPES, None),
    ],
)
def test_tables_that_cannot_share_keys_are_told(
    columns: silver.Columns, other_columns: dict[str, str], reason: str | None
) -> None:
    work = MergeJob(
        "eu", TableName("s", "t"), columns, Table("o", plain=False), Head(1, 1, None), Table("t", plain=False)
    )
    part = Part(OWNER, Position("mysql-bin.000001", 4), 1, True, other_columns, key=("id",))
    if reason is None:
        require_one_key(work, [part])
        return
    with pytest.raises(TableStopped, match=reason):
        require_one_key(work, [part])


def test_a_source_without_order_times_is_told() -> None:
    with pytest.raises(LakeError, match="clock/eu is missing, which has the order times of rows"):
        SharedSources(None, Lake("/nowhere")).clock("eu")  # type: ignore[arg-type]
