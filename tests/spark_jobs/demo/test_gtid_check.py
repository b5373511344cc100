from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.demo.gtid_check import BronzeGtids, gtid_check
from spark_jobs.errors import LakeError
from spark_jobs.lake.layout import Lake

SAME = BronzeGtids(transactions=1_200, landed=1_200)


@pytest.mark.parametrize(
    "check, differences",
    [
        (SAME, ()),
        (replace(SAME, landed=1_203), ("+3 transactions",)),
        (replace(SAME, landed=1_199, mismatch="a:1-9 is not a:1-10"), ("a:1-9 is not a:1-10", "-1 transactions")),
    ],
)
def test_differences(check: BronzeGtids, differences: tuple[str, ...]) -> None:
    assert check.differences == differences


def test_text() -> None:
    assert SAME.text == "1,200 transactions in bronze, by GTID"


@pytest.mark.spark
def test_no_log(spark: SparkSession, lake: Path) -> None:
    with pytest.raises(LakeError, match="bronze/shop: holds no log"):
        gtid_check(spark, Lake(str(lake)), "")
