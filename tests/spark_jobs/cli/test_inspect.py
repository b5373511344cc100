import gzip
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.loader import load
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Statement, Table
from tests.binlogs.segment_types import INT
from tests.command_result import CommandResult
from tests.fix_cli import SPEC, Stratalog

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "recorded"


def test_events_are_what_the_server_shows(stratalog: Stratalog) -> None:
    """The recorded server's SHOW BINLOG EVENTS stands beside the file; what it adds to a note is its own."""
    name = "mysql-8.0-transactions"
    expected = json.loads((RECORDED / f"{name}.json").read_text())
    ran = stratalog("events", RECORDED / f"{name}.000001")
    assert (ran.status, ran.err) == (0, "")
    cells = [line.split("\t") for line in ran.out.splitlines()]
    assert {len(line) for line in cells} == {8}
    assert {line[0] for line in cells} == {f"{name}.000001"}
    assert [[int(line[1]), line[2], int(line[3]), int(line[4])] for line in cells] == [event[:4] for event in expected]


def test_events_are_literally_so(stratalog: Stratalog, tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes())
    gtid = "10111213-1415-1617-1819-1a1b1c1d1e1f"
    at = SPEC.offsets()
    ran = stratalog("events", file)
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
    lines = [json.loads(line) for line in stratalog("events", "--json", file).out.splitlines()]
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


