"""The Spark session's settings stay out of Dagster, and what a step hands on stays in its run."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_project.resources import GivenSparkSessions, InMemoryIOManager, SparkSessions
from spark_jobs.config.model import Spark
from spark_jobs.runtime import spark_session

pytestmark = pytest.mark.dagster


def test_a_session_has_the_configuration_s_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources: {shop: {files: .}}\nspark: {master: spark://there, conf: {key: secret}}\n")
    settings: list[Spark] = []
    monkeypatch.setattr(spark_session, "spark_session", settings.append)
    resource = SparkSessions(configuration=str(path))
    resource.session()
    assert settings == [Spark(master="spark://there", conf={"key": "secret"})]
    assert "secret" not in str(resource.model_dump())


def test_settings_that_are_given_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    settings_used: list[Spark] = []
    monkeypatch.setattr(spark_session, "spark_session", settings_used.append)
    settings = Spark(remote="sc://there", conf={"key": "secret"})
    GivenSparkSessions(settings).session()
    assert settings_used == [settings]


def test_an_outcome_reaches_the_next_step_and_no_other_run() -> None:
    outcomes: list[Any] = []

    @dg.op(out=dg.Out(io_manager_key="handed_on"))
    def first() -> object:
        return {"an": object()}

    @dg.op
    def second(outcome: Any) -> None:
        outcomes.append(outcome)

    @dg.job(resource_defs={"handed_on": dg.IOManagerDefinition.hardcoded_io_manager(InMemoryIOManager())})
    def both_steps() -> None:
        second(first())

    with dg.DagsterInstance.ephemeral() as instance:
        result = both_steps.execute_in_process(instance=instance)
        second_result = both_steps.execute_in_process(instance=instance, op_selection=["first"])
    assert list(outcomes[0]) == ["an"]
    assert result.success
    assert second_result.success
    assert len(outcomes) == 1
