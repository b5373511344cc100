"""What Dagster's graph of one source looks like: which assets there are, how they are called, what they come from.

Put here: asset keys and the arrows between them, from the configuration and the tables seen so far. Not here: how the
steps that make them run (bronze.py, silver.py, downstream.py, published.py), or anything that needs the lake.
"""

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import dagster as dg

from spark_jobs.config.known_tables import SeenTable
from spark_jobs.config.model import Pipeline

GOES_ON = "goes_on"
"""The check of every silver and downstream table: passed by a run that worked on it, failed by one that stopped it."""

_PLAIN = re.compile(r"[A-Za-z0-9_]+")

Name = tuple[str, str]
"""Schema and table."""


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
        """Its check; none where Dagster could not name the check's output, as for a table with a blank in its name."""
        is_plain = all(_PLAIN.fullmatch(part) for part in self.key.path)
        return dg.AssetCheckSpec(GOES_ON, asset=self.key, description=_GOES_ON) if is_plain else None


_GOES_ON = "Whether the table goes on: one that stopped, here or in silver, says why, and holds everything before that."


@dataclass(frozen=True, slots=True)
class Lineage:
    """One source's part of the graph."""

    source: str
    silver: tuple[TableAsset, ...]
    downstream: tuple[TableAsset, ...]
    """Where tables of several sources are routed to one downstream table, it stands with the first of them."""

    @property
    def origin(self) -> dg.AssetKey:
        return origin_key(self.source)

    @property
    def bronze(self) -> dg.AssetKey:
        return bronze_key(self.source)

    @property
    def published(self) -> dg.AssetKey:
        return published_key(self.source)

    @property
    def backfill(self) -> dg.AssetKey:
        return backfill_key(self.source)

    def group(self, layer: str) -> str:
        """The group of what belongs to ``bronze``, ``silver`` or ``downstream``: a source is three boxes."""
        return f"{self.source}_{layer}"

    @property
    def keys(self) -> list[dg.AssetKey]:
        """What a run of the source makes."""
        return [self.bronze, *(asset.key for asset in (*self.silver, *self.downstream)), self.published]


def origin_key(source: str) -> dg.AssetKey:
    return dg.AssetKey(["source", source])


def bronze_key(source: str) -> dg.AssetKey:
    """The asset key of a source's bronze table."""
    return dg.AssetKey(["bronze", source])


def silver_key(source: str, name: Name) -> dg.AssetKey:
    """The asset key of a source table's silver table; ``name`` is (schema, table)."""
    return dg.AssetKey(["silver", source, *map(_part, name)])


def downstream_key(name: Name) -> dg.AssetKey:
    """The asset key of a downstream table; ``name`` is (schema, table)."""
    return dg.AssetKey(["downstream", *map(_part, name)])


def published_key(source: str) -> dg.AssetKey:
    """The asset key of a source's rows in ``published``: materialized last in a run, after all of its tables."""
    return dg.AssetKey(["published", source])


def backfill_key(source: str) -> dg.AssetKey:
    return dg.AssetKey(["backfill", source])


def lineages(pipeline: Pipeline, tables: Iterable[SeenTable]) -> list[Lineage]:
    """The graph of every source, in the configuration's order; of the tables only those in scope."""
    scope = pipeline.scope
    by_source: dict[str, list[Name]] = {source: [] for source in pipeline.sources}
    for source, schema, table in sorted(tables):
        if source in by_source and scope.holds(schema, table):
            by_source[source].append((schema, table))
    owned: set[Name] = set()
    graph = []
    for source, names in by_source.items():
        targets = {into: origins for into, origins in _targets(pipeline, source, names).items() if into not in owned}
        owned |= targets.keys()
        graph.append(Lineage(source, _silver(source, names), _downstream(targets)))
    return graph


def _targets(pipeline: Pipeline, source: str, names: list[Name]) -> dict[Name, list[Name]]:
    targets: dict[Name, list[Name]] = {}
    for name in names:
        for into in pipeline.routing.of(source, *name):
            targets.setdefault(into.name, []).append(name)
    return targets


def _silver(source: str, names: list[Name]) -> tuple[TableAsset, ...]:
    return tuple(TableAsset(name, silver_key(source, name), _output("silver", name), (name,)) for name in names)


def _downstream(targets: dict[Name, list[Name]]) -> tuple[TableAsset, ...]:
    return tuple(
        TableAsset(into, downstream_key(into), _output("downstream", into), tuple(origins))
        for into, origins in targets.items()
    )


def _part(name: str) -> str:
    """A name as one part of a key: Dagster joins the parts with slashes."""
    return name.replace("%", "%25").replace("/", "%2F")


def _output(layer: str, name: Name) -> str:
    """An output's name: letters, digits and _ only, and a checksum where that loses the table's name."""
    joined = "__".join((layer, *name))
    plain = all(_PLAIN.fullmatch(part) and "__" not in part and part.strip("_") == part for part in name)
    return joined if plain else f"{re.sub(r'[^A-Za-z0-9_]', '_', joined)}__{zlib.crc32(repr(name).encode()):08x}"
