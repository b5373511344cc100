from pathlib import Path

import pytest

from spark_jobs.checks import Check
from spark_jobs.checks.lake import check_lake


@pytest.mark.parametrize("root", ["lake", "lake/", "new/deep/lake", "with space/ä"])
def test_a_lake_that_can_be_made_is_not_made(tmp_path: Path, root: str) -> None:
    (tmp_path / "lake").mkdir()
    (check,) = check_lake(f"{tmp_path}/{root}")
    assert (check.name, check.status, check.remedy) == ("writable", "ok", "")
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "lake"], "nothing is left"


def test_a_lake_below_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "afile").write_text("")
    assert list(check_lake(f"{tmp_path}/afile/lake")) == [
        Check(
            "writable",
            "problem",
            f"{tmp_path}/afile is no folder",
            f"name a folder that {tmp_path}/afile/lake can be made in, as lake:",
        )
    ]
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (check,) = check_lake(f"{tmp_path}/dangling")
    assert check.status == "problem"


def test_a_lake_where_nobody_may_write_is_a_problem() -> None:
    (check,) = check_lake("/proc/lake")
    assert (check.status, check.value) == ("problem", "/proc: No such file or directory")


def test_an_object_store_is_written_by_its_own_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "geheim",
        "AWS_REGION": "x",
    }.items():
        monkeypatch.setenv(name, value)
    (check,) = check_lake("hdfs://name/lake")
    assert (check.status, check.value) == ("warning", "hdfs://name/lake: not tried")
    (check,) = check_lake("s3a://bucket/lake")
    assert check.status == "problem"
    assert "s3://bucket/lake" in check.value
    assert "geheim" not in check.value
    assert "AWS_" in check.remedy
