"""Several source tables in one downstream table: what a UNION ALL on the server says is what it holds."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import verify_source
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream.commit import DownstreamCommit, PartEntry
from spark_jobs.downstream.publication import consistent, read
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.pipeline.backfill.request import DOWNSTREAM, BackfillRequest
from spark_jobs.pipeline.backfill.run import backfill
from spark_jobs.pipeline.outcome import Outcome
from tests.fix_pipeline import SOURCE, Shop

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

CREATE = "CREATE TABLE {} (id INT PRIMARY KEY, name VARCHAR(20), total DECIMAL(8,2))"
EXTRA = ("_position", "_committed_at", "_raw")


@dataclass(frozen=True, slots=True)
class Shards:
    """Four tables of two schemas that are routed to one."""

    shop: Shop

    @property
    def names(self) -> list[str]:
        """Each with its schema."""
        return [f"{self.shop.database.name}{schema}.orders_{nth}" for schema in ("", "_b") for nth in (1, 2)]

    @property
    def pipeline(self) -> Pipeline:
        base = self.shop.database.name
        return self.shop.pipeline(
            live=True,
            tables=[f"{base}.*", f"{base}_b.*"],
            routes=[{"from": f"{base}*.orders_*", "to": "all.orders"}],
        )

    @property
    def merged(self) -> Table:
        return lake_of(self.pipeline).downstream("all", "orders")

    def execute(self, *statements: str) -> None:
        """The statements with {0} to {3} for the tables."""
        self.shop.execute(*(statement.format(*self.names) for statement in statements))

    def run(self) -> Outcome:
        return self.shop.run(self.pipeline)[1]

    def require_same(self, *columns: str, without: tuple[str, ...] = ()) -> None:
        """The rows are the tables' own. without: what tables have not, as ``name.column``."""
        selects = []
        for name in self.names:
            schema, table = name.split(".")
            cells = ["NULL" if f"{name}.{column}" in without else f"`{column}`" for column in columns]
            selects.append(f"SELECT '{SOURCE}', '{schema}', '{table}', {', '.join(cells)} FROM {name}")
        truth = self.shop.database.execute(" UNION ALL ".join(selects))
        frame = self.merged.read(self.shop.spark)
        assert [column for column in frame.columns if column not in EXTRA] == [
            *columns,
            "_source",
            "_schema",
            "_table",
        ]
        rows = frame.select("_source", "_schema", "_table", *columns).collect()
        assert sorted(map(repr, map(tuple, rows))) == sorted(map(repr, truth))


@pytest.fixture
def shards(shop: Shop) -> Iterator[Shards]:
    shop.execute(f"CREATE DATABASE {shop.database.name}_b")
    yield Shards(shop)
    shop.execute(f"DROP DATABASE {shop.database.name}_b")


def parts(table: Table) -> dict[str, PartEntry]:
    commit = DownstreamCommit.of_head(table.head())
    assert commit
    return {f"{part.schema}.{part.table}": part for part in commit.parts or ()}


def require_contradictions_stop(shards: Shards) -> None:
    """What contradicts stops its shard, with both definitions and all that came before; the others go on."""
    shop, names = shards.shop, shards.names
    shards.execute(
        "INSERT INTO {0} VALUES (87,'before',1)",
        "ALTER TABLE {0} ADD COLUMN note DATE",
        "INSERT INTO {0} VALUES (88,'stops',1,NULL)",
        "UPDATE {1} SET name = 'goes on' WHERE id = 1",
    )
    stopped = shards.run().stopped
    (reason,) = stopped.values()
    assert list(stopped) == [TableName(*names[0].split("."))]
    assert "note DATE" in reason
    assert "note STRING" in reason
    assert shards.merged.read(shop.spark).where("name = 'goes on'").count() == 1
    assert shards.merged.read(shop.spark).where("name = 'stops'").count() == 0
    assert shards.merged.read(shop.spark).where("name = 'before'").count() == 1, "what came before is there"
    (entry,) = (table for table in read(lake_of(shards.pipeline), SOURCE) if table.state == "stopped")
    assert Position.parse(str(entry.merged)) < Position.parse(str(entry.position)), "silver goes on"
    version = shards.merged.head()
    assert shards.run().stopped == stopped
    assert shards.merged.head() == version, "the next run stops there again and writes nothing"
    shards.execute("ALTER TABLE {0} DROP COLUMN note")
    assert shards.run().stopped == {}


