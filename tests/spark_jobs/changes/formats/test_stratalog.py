from dataclasses import replace

from tests.binlogs.segment_spec import Change, Commit, Insert, Statement
from tests.spark_jobs.changes.feeds import SPEC
from tests.spark_jobs.changes.formats.writing import objects, texts

CHANGES: list[Change] = [Insert("bench.other", (1,)), Commit(), Statement("bench", "TRUNCATE TABLE other")]


def test_statements_and_edges_of_transactions_where_they_are_asked_for() -> None:
    spec = replace(SPEC, changes=CHANGES)
    lines = objects(spec, "stratalog", statements=True, transactions=True)
    assert [line["op"] for line in lines] == ["begin", "insert", "commit", "ddl"]
    assert [line["row"] for line in lines] == [0, 0, 0, 0]
    assert (lines[2]["xid"], {line["gtid"][-2:] for line in lines[:3]}) == (43, {":1"})
    assert (lines[3]["schema"], lines[3]["table"], lines[3]["statement"]) == ("bench", "other", "TRUNCATE TABLE other")
    assert [line["op"] for line in objects(spec, "stratalog")] == ["insert"]


def test_transactions_without_a_wanted_row_have_no_edges() -> None:
    assert texts(replace(SPEC, changes=CHANGES), "stratalog", "bench.orders", transactions=True) == []
