"""Appearance of a pipeline's assets in a code location.

Keys, groups, descriptions, and what Dagster knows by convention.

Put here: the AssetSpec of each asset, its prefix and its translation, and the names of what runs it. Not here: which
assets there are (lineage.py), or what a materialization says (checkpoint.py).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg

from assets import keys
from assets.keys import Name
from assets.steps import Execute
from spark_jobs.config.known_tables import SeenTable
from spark_jobs.config.model import Pipeline
from spark_jobs.config.modes import Mode, Modes
from spark_jobs.errors import ConfigError

_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_TAG = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://")
_SHORTEST_FRESHNESS = timedelta(minutes=1)
"""Dagster takes no shorter window."""
_NAMED = 3
"""Source tables that a description names of each source."""
_ROWS = {
    Mode.MIRROR: "Current rows",
    Mode.SOFT_DELETE: "Current and deleted rows",
    Mode.APPEND: "Every change",
    Mode.HISTORY: "Every version of each row",
}


@dataclass(frozen=True, slots=True)
class AssetOf:
    """Subject of an asset, as translations get it.

    layer: ``source``, ``bronze``, ``silver``, ``downstream``, ``published``, ``backfill``, ``table_at`` or
    ``delivery``. source: the source's name; of a delivery its name, and empty for a downstream table. schema, table:
    empty where it is no table.
    """

    layer: str
    source: str = ""
    schema: str = ""
    table: str = ""


Translation = Callable[[dg.AssetSpec, AssetOf], dg.AssetSpec]
"""Changes the key, group, owners, tags, metadata or automation of an asset."""


@dataclass(frozen=True)
class AssetCatalog:
    """The specs and names of one pipeline in a code location."""

    pipeline: Pipeline
    key_prefix: str | Sequence[str] = ()
    """Prefix of each asset key."""
    group: str | None = None
    """Group of all assets; by default each source has a group per layer."""
    job_prefix: str = ""
    """Prefix of the names of jobs, sensors, schedules, steps and pools."""
    resource_key: str | None = None
    """Key of the resource that gives Spark sessions."""
    translation: Translation | None = None
    """Applied to each spec, after the prefix."""
    execute: Execute | None = None
    """Runs each step of a run."""
    include_metadata: Sequence[str] = ("*",)
    """Patterns of the metadata keys that materializations have; the position is always there."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """Kind of server that wrote the log of each source whose kind a run has found: ``mysql`` or ``mariadb``."""
    tables: Iterable[SeenTable] = ()
    """Tables that are in the graph, by which downstream tables say what they come from."""
    _specs: dict[AssetOf, dg.AssetSpec] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the names of groups and jobs: Dagster must accept them, and a check's name must fit.

        Raises ConfigError.
        """
        names: dict[str, Sequence[str | None]] = {
            "key_prefix": self._prefix,
            "group": [self.group],
            "job_prefix": [self.job_prefix],
            "resource_key": [self.resource_key],
        }
        for argument, parts in names.items():
            for part in parts:
                if part and not _PLAIN.fullmatch(part):
                    raise ConfigError(f"{argument}: {part!r} is not a name of letters, digits and _")

    @property
    def spark(self) -> str:
        """The key of the resource that gives Spark sessions."""
        return self.resource_key or self.name("spark")

    @cached_property
    def _modes(self) -> Modes:
        return Modes.from_rules(self.pipeline.downstream)

    @property
    def _prefix(self) -> list[str]:
        return [self.key_prefix] if isinstance(self.key_prefix, str) else list(self.key_prefix)

    def name(self, name: str) -> str:
        """The name of a job, sensor, schedule, step or pool."""
        return f"{self.job_prefix}{name}"

    def spec(self, asset: AssetOf) -> dg.AssetSpec:
        """The spec of an asset, without its dependencies. Raises ConfigError where a translation returns no spec."""
        if asset not in self._specs:
            spec = self._base_spec(asset)
            if self.translation:
                spec = self.translation(spec, asset)
                if not isinstance(spec, dg.AssetSpec):
                    raise ConfigError(f"the translation of {asset} returned {type(spec).__name__}, not an AssetSpec")
            self._specs[asset] = spec
        return self._specs[asset]

    def key(self, asset: AssetOf) -> dg.AssetKey:
        return self.spec(asset).key

    def silver(self, source: str, name: Name) -> dg.AssetKey:
        return self.key(AssetOf("silver", source, *name))

    def downstream(self, name: Name) -> dg.AssetKey:
        return self.key(AssetOf("downstream", "", *name))

    def delivery(self, name: str, table: Name) -> dg.AssetKey:
        return self.key(AssetOf("delivery", name, *table))

    def layer_key(self, layer: str, source: str) -> dg.AssetKey:
        """The key of what a source has once: ``source``, ``bronze``, ``published``, ``backfill``, ``table_at``."""
        return self.key(AssetOf(layer, source))

    def dress(
        self, assets: dg.AssetsDefinition, assets_by_key: dict[dg.AssetKey, AssetOf], group: str = ""
    ) -> dg.AssetsDefinition:
        """The assets with group, description, tags, owners, metadata and policies of their specs.

        group: of specs that name none, as those of downstream tables.
        """

        def dressed(plain: dg.AssetSpec) -> dg.AssetSpec:
            spec = self.spec(assets_by_key[plain.key])
            return spec.replace_attributes(
                deps=plain.deps, skippable=plain.skippable, group_name=spec.group_name or group or None
            )

        return assets.map_asset_specs(dressed)

    def _base_spec(self, asset: AssetOf) -> dg.AssetSpec:
        # The key of its layer, as it is documented; a prefix comes before it.
        name = (asset.schema, asset.table)
        key: dg.AssetKey = {
            "source": lambda: keys.origin_key(asset.source),
            "bronze": lambda: keys.bronze_key(asset.source),
            "silver": lambda: keys.silver_key(asset.source, name),
            "downstream": lambda: keys.downstream_key(name),
            "published": lambda: keys.published_key(asset.source),
            "backfill": lambda: keys.backfill_key(asset.source),
            "table_at": lambda: keys.table_at_key(asset.source),
            "delivery": lambda: keys.delivery_key(asset.source, name),
        }[asset.layer]()
        return dg.AssetSpec(
            key.with_prefix(self._prefix) if self._prefix else key,
            description=self._description(asset),
            group_name=self.group or self._group_of(asset),
            kinds=self._kinds(asset),
            tags=_tags(asset),
            owners=self.pipeline.owners,
            metadata=self._metadata(asset),
            freshness_policy=self._freshness(asset),
        )

    def _group_of(self, asset: AssetOf) -> str | None:
        """The group of a source's layer. A downstream table is with the first source that has rows for it."""
        match asset.layer:
            case "delivery":
                return asset.source
            case "downstream":
                return None  # lineage.py knows the source
            case "published" | "table_at":
                return f"{asset.source}_downstream"
            case "silver":
                return f"{asset.source}_silver"
            case _:
                return f"{asset.source}_bronze"

    def _description(self, asset: AssetOf) -> str:
        # A delivery's source is its name; all else comes from a source of the pipeline.
        source, table = asset.source, f"{asset.schema}.{asset.table}"
        if asset.layer == "delivery":
            server = self.pipeline.deliveries[source].mysql
            return f"{table} at {server.host}:{server.port}, complete up to its checkpoint."
        origin = self._origin(source) if source else ""
        return {
            "source": f"The log of {origin}. Backlog: log that bronze does not have yet. Retention margin: log that "
            "the source still keeps before what is to be read next.",
            "bronze": f"The log of {origin}, byte for byte, as slices of transactions.",
            "silver": f"Net changes of {table}: one row per key and window of the log. Deletes stay as rows.",
            "downstream": self._contents(asset),
            "published": f"The versions of {source}'s tables that belong together. Fails when a table has stopped.",
            "backfill": f"A partition per binlog file of {source}, in bronze or its archive. Materialize files to "
            "replay them through silver and downstream, in one run; unchanged rows are not written.",
            "table_at": f"Tables of {source} as they were, written outside of the lake. The job "
            f"{self.name('table_at')} makes them; each materialization names table, position, rows and target.",
        }[asset.layer]

    def _contents(self, asset: AssetOf) -> str:
        """Rows of a downstream table: which, of what, and up to where."""
        mode, parts = self._modes.of(asset.schema, asset.table), []
        for source, names in self._origins.get((asset.schema, asset.table), {}).items():
            rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            parts.append(f" of {', '.join(names[:_NAMED])}{rest} from source {source}")
        return f"{_ROWS[mode]}{' and'.join(parts)}; mode: {mode}; complete up to its checkpoint (binlog/end)."

    @cached_property
    def _origins(self) -> dict[Name, dict[str, list[str]]]:
        """Source tables by source that the rows of each downstream table come from."""
        origins: dict[Name, dict[str, list[str]]] = {}
        for source, schema, table in sorted(self.tables):
            if source in self.pipeline.sources and self.pipeline.scope.holds(schema, table):
                for into in self.pipeline.routing.of(source, schema, table):
                    origins.setdefault(into.name, {}).setdefault(source, []).append(f"{schema}.{table}")
        return origins

    def _origin(self, source: str) -> str:
        settings = self.pipeline.sources[source]
        servers = [f"{server.host}:{server.port}" for server in settings.servers]
        return " or ".join(servers) or f"the binlog files in {settings.files}"

    def _kinds(self, asset: AssetOf) -> set[str]:
        """Kinds of an asset: its origin, its engine, its storage: names that the UI draws, at most three."""
        if asset.layer == "delivery":
            return {"mysql"}
        origin = self._origin_of(asset.source)
        return {
            "source": {"source", origin},
            "bronze": {"bronze", origin, "deltalake"},
            "backfill": {"bronze", origin, "deltalake"},
            "table_at": {origin},
            "silver": {"silver", "spark", "deltalake"},
            "downstream": {origin, "spark", "deltalake"},
        }.get(asset.layer, {"deltalake"})

    def _origin_of(self, source: str) -> str:
        """``mysql`` or ``mariadb``: what wrote the log of a source, or of most sources where none is named."""
        wrote = [self.servers.get(name, "mysql") for name in ([source] if source else self.pipeline.sources)]
        return max(wrote, key=wrote.count)

    def _metadata(self, asset: AssetOf) -> dict[str, Any]:
        """Location of the table, under the keys that Dagster knows."""
        if asset.layer not in ("bronze", "silver", "downstream", "published"):
            return {}
        parts = [part for part in (asset.layer, asset.source, asset.schema, asset.table) if part]
        folders = [asset.layer] if asset.layer == "published" else parts
        path = "/".join([self.pipeline.lake.rstrip("/"), *folders])
        return {
            "dagster/table_name": ".".join(parts),
            "dagster/storage_kind": "deltalake",
            "dagster/uri": path if _REMOTE.match(path) else Path(path).absolute().as_uri(),
        }

    def _freshness(self, asset: AssetOf) -> dg.FreshnessPolicy | None:
        """Freshness of bronze by ``max_lag``, of a downstream table by ``changes_within``; None where nothing is set.

        A source without changes is confirmed by the sensor of the lake; a table without changes is not, so that assets
        after it are not started for nothing.
        """
        window = None
        if asset.layer == "bronze" and self.pipeline.max_lag is not None:
            window = max(self.pipeline.max_lag, _SHORTEST_FRESHNESS)
        elif asset.layer == "downstream":
            window = self._modes.window_of(asset.schema, asset.table)
        return dg.FreshnessPolicy.time_window(fail_window=window) if window else None


def _tags(asset: AssetOf) -> dict[str, str]:
    """Tags by which assets are searched and selected. A name that Dagster takes for no tag's value has none."""
    named = {"layer": asset.layer, "source": asset.source, "schema": asset.schema, "table": asset.table}
    return {f"stratalog/{name}": value for name, value in named.items() if _TAG.fullmatch(value)}
