"""Layouts: SQL put together and keys taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify.row_digest import DigestLayout, layout
from spark_jobs.errors import TableStopped

ROWS = [
    {"name": "id", "kind": "int", "declared": "int", "charset": None, "fraction": None},
    {"name": "co`de", "kind": "varchar", "declared": "varchar(9)", "charset": "utf8mb4", "fraction": None},
    {"name": "note", "kind": "text", "declared": "text", "charset": "utf8mb4", "fraction": None},
]
LAKE = {"id": "INT", "co`de": "STRING", "note": "STRING", "_position": "STRUCT<>", "_raw": "MAP<STRING, STRING>"}
NAME = TableName("shop", "orders")


def layout_of(key: tuple[str, ...] = ("id", "co`de")) -> DigestLayout:
    return layout(NAME, ROWS, LAKE, key)


@given(st.integers(), st.binary())
def test_a_keys_text_is_taken_apart_as_it_was_put_together(number: int, text: bytes) -> None:
    key = b"%d,%d:%s" % (number, len(text), text)
    assert layout_of().key_values(key) == [str(number).encode(), text]


def test_a_key_is_looked_up_by_literals_of_its_columns() -> None:
    assert layout_of().condition_for([b"1,1:a", b"2,0:"]) == (
        "(`id` = 1 AND `co``de` = _utf8mb4 x'61') OR (`id` = 2 AND `co``de` = _utf8mb4 x'')"
    )
    assert layout_of().shown_key(b"1,3:a,b") == {"id": "1", "co`de": "a,b"}


def test_long_values_are_hashed_by_themselves_but_not_in_keys() -> None:
    assert "SHA2(CAST(`note` AS BINARY), 256)" in layout_of().server_digest
    assert "SHA2" not in layout_of(("note",)).server_key
    assert "sha2" not in layout_of(("note",)).lake_key


@pytest.mark.parametrize(
    "lake, reason",
    [
        ({"id": "INT", "note": "STRING"}, "the server's columns are id, co`de, note, the lake's id, note"),
        (LAKE | {"id": "STRING"}, "column id is int at the server and STRING in the lake"),
    ],
)
def test_columns_that_differ_are_refused(lake: dict[str, str], reason: str) -> None:
    with pytest.raises(TableStopped, match=reason):
        layout(NAME, ROWS, lake, ("id",))


def test_a_key_that_the_source_does_not_have_is_none() -> None:
    assert layout_of(("_row",)).key == ()


def test_kept_out_columns_are_in_no_text() -> None:
    digest_layout = layout(NAME, ROWS, LAKE, ("id",), unknown={"note"})
    assert [column.name for column in digest_layout.columns] == ["id", "co`de"]
    assert "note" not in digest_layout.server_digest + digest_layout.lake_digest
