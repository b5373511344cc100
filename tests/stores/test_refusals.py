"""What a store refuses: one message that names table and path and says what to do, and tables as they were."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from spark_jobs.checks.lake import check_lake
from spark_jobs.config.store import LakeStore
from spark_jobs.delta.commits import commit
from spark_jobs.delta.log_files import read_commit
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.demo.recorded import recorded_files
from spark_jobs.errors import LakeError
from spark_jobs.storage import store_access
from spark_jobs.storage.objects import ObjectPath
from tests.fix_cli import Stratalog
from tests.fix_store import require_gateway
from tests.services.gateway import ACCESS, ROOT_KEY, ROOT_SECRET, SECRET, TOKEN, FaultyProxy, Gateway, refusal

pytestmark = pytest.mark.stores

READER, CLERK = ("reader-of-tests", "secret-of-the-reader"), ("clerk-of-tests", "secret-of-the-clerk")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A server whose bucket ``guarded`` one user may not list, and another may not delete from."""
    require_gateway()
    with Gateway(tmp_path_factory.mktemp("guarded"), users=dict([READER, CLERK])) as server:
        server.make_bucket("guarded")
        objects, bucket = "arn:aws:s3:::guarded/*", "arn:aws:s3:::guarded"
        rules = [
            (READER[0], ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], objects),
            (CLERK[0], ["s3:GetObject", "s3:PutObject"], objects),
            (CLERK[0], ["s3:ListBucket"], bucket),
        ]
        statements = [
            {"Effect": "Allow", "Principal": {"AWS": [user]}, "Action": actions, "Resource": resource}
            for user, actions, resource in rules
        ]
        server.allow("guarded", json.dumps({"Version": "2012-10-17", "Statement": statements}))
        yield server


def pipeline(folder: Path, lake: str, store: Mapping[str, object]) -> Path:
    """A pipeline.yaml over the recorded binlogs."""
    (folder / "binlogs").mkdir(exist_ok=True)
    for file in recorded_files():
        shutil.copy(file, folder / "binlogs")
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"lake": lake, "store": dict(store), "sources": {"shop": {"files": "./binlogs"}}}))
    return path


def answering(status: str, code: str) -> Callable[[str, str], bytes]:
    return lambda _method, _path: refusal(status, code)


@pytest.mark.parametrize("verb", ["run", "status", "gc", "compact"])
@pytest.mark.parametrize(
    "keys, bucket, text",
    [
        (
            (ROOT_KEY, "wrong"),
            "b",
            "the secret key of TEST_STORE_KEY is not that of its access key; set TEST_STORE_KEY and TEST_STORE_SEC",
        ),
        (
            ("nobody", "wrong"),
            "b",
            "does not know the access key of TEST_STORE_KEY; set TEST_STORE_KEY and TEST_STORE_SEC",
        ),
        ((ROOT_KEY, ROOT_SECRET), "nowhere", "there is no bucket nowhere at http://127.0.0.1:"),
        (READER, "guarded", "the keys of TEST_STORE_KEY have no permission for it; allow them to list the bucket (s3:"),
    ],
    ids=["secret", "key", "bucket", "list"],
)
def test_one_message_says_what_to_do(
    guarded: Gateway,
    stratalog: Stratalog,
    store_keys: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    verb: str,
    keys: tuple[str, str],
    bucket: str,
    text: str,
) -> None:
    bucket = "guarded" if bucket == "b" else bucket
    monkeypatch.setenv(ACCESS, keys[0])
    monkeypatch.setenv(SECRET, keys[1])
    path = pipeline(tmp_path, f"s3a://{bucket}/{tmp_path.name}", guarded.keys())
    ran = stratalog(verb, "-c", path)
    assert ran.status == 1
    require_one_message(ran.out + ran.err, text, f"s3a://{bucket}/")
    assert not list(guarded.data.glob(f"*/{tmp_path.name}/**/*.json")), "nothing is written"


def require_one_message(output: str, text: str, path: str) -> None:
    lines = [line for line in output.splitlines() if text in line]
    assert len(lines) == 1, output
    assert path in lines[0]
    for never in ("Traceback", ROOT_SECRET, "wrong", "Signature", "AWS4", "<Error>"):
        assert never not in output, output


@pytest.mark.parametrize(
    "status, code, text",
    [
        (
            "403 Forbidden",
            "ExpiredToken",
            "the session token of TEST_STORE_KEY has expired; set TEST_STORE_KEY and TEST_STORE_SECRET",
        ),
        ("403 Forbidden", "InvalidToken", "the session token of TEST_STORE_KEY is not valid"),
        (
            "403 Forbidden",
            "RequestTimeTooSkewed",
            "the clocks of this machine and of the store differ too much; set the",
        ),
        (
            "400 Bad Request",
            "AuthorizationHeaderMalformed",
            "the bucket is in another region than us-east-1; set store.reg",
        ),
        (
            "301 Moved Permanently",
            "PermanentRedirect",
            "the bucket is in another region than us-east-1; set store.region",
        ),
    ],
)
def test_answers_that_the_server_here_does_not_give(
    guarded: Gateway, stratalog: Stratalog, store_keys: None, tmp_path: Path, status: str, code: str, text: str
) -> None:
    """By a proxy in front of it that answers as AWS does."""
    with FaultyProxy(guarded.port, answering(status, code)) as proxy:
        path = pipeline(tmp_path, "s3a://guarded/lake", guarded.keys() | {"endpoint": proxy.url})
        ran = stratalog("run", "-c", path)
    assert ran.status == 1
    require_one_message(ran.out + ran.err, text, "s3a://guarded/lake/")


