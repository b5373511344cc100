import time

import pytest

from spark_jobs.identity.errors import CredentialsError
from spark_jobs.identity.leases import TimedSecret, leased
from tests.services.identities import environment

__all__ = ["environment"]


def test_a_lease_outlives_a_service_that_fails_until_its_end(environment: pytest.MonkeyPatch) -> None:
    def fails(is_passing: bool) -> TimedSecret:
        raise CredentialsError("it answered with status 503", is_passing)

    assert leased("key", lambda: TimedSecret("first", time.time() + 1)).value == "first"
    assert "first" not in repr(TimedSecret("first", 1.0))
    time.sleep(0.6)  # past half its time
    assert leased("key", lambda: fails(True)).value == "first"
    with pytest.raises(CredentialsError):
        leased("key", lambda: fails(False))
    time.sleep(0.5)
    with pytest.raises(CredentialsError):
        leased("key", lambda: fails(True))
    assert leased("key", lambda: TimedSecret("second", time.time() + 3600)).value == "second"
