from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.filters import Filters
from spark_jobs.errors import LostRace
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.silver import quarantine
from spark_jobs.silver.quarantine import Skip, with_skips

HERE, LATER = "mysql-bin.000042:1337", "mysql-bin.000042:9000"
ORDERS = Skip("shop", "orders", HERE, "Write_rows event", "its rows do not end with their event")
CARTS = Skip("shop", "carts", LATER, "DROP TABLE carts")


def test_without_any_the_rules_are_those_of_the_configuration(lake: Path) -> None:
    assert quarantine.read(Lake(str(lake)), "shop") == []
    assert with_skips(Filters(), Lake(str(lake)), "shop") == Filters()


@pytest.mark.spark
def test_they_are_read_as_they_were_written_and_each_is_about_one_table(spark: SparkSession, lake: Path) -> None:
    of = Lake(str(lake))
    quarantine.edit(of, "shop", lambda _: [ORDERS])
    (first,) = quarantine.read(of, "shop")
    assert (first.name, first.log_position, first.reason) == (ORDERS.name, Position.parse(HERE), ORDERS.reason)
    assert first.skipped_at
    quarantine.edit(of, "shop", lambda skips: [*skips, CARTS])
    assert quarantine.read(of, "shop")[1] == first, "what was recorded keeps its time"
    filters = with_skips(Filters(), of, "shop")
    assert filters.skipped("shop", "orders") == {Position.parse(HERE)}
    assert filters.of("shop", "carts").skips == {Position.parse(LATER)}
    assert filters.skipped("shop", "customers") == frozenset()
    assert quarantine.read(of, "another") == []


@pytest.mark.spark
def test_the_last_one_that_is_taken_back_leaves_none(spark: SparkSession, lake: Path) -> None:
    of = Lake(str(lake))
    quarantine.edit(of, "shop", lambda _: [ORDERS])
    quarantine.edit(of, "shop", lambda _: [])
    assert quarantine.read(of, "shop") == []


@pytest.mark.spark
def test_of_two_edits_at_once_none_is_lost_in_silence(spark: SparkSession, lake: Path) -> None:
    of = Lake(str(lake))

    def while_another_adds(skips: list[Skip]) -> list[Skip]:
        quarantine.edit(of, "shop", lambda skips_now: [*skips_now, ORDERS])
        return [*skips, CARTS]

    with pytest.raises(LostRace):
        quarantine.edit(of, "shop", while_another_adds)
    assert [skip.name for skip in quarantine.read(of, "shop")] == [ORDERS.name]
