"""What a store on Azure refuses: one message that names table and path and says what to do, and no table is changed."""

import subprocess
from base64 import b64encode
from pathlib import Path

import pytest

from spark_jobs.checks.lake import check_lake
from spark_jobs.config.store import AZURE, LakeStore
from spark_jobs.storage import store_access
from tests.fix_cli import Stratalog
from tests.fix_store import require_azurite
from tests.services.azurite import ACCOUNT_KEY, HOST, KEY, Azurite
from tests.services.gateway import FaultyProxy, refusal
from tests.stores.test_refusals import pipeline

pytestmark = [pytest.mark.stores, pytest.mark.azure]

WRONG = b64encode(b"of another account").decode()


def require_one_message(output: str, text: str, path: str) -> None:
    lines = [line for line in output.splitlines() if text in line]
    assert len(lines) == 1, output
    assert path in lines[0]
    for never in ("Traceback", ACCOUNT_KEY, WRONG, "SharedKey", "<Error>", "RequestId"):
        assert never not in output, output


@pytest.mark.parametrize("verb", ["run", "status", "gc", "compact"])
@pytest.mark.parametrize(
    "key, container, text",
    [
        (
            WRONG,
            "guarded",
            f"does not accept the account key of {KEY} for the account teststore; set {KEY} to a key of it",
        ),
        (ACCOUNT_KEY, "nowhere", "there is no container nowhere in the account teststore at http://127.0.0.1:"),
    ],
    ids=["key", "container"],
)
def test_one_message_says_what_to_do(
    azurite: Azurite,
    stratalog: Stratalog,
    store_keys: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    verb: str,
    key: str,
    container: str,
    text: str,
) -> None:
    monkeypatch.setenv(KEY, key)
    lake = f"abfss://{container}@{HOST}"
    ran = stratalog(verb, "-c", pipeline(tmp_path, f"{lake}/{tmp_path.name}", azurite.keys()))
    assert ran.status == 1
    require_one_message(ran.out + ran.err, text, f"{lake}/")


@pytest.mark.parametrize(
    "code, text",
    [
        ("KeyBasedAuthenticationNotPermitted", "the account teststore does not allow requests by keys; allow them"),
        ("AccountIsDisabled", "there is no account teststore in use at http://127.0.0.1:"),
        ("InsufficientAccountPermissions", "has no permission for it; allow it to list the container"),
    ],
)
def test_answers_that_the_server_here_does_not_give(
    azurite: Azurite, stratalog: Stratalog, store_keys: None, tmp_path: Path, code: str, text: str
) -> None:
    """By a proxy in front of it that answers as Azure does."""
    lake = f"abfss://guarded@{HOST}/lake"
    with FaultyProxy(azurite.port, lambda _method, _path: refusal("403 Forbidden", code)) as proxy:
        ran = stratalog("run", "-c", pipeline(tmp_path, lake, azurite.keys() | {"endpoint": proxy.url}))
    assert ran.status == 1
    require_one_message(ran.out + ran.err, text, lake)


def test_a_key_that_the_environment_lacks_is_a_wrong_configuration(
    stratalog: Stratalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY, raising=False)
    ran = stratalog("status", "-c", pipeline(tmp_path, f"abfss://nowhere@{HOST}/lake", {"account_key_env": KEY}))
    assert ran.status == 2
    assert f"store.account_key_env: the environment has no variable {KEY}" in ran.err


def test_check_tries_what_runs_and_maintenance_need(
    azurite: Azurite, store_keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = azurite.make_bucket("checked")
    store_access.register_store(azurite.store("checked"))
    (check,) = check_lake(lake)
    assert (check.status, check.value) == ("ok", f"{lake}, by conditional puts, with the account key of {KEY}")
    monkeypatch.setenv(KEY, WRONG)
    (check,) = check_lake(lake)
    assert check.status == "problem"
    assert "does not accept the account key" in check.value


def test_a_certificate_that_is_not_trusted_until_it_is_named(
    azurite: Azurite, store_keys: None, tmp_path: Path
) -> None:
    require_azurite()
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-nodes"]
    extensions = ["-addext", "basicConstraints=critical,CA:FALSE", "-newkey", "rsa:2048"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *subject, *extensions, *files], check=True, capture_output=True)
    with Azurite(tmp_path / "tls", tls=(certificate, key)) as server:
        store_access.register_store(LakeStore(f"secure@{HOST}", server.settings(), AZURE))
        (check,) = check_lake(f"abfss://secure@{HOST}/lake")
        assert check.status == "problem"
        assert "certificate of https://127.0.0.1:" in check.value
        store_access.register_store(LakeStore(f"secure@{HOST}", server.settings(ca=certificate), AZURE))
        (check,) = check_lake(f"abfss://secure@{HOST}/lake")
        assert "there is no container secure" in check.value
