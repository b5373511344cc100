from dataclasses import replace

import pytest

from tests.binlogs.segment_spec import Commit, Insert, Update
from tests.spark_jobs.changes.feeds import SPEC
from tests.spark_jobs.changes.formats.writing import objects


def test_the_envelope() -> None:
    insert, update, *moved, _, delete = objects(SPEC, "debezium")
    assert list(insert) == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    assert (insert["op"], insert["before"], insert["after"]) == ("c", None, {"id": 1, "price": "JQ=="})
    source = insert["source"]
    assert (source["db"], source["table"], source["file"], source["row"]) == ("bench", "orders", "b.000001", 0)
    assert (source["thread"], source["server_id"], source["connector"]) == (7, 1, "mysql")
    assert source["ts_us"] == 1_700_000_000_250_000
    assert (update["op"], update["before"]["price"], update["after"]["price"]) == ("u", "JQ==", "Kg==")
    assert [(line["op"], line["source"]["row"]) for line in moved] == [("d", 1), ("c", 1)], "the key changes"
    assert (delete["op"], delete["before"], delete["after"]) == ("d", {"id": 2, "price": None}, None)


def test_without_gtids_a_time_is_the_events_second() -> None:
    line = objects(replace(SPEC, gtids=False), "debezium")[0]
    assert (line["source"]["ts_us"], line["source"]["gtid"]) == (1_700_000_000_000_000, None)


@pytest.mark.parametrize("kind", ["zstd", "none"])
def test_a_compressed_transaction_has_its_connection(kind: str) -> None:
    spec = replace(SPEC, payload=lambda _: kind)
    assert {line["source"]["thread"] for line in objects(spec, "debezium")} == {7}


def test_an_update_of_a_table_without_a_key_stays_one() -> None:
    table = SPEC.tables[1]
    spec = replace(SPEC, tables=[type(table)("bench.bag", id=table.columns["id"])])
    spec = replace(spec, changes=[Insert("bench.bag", (1,)), Update("bench.bag", (1,), (2,)), Commit()])
    assert [line["op"] for line in objects(spec, "debezium")] == ["c", "u"]
