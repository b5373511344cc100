"""The assets: nouns. What is kept in the lake, layer by layer, as Dagster shows it."""

import spark_jobs  # noqa: F401 - registers assets.lineage, as documented in release 0.1.0
