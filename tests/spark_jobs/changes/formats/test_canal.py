from dataclasses import replace

import pytest

from spark_jobs.changes.formats.canal import _decimal_text, _statement_type
from tests.binlogs.segment_spec import Commit, Insert, Rows, Statement, Update
from tests.spark_jobs.changes.feeds import SPEC
from tests.spark_jobs.changes.formats.writing import objects


def test_a_message_has_the_rows_of_one_event() -> None:
    first, update, second, delete = objects(SPEC, "canal-json")
    assert list(first) == sorted(first)
    assert (first["type"], first["data"], first["old"]) == ("INSERT", [{"id": "1", "price": "0.37"}], None)
    assert (first["pkNames"], first["sqlType"], first["es"]) == (["id"], {"id": 4, "price": 3}, 1_700_000_000_000)
    assert first["mysqlType"] == {"id": "int", "price": "decimal(8,2)"}
    assert update["data"] == [{"id": "1", "price": "0.42"}, {"id": "2", "price": None}]
    assert update["old"] == [{"price": "0.37"}, {"id": "1", "price": "0.42"}]
    assert (second["table"], delete["type"], delete["data"]) == ("other", "DELETE", [{"id": "2", "price": None}])


def test_a_column_that_changed_in_a_row_is_old_in_all_later_rows_of_the_event() -> None:
    rows = [((1, "1"), (1, "2")), ((2, "5"), (3, "5"))]
    spec = replace(SPEC, changes=[Rows("bench.orders", Update, rows), Commit()])
    assert objects(spec, "canal-json")[0]["old"] == [{"price": "1.0"}, {"id": "2", "price": "5.0"}]


def test_rows_of_another_table_come_between_messages_of_a_compressed_transaction() -> None:
    changes = [Insert("bench.orders", (1, None)), Insert("bench.other", (2,)), Insert("bench.orders", (3, None))]
    spec = replace(SPEC, changes=[*changes, Commit()], payload=lambda _: "zstd")
    lines = objects(spec, "canal-json")
    assert [(line["table"], line["data"][0]["id"]) for line in lines] == [
        ("orders", "1"),
        ("other", "2"),
        ("orders", "3"),
    ]


def test_statements_are_messages_unless_they_are_not_wanted() -> None:
    changes = [Statement("bench", "ALTER TABLE orders ADD c INT"), Statement("x", "CREATE TABLE t (id INT)")]
    spec = replace(SPEC, changes=changes)
    alter, create = objects(spec, "canal-json")
    assert (alter["isDdl"], alter["type"], alter["database"], alter["table"]) == (True, "ALTER", "bench", "orders")
    assert (create["sql"], create["data"], create["type"]) == ("CREATE TABLE t (id INT)", None, "CREATE")
    assert [line["table"] for line in objects(spec, "canal-json", "bench.*")] == ["orders"]
    assert objects(spec, "canal-json", statements=False) == []


@pytest.mark.parametrize(
    "text, kind",
    [
        ("alter table t add c int", "ALTER"),
        ("/* x */ CREATE TEMPORARY TABLE t (a int)", "CREATE"),
        ("DROP TABLE t", "ERASE"),
        ("TRUNCATE t", "TRUNCATE"),
        ("RENAME TABLE a TO b", "RENAME"),
        ("CREATE UNIQUE INDEX i ON t (a)", "CINDEX"),
        ("DROP INDEX i ON t", "DINDEX"),
        ("CREATE DATABASE d", "QUERY"),
        ("GRANT ALL ON *.* TO u", "QUERY"),
    ],
)
def test_types_of_statements(text: str, kind: str) -> None:
    assert _statement_type(text) == kind


@pytest.mark.parametrize(
    "text, shortened",
    [("1.00", "1.0"), ("1.10", "1.10"), ("0.000000000", "0.000000000"), ("0.5000000000", "0.500000000"), ("7", "7")],
)
def test_a_fractions_last_digits_are_left_out_where_they_are_zeros(text: str, shortened: str) -> None:
    assert _decimal_text(text) == shortened
