"""Deliveries: downstream tables in another database. One asset a target table, one step a delivery.

Put here: the step that delivers, and what its assets say. Not here: how a table is delivered (spark_jobs/delivery).
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from assets import checkpoint
from assets.catalog import AssetCatalog, AssetOf
from assets.failures import failing, retried
from assets.keys import Name
from assets.lineage import Lineage
from assets.run_summary import delivery_summary, tag_run
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern, Scope

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.delivery.deliver import DeliveryOutcome


def delivered_tables(pipeline: Pipeline, name: str, graph: Iterable[Lineage]) -> list[Name]:
    """The downstream tables of the graph that a delivery writes."""
    scope = pipeline.deliveries[name].scope
    return [asset.name for lineage in graph for asset in lineage.downstream if scope.holds(*asset.name)]


def delivery_pool(catalog: AssetCatalog, name: str) -> str:
    """The pool of a delivery's step: a second run at the same time would only take the tables over."""
    return f"stratalog_delivery_{catalog.name(name)}"


def delivery_assets(pipeline: Pipeline, name: str, graph: Sequence[Lineage]) -> dg.AssetsDefinition | None:
    """The target tables of a delivery; None where no table that was seen is among them."""
    tables = delivered_tables(pipeline, name, graph)
    if not tables:
        return None
    catalog = graph[0].catalog
    by_key = {catalog.delivery(name, table): table for table in tables}

    @dg.multi_asset(
        name=catalog.name(f"write_{name}"),  # not the job's name: a code location has either once
        specs=[
            catalog.spec(AssetOf("delivery", name, *table)).replace_attributes(
                deps=[catalog.downstream(table)], skippable=True
            )
            for table in tables
        ],
        can_subset=True,
        pool=delivery_pool(catalog, name),
    )
    @retried
    def assets(context: dg.AssetExecutionContext) -> Iterable[dg.MaterializeResult[None]]:
        from spark_jobs.delivery.deliver import deliver

        # An ordered delivery writes complete transactions, so it has no part for the selected tables alone.
        selected = {by_key[key] for key in context.selected_asset_keys}
        only = Scope(tuple((Pattern(*table), True) for table in sorted(selected)))
        is_whole = len(selected) == len(tables) or pipeline.deliveries[name].apply == "ordered"
        with failing():
            outcome = deliver(pipeline, name, None if is_whole else only)
        tag_run(context, name, delivery_summary(outcome))
        # What stops one table does not keep the others' checkpoints from Dagster.
        for table in outcome.tables:
            key = catalog.delivery(name, (table.table.schema, table.table.table))
            if key in context.selected_asset_keys:
                yield dg.MaterializeResult(
                    asset_key=key,
                    metadata=checkpoint.delivery_metadata(table),
                    data_version=dg.DataVersion(str(table.version)),
                )
        _fail(outcome)

    return assets


def _fail(outcome: "DeliveryOutcome") -> None:
    """Fails the step, after all else is done, naming the tables that have stopped."""
    if outcome.stopped:
        listed = "\n".join(outcome.stopped.values())
        raise dg.Failure(
            f"{len(outcome.stopped)} stopped, the other tables went through:\n{listed}",
            allow_retries=not outcome.denied >= outcome.stopped.keys(),
        )
