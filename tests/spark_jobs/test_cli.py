import gzip
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import deltalake
import pytest
from deltalake import CommitProperties, Transaction

from spark_jobs import bronze
from spark_jobs.binlog import TableName
from spark_jobs.cli import _say_status, cli, main
from spark_jobs.lake import Checkpoint
from spark_jobs.mend import Reset
from spark_jobs.position import Position
from spark_jobs.published import Entry
from spark_jobs.skips import Skip
from spark_jobs.status import SourceStatus, TableStatus
from spark_jobs.verify import Difference, Verdict
from tests.segment_spec import Commit, Insert, SegmentSpec, Statement, Table
from tests.segment_types import INT, VARCHAR

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "recorded"
VERBS = sorted(cli.commands)
CONTRACT = [
    *("backfill", "changes", "check", "compact", "demo", "events", "export", "extract", "gc", "merge", "run", "status"),
    "verify",
]
SPEC = SegmentSpec(
    tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20))],
    changes=[Insert("shop.t", (1, "ä")), Commit(), Statement("shop", "TRUNCATE t")],
)


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs the command in this process. Its logging goes when the test does."""
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.getLogger("spark_jobs").level

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["stratalog", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            status: Any = 0
        except SystemExit as ended:
            status = ended.code or 0
        out, err = capsys.readouterr()
        return Ran(int(status), out, err)

    yield run
    root.handlers[:], root.level, logging.getLogger("spark_jobs").level = before


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "binlogs").mkdir()
    (tmp_path / "binlogs" / "mysql-bin.000001").write_bytes(SPEC.to_bytes())
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources:\n  shop: {files: ./binlogs}\n")
    return path


def test_the_verbs_are_those_of_the_contract() -> None:
    assert set(CONTRACT) <= set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help_with_an_example(run: Run, verb: str) -> None:
    ran = run(verb, "--help")
    assert (ran.status, ran.err) == (0, "")
    examples = re.findall(rf"Example: (stratalog {verb}\b(?:[^\n\\]|\\\n)*)", ran.out)
    assert examples
    for example in examples:
        words = example.replace("\\\n", " ").split()[2:]
        cli.commands[verb].make_context(verb, words, resilient_parsing=False)


@pytest.mark.parametrize("verb", VERBS)
def test_each_option_says_what_it_is_for(verb: str) -> None:
    options = [one for one in cli.commands[verb].params if isinstance(one, click.Option)]
    assert [one.name for one in options if not one.help] == []


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_stands_in_the_readme(verb: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.search(r"^#+ Commands\n(.*?)(?=^#+ |\Z)", readme, re.MULTILINE | re.DOTALL)
    if commands:  # a page without that chapter promises nothing
        assert re.search(rf"`(stratalog )?{verb}\b", commands[1])


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "Usage: stratalog"),
        (["nonsense"], "No such command 'nonsense'"),
        (["events"], "Missing argument 'FILES...'"),
        (["gc"], "Missing option '-c' / '--config'"),
        (["check"], "Missing option '-c' / '--config'"),
        (["run", "-c", "x.yaml", "--nonsense"], "No such option '--nonsense'"),
        (["changes"], "give binlog files, or -c FILE with --source, and not both"),
        (["changes", "a.000001", "-c", "x.yaml"], "give binlog files, or -c FILE with --source, and not both"),
        (["changes", "a.000001", "--from", "a.000001:4"], "--source, --from and --to go with -c FILE"),
        (["changes", "a.000001", "--table", "orders"], "'orders' is not a table pattern"),
        (["check", "-c", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (
            ["backfill", "-c", "x", "--source", "s", "--from", "now", "--to", "a.000001:4"],
            "'now' is no place in a log",
        ),
        (
            ["backfill", "-c", "x", "--source", "s", "--from", "a.000002:4", "--to", "a.000001:4"],
            "the range ends at a.000001:4, before its start at a.000002:4",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_2_and_said_on_standard_error(run: Run, arguments: list[str], said: str) -> None:
    ran = run(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("demo", "events", "changes")])
def test_each_verb_of_a_pipeline_lists_every_problem_of_its_configuration(run: Run, tmp_path: Path, verb: str) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text("sources: {shop: {mysql: {password: geheim}}}\ntables: [orders]\n")
    more: dict[str, list[object]] = {
        "export": ["--source", "shop", "--to", tmp_path / "out"],
        "report": ["--to", tmp_path / "out"],
        "backfill": ["--source", "shop", "--from", "a.000001:4", "--to", "a.000002:4"],
        "skip": ["--source", "shop", "--at", "a.000001:4"],
        "reset": ["--source", "shop", "--table", "shop.t"],
    }
    ran = run(verb, "-c", path, *more.get(verb, []))
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "pipeline.yaml: lake: missing",
        "pipeline.yaml: sources.shop.mysql.user: missing",
        "pipeline.yaml: tables[0]: 'orders' is not a table pattern; write it like shop.orders or shop.*",
    ]


@pytest.mark.parametrize("verb", ["run", "status", "extract", "compact", "merge"])
def test_a_source_that_is_not_configured_is_2(run: Run, pipeline: Path, verb: str) -> None:
    ran = run(verb, "-c", pipeline, "--source", "crm")
    assert (ran.status, ran.out, ran.err) == (2, "", "pipeline.yaml: no source 'crm'; it has shop\n")


def test_check_says_that_all_is_well(run: Run, pipeline: Path) -> None:
    for arguments in ([], ["--connect"]):
        ran = run("check", "-c", pipeline, *arguments)
        assert (ran.status, ran.out, ran.err) == (0, f"{pipeline}: no problems found\n", "")


def test_check_reads_schema_dumps(run: Run, pipeline: Path) -> None:
    log, place = pipeline.parent / "log", "-- CHANGE MASTER TO MASTER_LOG_FILE='b.000001', MASTER_LOG_POS=4;\n"
    pipeline.write_text(f"lake: x\nsources: {{shop: {{files: {log}, schema_dump: s.sql}}}}\n")
    dump = pipeline.parent / "s.sql"
    assert f"sources.shop.schema_dump: {dump}: it cannot be read: No such file" in run("check", "-c", pipeline).err
    for text, why in (
        ("CREATE TABLE d.t (a INT);", "it does not say at which position of the log it was taken"),
        (f"{place}CREATE TABLE d.t (a WHAT);", "line 2: CREATE TABLE of d.t cannot be read"),
        (f"{place}CREATE TABLE t (a INT);", "line 2: the statement that begins there cannot be read: CREATE TABLE t"),
    ):
        dump.write_text(text)
        ran = run("check", "-c", pipeline)
        assert (ran.status, ran.out) == (2, "")
        assert ran.err.startswith(f"sources.shop.schema_dump: {dump}: {why}")
    dump.write_text(f"{place}CREATE TABLE d.t (a INT);")
    assert run("check", "-c", pipeline).status == 0


def test_check_with_connect_asks_every_source(run: Run, pipeline: Path) -> None:
    text = "lake: x\nsources:\n  gone: {files: ./gone}\n  down: {mysql: {user: u, port: 1, connect_timeout: 2}}\n"
    pipeline.write_text(text)
    ran = run("check", "-c", pipeline, "--connect")
    gone = pipeline.parent / "gone"
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"sources.gone: {gone} cannot be read: No such file or directory",
        (
            "sources.down: 127.0.0.1:1 answered: Can't connect to MySQL server on '127.0.0.1' "
            "([Errno 111] Connection refused)"
        ),
    ]


def test_events_are_what_the_server_shows(run: Run) -> None:
    """The recorded server's SHOW BINLOG EVENTS stands beside the file; what it adds to a note is its own."""
    name = "mysql-8.0-transactions"
    shown = json.loads((RECORDED / f"{name}.json").read_text())
    ran = run("events", RECORDED / f"{name}.000001")
    assert (ran.status, ran.err) == (0, "")
    cells = [line.split("\t") for line in ran.out.splitlines()]
    assert {len(line) for line in cells} == {8}
    assert {line[0] for line in cells} == {f"{name}.000001"}
    assert [[int(line[1]), line[2], int(line[3]), int(line[4])] for line in cells] == [event[:4] for event in shown]


