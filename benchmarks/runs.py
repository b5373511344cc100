"""A run of a source as benchmarks do it: through all layers, and none that stops.

Put here: running. Not here: what is read, and which figures are printed.
"""

from pyspark.sql import SparkSession

from benchmarks.usage import Usage, metered
from spark_jobs.config.model import Pipeline
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import run_source


def run(spark: SparkSession, pipeline: Pipeline, source: str) -> Outcome:
    """Raises SystemExit where the source or one of its tables stops."""
    _, outcome = run_source(spark, pipeline, source)
    if outcome.stopped:
        raise SystemExit(str(outcome.stopped))
    return outcome


def usage_of(spark: SparkSession, pipeline: Pipeline, source: str) -> Usage:
    """Usage of such a run."""
    with metered() as usage:
        run(spark, pipeline, source)
    return usage
