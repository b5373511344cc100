"""Conditions: Spark's answer beside a server's, of every row, for every kind of expression that is allowed."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Changes, Column, FileDecoder, TableDefinition, TableName
from spark_jobs.config.conditions import Condition
from spark_jobs.config.filters import EventFilter, RowFilter, TableFilters
from spark_jobs.config.table_patterns import Scope
from spark_jobs.errors import TableStopped
from spark_jobs.silver import row_filters
from spark_jobs.silver.net_changes import SliceOrigin
from spark_jobs.silver.row_filters import as_changes, as_rows, ddl, left_out_by
from tests.fix_pipeline import Shop

CONDITIONS = [
    *(
        "n = 7",
        "n <> 7",
        "n < u",
        "n <=> NULL",
        "n <=> 7",
        "n IN (1, 7, NULL)",
        "n NOT IN (1, 7)",
        "n BETWEEN -5 AND 7",
    ),
    *("n % 2 = 0", "n % 0 = 0", "n MOD 3", "-n % 3 = -1", "n + n > 10", "n - 300 < -292", "n * n > 100"),
    *("ABS(n) = 7", "COALESCE(n, u, 0) = 0", "IFNULL(n, 0)", "n", "NOT n", "!n", "n AND u", "n OR u", "n && NOT u"),
    *(
        "n IS NULL",
        "n IS NOT NULL",
        "n IS TRUE",
        "n IS FALSE",
        "NOT (n IS TRUE)",
        "flag = TRUE",
        "flag",
        "flag = FALSE",
    ),
    *("price = 0.10", "price * 3 = 0.3", "price + 0.001 > 1.5", "price % 0.3 = 0.1", "price > n", "price < 1e0"),
    *("f > 0.5", "f = n", "f BETWEEN 0 AND 1e2", "d < 1e-300", "d = 0", "f", "u > 4294967290", "u - 1 = n"),
    *("state = 'paid'", "state <> 'paid'", "state IN ('open', 'paid')", "state IS NULL", "'paid' = state"),
    *(
        "day = '2024-02-29'",
        "day > '2024-01-01'",
        "day < '2024-02-29' OR day IS NULL",
        "YEAR(day) = 2024",
        "MONTH(day) = 2",
    ),
    *("at >= '2024-02-29 12:00:00'", "at = '2024-02-29 12:00:00.5'", "at < '2024-03-01'", "DAY(at) = 29"),
    *("seen > '2024-02-29 12:00:00'", "seen = '2024-02-29'", "blob_ = 'ab'", "blob_ < 'b'", "LENGTH(blob_) = 2"),
    *("name COLLATE utf8mb4_0900_bin = 'Ab'", "name COLLATE utf8mb4_0900_bin LIKE 'a_%'", "CHAR_LENGTH(name) = 2"),
    *(
        "name COLLATE utf8mb4_0900_bin > 'a'",
        "name COLLATE utf8mb4_0900_bin IN ('', 'ä')",
        "doc IS NULL",
        "name IS NULL",
    ),
]
ROWS = """
    (1, 7, 7, 1, 0.10, 0.5, 0, 'paid', '2024-02-29', '2024-02-29 12:00:00', '2024-02-29 12:00:00', 'ab', 'Ab', '{}'),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, -7, 8, 0, 1.50, 7, 1e-308, 'open', '2024-03-01', '2024-02-29 12:00:00.5', '2024-02-29', '', '', 'null'),
    (4, 0, 0, 2, -0.10, -1, -1, 'new', '2023-12-31', '2024-03-01', '2024-02-29 12:00:00.5', 'b ', 'ab ', '1'),
    (5, 2147483647, 4294967295, 1, 99999999.99, 3e38, 1e300, 'paid', '0001-01-01', '9999-12-31', '1970-01-02', 'AB',
     'ä', '[]'),
    (6, -2147483648, 1, -1, 0.40, 0, -0.0, 'open', '2024-01-01', '2024-02-29', '2038-01-19', x'00ff', '𝄞é', '"x"'),
    (7, 8, 9, 1, 0.30, 100, 0.1, 'new', '9999-12-31', '1000-01-01', '2024-02-28 23:59:59', 'a', 'aB', '2')
