"""Which tables are mended by their keys. Whole mends: tests/pipeline/test_mend.py."""

from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import TableStopped
from spark_jobs.lake.layout import lake_of
from spark_jobs.mending.mend_table import MendableTable, mendable
from spark_jobs.pipeline.initial_load.anchor import Anchor
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.pipeline.initial_load.selection import newest_checkpoint
from spark_jobs.pipeline.initial_load.throttle import Throttle
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.source.server import Server
from tests.fix_pipeline import SOURCE, Shop


def context_of(shop: Shop, pipeline: Pipeline) -> LoadContext:
    settings = pipeline.sources[SOURCE].mysql
    assert settings
    server, lake = Server(SOURCE, settings), lake_of(pipeline)
    anchor = Anchor.of(server, newest_checkpoint(lake.bronze(SOURCE)))
    spark = session_over(shop.spark, 0)
    return LoadContext(spark, pipeline, lake, SOURCE, anchor, 1, lambda *_: None, Throttle(server))


@pytest.mark.spark
@pytest.mark.mysql
def test_tables_whose_rows_cannot_be_compared_by_key_are_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "pepper")
    people = "(id INT PRIMARY KEY, name VARCHAR(20))"
    shop.execute(f"CREATE TABLE early {people}", "INSERT INTO early VALUES (1, 'a')")
    shop = replace(shop, start=shop.end())
    database = shop.database.name
    pipeline = shop.pipeline(
        live=True,
        columns={"hidden": {"tables": ["*.secret"], "mask": {"id": {"hash": "${SALT}"}}}},
        filters={"kept": {"tables": ["*.kept"], "events": ["delete"]}},
        routes=[{"from": f"{database}.part_*", "to": f"{database}.parts", "keys": "shared"}],
    )
    for name in ("plain", "secret", "kept", "part_1", "memory", "gone", "altered", "rekeyed"):
        engine = " ENGINE = MyISAM" if name == "memory" else ""
        shop.execute(f"CREATE TABLE {name} {people}{engine}", f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    shop.run(pipeline)
    shop.execute("SET sql_log_bin = 0", "DROP TABLE gone", "ALTER TABLE altered ADD c INT")
    shop.execute("ALTER TABLE rekeyed MODIFY name VARCHAR(20) NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (name)")
    shop.execute("SET sql_log_bin = 1")
    load = context_of(shop, pipeline)
    asked: list[str] = []
    ask = Server.ask

    def noting(self: Server, connection: Any, query: str) -> list[dict[str, Any]]:
        asked.append(query)
        return ask(self, connection, query)

    monkeypatch.setattr(Server, "ask", noting)
    table = mendable(load, TableName(database, "plain"))
    assert isinstance(table, MendableTable)
    assert (table.columns.key, [*table.columns.types]) == (("id",), ["id", "name"])
    assert table.fields.column("id").type == "integer"
    of_columns = [query for query in asked if "FROM information_schema.COLUMNS c" in query]
    assert of_columns
    assert all("AND TABLE_NAME = " in query for query in of_columns), "nothing is read of other tables"
    for name, reason in (
        ("early", f"nothing of it is in silver; .* stratalog load --source {SOURCE} --table {database}.early"),
        ("secret", "a rule masks id of its key"),
        ("kept", "filters.kept decides about changes"),
        ("part_1", r"has keys in common with other sources' tables \(keys: shared\)"),
        ("memory", "its engine MyISAM has no snapshot .* ALTER TABLE memory ENGINE = InnoDB"),
        ("gone", "the server has no such table, or does not show it"),
        ("altered", "its columns are now .*c INT.*no statement of the log says why"),
        ("rekeyed", r"its key is \(name\) at the server and \(id\) in the lake"),
    ):
        with pytest.raises(TableStopped, match=reason):
            mendable(load, TableName(database, name))
