"""Which sources are delivered, and what is said of those that are not."""

from pathlib import Path
from typing import Any, Self

import deltalake
import pyarrow as pa
import pymysql
import pytest

from spark_jobs.config.deliveries import Delivery
from spark_jobs.config.loader import from_keys
from spark_jobs.delivery import progress
from spark_jobs.delivery.ordered import log_tables, run
from spark_jobs.delivery.progress import Progress, TableId
from spark_jobs.delivery.table_delivery import Delivered
from spark_jobs.delivery.workers import Workers
from spark_jobs.downstream import publication
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import CommitKind
from spark_jobs.log.position import Position
from spark_jobs.silver.commit import SilverCommit
from tests.binlogs.segment_spec import Commit, Insert
from tests.binlogs.timelines import OLD
from tests.spark_jobs.delivery.ordered.logged import NAMES, SOURCE, LoggedLake, at, write

ORDERS = NAMES[0]
SETTINGS = Delivery.model_validate({"mysql": {"host": "db", "user": "w"}, "apply": "ordered"})
ROWS = pa.table({"id": pa.array([1], pa.int64())})


def delivered(table: str, rows: int, *statements: str) -> Delivered:
    return Delivered(TableId("copy", "shop", table), f"b.000001:{rows}", rows, rows, 1, statements, 0.5)


@pytest.mark.parametrize(
    "error, message",
    [
        (LakeError("bronze holds nothing yet"), "delivery copy: bronze holds nothing yet"),
        (pymysql.OperationalError(1142, "not as a server says it"), "delivery copy: a: db:3306 answered: error 1142"),
        (OSError("cut"), "delivery copy: a: db:3306"),
    ],
)
def test_what_stops_a_source_does_not_stop_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def deliver(ordered_run: run._Run, source: str) -> None:
        if source == "a":
            raise error
        ordered_run.delivered[TableId("copy", "shop", "t")] = delivered("t", 3, "TRUNCATE")

    monkeypatch.setattr(run._Run, "deliver", deliver)
    sources = {name: {"files": f"./{name}"} for name in ("a", "b")}
    pipeline = from_keys({"lake": "./lake", "sources": sources}, tmp_path / "pipeline.yaml")
    copied = [delivered("t", 2, "CREATE"), delivered("u", 1)]
    with Workers("copy", SETTINGS) as workers:
        tables, stopped = run.deliver_logs(pipeline, workers, [], copied)
    assert [*stopped] == [("", "a")]
    assert str(stopped["", "a"]).startswith(message)
    # A first copy and what was delivered behind it are one.
    sum_ = Delivered(TableId("copy", "shop", "t"), "b.000001:3", 3, 5, 2, ("CREATE", "TRUNCATE"), 1.0)
    assert tables == [sum_, copied[1]]


def published_lake(folder: Path, kind: CommitKind) -> LoggedLake:
    """A lake whose orders are published, where a commit of silver came after the version that the target has."""
    lake = LoggedLake.of(folder, [Insert("shop.orders", (1, "a")), Commit()])
    silver = lake.lake.silver(SOURCE, ORDERS.schema, ORDERS.table)
    for version, commit_kind in enumerate((CommitKind.LIVE, kind), 1):
        write(silver, ROWS, SilverCommit(at(4), f"b{version}", commit_kind, definition=OLD, key=("id",)), version)
    downstream = lake.into(ORDERS).table
    write(downstream, ROWS, DownstreamCommit(at(4), "b", source=SOURCE, table=str(ORDERS), silver_version=0))
    entry = Entry(
        *(SOURCE, ORDERS.schema, ORDERS.table, "current"),
        position=str(lake.end),
        merged=str(lake.end),
        downstream=downstream.path,
        downstream_version=0,
    )
    rows = pa.Table.from_pylist([publication._entry_row(entry)], schema=publication._SCHEMA)
    deltalake.write_deltalake(lake.lake.published().path, rows)
    return lake


@pytest.mark.parametrize(
    "kind, stored, message",
    [
        (CommitKind.LIVE, Progress(1, "l", 0, "mysql-bin.000001:4"), "claimed"),
        (CommitKind.LOAD, Progress(1, "l", 0, "mysql-bin.000001:4"), "delivery copy: shop: shop.orders: its rows in"),
        # Its first copy is not complete, or not begun: nothing of the log is delivered.
        (CommitKind.LOAD, Progress(1, "l", 0, "mysql-bin.000001:4", exit_version=1), None),
        (CommitKind.LOAD, Progress(1), None),
        (CommitKind.LOAD, None, None),
    ],
)
def test_where_a_log_is_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: CommitKind, stored: Progress | None, message: str | None
) -> None:
    def claim(*_: Any) -> Progress:
        raise LakeError("claimed")

    rows = {("shop", "orders"): (stored, None)} if stored else {}
    monkeypatch.setattr(progress, "progress_by_table", lambda *_: rows)
    monkeypatch.setattr(progress, "claim", claim)
    lake = published_lake(tmp_path, kind)
    with Workers("copy", SETTINGS) as workers:
        tables, stopped = run.deliver_logs(lake.pipeline, workers, [lake.into(ORDERS)], [])
    assert tables == []
    assert [*stopped] == ([("", SOURCE)] if message else [])
    assert message is None or message in str(stopped["", SOURCE])


class NoServer:
    """A connection that is opened and asks nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    "log, table, needed",
    [
        # The log's own row, then the table's: its position, or while its first copy runs that of the copied version.
        (Progress(1, position="b.000001:900"), Progress(1, "l", 0, "b.000001:4"), "b.000001:900"),
        (None, Progress(1, "l", 0, "b.000001:4"), "b.000001:4"),
        (None, Progress(1, "l", exit_version=1, exit_position="b.000001:4"), "b.000001:4"),
        (None, Progress(1), None),
    ],
)
def test_log_that_a_delivery_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Progress | None, table: Progress, needed: str | None
) -> None:
    lake = published_lake(tmp_path, CommitKind.LIVE)
    rows = {("shop", "orders"): (table, None)} | ({("", SOURCE): (log, None)} if log else {})
    monkeypatch.setattr(progress, "progress_by_table", lambda *_: rows)
    monkeypatch.setattr(progress, "exists", lambda *_: True)
    monkeypatch.setattr(log_tables, "Connection", lambda *_: NoServer())
    delivering = lake.pipeline.model_copy(update={"deliveries": {"copy": SETTINGS}})
    assert log_tables.needed_from(delivering, lake.lake, "copy", SOURCE) == (Position.parse(needed) if needed else None)
