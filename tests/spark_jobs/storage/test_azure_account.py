from pathlib import Path

import pytest

from spark_jobs.checks.lake import check_lake
from spark_jobs.config.store import root_of, store_of
from spark_jobs.delta.commits import commit
from spark_jobs.delta.log_files import read_commit
from spark_jobs.delta.snapshot import new_table
from spark_jobs.errors import ConfigError, LakeError
from spark_jobs.storage import files, reach
from spark_jobs.storage.azure_account import has_hierarchy
from tests.azurite import KEY, Azurite
from tests.gateway import FaultyProxy

HIERARCHICAL = b"HTTP/1.1 200 OK\r\nx-ms-is-hns-enabled: true\r\nContent-Length: 0\r\n\r\n"


def hierarchical(method: str, path: str) -> bytes | None:
    return HIERARCHICAL if method == "GET" and "restype=account" in path else None


@pytest.mark.stores
@pytest.mark.azure
def test_the_account_says_whether_it_has_a_hierarchy(azurite: Azurite, bucket: str) -> None:
    assert not has_hierarchy(root_of(bucket))
    with FaultyProxy(azurite.port, hierarchical) as proxy:
        reach.use(store_of(bucket, azurite.settings(endpoint=proxy.url)))
        assert has_hierarchy(root_of(bucket))


@pytest.mark.stores
@pytest.mark.azure
def test_an_account_with_a_hierarchy_is_refused(azurite: Azurite, bucket: str) -> None:
    files._is_hierarchical.cache_clear()
    try:
        with FaultyProxy(azurite.port, hierarchical) as proxy:
            reach.use(store_of(bucket, azurite.settings(endpoint=proxy.url)))
            (check,) = check_lake(bucket)
            with pytest.raises(LakeError, match="cannot be written: the storage account has a hierarchical namespace"):
                commit(new_table(f"{bucket}/t", {"a": "INT"}, {}))
            assert read_commit(f"{bucket}/t", 0) is None
    finally:
        files._is_hierarchical.cache_clear()
    assert check.status == "problem"
    assert "the storage account has a hierarchical namespace" in check.value
    assert check.remedy == "use an account without"


@pytest.mark.stores
@pytest.mark.azure
def test_a_refusal_has_its_code(azurite: Azurite, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "b3RoZXI=")
    with pytest.raises(OSError, match=r"status code: 403 (.|\n)*<Code>AuthorizationFailure</Code>"):
        has_hierarchy(root_of(bucket))


def test_an_account_that_does_not_answer(store_keys: None, tmp_path: Path) -> None:
    lake = "abfss://lake@acc.dfs.core.windows.net"
    store = store_of(lake, Azurite.settings_at("http://127.0.0.1:9"))
    reach.use(store)
    with pytest.raises(OSError, match="error sending request"):
        has_hierarchy(lake)
    assert store
    settings = store.settings.model_copy(update={"ca": tmp_path / "none.pem"})
    reach.use(store_of(lake, settings))
    with pytest.raises(ConfigError, match=r"store\.ca: .*none\.pem: No such file"):
        has_hierarchy(lake)
