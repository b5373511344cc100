"""The extracting step where there is no lake and no Spark; with both it is tested in test_chain.py."""

from pathlib import Path

import dagster as dg
import pytest

from tests.fix_mysql import Database
from tests.lakes.code_location import location

pytestmark = pytest.mark.dagster


def test_a_source_that_is_away_fails_the_step_with_its_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assets.failures.RETRY", dg.RetryPolicy(max_retries=0))
    with location(tmp_path) as shop:
        ran = shop.run()
    assert not ran.success
    (message,) = ran.failures.values()
    assert "binlogs cannot be read" in message
    assert ran.materialized == {}


def test_a_failing_source_leaves_the_others_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assets.failures.RETRY", dg.RetryPolicy(max_retries=0))
    sources = {"shop": {"files": "./binlogs"}, "archive": {"files": "./archive"}}
    with location(tmp_path, sources=sources) as code_location:
        assert set(code_location.run().failures) == {"source_shop.extract", "source_archive.extract"}


@pytest.mark.mysql
@pytest.mark.parametrize(
    "password, text",
    [("wrong-1", "check the user or password of 'denied'"), ("right-1", "GRANT REPLICATION CLIENT ON *.* TO")],
)
def test_a_wrong_password_and_a_missing_privilege_fail_the_step_at_once(
    password: str, text: str, tmp_path: Path, database: Database
) -> None:
    database.execute("CREATE USER denied@'%' IDENTIFIED BY 'right-1'")
    server = {"host": database.server.host, "port": database.server.port, "user": "denied", "password": password}
    try:
        with location(tmp_path, sources={"shop": {"mysql": server}}) as shop:
            ran = shop.run()
            entries = shop.instance.all_logs(ran.run.run_id)
    finally:
        database.execute("DROP USER denied@'%'")
    (message,) = ran.failures.values()
    assert text in message
    assert "STEP_UP_FOR_RETRY" not in [entry.dagster_event.event_type_value for entry in entries if entry.dagster_event]
