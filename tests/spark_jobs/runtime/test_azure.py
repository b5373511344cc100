import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from spark_jobs.config.store import AZURE, LakeStore, ObjectStore
from spark_jobs.runtime.azure import HADOOP_AZURE, azure_confs
from tests.services.identities import environment

__all__ = ["environment"]

BUCKET = "lake@account.dfs.core.windows.net"
HADOOP = "spark.hadoop.fs.azure"


def test_abfs_is_of_the_hadoop_that_pyspark_has() -> None:
    (client,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    assert HADOOP_AZURE[0].version == client.stem.removeprefix("hadoop-client-api-")


def test_settings_name_a_variable_and_hold_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "of nobody's business")
    confs = azure_confs(LakeStore(BUCKET, ObjectStore(account_key_env="KEY"), AZURE))
    assert confs[f"{HADOOP}.account.keyprovider.account.dfs.core.windows.net"] == "stratalog.EnvironmentKey"
    assert confs[f"{HADOOP}.stratalog.account_key_env"] == "KEY"
    assert "business" not in str(confs)
    assert f"{HADOOP}.abfs.endpoint" not in confs
    assert not [key for key in confs if "hns" in key or "fns" in key], "ABFS finds out what the account has"


def test_each_kind_of_credential_has_its_provider(environment: pytest.MonkeyPatch) -> None:
    store = LakeStore(BUCKET, ObjectStore(), AZURE)
    confs = azure_confs(store)
    assert confs[f"{HADOOP}.account.auth.type"] == "Custom"
    assert confs[f"{HADOOP}.account.oauth.provider.type"] == "stratalog.EnvironmentToken"
    environment.setenv("AZURE_STORAGE_SAS_TOKEN", "geheim")
    confs = azure_confs(store)
    assert confs[f"{HADOOP}.account.auth.type"] == "SAS"
    assert confs[f"{HADOOP}.stratalog.sas_token_env"] == "AZURE_STORAGE_SAS_TOKEN"
    environment.setenv("AZURE_STORAGE_KEY", "geheim")
    confs = azure_confs(store)
    assert confs[f"{HADOOP}.account.auth.type"] == "SharedKey"
    assert "geheim" not in str(confs)


@pytest.mark.parametrize(
    "endpoint, address, is_plain",
    [
        ("http://127.0.0.1:10000", "127.0.0.1:10000", True),
        ("http://blobs.internal", "blobs.internal:80", True),
        ("https://blobs.internal", "blobs.internal:443", False),
    ],
)
def test_an_endpoint_of_ones_own_has_the_account_in_the_path(endpoint: str, address: str, is_plain: bool) -> None:
    confs = azure_confs(LakeStore(BUCKET, ObjectStore(endpoint=endpoint), AZURE))
    assert confs[f"{HADOOP}.abfs.endpoint"] == address
    assert (confs.get(f"{HADOOP}.always.use.https") == "false") is is_plain


@pytest.mark.stores
@pytest.mark.azure
def test_the_command_prints_the_jars() -> None:
    lines = subprocess.run(
        [sys.executable, "-m", "spark_jobs.runtime.azure"], check=True, capture_output=True, text=True
    ).stdout.split()
    assert [Path(line).name for line in lines] == ["hadoop-azure-3.5.0.jar", "stratalog-azure.jar"]
    assert all(Path(line).is_file() for line in lines)
