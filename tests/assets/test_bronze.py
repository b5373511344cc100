"""The extracting step where there is no lake and no Spark; with both it is tested in test_chain.py."""

from pathlib import Path

import dagster as dg
import pytest

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
