"""The tables that a pipeline has seen so far: a small file beside pipeline.yaml.

Put here: reading and writing it. Not here: anything that the lake knows better.
It exists so that Dagster's graph can be built while the lake is not reachable; runs add to it, nothing depends on it.
"""

import json
import logging
from pathlib import Path

from spark_jobs.errors import ConfigError
from spark_jobs.text.replaced import replace_text

log = logging.getLogger(__name__)

SeenTable = tuple[str, str, str]
"""Source, schema, table."""


def read(path: Path) -> list[SeenTable]:
    """The tables in order of source and name; none where no run has seen any. Raises ConfigError."""
    if not path.exists():
        return []
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["tables"]
        return sorted((entry["source"], entry["schema"], entry["table"]) for entry in listed)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not a list of tables; delete it, the next run writes it again") from error


def add(path: Path, tables: set[SeenTable]) -> set[SeenTable]:
    """Adds tables; returns those that are new. Where the file cannot be written, a later run adds them."""
    existing = set(read(path))
    new = tables - existing
    if new:
        listed = [
            {"source": source, "schema": schema, "table": table} for source, schema, table in sorted(existing | new)
        ]
        try:
            replace_text(path, json.dumps({"tables": listed}, indent=1) + "\n")
        except OSError as error:
            log.warning("%s: cannot be written: %s", path, error.strerror)
    return new