def test_changes_are_json_lines_alone_on_standard_output(stratalog: Stratalog, tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes())
    ran = stratalog("changes", file)
    assert (ran.status, ran.err) == (0, "")
    (line,) = ran.out.splitlines()
    assert line.endswith('"op": "insert", "before": null, "after": {"id": 1, "note": "ä"}}')


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("verb", ["events", "changes"])
def test_a_dash_is_standard_input_and_several_files_follow_each_other(
    stratalog: Stratalog, tmp_path: Path, verb: str
) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes())
    once = stratalog(verb, file).out
    assert stratalog(verb, file, file).out == once * 2
    with file.open("rb") as stream:
        command = [sys.executable, "-m", "spark_jobs.cli", verb, "-"]
        process = subprocess.run(command, cwd=ROOT, stdin=stream, capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (0, b"")
    assert process.stdout.decode() == once.replace('"file": "b.000001"', '"file": "-"').replace("b.000001\t", "-\t")


@pytest.mark.parametrize("verb", ["events", "changes"])
def test_a_packed_file_is_refused_by_name(stratalog: Stratalog, tmp_path: Path, verb: str) -> None:
    file = tmp_path / "b.000001.gz"
    file.write_bytes(gzip.compress(SPEC.to_bytes()))
    ran = stratalog(verb, file)
    assert ran == CommandResult(1, "", "b.000001.gz: compressed by gzip; unpack it first, into a file or a pipe\n")


def test_events_of_one_table(stratalog: Stratalog, tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes())
    lines = stratalog("events", file, "--table", "shop.*").out.splitlines()
    assert [line.split("\t")[2] for line in lines] == ["Table_map", "Write_rows"]
    outcome = stratalog("events", file, "--table", "shop.u", "--table", "x.*")
    assert outcome == CommandResult(
        0, "", "warning: --table: no table like shop.u, x.*; the files have shop.t; did you mean shop.t?\n"
    )
    assert stratalog("events", file, "--summary", "--table", "shop.u").status == 2


def test_the_summary_adds_up_to_the_files_size(stratalog: Stratalog, tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    content = SPEC.to_bytes()
    file.write_bytes(content)
    ran = stratalog("events", "--summary", file)
    assert (ran.status, ran.err) == (0, "")
    cells = [line.split() for line in ran.out.splitlines()]
    assert cells[-1] == ["in", "all", "10", str(len(content))]
    assert sum(int(line[-1]) for line in cells[1:-1]) == len(content)
    summary = json.loads(stratalog("events", "--summary", "--json", file).out)
    assert summary["size"] == summary["magic"] + sum(type_["bytes"] for type_ in summary["types"]) == len(content)


def test_the_summary_of_a_damaged_file_says_what_was_not_read(stratalog: Stratalog, tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes()[:-10])
    ran = stratalog("events", "--summary", file)
    assert ran.status == 1
    rest = len(SPEC.to_bytes()) - 10 - SPEC.offsets()[-2]
    assert ["not", "read", "refused", str(rest)] in [line.split() for line in ran.out.splitlines()]
    assert ran.err == (
        f"b.000001:{SPEC.offsets()[-2]}: the file ends inside the event that begins there, {rest} bytes after its "
        "start; copy the file again\n"
    )


@pytest.mark.parametrize("verb", ["events", "changes"])
def test_what_was_read_before_a_failure_stays_and_the_status_is_1(
    stratalog: Stratalog, tmp_path: Path, verb: str
) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes()[:-60])
    ran = stratalog(verb, file)
    assert ran.status == 1
    assert ran.out.startswith(("b.000001\t4\tFormat_desc", '{"source": null, "file": "b.000001"'))
    assert re.match(r"b\.000001:\d+: .* end", ran.err)
    missing = stratalog(verb, tmp_path / "none")
    assert missing == CommandResult(
        1,
        "",
        f"{tmp_path}/none: cannot be read: No such file or directory; correct the path, or create the file or folder\n",
    )


def test_changes_of_a_table_that_is_not_there_say_which_are(
    stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pipeline_file.parent / "binlogs" / "mysql-bin.000001"
    ran = stratalog("changes", file, "--table", "shop.u")
    assert ran == CommandResult(
        0, "", "warning: --table: no table like shop.u; the files have rows of shop.t; did you mean shop.t?\n"
    )
    assert stratalog("changes", file, "--table", "shop.?").status == 0

    monkeypatch.setattr("spark_jobs.cli.inspect.spark_of", lambda _: pytest.fail("Spark is started"))
    lake = lake_of(load(pipeline_file))
    checkpoint = BronzeCommit(Position("mysql-bin.000001", 99), "b", begin=Position("mysql-bin.000001", 4))
    commit = CommitProperties(
        custom_metadata={"userMetadata": checkpoint.to_json()}, app_transactions=[Transaction("stratalog", 1)]
    )
    deltalake.write_deltalake(lake.bronze("shop").path, bronze.ARROW.empty_table(), commit_properties=commit)
    entry = Entry("shop", "shop", "t", "current", surveyed="mysql-bin.000001:99")
    rows = pa.Table.from_pylist([asdict(entry)], schema=publication._SCHEMA)
    deltalake.write_deltalake(lake.published().path, rows)
    ran = stratalog("changes", "-c", pipeline_file, "--table", "shop.u")
    assert ran == CommandResult(
        2, "", "--table: no table like shop.u; the log of shop has rows of shop.t; did you mean shop.t?\n"
    )


HOSTILE = SegmentSpec(
    tables=[Table("shop.t\x1b[31m\u202e", key=["id"], id=INT.NOT_NULL)],
    changes=[
        Insert("shop.t\x1b[31m\u202e", (1,)),
        Commit(),
        Statement("shop", "CREATE TABLE u (id INT) /* \x1b]0;owned\x07\x9b2J \n\t */"),
    ],
    rotate_to="mysql-bin.\x1b[2J.000002",
)


@pytest.mark.parametrize("arguments", [(), ("--summary",), ("--json",)], ids=str)
def test_no_escape_of_a_file_reaches_the_terminal(
    stratalog: Stratalog, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    file = tmp_path / "b\x1b[31m.000001"
    file.write_bytes(HOSTILE.to_bytes())
    ran = stratalog("events", file, *arguments)
    assert ran.status == 0, ran.err
    assert not {"\x1b", "\x07"} & set(ran.out)
    if not arguments:
        assert not {"\x9b", "\u202e"} & set(ran.out)
        assert {line.count("\t") for line in ran.out.splitlines()} == {7}
    cut = tmp_path / "c\x1b[31m.000001"
    cut.write_bytes(HOSTILE.to_bytes()[:-9])
    refused = stratalog("events", cut, *arguments)
    assert refused.status == 1
    assert refused.err.startswith("c\\u001b[31m.000001:")


@pytest.mark.parametrize("arguments", ["events", "events --json", "events --summary", "changes"])
def test_a_file_whose_name_is_not_utf_8_is_read(stratalog: Stratalog, tmp_path: Path, arguments: str) -> None:
    file = tmp_path / os.fsdecode(b"b\xff.000001")
    file.write_bytes(SPEC.to_bytes())
    ran = stratalog(*arguments.split(), file)
    assert (ran.status, ran.err) == (0, "")
    assert "b\\xff.000001" in ran.out.replace("\\\\", "\\")


@pytest.mark.parametrize("verb", ["events", "changes"])
def test_what_is_no_file_is_refused_by_name(stratalog: Stratalog, tmp_path: Path, verb: str) -> None:
    fifo, folder = tmp_path / "fifo", tmp_path / "folder"
    os.mkfifo(fifo)
    folder.mkdir()
    for path, kind in ((fifo, "a FIFO"), (folder, "a directory"), (Path("/dev/null"), "a device")):
        ran = stratalog(verb, path)
        assert (ran.status, ran.out) == (1, "")
        assert ran.err == f"{path}: is {kind}, not a file; give binlog files, or - to read standard input\n"


def test_a_pipe_of_the_shells_is_read(tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes())
    command = f"{sys.executable} -m spark_jobs.cli events <(cat {file})"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (ran.returncode, ran.stderr, len(ran.stdout.splitlines()) > 5) == (0, "", True)


def test_on_a_terminal_events_have_names_of_columns(tmp_path: Path) -> None:
    file = tmp_path / "b.000001"
    file.write_bytes(SPEC.to_bytes())
    reader, writer = os.openpty()
    with subprocess.Popen([sys.executable, "-m", "spark_jobs.cli", "events", file], stdout=writer, cwd=ROOT) as process:
        assert process.wait(60) == 0
    os.close(writer)
    lines = os.read(reader, 100_000).decode().splitlines()
    os.close(reader)
    assert lines[0].split("\t") == ["file", "offset", "type", "server_id", "end", "transaction", "table", "note"]
    assert lines[1].startswith("b.000001\t4\tFormat_desc\t")
