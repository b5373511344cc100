import json
import re
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.cli.status import print_status
from spark_jobs.errors import SourceError
from spark_jobs.operations.observation.failures import noted
from spark_jobs.operations.observation.status import SourceStatus, TableStatus
from spark_jobs.operations.observation.verified import DIFFERS, EQUAL, MENDED, NOT_COMPARED, Verified
from spark_jobs.silver.quarantine import Skip
from tests.fix_cli import SPEC, Stratalog

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "recorded"

SKIP = Skip("shop", "t", "mysql-bin.000001:99", "Write_rows event", "shop.t: a damaged value")


def test_status_of_a_source_that_nothing_was_read_of(stratalog: Stratalog, pipeline_file: Path) -> None:
    size = len(SPEC.to_bytes())
    ran = stratalog("status", "-c", pipeline_file)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == f"shop: nothing read yet\n  log     mysql-bin.000001:{size}\n  bronze  empty\n"
    assert json.loads(stratalog("status", "-c", pipeline_file, "--json").out) == {
        "sources": {
            "shop": {
                "source": "shop",
                "end": f"mysql-bin.000001:{size}",
                "bronze": None,
                "backlog_bytes": size,
                "lag_seconds": None,
                "retention_margin_bytes": None,
                "retention_margin_hours": None,
                "quarantined_events": 0,
                "error": None,
                "warning": None,
                "tables": [],
                "endpoint": None,
                "stretch": None,
                "endpoints": [],
                "skips": [],
                "alarms": [],
                "cascades": [],
                "subscriptions": [],
            }
        }
    }


def test_status_names_the_tables_that_foreign_keys_change_unlogged(capsys: pytest.CaptureFixture[str]) -> None:
    key = {"table": "shop.c", "constraint": "f", "parent": "shop.p", "on_delete": "CASCADE", "on_update": "NO ACTION"}
    status = SourceStatus("shop", "a.1:9", "a.1:9", 0, 0.0, None, None, 0, None, None, [], cascades=[key])
    print_status(status, everything=False)
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].split() == ["shop.c", "f", "CASCADE", "NO", "ACTION", "shop.p"]
    assert err.startswith(
        "shop: 1 foreign key changes child rows, which the server does not log: shop.c (f -> shop.p ON DELETE CASCADE);"
    )


def test_status_names_what_is_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    skip = {
        "table": "shop.t",
        "position": SKIP.position,
        "event": SKIP.event,
        "skipped_at": "2026-01-01T00:00:00+00:00",
    }
    status = SourceStatus("shop", "a.1:9", "a.1:9", 0, 0.0, None, None, 0, None, None, [], skips=[skip])
    print_status(status, everything=False)
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-2:]] == [
        ["quarantined", "for", "at", "event", "since"],
        ["shop.t", SKIP.position, "Write_rows", "event", skip["skipped_at"]],
    ]


def test_status_says_that_a_table_is_reset(capsys: pytest.CaptureFixture[str]) -> None:
    table = TableStatus("shop.t", "reset", None, "a.1:9", "reset at 2026-01-01; the next run rebuilds it")
    print_status(SourceStatus("shop", "a.1:9", "a.1:9", 0, 0.0, None, None, 0, None, None, [table]), everything=False)
    out, err = capsys.readouterr()
    assert out.startswith("shop: behind")
    assert err == "shop.t is reset at 2026-01-01; the next run rebuilds it\n"


def test_status_names_tables_whose_columns_are_numbered(capsys: pytest.CaptureFixture[str]) -> None:
    tables = [TableStatus(name, state, "a.1:9", "a.1:9", None, True, numbered=True)
            for name, state in (("shop.t", "current"), ("shop.out", "ignored"))]  # fmt: skip
    status = SourceStatus("shop", "a.1:9", "a.1:9", 0, 0.0, None, None, 0, None, None, tables)
    print_status(status, everything=False)
    assert capsys.readouterr().err == (
        "shop.t has numbers for columns, and its rows are counted: nothing names them (on_unnamed: number)\n"
    )
    assert [table["numbered"] for table in status.to_json()["tables"]] == [True, True]


