"""Record of what a pipeline has seen of its sources: their tables, and which server wrote their logs.

Put here: reading and writing the small file beside pipeline.yaml. Not here: anything that the lake knows better.
It exists so that Dagster's graph can be built while the lake is not reachable; runs add to it, nothing depends on it.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_jobs.errors import ConfigError
from spark_jobs.text.replaced import replace_text

log = logging.getLogger(__name__)

SeenTable = tuple[str, str, str]
"""Source, schema, table."""


def read(path: Path) -> list[SeenTable]:
    """The tables in order of source and name; none where no run has seen any. Raises ConfigError."""
    return _read_known(path)[0]


def servers(path: Path) -> dict[str, str]:
    """Kind of server that wrote the log of each source that a run has read: ``mysql`` or ``mariadb``.

    Raises ConfigError.
    """
    return _read_known(path)[1]


def add(path: Path, tables: set[SeenTable], servers: Mapping[str, str] | None = None) -> set[SeenTable]:
    """Add tables and servers; return the tables that are new. Where the file cannot be written, a later run does."""
    existing, known_servers = _read_known(path)
    new, servers_then = tables - set(existing), known_servers | dict(servers or {})
    if new or servers_then != known_servers:
        listed = [
            {"source": source, "schema": schema, "table": table} for source, schema, table in sorted({*existing, *new})
        ]
        content: dict[str, Any] = {"tables": listed} | ({"servers": servers_then} if servers_then else {})
        try:
            replace_text(path, json.dumps(content, indent=1) + "\n")
        except OSError as error:
            log.warning("%s: cannot be written: %s", path, error.strerror)
    return new


def _read_known(path: Path) -> tuple[list[SeenTable], dict[str, str]]:
    if not path.exists():
        return [], {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        tables = sorted((entry["source"], entry["schema"], entry["table"]) for entry in content["tables"])
        return tables, {str(source): str(kind) for source, kind in content.get("servers", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: not a list of tables; delete it, the next run writes it again") from error