def test_events_are_literally_so(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes())
    gtid = "10111213-1415-1617-1819-1a1b1c1d1e1f"
    at = SPEC.offsets()
    ran = run("events", file)
    assert ran.out.splitlines() == [
        f"b.000001\t{at[0]}\tFormat_desc\t1\t{at[1]}\t\t\tServer ver: 8.0.36, Binlog ver: 4",
        f"b.000001\t{at[1]}\tPrevious_gtids\t1\t{at[2]}\t\t\t",
        f"b.000001\t{at[2]}\tGtid\t1\t{at[3]}\t{gtid}:1\t\t",
        f"b.000001\t{at[3]}\tQuery\t1\t{at[4]}\t{gtid}:1\t\tBEGIN",
        f"b.000001\t{at[4]}\tTable_map\t1\t{at[5]}\t{gtid}:1\tshop.t\ttable_id: 100 (shop.t)",
        f"b.000001\t{at[5]}\tWrite_rows\t1\t{at[6]}\t{gtid}:1\tshop.t\ttable_id: 100 flags: STMT_END_F",
        f"b.000001\t{at[6]}\tXid\t1\t{at[7]}\t{gtid}:1\t\tCOMMIT /* xid=43 */",
        f"b.000001\t{at[7]}\tGtid\t1\t{at[8]}\t{gtid}:2\t\t",
        f"b.000001\t{at[8]}\tQuery\t1\t{at[9]}\t{gtid}:2\t\tuse `shop`; TRUNCATE t",
        f"b.000001\t{at[9]}\tRotate\t1\t{at[10]}\t\t\tmysql-bin.000002;pos=4",
    ]
    lines = [json.loads(line) for line in run("events", "--json", file).out.splitlines()]
    assert lines[4] == {
        "file": "b.000001",
        "offset": at[4],
        "type": "Table_map",
        "server_id": 1,
        "stop": at[5],
        "transaction": f"{gtid}:1",
        "table": "shop.t",
        "note": "table_id: 100 (shop.t)",
    }


