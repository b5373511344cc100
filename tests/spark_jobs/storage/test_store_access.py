import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pytest
from deltalake.exceptions import TableNotFoundError
from pyspark import cloudpickle

from spark_jobs.config.store import AZURE, LakeStore, ObjectStore
from spark_jobs.errors import ConfigError
from spark_jobs.storage import objects, store_access
from spark_jobs.storage.objects import ObjectPath
from tests.services.azurite import KEY
from tests.services.gateway import ACCESS, SECRET, TOKEN, Gateway
from tests.services.identities import environment
from tests.services.token_services import serving

__all__ = ["environment"]

SETTINGS = ObjectStore(endpoint="http://127.0.0.1:1", access_key_env=ACCESS, secret_key_env=SECRET)


def test_settings_travel_with_tasks_and_keys_do_not(store_keys: None) -> None:
    store_access.register_store(LakeStore("bucket", SETTINGS))
    task = cloudpickle.dumps(store_access.with_registered_stores(_settings))  # type: ignore[no-untyped-call]
    assert os.environ[SECRET].encode() not in task
    assert os.environ[ACCESS].encode() not in task
    store_access._registered.clear()  # as in another process
    assert list(cloudpickle.loads(task)(iter(["s3a://bucket"]))) == [SETTINGS]
    assert store_access.settings_of("s3a://bucket") == SETTINGS


def _settings(buckets: Iterator[str]) -> Iterator[ObjectStore]:
    return map(store_access.settings_of, buckets)


def test_a_task_without_a_store_is_as_it_was(store_keys: None) -> None:
    assert store_access.with_registered_stores(_settings) is _settings


def test_a_missing_key_is_named(store_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    store_access.register_store(LakeStore("bucket", SETTINGS))
    monkeypatch.delenv(SECRET)
    with pytest.raises(ConfigError, match=r"s3a://bucket: the environment .* no variable TEST_STORE_SECRET"):
        store_access.client("s3a://bucket")


def test_keys_that_change_make_a_new_client(store_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    store_access.register_store(LakeStore("bucket", SETTINGS))
    before = store_access.client("s3a://bucket")
    assert store_access.client("s3a://bucket") is before
    monkeypatch.setenv(SECRET, "another")
    assert store_access.client("s3a://bucket") is not before


def test_options_of_deltalake(store_keys: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(TOKEN, "token")
    store_access.register_store(LakeStore("bucket", SETTINGS.model_copy(update={"session_token_env": TOKEN})))
    options = store_access.deltalake_options("s3a://bucket/t")
    assert options is not None
    assert options["aws_endpoint_url"] == "http://127.0.0.1:1"
    assert options["allow_http"] == "true"
    assert options["aws_session_token"] == "token"
    assert store_access.deltalake_options(str(tmp_path)) is None


def test_options_of_deltalake_on_azure(store_keys: None) -> None:
    store_access.register_store(LakeStore("lake@acc.dfs.core.windows.net", ObjectStore(account_key_env=KEY), AZURE))
    options = store_access.deltalake_options("abfss://lake@acc.dfs.core.windows.net/t")
    assert options is not None
    assert options["azure_storage_endpoint"] == "https://acc.blob.core.windows.net"
    assert options["azure_storage_account_key"] == os.environ[KEY]
    assert not [name for name in options if name.startswith("aws")]


def test_a_key_that_is_none_of_an_account_is_named(store_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "no base64")
    store_access.register_store(LakeStore("lake@acc.dfs.core.windows.net", ObjectStore(account_key_env=KEY), AZURE))
    with pytest.raises(ConfigError, match="TEST_STORE_ACCOUNT_KEY is no key of a storage account: set it"):
        store_access.client("abfss://lake@acc.dfs.core.windows.net")


@pytest.mark.parametrize(
    "variables, option",
    [
        ({"AZURE_STORAGE_KEY": "a2V5"}, ("azure_storage_account_key", "a2V5")),
        ({"AZURE_STORAGE_SAS_TOKEN": "?sv=1&sig=x"}, ("azure_storage_sas_token", "sv=1&sig=x")),
        ({}, ("azure_storage_token", "token-of-test")),
    ],
)
def test_each_library_is_shown_the_same_on_azure(
    environment: pytest.MonkeyPatch, store_keys: None, variables: dict[str, str], option: tuple[str, str]
) -> None:
    """Without an endpoint: an account with a hierarchical namespace is reached in the same way."""
    root = "abfss://lake@acc.dfs.core.windows.net"
    for name, value in variables.items():
        environment.setenv(name, value)
    with serving(lambda _: (200, {"access_token": "token-of-test", "expires_in": 3600})) as machine:
        environment.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", machine.url)
        options = store_access.deltalake_options(f"{root}/t")
        client = store_access.client(root)
        assert store_access.client(root) is client
    assert options is not None
    assert options[option[0]] == option[1]
    assert options["azure_storage_endpoint"] == "https://acc.blob.core.windows.net"


def test_a_service_that_falls_silent_is_no_wrong_configuration(
    environment: pytest.MonkeyPatch, store_keys: None
) -> None:
    """What was reached before is asked again by the next run; a process that never had an identity is told so."""
    with serving(lambda _: (200, {"access_token": "token-of-test", "expires_in": 1})) as machine:
        environment.setenv("GCE_METADATA_HOST", machine.url.removeprefix("http://"))
        store_access.client("gs://lake")
    time.sleep(1.1)
    with pytest.raises(OSError, match=r"Google's metadata server cannot be reached: Connection refused; run again"):
        store_access.client("gs://lake")
    with pytest.raises(ConfigError, match=r"gs://other: this process on .* has no identity"):
        store_access.client("gs://other")


def test_google_is_asked_by_deltalake_for_the_same_identity(
    environment: pytest.MonkeyPatch, store_keys: None, tmp_path: Path
) -> None:
    file = tmp_path / "application_default_credentials.json"
    environment.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    values = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    with serving(lambda _: (200, {"access_token": "token-of-test", "expires_in": 3600})) as service:
        file.write_text(json.dumps(values | {"token_uri": service.url}))
        options = store_access.deltalake_options("gs://lake/t")
    assert options is not None
    assert options["google_application_credentials"] == str(file)
    assert store_access.last_credential("gs://lake") == ("token", str(file))


def test_a_file_of_certificates_that_is_missing_is_named(store_keys: None, tmp_path: Path) -> None:
    store_access.register_store(LakeStore("bucket", SETTINGS.model_copy(update={"ca": tmp_path / "ca.pem"})))
    with pytest.raises(ConfigError, match=r"store\.ca: .*ca\.pem: No such file"):
        store_access.client("s3a://bucket")


@pytest.mark.stores
def test_a_token_of_other_keys_is_left_out(gateway: Gateway, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the tests name another variable for it."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another account")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of another account")
    assert objects.create(ObjectPath.parse(bucket) / "a", b"x")
    with pytest.raises(TableNotFoundError):
        deltalake.DeltaTable(bucket.replace("s3a:", "s3:"), storage_options=store_access.deltalake_options(bucket))
