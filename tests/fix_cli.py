"""The command line, run in the test's process. Put here: the fixtures. Not here: what a verb does."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.cli import main
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Statement, Table
from tests.binlogs.segment_types import INT, VARCHAR
from tests.command_result import CommandResult, codes_of, without_codes

SPEC = SegmentSpec(
    tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20))],
    changes=[Insert("shop.t", (1, "ä")), Commit(), Statement("shop", "TRUNCATE t")],
)

Stratalog = Callable[..., CommandResult]


@pytest.fixture
def stratalog(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Stratalog]:
    """Runs the command in this process. Its logging, and what -v sets for Spark's JVM, go when the test does."""
    debug = os.environ.get("STRATALOG_DEBUG")
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.getLogger("spark_jobs").level

    def run(*arguments: object) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["stratalog", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            status: Any = 0
        except SystemExit as ended:
            status = ended.code or 0
        out, err = capsys.readouterr()
        return CommandResult(int(status), out, without_codes(err), codes_of(err))

    yield run
    root.handlers[:], root.level, logging.getLogger("spark_jobs").level = before
    os.environ.pop("STRATALOG_DEBUG", None)
    os.environ.update({} if debug is None else {"STRATALOG_DEBUG": debug})


@pytest.fixture
def pipeline_file(tmp_path: Path) -> Path:
    (tmp_path / "binlogs").mkdir()
    (tmp_path / "binlogs" / "mysql-bin.000001").write_bytes(SPEC.to_bytes())
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources:\n  shop: {files: ./binlogs}\n")
    return path
