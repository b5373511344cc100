"""The command as a process of its own, with a JVM of its own, from its first line to its exit status."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Statement, Table
from tests.binlogs.segment_types import INT, VARCHAR

TABLES = [Table(f"shop.{name}", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20)) for name in ("t", "u")]
CHANGES: list[Change] = [Insert("shop.t", (1, "ä")), Insert("shop.u", (1, "b")), Commit()]


def stratalog(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs ``stratalog VERB -c pipeline.yaml …`` in a folder."""
    verb, *rest = arguments
    command = [sys.executable, "-m", "spark_jobs.cli", verb, "-c", "pipeline.yaml", *rest]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "binlogs").mkdir()
    (tmp_path / "binlogs" / "bin.000001").write_bytes(SegmentSpec(tables=TABLES, changes=CHANGES).to_bytes())
    spark = {"conf": {"spark.driver.memory": "1g"}}
    settings = {"lake": "./lake", "sources": {"shop": {"files": "./binlogs"}}, "spark": spark}
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return tmp_path


@pytest.mark.spark
@pytest.mark.long
def test_old_log_goes_and_comes_back(folder: Path) -> None:
    for number in (2, 3):
        (folder / "binlogs" / f"bin.{number:06d}").write_bytes(SegmentSpec(tables=TABLES, changes=CHANGES).to_bytes())
    with (folder / "pipeline.yaml").open("a", encoding="utf-8") as text:
        text.write("retention: {bronze: 1d}\n")
    assert stratalog("extract", folder=folder).returncode == 0
    process = stratalog("gc", "--dry-run", folder=folder)
    assert (process.returncode, process.stdout) == (0, "shop: nothing to remove; bronze begins at bin.000001:4\n")
    assert "older files are kept for silver, at bin.000001:4 (" in process.stderr
    size = (folder / "binlogs" / "bin.000001").stat().st_size * 2
    collected = stratalog("gc", "--ignore", "silver", folder=folder)
    message = f"shop: removed bin.000001 to bin.000002, {size} bytes of log; bronze begins at bin.000003:4\n"
    assert (collected.returncode, collected.stdout) == (0, message), collected.stderr
    back = stratalog("extract", "--archive", "binlogs", folder=folder)
    assert (back.returncode, back.stdout) == (0, f"shop: put back [bin.000001:4, bin.000003:4): {size} bytes\n")
    upkeep = stratalog("maintain", folder=folder)
    assert (upkeep.returncode, "Deleted" in upkeep.stdout) == (0, False), upkeep.stderr
    assert [line.split() for line in upkeep.stdout.splitlines()[1:]] == [
        ["bronze/shop", "3", "1", "168"],
        ["schema/shop", "1", "1", "168"],
    ]


@pytest.mark.spark
@pytest.mark.long
def test_a_process_ends_with_the_status_of_what_it_did(folder: Path) -> None:
    process = stratalog("run", folder=folder)
    assert (process.returncode, "Traceback" in process.stderr) == (0, False), process.stderr
    assert "shop.t" in process.stdout
    changes = stratalog("changes", "--source", "shop", "--table", "shop.u", folder=folder)
    assert (changes.returncode, [json.loads(line)["after"] for line in changes.stdout.splitlines()]) == (
        0,
        [{"id": 1, "note": "b"}],
    ), changes.stderr
    further_changes: list[Change] = [
        Insert("shop.u", (2, "c")),
        Commit(),
        Statement("shop", "ALTER TABLE t MODIFY id SMALLINT"),
    ]
    (folder / "binlogs" / "bin.000002").write_bytes(SegmentSpec(tables=TABLES, changes=further_changes).to_bytes())
    stopped = stratalog("run", folder=folder)
    assert (stopped.returncode, stopped.stderr.count("shop.t: ALTER TABLE at bin.000002:")) == (1, 1), stopped.stderr
    assert "shop.u" in stopped.stdout
    remedy = "; set on_incompatible: new_column, and the next run starts a new column (stratalog docs howto/schema"
    assert remedy in stopped.stderr
    process = stratalog("status", "--json", folder=folder)
    shop = json.loads(process.stdout)["sources"]["shop"]
    assert (process.returncode, [alarm["kind"] for alarm in shop["alarms"]]) == (1, ["stopped"])
    assert process.stderr.startswith(
        "exit status 1: shop: 1 of 2 tables stopped: shop.t; do what the reason of each says"
    )
    assert [remedy in item["reason"] for item in shop["tables"] if item["state"] == "stopped"] == [True]
    (folder / "binlogs" / "bin.000002").rename(folder / "gone")
    failed = stratalog("run", folder=folder)
    assert failed.returncode == 1
    kinds = [
        item["kind"]
        for item in json.loads(stratalog("status", "--json", folder=folder).stdout)["sources"]["shop"]["alarms"]
    ]
    assert kinds == ["unreachable", "stopped", "failed"]


@pytest.mark.spark
@pytest.mark.long
def test_what_is_redacted_is_reported(folder: Path) -> None:
    path = folder / "pipeline.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    settings["sources"]["shop"]["redact"] = ["shop.u"]
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    refused = stratalog("check", folder=folder)
    assert (refused.returncode, "sources.shop.redact[0]: shop.u can be in scope" in refused.stderr) == (2, True)
    path.write_text(yaml.safe_dump(settings | {"tables": ["shop.*", "!shop.u"]}), encoding="utf-8")
    extracted = stratalog("extract", folder=folder)
    assert extracted.returncode == 0, extracted.stderr
    size = int(re.findall(r"shop: 1 events redacted, in (\d+) bytes\n", extracted.stdout)[0])
    exported = stratalog("export", "--source", "shop", "--to", "out", folder=folder)
    server_bytes, own_bytes = ((folder / name / "bin.000001").read_bytes() for name in ("binlogs", "out"))
    assert [line.split() for line in exported.stdout.splitlines()] == [
        ["out/bin.000001", str(len(server_bytes)), "bytes"],
        ["redacted", "in", "tables", "events", "bytes"],
        ["bin.000001", "shop.u", "1", str(size)],
    ]
    assert exported.returncode == 0
    assert (
        0 < sum(server_byte != own_byte for server_byte, own_byte in zip(server_bytes, own_bytes, strict=True)) <= size
    )
    report = json.loads(stratalog("status", "--json", folder=folder).stdout)
    assert report["sources"]["shop"]["redacted"] == {"events": 1, "bytes": size}


@pytest.mark.spark
@pytest.mark.long
def test_each_table_that_stops_is_one_message(folder: Path) -> None:
    """TableStopped by a statement that changes rows; NamesUnknown where nothing tells what columns are called."""
    named, unnamed = TABLES[0], Table("shop.v", metadata=False, id=INT.NOT_NULL, note=VARCHAR(20))
    changes = [*CHANGES[:1], Commit(), Insert("shop.v", (1, "a")), Commit(), Statement("shop", "DELETE FROM t")]
    content = SegmentSpec(tables=[named, unnamed], changes=changes).to_bytes()
    (folder / "binlogs" / "bin.000001").write_bytes(content)
    ran = stratalog("run", folder=folder)
    assert ran.returncode == 1
    messages = [line for line in ran.stderr.splitlines() if "stopped" in line or "shop.t" in line or "shop.v" in line]
    assert len([line for line in messages if "does not name its columns" in line]) == 1
    assert len([line for line in messages if "DELETE FROM t" in line and "shop.t" in line]) == 1, ran.stderr
    assert "Traceback" not in ran.stderr + ran.stdout