def test_changes_are_json_lines_alone_on_standard_output(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes())
    ran = run("changes", file)
    assert (ran.status, ran.err) == (0, "")
    (line,) = ran.out.splitlines()
    assert line.endswith('"op": "insert", "before": null, "after": {"id": 1, "note": "ä"}}')
    assert run("changes", file, "--table", "shop.u") == Ran(0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["events", "changes"])
def test_a_dash_is_standard_input_and_several_files_follow_each_other(run: Run, tmp_path: Path, verb: str) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes())
    once = run(verb, file).out
    assert run(verb, file, file).out == once * 2
    with file.open("rb") as stream:
        command = [sys.executable, "-m", "spark_jobs.cli", verb, "-"]
        read = subprocess.run(command, cwd=ROOT, stdin=stream, capture_output=True, check=False)
    assert (read.returncode, read.stderr) == (0, b"")
    assert read.stdout.decode() == once.replace('"file": "b.000001"', '"file": "-"').replace("b.000001\t", "-\t")


@pytest.mark.parametrize("verb", ["events", "changes"])
def test_a_packed_file_is_refused_by_name(run: Run, tmp_path: Path, verb: str) -> None:
    file = tmp_path / "b.000001.gz"
    file.write_bytes(gzip.compress(SPEC.to_bytes()))
    ran = run(verb, file)
    assert ran == Ran(1, "", "b.000001.gz: compressed by gzip; unpack it first, into a file or a pipe\n")


def test_events_of_one_table(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes())
    lines = run("events", file, "--table", "shop.*").out.splitlines()
    assert [line.split("\t")[2] for line in lines] == ["Table_map", "Write_rows"]
    assert run("events", file, "--table", "shop.u") == Ran(0, "", "")
    assert run("events", file, "--summary", "--table", "shop.u").status == 2


def test_the_summary_adds_up_to_the_files_size(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    content = SPEC.to_bytes()
    file.write_bytes(content)
    ran = run("events", "--summary", file)
    assert (ran.status, ran.err) == (0, "")
    cells = [line.split() for line in ran.out.splitlines()]
    assert cells[-1] == ["in", "all", "10", str(len(content))]
    assert sum(int(line[-1]) for line in cells[1:-1]) == len(content)
    found = json.loads(run("events", "--summary", "--json", file).out)
    assert found["size"] == found["magic"] + sum(one["bytes"] for one in found["types"]) == len(content)


def test_the_summary_of_a_damaged_file_says_what_was_not_read(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes()[:-10])
    ran = run("events", "--summary", file)
    assert ran.status == 1
    rest = len(SPEC.to_bytes()) - 10 - SPEC.offsets()[-2]
    assert ["not", "read", "refused", str(rest)] in [line.split() for line in ran.out.splitlines()]
    assert ran.err == f"b.000001:{SPEC.offsets()[-2]}: the file ends inside an event, {rest} bytes after its start\n"


@pytest.mark.parametrize("verb", ["events", "changes"])
def test_what_was_read_before_a_failure_stays_and_the_status_is_1(run: Run, tmp_path: Path, verb: str) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes()[:-60])
    ran = run(verb, file)
    assert ran.status == 1
    assert ran.out.startswith(("b.000001\t4\tFormat_desc", '{"source": null, "file": "b.000001"'))
    assert re.match(r"b\.000001:\d+: .* end", ran.err)
    missing = run(verb, tmp_path / "none")
    assert missing == Ran(1, "", f"{tmp_path}/none: cannot be read: No such file or directory\n")


