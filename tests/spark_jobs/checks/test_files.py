from pathlib import Path

import pytest

from spark_jobs.checks import Check
from spark_jobs.checks.files import check_files
from spark_jobs.source.files import Files
from tests.fix_cli import SPEC

LOG = SPEC.to_bytes()


def check(folder: Path, *names: str) -> dict[str, Check]:
    for name in names:
        (folder / name).write_bytes(LOG)
    return {result.name: result for result in check_files(Files("shop", folder))}


def test_a_folder_is_described_by_its_files(tmp_path: Path) -> None:
    checks = check(tmp_path, "b.000009", "b.000010", "b.index")
    assert {name: (check.status, check.value) for name, check in checks.items()} == {
        "folder": ("ok", str(tmp_path)),
        "binlog files": ("ok", "2, b.000009 to b.000010"),
        "missing files": ("ok", "none"),
        "log end": ("ok", f"b.000010:{len(LOG)}"),
    }


def test_every_hole_is_listed(tmp_path: Path) -> None:
    checks = check(tmp_path, *(f"b.{number:06}" for number in (1, 3, 4, 7, 9, 11)))
    assert checks["missing files"] == Check(
        "missing files",
        "problem",
        ("between b.000001 and b.000003, between b.000004 and b.000007, between b.000007 and b.000009 and 1 more"),
        f"copy the missing files into {tmp_path}",
    )


@pytest.mark.parametrize("name, reason", [("none", "cannot be read: No such file"), (".", "holds no binlog files")])
def test_a_folder_without_files_is_a_problem(tmp_path: Path, name: str, reason: str) -> None:
    ((name, result),) = check(tmp_path / name).items()
    assert (name, result.status) == ("folder", "problem")
    assert reason in result.value


def test_a_damaged_last_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "b.000001").write_bytes(LOG[:60] + b"\xff" + LOG[61:])
    checks = {result.name: result for result in check_files(Files("shop", tmp_path))}
    assert checks["folder"].status == "problem"
