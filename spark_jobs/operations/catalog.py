"""Tables of the lake in a catalog of Spark: registered after a run, and removed where they are gone.

Put here: which tables are to be there, and the statements. Not here: names (config/catalog.py), or the catalog itself,
which Spark's settings define.

A table is external: the catalog has its name and its path, Delta's log has all else. A small file beside pipeline.yaml
keeps what was registered and of which state of the lake, so that a run without news asks neither Spark nor a catalog.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.config.catalog import Catalog
from spark_jobs.config.model import Pipeline
from spark_jobs.config.run_files import RunFile
from spark_jobs.downstream import publication
from spark_jobs.errors import LakeError
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.operations.observation.backlog import heads
from spark_jobs.runtime.engine_errors import without_java
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.text.replaced import replace_text
from spark_jobs.text.sql import identifier, literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_SHOWN = 5
Paths = Mapping[tuple[str, str, str], str]
"""Paths of tables by catalog, database and name."""


@dataclass(frozen=True, slots=True)
class CatalogChanges:
    """Changes of a run in the catalog."""

    registered: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _State:
    """Registered state. basis: of which version of ``published``, by which keys."""

    basis: list[Any] = field(default_factory=list)
    paths: Paths = field(default_factory=dict)


def is_pending(pipeline: Pipeline) -> bool:
    """True if the catalog may lack something, or have too much, without Spark. Raises LakeError."""
    state = _read_state(pipeline.path)
    if pipeline.catalog is None:
        return bool(state.paths)
    return state.basis != _basis(pipeline, pipeline.catalog)


def update(spark: "SparkSession", pipeline: Pipeline) -> CatalogChanges:
    """Register what is new and remove what is gone; Spark is started where there is anything to do.

    Raises LakeError with all that the catalog refused, once the rest is done.
    """
    if not is_pending(pipeline):
        return CatalogChanges()
    state = _read_state(pipeline.path)
    basis = _basis(pipeline, pipeline.catalog) if pipeline.catalog else []
    wanted_paths, problems = _targets(pipeline)
    changes, paths = CatalogChanges(), dict(state.paths)
    # Old names first: a table may have got the name of another.
    stale = [name for name, path in state.paths.items() if wanted_paths.get(name) != path]
    new = [name for name in wanted_paths if name in stale or name not in paths]
    session = start_session(spark) if stale or new else spark
    for name in stale:
        if reason := _removed(session, name, paths.pop(name)):
            problems.append(reason)
        elif name not in wanted_paths:
            changes.removed.append(".".join(name))
    for database in dict.fromkeys(name[:2] for name in new):
        _run_statement(session, f"CREATE SCHEMA IF NOT EXISTS {_sql(database)}", problems)
    for name in new:
        if reason := _registered(session, name, wanted_paths[name]):
            problems.append(reason)
        else:
            paths[name] = wanted_paths[name]
            changes.registered.append(".".join(name))
    # With a problem the next run tries again.
    _write_state(pipeline.path, _State([] if problems else basis, paths))
    if problems:
        rest = f"\n… and {len(problems) - _SHOWN} more" if problems[_SHOWN:] else ""
        raise LakeError("\n".join(problems[:_SHOWN]) + rest)
    return changes


def _basis(pipeline: Pipeline, catalog: Catalog) -> list[Any]:
    """Basis of what is to be registered: the published tables, and the configuration."""
    head = lake_of(pipeline).published().head()
    routes = [rule.model_dump(mode="json") for rule in pipeline.routes]
    keys = [catalog.model_dump(mode="json"), pipeline.on_drop, list(pipeline.tables), routes, pipeline.lake]
    return [head.version if head else -1, keys]


def _targets(pipeline: Pipeline) -> tuple[dict[tuple[str, str, str], str], list[str]]:
    """The tables that are to be there, and which cannot be: catalogs compare names without regard to case."""
    from spark_jobs.delivery.lake_table import published  # half a second that a run without news need not spend

    catalog = pipeline.catalog
    if catalog is None:
        return {}, []
    # Downstream tables, then silver's; those whose source table is gone only while their rows stay.
    lake = lake_of(pipeline)
    dropped = _dropped(pipeline, lake) if pipeline.on_drop == "drop" else set()
    listed = [
        ((catalog.name, catalog.downstream_database(table.schema), table.name), table.table.path)
        for table in published(pipeline, lake)
        if not {(source, str(name)) for source, name in table.origins} <= dropped
    ]
    for source in pipeline.sources if catalog.silver else ():
        for entry in publication.read(lake, source):
            database = catalog.silver_database(source, entry.schema)
            is_there = entry.silver_version is not None and entry.state != "ignored"
            if database and is_there and (source, ".".join(entry.name)) not in dropped:
                listed.append(((catalog.name, database, entry.table), lake.silver(source, *entry.name).path))
    paths: dict[tuple[str, str, str], str] = {}
    problems, by_name = [], dict[tuple[str, ...], str]()
    for name, path in listed:
        folded = tuple(part.casefold() for part in name)
        if folded in by_name:
            problems.append(f"catalog: {'.'.join(name)}: {by_name[folded]} has that name already; route one elsewhere")
            continue
        by_name[folded] = path
        paths[name] = path
    return paths, problems


def _dropped(pipeline: Pipeline, lake: Lake) -> set[tuple[str, str]]:
    """The source tables that do not exist any more, or have another name."""
    names = [(source, entry) for source in pipeline.sources for entry in publication.read(lake, source)]
    names = [(source, entry) for source, entry in names if entry.silver_version is not None]
    opened = heads([lake.silver(source, *entry.name) for source, entry in names])
    commits = [SilverCommit.of_head(head) for head in opened]
    return {
        (source, ".".join(entry.name))
        for (source, entry), commit in zip(names, commits, strict=True)
        if commit and commit.is_dropped
    }


def _registered(spark: "SparkSession", name: tuple[str, str, str], path: str) -> str | None:
    """Register a table; why it cannot be, where it cannot."""
    statement = f"CREATE TABLE IF NOT EXISTS {_sql(name)} USING DELTA LOCATION {literal(path)}"
    problems: list[str] = []
    if not _run_statement(spark, statement, problems):
        return problems[0]
    location = _location(spark, name)
    if location is not None and _normalized_location(location) != _normalized_location(path):
        reason = f"is a table at {location} already, and is left alone"
        return f"catalog: {'.'.join(name)} {reason}; drop it, or choose another database (catalog.downstream)"
    return None


def _removed(spark: "SparkSession", name: tuple[str, str, str], path: str) -> str | None:
    """Remove a name, if it is still the path's; its files stay."""
    location = _location(spark, name)
    if location is None or _normalized_location(location) != _normalized_location(path):
        return None
    problems: list[str] = []
    return None if _run_statement(spark, f"DROP TABLE IF EXISTS {_sql(name)}", problems) else problems[0]


