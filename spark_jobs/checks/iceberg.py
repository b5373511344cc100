"""Checks of downstream tables that are to be Iceberg tables too, and of their catalog.

Put here: asking each table and the catalog. Not here: what cannot be shown (iceberg/schema.py).
"""

from collections.abc import Iterator

from spark_jobs.checks import Check, failed, ok, problem
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Target
from spark_jobs.errors import StratalogError
from spark_jobs.iceberg.schema import why_not
from spark_jobs.lake.layout import lake_of, no_folder
from spark_jobs.pipeline.iceberg_catalog import probe
from spark_jobs.text.counts import counted

_NAME = "iceberg"
_CATALOG = "iceberg catalog"


def check_iceberg(pipeline: Pipeline) -> Iterator[Check]:
    """A result for each table that cannot be shown, or one for all; none where no table is to be."""
    if not pipeline.may_have_iceberg or no_folder(pipeline.lake):
        return
    # A table is looked at as it is now: what a run may still change is not known.
    try:
        targets = [
            target
            for source in pipeline.sources
            for entry in publication.read(lake_of(pipeline), source)
            for target in entry.into
            if pipeline.has_iceberg(*target.name)
        ]
        problems = [item for item in map(_problem, {target.path: target for target in targets}.values()) if item]
    except StratalogError as error:
        yield failed(_NAME, error)
        return
    yield from problems
    if not problems:
        yield ok(_NAME, f"{counted(len(targets), 'table')} in the lake can be shown")


def check_iceberg_catalog(pipeline: Pipeline) -> Iterator[Check]:
    """Check that the catalog answers, if tables are registered in one."""
    settings = pipeline.iceberg_catalog
    if settings is None:
        return
    try:
        probe(settings)
    except StratalogError as error:
        yield failed(_CATALOG, error)
        return
    yield ok(_CATALOG, f"{settings.name} answers")


def _problem(target: Target) -> Check | None:
    snapshot = snapshot_of(target.path)
    reason = why_not(snapshot.metadata) if snapshot else None
    if reason is None:
        return None
    value, _, remedy = reason.partition("; ")
    text = f"{'.'.join(target.name)} cannot be shown: {value}"
    return problem(_NAME, text, remedy or "set iceberg: false for it under downstream:")
