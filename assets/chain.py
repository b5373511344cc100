"""One source's assets, and the chain of four steps that makes them.

Put here: how steps and assets hang together. Not here: what a step does (bronze.py, silver.py, downstream.py,
published.py).

The steps are ordered by what they hand on, not by their assets: a table without news has no materialization, and
Dagster skips a step whose inputs come from assets that were not materialized.
"""

from typing import Any

import dagster as dg

from assets.bronze import BRONZE, LOG, extract_step
from assets.downstream import MERGED, merge_step
from assets.keys import Lineage, TableAsset, silver_key
from assets.published import PUBLISHED, publish_step
from assets.report import link
from assets.silver import COMPACTED, compact_step
from spark_jobs.config.model import Pipeline


def source_assets(pipeline: Pipeline, lineage: Lineage) -> dg.AssetsDefinition:
    """The assets of one source. Any of them can be selected; the steps before it then do nothing else."""
    tables = (*lineage.silver, *lineage.downstream)
    keys = {BRONZE: lineage.bronze, **{table.output: table.key for table in tables}, PUBLISHED: lineage.published}
    return dg.AssetsDefinition.from_graph(
        _chain(pipeline, lineage),
        keys_by_input_name={LOG: lineage.origin},
        keys_by_output_name=keys,
        internal_asset_deps=_arrows(lineage),
        group_names_by_output_name=_groups(lineage),
        descriptions_by_output_name=_descriptions(pipeline, lineage),
        tags_by_output_name=_kinds(pipeline, lineage),
        owners_by_output_name={output: [*pipeline.owners] for output in keys},
        check_specs=[table.check for table in tables if table.check],
        can_subset=True,
    )


def origin_asset(pipeline: Pipeline, lineage: Lineage) -> dg.AssetSpec:
    """Where the log comes from. Nothing makes it; what a run finds there is observed of it."""
    return dg.AssetSpec(
        lineage.origin,
        group_name=lineage.group("bronze"),
        description=f"The log of {_origin(pipeline, lineage.source)}: how far ahead of bronze it is, and how much it "
        "still has before what is to be read next.",
        metadata=link(pipeline, lineage.source),
        kinds={"source", "mysql" if pipeline.sources[lineage.source].mysql else "file"},
        owners=pipeline.owners,
    )


def pool(source: str) -> str:
    """The pool that all steps of a source share; one writer at a time is all that a Delta table takes."""
    return f"stratalog_source_{source}"


def _chain(pipeline: Pipeline, lineage: Lineage) -> dg.GraphDefinition:
    made_by = (pipeline, lineage, pool(lineage.source))
    extract = extract_step(*made_by).alias("extract")
    compact = compact_step(*made_by).alias("compact")
    merge = merge_step(*made_by).alias("merge")
    publish = publish_step(*made_by).alias("publish")

    def chain(log: Any) -> dict[str, Any]:
        extracted = extract(log)
        compacted = compact(extracted.idle)
        merged = merge(extracted.idle, _output(compacted, COMPACTED))
        outputs = {name: getattr(compacted, name) for name in _names(lineage.silver)}
        outputs |= {name: getattr(merged, name) for name in _names(lineage.downstream)}
        return {BRONZE: extracted.bronze, **outputs, PUBLISHED: publish(_output(merged, MERGED))}

    names = [BRONZE, *_names(lineage.silver), *_names(lineage.downstream), PUBLISHED]
    return dg.graph(
        name=f"source_{lineage.source}", ins={LOG: dg.GraphIn()}, out={name: dg.GraphOut() for name in names}
    )(chain)


def _output(invoked: Any, name: str) -> Any:
    """One output of a step in the graph; a step that has no other stands for it itself."""
    return getattr(invoked, name, invoked)


def _names(tables: tuple[TableAsset, ...]) -> list[str]:
    """The outputs of a layer's tables and of their checks."""
    return [table.output for table in tables] + [table.check.get_python_identifier() for table in tables if table.check]


def _arrows(lineage: Lineage) -> dict[str, set[dg.AssetKey]]:
    arrows: dict[str, set[dg.AssetKey]] = {BRONZE: {lineage.origin}}
    arrows |= {asset.output: {lineage.bronze} for asset in lineage.silver}
    for asset in lineage.downstream:
        arrows[asset.output] = {silver_key(lineage.source, name) for name in asset.origins}
    ends = {asset.key for asset in lineage.downstream} or {lineage.bronze}
    return arrows | {PUBLISHED: ends}


def _groups(lineage: Lineage) -> dict[str, str | None]:
    groups = dict.fromkeys((asset.output for asset in lineage.silver), lineage.group("silver"))
    groups |= dict.fromkeys((*(asset.output for asset in lineage.downstream), PUBLISHED), lineage.group("downstream"))
    return {BRONZE: lineage.group("bronze"), **groups}


def _descriptions(pipeline: Pipeline, lineage: Lineage) -> dict[str, str]:
    source = lineage.source
    texts = {BRONZE: f"The log of {_origin(pipeline, source)}, byte for byte, as slices of whole transactions."}
    for asset in lineage.silver:
        texts[asset.output] = (
            f"The net change of every key of {'.'.join(asset.name)}, a window of the log after the other. "
            "Deletes stay as rows."
        )
    for asset in lineage.downstream:
        origins = ", ".join(".".join(name) for name in asset.origins)
        texts[asset.output] = f"{origins} of {source} as it is at the checkpoint, merged from silver exactly once."
    texts[PUBLISHED] = (
        f"Which versions of {source}'s tables belong together, and up to which position. "
        "Fails when a table has stopped, after the others went through."
    )
    return texts


def _origin(pipeline: Pipeline, source: str) -> str:
    settings = pipeline.sources[source]
    servers = [f"{server.host}:{server.port}" for server in settings.servers]
    return " or ".join(servers) or f"the binlog files in {settings.files}"


def _kinds(pipeline: Pipeline, lineage: Lineage) -> dict[str, dict[str, str]]:
    """The layer, where it runs, how it is kept: only names that the UI draws, which leaves a table's name its room."""
    origin = "mysql" if pipeline.sources[lineage.source].mysql else "file"
    kinds = {BRONZE: ("bronze", origin, "deltalake"), PUBLISHED: ("deltalake",)}
    kinds |= {asset.output: ("silver", "spark", "deltalake") for asset in lineage.silver}
    kinds |= {asset.output: ("gold", "spark", "deltalake") for asset in lineage.downstream}
    return {output: {f"dagster/kind/{kind}": "" for kind in listed} for output, listed in kinds.items()}