def _location(spark: "SparkSession", name: tuple[str, str, str]) -> str | None:
    """Location of the table of a name; None where there is none, or the catalog does not say."""
    from pyspark.errors import PySparkException

    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {_sql(name)}").collect()
    except PySparkException:
        return None
    return next((row["data_type"] for row in rows if row["col_name"] == "Location"), None)


def _run_statement(spark: "SparkSession", statement: str, problems: list[str]) -> bool:
    from pyspark.errors import PySparkException

    try:
        spark.sql(statement)
    except PySparkException as error:
        problems.append(f"catalog: {statement.partition(' USING ')[0]}: {without_java(str(error), 1)}")
        return False
    return True


def _normalized_location(location: str) -> str:
    """A location as it is compared: Hive writes a local path as a URL."""
    return location.removeprefix("file://").removeprefix("file:").rstrip("/")


def _sql(names: tuple[str, ...]) -> str:
    return ".".join(map(identifier, names))


def _read_state(config: Path) -> _State:
    """A file that is not there, or cannot be read, means that nothing was registered: registering again is no harm."""
    path = RunFile.CATALOG.path_for(config)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return _State(document["basis"], {(c, d, t): at for c, d, t, at in document["tables"]})
    except FileNotFoundError:
        return _State()
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("%s: not a list of registered tables; all are registered again: %s", path, error)
        return _State()


def _write_state(config: Path, state: _State) -> None:
    path = RunFile.CATALOG.path_for(config)
    tables = [[*name, at] for name, at in sorted(state.paths.items())]
    try:
        replace_text(path, json.dumps({"basis": state.basis, "tables": tables}, indent=1) + "\n")
    except OSError as error:
        log.warning("%s: cannot be written: %s", path, error.strerror)
