import pytest

from spark_jobs.config.store import ObjectStore
from spark_jobs.errors import ConfigError
from spark_jobs.storage.credentials import Credential, credential_of, variables_of
from tests.services.identities import environment

__all__ = ["environment"]

AZURE_ROOT = "abfss://lake@acc.dfs.core.windows.net"
NAMED = ObjectStore(access_key_env="KEY", secret_key_env="SECRET", session_token_env="TOKEN")


def test_variables_that_are_named_are_the_only_ones(environment: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        environment.setenv(name, "of another account")
    with pytest.raises(ConfigError, match="has no variable KEY; set it for the process, and on a cluster for executo"):
        credential_of("s3a://lake", NAMED)
    environment.setenv("KEY", "A")
    environment.setenv("SECRET", "S")
    assert credential_of("s3a://lake", NAMED) == Credential("keys", ("A", "S", ""), "KEY")
    environment.setenv("TOKEN", "T")
    assert credential_of("s3a://lake", NAMED).values == ("A", "S", "T")
    assert variables_of("s3a", NAMED) == ("KEY", "SECRET", "TOKEN")


def test_keys_come_before_signatures_and_tokens(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=x")
    signature = credential_of(AZURE_ROOT, ObjectStore())
    assert (signature.kind, signature.values) == ("shared access signature", ("sv=1&sig=x",))
    environment.setenv("AZURE_STORAGE_KEY", "a2V5")
    assert credential_of(AZURE_ROOT, ObjectStore()).kind == "account key"
    assert credential_of(AZURE_ROOT, ObjectStore(sas_token_env="AZURE_STORAGE_SAS_TOKEN")) == signature


def test_the_text_of_a_credential_has_none(environment: pytest.MonkeyPatch) -> None:
    assert "geheim" not in repr(Credential("token", ("geheim",), "x"))


@pytest.mark.parametrize(
    "scheme, name", [("s3a", "AWS_PROFILE"), ("abfss", "AZURE_CLIENT_ID"), ("gs", "CLOUDSDK_CONFIG")]
)
def test_what_decides_who_a_process_is_has_names(scheme: str, name: str) -> None:
    """A session that stays is given these variables, and is another one where they differ."""
    assert name in variables_of(scheme, ObjectStore())