ENDPOINTS = """
lake: ./lake
sources: {shop: {mysql: {user: r}, endpoints: [{host: 127.0.0.1, port: 1}, {host: 127.0.0.1, port: 2}]}}
"""


def test_endpoints_that_do_not_answer_are_told_one_by_one(stratalog: Stratalog, pipeline_file: Path) -> None:
    pipeline_file.write_text(ENDPOINTS)
    for ran in (stratalog("status", "-c", pipeline_file), stratalog("status", "-c", pipeline_file)):
        assert ran.status == 1
        lines = [line for line in ran.out.splitlines() if line.startswith("127.0.0.1:")]
        assert [line.split()[:2] for line in lines] == [[f"127.0.0.1:{n}", "unavailable"] for n in (1, 2)]
        assert "shop: none of its endpoints can be read\n127.0.0.1:1: cannot be reached: Connection refused" in ran.err
    endpoints = json.loads(stratalog("status", "-c", pipeline_file, "--json").out)["sources"]["shop"]["endpoints"]
    assert [(endpoint["endpoint"], endpoint["in_use"], endpoint["available"]) for endpoint in endpoints] == [
        ("127.0.0.1:1", False, False),
        ("127.0.0.1:2", False, False),
    ]
    assert all(endpoint["unavailable_since"] < endpoint["next_try"] for endpoint in endpoints)
    checked = stratalog("check", "-c", pipeline_file, "--connect")
    assert checked.status == 1
    for n in (1, 2):
        assert f"sources.shop (127.0.0.1:{n}):\n  problem  connection  127.0.0.1:{n} " in checked.out


def test_status_shows_the_lake_where_the_source_does_not_answer(stratalog: Stratalog, pipeline_file: Path) -> None:
    (pipeline_file.parent / "binlogs" / "mysql-bin.000001").unlink()
    ran = stratalog("status", "-c", pipeline_file)
    assert ran.status == 1
    assert ran.out == "shop: cannot be read\n  log     unknown\n  bronze  empty\n"
    assert ran.err.splitlines() == [
        f"shop: {pipeline_file.parent}/binlogs holds no binlog files (named like mysql-bin.000001)",
        (
            "exit status 1: shop: the source cannot be read; stratalog check -c pipeline.yaml --connect lists what is "
            "wrong with it"
        ),
    ]
    ran = stratalog("status", "-c", pipeline_file, "--json")
    assert ran.status == 1
    assert [alarm["kind"] for alarm in json.loads(ran.out)["sources"]["shop"]["alarms"]] == ["unreachable"]
    assert ran.err.startswith("exit status 1: shop: the source cannot be read; ")


def test_status_fails_where_the_last_run_failed(stratalog: Stratalog, pipeline_file: Path) -> None:
    with pytest.raises(SourceError), noted(pipeline_file, "shop", is_last=True):
        raise SourceError("shop: a file is missing")
    ran = stratalog("status", "-c", pipeline_file)
    assert ran.status == 1
    assert "exit status 1: shop: the last run failed, since 20" in ran.err
    assert ": shop: a file is missing; stratalog check --connect lists the problems" in ran.err
    with noted(pipeline_file, "shop", is_last=True):
        pass
    assert stratalog("status", "-c", pipeline_file).status == 0


def at(position: str | None, **keys: Any) -> SourceStatus:
    """A source whose bronze is there; its log ends at b.000002:900."""
    defaults: dict[str, Any] = {
        "end": "b.000002:900",
        "backlog_bytes": 0,
        "lag_seconds": 0.0,
        "error": None,
        "warning": None,
    }
    margin = {"retention_margin_bytes": 1_500_000, "retention_margin_hours": 49.5, "quarantined_events": 0}
    return SourceStatus(**({"source": "shop", "bronze": position, "tables": []} | defaults | margin | keys))


