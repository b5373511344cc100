from dataclasses import asdict
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from spark_jobs.config.loader import load
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.repair import Reset
from spark_jobs.silver import quarantine
from spark_jobs.silver.quarantine import Skip
from tests.fix_cli import Stratalog

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "recorded"

SKIP = Skip("shop", "t", "mysql-bin.000001:99", "Write_rows event", "shop.t: a damaged value")


def test_an_event_is_passed_over_only_when_told_yes(
    stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[object, ...]] = []

    def planned(_: object, *about: object) -> list[Skip]:
        calls.append(about)
        return [SKIP]

    monkeypatch.setattr("spark_jobs.operations.repair.plan_skip", planned)
    monkeypatch.setattr("spark_jobs.operations.repair.plan_undo", planned)
    about = ("skip", "-c", pipeline_file, "--source", "shop", "--at", "mysql-bin.000001:99")
    ran = stratalog(*about, "--table", "shop.t")
    assert (ran.status, ran.out) == (0, "shop: would quarantine shop.t: mysql-bin.000001:99 (Write_rows event)\n")
    assert ran.err == "shop.t had stopped: a damaged value\nnothing is changed yet; --yes does it\n"
    ran = stratalog(*about, "--undo")
    assert (ran.status, ran.out) == (0, "shop: would take back shop.t: mysql-bin.000001:99 (Write_rows event)\n")
    assert calls == [("shop", "mysql-bin.000001:99", "shop.t"), ("shop", "mysql-bin.000001:99", None)]


def test_skips_are_recorded_and_taken_back_without_spark(
    stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.runtime.spark_session.spark_session", lambda _: pytest.fail("Spark is started"))
    monkeypatch.setattr("spark_jobs.operations.repair.plan_skip", lambda *_: [SKIP])
    lake = lake_of(load(pipeline_file))
    monkeypatch.setattr("spark_jobs.operations.repair.plan_undo", lambda *_: quarantine.read(lake, "shop"))
    about = ("skip", "-c", pipeline_file, "--source", "shop", "--at", "mysql-bin.000001:99", "--yes")
    assert stratalog(*about).status == 0
    (recorded,) = quarantine.read(lake, "shop")
    assert (recorded.name, recorded.log_position, recorded.reason) == (SKIP.name, SKIP.log_position, SKIP.reason)
    assert stratalog(*about, "--undo").status == 0
    assert quarantine.read(lake, "shop") == []


def test_nothing_is_passed_over_of_a_bronze_that_is_empty(stratalog: Stratalog, pipeline_file: Path) -> None:
    ran = stratalog("skip", "-c", pipeline_file, "--source", "shop", "--at", "mysql-bin.000001:99")
    empty = "shop: bronze holds nothing yet; the first run of the source fills it\n"
    assert (ran.status, ran.out, ran.err) == (1, "", empty)
    ran = stratalog("skip", "-c", pipeline_file, "--source", "shop", "--at", "yesterday")
    assert ran.status == 2
    assert ran.err.startswith("--at: 'yesterday' is not a position")


def test_an_unknown_table_is_refused(
    stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(pipeline_file, Entry("shop", "shop", "t", "current"))
    ran = stratalog("reset", "-c", pipeline_file, "--source", "shop", "--table", "shop.none", "--yes")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("--table: shop.none is no table of shop that a run has seen")
    ran = stratalog("reset", "-c", pipeline_file, "--source", "shop", "--table", "shop.t")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("--table: shop.t has nothing in silver")


def publish(pipeline_file: Path, *entries: Entry) -> None:
    rows = pa.Table.from_pylist([asdict(entry) for entry in entries], schema=publication._SCHEMA)
    deltalake.write_deltalake(lake_of(load(pipeline_file)).published().path, rows)


def test_a_table_is_reset_only_when_told_yes(
    stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry("shop", "shop", "t", "stopped", reason="shop.t: a damaged value", merged="mysql-bin.000002:99")
    planned = Reset(entry, Position("mysql-bin.000001", 4), 1234, "2 of its rows were loaded")
    calls: list[object] = []

    def plan(*_: object, drops_older: bool) -> Reset:
        calls.append(drops_older)
        return planned

    monkeypatch.setattr("spark_jobs.operations.repair.plan_reset", plan)
    monkeypatch.setattr("spark_jobs.operations.repair.plan_unreset", lambda *_: entry)
    monkeypatch.setattr("spark_jobs.operations.repair.reset", lambda *_: calls.append("reset"))
    monkeypatch.setattr("spark_jobs.operations.repair.unreset", lambda *_: calls.append("unreset"))
    about = ("reset", "-c", pipeline_file, "--source", "shop", "--table", "shop.t")
    ran = stratalog(*about)
    assert (ran.status, calls) == (0, [False])
    assert ran.out.splitlines() == [
        "shop: shop.t would be rebuilt by the next run, from mysql-bin.000001:4, where bronze begins",
        "shop: shop.t has 1,234 rows downstream, as of mysql-bin.000002:99; they stay until that run is done with it",
    ]
    assert ran.err.splitlines() == [
        "shop.t will lack some: 2 of its rows were loaded",
        "shop.t had stopped: a damaged value",
        "nothing is changed yet; --yes does it",
    ]
    ran = stratalog(*about, "--drop-older-rows", "--yes")
    assert (ran.status, calls[1:], "would" in ran.out, "nothing is changed" in ran.err) == (
        0,
        [True, "reset"],
        False,
        False,
    )
    ran = stratalog(*about, "--undo")
    assert (ran.status, ran.out, calls[3:]) == (0, "shop: would take back the reset of shop.t\n", [])
    ran = stratalog(*about, "--undo", "--yes")
    assert (ran.status, ran.out, calls[3:]) == (0, "shop: takes back the reset of shop.t\n", ["unreset"])
    assert stratalog(*about, "--undo", "--drop-older-rows").status == 2
