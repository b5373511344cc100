"""Resources of a run's steps: its Spark session, and the result of the step before.

Put here: resources and IO managers. Not here: how a session is configured (spark_jobs/runtime/spark_session.py).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from spark_jobs.config.loader import load
from spark_jobs.config.model import Spark

if TYPE_CHECKING:  # half a second that a run with nothing to do need not spend
    from pyspark.sql import SparkSession


class SparkSessions(dg.ConfigurableResource[Any]):
    """The Spark session of a run as a Dagster resource; ``session()`` starts it on the first call.

    It takes its settings from the ``spark:`` section of the configuration when it starts, so that none of them, which
    may hold an object store's keys, shows in the UI or in a run's configuration.
    """

    configuration: str = Field(description="Path of the pipeline.yaml whose spark: section says where Spark runs")

    def session(self) -> "SparkSession":
        """The Spark session of the pipeline's file. Raises ConfigError if Spark cannot start."""
        from spark_jobs.runtime.spark_session import spark_session

        return spark_session(load(Path(self.configuration)).spark)


class GivenSparkSessions:
    """The same for a pipeline that was made in Python: its settings are held here, and shown nowhere."""

    def __init__(self, settings: Spark) -> None:
        self._settings = settings

    def session(self) -> "SparkSession":
        """The Spark session of the given settings. Raises ConfigError if Spark cannot start."""
        from spark_jobs.runtime.spark_session import spark_session

        return spark_session(self._settings)


class InMemoryIOManager(dg.IOManager):
    """Carries a step's outcome to the next one through memory.

    A run that begins in the middle, as one that is executed again from its failure, has none: None then, and the
    step reads from the lake what it needs.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], Any] = {}

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        self._values[context.run_id, context.step_key, context.name] = obj

    def load_input(self, context: dg.InputContext) -> Any:
        output = context.upstream_output
        return self._values.get((context.step_context.run_id, output.step_key, output.name)) if output else None


HANDED_ON_IO = InMemoryIOManager()
"""One for all pipelines of a process, so that definitions of several can be merged."""
