from pathlib import Path

import pytest

from spark_jobs.checks import Check
from spark_jobs.checks.lake import check_lake
from spark_jobs.config.store import LakeStore, ObjectStore
from spark_jobs.storage import store_access
from tests.services.gateway import ACCESS, SECRET


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


def test_a_store_that_does_not_answer_is_a_problem(store_keys: None) -> None:
    settings = ObjectStore(endpoint="http://127.0.0.1:9", access_key_env=ACCESS, secret_key_env=SECRET)
    store_access.register_store(LakeStore("bucket", settings))
    (check,) = check_lake("s3a://bucket/lake")
    assert check == Check(
        "writable",
        "problem",
        "s3a://bucket/lake: the store does not answer at http://127.0.0.1:9",
        "check store.endpoint and the network",
    )


def test_a_key_that_is_missing_is_a_problem(store_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ACCESS)
    store_access.register_store(LakeStore("bucket", ObjectStore(access_key_env=ACCESS, secret_key_env=SECRET)))
    (check,) = check_lake("s3a://bucket/lake")
    assert check.status == "problem"
    assert f"no variable {ACCESS}" in check.value


def test_what_spark_alone_writes_is_not_tried() -> None:
    (check,) = check_lake("hdfs://name/lake")
    assert (check.status, check.value) == ("warning", "hdfs://name/lake: not tried")
