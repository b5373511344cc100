"""Stratalog gets from each log of the corpus what its server said of it."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from corpus import run
from corpus.judge import RIGHT, judge
from corpus.readers.stratalog import read
from corpus.record import CASES, SCRIPTS, Script
from corpus.run import BEGIN, END, PAGE, RESULTS, Program, cases, tables
from spark_jobs.binlog.slices.listing import list_events
from tests.differential.comparison import assert_same_events

KNOWN = cases()
RESULT = json.loads(RESULTS.read_text(encoding="utf-8"))


def files_of(case: dict[str, Any]) -> list[Path]:
    return [CASES / file for file in case["files"]]


@pytest.mark.parametrize("name", KNOWN)
def test_case(name: str) -> None:
    verdict = judge(KNOWN[name], read(files_of(KNOWN[name])))
    assert (verdict.verdict, verdict.reasons) == (RIGHT, [])


@pytest.mark.parametrize("name", [name for name, case in KNOWN.items() if any(case["events"])])
def test_events_are_those_that_the_server_showed(name: str) -> None:
    case = KNOWN[name]
    if "encrypted" in name:
        return
    for file, events in zip(files_of(case), case["events"], strict=True):
        listed = [(event.offset, event.type, 0, event.stop) for event in list_events(iter([file.read_bytes()]), "log")]
        assert_same_events(listed, [(offset, kind, 0, stop) for offset, kind, stop in events])


def test_every_script_has_the_cases_of_its_servers() -> None:
    scripts = [Script.read(path) for path in sorted(SCRIPTS.glob("*.sql"))]
    expected = {f"{server}-{script.name}" for script in scripts for server in script.head["servers"].split()}
    assert {name for name in KNOWN if "damaged" not in name} == expected
    assert len(expected) > 200


def test_a_case_names_its_source_and_its_files_alone() -> None:
    for case in KNOWN.values():
        assert case["source"]
        assert re.match(r"read$|refused: |open: ", case["outcome"])
    assert {file for case in KNOWN.values() for file in case["files"]} == {
        path.name for path in CASES.iterdir() if path.suffix != ".json"
    }


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in CASES.iterdir()) < 2_000_000


def test_the_page_has_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.partition(f"{BEGIN}\n")[2].partition(END)[0] == tables(RESULT, KNOWN)


def test_results_are_of_all_cases() -> None:
    assert RESULT["Stratalog"]["counts"] == {RIGHT: len(KNOWN)}
    for result in RESULT.values():
        names = [name for name in KNOWN if result.get("leaves_out", " ") not in name]
        assert result["cases"] == sum(result["counts"].values()) == len(names)
        assert set(result["not_right"]) <= set(KNOWN)


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(Program("r", "1", ("false",), (("no-such-tool",),)), id="the tool that builds it"),
        pytest.param(Program("r", "1", ("true",), (("false",),)), id="what it is built from"),
        pytest.param(Program("r", "1", ("sh", "-c", "echo no server >&2; exit 1")), id="a server"),
    ],
)
def test_a_reader_that_cannot_be_run_here_keeps_its_results(
    reader: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RESULTS", "PAGE"):
        monkeypatch.setattr(run, name, Path(shutil.copy(getattr(run, name), tmp_path)))
    before = {"r": RESULT["canal"], "other": RESULT["canal"]}
    run.RESULTS.write_text(json.dumps(before), encoding="utf-8")
    monkeypatch.setattr(run, "readers", lambda: [reader])
    monkeypatch.setattr(run, "BUILD", tmp_path / "build")
    assert run.main([]) == 1
    assert json.loads(run.RESULTS.read_text(encoding="utf-8")) == {"r": before["r"]}
    assert capsys.readouterr().err.startswith("r 1: not run, its results stay: ")