def table(name: str, location: str, state: str = "current", **keys: Any) -> TableStatus:
    return TableStatus(name, state, location, location, keys.pop("reason", None), **keys)


END = "b.000002:900"
VERIFIED_AT = "2026-11-28T10:00:00+00:00"
CASCADE = {"table": "a.a", "constraint": "f", "parent": "a.p", "on_delete": "CASCADE", "on_update": "RESTRICT"}


def verified(name: str, state: str) -> TableStatus:
    """A table whose last comparison came to a state."""
    schema, short = name.split(".")
    last = Verified(schema, short, state, END, VERIFIED_AT, missing=int(state == DIFFERS))
    return table(name, END, verified=last.to_json())


CONDITIONS: list[tuple[SourceStatus, str]] = [
    (at(END), "up to date"),
    (at(END, tables=[table("a.a", END), table("a.b", "b.000001:4", "ignored")]), "up to date"),
    (at(END, tables=[table("a.a", END)], cascades=[CASCADE]), "up to date, but rows of 1 table are changed unlogged"),
    (at(END, tables=[verified("a.a", DIFFERS)]), "up to date, but rows of 1 table are not the server's"),
    (at("b.000001:4", tables=[verified("a.a", DIFFERS)]), "behind, but rows of 1 table are not the server's"),
    (at(END, tables=[verified("a.a", EQUAL), verified("a.b", MENDED)]), "up to date"),
    (at("b.000001:4", backlog_bytes=1_500, lag_seconds=200.0), "behind"),
    (at(END, tables=[table("a.a", "b.000001:4")]), "behind"),
    (at(END, tables=[table("a.a", END), table("a.b", "b.000001:4", "stopped")]), "1 of 2 tables stopped"),
    (at(END, warning="the source has only 96 bytes"), "near to losing log"),
    (at(END, error="gone", tables=[table("a.b", END, "stopped")]), "cannot be read"),
    (at(None), "nothing read yet"),
]


@pytest.mark.parametrize("status, word", CONDITIONS)
def test_status_says_first_how_a_source_is(capsys: pytest.CaptureFixture[str], status: SourceStatus, word: str) -> None:
    print_status(status, everything=False)
    assert capsys.readouterr().out.splitlines()[0] == f"shop: {word}"


def test_a_table_that_is_changed_unlogged_is_not_called_current_alone(capsys: pytest.CaptureFixture[str]) -> None:
    tables = [table("a.a", END), table("a.p", END), *(table(f"a.t{number}", END) for number in range(200))]
    print_status(at(END, tables=tables, cascades=[CASCADE]), everything=False)
    listed = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("a.")]
    assert listed[0][:3] == ["a.a", "current,", "unverified"], "it is listed among many that are as they should be"
    assert "a.p" not in [words[0] for words in listed]


@pytest.mark.parametrize(
    "name, state, expected",
    [
        ("a.a", EQUAL, "current, unverified since 2026-11-28T10:00:00+00:00"),
        ("a.a", MENDED, "current, unverified since 2026-11-28T10:00:00+00:00"),
        ("a.a", NOT_COMPARED, "current, unverified"),
        ("a.a", DIFFERS, "current, differs since 2026-11-28T10:00:00+00:00"),
        ("a.b", DIFFERS, "current, differs since 2026-11-28T10:00:00+00:00"),
        ("a.b", EQUAL, "current"),
    ],
)
def test_the_last_comparison_is_in_a_tables_state(
    capsys: pytest.CaptureFixture[str], name: str, state: str, expected: str
) -> None:
    print_status(at(END, tables=[verified(name, state)], cascades=[CASCADE]), everything=True)
    rows = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]
    assert [row[1] for row in rows if row[0] == name and row[1].startswith("current")] == [expected]


