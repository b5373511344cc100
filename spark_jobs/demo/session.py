"""The demo's Spark session.

Put here: what a session that lives for a minute does otherwise. Not here: what all sessions have (session.py above).
"""

from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.runtime.spark_session import spark_session

_BRIEF = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseParallelGC"
"""Options of the JVM: compiling once and lightly; compiling hot code again takes more of a minute than it gives back.

That compiler alone reserves 48 MB for code by itself; Spark fills them within a minute, and is then interpreted."""


def brief_session(pipeline: Pipeline) -> SparkSession:
    """The session of a pipeline, on a JVM that is quick to begin and not the quickest later. Raises ConfigError."""
    conf = {"spark.driver.defaultJavaOptions": _BRIEF} | pipeline.spark.conf
    return spark_session(pipeline.spark.model_copy(update={"conf": conf}))
