import os
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pytest
from deltalake.exceptions import TableNotFoundError
from pyspark import cloudpickle

from spark_jobs.config.store import AZURE, LakeStore, ObjectStore
from spark_jobs.errors import ConfigError
from spark_jobs.storage import objects, reach
from spark_jobs.storage.objects import ObjectPath
from tests.azurite import KEY
from tests.gateway import ACCESS, SECRET, Gateway

SETTINGS = ObjectStore(endpoint="http://127.0.0.1:1", access_key_env=ACCESS, secret_key_env=SECRET)


def test_settings_travel_with_tasks_and_keys_do_not(store_keys: None) -> None:
    reach.use(LakeStore("bucket", SETTINGS))
    task = cloudpickle.dumps(reach.carried(_settings))  # type: ignore[no-untyped-call]
    assert os.environ[SECRET].encode() not in task
    assert os.environ[ACCESS].encode() not in task
    reach._in_use.clear()  # as in another process
    assert list(cloudpickle.loads(task)(iter(["s3a://bucket"]))) == [SETTINGS]
    assert reach.settings_of("s3a://bucket") == SETTINGS


def _settings(buckets: Iterator[str]) -> Iterator[ObjectStore]:
    return map(reach.settings_of, buckets)


def test_a_task_without_a_store_is_as_it_was(store_keys: None) -> None:
    assert reach.carried(_settings) is _settings


def test_a_missing_key_is_named(store_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    reach.use(LakeStore("bucket", SETTINGS))
    monkeypatch.delenv(SECRET)
    with pytest.raises(ConfigError, match=r"s3a://bucket: the environment .* no variable TEST_STORE_SECRET"):
        reach.client("s3a://bucket")


def test_keys_that_change_make_a_new_client(store_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    reach.use(LakeStore("bucket", SETTINGS))
    before = reach.client("s3a://bucket")
    assert reach.client("s3a://bucket") is before
    monkeypatch.setenv(SECRET, "another")
    assert reach.client("s3a://bucket") is not before


def test_options_of_deltalake(store_keys: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    reach.use(LakeStore("bucket", SETTINGS))
    options = reach.deltalake_options("s3a://bucket/t")
    assert options is not None
    assert options["aws_endpoint_url"] == "http://127.0.0.1:1"
    assert options["allow_http"] == "true"
    assert options["aws_session_token"] == "token"
    assert reach.deltalake_options(str(tmp_path)) is None


def test_options_of_deltalake_on_azure(store_keys: None) -> None:
    reach.use(LakeStore("lake@acc.dfs.core.windows.net", ObjectStore(account_key_env=KEY), AZURE))
    options = reach.deltalake_options("abfss://lake@acc.dfs.core.windows.net/t")
    assert options is not None
    assert options["azure_storage_endpoint"] == "https://acc.blob.core.windows.net"
    assert options["azure_storage_account_key"] == os.environ[KEY]
    assert not [name for name in options if name.startswith("aws")]


def test_a_key_that_is_none_of_an_account_is_named(store_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "no base64")
    reach.use(LakeStore("lake@acc.dfs.core.windows.net", ObjectStore(account_key_env=KEY), AZURE))
    with pytest.raises(ConfigError, match="TEST_STORE_ACCOUNT_KEY is no key of a storage account: set it"):
        reach.client("abfss://lake@acc.dfs.core.windows.net")


def test_a_file_of_certificates_that_is_missing_is_named(store_keys: None, tmp_path: Path) -> None:
    reach.use(LakeStore("bucket", SETTINGS.model_copy(update={"ca": tmp_path / "ca.pem"})))
    with pytest.raises(ConfigError, match=r"store\.ca: .*ca\.pem: No such file"):
        reach.client("s3a://bucket")


@pytest.mark.stores
def test_a_token_of_other_keys_is_left_out(gateway: Gateway, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the tests name another variable for it."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another account")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of another account")
    assert objects.create(ObjectPath.parse(bucket) / "a", b"x")
    with pytest.raises(TableNotFoundError):
        deltalake.DeltaTable(bucket.replace("s3a:", "s3:"), storage_options=reach.deltalake_options(bucket))
