"""The keys of ``deliveries:`` in pipeline.yaml: downstream tables that are written into another database.

Put here: the keys and their texts for the reference. Not here: what a delivery does (spark_jobs/delivery).
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from spark_jobs.config.servers import Model, MySQL
from spark_jobs.config.table_patterns import Scope
from spark_jobs.config.values import pattern_text


class Delivery(Model):
    """One of ``deliveries:``: downstream tables that ``run`` and ``deliver`` write into another database."""

    mysql: MySQL
    """The server that the rows are written to."""
    tables: tuple[Annotated[str, AfterValidator(pattern_text)], ...] = ()
    """Patterns of downstream tables, ``schema.table``, in order, the last match wins; without any, all. A table is
    written to the table of its name."""
    apply: Literal["net", "ordered"] = "net"
    """``net``: the net change of each key and window, deletes first. ``ordered``: every change of every transaction;
    transactions stay whole, and those that conflict keep their order."""
    safe_mode: Literal["auto", "on", "off"] = "auto"
    """Idempotency of the statements: INSERT and UPDATE as upserts. ``auto``: those of a window that is written
    again as a whole. ``on``: all. ``off``: none."""
    ddl: Literal["apply", "stop", "ignore"] = "apply"
    """Treatment of a change of columns. ``apply``: the target is altered, and a missing table created. ``stop``: the
    table stops, and the message has the statements. ``ignore``: columns that the target lacks are not written."""
    workers: int = Field(4, ge=1, le=64)
    """Connections that write at the same time."""
    batch_rows: int = Field(1000, ge=1, le=100_000)
    """Rows of one statement at most. A transaction has ten statements at most."""

    @property
    def scope(self) -> Scope:
        return Scope.parse(self.tables)
