"""Pipelines over random schemas of foreign keys, with every server: tables are the server's after each run.

Between runs there are random transactions and statements about tables. Some runs end before they have merged what they
read, some are killed at a commit, and some parts of the log are read again. Every choice is a seed's.

Put here: what happens, and counting it. Not here: schemas and transactions (cascading.py), what is derived
(spark_jobs/cascades/).
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.cascades.logged_rows import logged_slices
from spark_jobs.checks.verify import verify_source
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.cascades.unlogged_changes import names_by_history
from spark_jobs.pipeline.run import compact_source, extract_source
from tests.fix_mysql import Database, database_of
from tests.fix_pipeline import SOURCE, Shop, killed_at, require_same
from tests.fix_servers import OPTIONS, telling
from tests.services.servers import build_of
from tests.soaks.cascading import FEW, RandomTables
from tests.soaks.cascading_statements import RandomStatements

LARGE = 2_000
"""Numbers that keys are of, in tables of some thousand rows."""
_BRIEF = {"spark.driver.memory": "1g"}
_KILLS = [(layer, moment) for layer in ("bronze", "cascades", "silver", "downstream") for moment in ("before", "after")]


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A server, with options of its own, and the collations of keys of text that are tried with it."""

    server: str
    collations: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    logs_cascades: bool = False


