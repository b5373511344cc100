"""A copy of a test's tables in a second schema of the server, which a delivery writes.

Put here: the delivery's configuration, running it, and comparing rows. Not here: what a test does to it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pymysql
from pymysql.cursors import Cursor

from spark_jobs.config.model import Pipeline
from spark_jobs.delivery.deliver import DeliveryOutcome, deliver
from spark_jobs.pipeline.run import run_source
from tests.fix_pipeline import SOURCE, Shop


class Target(Protocol):
    """A server that is delivered to."""

    host: str
    port: int

    def connect(self) -> "pymysql.Connection[Cursor]":
        """A connection as root, autocommitting."""


class Copy:
    """A second schema of the server, or of another one, which a delivery writes the shop's tables to."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.target: Target | None = None
        """The other one; ``writable`` sets it."""
        self.schema = f"{shop.database.name}_copy"

    @property
    def server(self) -> Target:
        """The server that is delivered to."""
        return self.target or self.shop.database.server

    @contextmanager
    def writable(self, target: Target) -> Iterator[None]:
        """Another server, with a user who may write there, and afterwards without what was delivered to it."""
        self.target = target
        self.execute("CREATE USER IF NOT EXISTS writer@'%' IDENTIFIED BY 'writes'", "GRANT ALL ON *.* TO writer@'%'")
        yield
        self.execute(f"DROP DATABASE IF EXISTS `{self.schema}`", "DROP DATABASE IF EXISTS stratalog")

    def pipeline(self, *, live: bool = False, port: int | None = None, **keys: Any) -> Pipeline:
        server = self.server
        login: dict[str, Any] = {"host": server.host, "port": server.port, "user": "writer", "password": "writes"}
        if port:  # a proxy's, which reads what it passes on
            login |= {"port": port, "tls": {"enabled": False}}
        routes = [{"from": f"{self.shop.database.name}.*", "to": f"{self.schema}.{{1}}"}]
        routes = keys.pop("routes", routes)
        names = ("columns", "filters", "row_filters", "downstream", "retention", "on_drop", "on_cascade")
        rules = {name: keys.pop(name) for name in names if name in keys}
        return self.shop.pipeline(live=live, routes=routes, deliveries={"copy": {"mysql": login} | keys}, **rules)

    def run(self, pipeline: Pipeline) -> DeliveryOutcome:
        run_source(self.shop.spark, pipeline, SOURCE)
        return deliver(pipeline, "copy")

    def execute(self, *statements: str) -> tuple[tuple[Any, ...], ...]:
        """Runs statements at the target, as root. Returns the rows of the last one."""
        with self.server.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return tuple(cursor.fetchall())

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted(self.execute(f"SELECT {columns} FROM `{self.schema}`.`{table}`"), key=repr)

    def source_rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted(self.shop.database.execute(f"SELECT {columns} FROM `{table}`"), key=repr)

    def require_same(self, *tables: str) -> None:
        for table in tables:
            assert self.rows(table) == self.source_rows(table), table

    def progress(self) -> list[dict[str, Any]]:
        names = "table_name, lake_version, position, exit_version, parts, fence, rows_written"
        rows = self.execute(f"SELECT {names} FROM stratalog.checkpoint ORDER BY table_name")
        return [dict(zip(names.split(", "), row, strict=True)) for row in rows]
