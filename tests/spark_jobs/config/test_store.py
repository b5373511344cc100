from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.loader import from_keys
from spark_jobs.config.store import AZURE, LakeStore, ObjectStore, account_of, blob_endpoint, container_of, root_of
from spark_jobs.errors import ConfigError

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
KEY = {"AZURE_STORAGE_KEY": "a2V5"}
AZURE_LAKE = "abfss://lake@account.dfs.core.windows.net/prefix"
SOURCES = {"sources": {"shop": {"files": "x"}}}


@pytest.mark.parametrize("lake", ["s3a://bucket/lake", "s3://bucket/lake", "s3n://bucket/lake", "S3://bucket/lake"])
def test_a_lake_on_s3_has_one_spelling(tmp_path: Path, lake: str) -> None:
    pipeline = from_keys({"lake": lake, **SOURCES}, tmp_path / "pipeline.yaml", KEYS)
    assert pipeline.lake == "s3a://bucket/lake"
    assert pipeline.spark.lake_store == LakeStore("bucket", pipeline.store)
    assert "_lake_store" not in pipeline.model_dump()["spark"]


@pytest.mark.parametrize("scheme", ["abfss", "abfs", "ABFSS"])
def test_a_lake_on_azure_has_one_spelling(tmp_path: Path, scheme: str) -> None:
    lake = AZURE_LAKE.replace("abfss", scheme)
    pipeline = from_keys({"lake": lake, **SOURCES}, tmp_path / "pipeline.yaml", KEY)
    assert pipeline.lake == AZURE_LAKE
    assert pipeline.spark.lake_store == LakeStore("lake@account.dfs.core.windows.net", pipeline.store, AZURE)


@pytest.mark.parametrize(
    "endpoint, expected",
    [(None, "https://account.blob.core.windows.net"), ("http://127.0.0.1:10000", "http://127.0.0.1:10000/account")],
)
def test_requests_go_to_the_endpoint_of_blobs(endpoint: str | None, expected: str) -> None:
    assert blob_endpoint(root_of(AZURE_LAKE), ObjectStore(endpoint=endpoint)) == expected
    assert (account_of(AZURE_LAKE), container_of(AZURE_LAKE)) == ("account", "lake")


@pytest.mark.parametrize("lake", ["s3a://bucket", AZURE_LAKE, "gs://bucket"])
def test_an_identity_needs_no_variable(tmp_path: Path, lake: str) -> None:
    assert from_keys({"lake": lake, **SOURCES}, tmp_path / "pipeline.yaml", {}).spark.lake_store


@pytest.mark.parametrize("lake", ["./lake", "/lake"])
def test_other_lakes_need_no_store(tmp_path: Path, lake: str) -> None:
    assert from_keys({"lake": lake, **SOURCES}, tmp_path / "pipeline.yaml", {}).spark.lake_store is None


@pytest.mark.parametrize(
    "keys, environment, problem",
    [
        ({"lake": "gs:///lake"}, {}, "must name a bucket"),
        ({"lake": "gs://bucket", "store": {"region": "x"}}, {}, "store.region: is not for gs://"),
        ({"lake": "gs://bucket", "store": {"sas_token_env": "X"}}, {}, "store.sas_token_env: is not for gs://"),
        (
            {"lake": "hdfs://name:8020/lake"},
            {},
            "lake: a lake on HDFS (hdfs://) is not supported: Spark alone reaches it",
        ),
        ({"lake": "wasbs://c@a.net/lake"}, {}, "lake: a lake on Azure (wasbs://) is not supported"),
        ({"lake": "abfss://c@a.net/lake"}, {}, "must name a container and an account"),
        ({"lake": "abfss://account.dfs.core.windows.net/lake"}, {}, "must name a container and an account"),
        ({"lake": "abfss://c:key@acc.dfs.core.windows.net/lake"}, {}, "must name a container and an account"),
        (
            {"lake": AZURE_LAKE, "store": {"account_key_env": "K"}},
            KEYS,
            "store.account_key_env: the environment has no variable K",
        ),
        (
            {"lake": AZURE_LAKE, "store": {"sas_token_env": "K"}},
            KEYS,
            "store.sas_token_env: the environment has no variable K",
        ),
        ({"lake": AZURE_LAKE, "store": {"sas_token_env": "K", "account_key_env": "L"}}, {}, "keep one of them"),
        ({"lake": AZURE_LAKE, "store": {"region": "x"}}, KEY, "store.region: is not for abfss://"),
        ({"lake": "s3a://bucket", "store": {"account_key_env": "X"}}, KEYS, "store.account_key_env: is not for s3a://"),
        ({"lake": "s3a:///lake"}, KEYS, "must name a bucket"),
        (
            {"lake": "s3a://key:secret@bucket/lake"},
            KEYS,
            "must name a bucket",
        ),
        (
            {"lake": "s3a://bucket", "store": {"access_key_env": "AWS_ACCESS_KEY_ID", "secret_key_env": "S"}},
            KEYS,
            "store.secret_key_env: the environment",
        ),
        ({"lake": "s3a://bucket", "store": {"secret_key_env": "S"}}, KEYS, "are named together, or neither is"),
        ({"lake": "s3a://bucket", "store": {"session_token_env": "T"}}, KEYS, "is for the keys of access_key_env"),
        (
            {"lake": "s3a://bucket", "store": {"access_key_env": "$A"}},
            KEYS,
            "store.access_key_env: must be the name",
        ),
        (
            {"lake": "s3a://bucket", "store": {"endpoint": "s3.internal"}},
            KEYS,
            "store.endpoint: must be an address",
        ),
        ({"lake": "s3a://bucket", "store": {"endpoint": "https://u:p@h"}}, KEYS, "must hold no user"),
        ({"lake": "s3a://bucket", "store": {"endpont": "https://h"}}, KEYS, "did you mean endpoint?"),
        ({"lake": "s3a://bucket", "store": {"ca": "none.pem"}}, KEYS, "store.ca: none.pem is no file"),
        (
            {"lake": "s3a://bucket"},
            KEYS | {"AWS_ENDPOINT_URL": "http://h"},
            "store.endpoint: the environment has AWS_END",
        ),
        ({"lake": "./lake", "store": {"region": "eu-west-1"}}, {}, "store: is for a lake on an object store"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, keys: dict[str, Any], environment: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        from_keys(keys | SOURCES, tmp_path / "pipeline.yaml", environment)
    assert problem in str(refused.value)


@pytest.mark.parametrize("scheme", ["s3a", "s3", "gs", "abfss"])
def test_keys_in_the_address_of_a_lake_are_not_shown(tmp_path: Path, scheme: str) -> None:
    address = f"{scheme}://AKIAKEY:s3cret@bucket/prefix"
    with pytest.raises(ConfigError, match=r"lake: must name a (bucket|container)") as refused:
        from_keys({"lake": "${LAKE}"} | SOURCES, tmp_path / "pipeline.yaml", {"LAKE": address})
    assert not any(secret in str(refused.value) for secret in ("AKIAKEY", "s3cret"))


@pytest.mark.parametrize(
    "store, path_style", [({}, False), ({"endpoint": "http://h"}, True), ({"path_style": True}, True)]
)
def test_an_endpoint_of_ones_own_has_the_bucket_in_the_path(
    tmp_path: Path, store: dict[str, Any], path_style: bool
) -> None:
    keys = {"lake": "s3a://bucket", "store": store, **SOURCES}
    assert from_keys(keys, tmp_path / "pipeline.yaml", KEYS).store.is_path_style is path_style