@pytest.mark.parametrize(
    "status, code",
    [
        ("507 Insufficient Storage", "InsufficientStorage"),
        ("507 Insufficient Storage", "XMinioStorageFull"),
        ("403 Forbidden", "QuotaExceeded"),
    ],
)
def test_a_store_that_is_full(guarded: Gateway, store_keys: None, status: str, code: str) -> None:
    """As versitygw, MinIO and Ceph say it; what was there can still be read, and once there is room it goes on."""
    puts: list[str] = []

    def full(method: str, path: str) -> bytes | None:
        if method != "PUT":
            return None
        puts.append(path)
        return refusal(status, code)

    store_access.register_store(LakeStore("guarded", guarded.settings()))
    version = commit(new_table(f"s3a://guarded/{code}", {"a": "INT"}, {}))
    with FaultyProxy(guarded.port, full) as proxy:
        store_access.register_store(LakeStore("guarded", guarded.settings(endpoint=proxy.url)))
        with pytest.raises(LakeError) as raised:
            commit(new_table(f"s3a://guarded/{code}-2", {"a": "INT"}, {}))
        snapshot = snapshot_of(f"s3a://guarded/{code}")
        assert snapshot is not None
        assert snapshot.version == version
    require_one_message(str(raised.value), "the store has no space left, or no more of it for guarded; free", code)
    assert len(puts) <= 5, "a put that is refused for want of space is not sent again and again"
    store_access.register_store(LakeStore("guarded", guarded.settings()))
    assert read_commit(f"s3a://guarded/{code}-2", 0) is None
    commit(new_table(f"s3a://guarded/{code}-2", {"a": "INT"}, {}))


def test_a_clock_that_is_wrong(guarded: Gateway, store_keys: None, tmp_path: Path) -> None:
    """The server's own answer, to a process whose clock is an hour late."""
    faketime = shutil.which("faketime")
    if faketime is None:
        pytest.skip("faketime is not installed")
    path = pipeline(tmp_path, "s3a://guarded/lake", guarded.keys())
    command = [faketime, "-f", "-1h", str(Path(".venv/bin/stratalog").absolute()), "status", "-c", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    require_one_message(ran.stdout + ran.stderr, "the clocks of this machine and of the store differ", "s3a://guarded/")


def test_a_store_that_does_not_answer(stratalog: Stratalog, store_keys: None, tmp_path: Path) -> None:
    store = {"endpoint": "http://127.0.0.1:9", "access_key_env": ACCESS, "secret_key_env": SECRET}
    ran = stratalog("status", "-c", pipeline(tmp_path, "s3a://nowhere/lake", store))
    assert ran.status == 1
    text = "the store does not answer at http://127.0.0.1:9; check store.endpoint and the network"
    require_one_message(ran.out + ran.err, text, "s3a://nowhere/lake")


def test_keys_that_the_environment_lacks_are_a_wrong_configuration(
    stratalog: Stratalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ACCESS, raising=False)
    monkeypatch.delenv(SECRET, raising=False)
    store = {"access_key_env": ACCESS, "secret_key_env": SECRET, "session_token_env": TOKEN}
    ran = stratalog("status", "-c", pipeline(tmp_path, "s3a://nowhere/lake", store))
    assert ran.status == 2
    assert f"store.access_key_env: the environment has no variable {ACCESS}" in ran.err
    assert f"store.secret_key_env: the environment has no variable {SECRET}" in ran.err


@pytest.mark.parametrize(
    "keys, status, text",
    [
        ((ROOT_KEY, ROOT_SECRET), "ok", "by conditional puts"),
        (READER, "problem", "no permission"),
        (CLERK, "problem", "no permission"),
    ],
)
def test_check_tries_what_runs_and_maintenance_need(
    guarded: Gateway, store_keys: None, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, str], status: str, text: str
) -> None:
    monkeypatch.setenv(ACCESS, keys[0])
    monkeypatch.setenv(SECRET, keys[1])
    store_access.register_store(LakeStore("guarded", guarded.settings()))
    (check,) = check_lake("s3a://guarded/lake")
    assert check.status == status
    assert text in check.value


def test_a_store_that_overwrites_is_refused(store_keys: None, tmp_path: Path) -> None:
    """versitygw without metadata takes a conditional put and overwrites."""
    require_gateway()
    with Gateway(tmp_path / "careless", keeps_metadata=False) as server:
        lake = server.make_bucket("careless")
        store_access.register_store(LakeStore("careless", server.settings()))
        (check,) = check_lake(lake)
        assert check.status == "problem"
        assert "the store overwrites objects in spite of If-None-Match" in check.value
        with pytest.raises(LakeError, match=r"s3a://careless/lake/t: cannot be written: the store overwrites"):
            commit(new_table(f"{lake}/t", {"a": "INT"}, {}))
        assert read_commit(f"{lake}/t", 0) is None


def test_a_certificate_that_is_not_trusted_until_it_is_named(store_keys: None, tmp_path: Path) -> None:
    require_gateway()
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-nodes"]
    # Clients here refuse a server's certificate that could sign others.
    extensions = ["-addext", "basicConstraints=critical,CA:FALSE", "-newkey", "rsa:2048"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *subject, *extensions, *files], check=True, capture_output=True)
    with Gateway(tmp_path / "tls", tls=(certificate, key)) as server:
        (server.data / "secure").mkdir()
        store_access.register_store(LakeStore("secure", server.settings()))
        path = ObjectPath("secure", "lake")
        (check,) = check_lake(str(path))
        assert check.status == "problem"
        assert re.search(r"certificate of https://127\.0\.0\.1:\d+ is not trusted", check.value)
        assert "store.ca" in check.remedy
        store_access.register_store(LakeStore("secure", server.settings(ca=certificate)))
        (check,) = check_lake(str(path))
        assert check.status == "ok", check
