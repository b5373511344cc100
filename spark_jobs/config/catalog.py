"""The key ``catalog:``: names of lake tables in a catalog of Spark.

Put here: the keys, and what a table is called. Not here: registering (operations/catalog.py).
"""

import re
from typing import Annotated

from pydantic import AfterValidator

from spark_jobs.config.servers import Model

_FIELD = re.compile(r"\{([^{}]*)\}|[{}]")


def database_text(allowed: tuple[str, ...], text: str) -> str:
    """A database's name with fields. Raises ValueError."""
    if not text.strip():
        raise ValueError("must not be empty")
    wrong = next((match[0] for match in _FIELD.finditer(text) if match[1] not in allowed), None)
    if wrong is not None:
        listed = " and ".join(f"{{{name}}}" for name in allowed)
        raise ValueError(f"{wrong} stands for nothing; there is {listed}")
    return text


def _downstream_text(text: str) -> str:
    return database_text(("schema",), text)


def _silver_text(text: str) -> str:
    if "{source}" not in text or "{schema}" not in text:
        raise ValueError("needs {source} and {schema}: tables of two schemas or sources would have one name")
    return database_text(("source", "schema"), text)


class Catalog(Model):
    """A catalog of Spark in which a run registers the lake's tables: Hive's metastore, Glue, Unity Catalog."""

    name: str = "spark_catalog"
    """The catalog, as Spark's own settings (``spark.conf``) define it."""
    downstream: Annotated[str, AfterValidator(_downstream_text)] = "{schema}"
    """The database of downstream tables; ``{schema}`` is their schema in the lake."""
    silver: Annotated[str, AfterValidator(_silver_text)] | None = None
    """The database of silver tables, as ``{source}_{schema}_silver``; without it they are not registered."""

    def downstream_database(self, schema: str) -> str:
        """Database of the downstream tables of a schema."""
        return self.downstream.replace("{schema}", schema)

    def silver_database(self, source: str, schema: str) -> str | None:
        """Database of silver tables; None where they are not registered."""
        if self.silver is None:
            return None
        parts = {"{source}": source, "{schema}": schema}
        return re.sub(r"\{(?:source|schema)\}", lambda match: parts[match[0]], self.silver)