"""


@pytest.mark.spark
@pytest.mark.mysql
def test_conditions_are_what_the_server_says_of_every_row(shop: Shop) -> None:
    shop.execute(
        "FLUSH BINARY LOGS",  # the file before may have rows of XA transactions
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, u INT UNSIGNED, flag TINYINT, price DECIMAL(10, 2), f FLOAT, "
        "d DOUBLE, state ENUM('new', 'open', 'paid'), day DATE, at DATETIME(1), seen TIMESTAMP(1) NULL, blob_ BLOB, "
        "name VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci, doc JSON)",
        "SET time_zone = '+00:00'",
        f"INSERT INTO t VALUES {ROWS}",
    )
    log = shop.end().file
    decoder, file = FileDecoder(log, before="all"), shop.database.server.data / log
    name = TableName(shop.database.name, "t")
    with file.open("rb", buffering=0) as opened:
        blocks = [(table, changes) for table, changes in decoder.read(opened) if table.name == name]
    definition = blocks[0][0]
    rows = [as_rows(changes, SliceOrigin(log, 1, 1, 0)) for _, changes in blocks]
    table = shop.spark.createDataFrame(pa.Table.from_batches(rows).to_pylist(), ddl(definition))
    expressions = [_sql(definition, condition) for condition in CONDITIONS]
    spark_rows = (
        table.selectExpr("_a0", *(f"{sql} AS c{at}" for at, sql in enumerate(expressions))).orderBy("_a0").collect()
    )
    # The server's subtraction of unsigned integers is an error where ours is below zero.
    shop.execute("SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_UNSIGNED_SUBTRACTION')", "SET NAMES utf8mb4")
    # utf8mb4_0900_bin is there from 8.0.17 on; bytes of UTF-8 compare the same way.
    server_conditions = [condition.replace("name COLLATE utf8mb4_0900_bin", "BINARY name") for condition in CONDITIONS]
    server_rows = shop.database.execute(
        f"SELECT id, {', '.join(f'({condition}) IS TRUE' for condition in server_conditions)} FROM t ORDER BY id"
    )
    assert len(spark_rows) == 7
    for row, server_row in zip(spark_rows, server_rows, strict=True):
        unlike = [text for text, a, b in zip(CONDITIONS, row[1:], server_row[1:], strict=True) if bool(a) != bool(b)]
        assert not unlike, f"row {row[0]}"


def _sql(definition: TableDefinition, text: str) -> str:
    """The condition about the row, NULL as it is."""
    columns = {
        str(column.name).casefold(): row_filters.term_of(column, f"_a{at}")
        for at, column in enumerate(definition.columns)
    }
    return Condition.parse(text).to_spark(columns.__getitem__)


TABLE = TableDefinition(TableName("shop", "t"), (Column("id", 3), Column("c", 3)), key=(0,))


def rule(**conditions: str) -> RowFilter:
    return RowFilter("r", Scope(), **{key: Condition.parse(text) for key, text in conditions.items()})


def test_a_rule_is_asked_about_the_kinds_of_changes_that_it_names() -> None:
    sql = left_out_by(TableFilters(rows=(rule(update_old="c = 1", update_new="c = 2"),)), TABLE, frozenset())
    assert sql.startswith("CASE WHEN _kind = 2 THEN coalesce(IF((CAST(_b1")
    assert "_a1" in sql
    assert "_kind = 1" not in sql
    assert left_out_by(TableFilters(), TABLE, frozenset()) == "CAST(NULL AS STRING)"


def test_a_kind_that_is_left_out_whole_is_not_asked_about() -> None:
    events = (EventFilter("e", Scope(), ("insert",), (), "ignore"),)
    sql = left_out_by(TableFilters(events, (rule(insert="c = 1", delete="c = 1"),)), TABLE, frozenset())
    assert "WHEN _kind = 1 THEN coalesce('filters.e', NULL)" in sql


def test_a_column_of_another_time_says_nothing_and_one_of_no_time_stops() -> None:
    rules = TableFilters(rows=(rule(insert="gone IS NULL"),))
    assert "IF(FALSE, 'row_filters.r', NULL)" in left_out_by(rules, TABLE, frozenset({"gone"}))
    with pytest.raises(
        TableStopped, match=r"row_filters\.r\.insert-value-expr names column gone, which the table does"
    ):
        left_out_by(rules, TABLE, frozenset())


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), max_size=6), st.data())
def test_changes_come_back_from_rows_whatever_batches_they_came_in(parts: list[list[int]], data: st.DataObject) -> None:
    batches = [as_rows(_changes(values), SliceOrigin(f"b.{at:06}", 1, at, 0)) for at, values in enumerate(parts, 1)]
    if not batches:
        return
    table = pa.Table.from_batches(batches).combine_chunks()
    size = data.draw(st.integers(1, len(table)))
    pairs = [pair for batch in table.to_batches(size) for pair in as_changes(batch, ["id", "c"])]
    values_ = [(place.number, value) for changes, place, _ in pairs for value in changes.after.column("c").to_pylist()]
    assert values_ == [(at, value) for at, values in enumerate(parts, 1) for value in values]
    assert all(place.file == f"b.{place.number:06}" for _, place, _ in pairs)


def _changes(values: list[int]) -> Changes:
    count = len(values)
    image = pa.record_batch({"id": pa.array(values, pa.int32()), "c": pa.array(values, pa.int32())})
    repeated: Callable[[pa.DataType], pa.Array] = partial(pa.repeat, size=count)
    return Changes(
        op=pa.array([1] * count, pa.uint8()),
        offset=repeated(pa.scalar(4, pa.int64())),
        row=pa.array(range(count), pa.int32()),
        committed_at=repeated(pa.scalar(0, pa.timestamp("us", "UTC"))),
        gtid=None,
        after=image,
        before=image,
        raw=None,
        before_raw=None,
    )
