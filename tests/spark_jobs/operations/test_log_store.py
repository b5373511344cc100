import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.changes.bronze_feed import changes_of_bronze
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.errors import LakeError
from spark_jobs.log.position import Position
from spark_jobs.operations.log_store import Store
from tests.binlogs.logs import SOURCE, Logs, file
from tests.binlogs.segment_spec import UUID, Commit, Insert, Rows, Statement, Update
from tests.binlogs.xa import prepared

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def two_files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """Two files of small transactions, and one of 3 MB; their GTIDs are 100, 101, …, 200, …"""
    logs = Logs(spark, tmp_path_factory.mktemp("two_files"))
    logs.write(1, *(change for n in range(5) for change in (Insert("shop.orders", (n, "x")), Commit())))
    big = Rows("shop.lines", Insert, [(n, "y" * 40) for n in range(60_000)])
    logs.write(2, Insert("shop.orders", (9, "ü")), Commit(), big, Commit(), Update("shop.orders", (9, "ü"), (9, None)))
    logs.run()
    return logs


@pytest.fixture
def logs(two_files: Logs, tmp_path: Path) -> Logs:
    """The test's own copy."""
    return two_files.copied(tmp_path)


@pytest.mark.thorough
def test_a_log_is_read_by_position_and_by_gtid(logs: Logs) -> None:
    store = Store(logs.spark, logs.pipeline(), SOURCE)
    content = {number: (logs.binlogs / file(number)).read_bytes() for number in (1, 2)}
    assert (str(store.first), store.last.file, store.gc_position) == (f"{file(1)}:4", file(2), None)

    third = store.get(f"{UUID}:102")
    assert third is not None
    assert third.gtid == f"{UUID}:102"
    assert third.payload == content[1][third.start.offset : third.stop.offset]
    assert store.get(third.start) == third
    assert store.get(Position(file(1), third.stop.offset - 1)) == third, "one that spans the place"
    assert store.get(third.stop) == store.get(f"{UUID}:103")
    large = store.get(f"{UUID}:201")
    assert large is not None
    assert len(large.payload) > 2_500_000
    assert large.payload == content[2][large.start.offset : large.stop.offset]
    assert [store.get(location) for location in (f"{UUID}:300", "0-1-1", f"{UUID}:tag:1", store.last)] == [None] * 4

    pulled = list(store.pull(third.stop))
    assert (pulled[0].start, pulled[-1].stop) == (third.stop, Position(file(2), _end_of_transactions(content[2])))
    of_second = b"".join(transaction.payload for transaction in pulled if transaction.start.file == file(2))
    assert of_second in content[2]
    assert list(store.pull(pulled[-1].stop)) == []


def _end_of_transactions(content: bytes) -> int:
    """Before the ROTATE event that a file ends with."""
    return len(content) - (19 + 8 + len(file(3)) + 4)


def test_changes_of_a_range_are_rows_as_the_command_writes_them(logs: Logs) -> None:
    store = Store(logs.spark, logs.pipeline(), SOURCE)
    third = store.get(f"{UUID}:102")
    assert third is not None
    within = store.changes(third.start, third.stop).collect()
    assert [(row["gtid"], row["op"], row["before"], json.loads(row["after"])) for row in within] == [
        (f"{UUID}:102", "insert", None, {"id": 2, "note": "x"})
    ]
    rows = store.changes(tables=["shop.orders"]).orderBy("stretch", "number", "offset", "row")
    lines = "".join(
        changes_of_bronze(logs.lake, SOURCE, None, None, is_wanted=wanted_tables(["shop.orders"]))
    ).splitlines()
    all_rows = rows.selectExpr("*", "unix_micros(committed_at) AS micros").collect()
    assert len(all_rows) == len(lines) == 7
    for row, line in zip(all_rows, map(json.loads, lines), strict=True):
        plain = ("source", "file", "offset", "row", "gtid", "schema", "table", "op")
        assert {name: row[name] for name in plain} == {name: line[name] for name in plain}
        images = {name: row[name] and json.loads(row[name]) for name in ("before", "after")}
        assert images == {name: line[name] for name in images}
        assert line["committed_at"].endswith(f"{row['micros'] % 1_000_000:06d}Z")
    assert store.changes(tables=["shop.lines"]).count() == 60_000


def test_what_the_log_has_not_decided_and_what_gc_removed(logs: Logs) -> None:
    logs.write(3, *prepared(Insert("shop.orders", (1, "x"))))
    pipeline = logs.pipeline(tables=["none.*"], retention={"bronze": "1d"})
    logs.run(pipeline)
    store = Store(logs.spark, pipeline, SOURCE)
    (opened,) = store.undecided()
    assert (store.is_decided(opened.position), store.is_decided(store.last)) == (True, False)
    collected = store.gc(dry_run=True)
    assert [file.file for file in collected.files] == [file(1), file(2)]
    assert store.gc() == collected
    assert store.first == store.gc_position == Position(file(3), 4)
    with pytest.raises(LakeError, match="bronze no longer holds"):
        store.get(Position(file(1), 4))
    logs.write(4, Statement("", f"XA COMMIT {opened.xid}"))
    logs.run(pipeline)
    assert store.is_decided(store.last)


def test_a_store_without_a_log_says_so(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="shop: bronze holds nothing yet"):
        Store(spark, Logs(spark, tmp_path).pipeline(), SOURCE).last  # noqa: B018
