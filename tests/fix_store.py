"""The S3 server of a run. Put here: the fixtures. Not here: the server (gateway.py)."""

import uuid
from collections.abc import Iterator

import pytest

from spark_jobs.config.store import LakeStore
from spark_jobs.errors import ConfigError
from spark_jobs.storage import reach
from tests.gateway import ACCESS, ROOT_KEY, ROOT_SECRET, SECRET, TOKEN, Gateway, built


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The server; tests are skipped where Go, which builds it, is not here."""
    require_gateway()
    with Gateway(tmp_path_factory.mktemp("gateway")) as server:
        yield server


def require_gateway() -> None:
    """Skips the test where the server cannot be had: Go builds it, from the proxy of its modules."""
    try:
        built()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture
def store_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root's keys in the environment; settings of stores are forgotten afterwards."""
    monkeypatch.setenv(ACCESS, ROOT_KEY)
    monkeypatch.setenv(SECRET, ROOT_SECRET)
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.setattr(reach, "_in_use", {})


@pytest.fixture
def bucket(gateway: Gateway, store_keys: None) -> str:
    """A bucket of the test's own, and how it is reached: the address of a lake in it."""
    name = f"b-{uuid.uuid4().hex[:12]}"
    lake = gateway.make_bucket(name)
    reach.use(LakeStore(name, gateway.settings()))
    return lake
