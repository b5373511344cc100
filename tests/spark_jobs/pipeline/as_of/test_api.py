from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError
from spark_jobs.pipeline.as_of.api import as_of


def test_columns_and_rows_are_those_of_then(pipeline: Pipeline) -> None:
    before = as_of(pipeline, "shop.orders", "mysql-bin.000001:4590")
    assert before.column_names == ["id", "customer", "total", "placed"]
    assert before.column("total").to_pylist() == [Decimal("9.99"), Decimal("5.00"), Decimal("7.50")]
    after = as_of(pipeline, "shop.orders", "mysql-bin.000002:2000")
    assert after.column_names == ["id", "customer", "state", "total", "placed"]
    assert after.column("id").to_pylist() == [1, 3]


def test_masks_are_those_of_downstream_unless_raw_rows_are_asked_for(pipeline: Pipeline) -> None:
    masked = as_of(pipeline, "shop.customers", "mysql-bin.000001:4590").to_pylist()
    assert [len(row["email"]) for row in masked] == [64, 64]
    raw = as_of(pipeline, "shop.customers", "mysql-bin.000001:4590", raw=True).to_pylist()
    assert [row["email"] for row in raw] == ["ann@example.com", "bo@example.com"]
    assert raw[1]["_raw"] == [("born", "0000-00-00")]


def test_rows_of_keys_and_of_a_condition(pipeline: Pipeline) -> None:
    def ids(**choice: Any) -> list[int]:
        rows = as_of(pipeline, "shop.customers", "mysql-bin.000002:4320", **choice)
        return [int(value) for value in rows.column("id").to_pylist()]

    assert ids(keys=[3, 1, 9, 1]) == [1, 3]
    assert ids(keys=[("2",)]) == [2]
    assert ids(where="id > 1") == [2, 3]
    assert ids(keys=[1, 2], where="id > 1") == [2]


def test_wrong_questions(pipeline: Pipeline) -> None:
    def question(table: str = "shop.customers", **options: Any) -> None:
        as_of(pipeline, table, "mysql-bin.000002:4320", **options)

    with pytest.raises(ConfigError, match="is a pattern; name one table"):
        question("shop.*")
    with pytest.raises(ConfigError, match=r"what is given for id of shop\.customers is no "):
        question(keys=["x"])
    with pytest.raises(ConfigError, match=r"the key of shop.customers is \(id\): give 1 values, not 2"):
        question(keys=[(1, 2)])
    with pytest.raises(ConfigError, match=r"shop\.clicks has no key"):
        question("shop.clicks", keys=[1])
    with pytest.raises(ConfigError, match=r"columns\.people hides email of shop\.customers"):
        question(where="email IS NOT NULL")
    with pytest.raises(ConfigError, match="names column nope, which the table does not have"):
        question(where="nope = 1")
    with pytest.raises(ConfigError, match="column born: its type in the lake cannot hold the value of a row"):
        question(where="born > '2000-01-01'")


def test_a_dataframe_needs_a_session_and_a_new_folder(pipeline: Pipeline, tmp_path: Path) -> None:
    halves: list[dict[str, Any]] = [{"folder": str(tmp_path / "then")}, {"spark": object()}]
    for options in halves:
        with pytest.raises(ConfigError, match="a DataFrame needs both"):
            as_of(pipeline, "shop.orders", "mysql-bin.000001:4590", **options)
    in_lake: dict[str, Any] = {"spark": object(), "folder": pipeline.lake}
    with pytest.raises(ConfigError, match=r"to: .* is of the lake"):
        as_of(pipeline, "shop.orders", "x", **in_lake)
    assert not (tmp_path / "then").exists()


@pytest.mark.spark
def test_a_dataframe_has_the_rows_and_columns_of_the_arrow_table(
    pipeline: Pipeline, spark: SparkSession, tmp_path: Path
) -> None:
    truth = as_of(pipeline, "shop.customers", "mysql-bin.000002:4320", where="id > 1")
    folder = str(tmp_path / "then")
    frame = as_of(
        pipeline, "shop.customers", "mysql-bin.000002:4320", where="id > 1", spark=spark, folder=folder
    ).orderBy("id")
    assert frame.columns == truth.column_names
    assert [row.asDict() for row in frame.collect()] == truth.to_pylist(maps_as_pydicts="strict")
    assert frame.where("id = 2").count() == 1, "as any other DataFrame"
