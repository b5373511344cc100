"""The object stores of a run.

Put here: the fixtures. Not here: the servers (gateway.py, azurite.py, google_store.py).
"""

import os
import uuid
from collections.abc import Iterator

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.identity import leases
from spark_jobs.storage import store_access
from tests.services.azurite import ACCOUNT_KEY, KEY, Azurite, installed
from tests.services.gateway import ACCESS, ROOT_KEY, ROOT_SECRET, SECRET, TOKEN, Gateway, built
from tests.services.google_store import GoogleStore
from tests.services.google_store import installed as google_store_program
from tests.services.token_services import Tokens, google_metadata, serving

KIND = os.environ.get("STRATALOG_TEST_STORE", "s3")
"""The kind of store that tests of stores run on: ``s3``, ``azure`` or ``google``. One a process, whose JVM has the jars
of one."""
Server = Gateway | Azurite | GoogleStore


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The server of S3, for what is of S3 alone; skipped where it cannot be had, or another kind is tested."""
    if KIND != "s3":
        pytest.skip("is of S3 alone")
    require_gateway()
    with Gateway(tmp_path_factory.mktemp("gateway")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """The server of Azure, for what is of Azure alone; skipped where it cannot be had, or another kind is tested."""
    if KIND != "azure":
        pytest.skip("is of Azure alone: STRATALOG_TEST_STORE=azure")
    require_azurite()
    with Azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture(scope="session")
def google_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleStore]:
    """The server of Google's storage, for what is of Google alone; skipped where it cannot be had."""
    if KIND != "google":
        pytest.skip("is of Google alone: STRATALOG_TEST_STORE=google")
    try:
        google_store_program()
    except ConfigError as error:
        pytest.skip(str(error))
    with GoogleStore(tmp_path_factory.mktemp("google")) as server:
        yield server


@pytest.fixture(scope="session")
def google_machine() -> Iterator[str]:
    """Google's metadata server of a machine with a service account, by host and port."""
    with serving(google_metadata(Tokens(3600))) as service:
        yield service.url.removeprefix("http://")


@pytest.fixture(scope="session")
def store_server(request: pytest.FixtureRequest) -> Server:
    """The server of the kind that is tested."""
    server: Server = request.getfixturevalue({"azure": "azurite", "google": "google_store"}.get(KIND, "gateway"))
    return server


def require_gateway() -> None:
    """Skips the test where the server cannot be had: Go builds it, from the proxy of its modules."""
    if KIND != "s3":
        pytest.skip("is of S3 alone")
    try:
        built()
    except ConfigError as error:
        pytest.skip(str(error))


def require_azurite() -> None:
    """Skips the test where the server cannot be had: npm fetches it."""
    try:
        installed()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture
def store_keys(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Keys of all kinds in the environment; settings of stores are forgotten afterwards."""
    if KIND == "google":
        monkeypatch.setenv("GCE_METADATA_HOST", request.getfixturevalue("google_machine"))
        monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
    monkeypatch.setenv(ACCESS, ROOT_KEY)
    monkeypatch.setenv(SECRET, ROOT_SECRET)
    monkeypatch.setenv(KEY, ACCOUNT_KEY)
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.setattr(store_access, "_registered", {})
    monkeypatch.setattr(store_access, "_shown", {})
    monkeypatch.setattr(leases, "_leases", {})


@pytest.fixture
def bucket(store_server: Server, store_keys: None) -> str:
    """A bucket of the test's own, and how it is reached: the address of a lake in it."""
    name = f"b-{uuid.uuid4().hex[:12]}"
    lake = store_server.make_bucket(name)
    store_access.register_store(store_server.store(name))
    return lake