KINDS: Mapping[str, ServerKind] = {
    "MySQL 5.7": ServerKind("mysql-5.7", ("utf8mb4_unicode_ci", "latin1_general_ci")),
    "MySQL 8.0": ServerKind(
        "mysql-8.0", ("utf8mb4_0900_ai_ci", "latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_bin")
    ),
    "MySQL 9.7": ServerKind("mysql-9.7", ("utf8mb4_0900_ai_ci",), logs_cascades=True),
    "MySQL 9.7, innodb_native_foreign_keys": ServerKind(
        "mysql-9.7", ("utf8mb4_0900_ai_ci", "utf8mb4_general_ci"), {"innodb_native_foreign_keys": "ON"}
    ),
    "MariaDB 10.11": ServerKind("mariadb-10.11", ("latin1_swedish_ci", "utf8mb4_general_ci")),
    "MariaDB 11.4": ServerKind(
        "mariadb-11.4", ("utf8mb4_uca1400_ai_ci", "utf8mb4_general_ci", "latin1_swedish_ci", "utf8mb4_bin")
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """What is played. kind: of KINDS. size: FEW or LARGE. kills: whether some runs are processes that die."""

    kind: str
    seed: int
    runs: int
    size: int = FEW
    kills: bool = False

    @property
    def collation(self) -> str:
        collations = KINDS[self.kind].collations
        return collations[self.seed % len(collations)]

    def __str__(self) -> str:
        return f"{self.kind}, {self.collation}, seed {self.seed}"


class KindsRunning:
    """The servers of a campaign, each started when it is first asked for. Raises ConfigError where one is not here."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack = folder, ExitStack()
        self._running: dict[str, MySQLServer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def get(self, name: str) -> MySQLServer:
        if name not in self._running:
            kind = KINDS[name]
            folder = self._folder / f"server-{len(self._running)}"
            server = MySQLServer(folder, {**OPTIONS, **kind.options}, build_of(kind.server))
            self._running[name] = self._stack.enter_context(server)
        return self._running[name]


def run(shop: Shop, pipeline: Pipeline, tables: Collection[str]) -> int:
    """A run, after which the tables are the server's; how many rows were compared. Raises AssertionError."""
    _, outcome = shop.run(pipeline)
    assert not outcome.stopped, outcome.stopped
    return sum(require_same(shop, pipeline, table) for table in tables)


def play(case: Case, spark: SparkSession, server: MySQLServer, folder: Path) -> Counter[str]:
    """How often each thing happened. Raises AssertionError where a table is not the server's.

    folder: of the lake; it is new. Tasks are to run in this process (engine_tasks.py).
    """
    is_5_7 = KINDS[case.kind].server == "mysql-5.7"
    with telling(server, None if is_5_7 else "FULL"), database_of(server) as database:
        return _Player(case, spark, database, folder).play()


class _Player:
    """One pipeline, from its first run to the last."""

    def __init__(self, case: Case, spark: SparkSession, database: Database, folder: Path) -> None:
        for statement in ("SET NAMES utf8mb4", "FLUSH BINARY LOGS"):
            database.execute(statement)
        self._case, self._chance = case, Random(str(case))
        text = f"VARCHAR(8) CHARACTER SET {case.collation.partition('_')[0]} COLLATE {case.collation}"
        self._tables = RandomTables(database, self._chance, text, self._chance.randrange(2, 7), case.size)
        self._statements = RandomStatements(self._tables)
        self._shop = Shop(spark, database, folder, Position(*self._tables.after().end))
        self._parents: set[TableName] = set()
        self._counted = Counter[str]()
        self._is_live = KINDS[case.kind].server == "mysql-5.7" or self._chance.random() < 0.5
        self._ends = [self._shop.start]

    def play(self) -> Counter[str]:
        # The process of a run that is killed reads it.
        os.environ["SHOP_PASSWORD"] = self._shop.database.server.password
        self._tables.create()
        spark = {"master": "local[1]", "conf": _BRIEF}
        pipeline = self._shop.pipeline(on_cascade="apply", live=self._is_live, spark=spark)
        for number in range(self._case.runs):
            self._between_runs(number)
            if self._has_run(pipeline):
                self._replay(pipeline)
        self._run(pipeline)
        if self._is_live:
            verdicts = [*verify_source(self._shop.spark, pipeline, SOURCE)]
            assert all(verdict.is_right for verdict in verdicts), verdicts
            self._counted["tables verified"] += len(verdicts)
        self._count_changes(pipeline)
        return self._counted

    def _between_runs(self, number: int) -> None:
        """Transactions, and perhaps a statement about a table."""
        self._statements.restore()
        limit = 40 if self._tables.is_large else 20
        for _ in range(self._chance.randrange(1, limit) if number else 0):
            self._tables.transaction()
        if self._chance.random() < 0.4:
            self._counted["statements about tables"] += 1
            self._counted[self._statements.execute(number)] += 1
            # Transactions of the same run, where no column has another name.
            for _ in range(0 if self._statements.renamed else self._chance.randrange(4)):
                self._tables.transaction()
        self._parents |= {known.key.parent for known in self._tables.references if known.key.is_cascading}

    def _has_run(self, pipeline: Pipeline) -> bool:
        """A run; False if it ended before it has merged, or compacted, what it has."""
        if self._case.kills and self._chance.random() < 0.15:
            is_killed = killed_at(self._shop.folder / "pipeline.yaml", *self._chance.choice(_KILLS))
            self._counted["runs that were killed"] += is_killed
            return False
        extract_source(self._shop.spark, pipeline, SOURCE)
        if self._chance.random() < 0.2:
            compact_source(self._shop.spark, pipeline, SOURCE)
        if self._chance.random() < 0.2:
            self._counted["runs that ended early"] += 1
            return False
        self._run(pipeline)
        self._ends.append(Position(*self._tables.after().end))
        return True

    def _run(self, pipeline: Pipeline) -> None:
        self._counted["rows compared"] += run(self._shop, pipeline, self._tables.columns)
        self._counted["runs"] += 1

    def _replay(self, pipeline: Pipeline) -> None:
        """At times a part of the log again, whichever came before it."""
        if len(self._ends) < 3 or self._chance.random() > 0.2:
            return
        begin, end = sorted(self._chance.sample(range(len(self._ends)), 2))
        within = Range(self._ends[begin], self._ends[end])
        replayed = backfill_source(self._shop.spark, pipeline, SOURCE, within, lambda _: True)
        assert not replayed.stopped, replayed.stopped
        self._counted["replays"] += 1
        self._run(pipeline)

    def _count_changes(self, pipeline: Pipeline) -> None:
        """Updates and deletes of rows of parents in the log, and what was derived."""
        lake = lake_of(pipeline)
        snapshot = BronzeSnapshot.find(lake, SOURCE)
        assert snapshot
        index = read_index(snapshot.table, snapshot.version, Range(self._shop.start, snapshot.end))
        parts = logged_slices(index, self._parents, names_by_history(lake, SOURCE), self._shop.start)
        self._counted["parents"] += sum(
            row.change.table in self._parents and row.change.before is not None for part in parts for row in part.rows
        )
        if lake.cascades(SOURCE).head():
            stored = lake.cascades(SOURCE).rows(columns=["changes"])
            self._counted["derived"] += sum(row["changes"] for row in stored)
