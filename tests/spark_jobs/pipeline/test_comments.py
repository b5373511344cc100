"""Comments of a server's tables as those of downstream tables, by Delta's own readers."""

from dataclasses import replace
from typing import Any

import deltalake
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.loader import from_keys
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.snapshot import Metadata, table_design
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import TableComments
from spark_jobs.pipeline.comments import SourceComments, _with_comments
from tests.fix_pipeline import Shop, require_same

CREATE = (
    "CREATE TABLE orders (id INT PRIMARY KEY, total DECIMAL(8,2) COMMENT 'gross, in ''EUR''', note TEXT) "
    "COMMENT 'What customers order'"
)


def comments_of(shop: Shop, pipeline: Pipeline) -> tuple[str | None, dict[str, Any]]:
    """The table's description and its columns' comments, as deltalake reads them; an empty text is none."""
    table = deltalake.DeltaTable(lake_of(pipeline).downstream(shop.database.name, "orders").path)
    columns = {field.name: field.metadata.get("comment") for field in table.schema().fields}
    return table.metadata().description or None, {name: text for name, text in columns.items() if text}


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.mysql
@pytest.mark.parametrize("has_feed", [False, True], ids=["no feed", "with a feed"])
def test_comments_follow_the_server(shop: Shop, has_feed: bool) -> None:
    rules = [{"tables": "*.*", "change_data_feed": True}] if has_feed else []
    pipeline = shop.pipeline(live=True, downstream=rules)
    shop.execute(CREATE, "INSERT INTO orders VALUES (1, 2.50, 'a')")
    _, outcome = shop.run(pipeline)
    assert comments_of(shop, pipeline) == ("What customers order", {"total": "gross, in 'EUR'"})
    (entry,) = outcome.entries
    head = lake_of(pipeline).downstream(*entry.name).head()
    assert (head and head.version) == entry.downstream_version, "what is published has the comments"
    # A merge upon it goes on as before, and commits no comment again.
    shop.execute("INSERT INTO orders VALUES (2, 3.50, 'b')", "UPDATE orders SET note = 'c' WHERE id = 1")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    after = lake_of(pipeline).downstream(*entry.name).head()
    assert head
    assert after
    assert after.version == head.version + 1
    # Others, fewer, and none: columns with and without.
    shop.execute("ALTER TABLE orders MODIFY total DECIMAL(8,2), MODIFY note TEXT COMMENT 'n', COMMENT 'new'")
    shop.execute("DELETE FROM orders WHERE id = 2")
    shop.run(pipeline)
    assert comments_of(shop, pipeline) == ("new", {"note": "n"})
    shop.execute("ALTER TABLE orders MODIFY note TEXT, COMMENT ''", "INSERT INTO orders VALUES (4, 1, 'd')")
    shop.run(pipeline)
    assert comments_of(shop, pipeline) == (None, {})
    require_same(shop, pipeline, "orders")


@pytest.mark.parametrize(
    "mysql", [None, {"host": "127.0.0.1", "port": 1, "user": "u"}], ids=["files", "a server that is away"]
)
def test_without_a_server_comments_stay(mysql: Any, tmp_path: Any) -> None:
    source = {"mysql": mysql} if mysql else {"files": "."}
    pipeline = from_keys({"lake": "l", "sources": {"shop": source}}, tmp_path / "pipeline.yaml")
    assert SourceComments(pipeline, "shop").of(TableName("shop", "orders")) is None


def design() -> Metadata:
    return table_design({"id": "INT", "_position": "STRING"}, {"delta.columnMapping.mode": "name"})[0]


def test_the_same_comments_are_no_change() -> None:
    metadata = design()
    assert _with_comments(metadata, TableComments("")) is metadata
    commented = _with_comments(metadata, TableComments("t", {"id": "i", "gone": "g"}))
    assert [column.metadata.get("comment") for column in commented.schema.columns] == ["i", None]
    assert [column.physical_name for column in commented.schema.columns] == [
        column.physical_name for column in metadata.schema.columns
    ]
    assert _with_comments(commented, TableComments("t", {"id": "i"})) is commented
    assert _with_comments(commented, TableComments("")) == metadata
    emptied = replace(metadata, rest={**metadata.rest, "description": ""})
    assert _with_comments(emptied, TableComments("")) is emptied
