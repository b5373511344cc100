"""A code location of your own, with Stratalog's assets in it and a report behind one of its tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stratalog import Pipeline, SparkSessions, build_defs, downstream_key, lake_of, load

ORDERS = ("shop", "orders")


def revenue(orders: DataFrame) -> DataFrame:
    """Revenue by day and currency."""
    return (
        orders.where("status IN ('paid', 'sent')")
        .groupBy(F.to_date("placed").alias("day"), "currency")
        .agg(F.sum("total").alias("revenue"), F.count("*").alias("orders"))
    )


def definitions(pipeline: Pipeline, resources: Mapping[str, Any] | None = None) -> dg.Definitions:
    """Stratalog's assets and the report; a test gives a Spark session of its own as the resource ``spark``."""

    @dg.asset(
        key=["reports", "revenue"],
        deps=[downstream_key(ORDERS)],
        group_name="reports",
        kinds={"spark", "delta"},
        automation_condition=dg.AutomationCondition.eager(),
    )
    def report(spark: dg.ResourceParam[SparkSessions]) -> dg.MaterializeResult[None]:
        """Revenue by day and currency; computed again when the orders have changed."""
        orders = lake_of(pipeline).downstream(*ORDERS)
        head = orders.head()
        assert head, "run the job sync first"
        rows = revenue(orders.read(spark.session(), head.version))
        rows.write.format("delta").mode("overwrite").save(f"{pipeline.lake}/reports/revenue")
        return dg.MaterializeResult(metadata={"binlog/end": str(head.position), "dagster/row_count": rows.count()})

    return dg.Definitions.merge(build_defs(pipeline, resources), dg.Definitions(assets=[report]))


defs = definitions(load(Path(__file__).with_name("pipeline.yaml")))
