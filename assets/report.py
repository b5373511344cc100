"""The HTML page of a source: written again by runs with news, and linked to from Dagster.

Put here: when it is written, and the link. Not here: what is on it (spark_jobs/operations/observation/report.py).

Dagster's pages open links to the web alone, not to files: without ``reports.url`` the link is a path, to be copied.
"""

import time

import dagster as dg

from assets.checkpoint import Metadata
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import StratalogError

REPORT = "source/report"


def link(pipeline: Pipeline, source: str) -> Metadata:
    """Address of the page; empty where none is wanted."""
    to, url = pipeline.reports.to, pipeline.reports.url
    if to is None:
        return {}
    name = f"{source}.html"
    location = (
        dg.MetadataValue.path(str(to / name)) if url is None else dg.MetadataValue.url(f"{url.rstrip('/')}/{name}")
    )
    return {REPORT: location}


def refresh(context: dg.OpExecutionContext, pipeline: Pipeline, source: str) -> Metadata:
    """Write the page again; the link to it. Where it cannot be, the run's log says why, and the run continues."""
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.observation.report import write

    if pipeline.reports.to is None:
        return {}
    began = time.monotonic()
    try:
        write(pipeline, lake_of(pipeline), source, pipeline.reports.to)
    except StratalogError as error:
        context.log.warning("%s: no report: %s", source, error)
        return {}
    context.log.info("%s: report written in %.1f s", source, time.monotonic() - began)
    return link(pipeline, source)
