"""A process without keys in its environment reaches a store by the identity that its machine has in the cloud.

Put here: keys and tokens that end within seconds, during commits and reads; each server refuses those that have ended.
Not here: what each service of a cloud is asked (spark_jobs/identity).
"""

import json
import os
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from spark_jobs.checks.lake import check_lake
from spark_jobs.config.store import AZURE, LakeStore, ObjectStore, store_of
from spark_jobs.delta import data_files
from spark_jobs.delta.commits import commit, write_checkpoint
from spark_jobs.delta.log_files import opened_by_deltalake
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.errors import ConfigError, LakeError
from spark_jobs.runtime.provision import cache_dir
from spark_jobs.storage import store_access
from tests.fix_store import require_azurite
from tests.services.azurite import HOST, Azurite, signature_for
from tests.services.gateway import ROOT_KEY, ROOT_SECRET, Gateway, SessionGuard
from tests.services.google_store import GoogleStore, TokenGuard
from tests.services.identities import environment
from tests.services.token_services import Answer, Asked, Tokens, google_metadata, instance, moment, serving

__all__ = ["environment"]

pytestmark = pytest.mark.stores

ROOT, CACHE = Path(__file__).parents[2], cache_dir()
LIFETIME, SECONDS = 2.0, 5.0
NAMED = ("access_key_env", "secret_key_env", "session_token_env")


def commit_for(path: str, seconds: float) -> int:
    """Commits to a new table, and reads it in every way, until the time is over. Returns the number of commits."""
    commit(new_table(path, {"a": "INT"}, {}))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        snapshot = snapshot_of(path)
        assert snapshot
        version = commit(snapshot, user_metadata="of a test")
        assert opened_by_deltalake(path).version() == version
        assert write_checkpoint(path, version)
    snapshot = snapshot_of(path)
    assert snapshot
    return snapshot.version


def test_the_keys_of_an_instance_end_amid_commits(
    gateway: Gateway, store_keys: None, environment: pytest.MonkeyPatch, summary: list[str]
) -> None:
    tokens = Tokens(LIFETIME + 1)  # times of AWS have no fractions
    gateway.make_bucket("by-instance")
    lake = "s3a://by-instance/lake"

    def keys() -> dict[str, object]:
        end = moment(tokens.seconds)
        return {"AccessKeyId": ROOT_KEY, "SecretAccessKey": ROOT_SECRET, "Token": tokens.give(), "Expiration": end}

    with serving(instance(keys)) as machine, SessionGuard(gateway.port, tokens) as guard:
        environment.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.url)
        store_access.register_store(
            LakeStore("by-instance", gateway.settings(endpoint=guard.url, **dict.fromkeys(NAMED)))
        )
        (check,) = check_lake(lake)
        assert (check.status, check.value) == (
            "ok",
            f"{lake}, by conditional puts, with the keys of the role of this instance",
        )
        commits = commit_for(f"{lake}/t", SECONDS)
        assert guard.refused == 0
    assert len(tokens.ends) >= 3
    summary.append(f"S3: {commits} commits by the role of an instance, {len(tokens.ends)} sessions of 3 s")


def test_a_session_that_the_store_ended_is_told(
    gateway: Gateway, store_keys: None, environment: pytest.MonkeyPatch
) -> None:
    gateway.make_bucket("ended")
    environment.setenv("AWS_ACCESS_KEY_ID", ROOT_KEY)
    environment.setenv("AWS_SECRET_ACCESS_KEY", ROOT_SECRET)
    environment.setenv("AWS_SESSION_TOKEN", "ended")
    with SessionGuard(gateway.port, Tokens(1)) as guard:
        store_access.register_store(LakeStore("ended", gateway.settings(endpoint=guard.url, **dict.fromkeys(NAMED))))
        with pytest.raises(LakeError) as refused:
            commit(new_table("s3a://ended/lake/t", {"a": "INT"}, {}))
    assert "the session token of AWS_ACCESS_KEY_ID has expired; set AWS_ACCESS_KEY_ID and" in str(refused.value)
    assert ROOT_SECRET not in str(refused.value)


