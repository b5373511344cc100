"""Shape of Dagster's graph of one source: which assets there are, and what they come from.

Put here: tables and the arrows between them, from the configuration and the tables seen so far. Not here: how assets
are called (catalog.py), how the steps that make them run (bronze.py, silver.py, downstream.py, published.py), or
anything that needs the lake.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import dagster as dg

from assets.catalog import AssetCatalog, AssetOf
from assets.keys import Name
from spark_jobs.config.known_tables import SeenTable
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError

REPLICATING = "replicating"
"""The check of every silver and downstream table: passed by a run that worked on it, failed by one that stopped it."""

_PLAIN = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class TableAsset:
    """One silver or downstream table in the graph; ``origins`` are the source tables that its rows come from."""

    name: Name
    key: dg.AssetKey
    output: str
    """Name of the step's output that stands for it. It depends on nothing but the table's name."""
    origins: tuple[Name, ...]

    @property
    def check(self) -> dg.AssetCheckSpec | None:
        """The asset's check; none if Dagster could not name its output, as for a table with a blank in its name."""
        is_plain = all(_PLAIN.fullmatch(part) for part in self.key.path)
        return dg.AssetCheckSpec(REPLICATING, asset=self.key, description=_REPLICATING) if is_plain else None


_REPLICATING = (
    "Fails when replication of this table has stopped, here or in silver, with the reason and what to do. Warns when a "
    "foreign key changes its rows unlogged."
)


@dataclass(frozen=True, slots=True)
class Lineage:
    """One source's part of the graph."""

    source: str
    silver: tuple[TableAsset, ...]
    downstream: tuple[TableAsset, ...]
    """Position in the order: tables of several sources that are routed to one downstream table stand with the first of
    them."""
    catalog: AssetCatalog

    @property
    def origin(self) -> dg.AssetKey:
        return self.catalog.layer_key("source", self.source)

    @property
    def bronze(self) -> dg.AssetKey:
        return self.catalog.layer_key("bronze", self.source)

    @property
    def published(self) -> dg.AssetKey:
        return self.catalog.layer_key("published", self.source)

    @property
    def backfill(self) -> dg.AssetKey:
        return self.catalog.layer_key("backfill", self.source)

    @property
    def table_at(self) -> dg.AssetKey:
        return self.catalog.layer_key("table_at", self.source)

    @property
    def pool(self) -> str:
        """The pool that all steps of a source share; one writer at a time is all that a Delta table takes."""
        return f"stratalog_source_{self.catalog.name(self.source)}"

    @property
    def partitions(self) -> str:
        """The name of the partitions that its binlog files are."""
        return f"binlog_files_{self.catalog.name(self.source)}"

    def assets_by_key(self) -> dict[dg.AssetKey, AssetOf]:
        """Subjects of its assets."""
        tables = {asset.key: AssetOf("silver", self.source, *asset.name) for asset in self.silver}
        tables |= {asset.key: AssetOf("downstream", "", *asset.name) for asset in self.downstream}
        layers = ("bronze", "published", "backfill")
        return tables | {self.catalog.layer_key(layer, self.source): AssetOf(layer, self.source) for layer in layers}

    @property
    def keys(self) -> list[dg.AssetKey]:
        """Keys of the assets that a run of the source makes."""
        return [self.bronze, *(asset.key for asset in (*self.silver, *self.downstream)), self.published]


def lineages(pipeline: Pipeline, tables: Iterable[SeenTable], catalog: AssetCatalog | None = None) -> list[Lineage]:
    """The graph of every source, in the configuration's order; of the tables only those in scope.

    Raises ConfigError where a translation gives two assets one key.
    """
    scope, catalog = pipeline.scope, catalog or AssetCatalog(pipeline)
    by_source: dict[str, list[Name]] = {source: [] for source in pipeline.sources}
    for source, schema, table in sorted(tables):
        if source in by_source and scope.holds(schema, table):
            by_source[source].append((schema, table))
    owned: set[Name] = set()
    graph = []
    for source, names in by_source.items():
        targets = {into: origins for into, origins in _targets(pipeline, source, names).items() if into not in owned}
        owned |= targets.keys()
        graph.append(Lineage(source, _silver(catalog, source, names), _downstream(catalog, targets), catalog))
    _require_unique(graph)
    return graph


def _require_unique(graph: Iterable[Lineage]) -> None:
    single_keys = [key for lineage in graph for key in (lineage.origin, lineage.backfill, lineage.table_at)]
    asset_keys = [*(key for lineage in graph for key in lineage.keys), *single_keys]
    repeated = [key.to_user_string() for key, count in Counter(asset_keys).items() if count > 1]
    if repeated:
        raise ConfigError(
            f"the translation gives several assets the key {repeated[0]}; use the layer, source, schema and table of "
            "its second argument to tell them apart"
        )


def _targets(pipeline: Pipeline, source: str, names: list[Name]) -> dict[Name, list[Name]]:
    targets: dict[Name, list[Name]] = {}
    for name in names:
        for into in pipeline.routing.of(source, *name):
            targets.setdefault(into.name, []).append(name)
    return targets


def _silver(catalog: AssetCatalog, source: str, names: list[Name]) -> tuple[TableAsset, ...]:
    return tuple(TableAsset(name, catalog.silver(source, name), _output("silver", name), (name,)) for name in names)


def _downstream(catalog: AssetCatalog, targets: dict[Name, list[Name]]) -> tuple[TableAsset, ...]:
    return tuple(
        TableAsset(into, catalog.downstream(into), _output("downstream", into), tuple(origins))
        for into, origins in targets.items()
    )


def _output(layer: str, name: Name) -> str:
    """An output's name: letters, digits and _ only, and a checksum where that loses the table's name."""
    joined = "__".join((layer, *name))
    plain = all(_PLAIN.fullmatch(part) and "__" not in part and part.strip("_") == part for part in name)
    return joined if plain else f"{re.sub(r'[^A-Za-z0-9_]', '_', joined)}__{zlib.crc32(repr(name).encode()):08x}"
