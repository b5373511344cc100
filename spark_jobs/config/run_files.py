"""Files that runs write beside a pipeline.yaml, such as pipeline.tables.json.

Put here: their names. Not here: what is in each (the module that writes it).
"""

from enum import StrEnum
from pathlib import Path


class RunFile(StrEnum):
    """Each file by the word that its name has more than its configuration's."""

    TABLES = "tables"
    ENDPOINTS = "endpoints"
    FAILURES = "failures"
    RUNS = "runs"
    CATALOG = "catalog"
    ICEBERG = "iceberg"
    ICEBERG_CATALOG = "iceberg-catalog"

    def path_for(self, config: Path) -> Path:
        """The file of a pipeline.yaml."""
        return config.with_suffix(f".{self}.json")
