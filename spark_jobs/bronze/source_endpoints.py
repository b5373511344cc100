"""Endpoints of a source, opened with what bronze holds of its log.

Put here: opening them. Not here: which of them is read (source/endpoints.py), or what an extraction does with it
(extract.py).
"""

from spark_jobs.bronze.commit import stretches
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.source.endpoints import Endpoints, open_endpoints


def endpoints_of(pipeline: Pipeline, name: str) -> Endpoints:
    """A source's endpoints, with the one that bronze's end comes from. Raises LakeError."""
    head = lake_of(pipeline).bronze(name).head()
    last = stretches(head.checkpoint)[-1] if head and head.checkpoint else None
    settings = pipeline.sources[name]
    return open_endpoints(name, settings, pipeline.endpoints_file, last.endpoint if last else None)
