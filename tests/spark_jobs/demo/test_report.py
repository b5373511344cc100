import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.demo.compare import DemoComparison
from spark_jobs.demo.export_check import ExportedFiles
from spark_jobs.demo.folder import DemoFolder
from spark_jobs.demo.report import DemoReport, aligned, command_name
from spark_jobs.demo.run_totals import RunTotals
from spark_jobs.log.position import Position, Range

ORDERS, CARTS = TableName("shop", "orders"), TableName("shop", "carts")


def at(number: int, offset: int) -> Position:
    return Position(f"mysql-bin.{number:06}", offset)


@pytest.fixture
def report() -> DemoReport:
    totals = RunTotals(
        runs=2,
        ranges=[Range(at(1, 4), at(1, 5000)), Range(at(1, 5000), at(2, 300))],
        bytes=5_300,
        transactions=12,
        changes=Counter({ORDERS: 1500, CARTS: 2}),
        net=Counter({ORDERS: 1200, CARTS: 2}),
        merged=1100,
        seconds=Counter({"bronze": 2, "silver": 3, "downstream": 4}),
    )
    tables = {CARTS: DemoComparison(rows=2, equal=2), ORDERS: DemoComparison(rows=1000, equal=1000)}
    return DemoReport("A story.", "the server", DemoFolder(Path("demo")), totals, tables, ExportedFiles(2, 5_300))


def test_text(report: DemoReport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["stratalog"])
    monkeypatch.setenv("PATH", "")
    assert (
        report.text()
        == """\
A story.

positions  mysql-bin.000001:4 to mysql-bin.000002:300, in 2 runs
  run 1    [mysql-bin.000001:4, mysql-bin.000001:5000)
  run 2    [mysql-bin.000001:5000, mysql-bin.000002:300)

layer       processed                                               seconds     a second
bronze      5,300 bytes of log, 12 transactions                         2.0  2,650 bytes
silver      1,502 changes decoded, 1,202 rows: one per key and run      3.0  501 changes
downstream  1,100 rows merged                                           4.0     275 rows

table        changes  silver  downstream  equal  missing  extra  different
shop.carts         2       2           2      2        0      0          0
shop.orders    1,500   1,200       1,000  1,000        0      0          0
silver: one row per key and run; a change of a row's key makes two, so that there may be more rows than changes

equal: 1,002 rows in 2 tables, every column, to the server
equal: 2 binlog files, 5,300 bytes, exported from bronze, to the server's own

the lake      demo/lake
its status    stratalog status -c demo/pipeline.yaml
its changes   stratalog changes -c demo/pipeline.yaml --source shop --table shop.orders | head
its tables    spark.read.format('delta').load('demo/lake/downstream/shop/orders').show()
Dagster's UI  make dev"""
    )
    assert report.equal


def test_a_row_that_differs(report: DemoReport) -> None:
    orders = DemoComparison(rows=1000, equal=998, missing=1, different=1, extra=3, samples=("missing: id 7",))
    changed = replace(report, compared={ORDERS: orders})
    assert not changed.equal
    lines = changed.text().splitlines()
    assert "shop.orders    1,500   1,200       1,002    998        1      3          1" in lines
    assert "shop.orders: missing: id 7" in lines
    assert "NOT EQUAL to the server: shop.orders" in lines


def test_an_exported_file_that_differs(report: DemoReport) -> None:
    changed = replace(report, log=ExportedFiles(2, 5_300, ("mysql-bin.000002",)))
    assert not changed.equal
    assert (
        "NOT EQUAL: 2 binlog files, 5,300 bytes, exported from bronze: mysql-bin.000002" in changed.text().splitlines()
    )


def test_a_table_that_stopped(report: DemoReport) -> None:
    report.totals.stopped[CARTS] = "shop: shop.carts: no primary key"
    assert not report.equal
    assert "stopped: shop: shop.carts: no primary key" in report.text().splitlines()


def test_without_rates(report: DemoReport) -> None:
    assert "a second" not in replace(report, rates=False).text()


def test_hints_and_another_folder(report: DemoReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = replace(report, folder=DemoFolder(Path("other")), hints=[("more", "cp a b")])
    assert changed.text().splitlines()[-2:] == ["more          cp a b", "Dagster's UI  make dev DEMO=other"]
    monkeypatch.chdir(tmp_path)  # where there is no Makefile
    assert "make dev" not in changed.text()


@pytest.mark.parametrize(
    "started, path, expected",
    [
        ("{here}/.venv/bin/stratalog", "", ".venv/bin/stratalog"),
        ("{here}/.venv/bin/stratalog", "{here}/.venv/bin", "stratalog"),
        ("/opt/bin/stratalog", "", "/opt/bin/stratalog"),
        ("/usr/lib/python3/site-packages/pytest/__main__.py", "", "stratalog"),
    ],
)
def test_the_command_can_be_typed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: str, path: str, expected: str
) -> None:
    executable = tmp_path / ".venv" / "bin" / "stratalog"
    executable.parent.mkdir(parents=True)
    executable.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [started.format(here=tmp_path)])
    monkeypatch.setenv("PATH", path.format(here=tmp_path))
    assert command_name() == expected


def test_aligned() -> None:
    assert aligned([("a", "1"), ("bcd", "10")], right=[1]) == ["a     1", "bcd  10"]
