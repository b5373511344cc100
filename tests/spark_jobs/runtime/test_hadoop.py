from pathlib import Path

import pytest

from spark_jobs.config.store import AZURE, GOOGLE, LakeStore, ObjectStore
from spark_jobs.runtime import azure, google, s3
from spark_jobs.runtime.hadoop import store_confs, store_jars

LAKE_ON_S3 = LakeStore("lake", ObjectStore())
LAKE_ON_AZURE = LakeStore("lake@account.dfs.core.windows.net", ObjectStore(), AZURE)
LAKE_ON_GOOGLE = LakeStore("lake", ObjectStore(), GOOGLE)


def test_jars_are_those_of_the_lake_s_store_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "s3_jars", lambda: [Path("/jars/s3.jar")])
    monkeypatch.setattr(azure, "azure_jars", lambda: [Path("/jars/azure.jar")])
    monkeypatch.setattr(google, "google_jars", lambda: [Path("/jars/google.jar")])
    assert store_jars(None) == []
    assert store_jars(LAKE_ON_GOOGLE) == [Path("/jars/google.jar")]
    assert store_jars(LAKE_ON_S3) == [Path("/jars/s3.jar")]
    assert store_jars(LAKE_ON_AZURE) == [Path("/jars/azure.jar")]


def test_settings_are_those_of_the_lake_s_store_alone() -> None:
    assert store_confs(None) == {}
    assert not [key for key in store_confs(LAKE_ON_GOOGLE) if "azure" in key or "s3a" in key]
    assert not [key for key in store_confs(LAKE_ON_S3) if "azure" in key]
    assert not [key for key in store_confs(LAKE_ON_AZURE) if "s3a" in key]