def test_a_check_tells_what_the_source_has_purged(run: Run, pipeline: Path) -> None:
    checkpoint = Checkpoint(Position("mysql-bin.000001", 4), "b", notes={"begin": "mysql-bin.000001:4"})
    said = CommitProperties(
        custom_metadata={"userMetadata": checkpoint.to_json()}, app_transactions=[Transaction("stratalog", 1)]
    )
    path = pipeline.parent / "lake" / "bronze" / "shop"
    deltalake.write_deltalake(path, bronze.ARROW.empty_table(), commit_properties=said)
    assert run("check", "-c", pipeline, "--connect").status == 0
    (pipeline.parent / "binlogs" / "mysql-bin.000001").rename(pipeline.parent / "binlogs" / "mysql-bin.000002")
    ran = run("check", "-c", pipeline, "--connect")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("sources.shop: mysql-bin.000001 is gone from the source, whose oldest file is mysql-bin.")


def test_status_of_a_source_that_nothing_was_read_of(run: Run, pipeline: Path) -> None:
    size = len(SPEC.to_bytes())
    ran = run("status", "-c", pipeline)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == f"shop: nothing read yet\n  log     mysql-bin.000001:{size}\n  bronze  empty\n"
    assert json.loads(run("status", "-c", pipeline, "--json").out) == {
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
            }
        }
    }


SKIP = Skip("shop", "t", "mysql-bin.000001:99", "Write_rows event", "shop.t: a damaged value")


