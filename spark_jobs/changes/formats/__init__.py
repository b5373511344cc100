"""Formats of row changes: the project's own, and those of Debezium, canal and Maxwell.

Put here: formats by name. Not here: which changes there are (changes/feed.py).
"""

from spark_jobs.changes.formats.base import ChangeLine, Format, SliceContext, StatementEntry
from spark_jobs.changes.formats.canal import CanalFormat
from spark_jobs.changes.formats.debezium import DebeziumFormat
from spark_jobs.changes.formats.maxwell import MaxwellFormat
from spark_jobs.changes.formats.stratalog import StratalogFormat

FORMATS: dict[str, type[Format]] = {
    "stratalog": StratalogFormat,
    "debezium": DebeziumFormat,
    "canal-json": CanalFormat,
    "maxwell": MaxwellFormat,
}
"""Formats by the name that ``--format`` takes."""

__all__ = ["FORMATS", "ChangeLine", "Format", "SliceContext", "StatementEntry", "StratalogFormat"]
