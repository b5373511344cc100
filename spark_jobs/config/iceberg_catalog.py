"""The key ``iceberg_catalog:``: the catalog in which Iceberg tables of the lake are registered.

Put here: the keys, and what a table is called. Not here: registering (pipeline/iceberg_catalog.py).
"""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from spark_jobs.config.catalog import database_text
from spark_jobs.config.servers import Model

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_SECRET = re.compile(r"token|credential|password|secret|account-key|sas|connection-string|access-key")
"""Words in the names of properties whose values are secrets, or half of one."""
_PUBLIC = ("oauth2-server-uri", "credential-vending")
TYPES = ("rest", "glue", "hive")


def _name_text(text: str) -> str:
    """The name, which is a part of the names of variables. Raises ValueError."""
    if not _NAME.fullmatch(text):
        raise ValueError("is made of small letters, digits and -, as in PYICEBERG_CATALOG__NAME__URI")
    return text


def _properties(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Properties without secrets. Raises ValueError."""
    for key in properties:
        if _SECRET.search(key.lower()) and key not in _PUBLIC:
            raise ValueError(f"{key} is for the environment: PYICEBERG_CATALOG__NAME__{variable_text(key)}")
    kind = properties.get("type")
    if kind is not None and kind not in TYPES:
        raise ValueError(f"type: {kind} is none of {', '.join(TYPES)}")
    return properties


def variable_text(key: str) -> str:
    """A property as the name of its variable ends: ``s3.access-key-id`` is ``S3__ACCESS_KEY_ID``."""
    return key.replace(".", "__").replace("-", "_").upper()


def _namespace_text(text: str) -> str:
    return database_text(("schema",), text)


class IcebergCatalog(Model):
    """An Iceberg catalog in which a run registers the newest metadata of each Iceberg table."""

    name: Annotated[str, AfterValidator(_name_text)] = "default"
    """The catalog, as pyiceberg's configuration names it: ``PYICEBERG_CATALOG__<NAME>__<PROPERTY>`` in the environment,
    or ``.pyiceberg.yaml``."""
    namespace: Annotated[str, AfterValidator(_namespace_text)] = "{schema}"
    """The namespace, or Glue's or Hive's database; ``{schema}`` is the table's schema in the lake. Levels are separated
    by ``.``."""
    properties: Annotated[dict[str, str], AfterValidator(_properties)] = Field({})
    """Properties of the catalog, as pyiceberg and Spark call them: ``type`` (rest, glue or hive), ``uri``,
    ``warehouse``, ``glue.region``, … No secrets: these come from the environment."""

    def namespace_of(self, schema: str) -> str:
        """Namespace of the tables of a schema."""
        return self.namespace.replace("{schema}", schema)