def test_four_shards_over_two_schemas(shards: Shards) -> None:
    shop, names = shards.shop, shards.names
    shards.execute(*(CREATE.format(name) for name in names))
    shards.execute(
        *(f"INSERT INTO {name} VALUES (1,'a',1.5),(2,'b',NULL),({nth + 3},'c',3)" for nth, name in enumerate(names))
    )
    first = shards.run()
    assert first.stopped == {}
    shards.require_same("id", "name", "total")

    # Changes of two of them, keys among these; the others' positions stay.
    before = parts(shards.merged)
    shards.execute(
        "UPDATE {0} SET name = 'changed' WHERE id = 2",
        "DELETE FROM {0} WHERE id = 1",
        "UPDATE {3} SET id = 9 WHERE id = 1",
        "INSERT INTO {3} VALUES (1,'again',7)",
    )
    second = shards.run()
    assert (second.stopped, len(second.merged)) == ({}, 2)
    shards.require_same("id", "name", "total")
    after = parts(shards.merged)
    assert [after[name] == before[name] for name in names] == [False, True, True, False]

    # A column that one has first, a wider type, a default that rows get, and a TRUNCATE: nobody waits.
    shards.execute(
        "ALTER TABLE {1} ADD COLUMN note VARCHAR(10), MODIFY id BIGINT",
        "INSERT INTO {1} VALUES (1 << 40,'wide',1,'new')",
        "TRUNCATE TABLE {2}",
        "INSERT INTO {2} VALUES (5,'after',5)",
        "INSERT INTO {0} VALUES (77,'narrow',1)",
    )
    assert shards.run().stopped == {}
    other_tables = tuple(f"{name}.note" for name in names if name != names[1])
    shards.require_same("id", "name", "total", "note", without=other_tables)
    shards.execute("ALTER TABLE {2} ADD COLUMN note VARCHAR(10) NOT NULL DEFAULT 'old'", "DELETE FROM {3} WHERE id = 9")
    assert shards.run().stopped == {}
    other_tables = tuple(f"{name}.note" for name in (names[0], names[3]))
    shards.require_same("id", "name", "total", "note", without=other_tables)

    require_contradictions_stop(shards)
    shards.require_same("id", "name", "total", "note", without=other_tables)

    # A column renamed in one, then gone from all that had it.
    shards.execute("ALTER TABLE {1} RENAME COLUMN note TO remark", "ALTER TABLE {2} DROP COLUMN note")
    assert shards.run().stopped == {}
    without = tuple(f"{name}.remark" for name in names if name != names[1])
    shards.require_same("id", "name", "total", "remark", without=without)

    # Each shard is compared with its own table, by hashes that the server makes.
    verdicts = list(verify_source(shop.spark, shards.pipeline, SOURCE))
    assert {str(verdict.table): verdict.state for verdict in verdicts} == dict.fromkeys(names, "equal")

    # Done again, nothing changes; a consistent set has each shard's own rows.
    version = shards.merged.head()
    assert backfill(shop.spark, shards.pipeline, BackfillRequest(SOURCE, shop.start, shop.end())).stopped == {}
    assert shards.merged.head() == version
    request = BackfillRequest(SOURCE, shop.start, shop.end(), layers=(DOWNSTREAM,))
    outcome = backfill(shop.spark, shards.pipeline, request)
    assert outcome.stopped == {}
    assert [(merge.inserted, merge.updated, merge.deleted) for merge in outcome.merged] == [(0, 0, 0)] * 4
    shards.require_same("id", "name", "total", "remark", without=without)
    snapshot = consistent(shop.spark, lake_of(shards.pipeline), SOURCE)
    assert snapshot.behind == {}
    for name in names:
        (count,) = shop.database.execute(f"SELECT COUNT(*) FROM {name}")[0]
        rows = snapshot.tables[tuple(name.split("."))].rows  # type: ignore[index]
        assert rows is not None
        assert rows.count() == count
