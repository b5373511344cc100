import pytest

from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError, LakeError
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.pipeline.as_of.tables_at import NotKnown, position_of, tables_at
from tests.command_result import without_codes


def counts(pipeline: Pipeline, table: str, at: str) -> dict[str, int]:
    with tables_at(pipeline, "shop", [table], at) as source_at:
        return {str(table.name): len(table.selection().table()) for table in source_at.tables}


def test_a_pattern_leaves_out_tables_that_were_not_there(pipeline: Pipeline) -> None:
    before = {"shop.clicks": 3, "shop.customers": 2, "shop.orders": 3, "shop.visits_1": 2, "shop.visits_2": 0}
    assert counts(pipeline, "shop.*", "mysql-bin.000001:3000") == before
    with tables_at(pipeline, "shop", ["shop.*"], "mysql-bin.000001:3000") as source_at:
        assert source_at.at == Position("mysql-bin.000001", 2862), "where the transaction begins"
        assert {name.table for name in source_at.absent} == {"goods", "logged_by_statement", "stock"}
    with pytest.raises(NotKnown, match=r"shop\.goods was not there at mysql-bin\.000001:2862: it was created later"):
        counts(pipeline, "shop.goods", "mysql-bin.000001:3000")
    with pytest.raises(NotKnown, match=r"shop\.stock was not there at .*: it had been dropped or renamed"):
        counts(pipeline, "shop.stock", "mysql-bin.000002:4320")


def test_a_stopped_table_is_not_known_behind_its_stop(pipeline: Pipeline) -> None:
    name = "shop.logged_by_statement"
    assert counts(pipeline, name, "mysql-bin.000002:3000") == {name: 1}
    with pytest.raises(NotKnown, match="changes rows in statement format") as refusal:
        counts(pipeline, name, "mysql-bin.000002:4320")
    assert "; the oldest position at which it is known is mysql-bin.000001:4590; name " in str(refusal.value)
    assert str(refusal.value) == without_codes(str(refusal.value)), "its own code alone"


def test_places_that_are_none_are_refused(pipeline: Pipeline) -> None:
    with pytest.raises(LakeError, match=r"is after the end of the log in bronze, mysql-bin\.000002:4320"):
        counts(pipeline, "shop.orders", "mysql-bin.000002:4321")
    with pytest.raises(ConfigError, match=r"shop\.nope is no table of shop that a run has seen: shop\.clicks, "):
        counts(pipeline, "shop.nope", "mysql-bin.000002:4320")
    snapshot = BronzeSnapshot.of(lake_of(pipeline), "shop")
    assert position_of(snapshot, "mysql-bin.000001:4") == Position("mysql-bin.000001", 4)
    assert position_of(snapshot, "mysql-bin.000002:4320") == snapshot.end


def test_a_table_that_has_lost_its_versions_is_replayed_from_the_log(pipeline: Pipeline) -> None:
    lake, at = lake_of(pipeline), "mysql-bin.000001:4590"
    before = counts(pipeline, "shop.orders", at)
    for table in (lake.silver("shop", "shop", "orders"), lake.downstream("shop", "orders")):
        for file in pipeline.path.parent.joinpath(table.path).rglob("*.parquet"):
            if "_delta_log" not in file.parts:
                file.unlink()
    assert counts(pipeline, "shop.orders", at) == before == {"shop.orders": 3}
