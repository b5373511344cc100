"""Asset keys without a prefix or a translation.

Put here: the key of each kind of asset. Not here: the keys of a code location (catalog.py), or the graph (lineage.py).
"""

import dagster as dg

from spark_jobs.text.asset_keys import downstream_key_parts, key_part

Name = tuple[str, str]
"""Schema and table."""


def origin_key(source: str) -> dg.AssetKey:
    return dg.AssetKey(["source", source])


def bronze_key(source: str) -> dg.AssetKey:
    """The asset key of a source's bronze table."""
    return dg.AssetKey(["bronze", source])


def silver_key(source: str, name: Name) -> dg.AssetKey:
    """The asset key of a source table's silver table; ``name`` is (schema, table)."""
    return dg.AssetKey(["silver", source, *map(key_part, name)])


def downstream_key(name: Name) -> dg.AssetKey:
    """The asset key of a downstream table; ``name`` is (schema, table)."""
    return dg.AssetKey(downstream_key_parts(*name))


def published_key(source: str) -> dg.AssetKey:
    """The asset key of a source's rows in ``published``: materialized last in a run, after all of its tables."""
    return dg.AssetKey(["published", source])


def delivery_key(name: str, table: Name) -> dg.AssetKey:
    """The asset key of a delivery's table; ``table`` is (schema, table)."""
    return dg.AssetKey(["delivery", name, *map(key_part, table)])


def backfill_key(source: str) -> dg.AssetKey:
    return dg.AssetKey(["backfill", source])


def table_at_key(source: str) -> dg.AssetKey:
    return dg.AssetKey(["table_at", source])