def test_status_says_where_the_layers_are_in_a_readers_units(capsys: pytest.CaptureFixture[str]) -> None:
    tables = [table("a.a", "b.000001:4"), table("a.b", "b.000001:4", "stopped", reason="an ALTER")]
    print_status(
        at("b.000001:4", backlog_bytes=1_500, lag_seconds=200.0, endpoint="db1:3306", stretch=2, tables=tables),
        everything=False,
    )
    out, err = capsys.readouterr()
    assert out.splitlines()[1:6] == [
        "  log     b.000002:900",
        "  bronze  b.000001:4, behind by 1.5 kB, 3 minutes",
        "  margin  1.5 MB of log, 2 days, read already, still at the source",
        "  server  db1:3306, stretch 2 of the log",
        "  tables  1 current, 1 stopped",
    ]
    assert err == "a.b stopped: an ALTER\n"


def test_status_lists_each_downstream_table_of_one_that_goes_to_several(capsys: pytest.CaptureFixture[str]) -> None:
    targets = [
        {"table": name, "downstream": location, "reason": None, "watermark": None, "mode": "mirror"}
        for name, location in (("a.a", END), ("b.a", None))
    ]
    print_status(at(END, tables=[table("a.a", END, targets=targets)]), everything=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "shop: behind", "one of them has nothing of it yet"
    assert [line.split() for line in lines[-3:]] == [
        ["table", "into", "downstream"],
        ["a.a", "a.a", END],
        ["a.a", "b.a"],
    ]


def test_of_many_tables_status_lists_those_that_need_a_look(capsys: pytest.CaptureFixture[str]) -> None:
    well = [table(f"a.t{number}", END, complete=True) for number in range(30)]
    odd = [table("b.behind", "b.000001:4"), table("b.stopped", END, "stopped"), table("b.older", END, complete=False)]
    print_status(at(END, tables=[*well, *odd]), everything=False)
    line_list = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in line_list[5:]] == ["table", "b.behind", "b.stopped", "b.older", "30"]
    print_status(at(END, tables=[*well, *odd]), everything=True)
    assert len(capsys.readouterr().out.splitlines()) == 5 + 1 + 33


def test_report_writes_a_page_a_source(stratalog: Stratalog, pipeline_file: Path) -> None:
    folder = pipeline_file.parent / "reports"
    ran = stratalog("report", "-c", pipeline_file, "--to", folder)
    assert (ran.status, ran.out, ran.err) == (0, f"{folder / 'shop.html'}\n", "")
    assert "<h1>shop</h1>" in (folder / "shop.html").read_text()


def test_a_report_that_cannot_be_written_says_so(stratalog: Stratalog, pipeline_file: Path) -> None:
    ran = stratalog("report", "-c", pipeline_file, "--to", pipeline_file)
    assert ran.status == 2
    assert f"{pipeline_file}: a report cannot be written there" in ran.err


def test_reports_lie_where_the_configuration_says(stratalog: Stratalog, pipeline_file: Path) -> None:
    ran = stratalog("report", "-c", pipeline_file)
    assert (ran.status, ran.out) == (0, f"{pipeline_file.parent / 'reports' / 'shop.html'}\n")
    pipeline_file.write_text(pipeline_file.read_text() + "\nreports: {to: null}\n")
    ran = stratalog("report", "-c", pipeline_file)
    assert ran.status == 2
    assert "reports.to is null in pipeline.yaml: name a folder by --to" in ran.err


def test_status_lists_the_modes_of_tables_that_are_no_mirrors(capsys: pytest.CaptureFixture[str]) -> None:
    target = {"table": "b.a", "downstream": END, "reason": None, "watermark": None, "mode": "append"}
    tables = [table("a.a", END, mode="history"), table("a.b", END, targets=[target]), table("a.c", END, mode="mirror")]
    print_status(at(END, tables=tables), everything=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    start = lines.index(["mode", "of", "mode"])
    assert lines[start + 1 : start + 3] == [["a.a", "history"], ["b.a", "append"]]
    assert ["a.c", "mirror"] not in lines
