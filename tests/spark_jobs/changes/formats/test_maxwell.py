from dataclasses import replace

import pytest

from tests.binlogs.segment_spec import Commit, Insert, Query, Rows, Update
from tests.spark_jobs.changes.feeds import SPEC
from tests.spark_jobs.changes.formats.writing import objects, texts


def test_rows_have_their_transactions_id_and_the_last_one_its_commit() -> None:
    lines = objects(SPEC, "maxwell")
    assert list(lines[0]) == ["database", "table", "type", "ts", "xid", "data"]
    assert [(line["type"], line["xid"], line.get("commit")) for line in lines] == [
        ("insert", 43, None),
        ("update", 43, None),
        ("update", 43, True),
        ("insert", 44, None),
        ("delete", 44, True),
    ]
    assert [line.get("old") for line in lines] == [None, {"price": 0.37}, {"id": 1, "price": 0.42}, None, None]
    assert (lines[0]["data"], lines[0]["ts"]) == ({"id": 1, "price": 0.37}, 1_700_000_000)


def test_the_last_row_of_a_wanted_table_has_the_commit() -> None:
    assert [line.get("commit") for line in objects(SPEC, "maxwell", "bench.other")] == [True]


def test_a_commit_by_a_statement_has_no_id() -> None:
    spec = replace(SPEC, changes=[Insert("bench.other", (1,)), Query("", "COMMIT")])
    (line,) = texts(spec, "maxwell")
    assert '"ts":1700000000,"commit":true,"data"' in line


def test_columns_that_only_the_image_before_has_are_data() -> None:
    spec = replace(SPEC, changes=[Rows("bench.orders", Update, [((1, ...), (..., "2"))]), Commit()])
    (line,) = objects(spec, "maxwell")
    assert (line["data"], "old" in line) == ({"price": 2.0, "id": 1}, False)


def test_many_rows_wait_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.changes.formats.maxwell._IN_MEMORY", 1)
    assert len(objects(SPEC, "maxwell")) == 5
