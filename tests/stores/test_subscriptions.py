"""Consumer groups of a lake on S3: positions are kept by conditional puts.

Put here: what a store decides. Not here: what groups get (spark_jobs/subscriptions).
"""

from dataclasses import replace

import pytest

from spark_jobs.errors import LostRace, StratalogError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.lease import Lease
from spark_jobs.subscriptions.records import Record, Records
from tests.lakes.consumers import SOURCE

pytestmark = pytest.mark.stores


def test_a_group_of_a_lake_on_a_store(bucket: str) -> None:
    records = Records(Lake(bucket), SOURCE)
    first = Record("g", 0, Cursor(Position("b.000001", 4)))
    assert (records.read("g"), records.groups()) == (None, [])
    with pytest.raises(LostRace):
        records.write(replace(first, version=7))
    lease = Lease.take(records, "g", make=lambda: first, tables=(), lease=30.0, wait=0.0)
    with pytest.raises(StratalogError, match="group g has a consumer"):
        Lease.take(records, "g", make=lambda: first, tables=(), lease=30.0, wait=0.0)
    for batch in range(1, 9):
        lease.move(Cursor(Position("b.000001", 4 + batch)), batch)
    lease.give_up()
    record = records.read("g")
    assert record
    assert (record.batch, record.cursor.position.offset, record.consumer) == (8, 12, None)
    records.remove("g")
    assert records.groups() == []
