"""Downstream table of a delivery: its columns as the source declares them, its key, its position.

Put here: which downstream tables there are, by what is published, and what their commits say. Not here: their rows
(changes.py), or the target's tables (target_table.py).
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Destination
from spark_jobs.delivery.encode import OutputColumn
from spark_jobs.delta.snapshot import Snapshot, commit_info_of
from spark_jobs.downstream import publication
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.downstream.multi_source import PROVENANCE, parts_of
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit

Origin = tuple[str, TableName]
"""A source table: the source's name, and its own."""


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A downstream table that is published.

    version: the newest that is published. origins: the source tables whose rows it has. hashed: columns, in small
    letters, that have hashes in the place of values.
    """

    schema: str
    name: str
    table: Table
    version: int
    origins: tuple[Origin, ...]
    into: Destination
    hashed: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a downstream table.

    physical: its name in data files, which a rename leaves. column: as the source declares it; None where nothing says.
    """

    name: str
    physical: str
    spark_type: str
    column: Column | None


@dataclass(frozen=True, slots=True)
class LakeTableShape:
    """Shape of a version of a downstream table. key: empty where the source's table has none."""

    columns: tuple[LakeColumn, ...]
    key: tuple[str, ...]
    position: str

    def source_key(self, columns: Sequence[OutputColumn]) -> tuple[str, ...]:
        """The written columns by which the source tells rows apart: all of them where the key is not written whole."""
        names = tuple(column.name for column in columns)
        return self.key if self.key and set(self.key) <= set(names) else names


def published(pipeline: Pipeline, lake: Lake) -> list[LakeTable]:
    """The downstream tables that are published, by name, each at the newest version that is. Raises LakeError."""
    versions: dict[tuple[str, str], int] = {}
    origins: dict[tuple[str, str], list[Origin]] = defaultdict(list)
    destinations: dict[tuple[str, str], Destination] = {}
    for source in pipeline.sources:
        for entry in publication.read(lake, source):
            if entry.state == "ignored":
                continue
            # A target that no route leads to any more is not delivered any more.
            routed = {into.name: into for into in pipeline.routing.of(source, *entry.name)}
            for target in entry.into:
                if target.version is None or target.name not in routed:
                    continue
                versions[target.name] = max(target.version, versions.get(target.name, -1))
                origins[target.name].append((source, TableName(*entry.name)))
                destinations[target.name] = routed[target.name]
    return [
        LakeTable(
            *name,
            lake.downstream(*name),
            version,
            tuple(origins[name]),
            destinations[name],
            frozenset(column for _, origin in origins[name] for column in hashed_columns(pipeline, origin)),
        )
        for name, version in sorted(versions.items())
    ]


def shape_of(lake: Lake, table: LakeTable, snapshot: Snapshot) -> LakeTableShape:
    """Shape of a version, with the declarations of the silver versions that were merged into it."""
    checkpoint = DownstreamCommit.from_json(snapshot.user_metadata)
    if checkpoint is None:  # somebody else's commit, which moved no position
        checkpoint = DownstreamCommit.of_head(table.table.head())
    versions = {} if checkpoint is None else _silver_versions(checkpoint)
    definitions: list[TableDefinition] = []
    key: tuple[str, ...] = ()
    for source, name in table.origins:
        commit = _silver_commit(lake, source, name, versions.get((source, name.schema, name.table)))
        if commit is None:
            continue
        key = key or commit.key or ()
        definitions += [commit.definition] if commit.definition else []
    if table.into.is_merged and not table.into.is_shared and key:
        key = (*PROVENANCE, *key)
    declared = {
        str(column.name): column for definition in reversed(definitions) for column in definition.columns if column.name
    }
    columns = tuple(
        LakeColumn(
            column.name,
            column.physical_name,
            column.ddl,
            as_declared(declared.get(column.name), column.ddl, table.hashed),
        )
        for column in snapshot.schema.columns
        if column.name not in ADDED
    )
    return LakeTableShape(columns, key, _position_text(checkpoint))


def hashed_columns(pipeline: Pipeline, name: TableName) -> frozenset[str]:
    """The columns of a source table that have hashes in the place of values, in small letters."""
    rule = pipeline.filters.of(name.schema, name.table).columns
    return frozenset(column for column, mask in rule.masks.items() if mask.kind == "hash") if rule else frozenset()


def as_declared(column: Column | None, kind: str, hashed: Collection[str]) -> Column | None:
    """The source's column where the lake has its values; None where a mask, or another source, gives others."""
    if column is None or str(column.name).casefold() in hashed:
        return None
    return column if silver.spark_type(str(column.arrow)) == kind else None


def _silver_versions(checkpoint: DownstreamCommit) -> Mapping[tuple[str, str, str], int]:
    """Version of silver that was merged, by owner."""
    parts = {part.owner: part.silver_version for part in parts_of(checkpoint)}
    if parts or not checkpoint.source or not checkpoint.table:
        return parts
    schema, _, table = checkpoint.table.partition(".")
    return {(checkpoint.source, schema, table): checkpoint.silver_version}


def _silver_commit(lake: Lake, source: str, name: TableName, version: int | None) -> SilverCommit | None:
    """Silver commit that was merged; where it is not in the log any more, the newest one."""
    silver = lake.silver(source, name.schema, name.table)
    info = None if version is None or version < 0 else commit_info_of(silver.path, version)
    commit = SilverCommit.from_json(info.get("userMetadata")) if info else None
    if commit is not None and commit.definition is not None and commit.key is not None:
        return commit
    return SilverCommit.of_head(silver.head())


def _position_text(checkpoint: DownstreamCommit | None) -> str:
    """The position; of a table of several source tables each one's."""
    if checkpoint is None:
        return ""
    parts = parts_of(checkpoint)
    if not parts:
        return str(checkpoint.position)
    return ", ".join(f"{'.'.join(part.owner)} {part.position}" for part in parts)


def positions_of(text: str | None, table: LakeTable) -> dict[Origin, Position]:
    """Positions by source table that a progress row says. text: as ``Shape.position``."""
    if not text:
        return {}
    if len(table.origins) == 1 and " " not in text:
        return {table.origins[0]: Position.parse(text)}
    positions = {}
    for part in text.split(", "):
        owner, _, position = part.rpartition(" ")
        for source, name in table.origins:
            if owner == f"{source}.{name.schema}.{name.table}":
                positions[source, name] = Position.parse(position)
    return positions


def is_restored(table: LakeTable, version: int, position: str | None) -> bool:
    """True if the lake's table was put back to a state before a version, whatever it has under its number now.

    position: what the version's commit said when it was delivered.
    """
    info = commit_info_of(table.table.path, version)
    if info is None:  # its log may not go back so far any more
        head = table.table.head()
        return head is None or head.version < version
    checkpoint = DownstreamCommit.from_json(info.get("userMetadata"))
    return checkpoint is not None and bool(position) and _position_text(checkpoint) != position


def silver_version_at(table: LakeTable, version: int, origin: Origin) -> int | None:
    """Version of a source table's silver in a version of the downstream table; None where nothing says."""
    info = commit_info_of(table.table.path, version)
    checkpoint = DownstreamCommit.from_json(info.get("userMetadata")) if info else None
    source, name = origin
    return _silver_versions(checkpoint).get((source, name.schema, name.table)) if checkpoint else None
