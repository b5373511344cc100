from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.bronze.prepared_xa import prepared_transactions
from spark_jobs.pipeline.run import extract_source
from tests.binlogs.logs import SOURCE, Logs
from tests.binlogs.segment_spec import Commit, Insert, Statement
from tests.binlogs.xa import XA, prepared

pytestmark = pytest.mark.spark

ROW = Insert("shop.orders", (1, "a"))


def test_a_prepared_transaction_is_open_until_the_log_decides_in_whichever_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path)

    def open_transactions() -> list[tuple[str, str, int]]:
        extract_source(spark, logs.pipeline(), SOURCE)
        table = logs.lake.bronze(SOURCE)
        opened = prepared_transactions(table, logs.bronze().version)
        starts = {row["start"] for row in table.read(spark).where("statement LIKE 'XA START%'").collect()}
        assert {transaction.position.offset for transaction in opened} <= starts
        return [(transaction.xid, transaction.position.file, len(opened)) for transaction in opened]

    logs.write(1, ROW, Commit(), *prepared(ROW, one_phase=True), *prepared(ROW), *prepared(ROW, name=b"y"))
    assert open_transactions() == [(XA, "mysql-bin.000001", 2), ("X'79',X'',1", "mysql-bin.000001", 2)]
    logs.write(2, Statement("", f"XA COMMIT {XA}"), Statement("", "XA ROLLBACK X'79',X'',1"), *prepared(ROW))
    assert open_transactions() == [(XA, "mysql-bin.000002", 1)]
    logs.write(3, Statement("", f"XA COMMIT {XA}"))
    assert open_transactions() == []
