"""One source's assets, and the chain of four steps that makes them.

Put here: how steps and assets hang together. Not here: what a step does (bronze.py, silver.py, downstream.py,
published.py).

The steps are ordered by what they hand on, not by their assets: a table without news has no materialization, and
Dagster skips a step whose inputs come from assets that were not materialized.
"""

from typing import Any

import dagster as dg

from assets.bronze import BRONZE, LOG, extract_step
from assets.catalog import AssetOf
from assets.downstream import MERGED, merge_step
from assets.lineage import Lineage, TableAsset
from assets.published import PUBLISHED, publish_step
from assets.report import link
from assets.silver import COMPACTED, compact_step
from spark_jobs.config.model import Pipeline


def source_assets(pipeline: Pipeline, lineage: Lineage) -> dg.AssetsDefinition:
    """The assets of one source. Any of them can be selected; the steps before it then do nothing else."""
    tables = (*lineage.silver, *lineage.downstream)
    keys = {BRONZE: lineage.bronze, **{table.output: table.key for table in tables}, PUBLISHED: lineage.published}
    assets = dg.AssetsDefinition.from_graph(
        _chain(pipeline, lineage),
        keys_by_input_name={LOG: lineage.origin},
        keys_by_output_name=keys,
        internal_asset_deps=_arrows(lineage),
        check_specs=[table.check for table in tables if table.check],
        can_subset=True,
    )
    return lineage.catalog.dress(assets, lineage.assets_by_key(), f"{lineage.source}_downstream")


def origin_asset(pipeline: Pipeline, lineage: Lineage) -> dg.AssetSpec:
    """Source of the log as an asset. Nothing makes it; what a run finds there is observed of it."""
    spec = lineage.catalog.spec(AssetOf("source", lineage.source))
    return spec.merge_attributes(metadata=link(pipeline, lineage.source))


def _chain(pipeline: Pipeline, lineage: Lineage) -> dg.GraphDefinition:
    # One graph a source: the steps run in one process and hand their outcome on.
    extract = extract_step(pipeline, lineage).alias("extract")
    compact = compact_step(pipeline, lineage).alias("compact")
    merge = merge_step(pipeline, lineage).alias("merge")
    publish = publish_step(pipeline, lineage).alias("publish")

    def chain(log: Any) -> dict[str, Any]:
        extracted = extract(log)
        compacted = compact(extracted.idle)
        merged = merge(extracted.idle, _output(compacted, COMPACTED))
        outputs = {name: getattr(compacted, name) for name in _output_names(lineage.silver)}
        outputs |= {name: getattr(merged, name) for name in _output_names(lineage.downstream)}
        return {BRONZE: extracted.bronze, **outputs, PUBLISHED: publish(_output(merged, MERGED))}

    names = [BRONZE, *_output_names(lineage.silver), *_output_names(lineage.downstream), PUBLISHED]
    return dg.graph(
        name=lineage.catalog.name(f"source_{lineage.source}"),
        ins={LOG: dg.GraphIn()},
        out={name: dg.GraphOut() for name in names},
    )(chain)


def _output(invoked: Any, name: str) -> Any:
    """One output of a step in the graph; a step that has no other stands for it itself."""
    return getattr(invoked, name, invoked)


def _output_names(tables: tuple[TableAsset, ...]) -> list[str]:
    """The outputs of a layer's tables and of their checks."""
    return [table.output for table in tables] + [table.check.get_python_identifier() for table in tables if table.check]


def _arrows(lineage: Lineage) -> dict[str, set[dg.AssetKey]]:
    arrows: dict[str, set[dg.AssetKey]] = {BRONZE: {lineage.origin}}
    arrows |= {asset.output: {lineage.bronze} for asset in lineage.silver}
    for asset in lineage.downstream:
        arrows[asset.output] = {lineage.catalog.silver(lineage.source, name) for name in asset.origins}
    ends = {asset.key for asset in lineage.downstream} or {lineage.bronze}
    return arrows | {PUBLISHED: ends}
