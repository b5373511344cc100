"""A primary, its replica, and a pipeline that may read either. Put here: the fixture and what it asks of both.

Not here: what a test does to them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.gtid_state import held_gtids
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import ConfigError
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.gtid import DomainGtids, MysqlGtids
from spark_jobs.pipeline.run import run_source
from tests.fix_pipeline import rows
from tests.services.servers import build_of

SOURCE = "shop"


def execute(server: MySQLServer, *statements: str) -> tuple[tuple[Any, ...], ...]:
    """The rows of the last one."""
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        rows: tuple[tuple[Any, ...], ...] = cursor.fetchall()
        return rows


@dataclass(frozen=True)
class Flavor:
    """How servers of a kind replicate by GTID, and are asked for the transactions that they have.

    await_all: takes a set in braces, and gives 0 once all of it is there.
    """

    server: str
    by_gtid: str
    executed: str
    await_all: str
    of: type[MysqlGtids] | type[DomainGtids]
    options: Mapping[str, object]


MYSQL = Flavor(
    "mysql-8.0",
    "MASTER_AUTO_POSITION=1, MASTER_SSL=1",
    "@@gtid_executed",
    "WAIT_FOR_EXECUTED_GTID_SET('{}', 60)",
    MysqlGtids,
    {},
)
MARIADB = Flavor(
    "mariadb-11.4",
    "MASTER_USE_GTID=slave_pos, MASTER_SSL=0",
    "@@gtid_binlog_pos",
    "MASTER_GTID_WAIT('{}', 60)",
    DomainGtids,
    {"log_slave_updates": "ON", "ssl": "OFF"},
)


@dataclass(frozen=True)
class Pair:
    """A primary and a replica that has its transactions by GTID, and a pipeline that may read either."""

    spark: SparkSession
    primary: MySQLServer
    replica: MySQLServer
    folder: Path
    flavor: Flavor = MYSQL

    def pipeline(self, *servers: MySQLServer, **keys: Any) -> Pipeline:
        listed = [
            {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
            for server in servers or (self.primary, self.replica)
        ]
        shared = {"user": "said by each", "connect_timeout": 2}
        path = self.folder / "pipeline.yaml"
        source = {"mysql": shared, "endpoints": listed, "start": "earliest"} | keys
        path.write_text(yaml.safe_dump({"lake": "./lake", "sources": {SOURCE: source}, "tables": ["shop.*"]}))
        return load(path)

    def run(self, pipeline: Pipeline) -> None:
        run_source(self.spark, pipeline, SOURCE)

    def follow(self, replica: MySQLServer, primary: MySQLServer) -> None:
        """Lets one server replicate the other."""
        execute(
            replica,
            f"CHANGE MASTER TO MASTER_HOST='{primary.host}', MASTER_PORT={primary.port}, MASTER_USER='{primary.user}', "
            f"MASTER_PASSWORD='{primary.password}', {self.flavor.by_gtid}",
            "START SLAVE",
        )

    def await_all(self, replica: MySQLServer, primary: MySQLServer) -> None:
        """Until a replica has what its primary has."""
        ((executed,),) = execute(primary, f"SELECT {self.flavor.executed}")
        ((late,),) = execute(replica, f"SELECT {self.flavor.await_all.format(executed)}")
        assert not late

    def head(self, pipeline: Pipeline) -> tuple[Head, Checkpoint]:
        head = lake_of(pipeline).bronze(SOURCE).head()
        assert head is not None
        assert head.checkpoint is not None
        return head, head.checkpoint

    def in_use(self, pipeline: Pipeline) -> list[str | None]:
        """The endpoints of all stretches."""
        return [stretch.endpoint for stretch in stretches(self.head(pipeline)[1])]

    def require_same(self, pipeline: Pipeline, server: MySQLServer) -> None:
        """Every table is the server's, and bronze has each of its transactions once."""
        lake = lake_of(pipeline)
        for table in ("orders", "notes"):
            assert rows(lake.downstream("shop", table)) == sorted(execute(server, f"SELECT * FROM shop.{table}")), table
        self.require_each_once(pipeline, server)

    def require_each_once(self, pipeline: Pipeline, server: MySQLServer) -> None:
        lake = lake_of(pipeline)
        head, checkpoint = self.head(pipeline)
        gtids = held_gtids(lake.bronze(SOURCE), head.version, stretches(checkpoint)[-1])
        assert gtids == self.flavor.of.parse(execute(server, f"SELECT {self.flavor.executed}")[0][0])
        if not isinstance(gtids, MysqlGtids):
            return
        slices = bronze.read_all(self.spark, lake.bronze(SOURCE), head.version)
        landed = slices.selectExpr("sum(transactions)").head()
        assert landed is not None
        assert landed[0] == sum(stop - start for intervals in gtids.intervals.values() for start, stop in intervals)


WRITTEN = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, state VARCHAR(10))",
    "CREATE TABLE shop.notes (id INT PRIMARY KEY, text VARCHAR(100))",
    *(f"INSERT INTO shop.orders VALUES ({n}, 'new')" for n in range(20)),
    "INSERT INTO shop.notes VALUES (1, 'one')",
    "FLUSH BINARY LOGS",
    "UPDATE shop.orders SET state = 'paid' WHERE id < 10",
)


@pytest.fixture
def pair(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Of MySQL, or of the flavor that a test names by ``parametrize("pair", FLAVORS, indirect=True)``."""
    flavor: Flavor = getattr(request, "param", MYSQL)
    try:
        build = build_of(flavor.server)
    except ConfigError as error:
        pytest.skip(str(error))
    with (
        MySQLServer(tmp_path / "primary", flavor.options, build) as primary,
        MySQLServer(tmp_path / "replica", _replicating(flavor), build) as replica,
    ):
        server_pair = Pair(spark, primary, replica, tmp_path, flavor)
        server_pair.follow(replica, primary)
        execute(primary, *WRITTEN)
        yield server_pair


FLAVORS = [pytest.param(flavor, id=flavor.server) for flavor in (MYSQL, MARIADB)]


def _replicating(flavor: Flavor) -> dict[str, object]:
    appliers = {"slave_parallel_type": "LOGICAL_CLOCK"} if flavor is MYSQL else {}
    return {**flavor.options, **appliers, "slave_parallel_workers": 4, "server_id": 2, "log_bin": "other-bin"}