def test_no_identity_is_one_message_with_what_was_tried(environment: pytest.MonkeyPatch, store_keys: None) -> None:
    environment.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
    environment.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")
    environment.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    for root, tried in [
        ("s3a://lake", ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "the profile default", "EC2 instance"]),
        (f"abfss://lake@{HOST}", ["AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "the Azure instance metadata"]),
        ("gs://lake", ["GOOGLE_APPLICATION_CREDENTIALS", "application_default_credentials.json", "metadata server"]),
    ]:
        store_access.register_store(store_of(root, store_access.settings_of(root)))
        with pytest.raises(ConfigError, match="has no identity that the store could be shown: there is no") as refused:
            store_access.client(root)
        message = str(refused.value)
        assert [message.index(name) for name in tried] == sorted(message.index(name) for name in tried)
        assert message.endswith("and on a cluster each executor")


@pytest.mark.google
def test_the_tokens_of_a_machine_on_google_end_amid_commits(
    google_store: GoogleStore, store_keys: None, environment: pytest.MonkeyPatch, summary: list[str]
) -> None:
    lake, tokens = google_store.make_bucket("by-machine"), Tokens(LIFETIME)
    with TokenGuard(google_store, tokens) as guard, serving(google_metadata(tokens)) as machine:
        store_access.register_store(google_store.store("by-machine", endpoint=guard.url))
        environment.setenv("GCE_METADATA_HOST", machine.url.removeprefix("http://"))
        (check,) = check_lake(lake)
        assert check.status == "ok", check
        assert check.value.endswith("by conditional puts, with the token of the service account of this machine")
        commits = commit_for(f"{lake}/t", SECONDS)
        assert guard.refused == 0
        assert len(tokens.ends) >= 3
        tokens.ends.clear()
        with pytest.raises(LakeError, match="the store does not accept the token of the service account"):
            commit(new_table(f"{lake}/other", {"a": "INT"}, {}))
    summary.append(f"Google: {commits} commits by a machine's service account, its tokens valid for {LIFETIME:g} s")


@pytest.mark.azure
def test_a_shared_access_signature_is_enough_until_it_ends(
    azurite: Azurite, store_keys: None, environment: pytest.MonkeyPatch
) -> None:
    lake = azurite.make_bucket("by-signature")
    store_access.register_store(azurite.store("by-signature", account_key_env=None, sas_token_env="SIGNATURE"))
    environment.setenv("SIGNATURE", f"?{signature_for('by-signature', 600)}")
    (check,) = check_lake(lake)
    assert check.status == "ok", check
    assert check.value.endswith("by conditional puts, with the shared access signature of SIGNATURE")
    assert commit_for(f"{lake}/t", 0.5)
    for signature in (signature_for("by-signature", -60), signature_for("by-signature", 600, "rl")):
        environment.setenv("SIGNATURE", signature)
        with pytest.raises(LakeError) as refused:
            commit(new_table(f"{lake}/other", {"a": "INT"}, {}))
        assert "signature of SIGNATURE has no permission for it, or has ended; allow it to list" in str(refused.value)
        assert signature.rpartition("sig=")[2] not in str(refused.value)


def token_of_entra(seconds: float) -> str:
    """A token as Entra gives it, without a signature that anybody checks; the server reads its times and claims."""
    now = int(time.time())
    claims = {
        "aud": "https://storage.azure.com",
        "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
        "nbf": now - 60,
        "iat": now - 60,
        "exp": now + seconds,
    }
    parts = [json.dumps(part).encode() for part in ({"typ": "JWT", "alg": "RS256"}, claims)]
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in (*parts, b"signature"))


def read_by_spark(path: str, settings: ObjectStore) -> str:
    """What a process of its own reads of a table with two rows, by the JVM's file system alone."""
    version = commit(new_table(path, {"a": "INT"}, {}))
    snapshot = snapshot_of(path)
    assert snapshot
    file = data_files.write(path, pa.table({"a": pa.array([1, 2], pa.int32())}), snapshot.schema, {})
    assert commit(snapshot, adds=[file]) == version + 1
    command = [sys.executable, "-m", "tests.stores.reading", path, settings.model_dump_json()]
    # The home of the test has no profiles, and no jars either.
    variables = os.environ | {"STRATALOG_CACHE": str(CACHE)}
    ran = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[:3000]
    return ran.stdout.strip()


@pytest.mark.long
def test_spark_has_the_keys_of_the_instance(
    gateway: Gateway, store_keys: None, environment: pytest.MonkeyPatch, summary: list[str]
) -> None:
    tokens = Tokens(3600)
    gateway.make_bucket("spark-by-instance")

    def keys() -> dict[str, object]:
        end = moment(3600)
        return {"AccessKeyId": ROOT_KEY, "SecretAccessKey": ROOT_SECRET, "Token": tokens.give(), "Expiration": end}

    with serving(instance(keys)) as machine, SessionGuard(gateway.port, tokens) as guard:
        environment.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.url)
        settings = gateway.settings(endpoint=guard.url, **dict.fromkeys(NAMED))
        store_access.register_store(LakeStore("spark-by-instance", settings))
        assert read_by_spark("s3a://spark-by-instance/lake/t", settings) == "[(1,), (2,)]"
        assert guard.refused == 0
        assert len(tokens.ends) >= 2, "the JVM asked the machine, too"
    summary.append("S3: Spark reads by the role of an instance")


@pytest.mark.azure
def test_the_tokens_of_a_machine_on_azure_end_amid_commits(
    store_keys: None, environment: pytest.MonkeyPatch, tmp_path: Path, summary: list[str]
) -> None:
    """Azurite takes tokens over TLS alone, and refuses those whose time is over."""
    require_azurite()
    given: list[str] = []

    def answer(asked: Asked) -> Answer:
        if asked.headers.get("metadata") != "true":
            return 400, {"error": "invalid_request"}
        assert parse_qs(urlsplit(asked.path).query)["resource"] == ["https://storage.azure.com"]
        given.append(token_of_entra(3))
        return 200, {"access_token": given[-1], "expires_in": "3"}

    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-nodes"]
    extensions = ["-addext", "basicConstraints=critical,CA:FALSE", "-newkey", "rsa:2048"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *subject, *extensions, *files], check=True, capture_output=True)
    lake = f"abfss://by-machine@{HOST}/lake"
    with Azurite(tmp_path / "tls", tls=(certificate, key), takes_tokens=True) as server, serving(answer) as machine:
        environment.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", machine.url)
        environment.setenv("SSL_CERT_FILE", str(certificate))  # deltalake reads no other file
        settings = server.settings(ca=certificate, account_key_env=None)
        server.make_bucket("by-machine", certificate)
        store_access.register_store(LakeStore(f"by-machine@{HOST}", settings, AZURE))
        (check,) = check_lake(lake)
        assert check.status == "ok", check
        assert check.value.endswith("by conditional puts, with the token of the managed identity of this machine")
        commits = commit_for(f"{lake}/t", SECONDS)
        count = len(given)
        assert count >= 3
    summary.append(f"Azure: {commits} commits by a managed identity, {len(given)} tokens of 3 s")
