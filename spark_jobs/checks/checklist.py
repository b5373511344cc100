"""All checks that a configuration needs.

Put here: which sections there are, in which order. Not here: a check itself (server.py, files.py, lake.py, tables.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_jobs.binlog import TableDefinition
from spark_jobs.checks import Check, Section, failed, ok
from spark_jobs.checks.deliveries import check_target
from spark_jobs.checks.files import check_files
from spark_jobs.checks.iceberg import check_iceberg, check_iceberg_catalog
from spark_jobs.checks.lake import check_lake
from spark_jobs.checks.server import check_server
from spark_jobs.checks.tables import TablesView, check_tables
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Name
from spark_jobs.downstream import publication
from spark_jobs.errors import StratalogError
from spark_jobs.lake.layout import lake_of, no_folder
from spark_jobs.operations.observation.status import require_readable
from spark_jobs.source.files import Files
from spark_jobs.source.information_schema import on_server
from spark_jobs.source.open import open_sources
from spark_jobs.source.protocol import Source
from spark_jobs.source.server import Server
from spark_jobs.storage.store_access import register_store
from spark_jobs.text.progress import doing


@dataclass
class _Tables:
    """Results of the sections of the sources for that of the tables."""

    definitions: dict[str, list[TableDefinition]] = field(default_factory=dict)
    in_lake: dict[str, set[Name]] = field(default_factory=dict)


def run_checklist(pipeline: Pipeline) -> Iterator[Section]:
    """Run all checks and yield each section as soon as it is done: sources and endpoints, the lake, the tables."""
    tables = _Tables()
    register_store(pipeline.spark.lake_store)
    for name in pipeline.sources:
        yield from _source_sections(pipeline, name, tables)
    with doing("checking the lake"):
        checks = (*check_lake(pipeline.lake), *check_iceberg(pipeline), *check_iceberg_catalog(pipeline))
    yield Section("lake", checks)
    for name in pipeline.deliveries:
        with doing(f"checking deliveries.{name}"):
            checks = tuple(check_target(pipeline, name))
        yield Section(f"deliveries.{name}", checks)
    is_complete = len(tables.definitions) == len(pipeline.sources)
    view = TablesView(pipeline, tables.definitions, tables.in_lake, is_complete)
    if view.names or is_complete:
        yield Section("tables", tuple(check_tables(view)))


def _source_sections(pipeline: Pipeline, name: str, tables: _Tables) -> Iterator[Section]:
    sources = open_sources(name, pipeline.sources[name])
    if not sources[1:]:
        checks = list(_endpoint(pipeline, sources[0]))
        yield Section(f"sources.{name}", (*checks, *_source_checks(pipeline, name, sources, checks, tables)))
        return
    gathered: list[Check] = []
    for source in sources:
        checks = list(_endpoint(pipeline, source))
        gathered += checks
        yield Section(f"sources.{name} ({source.endpoint})", tuple(checks))
    source_checks = tuple(_source_checks(pipeline, name, sources, gathered, tables))
    if source_checks:
        yield Section(f"sources.{name}", source_checks)


def _endpoint(pipeline: Pipeline, source: Source) -> Iterator[Check]:
    endpoint = f" ({source.endpoint})" if source.endpoint else ""
    with doing(f"checking {source.name}{endpoint}"):
        if isinstance(source, Server):
            yield from check_server(pipeline, source)
            return
        assert isinstance(source, Files)
        yield from check_files(source)


def _source_checks(
    pipeline: Pipeline, name: str, sources: tuple[Source, ...], before: list[Check], tables: _Tables
) -> Iterator[Check]:
    """Checks of a source whichever endpoint answers; none where there are problems already."""
    if any(check.status == "problem" for check in before) or no_folder(pipeline.lake):
        return
    try:
        tables.in_lake[name] = {entry.name for entry in publication.read(lake_of(pipeline), name)}
        reached = require_readable(pipeline, lake_of(pipeline), name)
        yield ok("start position", reached or f"{pipeline.sources[name].start}: found, bronze is empty")
    except StratalogError as error:
        yield failed("start position", error, name)
    if isinstance(sources[0], Server):
        try:
            tables.definitions[name] = list(on_server(sources[0]).values())
        except StratalogError as error:
            yield failed("table definitions", error, name)