def test_an_event_is_passed_over_only_when_told_yes(run: Run, pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No JVM is started for what is only planned."""
    asked: list[tuple[object, ...]] = []

    def planned(_: object, *about: object) -> list[Skip]:
        asked.append(about)
        return [SKIP]

    monkeypatch.setattr("spark_jobs.mend.plan_skip", planned)
    monkeypatch.setattr("spark_jobs.mend.plan_undo", planned)
    about = ("skip", "-c", pipeline, "--source", "shop", "--at", "mysql-bin.000001:99")
    ran = run(*about, "--table", "shop.t")
    assert (ran.status, ran.out) == (0, "shop: would pass over shop.t: mysql-bin.000001:99 (Write_rows event)\n")
    assert ran.err == "shop.t had stopped: shop.t: a damaged value\nnothing is changed yet; --yes does it\n"
    ran = run(*about, "--undo")
    assert (ran.status, ran.out) == (0, "shop: would take back shop.t: mysql-bin.000001:99 (Write_rows event)\n")
    assert asked == [("shop", "mysql-bin.000001:99", "shop.t"), ("shop", "mysql-bin.000001:99", None)]


def test_status_names_what_is_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    said = {
        "table": "shop.t",
        "position": SKIP.position,
        "event": SKIP.event,
        "skipped_at": "2026-01-01T00:00:00+00:00",
    }
    one = SourceStatus("shop", "a.1:9", "a.1:9", 0, 0.0, None, None, 0, None, None, [], skips=[said])
    _say_status(one, everything=False)
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-2:]] == [
        ["passed", "over", "for", "at", "event", "since"],
        ["shop.t", SKIP.position, "Write_rows", "event", said["skipped_at"]],
    ]


def test_nothing_is_passed_over_of_a_bronze_that_is_empty(run: Run, pipeline: Path) -> None:
    ran = run("skip", "-c", pipeline, "--source", "shop", "--at", "mysql-bin.000001:99")
    empty = "shop: bronze holds nothing yet; the first run of the source fills it\n"
    assert (ran.status, ran.out, ran.err) == (1, "", empty)
    ran = run("skip", "-c", pipeline, "--source", "shop", "--at", "yesterday")
    assert ran.status == 2
    assert ran.err.startswith("--at: 'yesterday' is not a position")


def test_a_table_is_reset_only_when_told_yes(run: Run, pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("shop", "shop", "t", "stopped", reason="shop.t: a damaged value", merged="mysql-bin.000002:99")
    planned = Reset(entry, Position("mysql-bin.000001", 4), 1234, "2 of its rows were loaded")
    done: list[object] = []
    monkeypatch.setattr("spark_jobs.cli._spark", lambda _: nullcontext())

    def plan(*_: object, drops_older: bool) -> Reset:
        done.append(drops_older)
        return planned

    monkeypatch.setattr("spark_jobs.mend.plan_reset", plan)
    monkeypatch.setattr("spark_jobs.mend.plan_unreset", lambda *_: entry)
    monkeypatch.setattr("spark_jobs.mend.reset", lambda *_: done.append("reset"))
    monkeypatch.setattr("spark_jobs.mend.unreset", lambda *_: done.append("unreset"))
    about = ("reset", "-c", pipeline, "--source", "shop", "--table", "shop.t")
    ran = run(*about)
    assert (ran.status, done) == (0, [False])
    assert ran.out.splitlines() == [
        "shop: shop.t would be done over by the next run, from mysql-bin.000001:4, where bronze begins",
        "shop: shop.t has 1,234 rows downstream, as of mysql-bin.000002:99; they stay until that run is done with it",
    ]
    assert ran.err.splitlines() == [
        "shop.t will lack some: 2 of its rows were loaded",
        "shop.t had stopped: shop.t: a damaged value",
        "nothing is changed yet; --yes does it",
    ]
    ran = run(*about, "--drop-older-rows", "--yes")
    assert (ran.status, done[1:], "would" in ran.out, "nothing is changed" in ran.err) == (
        0,
        [True, "reset"],
        False,
        False,
    )
    ran = run(*about, "--undo")
    assert (ran.status, ran.out, done[3:]) == (0, "shop: would take back the reset of shop.t\n", [])
    ran = run(*about, "--undo", "--yes")
    assert (ran.status, ran.out, done[3:]) == (0, "shop: takes back the reset of shop.t\n", ["unreset"])
    assert run(*about, "--undo", "--drop-older-rows").status == 2


def test_status_says_that_a_table_is_reset(capsys: pytest.CaptureFixture[str]) -> None:
    table = TableStatus("shop.t", "reset", None, "a.1:9", "reset at 2026-01-01; the next run does it over")
    _say_status(SourceStatus("shop", "a.1:9", "a.1:9", 0, 0.0, None, None, 0, None, None, [table]), everything=False)
    out, err = capsys.readouterr()
    assert out.startswith("shop: behind")
    assert err == "shop.t is reset at 2026-01-01; the next run does it over\n"


ENDPOINTS = """
lake: ./lake
sources: {shop: {mysql: {user: r}, endpoints: [{host: 127.0.0.1, port: 1}, {host: 127.0.0.1, port: 2}]}}
"""


def test_endpoints_that_do_not_answer_are_told_one_by_one(run: Run, pipeline: Path) -> None:
    pipeline.write_text(ENDPOINTS)
    for ran in (run("status", "-c", pipeline), run("status", "-c", pipeline)):
        assert ran.status == 0
        lines = [line for line in ran.out.splitlines() if line.startswith("127.0.0.1:")]
        assert [line.split()[:2] for line in lines] == [[f"127.0.0.1:{n}", "unavailable"] for n in (1, 2)]
        assert "shop: none of its endpoints can be read\n127.0.0.1:1: 127.0.0.1:1 answered" in ran.err
    found = json.loads(run("status", "-c", pipeline, "--json").out)["sources"]["shop"]["endpoints"]
    assert [(one["endpoint"], one["in_use"], one["available"]) for one in found] == [
        ("127.0.0.1:1", False, False),
        ("127.0.0.1:2", False, False),
    ]
    assert all(one["unavailable_since"] < one["next_try"] for one in found)
    checked = run("check", "-c", pipeline, "--connect")
    assert checked.status == 2
    assert "sources.shop: 127.0.0.1:1: 127.0.0.1:1 answered" in checked.err
    assert "sources.shop (2): 127.0.0.1:2: 127.0.0.1:2 answered" in checked.err


def test_status_shows_the_lake_where_the_source_does_not_answer(run: Run, pipeline: Path) -> None:
    (pipeline.parent / "binlogs" / "mysql-bin.000001").unlink()
    ran = run("status", "-c", pipeline)
    assert ran.status == 0
    assert ran.out == "shop: cannot be read\n  log     unknown\n  bronze  empty\n"
    assert ran.err == f"shop: {pipeline.parent}/binlogs holds no binlog files (named like mysql-bin.000001)\n"


def at(position: str | None, **keys: Any) -> SourceStatus:
    """A source whose bronze is there; its log ends at b.000002:900."""
    said: dict[str, Any] = {
        "end": "b.000002:900",
        "backlog_bytes": 0,
        "lag_seconds": 0.0,
        "error": None,
        "warning": None,
    }
    margin = {"retention_margin_bytes": 1_500_000, "retention_margin_hours": 49.5, "quarantined_events": 0}
    return SourceStatus(**({"source": "shop", "bronze": position, "tables": []} | said | margin | keys))


def table(name: str, place: str, state: str = "current", **keys: Any) -> TableStatus:
    return TableStatus(name, state, place, place, keys.pop("reason", None), **keys)


END = "b.000002:900"
CONDITIONS: list[tuple[SourceStatus, str]] = [
    (at(END), "up to date"),
    (at(END, tables=[table("a.a", END), table("a.b", "b.000001:4", "ignored")]), "up to date"),
    (at("b.000001:4", backlog_bytes=1_500, lag_seconds=200.0), "behind"),
    (at(END, tables=[table("a.a", "b.000001:4")]), "behind"),
    (at(END, tables=[table("a.a", END), table("a.b", "b.000001:4", "stopped")]), "1 of 2 tables stopped"),
    (at(END, warning="the source has only 96 bytes"), "near to losing log"),
    (at(END, error="gone", tables=[table("a.b", END, "stopped")]), "cannot be read"),
    (at(None), "nothing read yet"),
]


@pytest.mark.parametrize("one, word", CONDITIONS)
def test_status_says_first_how_a_source_is(capsys: pytest.CaptureFixture[str], one: SourceStatus, word: str) -> None:
    _say_status(one, everything=False)
    assert capsys.readouterr().out.splitlines()[0] == f"shop: {word}"


def test_status_says_where_the_layers_are_in_a_readers_units(capsys: pytest.CaptureFixture[str]) -> None:
    tables = [table("a.a", "b.000001:4"), table("a.b", "b.000001:4", "stopped", reason="an ALTER")]
    _say_status(
        at("b.000001:4", backlog_bytes=1_500, lag_seconds=200.0, endpoint="db1:3306", stretch=2, tables=tables),
        everything=False,
    )
    out, err = capsys.readouterr()
    assert out.splitlines()[1:6] == [
        "  log     b.000002:900",
        "  bronze  b.000001:4, behind by 1.5 kB, 3 minutes",
        "  margin  1.5 MB, 2 days of log before bronze's end are still at the source",
        "  server  db1:3306, in stretch 2",
        "  tables  1 current, 1 stopped",
    ]
    assert err == "a.b stopped: an ALTER\n"


def test_status_lists_each_downstream_table_of_one_that_goes_to_several(capsys: pytest.CaptureFixture[str]) -> None:
    targets = [
        {"table": name, "downstream": place, "reason": None, "watermark": None}
        for name, place in (("a.a", END), ("b.a", None))
    ]
    _say_status(at(END, tables=[table("a.a", END, targets=targets)]), everything=False)
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
    _say_status(at(END, tables=[*well, *odd]), everything=False)
    few = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in few[5:]] == ["table", "b.behind", "b.stopped", "b.older", "30"]
    _say_status(at(END, tables=[*well, *odd]), everything=True)
    assert len(capsys.readouterr().out.splitlines()) == 5 + 1 + 33


def test_report_writes_a_page_a_source(run: Run, pipeline: Path) -> None:
    folder = pipeline.parent / "reports"
    ran = run("report", "-c", pipeline, "--to", folder)
    assert (ran.status, ran.out, ran.err) == (0, f"{folder / 'shop.html'}\n", "")
    assert "<h1>shop</h1>" in (folder / "shop.html").read_text()


def test_a_report_that_cannot_be_written_says_so(run: Run, pipeline: Path) -> None:
    ran = run("report", "-c", pipeline, "--to", pipeline)
    assert ran.status == 2
    assert f"{pipeline}: a report cannot be written there" in ran.err


def test_reports_lie_where_the_configuration_says(run: Run, pipeline: Path) -> None:
    ran = run("report", "-c", pipeline)
    assert (ran.status, ran.out) == (0, f"{pipeline.parent / 'reports' / 'shop.html'}\n")
    pipeline.write_text(pipeline.read_text() + "\nreports: {to: null}\n")
    ran = run("report", "-c", pipeline)
    assert ran.status == 2
    assert "reports.to is null in pipeline.yaml: name a folder by --to" in ran.err


def test_verify_refuses_a_source_without_a_server(run: Run, pipeline: Path) -> None:
    ran = run("verify", "-c", pipeline)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("sources.shop: it reads files, and a log alone cannot be asked what its tables hold")


@pytest.fixture
def verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline of a server whose one table differs, and another that does not."""
    differences = (
        Difference("different", {"id": "7", "code": "a"}, {"price": ("0.37", "0.42"), "note": (None, "x")}),
        Difference("missing", {"id": "8", "code": "b"}),
    )
    found = [
        Verdict("shop", TableName("shop", "lines"), "equal", Position("bin.000001", 4), 3, 3),
        Verdict("shop", TableName("shop", "orders"), "differs", None, 9, 8, 1, 0, 1, differences=differences, unread=2),
        Verdict("shop", TableName("shop", "bag"), "not compared", reason="shop: shop.bag: stopped"),
        Verdict("shop", TableName("shop", "copied"), "differs", older=1, into="audit.copied"),
    ]
    monkeypatch.setattr("spark_jobs.cli._spark", lambda _: nullcontext())
    monkeypatch.setattr(
        "spark_jobs.verify.verify_source", lambda _s, _p, _n, wanted: (one for one in found if wanted(one.table))
    )
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources:\n  shop: {mysql: {user: repl}}\n")
    return path


def test_verify_lists_what_differs(run: Run, verdicts: Path) -> None:
    ran = run("verify", "-c", verdicts, "--values")
    lines = [line.split() for line in ran.out.splitlines()]
    assert ran.status == 1
    assert lines[1] == ["shop.lines", "equal", "3", "3", "0", "0", "0", "0", "0", "0.0"]
    assert lines[4][:4] == ["shop.copied", "into", "audit.copied", "differs"]
    assert ran.out.splitlines()[5:] == [
        "shop.orders different id=7, code=a: price is 0.42 and should be 0.37, note is x and should be NULL",
        "shop.orders missing id=8, code=b",
    ]
    assert ran.err.splitlines() == [
        "shop.orders: 2 more rows differ by their hashes; they were not read again one by one",
        "shop: shop.bag: stopped",
        "shop.copied into audit.copied: 1 rows are older than the log, which lacks the table's CREATE too",
    ]
    assert "shop.orders different id=7, code=a: price, note\n" in run("verify", "-c", verdicts).out


def test_verify_says_it_in_json_and_by_its_status(run: Run, verdicts: Path) -> None:
    ran = run("verify", "-c", verdicts, "--json", "--table", "shop.orders")
    said = json.loads(ran.out)
    assert (ran.status, said["table"], said["state"], said["position"]) == (1, "shop.orders", "differs", None)
    assert (said["equal"], said["into"]) == (5, None)
    assert said["differences"][0] == {
        "kind": "different",
        "key": {"id": "7", "code": "a"},
        "columns": {"price": {"source": "0.37", "lake": "0.42"}, "note": {"source": None, "lake": "x"}},
    }
    assert run("verify", "-c", verdicts, "--table", "shop.lines").status == 0
    none = run("verify", "-c", verdicts, "--table", "shop.none")
    assert (none.status, none.out) == (2, "")
    assert none.err == "--table: neither a source nor the lake has a table like shop.none in scope\n"


@pytest.mark.slow
def test_a_reader_that_closes_the_pipe_is_no_failure() -> None:
    file = RECORDED / "mysql-8.0-transactions.000001"
    command = [sys.executable, "-m", "spark_jobs.cli", "events", *([str(file)] * 200)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert (process.wait(), said) == (0, b"")
