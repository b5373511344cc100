import os

import pytest

from spark_jobs.errors import StratalogError
from spark_jobs.runtime.standing.attach import attach
from spark_jobs.runtime.standing.overview import sessions, stop
from tests.fix_keeper import Wishes, wait_until


def test_a_session_is_listed_with_what_it_takes_and_who_has_it(wish: Wishes) -> None:
    attachment = attach(wish(keep=300))
    (session,) = sessions()
    state = attachment.folder.state()
    assert state
    assert (session.pid, session.address, session.keep) == (state.server, f"127.0.0.1:{attachment.port}", 300)
    assert [run.pid for run in session.runs] == [os.getpid()]
    assert session.age is not None
    assert session.age < 60
    assert session.idle == 0
    assert session.memory > 1 << 20
    assert attachment.token not in str(session.as_json())
    attachment.detach()
    wait_until(lambda: sessions()[0].idle > 0)


def test_a_session_with_a_run_is_stopped_by_force_alone(wish: Wishes) -> None:
    attachment = attach(wish())
    with pytest.raises(StratalogError, match=rf"under way: .* \(process {os.getpid()}\); wait for their end"):
        stop(sessions()[0], force=False)
    assert len(sessions()) == 1
    stop(sessions()[0], force=True)
    assert sessions() == []
    attachment.detach()


def test_an_unused_session_is_stopped(wish: Wishes) -> None:
    attach(wish()).detach()
    stop(sessions()[0], force=False)
    assert sessions() == []
