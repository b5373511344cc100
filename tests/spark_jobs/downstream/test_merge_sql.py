from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.downstream.merge_sql import _differs, merge_statement
from spark_jobs.downstream.multi_source import PartTable
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver

COLUMNS = silver.Columns({"id": "INT", "a `b": "STRING", "n": "DECIMAL(10,2)"}, ("id",))
TARGET = Table("lake/downstream/s/t", plain=False)


def test_every_column_is_named_and_quoted() -> None:
    text = merge_statement(TARGET, COLUMNS, None, is_complete=False)
    for name in ("`id`", "`a ``b`", "`n`", *(f"`{name}`" for name in ADDED)):
        assert f"t.{name} = s.{name}" in text
        assert f"s.{name}" in text.split("VALUES")[1]
    assert "*" not in text, "MERGE would choose types by itself"


def test_a_live_merge_takes_newer_rows_alone() -> None:
    text = merge_statement(TARGET, COLUMNS, None, is_complete=False)
    assert text.count("s._position > t._position") == 2, "deletes and updates"
    assert "WHEN NOT MATCHED AND NOT s._gone THEN INSERT" in text


def test_a_merge_of_windows_done_again_goes_by_content() -> None:
    text = merge_statement(TARGET, COLUMNS, None, is_complete=True)
    assert "s._position > t._position" not in text
    assert _differs(COLUMNS) in text
    assert "WHEN MATCHED AND s._gone THEN DELETE" in text


def test_braces_in_names_are_no_fields() -> None:
    text = merge_statement(TARGET, silver.Columns({"id": "INT", "{}": "INT"}, ("id",)), None, is_complete=False)
    assert "t.`{}` = s.`{}`" in text.format(source="rows")
    assert "MERGE INTO delta.`lake/downstream/s/t` t USING rows s ON" in text.format(source="rows")


def test_what_an_emptied_table_held_goes_in_the_same_statement() -> None:
    text = merge_statement(TARGET, COLUMNS, Position("b.000007", 99, 2), is_complete=False)
    floor = "named_struct('stretch', 2, 'number', 7L, 'offset', 99L, 'row', -1)"
    assert f"s ON t.`id` = s._identity_0 AND t._position > {floor} WHEN" in text, "it may have had another key"
    assert text.endswith(f"WHEN NOT MATCHED BY SOURCE AND t._position < {floor} THEN DELETE")


def test_a_part_is_merged_among_its_own_rows_alone() -> None:
    own_rows = "t._source = 'eu' AND t._schema = 'shop' AND t._table = 'o\\'1'"
    part = PartTable(TARGET, ("eu", "shop", "o'1"))
    text = merge_statement(part, COLUMNS, Position("b.000007", 99, 2), is_complete=False)
    assert f"s ON t.`id` = s._identity_0 AND {own_rows} AND t._position > " in text
    assert f"WHEN NOT MATCHED BY SOURCE AND {own_rows} AND t._position < " in text, "TRUNCATE empties no other shard"
    assert "`_raw`, _source, _schema, _table) VALUES (" in text
    assert "s.`_raw`, 'eu', 'shop', 'o\\'1')" in text
    assert "t._source =" not in text.split("UPDATE SET")[1].split("WHEN")[0]


def test_content_is_every_column_but_the_key() -> None:
    text = _differs(COLUMNS)
    assert "t.`id` <=> s.`id`" not in text
    for name in ("`a ``b`", "`n`", "`_position`", "`_committed_at`"):
        assert f"t.{name} <=> s.{name}" in text
    assert "map_entries(t._raw) <=> map_entries(s._raw)" in text
